"""What may pass is tried again, for as long as the provider asks and no longer; everything else comes as it is."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from keyturn.core.errors import UserError
from keyturn.models.faults import advised_wait, again, is_passing, retries, status_of
from tests.table import each


def error(status: int | None = None, *, headers: Any = None, body: Any = None, details: Any = None) -> Exception:
    made: Any = RuntimeError("from an SDK")
    made.status_code, made.response, made.body, made.details = status, SimpleNamespace(headers=headers), body, details
    return made


def test_a_status_under_either_name() -> None:
    assert status_of(error(503)) == 503
    assert status_of(SimpleNamespace(code=404)) == 404  # type: ignore[arg-type]  # anything that carries one
    assert status_of(SimpleNamespace(code="rate_limit")) is None  # type: ignore[arg-type]  # OpenAI's code is a word
    assert status_of(SimpleNamespace(status_code=True, code=0)) is None  # type: ignore[arg-type]  # no status at all


@each(
    ("made", "passes"),
    [
        (error(429), True),
        (error(400), False),
        (error(400, headers={"x-should-retry": "true"}), True),
        (error(503, headers={"x-should-retry": "false"}), False),
        (error(200, body={"error": {"type": "overloaded_error"}}), True),
        (error(200, body={"error": {"type": "invalid_request_error"}}), False),
        (error(None, body="text"), False),
        (KeyError("x"), False),
    ],
)
def test_what_passes(made: Exception, passes: bool) -> None:
    assert is_passing(made) is passes


NOW = datetime(2030, 1, 1, tzinfo=UTC)
GOOGLES = {"error": {"details": [{"@type": "x"}, {"@type": "google.rpc.RetryInfo", "retryDelay": "17.5s"}]}}


@each(
    ("made", "wait"),
    [
        (error(429, headers={"retry-after": "7"}), 7),
        (error(429, headers={"retry-after": "-7"}), 0),
        (error(429, headers={"retry-after-ms": "250", "retry-after": "7"}), 0.25),
        (error(429, headers={"retry-after": "Tue, 01 Jan 2030 00:00:30 GMT"}), 30),
        (error(429, headers={"retry-after": "soon"}), None),
        (error(429, headers={}), None),
        (error(429, details=GOOGLES), 17.5),
        (error(429, details={"error": {"details": "none"}}), None),
        (ConnectionError(), None),
    ],
)
def test_how_long_the_provider_asks_to_wait(made: Exception, wait: float | None) -> None:
    assert advised_wait(made, lambda: NOW) == wait


class Asked:
    """Fails as often as it has errors, then answers."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors, self.waits = list(errors), list[float]()

    async def ask(self) -> str:
        if self.errors:
            raise self.errors.pop(0)
        return "answer"

    async def pause(self, seconds: float) -> None:
        self.waits.append(seconds)


async def test_waits_grow_unless_the_provider_says_otherwise() -> None:
    asked = Asked(error(500), error(429, headers={"retry-after": "7"}), *[error(500)] * 6)
    assert await again(asked.ask, 8, pause=asked.pause) == "answer"
    assert asked.waits[1] == 7
    grown = [0.5, 2, 4, 8, 8, 8, 8]
    others = [asked.waits[0], *asked.waits[2:]]
    assert all(0.75 * most <= wait <= most for wait, most in zip(others, grown, strict=True))


async def test_asking_is_bounded() -> None:
    asked = Asked(*[error(500)] * 3)
    with pytest.raises(RuntimeError):
        await again(asked.ask, 2, pause=asked.pause)
    assert (len(asked.waits), asked.errors) == (2, [])


async def test_what_lasts_is_raised_at_once() -> None:
    asked = Asked(error(400))
    with pytest.raises(RuntimeError):
        await again(asked.ask, 2, pause=asked.pause)
    assert asked.waits == []


async def test_who_asks_for_too_long_is_not_waited_for() -> None:
    """A minute at most: a fallback, or a person, can do better meanwhile."""
    asked = Asked(error(429, headers={"retry-after": "3600"}))
    with pytest.raises(RuntimeError):
        await again(asked.ask, 2, pause=asked.pause)
    assert asked.waits == []


async def test_what_passes_can_be_said() -> None:
    asked = Asked(ValueError("x"))
    assert await again(asked.ask, 1, pause=asked.pause, passing=lambda _: True) == "answer"


@each(
    ("setting", "times"),
    [(None, 2), (0, 0), (5, 5), ({"max_retries": 1}, 1), ({}, 2), (SimpleNamespace(max_retries=3), 3)],
)
def test_how_often_is_a_setting(setting: Any, times: int) -> None:
    assert retries(setting) == times


@pytest.mark.parametrize("setting", [-1, True, "often", 1.5])
def test_a_setting_that_is_none_is_refused(setting: Any) -> None:
    with pytest.raises(UserError, match="how often"):
        retries(setting)
