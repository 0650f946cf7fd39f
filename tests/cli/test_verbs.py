"""The verbs beside `eval`."""

import json
from pathlib import Path

import pytest

from agentbench.core.records import RunDirectory
from agentbench.core.registry import environments
from tests.cli.command import agentbench, assert_one_clear_line


def test_envs_list_names_every_environment_and_variant(tmp_path: Path) -> None:
    done = agentbench("envs", "list", "--json", cwd=tmp_path)
    assert done.code == 0
    assert {event["name"]: event["variants"] for event in done.events} == {
        name: list(entry.variants) for name, entry in environments().items()
    }
    people = agentbench("envs", "list", cwd=tmp_path)
    assert people.out == ""
    assert all(name in people.err for name in environments())


def test_envs_info_describes_one_and_shows_its_first_task(tmp_path: Path) -> None:
    done = agentbench("envs", "info", "sokoban/6x6-2", "--json", cwd=tmp_path)
    (event,) = done.events
    assert event["id"] == "sokoban/6x6-2@0"
    assert "#" in event["observation"] and "Sokoban" in event["instructions"]
    assert_one_clear_line(agentbench("envs", "info", "sokobn", cwd=tmp_path), 2, "did you mean 'sokoban'")


def test_a_new_environment_passes_its_check_and_can_be_evaluated(tmp_path: Path) -> None:
    assert agentbench("envs", "new", "guess.py", cwd=tmp_path).code == 0
    assert agentbench("envs", "check", "guess.py", cwd=tmp_path).code == 0
    done = agentbench("eval", "-e", "guess.py", "-m", "oracle", "-n", 5, "--json", cwd=tmp_path)
    assert done.events[-1]["summary"]["success"] == 1.0
    assert_one_clear_line(agentbench("envs", "new", "guess.py", cwd=tmp_path), 2, "exists")
    assert_one_clear_line(agentbench("envs", "new", "no/folder/guess.py", cwd=tmp_path), 3, "cannot write")


def test_an_environment_that_breaks_is_blamed_with_its_own_line_of_code(tmp_path: Path, words: Path) -> None:
    words.write_text(words.read_text().replace("observation, info = super().reset(**kwargs)", "raise KeyError('door')"))
    told = ("KeyError: 'door' (words.py, line 16)",)
    assert_one_clear_line(agentbench("envs", "info", words, cwd=tmp_path), 2, "cannot be shown", *told)
    checked = agentbench("envs", "check", words, cwd=tmp_path)
    assert checked.code == 7
    assert "words/plain@0 breaks the contract" in checked.err and told[0] in checked.err


def test_replay_says_what_it_replayed(tmp_path: Path) -> None:
    run = agentbench("eval", "-m", "random", "-e", "sokoban", "-n", 4, "--json", cwd=tmp_path).events[-1]["run_dir"]
    done = agentbench("replay", run, "--episodes", 2, "--json", cwd=tmp_path)
    assert done.code == 0
    assert [event["event"] for event in done.events] == ["replayed", "replayed", "done"]
    assert (done.events[-1]["replayed"], done.events[-1]["different"]) == (2, 0)
    assert_one_clear_line(agentbench("replay", "nowhere", cwd=tmp_path), 2, "no run directory")
    (tmp_path / run / "episodes.jsonl").write_text("")
    assert_one_clear_line(agentbench("replay", run, cwd=tmp_path), 7, "run.json says another", "scored")
    begun = {**json.loads((tmp_path / run / "run.json").read_text()), "status": "started"}
    del begun["seal"]
    (tmp_path / run / "run.json").write_text(json.dumps(begun))
    assert_one_clear_line(agentbench("replay", run, cwd=tmp_path), 5, "no scored episode")


def test_replay_finds_a_summary_that_its_rows_do_not_bear_out(tmp_path: Path) -> None:
    run = agentbench("eval", "-m", "oracle", "-e", "sokoban", "-n", 4, "--json", cwd=tmp_path).events[-1]["run_dir"]
    rows, state = tmp_path / run / "episodes.jsonl", tmp_path / run / "run.json"
    true = rows.read_text(), state.read_text()
    rows.write_text(true[0].partition("\n")[0] + "\n")
    said = "run.json says another success, low, high, scored, coverage"
    assert_one_clear_line(agentbench("replay", run, cwd=tmp_path), 7, said)
    rows.write_text(true[0])
    state.write_text(true[1].replace('"reward_low"', '"forged": 0, "reward_low"').replace('"n": 4', '"n": 5'))
    assert_one_clear_line(agentbench("replay", run, cwd=tmp_path), 7, "run.json says another n than")
    state.write_text(true[1])
    assert agentbench("replay", run, cwd=tmp_path).code == 0


def test_doctor_says_what_is_here_and_what_is_not(tmp_path: Path) -> None:
    done = agentbench("doctor", "--json", cwd=tmp_path)
    assert done.code == 0
    found = {event["what"]: event["found"] for event in done.events}
    assert found["python"] and found["agentbench"]
    assert_one_clear_line(agentbench("doctor", "--json", "--env", "sokobn", cwd=tmp_path), 2, "did you mean")


def test_playing_at_the_end_of_input_is_leaving_and_the_run_goes_on_later(tmp_path: Path) -> None:
    done = agentbench("play", "--env", "sokoban", cwd=tmp_path)
    assert done.code == 130
    assert "Traceback" not in done.err
    (run,) = (tmp_path / "runs").iterdir()
    assert RunDirectory.open(run).state["status"] == "cancelled"


def test_a_verb_without_arguments_shows_its_help(tmp_path: Path) -> None:
    done = agentbench(cwd=tmp_path)
    assert done.code == 2
    assert "Usage:" in done.out + done.err and "eval" in done.out + done.err


def test_json_lines_hold_nothing_but_json(tmp_path: Path, words: Path) -> None:
    done = agentbench("eval", "-m", "echo", "-e", f"{words}/hostile", "-n", 3, "--json", cwd=tmp_path)
    assert done.code == 0
    for line in done.out.splitlines():
        assert isinstance(json.loads(line), dict)
        assert line.isascii() and line.isprintable()


def test_the_help_of_a_verb_is_the_first_line_of_its_function() -> None:
    import importlib

    import typer

    from agentbench.cli.main import VERBS

    for verb in VERBS.values():
        module, _, attribute = verb.target.partition(":")
        target = getattr(importlib.import_module(f"agentbench.cli.{module}"), attribute)
        if not isinstance(target, typer.Typer):
            first = str(target.__doc__).partition("\n")[0]
            assert verb.help.rstrip(".") in first or first.rstrip(".") in verb.help


@pytest.mark.slow
def test_the_demo_evaluates_the_bundled_agent_between_its_floor_and_its_ceiling(tmp_path: Path) -> None:
    done = agentbench("demo", "--episodes", "40", cwd=tmp_path, OMP_NUM_THREADS="1")
    assert done.code == 0, done.err
    rates = {
        name: float(line.removeprefix(name).split("%")[0])
        for line in done.err.splitlines()
        for name in ("random play", "taught by the oracle", "then turn-PPO", "the oracle")
        if line.startswith(name) and "%" in line
    }
    assert rates["random play"] < 50 < rates["taught by the oracle"] <= 100
    assert rates["then turn-PPO"] > 70
    assert rates["the oracle"] == 100
