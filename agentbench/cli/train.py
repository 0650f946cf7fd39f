"""`agentbench train`: make a policy better."""

import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

from agentbench.cli.options import option
from agentbench.core.errors import PrerequisiteError, UsageError
from agentbench.evaluate.config import EvalConfig


def train(
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="Recipe (TOML), a file or the name of a bundled one.")
    ] = None,
    algorithm: Annotated[str | None, typer.Option(help="turn-ppo, token-ppo, grpo, rloo or sft.")] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", help="Checkpoint folder, or init:xs.")] = None,
    env: Annotated[str | None, typer.Option("--env", "-e", help="name[/variant], or a Python file.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="One key of the recipe: optim.lr=1e-4")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Root seed; it also decides new weights.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder for run directories.")] = None,
    sandbox: Annotated[str | None, option(EvalConfig, "sandbox")] = None,
    allow_unsandboxed: Annotated[bool | None, option(EvalConfig, "allow_unsandboxed")] = None,
    resume: Annotated[Path | None, typer.Option(help="Run directory to go on with.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object per line on stdout.")] = False,
) -> None:
    """Train a policy by a recipe; the run can be killed and resumed."""
    from agentbench.cli.console import emit, say
    from agentbench.train.config import TrainConfig

    values = _values(config, resume)
    named = {"model": model, "env": env, "seed": seed, "out": None if out is None else str(out)}
    named |= {"sandbox": sandbox, "allow_unsandboxed": allow_unsandboxed}
    values.update({key: value for key, value in named.items() if value is not None})
    if algorithm is not None:
        given = values.get("algorithm")
        if not (isinstance(given, dict) and given.get("name") == algorithm):  # Of another one the fields are no use.
            values["algorithm"] = {"name": algorithm}
    for setting in settings or []:
        _put(values, setting)
    recipe = TrainConfig.parse(values)
    trained = run_training(recipe, resume, json=json)
    if json:
        emit(
            event="done",
            status="complete",
            run_dir=str(trained.run_dir),
            best=trained.best,
            valid=trained.valid_success,
        )
    say(f"best on the valid panel: {100 * trained.valid_success:.1f} % ({trained.best})")
    say(f"run: {trained.run_dir}")
    if trained.best is not None:
        say(f"next: agentbench eval --model {trained.best} --env {recipe.env}")
    _draw(trained.run_dir)


def run_training(recipe: Any, resume: Path | None = None, *, json: bool = False) -> Any:
    """Train with progress on stderr, and on stdout as JSON lines where that is wanted."""
    from agentbench.cli.console import emit
    from agentbench.train.loop import train as run

    told = _Teller()

    def listen(row: dict[str, Any]) -> None:
        if json:
            emit(event="update", **row)
        told.tell(row)

    return run(recipe, resume=resume, listen=listen)


class _Teller:
    """Tells a person how training goes: a line when something was validated, and every ten seconds."""

    def __init__(self) -> None:
        import time

        self._clock = time.monotonic
        self._told = self._clock() - 1e9

    def tell(self, row: dict[str, Any]) -> None:
        from agentbench.cli.console import LINE_SECONDS, say

        if "valid/success" not in row and self._clock() - self._told < LINE_SECONDS:
            return
        self._told = self._clock()
        valid = f"  valid {100 * row['valid/success']:5.1f} %" if "valid/success" in row else ""
        say(
            f"{row['stage']:<18} update {row['update']:>5}  reward {row['episode/reward']:8.3f}"
            f"  success {100 * row['episode/success']:5.1f} %  entropy {row.get('policy/entropy', 0.0):6.3f}"
            f"  cpu {row['total/cpu_seconds']:7.1f} s{valid}"
        )


def _values(config: Path | None, resume: Path | None) -> dict[str, Any]:
    from agentbench.evaluate.config import read_toml

    if resume is not None:
        if config is not None:
            raise UsageError("--resume brings its own recipe: leave --config out")
        return read_toml(resume / "config.toml")
    if config is None:
        return {}
    return read_toml(config) if config.exists() else bundled_recipe(str(config))


def bundled_recipe(name: str) -> dict[str, Any]:
    """Read a recipe that comes with AgentBench.

    Raises:
        UsageError: There is none of this name.
    """
    from agentbench.evaluate.config import read_toml

    folder = Path(__file__).parent.parent / "recipes"
    path = folder / f"{name}.toml"
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in folder.glob("*.toml")))
        raise UsageError(f"there is no recipe {name}: neither a file nor one of {known}")
    return read_toml(path)


def _put(values: dict[str, Any], setting: str) -> None:
    """Set one key of a recipe, given as `a.b=value`."""
    key, equals, text = setting.partition("=")
    if not equals or not key:
        raise UsageError(f"--set takes key=value, got {setting!r}")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    *path, last = key.split(".")
    table = values
    for part in path:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise UsageError(f"--set {setting}: {part} is no table")
    table[last] = value


def _draw(run: Path) -> None:
    from agentbench.cli.console import say
    from agentbench.report.curves import draw_run

    try:
        files = draw_run(run)
    except PrerequisiteError as error:
        say(f"no curves: {error}")
        return
    say(f"curves: {', '.join(str(file) for file in files if file.suffix == '.png')}")
