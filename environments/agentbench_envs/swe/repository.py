"""A task's repository inside a sandbox: made ready for the agent, read back from it, and tested where no agent was.

Everything that comes out of an agent's sandbox is one text: a patch. It is applied in a fresh sandbox to the tree that
the agent was given, except for files that decide how tests run; then the hidden tests are there and run.
"""

import secrets
import shlex
import signal
from typing import Final

from agentbench.core.errors import Failure
from agentbench.sandbox.base import Result, Sandbox
from agentbench_envs.swe.grade import Canaries, Report, read_report
from agentbench_envs.swe.tasks import HERE, Instance, Tree, read_tree, read_wheels

MOST_PATCH: Final = 2**20
"""Bytes; a repair is never that long, and a filled disk often is."""

PROTECTED: Final = (
    *("*conftest.py", "*sitecustomize.py", "*usercustomize.py", "*.pth", "*.pyc", "*.so"),
    *("*pytest.ini", "*tox.ini", "*setup.cfg", "*pyproject.toml", "*.egg-info/*", "*.dist-info/*", ".git*"),
    *("test_*.py", "*/test_*.py", "*_test.py", "test/*", "*/test/*", "tests/*", "*/tests/*", "testing/*"),
)
"""Files that an agent may change for itself, and that the grading takes from the task; as `git apply` matches them."""

GIT: Final = (
    "env -i PATH=/usr/local/bin:/usr/bin:/bin HOME=/nonexistent GIT_AUTHOR_DATE=2000-01-01T00:00Z "
    "GIT_COMMITTER_DATE=2000-01-01T00:00Z git -c safe.directory='*' -c core.quotepath=off -c core.fsmonitor=false "
    "-c core.hooksPath=/nonexistent -c user.name=author -c user.email=author@example.org"
)
"""Git as it is called for us: nobody's configuration, no hooks, no clock."""

_CANARY: Final = "def test_{passing}():\n    assert True\n\n\ndef test_{failing}():\n    assert False\n"

TOOLS: Final = "python"
"""The folder of the workspace where Python looks for a user's own packages: a jail has its pytest there."""

_ACTIVATE: Final = "if [ -f /opt/miniconda3/bin/activate ]; then . /opt/miniconda3/bin/activate testbed; fi"
"""The images of SWE-bench keep the repository's packages in an environment of conda's."""

_CUT_OFF: Final = (128 + signal.SIGXCPU, 128 + signal.SIGKILL)
"""How a shell reports a process that has used up its processor time; the second may also mean its memory."""


