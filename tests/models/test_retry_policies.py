"""How a model is asked again as the user says: after which errors, how often, after how long; and a timeout by name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from keyturn import (
    Agent,
    Model,
    ModelResponse,
    ModelRetrySettings,
    ModelSettings,
    ModelTimeoutError,
    RetryDecision,
    RetryPolicyContext,
    Runner,
    UserError,
    retry_policies,
)
from keyturn.models.faults import again, retries
from tests.table import each


class Busy(Exception):
    def __init__(self, status: int) -> None:
        self.status_code = status
        super().__init__(f"status {status}")


def tried(error: Exception, **settings: Any) -> tuple[int, list[float]]:
    """How often a question was asked that always fails so, and the waits between."""
    asked: list[int] = []
    waits: list[float] = []

    async def ask() -> None:
        asked.append(1)
        raise error

    async def pause(seconds: float) -> None:
        waits.append(seconds)

    try:
        asyncio.run(again(ask, retries(ModelRetrySettings(**settings)), pause))
    except type(error):
        pass
    return len(asked), waits


@each(
    ("policy", "error", "times"),
    [
        (None, Busy(503), 4),
        (None, Busy(400), 1),
        (retry_policies.never(), Busy(503), 1),
        (retry_policies.provider_suggested(), Busy(429), 4),
        (retry_policies.provider_suggested(), Busy(404), 1),
        (retry_policies.network_error(), ConnectionError(), 4),
        (retry_policies.network_error(), TimeoutError(), 4),
        (retry_policies.network_error(), Busy(503), 1),
        (retry_policies.http_status([404]), Busy(404), 4),
        (retry_policies.retry_after(), Busy(503), 1),
        (retry_policies.any(retry_policies.network_error(), retry_policies.http_status([503])), Busy(503), 4),
        (retry_policies.all(retry_policies.network_error(), retry_policies.http_status([503])), Busy(503), 1),
        (retry_policies.all(), Busy(503), 1),
        (lambda context: context.attempt < 2, Busy(503), 2),
        (retry_policies.http_status([503]), UserError("mine"), 1),
    ],
)
def test_a_policy_says_after_which_errors(policy: Any, error: Exception, times: int) -> None:
    assert tried(error, max_retries=3, policy=policy)[0] == times


def test_the_wait_is_the_policys_else_the_backoffs() -> None:
    backoff = {"initial_delay": 1, "multiplier": 3, "max_delay": 5, "jitter": False}
    assert tried(Busy(503), max_retries=3, backoff=backoff)[1] == [1, 3, 5]

    async def soon(context: RetryPolicyContext) -> RetryDecision:
        return RetryDecision(context.normalized.status_code == 503, delay=0.25)

    assert tried(Busy(503), max_retries=2, policy=soon, backoff=backoff)[1] == [0.25, 0.25]


async def test_no_policy_repeats_what_may_have_been_taken_in() -> None:
    asked: list[int] = []

    async def ask() -> None:
        asked.append(1)
        raise Busy(503)

    always = retries(ModelRetrySettings(max_retries=3, policy=lambda context: True))
    with pytest.raises(Busy):
        await again(ask, always, passing=lambda error: False, safe=lambda error: False)
    assert len(asked) == 1


def test_bad_settings_are_refused() -> None:
    for wrong in ({"backoff": {"delay": 1}}, {"policy": "always"}, {"backoff": {"initial_delay": -1}}):
        with pytest.raises(UserError):
            ModelRetrySettings(**wrong)
    with pytest.raises(UserError, match="has no setting 'times'"):
        retries({"times": 3})
    with pytest.raises(UserError, match="True, False or a RetryDecision"):
        tried(Busy(503), max_retries=1, policy=lambda context: "yes")


async def asked(agent: Agent[Any], streamed: bool) -> None:
    if not streamed:
        await Runner.run(agent, "hi")
        return
    async for _ in Runner.run_streamed(agent, "hi").stream_events():
        pass


class Slow(Model):
    async def get_response(self, *asked: Any, **kept: Any) -> ModelResponse:
        raise TimeoutError("the client's own words")

    async def stream_response(self, *asked: Any, **kept: Any) -> AsyncIterator[Any]:
        raise TimeoutError("the client's own words")
        yield


@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
async def test_a_model_that_is_too_late_is_an_error_of_that_name(streamed: bool) -> None:
    agent = Agent("a", model=Slow(), model_settings=ModelSettings(timeout=2))
    with pytest.raises(ModelTimeoutError, match="within 2 s") as caught:
        await asked(agent, streamed)
    assert isinstance(caught.value.__cause__, TimeoutError)
    assert caught.value.timeout_seconds == 2
    with pytest.raises(TimeoutError):
        await Runner.run(agent.clone(model_settings=ModelSettings()), "hi")


@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
async def test_a_model_is_told_whether_it_may_trace(streamed: bool) -> None:
    told: list[Any] = []

    class Listens(Slow):
        async def get_response(self, *asked: Any, **kept: Any) -> ModelResponse:
            told.append(asked[6])
            return ModelResponse([{"type": "message", "role": "assistant", "content": "hi"}])

        async def stream_response(self, *asked: Any, **kept: Any) -> AsyncIterator[Any]:
            reply = await self.get_response(*asked)
            yield {"type": "response.completed", "response": reply}

    agent = Agent("a", model=Listens())
    await asked(agent, streamed)
    assert told[0].is_disabled()
    assert not told[0].include_data()
