"""The owner's end of the wire: a process that answers calls over its standard streams.

The process leads a group of its own, so that killing it kills whatever it started. It is killed when a call takes too
long, when its owner closes it or ends, and what is left of its group when it dies by itself; it is always waited for.
Every such end is a `Failure` that repeats the last lines of its standard error: an infrastructure failure, which the
harness retries, and never an outcome of the agent.
"""

import atexit
import itertools
import os
import select
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import IO, Any, NoReturn, get_args

from agentbench.core.errors import AgentBenchError, Cause, Failure, IntegrityError
from agentbench.core.plain import plain
from agentbench.remote.protocol import CLOSE_SECONDS, SCRATCH, VERSION, decode, encode

START_SECONDS = 120.0
"""How long a process may take until it says hello."""

TAIL_LINES = 12
"""Lines of standard error that are kept."""

DEATH_SECONDS = 1.0
"""How long a process that stopped answering has to end by itself, and its last words to arrive."""

LONGEST_LINE = 64 * 2**20
"""Bytes of one answer; a longer one is a broken process."""

HOME_VARIABLES = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP")
"""What would make another interpreter load our packages instead of its own."""


class Process:
    """A running server of `protocol.serve`.

    Args:
        command: What to run.
        title: What it is, for messages: "TextWorld".
        environ: Variables on top of ours.
        seconds: How long it may take to start.

    Raises:
        Failure: It did not start.
        IntegrityError: It speaks another version of the wire.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        title: str,
        environ: Mapping[str, str] | None = None,
        seconds: float = START_SECONDS,
    ) -> None:
        self.title = title
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        greeting: Future[Any] = Future()
        self._waiting: dict[int | None, Future[Any]] = {None: greeting}
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._writing = threading.RLock()
        self._ended: str | None = None
        self._scratch = tempfile.mkdtemp(prefix="agentbench-process-")
        self._process = self._start(command, environ or {})
        _running.add(self)
        self._errors = threading.Thread(target=self._read_errors, name=f"agentbench-errors-{title}", daemon=True)
        self._errors.start()
        threading.Thread(target=self._read_answers, name=f"agentbench-answers-{title}", daemon=True).start()
        self.hello: dict[str, Any] = self._result(greeting, "starting", seconds)
        """What the process said of itself when it was ready."""
        if self.hello["protocol"] != VERSION:
            self.kill("speaks another protocol")
            raise IntegrityError(f"{title} speaks version {self.hello['protocol']} of the wire, expected {VERSION}")

    def _start(self, command: Sequence[str], environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
        ours = {name: value for name, value in os.environ.items() if name not in HOME_VARIABLES}
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**ours, "TMPDIR": self._scratch, SCRATCH: self._scratch, **environ},
                start_new_session=True,
            )
        except OSError as error:
            shutil.rmtree(self._scratch, ignore_errors=True)
            raise Failure("environment", f"{self.title} cannot be started: {error}") from error
        assert process.stdin is not None
        os.set_blocking(process.stdin.fileno(), False)
        return process

    @property
    def alive(self) -> bool:
        """Whether it still answers, as far as is known."""
        return self._ended is None

    @property
    def pid(self) -> int:
        """The process's id, which is its group's too."""
        return self._process.pid

    def open(self, seconds: float, **args: Any) -> int:
        """Begin a session and return its number."""
        session = next(self._numbers)
        self.call(session, "open", seconds, **args)
        return session

    def call(self, session: int, method: str, seconds: float, **args: Any) -> Any:
        """Call a method of a session and wait for its result.

        Args:
            session: The session's number.
            method: The method's name.
            seconds: How long it may take; then the whole process is killed, for what hangs cannot be stopped else.
            **args: Its arguments.

        Raises:
            Failure: The process died, hung, answered nonsense, or the method broke.
            AgentBenchError: What the method raised on purpose, as itself.
            NotImplementedError: The session cannot do this.
        """
        deadline = time.monotonic() + seconds
        answer: Future[Any] = Future()
        with self._lock:
            if self._ended is not None:
                raise Failure("environment", self._obituary(f"{method} was called"))
            number = next(self._numbers)
            self._waiting[number] = answer
        self._send(encode({"id": number, "session": session, "method": method, "args": args}), method, deadline)
        return self._result(answer, method, deadline - time.monotonic())

    def kill(self, why: str = "was closed") -> None:
        """End the process and its group. Idempotent."""
        with self._lock:
            if self._ended is not None:
                return
            self._ended = why
            self._end_group()
        self._give_up()

    def _give_up(self) -> None:
        """Tell whoever still waits, and close our end."""
        for answer in list(self._waiting.values()):
            _settle(answer, error=Failure("environment", self._obituary("it answered")))
        assert self._process.stdin is not None
        with self._writing:  # A writer that was stuck has noticed by now that nobody reads.
            self._process.stdin.close()
        _running.discard(self)

    def disown(self) -> None:
        """Give it up without ending it, in a forked child of its owner."""
        self._ended = "belongs to another process"
        assert self._process.stdin is not None
        with suppress(OSError):
            os.close(self._process.stdin.fileno())
        _running.discard(self)

    def _end_group(self) -> None:
        """Kill the group before its leader is waited for: until then nobody else can have its number."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _send(self, line: bytes, method: str, deadline: float) -> None:
        assert self._process.stdin is not None
        rest = memoryview(line)
        with self._writing:
            while rest and not self._process.stdin.closed:
                stream = self._process.stdin.fileno()
                if not select.select((), (stream,), (), max(0.0, deadline - time.monotonic()))[1]:
                    self._time_out(method)
                try:
                    rest = rest[os.write(stream, rest) :]
                except BrokenPipeError:
                    return  # It died; whoever waits for the answer hears of it from `_read_answers`.

    def _result(self, answer: "Future[Any]", method: str, seconds: float) -> Any:
        try:
            return answer.result(max(0.0, seconds))
        except TimeoutError:
            self._time_out(method)

    def _time_out(self, method: str) -> NoReturn:
        said = self._said()
        self.kill("took too long and was killed")
        raise Failure("timeout", f"{self.title} did not answer {method} in time{said}")

    def _read_answers(self) -> None:
        assert self._process.stdout is not None
        try:
            for message in _messages(self._process.stdout):
                number = None if "hello" in message else message["id"]
                with self._lock:
                    answer = self._waiting.pop(number)
                if "error" in message:
                    _settle(answer, error=_revived(message["error"], self.title))
                else:
                    _settle(answer, result=message.get("hello", message.get("result")))
            self._bury()
        except (ValueError, KeyError, TypeError) as error:
            self.kill(f"said what is no answer ({type(error).__name__}: {error})")
        finally:
            self._process.stdout.close()

    def _bury(self) -> None:
        """Note how the process died by itself, and what it said last."""
        self._await_death()
        self._errors.join(DEATH_SECONDS)
        with self._lock:
            if self._ended is None:
                self._end_group()
                self._ended = f"died ({_how(self._process.returncode)})"
        self._give_up()

    def _await_death(self) -> None:
        """Give a process that closed its end of the wire the time to die by its own cause; it is not reaped yet."""
        deadline = time.monotonic() + DEATH_SECONDS
        look = os.WEXITED | os.WNOWAIT | os.WNOHANG
        with suppress(ChildProcessError):
            while os.waitid(os.P_PID, self._process.pid, look) is None and time.monotonic() < deadline:
                time.sleep(0.005)

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as stream:
            for line in iter(lambda: stream.readline(4096), b""):
                self._tail.append(plain(line.decode(errors="replace").strip()))

    def _obituary(self, what: str) -> str:
        return f"the process of {self.title} {self._ended} before {what}{self._said()}"

    def _said(self) -> str:
        said = " / ".join(line for line in list(self._tail) if line)
        return f"; it last said: {said}" if said else ""


