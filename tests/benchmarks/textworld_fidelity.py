"""Does the native TextWorld engine do what textworld from PyPI does? Both play the same commands, step by step.

    python -m tests.benchmarks.textworld_fidelity [--cache .bench] [--out fidelity.json] [--episodes 4] [GAME ...]

The original plays games made by `tw-make` as `.z8`, in a virtual environment of its own (made on the first run; it
needs a C compiler). After every command admissible commands, score, won and lost are held against ours, which knows the
`.json` alone. Commands come from three policies: `walk` follows the original's plan, `mixed` follows it half of the
time and strays otherwise, `noisy` says mostly what is no exact command. An episode ends where the two first part; the
result names the place.
"""

import argparse
import json
import random
from pathlib import Path
from typing import Any

from agentbench_envs.textworld.game import TextWorldGame

from tests.benchmarks.rival import Rival
from tests.benchmarks.textworld_speed import PIN

CUSTOM = ("custom", "--world-size", "{}", "--nb-objects", "{}", "--quest-length", "{}", "--seed", "{}")
GAMES = {
    **{
        f"w{w}-o{o}-q{q}-{seed}": " ".join(CUSTOM).format(w, o, q, seed)
        for w, o, q, seed in ((2, 3, 4, 50001), (2, 3, 4, 50003), (4, 6, 8, 1), (4, 6, 8, 3), (8, 12, 12, 1))
    },
    "breadth-2": "custom --world-size 5 --nb-objects 12 --quest-length 5 --quest-breadth 2 --seed 11",
    "breadth-2-more": "custom --world-size 5 --nb-objects 12 --quest-length 5 --quest-breadth 2 --seed 13",
    "numbered": "custom --world-size 4 --nb-objects 14 --quest-length 6 --entity-numbering --seed 21",
    **{
        f"simple-{pay}": f"tw-simple --rewards {pay} --goal detailed --seed 1"
        for pay in ("dense", "balanced", "sparse")
    },
    "treasure-15": "tw-treasure_hunter --level 15 --seed 3",
    "treasure-25": "tw-treasure_hunter --level 25 --seed 5",
    "coin-105": "tw-coin_collector --level 105 --seed 3",
    "coin-205": "tw-coin_collector --level 205 --seed 4",
    "cooking-2": "tw-cooking --recipe 2 --seed 1",
    "cooking-2-take": "tw-cooking --recipe 2 --seed 2 --take 2",
    "cooking-3-all": "tw-cooking --recipe 3 --seed 3 --take 3 --open --cook --cut --drop --go 6",
}
POLICIES = ("walk", "mixed", "noisy")
LIMIT = 40
"""Most commands of an episode."""

WHOLE = ("look", "inventory", "l", "i", "north", "e", "go up", "drop all", "take all", "eat", "take", "xyzzy", "wait",
         "examine me", "prepare meal", "open the door of perception", "", "score")  # fmt: skip
VERBS = ("take {}", "get {}", "drop {}", "open {}", "close {}", "eat {}", "x {}", "look at {}", "put {}", "put {} on",
         "put {} on {}", "insert {} into {}", "put {} in {}", "take {} from {}", "take {} from", "unlock {} with {}",
         "lock {} with {}", "cook {} with {}", "slice {} with {}", "go to {}", "pick up {}")  # fmt: skip


def noise(rng: random.Random, state: dict[str, Any]) -> str:
    """Say something that is no exact command, or one in other words."""
    command = str(rng.choice(state["admissible"]))
    things = state["entities"]
    words = command.split()
    said = (
        rng.choice(WHOLE),
        rng.choice(VERBS).format(rng.choice(things), rng.choice(things)),
        rng.choice(VERBS).format(rng.choice(rng.choice(things).split()), rng.choice(things)),
        f"  {command.upper()} ",
        command.replace("take", "get").replace("examine", "x").replace("go ", ""),
        " ".join([words[0], "the", *words[1:]]),
        " ".join(words[:-1]),
    )
    return str(rng.choice(said))


def choose(policy: str, rng: random.Random, state: dict[str, Any]) -> str:
    plan, luck = state["policy"], rng.random()
    if plan and luck < {"walk": 1.0, "mixed": 0.5, "noisy": 0.25}[policy]:
        return str(plan[0])
    if policy == "walk":
        return "look"
    return noise(rng, state) if luck > 0.75 or policy == "noisy" else str(rng.choice(state["admissible"]))


def episode(original: Rival, path: str, policy: str, seed: str) -> dict[str, Any]:
    """Play until the end, the limit, or where the two part; return the steps, and the command after which they did."""
    rng = random.Random(seed)
    game = TextWorldGame.from_json(path.replace(".z8", ".json"))
    state, command = original.ask(what="reset", path=path), "(reset)"
    for step in range(LIMIT + 1):
        ours = [game.admissible, game.score, game.won, game.lost]
        if ours != [state[key] for key in ("admissible", "score", "won", "lost")]:
            return {"episode": seed, "steps": step, "parted after": command}
        if step == LIMIT or game.won or game.lost:
            break
        command = choose(policy, rng, state)
        game.act(command)
        state = original.ask(what="step", command=command)
    return {"episode": seed, "steps": step}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("games", nargs="*", default=list(GAMES), metavar="GAME")
    parser.add_argument("--cache", type=Path, default=Path(".bench"))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--episodes", type=int, default=4, help="of each game and policy; one suffices for walk")
    arguments = parser.parse_args()
    cache = arguments.cache.resolve()
    original = Rival(cache / "textworld", [[PIN]], [Path(__file__).with_name("textworld_original.py")])
    rows: list[dict[str, Any]] = []
    for name in arguments.games:
        folder = cache / "textworld-games" / name
        folder.mkdir(parents=True, exist_ok=True)
        path = original.ask(what="make", path=str(folder / "game.z8"), arguments=GAMES[name].split())
        played = [(policy, k) for policy in POLICIES for k in range(1 if policy == "walk" else arguments.episodes)]
        rows += [episode(original, path, policy, f"{name} {policy} {k}") for policy, k in played]
        print(name, [row["parted after"] for row in rows[-len(played) :] if "parted after" in row], flush=True)
    original.close()
    result = {
        "against": PIN,
        "games": len(arguments.games),
        "episodes": len(rows),
        "steps": sum(row["steps"] for row in rows),
        "parted": sum("parted after" in row for row in rows),
        "rows": rows,
    }
    print({key: value for key, value in result.items() if key != "rows"})
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
