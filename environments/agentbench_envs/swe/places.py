"""Where the commands of this environment run."""

from typing import Final

from agentbench.sandbox.base import Limits, Sandbox
from agentbench.sandbox.docker import DockerSandbox
from agentbench_envs.swe.tasks import Instance

IMAGE: Final = "agentbench/swe"
"""The image for tasks that bring their own tree: Python, pytest and git."""

LIMITS: Final = Limits(memory=1024, cpus=1.0, processes=128, disk=256, lifetime=3600.0)

FOREIGN: Final = Limits(memory=4096, cpus=2.0, processes=256, disk=512, lifetime=3600.0, root="writable", user="0:0")
"""For images that hold a repository in `/testbed`, which belongs to root there."""


def open_sandbox(instance: Instance | None = None) -> Sandbox:
    """Return a fresh sandbox for a task; None stands for one that brings its own tree."""
    if instance is not None and instance.image:
        return DockerSandbox(instance.image, FOREIGN)
    return DockerSandbox(IMAGE, LIMITS)
