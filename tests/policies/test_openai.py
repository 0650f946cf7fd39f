"""The OpenAI policy against a real server on loopback, well-behaved and not."""

import asyncio
import logging
import socket
import time
import traceback
from collections.abc import Callable

import pytest

from agentbench.core.errors import Failure, PrerequisiteError, UsageError
from agentbench.core.policy import Policy
from agentbench.core.types import Reply, Sampling
from agentbench.policies.completions import AnswerError
from agentbench.policies.openai import Faults, OpenAIPolicy
from tests.policies import server
from tests.policies.client import EPISODE, ask, connect, run, user
from tests.policies.server import Provider

KEY = "sk-a-secret-that-nobody-may-read"


def test_it_is_a_policy(provider: Provider) -> None:
    policy: Policy = connect(provider)
    assert (policy.name, policy.version) == ("tiny", 0)
    assert OpenAIPolicy("org/Some Model:free", base_url=provider.url).name == "Some-Model-free"


@pytest.mark.parametrize(
    "fault",
    [
        *("rate-limit", "rate-limit-nonsense", "500", "502", "broken-json", "html", "no-choices", "empty-choices"),
        *("no-message", "no-content", "no-finish", "aborted", "half", "silence"),
    ],
)
def test_what_may_pass_is_asked_again(provider: Provider, fault: str) -> None:
    provider.faults = {"a": [fault, fault]}
    policy = connect(provider, timeout=1.0 if fault == "silence" else 30.0)
    assert ask(policy, user("a")).text == "you said a"
    assert len(provider.requests) == 3