class Session:
    """One session of a process: an environment, or whatever the server opens."""

    def __init__(self, process: Process, number: int, release: Callable[[Process], None]) -> None:
        self.process = process
        self._number = number
        self._end = weakref.finalize(self, _end_session, process, number, release)

    def call(self, method: str, seconds: float, **args: Any) -> Any:
        """Call one of the session's methods; see `Process.call`."""
        return self.process.call(self._number, method, seconds, **args)

    def close(self) -> None:
        """End the session and give its place back. Idempotent; also happens when nobody knows the session any more."""
        self._end()


def _end_session(process: Process, number: int, release: Callable[[Process], None]) -> None:
    with suppress(AgentBenchError):
        if process.alive:
            process.call(number, "close", CLOSE_SECONDS)
    release(process)


class Processes:
    """Processes of one kind: started when needed, used again when idle, never again when broken.

    Args:
        start: Starts one.
        sessions: Sessions that share a process. A crash ends all of them.
        spare: Idle processes that are kept.
    """

    def __init__(self, start: Callable[[], Process], *, sessions: int = 1, spare: int = 2) -> None:
        self._start = start
        self._most = sessions
        self._spare = spare
        self._lock = threading.Lock()
        self._users: dict[Process, int] = {}

    def session(self, seconds: float, **args: Any) -> Session:
        """Open a session.

        Args:
            seconds: How long opening may take.
            **args: The arguments of `open`.

        Raises:
            Failure: No process could be started, or it broke.
        """
        with self._lock:
            free = (process for process, users in self._users.items() if process.alive and users < self._most)
            process = next(free, None) or self._start()
            self._users[process] = self._users.get(process, 0) + 1
        try:
            return Session(process, process.open(seconds, **args), self._release)
        except BaseException:
            self._release(process)
            raise

    def _release(self, process: Process) -> None:
        with self._lock:
            self._users[process] -= 1
            idle = [each for each, users in self._users.items() if users == 0]
            gone = [each for each in idle if not each.alive]
            gone += [each for each in idle if each.alive][self._spare :]
            for each in gone:
                del self._users[each]
        for each in gone:
            each.kill()


