"""The genuine engine, behind our adapter, says again what was recorded."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from agentbench_envs.textworld.genuine import GenuineEnv, clean, command_of

pytestmark = pytest.mark.usefixtures("genuine_textworld")

RECORDS = Path(__file__).parents[2] / "data" / "golden" / "environments"
NOT_UNDERSTOOD = ("That's not a verb", "You can't see any such thing")
Row = dict[str, Any]


@pytest.fixture(scope="module")
def transcripts() -> list[Row]:
    with gzip.open(RECORDS / "textworld_transcripts.jsonl.gz", "rt") as file:
        return [json.loads(line) for line in file]


def same(state: Row, recorded: Row) -> bool:
    equal = ("feedback", "description", "inventory", "admissible", "score", "won", "lost", "policy")
    return all(state[key] == recorded[key] for key in equal)


def test_every_recorded_transcript_replays_exactly(
    games: Path, transcripts: list[Row], genuine_textworld: None
) -> None:
    env = GenuineEnv()
    session = env._session
    steps = 0
    for transcript in transcripts:
        session.call("load", 30, path=str(games / f"{transcript['game']}.z8"))
        before = session.call("reset", 30)
        assert same(before, transcript["reset"])
        assert before["objective"] == transcript["objective"]
        assert before["max_score"] == transcript["max_score"]
        for recorded in transcript["steps"]:
            state = session.call("step", 30, command=recorded["cmd"])
            where = f"{transcript['game']}, {transcript['mode']}: {recorded['cmd']}"
            assert same(state, recorded), where
            assert state["score"] == recorded["reward_returned"], where
            assert (state["won"] or state["lost"]) == recorded["done"], where
            assert GenuineEnv._progress(before, state) == recorded["intermediate_reward"], where
            before = state
            steps += 1
    env.close()
    assert steps == sum(len(transcript["steps"]) for transcript in transcripts) > 300


def test_the_environment_says_and_pays_what_was_recorded(games: Path, transcripts: list[Row]) -> None:
    env = GenuineEnv(games=str(games), split="all")
    seeds = {story.path.stem: seed for seed, story in enumerate(env._brought or ())}
    assert set(seeds) == {transcript["game"] for transcript in transcripts}
    for transcript in transcripts:
        observation, _ = env.reset(seed=seeds[transcript["game"]])
        assert observation == "\n\n".join([transcript["objective"], clean(transcript["reset"]["description"])])
        assert env.oracle() == transcript["walkthrough"] == transcript["reset"]["policy"]
        before, score = transcript["reset"], 0
        for recorded in transcript["steps"]:
            step = env.step(recorded["cmd"])
            assert step.reward == recorded["score"] - score, "the change of the score"
            assert step.terminated == recorded["done"]
            assert step.info["success"] == recorded["won"], "losing is not winning"
            assert step.observation and step.observation in clean(recorded["feedback"]), "nothing is dropped"
            if not recorded["done"]:
                assert step.info["admissible"] == recorded["admissible"]
            if recorded["cmd"] in before["admissible"]:
                assert step.info["valid"], recorded["cmd"]
            if recorded["feedback"].lstrip().startswith(NOT_UNDERSTOOD):
                assert not step.info["valid"], recorded["cmd"]
            before, score = recorded, recorded["score"]
    env.close()


def test_every_recorded_command_may_be_said(transcripts: list[Row]) -> None:
    said = {recorded["cmd"] for transcript in transcripts for recorded in transcript["steps"]}
    assert all(command_of(command) == " ".join(command.lower().split()) for command in said)


def test_no_prompt_and_no_status_line_is_shown(transcripts: list[Row]) -> None:
    shown = [clean(recorded["feedback"]) for transcript in transcripts for recorded in transcript["steps"]]
    assert all(shown)
    for text in shown:
        assert not any(rest in text for rest in ("\n\n\n", "  ", ">", "RESTART", "/", "\t")), text


def test_a_result_is_kept_beside_the_score_and_the_end(transcripts: list[Row]) -> None:
    walked = [transcript for transcript in transcripts if transcript["mode"] == "walkthrough"]
    for transcript in walked:
        last = clean(transcript["steps"][-1]["feedback"])
        assert last.startswith("You "), "what the last command did"
        assert "Your score has just gone up" in last and "*** The End ***" in last and last.endswith("turns.")
