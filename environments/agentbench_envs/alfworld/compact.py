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


def first_view(game: AlfworldGame) -> str:
    """Return the first observation."""
    places = " ".join(sorted(map(kind, game.world.receptacles)))
    words = [word for word in game.world.task.split() if word not in ("a", "some", "the")]
    return f"{' '.join(words)}\n{places}"


def view(game: AlfworldGame) -> str:
    """Return where the player is, what it sees there, and what it holds."""
    state = game.state
    lines = []
    for receptacle in game.world.at.get(state.location, ()):
        if receptacle in game.world.openable and not state.is_open(receptacle):
            lines.append(f"{kind(receptacle)} closed")
        else:
            lines.append(f"{kind(receptacle)}: {' '.join(sorted(map(kind, state.contents[receptacle])))}".strip())
    if state.held is not None:
        lines.append(f"held {kind(state.held)}")
    return "\n".join(lines) or "room"
