r"""One bash that runs command after command, and the process that can stop it: what both kinds of sandbox are made of.

Two small programs run inside. The *warden* is process 1. It ignores every signal from inside, forks nothing, and reads
orders: a number of seconds arms it, an empty line disarms it; when the time is up, or an order to sweep comes, it kills
every process but itself. When its orders end because the owner is gone, or its lifetime is over, it kills everything
and ends, and the sandbox with it. So a time-out works inside, against fork bombs, and after a SIGKILL of the owner.

The *driver* is the persistent shell. Owner and driver speak over a byte stream:

    owner    NONCE \0 COMMAND \0 [payload]
    driver   NONCE [ whatever the command prints NONCE ] EXIT_CODE \0 FOLDER \0 OVER \0

The nonce is new for each command, so what was printed earlier cannot end a later one. A command that reads the nonce
out of its shell's memory can forge its own end and exit code, and nothing else: they are only ever shown to itself.
"""

import secrets
import time
from typing import NamedTuple, Protocol

WORKSPACE = "/workspace"
"""Where commands start."""

ENVIRONMENT = {"HOME": WORKSPACE, "LANG": "C.UTF-8", "TERM": "dumb", "PAGER": "cat", "NO_COLOR": "1"}
"""Variables of every shell: programs shall neither colour nor page what nobody sees on a terminal."""

WARDEN = r"""
for signal in {1..16} {18..64}; do trap '' "$signal"; done 2>/dev/null
sweep() { kill -KILL -1 2>/dev/null; }
driver() {
  for signal in {1..16} {18..64}; do trap - "$signal"; done 2>/dev/null
  ulimit -u "$2" -v "$3"
  exec "$BASH" --noprofile --norc -c "$BASH_EXECUTION_STRING" bash "$4" <"$1.in" >"$1.out" 2>&1
}
left() { rest=$(( $1 - SECONDS )); (( rest > 0 )); }
while left "$1" && read -r -t "$rest" seconds; do
  [[ -n $seconds ]] || continue
  if [[ $seconds == /* ]]; then
    IFS=: read -r fifo processes memory folder <<<"$seconds"
    driver "$fifo" "$processes" "$memory" "$folder" &
    continue
  fi
  left "$1" && (( ${seconds%%.*} > rest )) && seconds=$rest
  read -r -t "$seconds" _ || sweep
done
sweep
"""
"""Process 1. Its argument is the sandbox's lifetime in seconds. Where no engine can start a second process inside, an
order that begins with a slash does: the path of two named pipes, limits on processes and memory (KiB), the folder."""

DRIVER = r"""
echo 1000 2>/dev/null >/proc/self/oom_score_adj
exec 8<&0 9>&1 </dev/null
_over() { builtin printf '%s]%d\0%s\0%d\0' "$_nonce" "$1" "$PWD" "$2"; }
trap '_code=$?; { _over $_code 1 >&9 || _over $_code 1; } 2>/dev/null' EXIT
cd -- "$1" 2>/dev/null
while IFS= builtin read -r -d '' -u 8 _nonce && IFS= builtin read -r -d '' -u 8 _command; do
  builtin printf '%s[' "$_nonce" >&9
  builtin eval "$_command" STREAMS
  _over $? 0 >&9
done
trap - EXIT
"""
"""The shell. Its argument is the folder to begin in. Out of memory, it and what it runs die before the warden does."""

SHELL = DRIVER.replace("STREAMS", "</dev/null >&9 2>&1 8<&- 9>&-")
"""The driver for the agent's commands: no input, both outputs together, and the wire out of their reach."""

SERVICE = DRIVER.replace("STREAMS", "<&8 >&9 2>/dev/null")
"""The driver for moving files: its commands read their payload from the wire."""


BASH = ("bash", "--noprofile", "--norc", "-c", """IFS= read -r -d '' script && eval "$script\"""", "bash")
"""How bash is started, the program's argument to follow: the program itself comes as the first message, out of `ps`."""


