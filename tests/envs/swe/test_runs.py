"""Runs of SWE episodes: what their records say, what they leave behind, and an engine that goes away under them."""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from agentbench_envs.swe.env import SweEnv
from agentbench_envs.swe.tools import write

from agentbench.core.policy import EpisodeContext, Session
from agentbench.core.records import RunDirectory
from agentbench.core.types import Message, Reply, Sampling
from agentbench.evaluate.config import EvalConfig
from agentbench.evaluate.evaluate import evaluate, plan_tasks
from agentbench.policies.scripted import oracle
from agentbench.rollout.pool import play
from agentbench.sandbox.engine import engine, missing_engine, sandboxes
from agentbench.sandbox.owner import owner
from agentbench.sandbox.process import missing_bubblewrap
from agentbench.train.collect import collect, plan_groups
from agentbench.train.config import TrainConfig
from tests.cli.command import agentbench, assert_one_clear_line, start
from tests.envs.swe.test_env import FLOORS, bash
from tests.sandbox.test_leaks import eventually, runs_anywhere

pytestmark = pytest.mark.slow

ISOLATION = {"network": "none", "root": "read-only", "capabilities": "none", "memory_mib": 1024, "processes": 128}


def config(out: Path, **values: Any) -> EvalConfig:
    return EvalConfig.parse({"model": "oracle", "env": "swe", "episodes": 2, "jobs": 2, "out": str(out), **values})


def only_run(out: Path) -> RunDirectory:
    (path,) = out.iterdir()
    return RunDirectory.open(path)


def containers_of(who: str) -> list[str]:
    return [each.id for each in sandboxes() if each.owner == who]


@pytest.fixture
def jail() -> None:
    problem = missing_bubblewrap()
    if problem:
        pytest.skip(problem)


def test_every_row_says_what_its_episode_was_played_in_and_how_far_it_came(swe_image: None, tmp_path: Path) -> None:
    evaluated = evaluate(config(tmp_path))
    rows = RunDirectory.open(evaluated.run_dir).rows()
    digest = engine().inspect_image("agentbench/swe")["Id"]
    for row in rows:
        assert row["sandbox"] == row["sandbox"] | ISOLATION | {"kind": "docker", "digest": digest}
        assert row["terms"] == {"format": 2, "fraction": 1, "modified": 1, "resolved": 1, "submitted": 1}
    summary = evaluated.summary
    assert summary["completion_rate"] == summary["modification_rate"] == summary["resolution_rate"] == 1


def test_one_sandbox_serves_one_episode_and_another_waits(swe_image: None) -> None:
    before = len(containers_of(owner()))
    env = SweEnv(library="formula", split="all")
    env.reset(seed=0)
    env.step(bash("touch /workspace/used"))
    env.reset(seed=0)
    assert "used" not in env.step(bash("ls -A /workspace")).observation
    assert eventually(lambda: len(containers_of(owner())) == before + 2), "one in use, one started in advance"
    env.close()
    assert eventually(lambda: len(containers_of(owner())) == before)


