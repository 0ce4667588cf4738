"""Check usage limits in one place: just before a model is asked.

A run's limits are in its log, and so is what it used. With a limit reached no model is asked any more, in no frame;
what else there is to do is done first, and then the caller is told. Nothing is lost by it.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from ...agents.limits import COUNTED, UsageLimits
from ...core import events as ev
from ...core.effects import Effect, pending
from ...core.errors import KeyturnError, UsageLimitExceeded, UserError
from ...core.run import Run
from ...core.usage import RequestUsage, price_of
from ..run.open_run import OpenRun

LIMITED = Effect("limited", ev.ROOT)
_NO_LIMITS = UsageLimits()


class UsageMeter:
    """Holds a run's usage against its limits; `reached` says why no model is asked any more."""

    def __init__(self, live: OpenRun) -> None:
        self.asking = 0  # requests whose replies are not there yet: they are as good as made
        self.reached: KeyturnError | None = None
        self._live = live
        self._known: tuple[dict[str, Any], UsageLimits] = ({}, _NO_LIMITS)
        self._paid: tuple[UsageLimits | None, int, Decimal] = (None, 0, Decimal(0))

    def lets(self, model: object) -> bool:
        """Return whether this model may be asked now."""
        run = self._live.log.run
        if run.limits and self.reached is None:
            limits = self._limits(run)
            self.reached = self._unpriced(limits, model) or self.spent(limits)
        return self.reached is None

    def spent(self, limits: UsageLimits | None = None) -> KeyturnError | None:
        """Return the error of the first limit that is reached, of the run's own or of these."""
        run = self._live.log.run
        limits = self._limits(run) if limits is None else limits
        spent = run.usage
        used = {
            "requests": spent.requests + self.asking,
            "input_tokens": spent.input_tokens,
            "output_tokens": spent.output_tokens,
            "total_tokens": max(spent.total_tokens, spent.input_tokens + spent.output_tokens),
            "tool_calls": run.started,
        }
        for name in COUNTED:
            allowed = getattr(limits, name)
            if allowed is not None and used[name] >= allowed:
                return UsageLimitExceeded(name, allowed=allowed, used=used[name])
        return None if limits.cost is None else self._overspent(run, limits)

    def hold_back(self, effects: list[Effect], *, busy: bool) -> list[Effect]:
        """Return the effects left with a limit reached: all but model calls; where none is left, `LIMITED`."""
        others = [effect for effect in effects if effect.do != "model"]
        return others if others or busy or not effects else [LIMITED]

    def _limits(self, run: Run) -> UsageLimits:
        if not run.limits:
            return _NO_LIMITS
        if self._known[0] is not run.limits:
            self._known = run.limits, UsageLimits(**run.limits)
        return self._known[1]

    def _overspent(self, run: Run, limits: UsageLimits) -> KeyturnError | None:
        of, count, paid = self._paid  # what was reckoned once is not reckoned again
        if of is not limits or count > len(run.replies):
            count, paid = 0, Decimal(0)
        for model, counts in run.replies[count:]:
            cost = RequestUsage.of(model, counts).cost(limits.prices or {})
            if cost is None:
                return _no_price(model)
            paid += cost
        self._paid = limits, len(run.replies), paid
        allowed = Decimal(limits.cost or 0)
        return None if paid < allowed else UsageLimitExceeded("cost", allowed=allowed, used=paid)

    def _unpriced(self, limits: UsageLimits, model: object) -> KeyturnError | None:
        """Return an error where the cost is limited and the model has no price."""
        if limits.cost is None:
            return None
        names = [name_of(one) for one in getattr(model, "models", [model])]
        return next((_no_price(name) for name in names if price_of(limits.prices or {}, name) is None), None)


def _no_price(model: str) -> UserError:
    named = repr(model) if model else "a model that has no name (give it an attribute `model`)"
    return UserError(
        f"the run's cost is limited, and UsageLimits(prices=...) has no price for {named}; no further request was "
        f"sent and nothing is lost: resume the run with usage_limits that price it"
    )


def name_of(model: object) -> str:
    """Return the name under which a model is asked; of a model made of several, the one that answered last."""
    name = getattr(model, "model", "")
    return name if isinstance(name, str) else ""


def stuck(run: Run) -> bool:
    """Return whether the root itself waits for its model, and no nested agent does."""
    return [effect.on for effect in pending(run) if effect.do == "model"] == [ev.ROOT]
