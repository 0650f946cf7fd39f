"""What a name means, and who may bring an environment."""

import subprocess
import sys
from pathlib import Path

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env as gymnasium_check_env

import agentbench
from agentbench.core import registry
from agentbench.core.env import Env
from agentbench.core.errors import UsageError
from agentbench.core.registry import EnvEntry, Variant, environments, make, resolve
from agentbench.core.rewards import RewardSpec
from agentbench.testing import EchoEnv
from tests.envs.conftest import alfworld_data as alfworld_data

FILE = """
from dataclasses import replace
from agentbench.core.registry import Variant
from agentbench.testing import ECHO, EchoEnv

class Louder(EchoEnv):
    def _ask(self) -> str:
        return super()._ask().upper()

ENTRY = replace(ECHO, name="louder", title="Louder", entry_point=":Louder",
                variants={**ECHO.variants, "few": Variant({"length": 2}, max_turns=2, splits=("train", "valid"))})
"""

MIRRORED = sorted(env_id for env_id in gymnasium.registry if env_id.startswith("agentbench/"))
FREE = [
    f"{name}/{variant}"
    for name, entry in environments().items()
    for variant in entry.variants
    if not resolve(f"{name}/{variant}").needs
]


@pytest.fixture
def louder(tmp_path: Path) -> str:
    path = tmp_path / "louder.py"
    path.write_text(FILE)
    return str(path)


def test_the_folder_is_scanned() -> None:
    folder = Path(registry.__file__).parents[2] / "environments" / "agentbench_envs"
    folders = {path.parent.name for path in folder.glob("*/__init__.py") if "ENTRY" in path.read_text("utf-8")}
    assert folders
    assert folders <= set(environments())


def test_looking_up_does_not_import_what_is_behind_the_entry() -> None:
    program = "import sys, agentbench; agentbench.environments(); print([m for m in sys.modules if m.endswith('.env')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "['agentbench.core.env']"


def test_a_name_means_the_default_variant_and_the_test_split() -> None:
    resolved = resolve("sokoban")
    assert resolved.variant == next(iter(environments()["sokoban"].variants))
    assert resolved.split == "test"
    assert resolve(f"{resolved.id}:test") == resolve(f"sokoban/{resolved.variant}@v0:test") == resolved
    assert resolve("sokoban:train").split == resolve("sokoban", split="train").split == "train"
    assert resolve("sokoban:train", split="valid").split == "valid"


