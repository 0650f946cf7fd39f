"""Repair a repository: commands and edits in words, hidden tests at the end.

The environment's own code runs here; only what the agent asks for, and the tests, run in sandboxes. An episode has one
sandbox for the agent, and a second one for its grading, which no agent has touched. Times are in the info alone.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from agentbench.core.env import Env, Step
from agentbench.core.errors import UsageError
from agentbench.sandbox.base import Sandbox
from agentbench_envs.swe.actions import Answer, Workbench
from agentbench_envs.swe.grade import NOTHING, Grade, grade, with_cut_ids
from agentbench_envs.swe.issues import HINTS, Hints, write_issue
from agentbench_envs.swe.places import KINDS, Kind, Stock
from agentbench_envs.swe.repository import Repository
from agentbench_envs.swe.tasks import SPLITS, Instance, load, read_tree, shipped
from agentbench_envs.swe.tools import MalformedError, parse, write

_IDLE: Final = (
    write("view", path="."),
    write("bash", command="git status --short"),
    write("search", pattern="def "),
    write("tests"),
    write("submit"),
)
"""What random play chooses from."""

MOST_SPARE: Final = 8
"""Sandboxes of one environment that may wait."""

_NOT_YET: Final = dict.fromkeys(("resolved", "fraction", "submitted", "modified"), 0.0)
"""The terms that only handing in can earn."""


class SweEnv(Env):
    """Find and repair a bug in a repository.

    Args:
        tasks: A file of tasks that `tasks.load` reads; None for those that come with the package.
        library: Only tasks of this tree: `formula`, `spans`, `workdays`, `tally`, or a source distribution.
        recipe: Only bugs of this recipe: `slip`, `several`, `files` or `body`.
        hints: What the issue tells: `none`, `file`, `function` or `tests`.
        command_seconds: How long one command may take.
        test_seconds: How long the hidden tests may take.
        output_chars: Characters of a command's output that are shown.
        weights: What each term of the reward is worth; terms that are not named are worth nothing.
        sandbox: `docker`, or `process` for bubblewrap's namespaces and this machine's own Python.
        spare: Sandboxes that are started before they are needed; 0 for none.
        split: `train`, `valid`, `test` or `all`.

    Raises:
        UsageError: An argument is out of its range, or no task fits.
        PrerequisiteError: With `sandbox="process"`, this machine lacks Python, git or pytest.
    """

    def __init__(
        self,
        *,
        tasks: str | None = None,
        library: str | None = None,
        recipe: str | None = None,
        hints: Hints = "none",
        command_seconds: float = 30.0,
        test_seconds: float = 120.0,
        output_chars: int = 8000,
        weights: Mapping[str, float] | None = None,
        sandbox: Kind = "docker",
        spare: int = 1,
        split: str = "train",
    ) -> None:
        if hints not in HINTS:
            raise UsageError(f"found hints {hints!r}, expected one of {', '.join(HINTS)}")
        if min(command_seconds, test_seconds) <= 0 or output_chars < 200:
            raise UsageError("command_seconds and test_seconds must be positive, and output_chars at least 200")
        if sandbox not in KINDS or not 0 <= spare <= MOST_SPARE:
            raise UsageError(
                f"found sandbox {sandbox!r} and spare {spare}, expected docker or process, and 0 to {MOST_SPARE}"
            )
        self._hints: Hints = hints
        self._command_seconds, self._test_seconds = command_seconds, test_seconds
        self._output_chars = output_chars
        self._weights = {"resolved": 1.0} if weights is None else weights
        self._tasks = _select(shipped() if tasks is None else load(Path(tasks)), library, recipe, split)
        self.task_count = len(self._tasks)
        if sandbox == "process" and any(instance.image for instance in self._tasks):
            raise UsageError("tasks with images of their own need containers: leave -E sandbox=process out")
        self._stock = Stock(sandbox, spare)
        self._sandbox: Sandbox | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start an episode; the seed is the index of a task, modulo their number.

        Raises:
            UsageError: There are no options.
            PrerequisiteError: The task's tree was not fetched, its image is not here, or no engine answers.
            Failure: The sandbox broke.
        """
        super().reset(seed=seed)
        if options:
            raise UsageError(f"unknown option {', '.join(map(repr, options))}; SWE takes none")
        self._leave()
        number = int(self.np_random.integers(2**63)) if seed is None else seed
        self.instance = self.task(number)
        began = time.perf_counter()
        self._sandbox = self._stock.take(self.instance)
        self._repository = Repository(self._sandbox, self.instance)
        self._repository.prepare(withhold=True)
        self._repository.enter()
        self._bench = Workbench(self._repository, self._command_seconds, self._output_chars)
        tree = {} if self.instance.image else read_tree(self.instance.sdist)
        issue = write_issue(self.instance, tree, self._hints)
        info = self._info(valid=True, terms={}) | {"goal": issue, "task": self.instance.instance_id}
        info |= {"sandbox": self._sandbox.record(), "start_seconds": time.perf_counter() - began}
        return f"The repository is in {self._repository.root}.\n\n{issue}", info

    def step(self, action: str) -> Step:
        """Use one tool; a reply that is no single call is answered in words, and changes nothing.

        Raises:
            Failure: The sandbox broke.
        """
        began = time.perf_counter()
        try:
            call = parse(action)
        except MalformedError as error:
            return self._continue(Answer(f"Not understood: {error}.", valid=False), began)
        if call.tool == "submit":
            return self._submit(began)
        return self._continue(self._bench.do(call), began)

    def _continue(self, answer: Answer, began: float) -> Step:
        terms = _NOT_YET | {"format": float(answer.valid)}
        info = self._info(valid=answer.valid, terms=terms) | {"seconds": time.perf_counter() - began}
        return Step(answer.text, self._weigh(terms), False, False, info)

    def _submit(self, began: float) -> Step:
        patch = self._repository.patch()
        self._leave()
        result, doubt = self._grade(patch) if patch else (NOTHING, "" if patch == "" else "no patch could be read")
        solved = result.resolved == "full"
        terms = {
            "resolved": float(solved),
            "fraction": result.fraction,
            "submitted": 1.0,
            "modified": float(bool(patch)),
            "format": 1.0,
        }
        info = self._info(valid=True, terms=terms) | {"success": solved, "patch": patch or "", "doubt": doubt}
        info |= {"grade": result.resolved, "fail_to_pass_rate": result.fail_to_pass_rate}
        info |= {"pass_to_pass_rate": result.pass_to_pass_rate, "seconds": time.perf_counter() - began}
        return Step("The repository was handed in.", self._weigh(terms), True, False, info)

    def _grade(self, patch: str) -> tuple[Grade, str]:
        """Apply the patch where no agent was, and run the hidden tests there."""
        instance = self.instance
        with self._stock.take(instance) as fresh:
            repository = Repository(fresh, instance)
            repository.prepare(withhold=False)
            if not repository.apply(patch):
                return NOTHING, "the patch does not apply"
            report = repository.test(self._test_seconds)
        if report.doubt:
            return NOTHING, report.doubt
        status = with_cut_ids(report.status) if instance.image else report.status
        return grade(status, instance.fail_to_pass, instance.pass_to_pass), ""

    def _weigh(self, terms: Mapping[str, float]) -> float:
        return float(sum(self._weights.get(name, 0.0) * value for name, value in terms.items()))

    def _info(self, *, valid: bool, terms: dict[str, float]) -> dict[str, Any]:
        return {"success": False, "valid": valid, "terms": terms, "potential": 0.0}

    def oracle(self) -> list[str]:
        """Return the replies that undo whatever was done, apply the gold patch, and hand it in."""
        undo = f"cd {self._repository.root} && git reset -q --hard && git clean -fdq"
        instance = self.instance
        reverse, patch = ("", instance.patch) if instance.patch else ("-R ", instance.bug_patch)
        command = f"{undo} && git apply --whitespace=nowarn {reverse}- <<'END_OF_PATCH'\n{patch}\nEND_OF_PATCH"
        return [write("bash", command=command), write("submit")]

    def content(self, seed: int) -> str:
        """Name the task of a seed."""
        return self.task(seed).content

    def task(self, seed: int) -> Instance:
        """Return the task of a seed."""
        return self._tasks[seed % len(self._tasks)]

    def random_action(self) -> str:
        """Return a call that needs to know nothing."""
        return _IDLE[self.action_random.integers(len(_IDLE))]

    def close(self) -> None:
        """End the agent's sandbox, and those that wait. Idempotent."""
        self._leave()
        if hasattr(self, "_stock"):
            self._stock.close()

    def _leave(self) -> None:
        sandbox, self._sandbox = getattr(self, "_sandbox", None), None
        if sandbox is not None:
            sandbox.close()


def _select(instances: list[Instance], library: str | None, recipe: str | None, split: str) -> list[Instance]:
    """Return the tasks that were asked for.

    Raises:
        UsageError: There are none.
    """
    splits = (*SPLITS, "all")
    if split not in splits:
        raise UsageError(f"found split {split!r}, expected one of {', '.join(splits)}")
    chosen = [
        instance
        for instance in instances
        if split in (instance.split, "all")
        and library in (None, instance.sdist)
        and recipe in (None, instance.strategy.partition(" ")[0])
    ]
    if not chosen:
        trees = sorted({instance.sdist or instance.repo for instance in instances})
        raise UsageError(f"no task of split {split} is of library {library} and recipe {recipe}; there are {trees[:9]}")
    return chosen
