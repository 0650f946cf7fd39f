"""A row is what its bundle says, and whatever is changed afterwards is found."""

import gzip
import hashlib
import json
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from agentbench.core.errors import IntegrityError, RunInvalid, UsageError
from agentbench.core.reading import MOST_BYTES
from agentbench.core.records import RunDirectory, write_json
from agentbench.evaluate.bundle import Bundle, Declaration, name_of, own_file, spoken
from agentbench.evaluate.config import EvalConfig
from agentbench.evaluate.evaluate import evaluate
from agentbench.report.boards import build, stale_files
from agentbench.report.leaderboard import Board, Verdict, add, add_reproduction, boards, strays, verify
from agentbench.report.rows import LADDER, ROLES
from agentbench.report.standing import standings
from agentbench.rollout.context import ContextSpec
from tests.cli.command import agentbench, assert_one_clear_line

Lines = list[dict[str, Any]]


def play(out: Path, model: str, **more: Any) -> RunDirectory:
    values = {"model": model, "env": "sokoban/tiny:test", "episodes": 8, "out": str(out), **more}
    return RunDirectory.open(evaluate(EvalConfig.parse(values)).run_dir)


def declared(name: str) -> Declaration:
    return Declaration(name=name, by="a test")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Boards with three rows, made once."""
    folder = tmp_path_factory.mktemp("made")
    for model, trials in (("random", 2), ("oracle", 1), ("nop", 1)):
        add(folder / "boards", play(folder / "runs", model, trials=trials), declared(model))
    (folder / "boards" / "README.md").write_text("# Boards\n<!-- generated:boards -->\n<!-- end -->\n")
    build(folder / "boards")
    return folder


@pytest.fixture
def root(made: Path, tmp_path: Path) -> Path:
    """A copy of these boards, to tamper with."""
    return Path(shutil.copytree(made / "boards", tmp_path / "boards"))


def board_of(root: Path) -> Board:
    return Board.read(root / "sokoban")


def found(root: Path) -> list[Verdict]:
    board = board_of(root)
    return list(verify(board, board.measured))


def differences(root: Path) -> list[str]:
    return [verdict.difference for verdict in found(root) if verdict.difference]


def rewrite(root: Path, policy: str, change: Callable[[Lines], Any]) -> None:
    """Change a bundle and sign it again: the row names the new hash, as a careful forger would have it."""
    rows = [json.loads(line) for line in (root / "sokoban" / "rows.jsonl").read_text().splitlines()]
    row = next(row for row in rows if row["policy"] == policy)
    path = root / "sokoban" / "bundles" / name_of(row["bundle"])
    lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    change(lines)
    packed = gzip.compress("".join(json.dumps(line) + "\n" for line in lines).encode())
    path.unlink()
    row["bundle"] = hashlib.sha256(packed).hexdigest()
    (path.parent / name_of(row["bundle"])).write_bytes(packed)
    (root / "sokoban" / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def recompute(root: Path) -> None:
    """Let the forger also write the numbers that follow from what was forged."""
    from agentbench.report.rows import row_of

    board = board_of(root)
    board.rows = [row_of(board.bundle(row.bundle), row.bundle) for row in board.measured]
    board.write()
    build(root)


def longest(lines: Lines) -> dict[str, Any]:
    return max(lines[1:], key=lambda line: len(line["replies"]))


def test_what_was_not_touched_is_what_it_says(root: Path) -> None:
    assert [(verdict.difference, verdict.skipped) for verdict in found(root)] == [(None, None)] * 3
    assert sorted(verdict.replayed for verdict in found(root)) == [8, 8, 16]
    assert list(strays(board_of(root))) == []
    assert stale_files(root) == {}


def forge_reward(lines: Lines) -> None:
    longest(lines)["rewards"][0] += 1.0


def forge_success(lines: Lines) -> None:
    lost = next(line for line in lines[1:] if not line["success"])
    lost["success"], lost["end"] = True, "terminated"


FORGERIES: dict[str, Callable[[Lines], Any]] = {
    "a reward": forge_reward,
    "an action": lambda lines: longest(lines)["replies"].__setitem__(0, "nonsense"),
    "a hash": lambda lines: lines[1].__setitem__("hash", "0" * 64),
    "a success": forge_success,
    "an end": lambda lines: longest(lines).__setitem__("end", "max_tokens"),
    "the number of invalid actions": lambda lines: lines[1].__setitem__("invalid", 7),
    "the tokens, one fewer than replies": lambda lines: longest(lines)["tokens"].pop(),
    "an episode less": lambda lines: lines.pop(3),
    "an episode twice": lambda lines: lines.insert(3, lines[2]),
    "another order": lambda lines: lines.insert(1, lines.pop(4)),
    "two episodes exchanged": lambda lines: exchange(lines[1], lines[2]),
    "the last turns cut off": lambda lines: [longest(lines)[name].pop() for name in ("rewards", "replies", "tokens")],
    "a turn added": lambda lines: [
        line.append(line[-1]) for line in (longest(lines)[name] for name in ("rewards", "replies", "tokens"))
    ],
    "a reward that is no number": lambda lines: lines[1]["rewards"].__setitem__(0, float("nan")),
    "every episode": lambda lines: lines.__delitem__(slice(1, None)),
    "another seed": lambda lines: lines[1].__setitem__("seed", 7),
    "an episode called a failure": lambda lines: lines[1].update(end="failure", cause="sandbox", success=None),
    "the policy": lambda lines: lines[0]["lock"].__setitem__("policy", "oracle"),
    "the panel": lambda lines: lines[0]["lock"].__setitem__("panel", "0" * 64),
    "the turn cap": lambda lines: lines[0]["lock"]["limits"].__setitem__("max_turns", 99),
    "the configuration's size": lambda lines: lines[0]["config"].__setitem__("episodes", 7),
    "what is deterministic": lambda lines: lines[0].__setitem__("deterministic", False),
}


def exchange(one: dict[str, Any], other: dict[str, Any]) -> None:
    for name in ("replies", "rewards", "tokens", "hash"):
        one[name], other[name] = other[name], one[name]


@pytest.mark.parametrize("forgery", [name for name in FORGERIES if name != "an episode called a failure"])
def test_a_bundle_that_was_forged_signed_again_and_summed_up_again_is_found(root: Path, forgery: str) -> None:
    rewrite(root, "random", FORGERIES[forgery])
    with suppress(IntegrityError):  # Some can no longer be summed up.
        recompute(root)
    assert len(differences(root)) == 1


def test_calling_a_lost_episode_a_failure_of_infrastructure_gains_nothing(root: Path) -> None:
    before = {row.name: row.score for row in board_of(root).measured}
    rewrite(root, "random", FORGERIES["an episode called a failure"])
    recompute(root)
    after = {row.name: row for row in board_of(root).measured}
    assert after["random"].score <= before["random"]
    assert after["random"].coverage < 1


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_bundle_that_was_only_changed_is_found_by_its_name(root: Path, forgery: str) -> None:
    board = board_of(root)
    row = next(row for row in board.measured if row.policy == "random")
    path = root / "sokoban" / "bundles" / name_of(row.bundle)
    lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    FORGERIES[forgery](lines)
    path.write_bytes(gzip.compress("".join(json.dumps(line) + "\n" for line in lines).encode()))
    assert len(differences(root)) == 1


@pytest.mark.parametrize("field", ["score", "low", "pass_hat_4", "tasks", "name", "trust", "panel", "command", "date"])
def test_a_field_of_a_row_that_was_edited_is_found(root: Path, field: str) -> None:
    file = root / "sokoban" / "rows.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    new: Any = {"trust": "reproduced", "tasks": 9}.get(field, 0.99 if isinstance(rows[-1][field], float) else "another")
    rows[-1][field] = 0.5 if field == "pass_hat_4" else new
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert [field in text for text in differences(root)] == [True]


def test_a_digit_of_a_rows_hash_that_was_changed_is_found(root: Path) -> None:
    file = root / "sokoban" / "rows.jsonl"
    sha256 = board_of(root).measured[0].bundle
    file.write_text(file.read_text().replace(sha256, sha256[:-1] + ("0" if sha256[-1] != "0" else "1")))
    assert ["its hash" in text for text in differences(root)] == [True]


def test_exchanged_cut_missing_and_stray_files_are_found(root: Path) -> None:
    one, other, third = sorted((root / "sokoban" / "bundles").iterdir())
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second), other.write_bytes(first)
    assert len(differences(root)) == 2
    one.write_bytes(first), other.write_bytes(second[: len(second) // 2])
    assert len(differences(root)) == 1
    other.write_bytes(second), third.rename(third.with_name("another.jsonl.gz"))
    assert len(differences(root)) == 1
    assert [text.endswith("belongs to no row") for text in strays(board_of(root))] == [True]


def test_a_row_that_stands_twice_or_was_taken_out_is_found(root: Path) -> None:
    file = root / "sokoban" / "rows.jsonl"
    first, *rest = file.read_text().splitlines()
    file.write_text("\n".join([first, first, *rest]) + "\n")
    assert any("two places" in text for text in strays(board_of(root)))
    file.write_text("\n".join(rest) + "\n")
    assert any("belongs to no row" in text for text in strays(board_of(root)))


@pytest.mark.parametrize("name", ["README.md", "leaderboard.csv", "leaderboard.json", "leaderboard.html"])
def test_a_number_in_a_table_that_was_edited_is_found_and_written_again(root: Path, name: str) -> None:
    path = root / "sokoban" / name
    true = path.read_text()
    path.write_text(true.replace("oracle", "oracel"))
    assert list(stale_files(root)) == [path]
    build(root)
    assert path.read_text() == true


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("</style>", "tbody tr:nth-child(2) { display: none } </style>"),
        ("</head>", "<script>document.title = 'x'</script></head>"),
        ("</main>", "</main><h1>sokoban-tiny 100 %</h1>"),
        ("<title>", "<title>Not the "),
    ],
)
def test_a_page_that_was_edited_anywhere_is_found(root: Path, old: str, new: str) -> None:
    page = root / "sokoban" / "leaderboard.html"
    page.write_text(page.read_text().replace(old, new, 1))
    assert list(stale_files(root)) == [page]


@pytest.mark.parametrize("name", ["README.md", "sokoban/README.md", "sokoban/leaderboard.html", "sokoban/rows.jsonl"])
def test_a_file_that_is_no_text_is_found(commanded: Callable[..., Any], root: Path, name: str) -> None:
    (root / name).write_bytes(b"\xff" + (root / name).read_bytes())
    done = commanded("verify", "--boards", root)
    assert done.code == 7 and name in done.err, done.err


@pytest.mark.parametrize(
    ("name", "value"), [("env", "{}/evil.py"), ("env", "{}/evil.py/v@0:test"), ("env_args", {"levels": "{}/evil.py"})]
)
def test_no_file_that_a_bundle_names_is_opened(root: Path, tmp_path: Path, name: str, value: Any) -> None:
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    named = json.loads(json.dumps(value).replace("{}", str(tmp_path)))
    rewrite(root, "random", lambda lines: lines[0]["config"].__setitem__(name, named))
    with suppress(IntegrityError):
        recompute(root)
    (text,) = differences(root)
    assert "no path that a bundle names is opened" in text
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("env", "args", "own"),
    [
        ("sokoban/tiny:test", {"rows": 6}, None),
        ("./mine.py/v@0:test", {}, "./mine.py/v@0:test"),
        ("sokoban", {"levels": "x"}, "levels = x"),
        ("alfworld/original@0:train", {"data": "x"}, "data = x"),
        ("webshop@0", {"cache": "x"}, "cache = x"),
        ("textworld:test", {"games": "x"}, "games = x"),
        ("swe/list:all", {"tasks": "x"}, "tasks = x"),
    ],
)
def test_what_was_played_in_files_of_ones_own_gets_no_row(
    made: Path, tmp_path: Path, env: str, args: dict[str, Any], own: str | None
) -> None:
    assert own_file({"env": env, "env_args": args}) == own
    run = RunDirectory.open(Path(shutil.copytree(next((made / "runs").glob("*--nop--*")), tmp_path / "run")))
    state = run.state
    write_json(run.path / "run.json", {**state, "config": {**state["config"], "env": env, "env_args": args}})
    if own:
        with pytest.raises(UsageError, match=re.escape(own)):
            add(tmp_path / "boards", run, declared("x"))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no gzip",
        gzip.compress(b""),
        gzip.compress(b"{}\n"),
        gzip.compress(b"[" * 100_000),
        gzip.compress(b"\xff\n"),
    ],
    ids=["empty", "no gzip", "no line", "no head", "deep", "no text"],
)
def test_a_broken_bundle_is_one_clear_line(root: Path, content: bytes) -> None:
    row = board_of(root).measured[0]
    (root / "sokoban" / "bundles" / name_of(row.bundle)).write_bytes(content)
    (text,) = differences(root)
    assert "cannot be read" in text and "\n" not in text


def test_a_bundle_that_unpacks_to_more_than_is_sane_is_refused(root: Path) -> None:
    row = board_of(root).measured[0]
    packed = gzip.compress(b"\0" * (MOST_BYTES + 2), compresslevel=1)
    (root / "sokoban" / "bundles" / name_of(row.bundle)).write_bytes(packed)
    assert "unpacks to more" in differences(root)[0]


def test_a_bundle_is_small_and_says_what_the_run_says(made: Path) -> None:
    run = next(run for path in (made / "runs").iterdir() if "random" in (run := RunDirectory.open(path)).lock["policy"])
    bundle = Bundle.pack(run, declared("x"))
    timeless = ("key", "task", "seed", "trial", "end", "success", "reward", "turns", "invalid", "tokens", "hash")
    scored = run.scored()
    assert bundle.plan == tuple(run.plan())
    assert [[row[name] for name in timeless] for row in bundle.rows] == [
        [scored[planned.key][name] for name in timeless] for planned in run.plan()
    ]
    size = sum(path.stat().st_size for path in run.path.rglob("*") if path.is_file())
    folder = made / "packed"
    folder.mkdir()
    assert (folder / name_of(bundle.write(folder))).stat().st_size < size / 5


@pytest.mark.parametrize(
    ("reply", "spec", "short"),
    [
        ("left", ContextSpec(), "left"),
        ("<think>x</think>left", ContextSpec(), "left"),
        ("<thi<think></think>nk>up", ContextSpec(), "<thi<think></think>nk>up"),
        ("so <answer>up</answer> it is", ContextSpec(format="tagged"), "<answer>up</answer>"),
        ("no tags", ContextSpec(format="tagged"), ""),
    ],
)
def test_a_reply_is_shortened_only_as_far_as_its_action_stays(reply: str, spec: ContextSpec, short: str) -> None:
    assert spoken(reply, spec) == short


def test_a_name_is_taken_once_per_panel_and_replaced_on_request(root: Path, tmp_path: Path) -> None:
    again = play(tmp_path / "runs", "oracle")
    with pytest.raises(UsageError, match="--replace"):
        add(root, again, declared("oracle"))
    before = len(list((root / "sokoban" / "bundles").iterdir()))
    add(root, again, declared("oracle"), replace=True)
    assert len(board_of(root).measured) == 3
    assert len(list((root / "sokoban" / "bundles").iterdir())) == before
    assert list(strays(board_of(root))) == []


def test_a_run_that_is_not_true_or_not_complete_gets_no_row(tmp_path: Path) -> None:
    run = play(tmp_path / "runs", "random")
    rows = run.path / "episodes.jsonl"
    true = rows.read_text()
    rows.write_text("".join(reversed(true.splitlines(keepends=True))))
    with pytest.raises(IntegrityError, match="out of order"):
        add(tmp_path / "boards", run, declared("x"))
    rows.write_text(true)
    state = {name: value for name, value in run.state.items() if name not in ("seal", "files")}
    (run.path / "run.json").write_text(json.dumps({**state, "status": "cancelled"}))
    with pytest.raises(RunInvalid, match="cancelled"):
        add(tmp_path / "boards", run, declared("x"))
    assert boards(tmp_path / "boards") == []


def test_a_reproduction_lifts_a_row_if_the_same_weights_agree(root: Path, tmp_path: Path) -> None:
    row = next(row for row in board_of(root).measured if row.policy == "random")
    grown = add_reproduction(root, play(tmp_path / "runs", "random", trials=2), row.id, "somebody else")
    build(root)
    (second,) = grown.reproductions
    assert (grown.trust, second.by, second.agreement, second.p_value) == ("reproduced", "somebody else", 1.0, 1.0)
    assert differences(root) == []
    assert sorted(verdict.replayed for verdict in found(root)) == [8, 8, 32]


def test_what_does_not_bear_a_row_out_is_no_reproduction(root: Path, made: Path, tmp_path: Path) -> None:
    rows = {row.policy: row for row in board_of(root).measured}
    with pytest.raises(IntegrityError, match="another policy"):
        add_reproduction(root, play(tmp_path / "runs", "oracle"), rows["nop"].id, "x")
    with pytest.raises(IntegrityError, match="panel"):
        add_reproduction(root, play(tmp_path / "runs", "oracle", seed=1), rows["oracle"].id, "x")
    same = next(path for path in (made / "runs").iterdir() if "--oracle--" in path.name)
    with pytest.raises(IntegrityError, match="the same run"):
        add_reproduction(root, RunDirectory.open(same), rows["oracle"].id, "x")


def test_other_turn_caps_and_panels_stand_apart(root: Path, tmp_path: Path) -> None:
    add(root, play(tmp_path / "runs", "oracle", max_turns=5), declared("oracle, five turns"))
    add(root, play(tmp_path / "runs", "oracle", seed=1), declared("oracle, other tasks"))
    placed = standings(board_of(root))
    assert sorted(len(standing.places) for standing in placed) == [1, 1, 3]
    alone = [standing for standing in placed if len(standing.places) == 1]
    assert all(standing.places[0].normalised is None for standing in alone), "no floor was measured there"


def test_floor_and_ceiling_are_the_ends_of_the_scale(root: Path) -> None:
    (standing,) = standings(board_of(root))
    scale = {place.row.name: (place.rank, place.normalised) for place in standing.places}
    assert scale["oracle"] == ("ceiling", 1.0)
    floors = [normalised for rank, normalised in scale.values() if rank == "floor" and normalised is not None]
    assert max(floors) == 0.0
    assert set(ROLES.values()) == {"floor", "ceiling"}


def test_the_ladder_says_what_no_step_proves() -> None:
    assert [step.trust for step in LADDER] == ["reported", "recomputed", "replayed", "reproduced"]
    assert all(step.does_not for step in LADDER)


@pytest.fixture
def commanded(tmp_path: Path) -> Callable[..., Any]:
    """Runs `agentbench leaderboard` on boards of its own."""
    return lambda *arguments: agentbench("leaderboard", *arguments, cwd=tmp_path)


def test_the_verbs_add_verify_show_and_build(commanded: Callable[..., Any], tmp_path: Path) -> None:
    run = play(tmp_path / "runs", "oracle", episodes=4)
    assert_one_clear_line(commanded("verify"), 2, "no board below leaderboards")
    assert_one_clear_line(commanded("add", "nowhere"), 2, "no run directory")
    done = commanded("add", run.path, "--by", "me", "--json")
    assert done.code == 0, done.err
    row = done.events[-1]["id"]
    assert commanded("verify", "--json").events[-1] == {
        "event": "done", "rows": 1, "replayed": 4, "different": 0, "skipped": 0,
    }  # fmt: skip
    assert commanded("verify", row, "-n", 1, "--json").events[-1]["replayed"] == 1
    assert_one_clear_line(commanded("verify", "ffff"), 2, "no board has a row 'ffff'")
    assert "oracle" in commanded("show").err
    assert commanded("show", "sokoban", "--json").events[0]["standings"][0]["places"][0]["id"] == row
    assert_one_clear_line(commanded("show", "chess"), 2, "known: sokoban")
    table = tmp_path / "leaderboards" / "sokoban" / "README.md"
    table.write_text(table.read_text().replace("100.0 %", "101.0 %"))
    assert_one_clear_line(commanded("build", "--check"), 7, "README.md")
    done = commanded("verify")
    assert done.code == 7 and "README.md" in done.err
    assert commanded("build").code == commanded("verify").code == 0


def test_whatever_was_tampered_with_ends_with_7(commanded: Callable[..., Any], tmp_path: Path, root: Path) -> None:
    rewrite(root, "random", FORGERIES["a reward"])
    done = commanded("verify", "--boards", root)
    assert done.code == 7
    assert "Traceback" not in done.err
    (root / "sokoban" / "rows.jsonl").write_text("{}\n")
    assert_one_clear_line(commanded("verify", "--boards", root), 7, "rows.jsonl, line 1, is no row")


def test_a_row_of_another_version_of_its_environment_cannot_be_checked_here(
    commanded: Callable[..., Any], root: Path
) -> None:
    rewrite(root, "oracle", lambda lines: lines[0]["lock"].__setitem__("env", "sokoban/tiny@9"))
    recompute(root)
    done = commanded("verify", "--boards", root)
    assert done.code == 4
    assert "what was played is sokoban/tiny@9" in done.err


@pytest.mark.parametrize(
    "name",
    ["</script><b>x</b>", "a | b\n# c", "=1+1", "\x1b[2Jx\u202e", "[a](javascript:x) `b`", "a\u2028b\u0085c\u2029d"],
)
def test_a_hostile_name_changes_nothing_but_itself(root: Path, tmp_path: Path, name: str) -> None:
    rows = len((root / "sokoban" / "README.md").read_text().splitlines())
    add(root, play(tmp_path / "runs", "echo"), declared(name))
    build(root)
    page, table, lines = (
        (root / "sokoban" / file).read_text() for file in ("leaderboard.html", "README.md", "leaderboard.csv")
    )
    assert page.count("</script>") == (root / "sokoban" / "leaderboard.html").read_text().count("<script")
    assert "<b>x</b>" not in page + table and "\x1b" not in page + table
    assert len(table.splitlines()) == rows + 2, "one row more in each of two tables"
    assert not any(cell.startswith("=") for line in lines.splitlines() for cell in line.split(","))
    assert differences(root) == []