def _messages(stream: IO[bytes]) -> Iterator[dict[str, Any]]:
    """Yield whole messages until the stream ends.

    Raises:
        ValueError: A line is no message, or has no end.
    """
    while line := stream.readline(LONGEST_LINE):
        if not line.endswith(b"\n"):
            if len(line) == LONGEST_LINE:
                raise ValueError(f"an answer of more than {LONGEST_LINE} bytes")
            return  # It died while it was writing.
        yield decode(line)


_CAUSES: tuple[Cause, ...] = get_args(Cause)


def _revived(error: Mapping[str, str], title: str) -> Exception:
    """Make an exception of the same meaning as the one that the server met."""
    kind, message = error["type"], error["message"]
    if kind == "NotImplementedError":
        return NotImplementedError(message)
    if kind == "Failure":
        said = error.get("cause")
        return Failure(next((cause for cause in _CAUSES if cause == said), "environment"), message)
    ours = {cls.__name__: cls for cls in AgentBenchError.__subclasses__()}
    if kind in ours:
        return ours[kind](message)
    return Failure(
        "memory" if kind == "MemoryError" else "environment", f"{title}: {kind}: {message} ({error['place']})"
    )


def _settle(answer: "Future[Any]", *, result: Any = None, error: Exception | None = None) -> None:
    with suppress(InvalidStateError):
        answer.set_result(result) if error is None else answer.set_exception(error)


def _how(returncode: int) -> str:
    if returncode >= 0:
        return f"exit code {returncode}"
    return f"killed by {signal.Signals(-returncode).name}"


_running: "weakref.WeakSet[Process]" = weakref.WeakSet()


@atexit.register
def _kill_all() -> None:
    for process in list(_running):
        process.kill()


def _forget() -> None:
    """In a forked child: its parent's processes are not its own, and must hear of the parent's end."""
    for process in list(_running):
        process.disown()


os.register_at_fork(after_in_child=_forget)
