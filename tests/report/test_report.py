"""The whole report: its numbers are the run's, every kind of run is taken, what is broken is refused in one line."""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

from agentbench.core.errors import RunInvalid, UsageError
from agentbench.core.records import RunDirectory
from agentbench.report.report import TASKS, write_report
from tests.cli.command import agentbench, assert_one_clear_line
from tests.report.written import HOSTILE, turn_of, write_evaluation, write_training

EPISODES = [
    ([turn_of("say red", "red", reward=1.0)], True),
    ([turn_of("say blue", "green"), turn_of("again", "blue", reward=1.0)], True),
    ([turn_of("say one", "two")], False),
    ([turn_of("say two", "two")], None),
]


@pytest.fixture
def evaluation(tmp_path: Path) -> Path:
    return write_evaluation(tmp_path / "runs", EPISODES)


def words(page: Path) -> str:
    text = re.sub(r"<(script|style)\b.*?</\1>", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", text)).split())


def data_of(page: Path) -> list[dict[str, object]]:
    (found,) = re.findall(r'id="player-data">(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL)
    episodes: list[dict[str, object]] = json.loads(found)
    return episodes


def test_an_evaluation_shows_the_three_denominators_and_its_interval(evaluation: Path, tmp_path: Path) -> None:
    written = write_report([evaluation], tmp_path / "out" / "page.html")
    summary = RunDirectory.open(evaluation).state["summary"]
    said = f"50.0 % [{100 * summary['low']:.1f}, {100 * summary['high']:.1f}]"
    for text in (words(written.page), written.markdown.read_text().replace("\\", "")):
        assert said in text, "strict: the broken episode counts as a failure"
        assert "66.7 %" in text, "scored"
        assert "75.0 %" in text, "coverage"
        assert "agentbench eval --config" in text and "panel" in text, "command and lock"
    assert [episode["success"] for episode in data_of(written.page)] == [None, False, True, True], "failed ones first"


def test_how_far_episodes_came_is_shown_where_the_environment_says_so(tmp_path: Path, evaluation: Path) -> None:
    handed_in = {"submitted": 1.0, "modified": 1.0, "resolved": 0.0}
    turns = [replace(turn, terms=terms) for turn, terms in zip(EPISODES[0][0] * 2, (handed_in, {}), strict=True)]
    far = write_evaluation(tmp_path / "far", [([turns[0]], False), ([turns[1]], False)])
    text = words(write_report([far], tmp_path / "page.html").page)
    assert "How far planned episodes came" in text and "modification" in text
    assert "50.0 % 50.0 % 0.0 %" in text
    assert "eval/resolution_rate" in text
    assert "resolution" not in words(write_report([evaluation], tmp_path / "other.html").page)


def test_every_figure_is_a_file_and_markdown_shows_it(evaluation: Path, tmp_path: Path) -> None:
    written = write_report([evaluation, write_training(tmp_path)], tmp_path / "mix.html")
    assert {file.suffix for file in written.figures} == {".png", ".svg"}
    linked = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", written.markdown.read_text())
    assert sorted(linked) == sorted(f"mix-figures/{file.name}" for file in written.figures if file.suffix == ".svg")


def test_a_training_run_shows_curves_entropy_health_and_advantages(tmp_path: Path) -> None:
    written = write_report([write_training(tmp_path)], tmp_path / "page.html")
    text = words(written.page)
    for title in ("Training curves", "Entropy while training", "Health of the updates", "Circumstances"):
        assert title in text
    assert "100.0 % [67.6, 100.0]" in text, "the best on the valid panel, of 8 tasks"
    assert "verl actor/entropy" in text, "the glossary says what others call it"
    first = data_of(written.page)[0]
    assert first["turns"][0]["advantage"] == -0.05  # type: ignore[index]


def test_runs_of_one_name_are_told_apart(tmp_path: Path, evaluation: Path) -> None:
    other = write_evaluation(tmp_path / "runs", EPISODES[:3])
    text = words(write_report([evaluation, other, evaluation], tmp_path / "page.html").page)
    assert "Report of 2 runs" in text
    assert all(f"model, {path.name[-8:]}" in text for path in (evaluation, other))


def test_an_episode_that_was_asked_for_is_there(evaluation: Path, tmp_path: Path) -> None:
    key = RunDirectory.open(evaluation).rows()[1]["key"]
    written = write_report([evaluation], tmp_path / "page.html", episodes=1, show=[key[:10]])
    assert [episode["key"] for episode in data_of(written.page)] == [key]
    with pytest.raises(UsageError, match="begins with nowhere"):
        write_report([evaluation], tmp_path / "page.html", show=["nowhere"])


def test_what_the_player_leaves_out_is_said(evaluation: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert "0 of 4 recorded episodes" in words(write_report([evaluation], page, episodes=0).page)
    long = ([turn_of("o" * 20_000, "go", traced=False)] * 150, False)
    text = words(write_report([write_evaluation(tmp_path, [long] * 3)], page).page)
    assert "2 of 3 recorded episodes" in text or "1 of 3 recorded episodes" in text
    assert "more were chosen and left out" in text and "only the first turns are shown" in text


@pytest.mark.slow
def test_many_episodes_make_no_large_page(tmp_path: Path, scale: float) -> None:
    count = round(1200 * scale)
    run = write_evaluation(tmp_path, [([turn_of("o" * 500, "r" * 200)] * 5, bool(i % 3)) for i in range(count)])
    written = write_report([run], tmp_path / "page.html")
    assert written.page.stat().st_size < 10_000_000
    text = words(written.page)
    assert f"{TASKS} of {count} tasks are shown" in text
    assert f"40 of {count} recorded episodes" in text
    assert f"300 of {count}, evenly spaced" in text


def test_hostile_episodes_change_nothing_but_themselves(tmp_path: Path) -> None:
    hostile = [([turn_of(text, text, traced=False)], False) for text in HOSTILE]
    calm = [([turn_of("calm", "calm", traced=False)], False) for _ in HOSTILE]
    pages = [
        write_report([write_evaluation(tmp_path / name, [*EPISODES, *episodes])], tmp_path / f"{name}.html")
        for name, episodes in (("hostile", hostile), ("calm", calm))
    ]
    first, second = (
        words(page.page).replace(RunDirectory.open(run).path.name, "RUN")
        for page, run in zip(pages, [next((tmp_path / name).iterdir()) for name in ("hostile", "calm")], strict=True)
    )
    assert first == second, "only the player's data differ"
    own = [[e for e in data_of(page.page) if e["turns"][0]["observation"].startswith("say")] for page in pages]  # type: ignore[index]
    assert own[0] == own[1]


def remove(paths: Iterable[Path]) -> None:
    for path in list(paths):
        if path.is_file():
            path.unlink()


BROKEN: dict[str, Callable[[Path], object]] = {
    "an empty directory": lambda run: remove(run.rglob("*")),
    "a broken run.json": lambda run: (run / "run.json").write_text("{"),
    "an empty run.json": lambda run: (run / "run.json").write_text("{}"),
    "a list for a run.json": lambda run: (run / "run.json").write_text("[]"),
    "no lock": lambda run: (run / "lock.json").unlink(),
    "no plan": lambda run: (run / "plan.jsonl").unlink(),
    "no episodes": lambda run: (run / "episodes.jsonl").write_text(""),
    "a broken row": lambda run: (run / "episodes.jsonl").write_text("nonsense\n"),
    "a row that says nothing": lambda run: (run / "episodes.jsonl").write_text("{}\n"),
    "no trajectories": lambda run: remove((run / "trajectories").iterdir()),
    "a cut trajectory": lambda run: [s.write_bytes(s.read_bytes()[:50]) for s in (run / "trajectories").iterdir()],
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_evaluation_is_refused(how: str, evaluation: Path, tmp_path: Path) -> None:
    BROKEN[how](evaluation)
    with pytest.raises((UsageError, RunInvalid), match=re.escape(evaluation.name)) as refused:
        write_report([evaluation], tmp_path / "page.html")
    assert refused.value.exit_code in (2, 3)
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize(
    "content", ["", "nonsense\n", "{}\n", '{"stage": "x"}\n', '{"stage": "x", "update": "y"}\n', "[]\n"]
)
def test_a_broken_training_run_is_refused(content: str, tmp_path: Path) -> None:
    run = write_training(tmp_path)
    (run / "metrics.jsonl").write_text(content)
    with pytest.raises(RunInvalid, match=re.escape(run.name)):
        write_report([run], tmp_path / "page.html")


def test_on_the_command_line_a_mistake_is_one_line(tmp_path: Path, evaluation: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert_one_clear_line(agentbench("report", "empty", cwd=tmp_path), 2, "empty is no run directory")
    assert_one_clear_line(agentbench("report", "nowhere", cwd=tmp_path), 2, "nowhere is no run directory")
    assert_one_clear_line(agentbench("report", evaluation, "-o", evaluation, cwd=tmp_path), 2, "is a folder")
    assert_one_clear_line(agentbench("report", evaluation, "-o", "out.md", cwd=tmp_path), 2, "ends with .html")
    (evaluation / "run.json").write_text("{damaged")
    assert_one_clear_line(agentbench("report", evaluation, cwd=tmp_path), 3, "damaged", "run.json")


def test_on_the_command_line_the_files_are_named(tmp_path: Path, evaluation: Path) -> None:
    done = agentbench("report", evaluation, "-o", "new/page.html", "--json", cwd=tmp_path)
    assert done.code == 0, done.err
    assert done.events[-1]["page"] == "new/page.html"
    assert (tmp_path / "new" / "page.html").exists() and (tmp_path / "new" / "page.md").exists()
    assert agentbench("report", evaluation, cwd=tmp_path).code == 0
    assert (evaluation / "report" / "index.html").exists(), "the run's own folder, if no other is named"
