"""One policy under every protocol of an environment."""

from pathlib import Path

from tests.cli.command import agentbench, assert_one_clear_line


def test_the_same_tasks_are_played_under_every_protocol(tmp_path: Path) -> None:
    done = agentbench("protocols", "-m", "oracle", "-e", "webshop", "-n", 4, "--json", cwd=tmp_path)
    assert done.code == 0, done.err
    rewards = {event["protocol"]: event["summary"]["reward"] for event in done.events}
    assert rewards == {"tiny": 1.0, "original": 1.0, "ragen": 1.0, "verl-agent": 10.0, "agentgym": 1.0}
    caps = {event["protocol"]: event["max_turns"] for event in done.events}
    assert (caps["ragen"], caps["verl-agent"], caps["agentgym"]) == (9, 15, 10)
    assert "turns allowed" in done.err


def test_what_cannot_be_compared_is_refused_in_one_line(tmp_path: Path) -> None:
    assert_one_clear_line(
        agentbench("protocols", "-m", "oracle", "-e", "sokoban", cwd=tmp_path), 2, "names no protocols", "--variants"
    )
    assert_one_clear_line(
        agentbench("protocols", "-m", "oracle", "-e", "webshop", "--variants", "ragen,paper", cwd=tmp_path),
        2,
        "no variant 'paper'",
    )
