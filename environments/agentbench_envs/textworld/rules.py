"""The rules of our own worlds, in the language of `logic`: rooms, doors, containers, supporters, food, keys; cooking.

The rules are TextWorld's (Côté et al. 2018), so that a plan means the same in both; the kitchen is a simpler
one than that of the cooking challenge: food is raw, fried or roasted, and burns when it is cooked again.
"""

from typing import Final

_THINGS = """
type t {
    rules { examine/t :: $at(P, r) & $at(t, r) -> at(P, r); }
    inform7 { commands { examine/t :: "examine {t}" :: ""; } }
}
type P {
    rules { look :: at(P, r) -> at(P, r); }
    inform7 { commands { look :: "look" :: ""; } }
}
type I {
    rules {
        inventory :: at(P, r) -> at(P, r);
        take :: $at(P, r) & at(o, r) -> in(o, I);
        drop :: $at(P, r) & in(o, I) -> at(o, r);
        take/c :: $at(P, r) & $at(c, r) & $open(c) & in(o, c) -> in(o, I);
        insert :: $at(P, r) & $at(c, r) & $open(c) & in(o, I) -> in(o, c);
        take/s :: $at(P, r) & $at(s, r) & on(o, s) -> in(o, I);
        put :: $at(P, r) & $at(s, r) & in(o, I) -> on(o, s);
        examine/I :: in(o, I) -> in(o, I);
        examine/s :: $at(P, r) & $at(s, r) & $on(o, s) -> at(P, r);
        examine/c :: $at(P, r) & $at(c, r) & $open(c) & $in(o, c) -> at(P, r);
    }
    inform7 { commands {
        inventory :: "inventory" :: "";
        take :: "take {o}" :: "";
        drop :: "drop {o}" :: "";
        take/c :: "take {o} from {c}" :: "";
        insert :: "insert {o} into {c}" :: "";
        take/s :: "take {o} from {s}" :: "";
        put :: "put {o} on {s}" :: "";
        examine/I :: "examine {o}" :: "";
        examine/s :: "examine {o}" :: "";
        examine/c :: "examine {o}" :: "";
    } }
}
type o : t { }
type k : o { }
type s : t { }
type f : o {
    rules { eat :: in(f, I) -> eaten(f); }
    inform7 { commands { eat :: "eat {f}" :: ""; } }
}
type c : t {
    rules {
        open/c :: $at(P, r) & $at(c, r) & closed(c) -> open(c);
        close/c :: $at(P, r) & $at(c, r) & open(c) -> closed(c);
        lock/c :: $at(P, r) & $at(c, r) & $in(k, I) & $match(k, c) & closed(c) -> locked(c);
        unlock/c :: $at(P, r) & $at(c, r) & $in(k, I) & $match(k, c) & locked(c) -> closed(c);
    }
    inform7 { commands {
        open/c :: "open {c}" :: "";
        close/c :: "close {c}" :: "";
        lock/c :: "lock {c} with {k}" :: "";
        unlock/c :: "unlock {c} with {k}" :: "";
    } }
}
type d : t {
    rules {
        open/d :: $at(P, r) & $link(r, d, r') & closed(d) -> open(d) & free(r, r') & free(r', r);
        close/d :: $at(P, r) & $link(r, d, r') & open(d) & free(r, r') & free(r', r) -> closed(d);
        lock/d :: $at(P, r) & $link(r, d, r') & $in(k, I) & $match(k, d) & closed(d) -> locked(d);
        unlock/d :: $at(P, r) & $link(r, d, r') & $in(k, I) & $match(k, d) & locked(d) -> closed(d);
        examine/d :: $at(P, r) & $link(r, d, r') -> at(P, r);
    }
    inform7 { commands {
        open/d :: "open {d}" :: "";
        close/d :: "close {d}" :: "";
        lock/d :: "lock {d} with {k}" :: "";
        unlock/d :: "unlock {d} with {k}" :: "";
        examine/d :: "examine {d}" :: "";
    } }
}
type r {
    rules {
        go/north :: at(P, r) & $north_of(r', r) & $free(r, r') -> at(P, r');
        go/south :: at(P, r) & $north_of(r, r') & $free(r, r') -> at(P, r');
        go/west :: at(P, r) & $west_of(r', r) & $free(r, r') -> at(P, r');
        go/east :: at(P, r) & $west_of(r, r') & $free(r, r') -> at(P, r');
    }
    inform7 { commands {
        go/north :: "go north" :: "";
        go/south :: "go south" :: "";
        go/west :: "go west" :: "";
        go/east :: "go east" :: "";
    } }
}
"""

_KITCHEN = """
type stove : s {
    rules {
        cook/stove :: $at(P, r) & $at(stove, r) & $in(f, I) & raw(f) -> fried(f);
        cook/stove/fried :: $at(P, r) & $at(stove, r) & $in(f, I) & fried(f) -> burned(f);
        cook/stove/roasted :: $at(P, r) & $at(stove, r) & $in(f, I) & roasted(f) -> burned(f);
        slice :: $in(f, I) & $in(o, I) & $sharp(o) & uncut(f) -> sliced(f);
        dice :: $in(f, I) & $in(o, I) & $sharp(o) & uncut(f) -> diced(f);
        chop :: $in(f, I) & $in(o, I) & $sharp(o) & uncut(f) -> chopped(f);
    }
    inform7 { commands {
        cook/stove :: "cook {f} with {stove}" :: "";
        cook/stove/fried :: "cook {f} with {stove}" :: "";
        cook/stove/roasted :: "cook {f} with {stove}" :: "";
        slice :: "slice {f} with {o}" :: "";
        dice :: "dice {f} with {o}" :: "";
        chop :: "chop {f} with {o}" :: "";
    } }
}
type oven : c {
    rules {
        cook/oven :: $at(P, r) & $at(oven, r) & $in(f, I) & raw(f) -> roasted(f);
        cook/oven/fried :: $at(P, r) & $at(oven, r) & $in(f, I) & fried(f) -> burned(f);
        cook/oven/roasted :: $at(P, r) & $at(oven, r) & $in(f, I) & roasted(f) -> burned(f);
    }
    inform7 { commands {
        cook/oven :: "cook {f} with {oven}" :: "";
        cook/oven/fried :: "cook {f} with {oven}" :: "";
        cook/oven/roasted :: "cook {f} with {oven}" :: "";
    } }
}
"""

HOUSE: Final = _THINGS
KITCHEN: Final = _THINGS + _KITCHEN
