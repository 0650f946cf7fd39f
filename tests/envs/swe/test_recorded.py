"""Instances that were recorded from real packages are valid here too."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from agentbench_envs.swe.build import fetch
from agentbench_envs.swe.grade import Grade, grade
from agentbench_envs.swe.places import open_sandbox
from agentbench_envs.swe.repository import Repository
from agentbench_envs.swe.tasks import Instance, load

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("swe_image")]


def graded(instance: Instance, *, broken: bool, patch: str = "") -> Grade:
    """Run the tests of an instance, in the working tree or in the broken one, with a patch."""
    with open_sandbox(instance) as sandbox:
        repository = Repository(sandbox, instance)
        repository.prepare(withhold=False, broken=broken)
        assert not patch or repository.apply(patch)
        report = repository.test(timeout=120)
    assert not report.doubt, f"{instance.instance_id}: {report.doubt}"
    return grade(report.status, instance.fail_to_pass, instance.pass_to_pass)


def chosen(path: Path, scale: float) -> Iterator[Instance]:
    """Yield one instance of every package, and all of them in `make soak`."""
    seen: set[str] = set()
    for instance in load(path):
        if scale > 1 or instance.sdist not in seen:
            seen.add(instance.sdist)
            yield instance


def test_recorded_instances_pass_fail_and_pass_again(golden: Path, scale: float) -> None:
    for instance in chosen(golden / "environments" / "swe_instances.json.gz", scale):
        package, _, version = instance.sdist.rpartition("-")
        fetch(f"{package}=={version}")
        name = instance.instance_id
        assert graded(instance, broken=False) == Grade("full", 1.0, 1.0), f"{name}: the working tree"
        assert graded(instance, broken=True) == Grade("no", 0.0, 1.0), f"{name}: with the bug"
        assert graded(instance, broken=True, patch=instance.patch) == Grade("full", 1.0, 1.0), f"{name}: repaired"
