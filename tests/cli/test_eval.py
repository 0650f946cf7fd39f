"""`agentbench eval` for programs and for people."""

import json
import os
import pty
import re
import select
import subprocess
import sys
from pathlib import Path

import pytest

from agentbench.core.records import RunDirectory
from agentbench.evaluate.config import read_toml
from tests.cli.command import COMMAND, Done, agentbench, assert_one_clear_line, environment, start

ORACLE = ("eval", "--model", "oracle", "--env", "sokoban", "--jobs", 2)


def config_of(done: Done, cwd: Path) -> dict[str, object]:
    assert done.code == 0, done.err
    return read_toml(cwd / done.events[-1]["run_dir"] / "config.toml")


def hashes(done: Done, cwd: Path) -> dict[str, str]:
    return {row["key"]: row["hash"] for row in RunDirectory.open(cwd / done.events[-1]["run_dir"]).rows()}


def test_json_is_one_object_per_line_and_the_last_one_is_the_result(tmp_path: Path) -> None:
    done = agentbench(*ORACLE, "--episodes", 5, "--trials", 2, "--scaling", "--json", cwd=tmp_path)
    assert done.code == 0, done.err
    started, *episodes, scaling, last = done.events
    assert started["event"] == "started" and (tmp_path / started["run_dir"]).is_dir()
    assert [event["event"] for event in episodes] == ["episode"] * 10
    assert [event["done"] for event in episodes] == list(range(1, 11))
    assert scaling["event"] == "scaling" and scaling["points"]
    assert (last["status"], last["run_dir"]) == ("complete", started["run_dir"])
    summary = last["summary"]
    assert (summary["success"], summary["high"], summary["n"], summary["coverage"]) == (1.0, 1.0, 5, 1.0)
    assert summary["low"] == pytest.approx(0.565518, abs=1e-6), "Wilson, five of five"
    state = json.loads((tmp_path / last["run_dir"] / "run.json").read_text())
    assert state["summary"] == summary


