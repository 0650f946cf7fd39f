"""Plays an episode of Echo at a terminal, in a process of its own: `python playing.py RESULT`."""

import asyncio
import fcntl
import json
import signal
import sys
import termios
from pathlib import Path

from agentbench.core.policy import EpisodeContext
from agentbench.core.types import Message, Sampling
from agentbench.policies.human import HumanPolicy, Quit
from agentbench.testing import ECHO, resolve_fake

signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored where the tests run in the background


async def play() -> list[str]:
    resolved = resolve_fake(ECHO)
    env = resolved.make()
    session = HumanPolicy().start(EpisodeContext("key", resolved, "task"))
    observation, _ = env.reset(seed=0)
    messages = [Message("system", resolved.instructions), Message("user", observation)]
    answers: list[str] = []
    over = False
    while not over:
        reply = await session.reply(messages, Sampling(), seed=0)
        answers.append(reply.text)
        observation, _, over, _, _ = env.step(reply.text)
        messages += [Message("assistant", reply.text), Message("user", observation)]
    await session.close()
    return answers


def main() -> int:
    if sys.stdin.isatty():
        fcntl.ioctl(sys.stdin.fileno(), termios.TIOCSCTTY, 0)
    try:
        Path(sys.argv[1]).write_text(json.dumps(asyncio.run(play())))
    except KeyboardInterrupt:
        return 130
    except Quit as error:
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
