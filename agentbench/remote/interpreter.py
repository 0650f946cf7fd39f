"""Python interpreters beside our own: for packages whose needs would disturb ours."""

import functools
import importlib.util
import os
import subprocess
import sys

from agentbench.core.errors import PrerequisiteError


def variable(package: str) -> str:
    """Return the variable that names an interpreter with this package."""
    return f"AGENTBENCH_{package.upper()}_PYTHON"


def python_with(package: str) -> str:
    """Return an interpreter that can import a package: the one that its variable names, else our own.

    Raises:
        PrerequisiteError: There is none; the message says how to get one.
    """
    problem = missing(package)
    if problem:
        raise PrerequisiteError(problem)
    return os.environ.get(variable(package)) or sys.executable


def missing(package: str) -> str | None:
    """Say why no interpreter has this package and what to do, or None if one has."""
    named = os.environ.get(variable(package))
    if named:
        problem = _problem(named, package)
        return problem and f"{variable(package)} names {named}, which {problem}"
    if importlib.util.find_spec(package) is not None:
        return None
    return (
        f"install it with: pip install -e '.[{package}]'   or, to keep it out of this environment, install {package} "
        f"into another one and name its Python in {variable(package)}"
    )


@functools.cache
def _problem(python: str, package: str) -> str | None:
    look = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({package!r}) is None)"
    try:
        found = subprocess.run([python, "-P", "-c", look], capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"cannot be run: {error}"
    return None if found.returncode == 0 else f"has no {package}"
