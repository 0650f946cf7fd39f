"""Images carry the source that is running, say what is in them, and can be made again without a network."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import agentbench
from agentbench.core.errors import Failure, PrerequisiteError, UsageError
from agentbench.core.registry import resolve
from agentbench.evaluate.config import EvalConfig
from agentbench.evaluate.evaluate import evaluate
from agentbench.rollout.place import Place
from agentbench.sandbox import engine, images, ingredients
from agentbench.sandbox.owner import owner
from agentbench.sandbox.process import missing_bubblewrap

pytestmark = [pytest.mark.slow, pytest.mark.alone]

AGENTBENCH = [sys.executable, "-m", "agentbench.cli"]
NOWHERE = "http://127.0.0.1:1"


def run(*arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(arguments, capture_output=True, text=True, check=False, env={**os.environ, **variables})


def test_every_environment_has_a_dockerfile_and_every_dockerfile_is_known() -> None:
    assert set(ingredients.names()) >= {"base", "python", "sokoban", "textworld", "alfworld", "webshop", "swe"}
    with pytest.raises(UsageError, match="no image 'nothing'"):
        images.build("nothing")
    done = run(*AGENTBENCH, "images", "base", "webshp")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "no image 'webshp'" in done.stderr


def test_pruning_takes_what_nameless_images_stand_on_too(image: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "CONTENT", "agentbench.pruned-by-a-test")  # Nobody else's images are looked at.
    below = image
    for step in ("parent", "child", "grandchild"):
        below = images._run({"Dockerfile": f"FROM {below}".encode()}, image, {images.CONTENT: step})
    assert below in {each.id for each in images.prune()}
    assert engine.engine().images(all=True, filters={"label": images.CONTENT}) == []


def test_who_builds_the_same_image_meanwhile_waits_and_finds_it(image: str) -> None:
    before = images.build("swe")
    api, began = engine.engine(), int(time.time()) + 1
    time.sleep(1)
    api.remove_image("agentbench/swe", noprune=True)
    with ThreadPoolExecutor(3) as builders:
        made = list(builders.map(images.build, ["swe"] * 3))
    assert {each.content for each in made} == {before.content}
    asked = {"type": "image", "event": "tag"}
    tagged = [each["Actor"] for each in api.events(since=began, until=int(time.time()) + 1, filters=asked, decode=True)]
    assert [each["Attributes"]["name"] for each in tagged].count("agentbench/swe:latest") == 1


def test_a_base_that_is_no_debian_is_refused(image: str) -> None:
    bare = images._run({"Dockerfile": f"FROM {image}\nRUN rm /usr/bin/dpkg-query".encode()}, image, {})
    try:
        with pytest.raises(PrerequisiteError, match="does not list its packages"):
            images._installed(bare)
    finally:
        engine.engine().remove_image(bare)


def test_equal_content_is_not_built_twice(image: str) -> None:
    assert images.build("base").id == image
    assert images.find("base") in images.images()


def test_a_build_from_nothing_gives_equal_bytes(image: str) -> None:
    before = images.build("swe")
    after = images.build("swe", anew=True)
    assert after.id != before.id, "nothing was built"
    assert (after.content, images.root(after)) == (before.content, images.root(before))


def test_an_image_says_which_packages_and_wheels_are_in_it(image: str) -> None:
    made = images.build("sokoban")
    listed = [json.loads(line) for line in run(*AGENTBENCH, "images", "list", "--json").stdout.splitlines()]
    (row,) = [row for row in listed if row["name"] == made.name]
    assert row["root"] == images.root(made)
    assert row["packages"]["python3"].startswith("3.11")
    pins = (ingredients.folder() / "constraints.txt").read_text().splitlines()
    assert row["wheels"]
    for file, value in row["wheels"].items():
        name, version = file.split("-")[:2]
        assert f"{name.replace('_', '-').lower()}=={version}" in pins
        assert re.fullmatch("[0-9a-f]{64}", value)


def test_a_house_of_wheels_needs_no_network(image: str, tmp_path: Path, scale: float) -> None:
    problem = missing_bubblewrap()
    if problem:
        pytest.skip(problem)
    before = images.build("python")
    house = tmp_path / "house"
    house.mkdir()
    for path, data in ingredients.wheels(ingredients.requirements(""), None).items():
        (house / Path(path).name).write_bytes(data)
    cut_off = ["bwrap", "--dev-bind", "/", "/", "--unshare-net"]
    command = [*cut_off, *AGENTBENCH, "images", "build", "python", "--wheels", str(house)]
    done = run(*command, *(["--anew"] if scale > 1 else []))
    assert done.returncode == 0, done.stderr
    after = images.build("python")
    assert (after.id != before.id) == (scale > 1)
    assert (after.content, images.root(after)) == (before.content, images.root(before))
    next(house.glob("rapidfuzz-*")).unlink()
    done = run(*command)
    assert (done.returncode, done.stderr.count("\n")) == (4, 1)
    assert "rapidfuzz" in done.stderr and str(house) in done.stderr


@pytest.fixture
def other_source(tmp_path: Path) -> Path:
    """A copy of our source with one line more."""
    folder = tmp_path / "source"
    for package in (agentbench, sys.modules["agentbench_envs"]):
        place = Path(str(package.__file__)).parent
        shutil.copytree(place, folder / place.name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ingredients.folder(), folder / "dockerfiles")
    with (folder / "agentbench" / "testing.py").open("a") as file:
        file.write("\n# Another source.\n")
    return folder


def test_an_image_with_other_source_is_built_anew(image: str, other_source: Path, tmp_path: Path) -> None:
    before = images.build("sokoban")
    play = [*AGENTBENCH, "eval", "--env", "sokoban", "--model", "oracle", "-n", "1", "--sandbox", "docker"]
    there = {"PYTHONPATH": str(other_source), "PYTHONSAFEPATH": "1"}
    done = run(*play, "--out", str(tmp_path), "--json", **there)
    assert done.returncode == 0, done.stderr
    (row,) = [event for event in map(json.loads, done.stdout.splitlines()) if event.get("sandbox")]
    assert row["sandbox"]["content"] != before.content
    assert row["sandbox"]["content"] == images.find("sokoban").content  # type: ignore[union-attr]
    assert images.build("sokoban").content == before.content


def test_an_image_with_other_source_that_cannot_be_built_ends_with_7(
    image: str, other_source: Path, tmp_path: Path
) -> None:
    images.build("sokoban")
    with (other_source / "dockerfiles" / "constraints.txt").open("a") as file:
        file.write("# Another list.\n")
    play = [*AGENTBENCH, "eval", "--env", "sokoban", "--model", "oracle", "-n", "1", "--sandbox", "docker"]
    there = {"PYTHONPATH": str(other_source), "PYTHONSAFEPATH": "1", images.WHEELS_VARIABLE: str(tmp_path)}
    done = run(*play, "--out", str(tmp_path), **there)
    assert (done.returncode, done.stderr.count("\n")) == (7, 1), done.stderr
    assert "cannot be checked or built anew" in done.stderr and "pip cannot collect the wheels" in done.stderr


def test_a_base_that_cannot_be_had_ends_with_4(image: str) -> None:
    done = run(*AGENTBENCH, "images", "build", "base", "--base-image", "127.0.0.1:1/debian:none")
    assert (done.returncode, done.stderr.count("\n")) == (4, 1), done.stderr
    assert "127.0.0.1:1/debian:none" in done.stderr


@pytest.mark.skipif(shutil.which("mmdebstrap") is None, reason="mmdebstrap is missing")
def test_a_snapshot_that_cannot_be_reached_ends_with_4(image: str) -> None:
    before = images.find("debian")
    command = [*AGENTBENCH, "images", "base", "--snapshot", "20260101T000000Z"]
    done = run(*command, **{images.SNAPSHOTS: NOWHERE})
    assert (done.returncode, done.stderr.count("\n")) == (4, 1), done.stderr
    assert images.find("debian") == before


def test_one_container_holds_many_sessions_and_its_death_fails_them_as_infrastructure(image: str) -> None:
    others = {each.id for each in engine.sandboxes()}
    place = Place(resolve("sokoban"), "docker")
    envs = [place.start() for _ in range(3)]
    try:
        for seed, env in enumerate(envs):
            env.reset(seed=seed)
        (container,) = [each for each in engine.sandboxes() if each.owner == owner() and each.id not in others]
        engine.remove(container.id)
        for env in envs:
            with pytest.raises(Failure):
                env.step("up")
    finally:
        for env in envs:
            env.close()


def test_a_jail_plays_the_same_episodes(tmp_path: Path) -> None:
    problem = missing_bubblewrap()
    if problem:
        pytest.skip(problem)
    chains = []
    for place in ("none", "process"):
        values = {"model": "random", "env": "sokoban", "episodes": 6, "seed": 7, "max_turns": 8, "sandbox": place}
        path = evaluate(EvalConfig.parse({**values, "out": str(tmp_path / place)})).run_dir
        rows = [json.loads(line) for line in (path / "episodes.jsonl").read_text().splitlines()]
        chains.append({row["key"]: row["hash"] for row in rows})
        recorded = json.loads((path / "lock.json").read_text()).get("sandbox", {})
        assert recorded.get("kind") == (None if place == "none" else place)
    assert chains[0] == chains[1]
    assert len(set(chains[0].values())) == 6


def test_a_file_of_the_user_is_in_no_image(image: str, tmp_path: Path) -> None:
    file = tmp_path / "guess.py"
    subprocess.run([*AGENTBENCH, "envs", "new", str(file)], check=True)
    with pytest.raises(UsageError, match="is in no image"):
        Place(resolve(str(file)), "docker")


def test_without_bubblewrap_a_jail_is_refused_unless_isolation_is_waived(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(PrerequisiteError, match="--allow-unsandboxed"):
        Place(resolve("sokoban"), "process")
    place = Place(resolve("sokoban"), "process", allow_unsandboxed=True)
    assert place.record == {"kind": "process", "isolation": "none"}
