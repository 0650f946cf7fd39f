"""Images carry the source that is running; environments in them play the same episodes."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from agentbench.core.errors import Failure, PrerequisiteError, UsageError
from agentbench.core.registry import resolve
from agentbench.evaluate.config import EvalConfig
from agentbench.evaluate.evaluate import evaluate
from agentbench.rollout.place import Kind, Place
from agentbench.sandbox import engine, images, ingredients

pytestmark = [pytest.mark.slow, pytest.mark.alone]


def test_every_environment_has_a_dockerfile_and_every_dockerfile_is_known() -> None:
    assert set(ingredients.names()) >= {"base", "sokoban", "textworld", "alfworld", "webshop", "swe"}
    with pytest.raises(UsageError, match="no image 'nothing'"):
        images.build("nothing")


def test_equal_content_is_not_built_twice(image: str) -> None:
    assert images.build("base").id == image
    assert images.find("base") in images.images()


@pytest.mark.parametrize("kind", ["docker", "process"])
def test_the_same_seeds_give_equal_hash_chains_in_every_place(kind: Kind, image: str, tmp_path: Path) -> None:
    chains = []
    for place in ("none", kind):
        config = EvalConfig(
            model="random", env="sokoban", episodes=6, seed=7, max_turns=8, sandbox=place, out=tmp_path / place
        )
        run = evaluate(config).run_dir
        rows = [json.loads(line) for line in (run / "episodes.jsonl").read_text().splitlines()]
        chains.append(sorted(json.dumps(row).partition('"hash"')[2][:80] for row in rows))
        recorded = json.loads((run / "lock.json").read_text()).get("sandbox")
        assert (recorded or {}).get("kind") == (None if place == "none" else place)
        assert all(row["sandbox"] == recorded for row in rows), "every episode says what it was played in"
    assert chains[0] == chains[1]
    assert len(set(chains[0])) == 6


def test_one_container_holds_many_sessions_and_its_death_fails_them_as_infrastructure(image: str) -> None:
    others = {each.id for each in engine.sandboxes()}
    place = Place(resolve("sokoban"), "docker")
    envs = [place.start() for _ in range(3)]
    try:
        for seed, env in enumerate(envs):
            env.reset(seed=seed)
        (container,) = [each for each in engine.sandboxes() if each.id not in others]
        engine.remove(container.id)
        for env in envs:
            with pytest.raises(Failure):
                env.step("up")
    finally:
        for env in envs:
            env.close()


def test_a_file_of_the_user_is_in_no_image(image: str, tmp_path: Path) -> None:
    file = tmp_path / "guess.py"
    subprocess.run([sys.executable, "-m", "agentbench.cli", "envs", "new", str(file)], check=True)
    with pytest.raises(UsageError, match="is in no image"):
        Place(resolve(str(file)), "docker")


def test_without_bubblewrap_a_jail_is_refused_unless_isolation_is_waived(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(PrerequisiteError, match="--allow-unsandboxed"):
        Place(resolve("sokoban"), "process")
    place = Place(resolve("sokoban"), "process", allow_unsandboxed=True)
    assert place.record == {"kind": "process", "isolation": "none"}


def test_the_command_lists_images(image: str) -> None:
    command = [sys.executable, "-m", "agentbench.cli", "images", "list", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=dict(os.environ))
    assert re.search(r'"name": ?"agentbench/base', done.stdout)
