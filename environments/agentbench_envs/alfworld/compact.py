"""A dialect for models of a million parameters: the same game in a few characters a turn.

It needs rooms in which every kind of receptacle and object occurs once, so that kinds are names and one receptacle
stands at a location:

    put mug in desk                 the task and the receptacles
    bed desk drawer shelf
    > go drawer
    drawer closed
    > open drawer
    drawer: mug pen
    > take mug
    drawer: pen
    held mug
    > go desk
    desk:
    held mug
    > put mug                       done

A command that would do nothing is answered by `no` before the view.
"""

from agentbench_envs.alfworld.game import Action, AlfworldGame

_SILENT = ("examine", "help", "inventory")
"""What the dialect leaves out: every view shows where the player is and what it holds."""


def commands(game: AlfworldGame) -> dict[str, Action]:
    """Return what may be done now, by its short command."""
    return {command(action): action for action in game.actions.values() if action.verb not in _SILENT}


def command(action: Action) -> str:
    """Return the short command of an action."""
    return f"{action.verb} {kind(action.what)}".strip()


def kind(name: str) -> str:
    """Return the class of a PDDL name."""
    return (name.rpartition("_bar_")[2] if name.endswith("basin") else name.partition("_bar_")[0]) or name


def first_view(game: AlfworldGame, *, sight: bool) -> str:
    """Return the first observation.

    Args:
        game: The game, before its first command.
        sight: Show what is in or on the receptacles that are not closed, not only their names.
    """
    words = [word for word in game.world.task.split() if word not in ("a", "some", "the")]
    places = sorted(game.world.receptacles, key=kind)
    shown = [_seen(game, place) for place in places] if sight else [" ".join(map(kind, places))]
    return "\n".join([" ".join(words), *shown])


def view(game: AlfworldGame) -> str:
    """Return where the player is, what it sees there, and what it holds."""
    state = game.state
    lines = [_seen(game, receptacle) for receptacle in game.world.at.get(state.location, ())]
    if state.held is not None:
        lines.append(f"held {kind(state.held)}")
    return "\n".join(lines) or "room"


def _seen(game: AlfworldGame, receptacle: str) -> str:
    name, state = kind(receptacle), game.state
    if receptacle in game.world.openable and not state.is_open(receptacle):
        return f"{name} closed"
    return f"{name}: {' '.join(sorted(map(kind, state.contents[receptacle])))}".strip()