def test_flag_before_variable_before_file_before_default(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(
        'model = "oracle"\nenv = "sokoban/6x6-2"\nepisodes = 3\nseed = 30\nmax_turns = 30\ntemperature = 0.5\n'
        "trust_remote_code = true\n[env_args]\nmax_steps = 25\nboxes = 2\n"
    )
    given = (
        "--config",
        "c.toml",
        "--seed",
        10,
        "--temperature",
        0,
        "--no-trust-remote-code",
        "-E",
        "boxes=1",
        "--json",
    )
    done = agentbench("eval", *given, cwd=tmp_path, AGENTBENCH_SEED="20", AGENTBENCH_MAX_TURNS="20")
    config = config_of(done, tmp_path)
    assert (config["seed"], config["max_turns"], config["episodes"], config["trials"]) == (10, 20, 3, 1)
    assert (config["temperature"], config["trust_remote_code"]) == (0.0, False)
    assert config["env_args"] == {"max_steps": 25, "boxes": 1}, "arguments are laid over one another key by key"


def test_a_configuration_may_come_from_variables_alone(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('model = "oracle"\nepisodes = 2\n')
    variables = {
        "AGENTBENCH_CONFIG": "c.toml",
        "AGENTBENCH_ENV": "sokoban/6x6-2",
        "AGENTBENCH_ENV_ARGS": "max_steps=33",
    }
    config = config_of(agentbench("eval", "--json", cwd=tmp_path, **variables), tmp_path)
    assert (config["env"], config["episodes"], config["env_args"]) == ("sokoban/6x6-2", 2, {"max_steps": 33})


def test_the_configuration_beside_a_run_repeats_it(tmp_path: Path) -> None:
    given = ("-m", "random", "-e", "sokoban", "-n", 6, "-k", 2, "--seed", 4, "--max-turns", 5, "--stop", "\n", "--json")
    first = agentbench("eval", *given, cwd=tmp_path)
    run = first.events[-1]["run_dir"]
    again = agentbench("eval", "--config", f"{run}/config.toml", "--json", cwd=tmp_path)
    assert again.events[-1]["run_dir"] != run
    assert hashes(first, tmp_path) == hashes(again, tmp_path)
    assert len(hashes(first, tmp_path)) == 12


def test_a_run_repeats_in_every_process_whatever_its_hash_seed_and_jobs(tmp_path: Path) -> None:
    given = ("eval", "-m", "random", "-e", "sokoban", "-n", 10, "--json")
    first, other = (agentbench(*given, "--jobs", jobs, cwd=tmp_path, PYTHONHASHSEED=str(jobs)) for jobs in (1, 32))
    assert hashes(first, tmp_path) == hashes(other, tmp_path)


def test_what_only_changes_speed_may_change_on_resuming_and_nothing_else(tmp_path: Path) -> None:
    run = agentbench(*ORACLE, "--episodes", 3, "--json", cwd=tmp_path).events[-1]["run_dir"]
    assert agentbench("eval", "--resume", run, "--jobs", 1, cwd=tmp_path).code == 0
    done = agentbench("eval", "--resume", run, "--seed", 1, cwd=tmp_path)
    assert_one_clear_line(done, 2, "seed was 0, is 1")


def test_a_reader_that_goes_away_is_said_and_loses_nothing(tmp_path: Path) -> None:
    process = start("eval", "-m", "random", "-e", "sokoban/10x10-3", "-n", 60, "--json", cwd=tmp_path)
    assert process.stdout is not None and process.stderr is not None
    run = json.loads(process.stdout.readline())["run_dir"]
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert_one_clear_line(Done(process.wait(timeout=60), "", err), 3, "cannot write to standard output")
    assert RunDirectory.open(tmp_path / run).state["status"] == "cancelled"


def test_a_full_disk_behind_stdout_is_no_bug(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        command = [*COMMAND, *map(str, ORACLE), "--episodes", "2", "--json"]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment(), stdout=full, stderr=subprocess.PIPE, text=True, timeout=60
        )
    assert_one_clear_line(Done(done.returncode, "", done.stderr), 3, "cannot write to standard output")


def on_a_terminal(*arguments: object, cwd: Path, typed: str = "", **variables: str) -> tuple[int, str]:
    """Run a command on a pseudo-terminal; return its exit code and everything it drew."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        cwd=cwd,
        env=environment(**{"TERM": "xterm-256color", **variables}),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    os.write(ours, typed.encode())
    drawn = b""
    while process.poll() is None or select.select([ours], [], [], 0.1)[0]:
        try:
            if select.select([ours], [], [], 0.1)[0]:
                drawn += os.read(ours, 65536)
        except OSError:  # the other side is closed
            break
    os.close(ours)
    return process.wait(timeout=60), drawn.decode("utf-8", "surrogateescape")


SHOWN = "[2J]0;owned[bold]click[x] [/answer] :smile: 31m"


def assert_harmless(drawn: str) -> None:
    for sequence in ("\x1b[2J", "\x1b]0;", "\x07", "\u202e", "\x00", "\x9b", "\udced"):
        assert sequence not in drawn, f"{sequence!r} reached the terminal"


def test_text_of_an_environment_is_shown_as_plain_text(tmp_path: Path, words: Path) -> None:
    code, drawn = on_a_terminal("envs", "info", f"{words}/hostile", cwd=tmp_path)
    assert code == 0, drawn
    assert_harmless(drawn)
    assert drawn.count(SHOWN) == 2, "instructions and observation, to the letter"


def test_a_person_who_plays_sees_plain_text(tmp_path: Path, words: Path) -> None:
    arguments = ("play", "--env", f"{words}/hostile", "--max-turns", 1)
    code, drawn = on_a_terminal(*arguments, cwd=tmp_path, typed="red\n")
    assert code == 0, drawn
    assert_harmless(drawn)
    assert drawn.count(SHOWN) == 2


def test_hostile_names_and_messages_are_shown_as_plain_text(tmp_path: Path) -> None:
    name = "\x1b[2J\x1b]0;owned\x07[bold]click[x] [/answer] :smile: \u202e"
    code, drawn = on_a_terminal("eval", "--model", name, "--env", "sokoban", cwd=tmp_path)
    assert code == 4
    assert_harmless(drawn)
    code, drawn = on_a_terminal("eval", "--model", "oracle", "--env", name, cwd=tmp_path)
    assert code == 2
    assert_harmless(drawn)
    assert "[bold]click[x] [/answer] :smile:" in drawn


def test_hostile_replies_and_failures_do_not_reach_the_terminal(tmp_path: Path, broken: Path) -> None:
    arguments = (
        "eval",
        "--model",
        "echo",
        "--env",
        broken,
        "-E",
        "hostile=true",
        "-E",
        "fail_on=[1]",
        "-E",
        "length=1",
    )
    code, drawn = on_a_terminal(*arguments, cwd=tmp_path)
    assert code == 3, drawn
    assert_harmless(drawn)
    assert "failures" in drawn


COLOUR = re.compile(r"\x1b\[[\d;]*(3[0-8]|4[0-8]|9[0-7])[\d;]*m")


def test_colours_are_for_terminals_that_want_them(tmp_path: Path) -> None:
    mistake = ("eval", "--model", "oracle", "--env", "sokobn")
    assert COLOUR.search(on_a_terminal(*mistake, cwd=tmp_path)[1])
    assert not COLOUR.search(on_a_terminal(*mistake, cwd=tmp_path, NO_COLOR="1")[1])
    assert "\x1b" not in agentbench(*mistake, cwd=tmp_path).err


def test_a_bug_is_one_line_and_a_file_with_the_details(tmp_path: Path, words: Path) -> None:
    words.write_text(words.read_text().replace('title="Words"', 'title="Words", max_turns="many"'))  # Nobody checks it.
    done = agentbench("eval", "--model", "oracle", "--env", words, cwd=tmp_path, TMPDIR=str(tmp_path))
    assert_one_clear_line(done, 70, "a bug", "TypeError: '>=' not supported")
    details = done.err.rsplit("details in ", 1)[1].strip().rstrip(")")
    assert "Traceback" in Path(details).read_text()


def test_help_names_every_flag_and_nothing_is_made(tmp_path: Path) -> None:
    done = agentbench("eval", "--help", cwd=tmp_path)
    assert done.code == 0
    for flag in ("--model", "--env", "-E", "--episodes", "--trials", "--seed", "--max-turns", "--jobs", "--out",
                 "--resume", "--config", "--json", "--temperature", "--context", "--format"):  # fmt: skip
        assert flag in done.out
    assert not list(tmp_path.iterdir())


def test_the_command_is_the_module_too(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from agentbench.cli.main import run; run()", "--version"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert agentbench("--version", cwd=tmp_path).out == done.stdout
