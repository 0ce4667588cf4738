"""Classify errors of a provider by what they carry: whether a retry may help, and when.

Errors are known by what they carry, a status, a header, the name of a class: no provider's package is imported here.
Nothing is renamed or wrapped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar, cast

from ..core.errors import KeyturnError, UserError
from .base import is_late
from .retries import (
    ModelRetryAdvice,
    ModelRetryBackoffSettings,
    ModelRetryNormalizedError,
    ModelRetrySettings,
    Retries,
    RetryDecision,
    RetryPolicyContext,
    decided,
)

T = TypeVar("T")

RETRIES = 2
# A provider that wants to be left alone for longer is asked again by the caller, or another one is asked.
LONGEST_WAIT = 60.0
_FIRST_WAIT, _LONGEST_OWN_WAIT = 0.5, 8.0

_PASSING_STATUS = frozenset({408, 409, 425, 429})
# What is said in the middle of a stream that began well, where no status is left to say it with.
_PASSING_TYPES = frozenset({"api_error", "overloaded_error", "rate_limit_error", "server_error", "timeout_error"})
# The roots of what HTTP clients raise when no answer came: httpx and its descendants, aiohttp, the providers' own.
_NO_ANSWER = frozenset({"APIConnectionError", "TransportError", "ClientConnectionError", "ClientPayloadError"})


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status that an error carries, under either of the names in use."""
    for name in ("status_code", "code"):
        status = getattr(error, name, None)
        if isinstance(status, int) and not isinstance(status, bool) and 100 <= status < 600:
            return status
    return None


def is_passing(error: BaseException) -> bool:
    """Return whether the error is transient, so that a retry may help: overload, rate limits, a lost connection.

    >>> is_passing(ConnectionError()), is_passing(ValueError()), is_passing(KeyturnError())
    (True, False, False)
    """
    if isinstance(error, KeyturnError):
        return False
    advice = _header(error, "x-should-retry")
    if advice in ("true", "false"):
        return advice == "true"
    status = status_of(error)
    if status is not None and status >= 400:
        return status in _PASSING_STATUS or status >= 500
    if _error_type(error) in _PASSING_TYPES:
        return True
    names = {kind.__name__ for kind in type(error).__mro__}
    return isinstance(error, ConnectionError | TimeoutError) or bool(names & _NO_ANSWER)


def advised_wait(error: BaseException, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> float | None:
    """Return how many seconds the provider asks to wait before a retry, None where it does not say."""
    header = _header(error, "retry-after-ms")
    if header is not None and _number(header) is not None:
        return cast("float", _number(header)) / 1000
    header = _header(error, "retry-after")
    if header is None:
        return _retry_info(error)
    seconds = _number(header)
    if seconds is not None:
        return seconds
    try:
        return max(0.0, (parsedate_to_datetime(header) - now()).total_seconds())
    except (TypeError, ValueError):
        return None


def retries(setting: object, default: int = RETRIES) -> Retries:
    """Return how often a request is retried: `ModelSettings.retry` is a number, or has `max_retries`.

    >>> retries(None), retries(0), retries({"max_retries": 5})
    (2, 0, 5)
    """
    settings = ModelRetrySettings.of(setting)
    times: Any = settings.max_retries
    if times is None:
        return Retries.of(default, settings)
    if not isinstance(times, int) or isinstance(times, bool) or times < 0:
        raise UserError(f"ModelSettings.retry is how often a model is asked again, 0 or more, not {times!r}")
    return Retries.of(times, settings)


async def again(
    ask: Callable[[], Awaitable[T]],
    more: int,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    passing: Callable[[BaseException], bool] = is_passing,
    safe: Callable[[BaseException], bool] | None = None,
    stream: bool = False,
) -> T:
    """Call `ask`, retried up to `more` times while the error is transient; then raise it as it is.

    Where the user has a policy, that says after which errors; it never overrules `safe`, which says after which errors
    a request may be repeated at all.
    """
    settings = more.settings if isinstance(more, Retries) else ModelRetrySettings()
    for attempt in range(more):
        try:
            return await ask()
        except Exception as error:
            wait = advised_wait(error)
            told = _told(error, (attempt + 1, int(more)), stream=stream, wait=wait, suggested=passing(error))
            decision = RetryDecision(passing(error))
            if settings.policy is not None and (safe is None or safe(error)) and not isinstance(error, KeyturnError):
                decision = await decided(settings.policy, told)
            wait = wait if decision.delay is None else decision.delay
            if not decision.retry or (wait is not None and wait > LONGEST_WAIT):
                raise
            if wait is None:
                backoff = settings.backoff or ModelRetryBackoffSettings(_FIRST_WAIT, _LONGEST_OWN_WAIT)
                wait = cast("ModelRetryBackoffSettings", backoff).wait(attempt + 1)
        await pause(wait)
    return await ask()


def _told(
    error: Exception, tries: tuple[int, int], *, stream: bool, wait: float | None, suggested: bool
) -> RetryPolicyContext:
    """What a policy is told of an error."""
    names = {kind.__name__ for kind in type(error).__mro__}
    code, request = getattr(error, "code", None), getattr(error, "request_id", None)
    normalized = ModelRetryNormalizedError(
        status_of(error),
        code if isinstance(code, str) else None,
        str(error),
        request if isinstance(request, str) else None,
        wait,
        is_network_error=isinstance(error, ConnectionError) or bool(names & _NO_ANSWER),
        is_timeout=is_late(error),
    )
    return RetryPolicyContext(error, *tries, stream, normalized, ModelRetryAdvice(suggested, wait))


def _header(error: BaseException, name: str) -> str | None:
    headers: Any = getattr(getattr(error, "response", None), "headers", None)
    value: Any = headers.get(name) if hasattr(headers, "get") else None
    return value if isinstance(value, str) else None


def _number(text: str) -> float | None:
    try:
        return max(0.0, float(text))
    except ValueError:
        return None


def _error_type(error: BaseException) -> Any:
    body: Any = getattr(error, "body", None)
    if not isinstance(body, Mapping):
        return None
    fields = cast("Mapping[str, Any]", body)
    inner: Any = fields.get("error", fields)  # one SDK keeps the whole body, another what stood under "error"
    return cast("Mapping[str, Any]", inner).get("type") if isinstance(inner, Mapping) else None


def _retry_info(error: BaseException) -> float | None:
    """Return the delay in the details of a Google error, such as "17s"."""
    details: Any = getattr(error, "details", None)
    details = cast("Mapping[str, Any]", details).get("error") if isinstance(details, Mapping) else None
    details = cast("Mapping[str, Any]", details).get("details") if isinstance(details, Mapping) else None
    for detail in cast("list[Any]", details) if isinstance(details, list) else []:
        delay = cast("Mapping[str, Any]", detail).get("retryDelay") if isinstance(detail, Mapping) else None
        if isinstance(delay, str) and delay.endswith("s"):
            return _number(delay[:-1])
    return None
