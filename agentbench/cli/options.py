"""Command-line options made from a configuration class, so that each field is named and explained once.

A field becomes a flag (`max_turns` -> `--max-turns`), a variable (`AGENTBENCH_MAX_TURNS`) and a key of the TOML file.
The first of flag, variable, file and default that says something wins.
"""

import functools
import inspect
import tomllib
import types
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from agentbench.core.errors import UsageError

SHORT = {"model": "-m", "env": "-e", "env_args": "-E", "episodes": "-n", "trials": "-k", "jobs": "-j", "out": "-o"}

_METAVARS = {"env_args": "KEY=VALUE", "stop": "TEXT"}


def options_of(config: type[BaseModel]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command one option per field of a configuration.

    The command's first parameter receives a dictionary of the values that were given; its own further parameters stay
    options of their own.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
        fields = [_parameter(config, name) for name in config.model_fields]

        @functools.wraps(command)
        def wrapped(**given: Any) -> None:
            values = {name: given.pop(name) for name in config.model_fields}
            command(_said(values), **given)

        keyword = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
        wrapped.__signature__ = inspect.Signature([*fields, *keyword])  # type: ignore[attr-defined]
        wrapped.__annotations__ = {parameter.name: parameter.annotation for parameter in [*fields, *keyword]}
        return wrapped

    return decorate


def merge(file: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Put what was given on the command line or in variables over what a file says; `env_args` key by key."""
    merged = {**file, **given}
    if "env_args" in file and "env_args" in given and isinstance(file["env_args"], dict):
        merged["env_args"] = {**file["env_args"], **given["env_args"]}
    return merged


def parse_pairs(pairs: list[str]) -> dict[str, Any]:
    """Read `key=value` pairs; a value is TOML where it can be, a text otherwise.

    Example:
        >>> parse_pairs(["boxes=2", "generator=gym", "levels='a b'"])
        {'boxes': 2, 'generator': 'gym', 'levels': 'a b'}
    """
    values: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key.isidentifier():
            raise UsageError(f"-E takes key=value, got {pair!r}")
        try:
            values[key] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            values[key] = text
    return values


def _said(values: Mapping[str, Any]) -> dict[str, Any]:
    said = {name: value for name, value in values.items() if value not in (None, [])}
    if "env_args" in said:
        said["env_args"] = parse_pairs(said["env_args"])
    return said


def option(config: type[BaseModel], name: str) -> Any:
    """Return the option of one field, for a command that takes this field and not the whole configuration."""
    field = config.model_fields[name]
    flag = "--" + name.replace("_", "-")
    kind = _plain_type(field.annotation)
    flags = [*([SHORT[name]] if name in SHORT else []), f"{flag}/--no-{flag[2:]}" if kind is bool else flag]
    return typer.Option(
        *flags,
        envvar=f"AGENTBENCH_{name.upper()}",
        show_envvar=False,
        show_default=False,
        help=_help(field),
        metavar=_METAVARS.get(name),
    )


def _parameter(config: type[BaseModel], name: str) -> inspect.Parameter:
    kind = _plain_type(config.model_fields[name].annotation)
    hint = Annotated[kind | None, option(config, name)]  # type: ignore[valid-type]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hint)


def _help(field: FieldInfo) -> str:
    said = " ".join((field.description or "").replace("`", "").split())
    choices = typing.get_args(field.annotation) if typing.get_origin(field.annotation) is typing.Literal else ()
    parts = [said, f"One of: {', '.join(choices)}." if choices else ""]
    if not field.is_required() and field.default not in (None, (), False) and field.default_factory is None:
        parts.append(f"[{field.default}]")
    return " ".join(part for part in parts if part)


def _plain_type(annotation: Any) -> Any:
    """The type that the command line reads; the configuration validates it properly afterwards."""
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        annotation = next(kind for kind in typing.get_args(annotation) if kind is not types.NoneType)
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        return _plain_type(typing.get_args(annotation)[0])
    if origin in (dict, tuple):
        return list[str]
    return annotation if annotation in (int, float, bool, Path) else str