def test_no_engine_is_found_before_the_run_and_the_line_names_a_way_without(jail: None, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    nobody = {"DOCKER_HOST": f"unix://{tmp_path}/nobody.sock"}
    words = ("eval", "--env", "swe/g-ra", "--model", "oracle", "--episodes", "2", "--out", out)
    for more in ((), ("--sandbox", "docker")):
        refused = agentbench(*words, *more, cwd=tmp_path, **nobody)
        assert_one_clear_line(refused, 4, "no container engine answers", "start one", "-E sandbox=process")
        assert not out.exists()
    done = agentbench(*words, "-E", "sandbox=process", cwd=tmp_path, **nobody)
    assert done.code == 0, done.err
    assert "completion rate    100.0 %" in done.err
    for row in only_run(out).rows():
        assert row["success"] and row["sandbox"]["kind"] == "process"
        assert "bubblewrap" in row["sandbox"]["isolation"]


@pytest.mark.parametrize(
    "name", ["edit the tests", "patching pytest", "a pytest of one's own", "exit code 0", "fork bomb", "endless loop"]
)
def test_pretending_scores_nothing_in_a_jail_either(jail: None, name: str) -> None:
    env = SweEnv(library="formula", split="all", command_seconds=5, test_seconds=30, sandbox="process")
    env.reset(seed=0)
    for action in FLOORS[name]:
        env.step(action)
    step = env.step(write("submit"))
    env.close()
    assert step.terminated and step.reward == 0 and step.info["terms"]["fraction"] == 0


@pytest.mark.parametrize("end", ["exit", "sleep 60"])
def test_a_new_shell_of_a_jail_has_pytest_too(jail: None, end: str) -> None:
    env = SweEnv(library="formula", split="all", command_seconds=5, sandbox="process")
    env.reset(seed=0)
    env.step(bash(end))
    assert "passed" in env.step(write("tests")).observation
    env.close()


def test_a_jail_shows_no_answers_and_no_installed_packages(jail: None) -> None:
    env = SweEnv(library="spans", split="all", sandbox="process")
    _, info = env.reset(seed=0)
    source = Path(__file__).parents[3]
    assert (str(source) in info["sandbox"]["hidden"]) == source.is_relative_to("/usr")
    for path in (source, source / "environments", Path("/usr/lib/python3/dist-packages"), Path("/root"), Path("/home")):
        found = env.step(bash(f"ls -A {path}")).observation
        assert found == "Exit code: 0" or "No such file" in found, found
    assert "passed" in env.step(write("tests")).observation
    env.close()


@dataclass
class Half:
    """The oracle in one episode; in others it looks around and hands nothing in. With tokens, as a trainer needs."""

    solves: str
    solver: Session | None = None
    name: str = "half"
    version: int = 0
    scripted: bool = True

    def start(self, episode: EpisodeContext) -> "Half":
        return replace(self, solver=oracle().start(episode) if episode.key == self.solves else None)

    async def reply(self, messages: Sequence[Message], sampling: Sampling, *, seed: int) -> Reply:
        said = await self.solver.reply(messages, sampling, seed=seed) if self.solver else Reply(write("view", path="."))
        return Reply(said.text, prompt_ids=(1,), token_ids=(2,), logprobs=(-0.5,), fresh_context=True)

    async def close(self) -> None:
        """Nothing is held."""


def test_a_trainer_pays_no_step_of_an_episode_that_handed_in_nothing(jail: None) -> None:
    recipe = TrainConfig.parse(
        {
            "model": "init:xs", "env": "swe/g-ra", "env_args": {"sandbox": "process"}, "budget": {"updates": 1},
            "algorithm": {"name": "grpo", "group_size": 2}, "rollout": {"episodes": 2, "max_turns": 3},
        }
    )  # fmt: skip
    setting = recipe.setting("train", temperature=1.0, seed=0)
    plan = plan_groups(setting.resolved, 1, 2, 0)
    learned = collect(plan, setting, Half(plan[1].key), recipe.reward_spec(setting.resolved), 1.0, retries=0)
    assert learned.batch.rewards_ek.tolist() == [[0, 0, 0], pytest.approx([0.01, 1.21, 0])]
    assert learned.played[0].trajectory.total_reward == pytest.approx(0.03), "ungated, looking around would pay"
    assert learned.metrics["episode/completion_rate"] == learned.metrics["episode/resolution_rate"] == 0.5


def test_arguments_that_do_not_go_together_are_refused(tmp_path: Path) -> None:
    (tmp_path / "tasks.json").write_text(
        '{"instance_id": "a__b-1", "repo": "a/b", "patch": "x", "FAIL_TO_PASS": ["t.py::a"], "PASS_TO_PASS": []}'
    )
    for arguments, said in (
        (("-E", "sandbox=podman"), "expected docker or process"),
        (("-E", "spare=9"), "0 to 8"),
        (("-E", "sandbox=process", "-E", f"tasks={tmp_path}/tasks.json"), "images of their own need containers"),
    ):
        words = ("eval", "--env", "swe/list:all", "--model", "nop", *arguments)
        if missing_engine() is None:
            assert_one_clear_line(agentbench(*words, cwd=tmp_path), 2, said)


def sizes(scale: float) -> tuple[int, int]:
    """How many tasks and trials: 10 episodes in CI, 200 in `make soak`."""
    count = int(10 * scale)
    return min(count, 50), max(1, count // 50)


def test_training_finds_out_before_it_begins_that_there_is_no_engine(tmp_path: Path) -> None:
    recipe = 'model = "init:xs"\nenv = "swe/g-ra"\n[algorithm]\nname = "turn-ppo"\n[budget]\nupdates = 1\n'
    (tmp_path / "recipe.toml").write_text(recipe)
    nobody = {"DOCKER_HOST": f"unix://{tmp_path}/nobody.sock"}
    refused = agentbench("train", "--config", "recipe.toml", cwd=tmp_path, **nobody)
    assert_one_clear_line(refused, 4, "no container engine answers", "-E sandbox=process")
    assert not (tmp_path / "runs").exists()


class Messy:
    """The oracle, but for a process that it leaves running in each episode."""

    name, version, scripted = "messy", 0, True

    def start(self, episode: EpisodeContext) -> "Messy.Session":
        return Messy.Session(episode)

    class Session:
        """One episode."""

        def __init__(self, episode: EpisodeContext) -> None:
            self._oracle = oracle().start(episode)
            self._first = True

        async def reply(self, messages: Sequence[Message], sampling: Sampling, *, seed: int) -> Reply:
            if self._first:
                self._first = False
                return Reply(bash("(setsid sleep 87654321 &) >/dev/null 2>&1; mkfifo pipe; (cat pipe &); touch .x"))
            return await self._oracle.reply(messages, sampling, seed=seed)

        async def close(self) -> None:
            await self._oracle.close()


def left() -> dict[str, set[str]]:
    """What episodes could leave behind on this machine."""
    api = engine()
    return {
        "containers": set(containers_of(owner())),
        "networks": {each["Name"] for each in api.networks()},
        "volumes": {each["Name"] for each in api.volumes()["Volumes"] or ()},
        "processes": {words for words in ("sleep 87654321",) if runs_anywhere(words)},
        "folders": {path.name for path in Path(tempfile.gettempdir()).glob(f"agentbench-*{owner()}*")},
    }


@pytest.mark.alone
def test_a_crowd_of_episodes_leaves_nothing(
    swe_image: None, scale: float, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    before, began = left(), time.monotonic()
    chosen = config(tmp_path, env="swe:train", jobs=8)
    resolved = chosen.resolve_env()
    plan = plan_tasks(resolved, *sizes(scale), 0)

    async def main() -> list[bool | None]:
        setting = chosen.setting(resolved, scripted=True)
        return [played.trajectory.success async for played in play(plan, setting, Messy(), jobs=8)]

    outcomes = asyncio.run(main())
    record_property("episodes_per_second", round(len(outcomes) / (time.monotonic() - began), 3))
    assert len(outcomes) == len(plan) and all(outcomes)
    assert eventually(lambda: left() == before), {name: left()[name] - before[name] for name in before}


@pytest.mark.alone
@pytest.mark.parametrize("blow", [signal.SIGINT, signal.SIGKILL])
def test_a_runner_that_is_stopped_or_killed_leaves_nothing_and_its_run_goes_on(
    swe_image: None, scale: float, tmp_path: Path, blow: signal.Signals
) -> None:
    tasks, trials = sizes(scale)
    words = ("eval", "--env", "swe:train", "--model", "oracle", "--episodes", tasks, "--trials", trials)
    runner = start(*words, "--out", tmp_path / "runs", cwd=tmp_path)
    rows = tmp_path / "runs"
    assert eventually(lambda: any(file.read_bytes().count(b"\n") for file in rows.glob("*/episodes.jsonl")), 300)
    runner.send_signal(blow)
    runner.communicate(timeout=120)
    assert runner.returncode == (130 if blow is signal.SIGINT else -signal.SIGKILL)
    assert agentbench("sandbox", "cleanup", cwd=tmp_path).code == 0
    assert eventually(lambda: not any(f"+{runner.pid}+" in each.owner for each in sandboxes()))
    assert not [
        path for path in Path(tempfile.gettempdir()).glob("agentbench-sandbox-*") if f"+{runner.pid}+" in path.name
    ]
    run = only_run(rows)
    before = run.rows()
    assert 0 < len(before) < tasks * trials
    resumed = start("eval", "--resume", run.path, cwd=tmp_path)
    said = resumed.communicate(timeout=3600)[1]
    assert resumed.returncode == 0, said
    assert run.rows()[: len(before)] == before
    assert run.state["summary"]["coverage"] == run.state["summary"]["success"] == 1


class Engine:
    """A container engine of our own, with its own socket and data, that can be stopped and started again."""

    def __init__(self, folder: Path) -> None:
        self.host = f"unix://{folder}/e.sock"
        options = {"data-root": "data", "exec-root": "exec", "pidfile": "pid"}
        where = [f"--{option}={folder / name}" for option, name in options.items()]
        self._command = ["dockerd", *where, "--host", self.host, "--bridge=none", "--iptables=false"]
        self._process: subprocess.Popen[bytes] | None = None

    def docker(self, *words: str) -> int:
        command = ["docker", "--host", self.host, *words]
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode

    def begin(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        assert eventually(lambda: self.docker("version") == 0), "no second engine starts here"

    def end(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)
            self._process = None

    def pause(self, seconds: float) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self._process.send_signal(signal.SIGCONT)


@contextlib.contextmanager
def another_engine(mib: int) -> Iterator[Engine]:
    """Start an engine whose data lie in so much memory."""
    if os.geteuid() != 0 or shutil.which("dockerd") is None:
        pytest.skip("a second engine needs dockerd and root")
    folder = Path(tempfile.mkdtemp(prefix="agentbench-engine-"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", str(folder)], check=True)
    second = Engine(folder)
    try:
        second.begin()
        yield second
    finally:
        second.end()
        subprocess.run(["umount", "--recursive", str(folder)], check=True)
        folder.rmdir()


@pytest.fixture(scope="module")
def own_engine(swe_image: None) -> Iterator[Engine]:
    """An engine with the image of SWE tasks in it."""
    with another_engine(4096) as second:
        with subprocess.Popen(["docker", "save", "agentbench/swe"], stdout=subprocess.PIPE) as saved:
            command = ["docker", "--host", second.host, "load", "--quiet"]
            subprocess.run(command, stdin=saved.stdout, stdout=subprocess.DEVNULL, check=True)
        yield second


@pytest.mark.alone
@pytest.mark.parametrize("how", ["stopped", "slow"])
def test_an_engine_that_fails_under_a_run_costs_attempts_and_nothing_else(
    own_engine: Engine, tmp_path: Path, how: str
) -> None:
    words = ("eval", "--env", "swe:train", "--model", "oracle", "--episodes", 6, "--jobs", 2, "--retries", 0)
    runner = start(*words, "--out", tmp_path / "runs", cwd=tmp_path, DOCKER_HOST=own_engine.host)
    rows = tmp_path / "runs"
    assert eventually(lambda: any(file.read_bytes().count(b"\n") for file in rows.glob("*/episodes.jsonl")), 300)
    if how == "stopped":
        own_engine.end()
    else:
        own_engine.pause(5.0)
    said = runner.communicate(timeout=300)[1]
    run = only_run(rows)
    before = run.rows()
    scored = [row for row in before if row["scored"]]
    assert scored and all(row["success"] for row in scored)
    if how == "slow":
        assert (runner.returncode, len(scored)) == (0, 6), "five seconds are no failure"
        return
    assert runner.returncode == 3, said
    assert {row["failure"]["cause"] for row in before if not row["scored"]} == {"sandbox"}
    refused = agentbench("eval", "--resume", run.path, cwd=tmp_path, DOCKER_HOST=own_engine.host)
    assert_one_clear_line(refused, 4, "no container engine answers")
    own_engine.begin()
    done = agentbench("eval", "--resume", run.path, cwd=tmp_path, DOCKER_HOST=own_engine.host)
    assert done.code == 0, done.err
    assert run.rows()[: len(before)] == before
    assert run.state["summary"]["coverage"] == run.state["summary"]["success"] == 1


@pytest.mark.alone
def test_a_full_engine_is_found_before_the_run(tmp_path: Path) -> None:
    with another_engine(64) as small:
        words = ("eval", "--env", "swe", "--model", "oracle", "--episodes", "1", "--out", tmp_path / "runs")
        refused = agentbench(*words, cwd=tmp_path, DOCKER_HOST=small.host)
        assert_one_clear_line(refused, 4, "is full", "agentbench sandbox cleanup", "docker system prune")
        assert not (tmp_path / "runs").exists()
