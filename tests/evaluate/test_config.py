"""One clear line for every mistake, and a file that says everything."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.core.errors import UsageError
from agentbench.evaluate.config import EvalConfig, read_toml

MINIMAL: dict[str, Any] = {"model": "oracle", "env": "sokoban"}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"model": "oracle"}, "--env is missing"),
        ({"env": "sokoban"}, "--model is missing"),
        ({**MINIMAL, "epsiodes": 3}, "unknown key 'epsiodes'; did you mean 'episodes'"),
        ({**MINIMAL, "zzz": 3}, "unknown key 'zzz'; known: model, env, "),
        ({"modell": "oracle", "env": "sokoban"}, "unknown key 'modell'; did you mean 'model'"),
        ({**MINIMAL, "episodes": -1}, "episodes = -1: input should be greater than or equal to 0"),
        ({**MINIMAL, "trials": 0}, "trials = 0"),
        ({**MINIMAL, "episodes": "many"}, "episodes = 'many': .*integer"),
        ({**MINIMAL, "temperature": -0.5}, "temperature = -0.5"),
        ({**MINIMAL, "top_p": 0.0}, "top_p = 0.0"),
        ({**MINIMAL, "format": "json"}, "format = 'json': .*'plain' or 'tagged'"),
        ({**MINIMAL, "time_limit": 0}, "time_limit = 0"),
        ({**MINIMAL, "max_error_rate": 2}, "max_error_rate = 2"),
        ({**MINIMAL, "env_args": 3}, "env_args = 3"),
        ({**MINIMAL, "seed": 1.5}, "seed = 1.5"),
    ],
)
def test_a_mistake_is_one_line_that_names_key_and_value(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        EvalConfig.parse(values)
    assert "\n" not in str(caught.value)


def test_a_configuration_cannot_be_changed_afterwards() -> None:
    with pytest.raises(ValueError, match="frozen"):
        EvalConfig.parse(MINIMAL).episodes = 3


texts = st.text(st.characters(codec="utf-8"), max_size=20)
scalars = st.integers() | st.floats(allow_nan=False) | st.booleans() | texts
values = st.fixed_dictionaries(
    {"model": texts, "env": texts},
    optional={
        "episodes": st.integers(0, 10**6),
        "trials": st.integers(1, 99),
        "seed": st.integers(0, 2**62),
        "temperature": st.floats(0, 10),
        "stop": st.lists(texts, max_size=3),
        "max_turns": st.none() | st.integers(1, 99),
        "time_limit": st.none() | st.floats(0.1, 100),
        "context": st.none() | texts,
        "base_url": st.none() | texts,
        "env_args": st.dictionaries(texts, scalars | st.lists(st.integers(), max_size=3), max_size=3),
        "trust_remote_code": st.booleans(),
    },
)  # fmt: skip


@given(values)
def test_what_was_written_is_what_is_read(tmp_path_factory: pytest.TempPathFactory, values: dict[str, Any]) -> None:
    config = EvalConfig.parse(values)
    path = tmp_path_factory.mktemp("config") / "config.toml"
    path.write_text(config.write(path), encoding="utf-8")
    again = EvalConfig.parse(read_toml(path))
    assert again == config
    assert again.digest == config.digest


def test_what_changes_no_result_is_no_part_of_the_digest() -> None:
    plain = EvalConfig.parse(MINIMAL)
    harmless = {"jobs": 1, "retries": 9, "out": "elsewhere", "max_error_rate": 0.5, "batch_size": 1, "device": "cpu"}
    assert EvalConfig.parse({**MINIMAL, **harmless}).digest == plain.digest
    harmful: list[dict[str, Any]] = [
        {"episodes": 99}, {"trials": 2}, {"seed": 1}, {"max_turns": 3}, {"token_limit": 3}, {"max_invalid": 3},
        {"time_limit": 3}, {"context": "summary"}, {"format": "tagged"}, {"temperature": 1}, {"top_p": 0.5},
        {"top_k": 5}, {"max_tokens": 5}, {"stop": ["x"]}, {"dtype": "float32"}, {"trust_remote_code": True},
        {"base_url": "http://x"}, {"env_args": {"a": 1}}, {"env": "echo"}, {"model": "random"},
    ]  # fmt: skip
    digests = {EvalConfig.parse({**MINIMAL, **change}).digest for change in harmful}
    assert len(digests | {plain.digest}) == len(harmful) + 1


def test_limits_of_the_run_go_before_the_environments_own() -> None:
    config = EvalConfig.parse({**MINIMAL, "max_turns": 3, "token_limit": 50, "max_invalid": 2, "time_limit": 9})
    setting = config.setting(config.resolve_env(), scripted=False)
    limits = setting.limits
    assert (limits.max_turns, limits.max_tokens, limits.max_invalid, limits.max_seconds) == (3, 50, 2, 9)
    own = EvalConfig.parse(MINIMAL)
    assert own.setting(own.resolve_env(), scripted=False).limits.max_turns == own.resolve_env().max_turns


def test_scripted_policies_play_actions_whatever_the_format_says() -> None:
    config = EvalConfig.parse({**MINIMAL, "format": "tagged"})
    assert config.setting(config.resolve_env(), scripted=True).context.format == "plain"
    assert config.setting(config.resolve_env(), scripted=False).context.format == "tagged"


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"episodes = ", "is no TOML"), (b"\xff\xfe", "is no TOML"), (b"episodes = 1\nepisodes = 2", "is no TOML"),
     (None, "cannot read the configuration")],
)  # fmt: skip
def test_a_file_that_cannot_be_read_is_a_users_mistake(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "config.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=message):
        read_toml(path)
