"""The wire between an environment's process and its owner: JSON lines over the process's standard streams.

    server   {"hello": {...}}                                                    once, when it is ready
    owner    {"id": 7, "session": 2, "method": "step", "args": {"action": "go east"}}
    server   {"id": 7, "result": ...}      or      {"id": 7, "error": {"type": "UsageError", "message": "..."}}

A *session* is one environment; a process holds many. `open` begins a session under a number that the owner chose,
`close` ends it, every other method is the environment's own. Calls of one session are answered in order and on one
thread; sessions do not wait for each other. When the owner is gone the server closes its sessions and takes its whole
process group with it.

This file imports the standard library alone: a program in an interpreter without AgentBench can run it from its path.
"""

import base64
import json
import os
import queue
import shutil
import signal
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

VERSION = 1
"""Grows when one end would misunderstand the other."""

SCRATCH = "AGENTBENCH_PROCESS_SCRATCH"
"""The variable that names a folder for temporary files, which goes when the process does."""

CLOSE_SECONDS = 5.0
"""How long a server whose owner is gone waits for its sessions to close."""

Methods = Mapping[str, Callable[..., Any]]
"""What a session can do, by name; `close` among them."""


def encode(message: Mapping[str, Any]) -> bytes:
    """Return a message as one line. Bytes, tuples and numpy's numbers may occur in it; tuples come back as lists."""
    return json.dumps(message, default=_plain).encode() + b"\n"


def decode(line: bytes) -> dict[str, Any]:
    """Read a line that `encode` wrote.

    Raises:
        ValueError: It is no JSON object.
    """
    try:
        message = json.loads(line, object_hook=_restore)
    except RecursionError as error:
        raise ValueError("a message nests too deep") from error
    if not isinstance(message, dict):
        raise ValueError("a message is a JSON object")
    return message


def serve(open_session: Callable[..., Methods], hello: Mapping[str, Any]) -> None:
    """Answer calls until the owner is gone; does not return where the process leads a group of its own.

    What the sessions print goes to standard error, so that nothing but answers can reach the wire.

    Args:
        open_session: Called with the arguments of `open`, on the session's own thread.
        hello: What the owner may want to know before the first call.
    """
    requests, answers = _claim_streams()
    write = _Writer(answers)
    write({"hello": {"protocol": VERSION, "pid": os.getpid(), **hello}})
    sessions: dict[int, _Session] = {}
    for line in requests:
        call = decode(line)
        number = call["session"]
        if number not in sessions:
            sessions[number] = _Session(open_session, write)
        sessions[number].put(call)
        if call["method"] == "close":
            del sessions[number]
    _leave(list(sessions.values()))


class _Writer:
    """Writes whole lines, whichever thread they come from."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def __call__(self, message: Mapping[str, Any]) -> None:
        line = encode(message)
        with self._lock:
            self._stream.write(line)
            self._stream.flush()


class _Session:
    """One session and its thread."""

    def __init__(self, open_session: Callable[..., Methods], write: _Writer) -> None:
        self._open = open_session
        self._write = write
        self._calls: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._methods: Methods = {"close": _nothing}
        self._thread = threading.Thread(target=self._attend, daemon=True)
        self._thread.start()

    def put(self, call: dict[str, Any]) -> None:
        """Let a call wait its turn."""
        self._calls.put(call)

    def join(self, seconds: float) -> None:
        """Wait until the session has closed."""
        self._thread.join(max(0.0, seconds))

    def _attend(self) -> None:
        over = False
        while not over:
            call = self._calls.get()
            over = call["method"] == "close"
            try:
                self._write({"id": call["id"], "result": self._answer(call["method"], call["args"])})
            except BrokenPipeError:
                return  # The owner is gone, and the main thread knows.
            except Exception as error:
                self._write({"id": call["id"], "error": _described(error)})

    def _answer(self, method: str, args: Mapping[str, Any]) -> Any:
        if method == "open":
            self._methods = self._open(**args)
            return None
        if method not in self._methods:
            raise LookupError(f"a session has no method {method!r}; it has {', '.join(self._methods)}")
        return self._methods[method](**args)


def _claim_streams() -> tuple[BinaryIO, BinaryIO]:
    """Take the standard streams for the wire alone: reading finds nothing any more, printing goes to stderr."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return requests, answers


def _leave(sessions: list[_Session]) -> None:
    """Close what is open, then end the process group: what a session started must not outlive its owner."""
    deadline = time.monotonic() + CLOSE_SECONDS
    for session in sessions:
        session.put({"id": None, "method": "close", "args": {}})
    for session in sessions:
        session.join(deadline - time.monotonic())
    if SCRATCH in os.environ:
        shutil.rmtree(os.environ[SCRATCH], ignore_errors=True)
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)


def _described(error: Exception) -> dict[str, str]:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{os.path.basename(frame.filename)}, line {frame.lineno}"  # noqa: PTH119 - a name alone, no path
    described = {"type": type(error).__name__, "message": str(error), "place": place}
    cause = getattr(error, "cause", None)
    return described | ({"cause": cause} if isinstance(cause, str) else {})


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot cross the wire")


def _restore(value: dict[str, Any]) -> Any:
    return base64.b64decode(value["$bytes"]) if value.keys() == {"$bytes"} else value


def _nothing() -> None:
    """What closing a session that never opened does."""
