"""How a model is asked again, in the user's words: how often, after how long (backoff), and after which errors.

A policy is any function of a `RetryPolicyContext`. What an error is, and that a question is never repeated where the
first one may have been taken in, is the business of `faults.py` and of the members.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, cast

from ..core.errors import UserError
from ..core.settable import Rules, Settable, made_by, must
from ..core.values import is_number
from ..support.constructors import settings
from ..support.user_code import answer_of


def _is_amount(value: object) -> bool:
    return value is None or (is_number(value) and value >= 0)


_AMOUNT = must(_is_amount, "a number of 0 or more")


@settings()
class ModelRetryBackoffSettings(Settable):
    """How long is waited before each further try, where neither the provider nor the policy says it.

    The wait is `initial_delay * multiplier ** (try - 1)` seconds and at most `max_delay`; `jitter` shortens it by up to
    a quarter, so that many runs do not come back at once.

    >>> ModelRetryBackoffSettings(initial_delay=1, multiplier=3, max_delay=5, jitter=False).wait(2)
    3
    """

    initial_delay: float | None = None
    max_delay: float | None = None
    multiplier: float | None = None
    jitter: bool | None = None
    _rules: ClassVar[Rules] = dict.fromkeys(("initial_delay", "max_delay", "multiplier"), _AMOUNT)

    def wait(self, attempt: int) -> float:
        """How many seconds to wait after that many tries."""
        first = 0.5 if self.initial_delay is None else self.initial_delay
        most = 8.0 if self.max_delay is None else self.max_delay
        wait = min(first * (2 if self.multiplier is None else self.multiplier) ** (attempt - 1), most)
        return wait if self.jitter is False else wait * random.uniform(0.75, 1)


@dataclass(slots=True)
class ModelRetryNormalizedError:
    """What an error of a provider comes to, whichever provider it is.

    >>> ModelRetryNormalizedError(status_code=429, retry_after=2.0).status_code
    429
    """

    status_code: int | None = None
    error_code: str | None = None
    message: str | None = None
    request_id: str | None = None
    retry_after: float | None = None
    is_abort: bool = False
    is_network_error: bool = False
    is_timeout: bool = False


@dataclass(slots=True)
class ModelRetryAdvice:
    """What the provider, and what is known of its errors, advise: whether to ask again, and when.

    >>> ModelRetryAdvice(suggested=True, retry_after=2.0).suggested
    True
    """

    suggested: bool | None = None
    retry_after: float | None = None


@dataclass(slots=True)
class RetryPolicyContext:
    """What a retry policy gets.

    `attempt` is how many tries there were.

    >>> RetryPolicyContext(TimeoutError(), 1, 3, False, ModelRetryNormalizedError(is_timeout=True)).attempt
    1
    """

    error: Exception
    attempt: int
    max_retries: int
    stream: bool
    normalized: ModelRetryNormalizedError
    provider_advice: ModelRetryAdvice | None = None


@dataclass(slots=True)
class RetryDecision:
    """What a retry policy answers, where True or False is not enough: `delay` is in seconds.

    >>> RetryDecision(True, delay=1.5).delay
    1.5
    """

    retry: bool
    delay: float | None = None
    reason: str | None = None


RetryPolicy = Callable[[RetryPolicyContext], bool | RetryDecision | Awaitable[bool | RetryDecision]]


def _backoff(given: object) -> Any:
    if not isinstance(given, Mapping):
        return given
    return ModelRetryBackoffSettings(**_known(ModelRetryBackoffSettings, cast("Mapping[str, Any]", given)))


@settings()
class ModelRetrySettings(Settable):
    """How often a model is asked again, and after which errors: for `ModelSettings(retry=...)`.

    Without a `policy` it is asked again after overload, limits and dead connections. A question that a provider may
    have taken into a conversation of its own is never repeated, whatever the policy says.

    >>> from keyturn import ModelSettings, retry_policies
    >>> retry = ModelRetrySettings(max_retries=4, policy=retry_policies.http_status([429, 503]))
    >>> ModelSettings(retry=retry).retry.max_retries
    4
    """

    max_retries: int | None = None
    backoff: ModelRetryBackoffSettings | Mapping[str, Any] | None = None
    policy: RetryPolicy | None = None
    _rules: ClassVar[Rules] = {
        "backoff": made_by(_backoff),
        "policy": must(lambda value: value is None or callable(value), "a function of a RetryPolicyContext, or None"),
    }

    @classmethod
    def of(cls, setting: Any) -> ModelRetrySettings:
        """What `ModelSettings.retry` says, as settings: a number, a dict, or anything with `max_retries`.

        >>> ModelRetrySettings.of(3).max_retries, ModelRetrySettings.of(None).max_retries
        (3, None)
        """
        if isinstance(setting, cls):
            return setting
        if isinstance(setting, Mapping):
            return cls(**_known(cls, cast("Mapping[str, Any]", setting)))
        if setting is None or isinstance(setting, int):
            return cls(setting)
        return cls(getattr(setting, "max_retries", setting))


class Retries(int):
    """How often a model is asked again: a number, with what else is said of it."""

    settings: ModelRetrySettings

    @classmethod
    def of(cls, times: int, settings: ModelRetrySettings) -> Retries:
        """That many, with these settings."""
        made = cls(times)
        made.settings = settings
        return made


async def decided(policy: RetryPolicy, context: RetryPolicyContext) -> RetryDecision:
    """What a policy answers, as a decision."""
    answer = await answer_of(policy, context)
    if isinstance(answer, RetryDecision):
        return answer
    if not isinstance(answer, bool):
        raise UserError(f"a retry policy answers True, False or a RetryDecision, not {type(answer).__name__}")
    return RetryDecision(answer)


class RetryPolicies:
    """The retry policies ready made, and how to join them; use it as `retry_policies`.

    >>> policy = retry_policies.any(retry_policies.network_error(), retry_policies.http_status([503]))
    >>> overloaded = ModelRetryNormalizedError(status_code=503)
    >>> import asyncio
    >>> asyncio.run(decided(policy, RetryPolicyContext(OSError(), 1, 2, False, overloaded))).retry
    True
    """

    def never(self) -> RetryPolicy:
        """Never ask again."""
        return lambda context: False

    def provider_suggested(self) -> RetryPolicy:
        """Ask again where the provider, or what is known of its errors, says that it may help."""
        return lambda context: bool(context.provider_advice and context.provider_advice.suggested)

    def network_error(self) -> RetryPolicy:
        """Ask again where no answer came."""
        return lambda context: context.normalized.is_network_error or context.normalized.is_timeout

    def retry_after(self) -> RetryPolicy:
        """Ask again where the provider says when."""
        return lambda context: context.normalized.retry_after is not None

    def http_status(self, statuses: Iterable[int]) -> RetryPolicy:
        """Ask again after these statuses."""
        wanted = frozenset(statuses)
        return lambda context: context.normalized.status_code in wanted

    def any(self, *policies: RetryPolicy) -> RetryPolicy:
        """Ask again where one of these says so; the first that does says when."""

        async def first(context: RetryPolicyContext) -> RetryDecision:
            for policy in policies:
                decision = await decided(policy, context)
                if decision.retry:
                    return decision
            return RetryDecision(False)

        return first

    def all(self, *policies: RetryPolicy) -> RetryPolicy:
        """Ask again where each of these says so; the longest wait counts."""

        async def every(context: RetryPolicyContext) -> RetryDecision:
            made = [await decided(policy, context) for policy in policies]
            waits = [decision.delay for decision in made if decision.delay is not None]
            return RetryDecision(bool(made) and all(decision.retry for decision in made), max(waits) if waits else None)

        return every


retry_policies = RetryPolicies()


def _known(kind: type[Any], given: Mapping[str, Any]) -> dict[str, Any]:
    for name in given.keys() - {each.name for each in fields(kind)}:
        raise UserError(f"{kind.__name__} has no setting {name!r}")
    return dict(given)
