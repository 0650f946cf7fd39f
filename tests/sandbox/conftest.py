"""Sandboxes of both kinds, against a real engine and real namespaces."""

from collections.abc import Callable, Iterator

import pytest

from agentbench.sandbox import images
from agentbench.sandbox.base import Limits
from agentbench.sandbox.docker import DockerSandbox
from agentbench.sandbox.engine import missing_engine
from agentbench.sandbox.jail import Jail
from agentbench.sandbox.process import ProcessSandbox, missing_bubblewrap

Make = Callable[..., Jail]


@pytest.fixture(scope="session")
def image() -> str:
    """An image with bash, git and Python."""
    problem = missing_engine()
    if problem:
        pytest.skip(problem)
    return images.build("base").id


@pytest.fixture(params=["docker", "process"])
def make(request: pytest.FixtureRequest) -> Make:
    """Makes sandboxes of one kind."""
    if request.param == "docker":
        image: str = request.getfixturevalue("image")
        return lambda limits=None: DockerSandbox(image, limits)
    problem = missing_bubblewrap()
    if problem:
        pytest.skip(problem)
    return ProcessSandbox


@pytest.fixture
def sandbox(make: Make) -> Iterator[Jail]:
    """A started sandbox with small limits."""
    with make(Limits(memory=256, processes=64, disk=48)) as sandbox:
        yield sandbox