def test_every_reply_arrives_exactly_once_in_a_storm(provider: Provider) -> None:
    faults = ["rate-limit", "500", "broken-json", "half", "no-choices", "no-finish", "silence"]
    names = [f"question {i}" for i in range(70)]
    provider.faults = {name: [faults[i % 7], faults[(i // 7) % 7]][: i % 3] for i, name in enumerate(names)}
    provider.rejects = {"seed": server.names_in_text, "logprobs": server.names_location}
    provider.delay = 0.02
    policy = connect(provider, max_connections=8, timeout=2.0)

    async def work() -> list[Reply]:
        sessions = [policy.start(EPISODE) for _ in names]
        asked = (
            s.reply([user(name)], Sampling(), seed=i) for i, (s, name) in enumerate(zip(sessions, names, strict=True))
        )
        return await asyncio.gather(*asked)

    replies = run(policy, work)
    assert [reply.text for reply in replies] == [f"you said {name}" for name in names]
    assert provider.answered == dict.fromkeys(names, 1)


def test_no_more_requests_are_in_flight_than_allowed(provider: Provider) -> None:
    provider.delay = 0.02
    policy = connect(provider, max_connections=3)

    async def work() -> list[Reply]:
        return await asyncio.gather(*(policy.start(EPISODE).reply([user("a")], Sampling(), seed=i) for i in range(60)))

    assert len(run(policy, work)) == 60
    assert provider.most_in_flight == 3


def test_retry_after_is_kept_and_costs_no_attempt(provider: Provider) -> None:
    provider.faults = {"seconds": ["rate-limit-1s"], "date": ["rate-limit-date"]}
    policy = connect(provider, attempts=1)

    async def timed(content: str) -> float:
        began = time.monotonic()
        await policy.start(EPISODE).reply([user(content)], Sampling(), seed=1)
        return time.monotonic() - began

    async def work() -> tuple[float, float]:
        return await asyncio.gather(timed("seconds"), timed("date"))

    assert min(run(policy, work)) >= 1.0


def test_a_wait_beyond_patience_is_a_failure_at_once(provider: Provider) -> None:
    provider.faults = {"a": ["rate-limit-day"]}
    with pytest.raises(Failure, match="patience than 600 s"):
        ask(connect(provider), user("a"))


def test_endless_polite_refusals_end(provider: Provider) -> None:
    provider.faults = {"a": ["rate-limit"] * 1000}
    with pytest.raises(Failure, match="patience"):
        ask(connect(provider, patience=0.2), user("a"))
    assert len(provider.requests) < 10


@pytest.mark.parametrize("fault", ["500", "half", "silence", "no-choices"])
def test_what_does_not_pass_becomes_a_failure_of_the_provider(provider: Provider, fault: str) -> None:
    provider.faults = {"a": [fault] * 10}
    with pytest.raises(Failure, match="gave up after 3 attempts") as caught:
        ask(connect(provider, attempts=3, timeout=0.2), user("a"))
    assert caught.value.cause == "provider"
    assert "\n" not in str(caught.value)
    assert len(provider.requests) == 3


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("403", PrerequisiteError),
        ("no-credit", PrerequisiteError),
        ("404", UsageError),
        ("418", Failure),
        ("filtered", Failure),
    ],
)
def test_what_stays_is_not_asked_again(provider: Provider, fault: str, error: type[Exception]) -> None:
    provider.faults = {"a": [fault] * 2}
    with pytest.raises(error):
        ask(connect(provider), user("a"))
    assert len(provider.requests) == 1


def test_backoff_grows_and_its_jitter_comes_from_the_seed(provider: Provider) -> None:
    policy = connect(provider, backoff=1.0)

    def pauses(seed: int) -> list[float]:
        faults = Faults(policy, seed)
        return [faults.pause(AnswerError("again")) for _ in range(5)]

    assert pauses(1) == pauses(1) != pauses(2)
    assert all(0.5 <= pause / 2**i <= 1 for i, pause in enumerate(pauses(1)))


def test_the_key_is_sent_and_never_shown(
    provider: Provider, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("THE_KEY", KEY)
    policy = connect(provider, api_key_env="THE_KEY", attempts=2)
    provider.key = KEY
    provider.answer = lambda body: {"message": {"content": f"your key is {KEY}"}}
    provider.faults = {"leak": ["leak"] * 2}
    shown = [repr(policy), str(vars(policy)), str(policy.fingerprint()), repr(ask(policy, user("a")))]
    shown.append(_report(lambda: ask(policy, user("leak"))))
    provider.key = "another"
    shown.append(_report(lambda: ask(policy, user("a"))))
    shown.append(_report(lambda: run(policy, policy.check)))
    assert "THE_KEY" in shown[-1] and "401" in shown[-1]
    assert KEY not in "".join(shown) + caplog.text


def test_a_word_that_serves_as_a_key_is_not_cut_out_of_replies(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THE_KEY", "said")
    assert ask(connect(provider, api_key_env="THE_KEY"), user("a")).text == "you said a"


def _report(work: Callable[[], object]) -> str:
    """What a log would show of an error, with all that led to it."""
    with pytest.raises((PrerequisiteError, Failure)) as caught:
        work()
    return repr(caught.value) + "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("value", ["", "  ", "sk-ключ", "sk-\x07"])
def test_an_unusable_key_is_found_before_anything_is_sent(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_KEY", value)
    with pytest.raises(PrerequisiteError, match="THE_KEY") as caught:
        OpenAIPolicy("tiny", base_url="http://127.0.0.1:1/v1", api_key_env="THE_KEY")
    assert not value.strip() or value not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8000", "ftp://host/v1", "http://", "http://me:secret@host/v1", "http://h/v1?key=secret"]
)
def test_a_url_that_cannot_work_is_refused_without_repeating_secrets(url: str) -> None:
    with pytest.raises(UsageError, match="--base-url") as caught:
        OpenAIPolicy("tiny", base_url=url)
    assert "secret" not in str(caught.value)


@pytest.fixture
def dead_url() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}/v1"


def test_a_dead_server_is_one_clear_line(dead_url: str) -> None:
    policy = OpenAIPolicy("tiny", base_url=dead_url, attempts=2, backoff=0.01)
    with pytest.raises(PrerequisiteError, match=f"no server answers at {dead_url}") as missing:
        run(policy, policy.check)
    with pytest.raises(Failure, match="gave up after 2 attempts") as failed:
        ask(policy, user("a"))
    assert "\n" not in f"{missing.value}{failed.value}"


def test_check_finds_the_model_and_may_run_in_a_loop_of_its_own(provider: Provider) -> None:
    policy = connect(provider)
    asyncio.run(policy.check())
    assert ask(policy, user("a")).text == "you said a"
    assert policy.fingerprint() == {
        "base_url": provider.url,
        "model": "tiny",
        "system_fingerprint": ["fp_1"],
        "refused_parameters": [],
    }


def test_check_names_the_model_that_was_meant(provider: Provider) -> None:
    policy = OpenAIPolicy("vendor/tinychat", base_url=provider.url)
    with pytest.raises(PrerequisiteError, match="did you mean 'vendor/tiny-chat'"):
        asyncio.run(policy.check())
    provider.models = ()
    with pytest.raises(PrerequisiteError, match="it has: none"):
        asyncio.run(policy.check())


def test_check_notices_a_wrong_path(provider: Provider) -> None:
    policy = OpenAIPolicy("tiny", base_url=provider.url.removesuffix("/v1"))
    with pytest.raises(UsageError, match="usually ends in /v1"):
        asyncio.run(policy.check())


def test_a_cancelled_reply_hangs_up_and_frees_its_connection(provider: Provider) -> None:
    policy = connect(provider, max_connections=1, timeout=30.0)

    async def work() -> Reply:
        provider.delay = 20.0
        session = policy.start(EPISODE)
        task = asyncio.create_task(session.reply([user("a")], Sampling(), seed=1))
        await asyncio.to_thread(_until, lambda: bool(provider.requests))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await session.close()
        provider.delay = 0.0
        return await policy.start(EPISODE).reply([user("b")], Sampling(), seed=1)

    assert run(policy, work).text == "you said b"
    _until(lambda: provider.hung_up == 1)


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_closing_twice_is_fine_and_a_closed_policy_opens_again(provider: Provider) -> None:
    policy = connect(provider)

    async def work() -> list[str]:
        replies = []
        for name in ("a", "b"):
            replies.append(await policy.start(EPISODE).reply([user(name)], Sampling(), seed=1))
            await policy.aclose()
            await policy.aclose()
        return [reply.text for reply in replies]

    assert run(policy, work) == ["you said a", "you said b"]