class Repository:
    """A task's repository in a sandbox.

    Args:
        sandbox: A fresh one; the repository stays in it, the sandbox is its owner's to close.
        instance: The task.
        python: The interpreter inside.
    """

    def __init__(self, sandbox: Sandbox, instance: Instance, python: str = "python3") -> None:
        self.sandbox = sandbox
        self.instance = instance
        self.python = python
        self.root = "/testbed" if instance.image else f"{sandbox.workspace}/repo"
        self._site = f"{sandbox.workspace}/site"
        self._base = ""

    @property
    def path(self) -> str:
        """What Python searches for modules, beside its own folders."""
        return ":".join((self.root, f"{self.root}/src", self._site))

    def prepare(self, *, withhold: bool, broken: bool = True) -> None:
        """Put the broken tree in place, under a history of one commit.

        Args:
            withhold: Leave out the files whose tests show the bug.
            broken: False gives the working tree that the bug was put into.
        """
        instance = self.instance
        hidden = instance.withheld if withhold else []
        files = self._tree(hidden)
        files["bug.diff"] = instance.bug_patch.encode() if broken else b""
        self.sandbox.put(files)
        gone = " ".join(shlex.quote(name) for name in hidden)
        self._demand(
            f"""cd {self.root} && rm -rf .git && {f"rm -f {gone} &&" if gone else ""} {GIT} init -q &&
            if [ -s {self._at("bug.diff")} ]; then {GIT} apply --whitespace=nowarn {self._at("bug.diff")}; fi &&
            rm {self._at("bug.diff")} && {GIT} add -A && {GIT} commit -qm 'The repository as it is' &&
            {GIT} rev-parse HEAD > {self._at("base")}"""
        )
        self._base = self.sandbox.get(self._at("base")).decode().strip()

    def enter(self) -> None:
        """Leave the shell as an agent finds it: in the repository, with its modules importable."""
        self._demand(self.entered(f"rm {self._at('base')}; cd {self.root}"))

    def entered(self, command: str) -> str:
        """Return a command for a shell that may be new, because the agent ended the one that was entered."""
        tools = self._at(TOOLS)
        exports = (
            f"export PYTHONPATH={self.path} PYTHONDONTWRITEBYTECODE=1 PYTHONUSERBASE={tools} HOME=/tmp "
            "PAGER=cat GIT_PAGER=cat"
        )
        return f'[ "${{PYTHONUSERBASE:-}}" = {tools} ] || {{ {_ACTIVATE}; {exports}; }}; {command}'

    def patch(self) -> str | None:
        """Return what was changed since `prepare`, as a patch; None if it cannot be said, or is too long.

        It comes from a place that the agent may have prepared for this very question, so it is a stranger's word.
        """
        file = f"/tmp/{secrets.token_hex(8)}"
        options = (
            "--cached --binary --no-renames --no-ext-diff --no-textconv --no-color --src-prefix=a/ --dst-prefix=b/"
        )
        command = f"( cd {self.root} && {GIT} add -A && {GIT} diff {options} {self._base} > {file} )"
        if self.sandbox.exec(command, timeout=60).exit_code:
            return None
        try:
            return self.sandbox.get(file, most=MOST_PATCH).decode()
        except (OSError, UnicodeDecodeError):
            return None

    def apply(self, patch: str) -> bool:
        """Apply a stranger's patch, without what it says about protected files; tell whether that was possible."""
        self.sandbox.put({"agent.diff": patch.encode()})
        wanted = [f"--include={_literal(name)}" for name in self.instance.repaired]
        refused = [f"--exclude={name}" for name in PROTECTED]
        refused += [f"--exclude={_literal(name)}" for name in (*self.instance.withheld, *self.instance.test_files)]
        rules = " ".join(shlex.quote(rule) for rule in (*wanted, *refused, "--include=*"))
        done = self._run(f"cd {self.root} && {GIT} apply --whitespace=nowarn {rules} {self._at('agent.diff')}")
        return done.exit_code == 0

    def test(self, timeout: float, processor: int | None = None) -> Report:
        """Run the tests that the task names, with canaries among them.

        Args:
            timeout: Seconds that they may take.
            processor: Seconds of processor time that each process may take; unlike the other, it does not depend on
                what else the machine is doing.
        """
        sandbox, instance = self.sandbox, self.instance
        names = [secrets.token_hex(8) for _ in range(3)]
        canary = f"test_{names[0]}.py"
        files = {f"{self.root}/{canary}": _CANARY.format(passing=names[1], failing=names[2]).encode()}
        grader = f"{sandbox.workspace}/{secrets.token_hex(8)}"
        files[f"{grader}/reporter.py"] = (HERE / "reporter.py").read_bytes()
        files[f"{grader}/test.diff"] = instance.test_patch.encode()
        sandbox.put(files)
        if instance.test_patch:
            self._demand(f"cd {self.root} && {GIT} apply --whitespace=nowarn {grader}/test.diff")
        report = f"{grader}/{secrets.token_hex(8)}"
        command = self._command(grader, report, [*instance.test_files, canary])
        limited = f"ulimit -t {processor or 'unlimited'}; {command} > /dev/null 2>&1"
        done = self._run(limited, timeout)
        if done.timed_out:
            return Report({}, {}, f"the tests did not end within {timeout:g} s")
        if processor and done.exit_code in _CUT_OFF:
            return Report({}, {}, f"the tests were killed: over {processor} s of processor time, or out of memory")
        canaries = Canaries(f"{canary}::test_{names[1]}", f"{canary}::test_{names[2]}")
        return read_report(self._read(report), done.exit_code, canaries)

    def visible_tests(self, paths: str) -> str:
        """Return the command with which an agent runs the tests that it can see."""
        chosen = " ".join(shlex.quote(path) for path in paths.split())
        return f"( cd {self.root} && {self.python} -m pytest -q -o addopts= -p no:cacheprovider --color=no {chosen} )"

    def _command(self, grader: str, report: str, files: list[str]) -> str:
        options = [
            # With -vv the values in messages are whole; what is printed is not kept.
            *("-vv", "--color=no", "--tb=short", "-p", "no:cacheprovider", "-o", "addopts="),
            *(f"--rootdir={self.root}", "--continue-on-collection-errors"),
        ]
        variables = (
            f"REPORT={report} SOURCES={self.path} HOME=/tmp PYTHONDONTWRITEBYTECODE=1 PYTHONHASHSEED=0 "
            f"PYTHONUSERBASE={self._at(TOOLS)} PYTEST_DISABLE_PLUGIN_AUTOLOAD=1"
        )
        run = shlex.join([self.python, f"{grader}/reporter.py", *options, *files])
        return f"{_ACTIVATE}; cd {self.root} && {variables} {run}"

    def _tree(self, hidden: list[str]) -> dict[str, bytes]:
        instance = self.instance
        tree: Tree = {} if instance.image else read_tree(instance.sdist)
        files = {f"{self.root}/{name}": content for name, content in tree.items() if name not in hidden}
        return files | {f"{self._site}/{name}": content for name, content in read_wheels(instance.requires).items()}

    def _read(self, file: str) -> str:
        try:
            return self.sandbox.get(file).decode(errors="replace")
        except OSError:
            return ""

    def _at(self, name: str) -> str:
        return f"{self.sandbox.workspace}/{name}"

    def _run(self, command: str, timeout: float = 60.0) -> Result:
        return self.sandbox.exec(f"( {command} )", timeout=timeout)

    def _demand(self, command: str) -> None:
        """Run what must succeed in a sandbox that nobody has touched."""
        done = self.sandbox.exec(command, timeout=60)
        if done.exit_code:
            raise Failure("sandbox", f"{self.instance.instance_id} cannot be made ready: {done.output[-300:]}")


def _literal(name: str) -> str:
    """Escape a file's name for `git apply`, which takes patterns."""
    return "".join(f"\\{character}" if character in "*?[\\" else character for character in name)
