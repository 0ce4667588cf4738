"""Limits on the usage of a run: data, which `engine/driving/usage_limits.py` checks.

Limits are recorded with the run, so that they outlive a pause like everything else that was promised about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, cast

from ..core.errors import UserError
from ..core.immutable import immutable
from ..core.usage import Amount, Price, amount


class DefaultLimit(int):
    """A turn limit that the caller did not give: at a resume the run keeps its own."""


DEFAULT_MAX_TURNS = DefaultLimit(10)


@immutable
@dataclass(frozen=True)
class UsageLimits:
    """Sets where a run stops asking its models; None is no limit.

    All of it is the run's: every pause, every nested agent. It is looked at before each request, so the reply that
    passes a limit is still read and what it calls still runs. `cost` needs `prices` of all models that are asked.

    >>> UsageLimits(requests=20, total_tokens=100_000).requests
    20
    >>> UsageLimits(cost=0.50, prices={"gpt-5.6-luna": Price(input=1, output=8)}).cost
    Decimal('0.5')
    """

    requests: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    tool_calls: int | None = None
    cost: Amount | None = None
    prices: Mapping[str, Price] | None = None

    def __post_init__(self) -> None:
        for name in COUNTED:
            most: Any = getattr(self, name)
            if most is not None and (not isinstance(most, int) or isinstance(most, bool) or most < 0):
                raise UserError(f"UsageLimits {name} must be a whole number of 0 or more, or None, not {most!r}")
        if (self.cost is None) != (self.prices is None):
            raise UserError("UsageLimits: a cost limit needs prices, and prices need a cost limit: give both")
        if self.cost is not None:
            object.__setattr__(self, "cost", amount(self.cost, "UsageLimits cost"))
            object.__setattr__(
                self, "prices", {name: _price(name, one) for name, one in dict(self.prices or {}).items()}
            )

    def record(self) -> dict[str, Any]:
        """Return the limits as data for the run's log; no limits are no data."""
        kept: dict[str, Any] = {name: most for name in COUNTED if (most := getattr(self, name)) is not None}
        if self.cost is not None:
            kept["cost"] = str(self.cost)
            kept["prices"] = {name: _written(price) for name, price in (self.prices or {}).items()}
        return kept


COUNTED = ("requests", "input_tokens", "output_tokens", "total_tokens", "tool_calls")


def _price(name: str, given: object) -> Price:
    if isinstance(given, Mapping):  # as a file, or the run's own log, has it
        return Price(**cast("dict[str, Any]", given))
    if not isinstance(given, Price):
        raise UserError(f"UsageLimits prices: {name!r} must be a Price, not {type(given).__name__}")
    return given


def _written(price: Price) -> dict[str, str]:
    told = ((each.name, getattr(price, each.name)) for each in fields(price))
    return {name: str(value) for name, value in told if value is not None}
