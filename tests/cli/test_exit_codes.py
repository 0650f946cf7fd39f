"""Every way to end has its code, and every mistake one clear line."""

import json
import shutil
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from agentbench.core.records import RunDirectory
from tests.cli.command import Done, agentbench, assert_one_clear_line, start
from tests.disks import little_room, read_only

SMALL = ("--episodes", 4, "--jobs", 2)


def run_of(done: Done) -> Path:
    assert done.code == 0, done.err
    return Path(done.events[-1]["run_dir"])


def test_0_done_and_valid(tmp_path: Path) -> None:
    done = agentbench("eval", "--model", "oracle", "--env", "sokoban", *SMALL, cwd=tmp_path)
    assert done.code == 0
    assert done.out == "", "people read stderr, programs stdout"
    assert "success (strict)" in done.err and "100.0 %" in done.err and "coverage" in done.err
    assert len(list((tmp_path / "runs").iterdir())) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--model", "oracle", "--env", "sokobn"], ["no environment 'sokobn'", "did you mean 'sokoban'"]),
        (["--model", "oracle", "--env", "sokoban/6x6-11"], ["did you mean '6x6-1'"]),
        (["--model", "oracle", "--env", "./nowhere.py"], ["there is no file"]),
        (["--model", "orcale", "--env", "sokoban"], ["did you mean 'oracle'"]),
        (["--model", "oracle"], ["--env is missing"]),
        (["--model", "oracle", "--env", "sokoban", "--trials", "0"], ["trials = 0"]),
        (["--model", "oracle", "--env", "sokoban", "--context", "tail"], ["full, window:K"]),
        (["--model", "oracle", "--env", "sokoban", "-E", "boxes"], ["-E takes key=value"]),
        (["--model", "oracle", "--env", "sokoban", "-E", "rows=many"], ["cannot be started with", "TypeError", "line"]),
        (["--model", "oracle", "--env", "sokoban", "-E", "rows=6.5"], ["cannot be started with", "TypeError", "line"]),
        (["--model", "oracle", "--env", "sokoban", "--config", "nowhere.toml"], ["cannot read the configuration"]),
        (["--resume", "nowhere"], ["no run directory nowhere"]),
        (["--resume", "."], ["config.toml"]),
        (["--model", "openai:gpt", "--env", "sokoban"], ["--base-url"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) and value[0].startswith("-") else "",
)
def test_2_a_request_that_makes_no_sense(tmp_path: Path, arguments: list[str], words: list[str]) -> None:
    assert_one_clear_line(agentbench("eval", *arguments, cwd=tmp_path), 2, *words)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [("model = ", "is no TOML"), ("modle = 'oracle'", "unknown key 'modle'"), ("episodes = 'all'", "episodes = 'all'"),
     ("\x00", "is no TOML")],
)  # fmt: skip
def test_2_a_corrupt_configuration(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "c.toml").write_text(content)
    done = agentbench("eval", "--config", "c.toml", "--model", "oracle", "--env", "sokoban", cwd=tmp_path)
    assert_one_clear_line(done, 2, words)


@pytest.mark.parametrize(
    "arguments", [["evla"], ["eval", "--epsiodes", "3"], ["eval", "--episodes", "many"], ["envs", "inof"]]
)
def test_2_a_flag_or_verb_that_does_not_exist(tmp_path: Path, arguments: list[str]) -> None:
    done = agentbench(*arguments, cwd=tmp_path)
    assert done.code == 2
    assert "Traceback" not in done.err
    assert any(word in done.err for word in ("evla", "--epsiodes", "--episodes", "inof"))


def test_3_too_many_failures(tmp_path: Path, broken: Path) -> None:
    arguments = ("--model", "oracle", "--env", broken, "-E", "fail_on=[1, 2]", "--retries", 0, "--json")
    done = agentbench("eval", *arguments, cwd=tmp_path)
    assert done.code == 3
    assert "error: only 2 of 4 episodes were scored (failures: environment 2, the last one RuntimeError:" in done.err
    assert "resume with --resume" in done.err
    assert "Traceback" not in done.err
    last = done.events[-1]
    assert (last["status"], last["summary"]["coverage"], last["summary"]["success"]) == ("invalid", 0.5, 0.5)


def test_3_a_full_disk(tmp_path: Path, words: Path) -> None:
    with little_room(tmp_path) as disk:
        arguments = ("--model", "random", "--env", words, "--episodes", 5000, "--out", disk)
        assert_one_clear_line(agentbench("eval", *arguments, cwd=tmp_path), 3, "cannot write")
        (path,) = disk.iterdir()
        run = RunDirectory.open(path) if (path / "run.json").exists() else RunDirectory(path)
        assert all(run.trajectory(row).turns for row in run.rows()), "what was written is readable"


def test_3_a_disk_that_fills_up_loses_nothing_and_the_run_goes_on_elsewhere(tmp_path: Path, words: Path) -> None:
    arguments = ("--model", "random", "--env", f"{words}", "--episodes", 120, "-E", "length=40", "--json")
    with little_room(tmp_path) as disk:
        done = agentbench("eval", *arguments, "--out", disk, cwd=tmp_path)
        assert_one_clear_line(Done(done.code, "", done.err), 3, "cannot write")
        told = [event["key"] for event in done.events if event["event"] == "episode"]
        (path,) = disk.iterdir()
        assert [row["key"] for row in RunDirectory(path).rows()][: len(told)] == told
        assert 0 < len(told) < 120
        saved = tmp_path / "saved"
        shutil.copytree(path, saved)
    resumed = agentbench("eval", "--resume", saved, "--json", cwd=tmp_path)
    assert resumed.code == 0, resumed.err
    run = RunDirectory.open(saved)
    assert Counter(row["key"] for row in run.rows()) == Counter(planned.key for planned in run.plan())


