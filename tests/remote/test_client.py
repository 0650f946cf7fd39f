"""An environment in another process is the same environment."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentbench.core.checks import check_env, play_random
from agentbench.core.env import Env
from agentbench.core.errors import EpisodeOver, Failure, IntegrityError, Unsolvable, UsageError
from agentbench.core.registry import Resolved, resolve
from agentbench.remote.client import Patience, RemoteEnv, processes_of
from agentbench.remote.stdio import Process, Processes
from agentbench.testing import resolve_fake

FILE = str(Path(__file__).parent / "odd_env.py")
SOKOBAN = processes_of("sokoban")
ODD = processes_of(FILE)


def odd(**kwargs: Any) -> RemoteEnv:
    return RemoteEnv(resolve(FILE, **kwargs), ODD, patience=Patience(step=2.0))


@pytest.fixture
def alone() -> Iterator[tuple[RemoteEnv, Process]]:
    """An odd environment in a process of its own, and that process."""
    processes = processes_of(FILE, sessions=1)
    env = RemoteEnv(resolve(FILE), processes, patience=Patience(step=1.0))
    process = env._session.process
    env.reset(seed=0)
    yield env, process
    process.kill()


def gone(pid: int) -> bool:
    """Whether no process has this id, not even a zombie."""
    deadline = time.monotonic() + 20
    while Path(f"/proc/{pid}").exists():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def make_remote_sokoban(split: str = "test", **kwargs: Any) -> Env:
    return RemoteEnv(resolve("sokoban/tiny", split=split), SOKOBAN)


def remote_sokoban() -> Resolved:
    here = resolve("sokoban/tiny")
    return Resolved(
        replace(here.entry, entry_point=f"{__name__}:make_remote_sokoban"), here.variant, here.split, {}, here.origin
    )


def test_a_remote_environment_keeps_the_contract(scale: float) -> None:
    check_env(remote_sokoban(), episodes=max(2, round(3 * scale)), hostile=30)


def test_a_remote_episode_is_the_local_episode() -> None:
    resolved = resolve("sokoban/6x6-1")
    here, there = resolved.make(), RemoteEnv(resolved, SOKOBAN)
    for seed in range(3):
        assert play_random(there, seed, limit=20) == play_random(here, seed, limit=20)
        assert there.reset(seed=seed) == here.reset(seed=seed)
        assert there.oracle() == here.oracle()
        assert there.content(seed) == here.content(seed)
    there.close()


def test_sessions_of_one_process_do_not_disturb_each_other() -> None:
    resolved = resolve("sokoban/6x6-1")

    def play(seed: int) -> object:
        env = RemoteEnv(resolved, SOKOBAN)
        record = play_random(env, seed, limit=20)
        env.close()
        return record

    serial = [play(seed) for seed in range(8)]
    with ThreadPoolExecutor(16) as threads:
        assert list(threads.map(play, list(range(8)) * 2)) == serial * 2


def test_a_slow_session_does_not_hold_up_the_others() -> None:
    slow, quick = odd(), odd()
    assert slow._session.process is quick._session.process
    slow.reset(seed=0)
    quick.reset(seed=0)
    waiting = threading.Thread(target=slow.step, args=("sleep 1",))
    waiting.start()
    quick.step("say hello")
    assert waiting.is_alive(), "the quick session waited for the slow one"
    waiting.join()
    slow.close()
    quick.close()


@pytest.mark.parametrize(
    ("action", "error", "words"),
    [
        ("raise UsageError", UsageError, "as you wish"),
        ("raise Unsolvable", Unsolvable, "as you wish"),
        ("raise RuntimeError", Failure, r"RuntimeError: as you wish \(odd_env.py, line \d+\)"),
        ("raise MemoryError", Failure, "as you wish"),
        ("raise Failure", Failure, "as you wish"),
        ("give object", Failure, "object cannot cross the wire"),
    ],
)
def test_an_error_keeps_its_kind(action: str, error: type[Exception], words: str) -> None:
    env = odd()
    env.reset(seed=0)
    with pytest.raises(error, match=words) as raised:
        env.step(action)
    if action.endswith(("MemoryError", "Failure")):
        assert raised.value.cause == ("memory" if "Memory" in action else "sandbox")  # type: ignore[attr-defined]
    assert env.step("say on").observation == "on", "the session went on after an error"
    env.close()


def test_what_an_environment_cannot_do_it_cannot_do_remotely() -> None:
    env = odd()
    with pytest.raises(EpisodeOver):
        env.step("say x")
    env.reset(seed=0)
    with pytest.raises(NotImplementedError):
        env.oracle()
    env.close()


def test_what_an_environment_prints_does_not_reach_the_wire() -> None:
    env = odd()
    env.reset(seed=0)
    assert env.step("print {}").observation == "printed"
    env.close()


@pytest.mark.parametrize("text", ["", "\ud800", "\u2028\n\r\x00", "x" * 1_000_000, '{"id": 0}\n{"id": 1}'])
def test_any_text_crosses_the_wire(text: str) -> None:
    env = odd()
    env.reset(seed=0)
    assert env.step("say " + text).observation == text
    env.close()


def test_values_that_are_not_json_cross_the_wire() -> None:
    env = odd()
    env.reset(seed=0)
    info = env.step("give image").info
    assert info["image"] == b"\x89PNG\x00"
    assert info["count"] == 3
    env.close()


@pytest.mark.parametrize(("number", "words"), [(signal.SIGKILL, "SIGKILL"), (signal.SIGSEGV, "SIGSEGV")])
def test_a_killed_process_is_an_infrastructure_failure(
    alone: tuple[RemoteEnv, Process], number: signal.Signals, words: str
) -> None:
    env, process = alone
    env.step("warn the boiler is hot")
    os.kill(process.pid, number)
    with pytest.raises(Failure, match=rf"killed by {words}.*the boiler is hot") as raised:
        env.step("say x")
    assert raised.value.cause == "environment"
    assert gone(process.pid), "a zombie is left"
    env.close()


def test_a_process_that_dies_while_it_answers_says_how(alone: tuple[RemoteEnv, Process]) -> None:
    env, process = alone
    with pytest.raises(Failure, match="exit code 9"):
        env.step("exit 9")
    assert gone(process.pid)
    env.close()


def test_a_hang_ends_by_itself_and_takes_everything_along(alone: tuple[RemoteEnv, Process]) -> None:
    env, process = alone
    child = int(env.step("spawn").observation)
    with pytest.raises(Failure, match="did not answer step in time") as raised:
        env.step("sleep 1000")
    assert raised.value.cause == "timeout"
    assert gone(process.pid), "a zombie is left"
    assert gone(child), "a child of the process outlived it"


def test_a_process_that_stopped_reading_is_no_hang_of_ours(alone: tuple[RemoteEnv, Process]) -> None:
    env, process = alone
    os.kill(process.pid, signal.SIGSTOP)
    with pytest.raises(Failure, match="in time"):
        env.step("x" * 10_000_000)
    assert gone(process.pid)


def test_a_crash_leaves_no_child_behind(alone: tuple[RemoteEnv, Process]) -> None:
    env, process = alone
    child = int(env.step("spawn").observation)
    os.kill(process.pid, signal.SIGKILL)
    assert gone(child)


def test_a_crash_breaks_no_later_session() -> None:
    processes = processes_of(FILE)
    first = RemoteEnv(resolve(FILE), processes)
    os.kill(first._session.process.pid, signal.SIGKILL)
    with pytest.raises(Failure):
        first.reset(seed=0)
    first.close()
    second = RemoteEnv(resolve(FILE), processes)
    second.reset(seed=0)
    assert second.step("say x").observation == "x"
    second.close()
    second._session.process.kill()


OWNER = """
import sys, time
from agentbench.core.registry import resolve
from agentbench.remote.client import RemoteEnv, processes_of
processes = processes_of(sys.argv[1])
env = RemoteEnv(resolve(sys.argv[1]), processes)
env.reset(seed=0)
process = env._session.process
print(process.pid, env.step("spawn").observation, process._scratch, flush=True)
if sys.argv[2] == "busy":
    env.step("spin")