def test_arguments_lie_on_top_of_the_variants_and_change_the_digest() -> None:
    plain, changed = resolve("sokoban/6x6-2"), resolve("sokoban/6x6-2", max_steps=7)
    assert changed.kwargs == {**plain.kwargs, "max_steps": 7}
    digests = {plain.digest, changed.digest, resolve("sokoban/6x6-2:train").digest, resolve("sokoban/6x6-1").digest}
    assert len(digests) == 4
    assert resolve("sokoban/6x6-2").digest == plain.digest


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("sokobna", "did you mean 'sokoban'"),
        ("zzz", "known: .*sokoban"),
        ("sokoban/6x6-11", "did you mean '6x6-1'"),
        ("sokoban:tset", "did you mean 'test'"),
        ("sokoban@7", "version 0, not 7"),
        ("", "is no environment name"),
        ("sokoban/6x6-1@0:", "is no environment name"),
        ("/tmp", "is no environment name"),
        ("./nowhere/at_all.py", "there is no file"),
    ],
)
def test_a_wrong_name_gets_a_line_that_helps(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        resolve(name)
    assert "\n" not in str(caught.value)


def test_an_argument_that_the_environment_does_not_take_is_a_users_mistake() -> None:
    with pytest.raises(UsageError, match="boxen"):
        make("sokoban", boxen=3)


def test_a_file_that_defines_an_entry_is_an_environment(louder: str) -> None:
    env = make(louder)
    assert isinstance(env, EchoEnv)
    assert env.reset(seed=0)[0].startswith("WORD 1 OF 3")
    assert resolve(f"{louder}/few@0:train").kwargs == {"length": 2}
    few = resolve(f"{louder}/few")
    assert few.max_turns == 2
    assert few.split == "valid", "without a test split the last one is where numbers are reported"
    assert few.origin == louder
    with pytest.raises(UsageError, match="no split 'test'"):
        resolve(f"{louder}/few:test")


@pytest.mark.parametrize("entry_point", [":Louder", "Louder", "louder:Louder"])
def test_a_file_names_its_class_with_or_without_its_own_name(louder: str, entry_point: str) -> None:
    Path(louder).write_text(FILE.replace(":Louder", entry_point))
    assert isinstance(make(louder), EchoEnv)


@pytest.mark.parametrize(
    ("entry_point", "message"),
    [
        (":Nobody", "names no class"),
        ("no_such_module:Louder", "cannot be imported: No module named"),
        (":Variant", "makes a Variant, expected agentbench.Env"),
    ],
)
def test_an_entry_point_that_names_nothing_is_a_users_mistake(louder: str, entry_point: str, message: str) -> None:
    text = FILE.replace(":Louder", entry_point).replace('{"length": 2}', "{}")
    Path(louder).write_text(text + "\nclass Variant:\n    def __init__(self, **kwargs: object) -> None: ...\n")
    with pytest.raises(UsageError, match=message):
        make(f"{louder}/few:train")


def test_an_entry_needs_neither_title_nor_summary() -> None:
    entry = EnvEntry("shouting", 0, ":Louder", "Shout.", 3, RewardSpec(), {"loud": Variant()})
    assert (entry.title, entry.summary) == ("Shouting", "")


def test_an_argument_may_be_called_name() -> None:
    assert resolve("sokoban", name="x").kwargs["name"] == "x"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "defines no ENTRY"),
        ("ENTRY = 3", "defines no ENTRY"),
        ("import nothing_of_this_name", "ModuleNotFoundError"),
        ("def broken(:", "SyntaxError"),
        ("raise RuntimeError('no')", "RuntimeError: no"),
    ],
)
def test_a_file_that_cannot_be_used_is_a_users_mistake(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "broken.py"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        resolve(str(path))


@pytest.fixture
def distribution(tmp_path: Path) -> Path:
    """A folder as an installer leaves it: a module, and metadata that names it as an environment."""
    (tmp_path / "shouting.py").write_text(FILE.replace('entry_point=":Louder"', 'entry_point="shouting:Louder"'))
    info = tmp_path / "shouting-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shouting\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[agentbench.environments]\nlouder = shouting:ENTRY\n")
    return tmp_path


def test_another_distribution_brings_an_environment(distribution: Path) -> None:
    program = (
        "import agentbench, gymnasium\n"
        "assert 'sokoban' in agentbench.environments()\n"
        "print(agentbench.make('louder').reset(seed=0)[0])\n"
        "print(gymnasium.make('agentbench/Louder-few-v0').reset(seed=0)[0])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(distribution), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    first, second = done.stdout.splitlines()
    assert first.startswith("WORD 1 OF 3")
    assert second.startswith("WORD 1 OF 2")


def test_every_variant_is_mirrored_into_gymnasium() -> None:
    expected = set()
    for entry in environments().values():
        expected.add(f"agentbench/{entry.title}-v{entry.version}")
        expected.update(f"agentbench/{entry.title}-{variant}-v{entry.version}" for variant in entry.variants)
    assert set(MIRRORED) == expected


@pytest.mark.parametrize("name", FREE)
def test_gymnasium_makes_and_approves_every_variant_that_needs_nothing(name: str) -> None:
    resolved = resolve(name)
    env = gymnasium.make(f"agentbench/{resolved.entry.title}-{resolved.variant}-v{resolved.entry.version}")
    assert isinstance(env.unwrapped, Env)
    gymnasium_check_env(env.unwrapped, skip_render_check=True)
    env.close()


def test_arguments_pass_through_gymnasium() -> None:
    env = gymnasium.make("agentbench/Sokoban-v0", split="train", max_steps=19)
    direct = agentbench.make("sokoban", split="train", max_steps=19)
    observation, _ = env.reset(seed=3)
    assert observation == direct.reset(seed=3)[0]
    assert "19" in observation
    assert observation != agentbench.make("sokoban", max_steps=19).reset(seed=3)[0], "the split was lost"


def test_a_broken_distribution_is_named_only_when_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "broken_pack-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-pack\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[agentbench.environments]\nbroken = no_such_module_at_all:ENTRY\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    registry._installed.cache_clear()
    try:
        assert "broken" not in registry.environments()
        with pytest.raises(UsageError, match="cannot be loaded: ModuleNotFoundError"):
            registry.resolve("broken")
    finally:
        registry._broken.clear()
        registry._installed.cache_clear()