class Channel(Protocol):
    """A byte stream to and from a program inside."""

    def send(self, data: bytes, deadline: float) -> None:
        """Write all of it. Raises `ConnectionError` if nobody reads, `TimeoutError` after the deadline."""

    def receive(self, deadline: float) -> bytes:
        """Return what came, at least a byte; nothing at the end. Raises `TimeoutError` after the deadline."""

    def close(self) -> None:
        """Close it. Idempotent."""


class Clip:
    """Keeps the head and the tail of a stream that may be endless.

    Args:
        most: Bytes that are kept in all.
    """

    def __init__(self, most: int) -> None:
        self._head = most // 2
        self._most = most
        self._kept = bytearray()
        self.omitted = 0
        """Bytes that were left out of the middle."""

    def add(self, data: bytes) -> None:
        """Append to the stream."""
        self._kept += data
        if len(self._kept) > 2 * self._most:
            self._cut()

    def bytes(self, note: str = "") -> bytes:
        """Return what was kept.

        Args:
            note: What to put where something is missing; `{}` becomes the number of bytes.
        """
        if len(self._kept) > self._most:
            self._cut()
        if not self.omitted:
            return bytes(self._kept)
        return bytes(self._kept[: self._head]) + note.format(self.omitted).encode() + bytes(self._kept[self._head :])

    def _cut(self) -> None:
        excess = len(self._kept) - self._most
        del self._kept[self._head : self._head + excess]
        self.omitted += excess


class Ended(NamedTuple):
    """How a command ended, as far as the wire tells."""

    output: Clip
    began: bool = True
    """False: the shell was dead before the command reached it."""
    exit_code: int | None = None
    """None: the stream ended under it."""
    folder: str | None = None
    over: bool = True
    """The shell ended with it."""


class Shell:
    """The owner's end of a driver.

    Args:
        channel: The stream to a bash that was started as `BASH` says.
        driver: `SHELL` or `SERVICE`.
    """

    def __init__(self, channel: Channel, driver: str) -> None:
        self._channel = channel
        self._driver = driver.encode() + b"\0"

    def run(self, command: bytes, *, payload: bytes = b"", most: int, deadline: float) -> Ended:
        """Run one command to its end.

        Args:
            command: What to evaluate; no NUL bytes.
            payload: What follows on the wire, for a command of the `SERVICE` driver that reads exactly that.
            most: Bytes of output that are kept.
            deadline: On the clock of `time.monotonic`.

        Raises:
            TimeoutError: It had not ended by then; the shell is in an unknown state and of no more use.
        """
        nonce = secrets.token_hex(8).encode()
        clip = Clip(most)
        try:
            self._channel.send(self._driver + b"\0".join((nonce, command, payload)), deadline)
            self._driver = b""
        except ConnectionError:
            return Ended(clip, began=False)
        rest = self._discard_until(nonce + b"[", deadline)
        if rest is None:
            return Ended(clip, began=False)
        return self._read_end(nonce + b"]", rest, clip, deadline)

    def close(self) -> None:
        """Close the wire; the driver ends once it is idle."""
        self._channel.close()

    def _discard_until(self, marker: bytes, deadline: float) -> bytes | None:
        """Skip what processes in the background printed since; None if the stream ends first."""
        seen = b""
        while True:
            data = self._channel.receive(deadline)
            if not data:
                return None
            seen = seen[-len(marker) :] + data
            _check(deadline)
            _, found, rest = seen.partition(marker)
            if found:
                return rest

    def _read_end(self, marker: bytes, data: bytes, clip: Clip, deadline: float) -> Ended:
        held = b""
        while True:
            held += data
            at = held.find(marker)
            if at >= 0 and held.count(b"\0", at) >= 3:
                clip.add(held[:at])
                code, folder, over = held[at + len(marker) :].split(b"\0")[:3]
                return Ended(clip, True, int(code), folder.decode(errors="surrogateescape"), over == b"1")
            if at < 0:
                safe = max(0, len(held) - len(marker))
                clip.add(held[:safe])
                held = held[safe:]
            data = self._channel.receive(deadline)
            if not data:
                clip.add(held)
                return Ended(clip)
            _check(deadline)


def _check(deadline: float) -> None:
    """Notice the deadline also where data never stops coming."""
    if time.monotonic() > deadline:
        raise TimeoutError