elif sys.argv[2] == "idle":
    time.sleep(1000)
"""


@pytest.mark.parametrize("end", ["ends", "idle", "busy"])
def test_a_process_does_not_outlive_its_owner(end: str) -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER, FILE, end], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    server, child, scratch = owner.stdout.readline().split()
    if end != "ends":
        time.sleep(0.2)
        owner.kill()
    owner.wait(60)
    owner.stdout.close()
    assert gone(int(server)) and gone(int(child))
    assert not Path(scratch).exists(), "temporary files are left"


def test_a_forked_child_does_not_use_its_parents_process(alone: tuple[RemoteEnv, Process]) -> None:
    env, _ = alone
    child = os.fork()
    if child == 0:
        try:
            env.step("say x")
        except Failure:
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert env.step("say x").observation == "x", "the child disturbed its parent's process"


def test_sessions_that_nobody_knows_any_more_are_closed() -> None:
    processes = processes_of(FILE, sessions=1)
    env = RemoteEnv(resolve(FILE), processes)
    pid = env._session.process.pid
    del env
    again = RemoteEnv(resolve(FILE), processes)
    assert again._session.process.pid == pid, "the process of a forgotten session was not used again"
    again.close()
    again._session.process.kill()


def test_idle_processes_are_few() -> None:
    processes = Processes(lambda: Process(COMMAND, title="odd"), sessions=1, spare=1)
    arguments = {"variant": "odd", "split": "test", "kwargs": {}}
    sessions = [processes.session(60, **arguments) for _ in range(3)]
    pids = [session.process.pid for session in sessions]
    for session in sessions:
        session.close()
        session.close()
    assert sum(gone(pid) for pid in pids[1:]) == 2
    assert Path(f"/proc/{pids[0]}").exists()
    sessions[0].process.kill()


COMMAND = [sys.executable, "-P", "-m", "agentbench.cli", "serve", FILE, "--stdio"]


def test_other_code_behind_the_wire_is_refused() -> None:
    resolved = resolve_fake(replace(resolve(FILE).entry, version=7))
    with pytest.raises(IntegrityError, match=r"odd/odd@0.*expected.*odd/odd@7"):
        RemoteEnv(resolved, ODD)


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("print('hello')", "no answer"),
        ("import sys; sys.exit('the engine is missing')", "exit code 1.*the engine is missing"),
        ('print(\'{"id": 3, "result": 1}\')', "no answer"),
        ("print('[' * 100_000)", "no answer"),
    ],
)
def test_a_program_that_is_no_server_is_an_infrastructure_failure(program: str, words: str) -> None:
    with pytest.raises(Failure, match=words):
        Process([sys.executable, "-c", program], title="odd")


def test_a_program_that_is_not_there_is_an_infrastructure_failure(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="cannot be started"):
        Process([str(tmp_path / "nothing")], title="odd")


def test_another_version_of_the_wire_is_refused() -> None:
    program = 'import time; print(\'{"hello": {"protocol": 99}}\', flush=True); time.sleep(60)'
    with pytest.raises(IntegrityError, match="version 99"):
        Process([sys.executable, "-c", program], title="odd")
