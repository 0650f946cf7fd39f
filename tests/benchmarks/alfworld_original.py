"""The other side of `alfworld_speed`: the original engine, driven in its own virtual environment by JSON lines.

{"problem": PDDL, "task": text, "commands": [...]}  ->  {"reset": seconds, "steps": seconds, "transcript": [...]}

`reset` counts loading and the first observation, as a user meets them; the transcript has observation, won and
admissible commands after each command.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import alfworld  # type: ignore[import-not-found]
import textworld
from alfworld.agents.utils.misc import Demangler  # type: ignore[import-not-found]
from textworld.envs.pddl import PddlEnv

DATA = Path(alfworld.__file__).parent / "data"
DOMAIN = (DATA / "alfred.pddl").read_text(encoding="utf-8")
GRAMMAR = (DATA / "alfred.twl2").read_text(encoding="utf-8")


def play(problem: str, task: str, commands: list[str]) -> dict[str, Any]:
    env = PddlEnv(textworld.EnvInfos(won=True, admissible_commands=True, feedback=True))
    grammar = GRAMMAR.replace("UNKNOWN GOAL", task)
    begin = time.perf_counter()
    env.load({"pddl_domain": DOMAIN, "grammar": grammar, "pddl_problem": problem})
    names = Demangler(game_infos=env._entity_infos)
    for info in env._entity_infos.values():
        info.name = names.demangle_alfred_name(info.id)
    env.reset()
    started = time.perf_counter()
    states = [env.step(command)[0] for command in commands]
    ended = time.perf_counter()
    transcript = [[state.feedback, bool(state["won"]), state.admissible_commands] for state in states]
    return {"reset": started - begin, "steps": ended - started, "transcript": transcript}


def main() -> None:
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        answers.write(json.dumps(play(**json.loads(line))) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