def test_3_a_read_only_folder(tmp_path: Path) -> None:
    with read_only(tmp_path) as folder:
        arguments = ("--model", "oracle", "--env", "sokoban", *SMALL, "--out", folder / "runs")
        assert_one_clear_line(agentbench("eval", *arguments, cwd=tmp_path), 3, "cannot write", str(folder))


def test_3_a_file_in_the_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    done = agentbench("eval", "--model", "oracle", "--env", "sokoban", *SMALL, cwd=tmp_path)
    assert_one_clear_line(done, 3, "cannot write")


def test_4_a_missing_checkpoint(tmp_path: Path) -> None:
    done = agentbench("eval", "--model", "checkpoints/best", "--env", "sokoban", cwd=tmp_path)
    assert_one_clear_line(done, 4, "no checkpoint folder 'checkpoints/best'")
    assert not (tmp_path / "runs").exists(), "found before any episode"


def test_4_a_missing_prerequisite(tmp_path: Path, words: Path) -> None:
    done = agentbench("eval", "--model", "oracle", "--env", f"{words}/docker", cwd=tmp_path)
    assert_one_clear_line(done, 4, "needs a-thing-nobody-has")
    assert not (tmp_path / "runs").exists()


def test_5_nothing_selected(tmp_path: Path) -> None:
    done = agentbench("eval", "--model", "oracle", "--env", "sokoban", "--episodes", 0, cwd=tmp_path)
    assert_one_clear_line(done, 5, "selects no episode")


def test_7_an_environment_that_changed_under_a_run(tmp_path: Path, words: Path) -> None:
    run = run_of(agentbench("eval", "-m", "oracle", "-e", words, *SMALL, "--json", cwd=tmp_path))
    words.write_text(words.read_text() + "# changed\n")
    assert_one_clear_line(agentbench("eval", "--resume", tmp_path / run, cwd=tmp_path), 7, "env_source")


def test_7_a_reward_that_was_never_paid(tmp_path: Path) -> None:
    run = tmp_path / run_of(agentbench("eval", "-m", "random", "-e", "sokoban", *SMALL, "--json", cwd=tmp_path))
    first, *rest = (run / "episodes.jsonl").read_text().splitlines()
    forged = {**json.loads(first), "success": True, "reward": 99.0}
    (run / "episodes.jsonl").write_text("\n".join([json.dumps(forged), *rest]) + "\n")
    done = agentbench("replay", run, "--json", cwd=tmp_path)
    assert_one_clear_line(done, 7, "1 of 4 episodes")
    assert done.events[-1]["different"] == 1


def test_7_a_damaged_run(tmp_path: Path) -> None:
    run = tmp_path / run_of(agentbench("eval", "-m", "oracle", "-e", "sokoban", *SMALL, "--json", cwd=tmp_path))
    for name in ("episodes.jsonl", "lock.json", "run.json"):  # Each is read before the one that was damaged before it.
        (run / name).write_text("{damaged\n")
        assert_one_clear_line(agentbench("eval", "--resume", run, cwd=tmp_path), 7, name)


def test_7_a_plan_that_is_not_the_configurations(tmp_path: Path) -> None:
    run = tmp_path / run_of(agentbench("eval", "-m", "oracle", "-e", "sokoban", *SMALL, "--json", cwd=tmp_path))
    (run / "plan.jsonl").write_text("".join((run / "plan.jsonl").read_text().splitlines(keepends=True)[1:]))
    assert_one_clear_line(agentbench("eval", "--resume", run, cwd=tmp_path), 7, "plan.jsonl is not the plan")


def test_7_an_environment_that_breaks_the_contract(tmp_path: Path, words: Path) -> None:
    words.write_text(
        words.read_text().replace("return super().step(action)", "return super().step(action)._replace(reward=2.5)")
    )
    done = agentbench("envs", "check", words, cwd=tmp_path)
    assert done.code == 7
    assert "breaks the contract" in done.err and "weighing" in done.err and "Traceback" not in done.err
    assert agentbench("envs", "check", "sokoban", "--episodes", 2, cwd=tmp_path).code == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_130_and_143_interrupted_and_resumable(tmp_path: Path, words: Path, number: int, code: int) -> None:
    arguments = ("--model", "random", "--env", f"{words}/slow", "--episodes", 60, "--jobs", 2, "--json")
    process = start("eval", *arguments, cwd=tmp_path)
    while not (found := list(tmp_path.glob("runs/*/episodes.jsonl"))) or found[0].read_bytes().count(b"\n") < 5:
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    done = Done(process.returncode, "", err)
    assert_one_clear_line(done, code, "interrupted", "agentbench eval --resume")
    run = RunDirectory.open(found[0].parent)
    assert run.state["status"] == "cancelled"
    told = Done(code, out, err).events
    assert [row["key"] for row in run.rows()] == [event["key"] for event in told if event["event"] == "episode"]
    before = len(run.rows())
    assert 5 <= before < 60
    resume = err.split("agentbench eval ")[-1].split()
    resumed = agentbench("eval", *resume, "--json", cwd=tmp_path)
    assert resumed.code == 0, resumed.err
    assert resumed.events[-1]["summary"]["coverage"] == 1.0
    assert Counter(row["key"] for row in run.rows()) == Counter(planned.key for planned in run.plan())


def test_interrupted_before_the_first_episode_nothing_is_lost(tmp_path: Path, words: Path) -> None:
    words.write_text(words.read_text() + "\nimport time\nprint('loading', flush=True)\ntime.sleep(30)\n")
    process = start("eval", "--model", "oracle", "--env", words, cwd=tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline() == "loading\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert_one_clear_line(Done(process.returncode, "", err), 130, "interrupted")
