"""A person plays in a browser of their own; the run is recorded, replayed and judged like any other."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from agentbench_envs.webshop.env import WebShopEnv
from playwright.sync_api import Browser, Page

from agentbench.core.records import RunDirectory
from agentbench.core.registry import resolve
from tests.cli.command import agentbench as command
from tests.cli.command import start
from tests.report.conftest import browser

__all__ = ["browser"]

pytestmark = pytest.mark.slow


@pytest.fixture(name="person")
def _person(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(java_script_enabled=False)
    yield context.new_page()
    context.close()


def address_in(process: "subprocess.Popen[str]") -> str:
    """Return the address that a command tells its player."""
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("play at "):
            return line.removeprefix("play at ").strip()
    raise AssertionError("it ended without an address")


def shop(person: Page, actions: list[str]) -> None:
    """Do with mouse and keyboard what the text environment's actions say."""
    for action in actions:
        verb, _, argument = action.removesuffix("]").partition("[")
        if verb == "search":
            person.get_by_label("Search the shop").fill(argument)
            person.get_by_role("button", name="Search", exact=True).click()
        else:
            person.locator(f'button[name=click][value="{argument}"]').click()


def oracle(split: str, seed: int) -> tuple[str, list[str]]:
    """Return a task's wish, and how it is fulfilled."""
    env = resolve("webshop/synth-1k", split=split).make()
    assert isinstance(env, WebShopEnv)
    _, info = env.reset(seed=seed)
    return info["goal"], env.oracle()


def test_a_person_s_clicks_become_a_run(person: Page, tmp_path: Path) -> None:
    process = start("play", "--env", "webshop/browser:train", "-n", 2, cwd=tmp_path)
    address = address_in(process)
    played = []
    for seed in range(2):
        wish, actions = oracle("train", seed)
        person.goto(address)
        assert wish in person.inner_text("main")
        shop(person, actions)
        assert "100 %" in person.inner_text("main")
        assert "Thank you" in person.inner_text("main")
        played.append(actions)
    process.communicate(timeout=60)
    assert process.returncode == 0
    run = RunDirectory.open(next((tmp_path / "runs").iterdir()))
    rows = sorted(run.scored().values(), key=lambda row: row["seed"])
    trajectories = [run.trajectory(row) for row in rows]
    assert [[turn.action for turn in trajectory.turns] for trajectory in trajectories] == played
    assert all(trajectory.success for trajectory in trajectories)
    assert command("replay", run.path, cwd=tmp_path).code == 0
