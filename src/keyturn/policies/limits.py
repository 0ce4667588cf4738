"""Limits of one run, or of all runs of a session, person, agent or tenant: on calls, on sums, on rejections.

A limit looks only at the call and at what was recorded before, so that it says the same after a pause, in another
process, and of calls that one reply made together. What cannot be counted is over every limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Literal, Protocol, TypeAlias, cast, get_args

from ..core.digest import digest
from ..core.durations import milliseconds
from ..core.errors import UserError
from ..core.immutable import immutable
from ..core.policy import CallView, Past, Share
from ..core.predicates.predicate import LONGEST_NAME, number_at

Whose: TypeAlias = Literal["run", "session", "requester", "agent", "tenant"]


class About(Protocol):
    """Says which calls a limit counts: those that its rule is about; sums are cached under this very object."""

    @property
    def about(self) -> str:
        """Return a digest of which calls those are."""
        ...

    def fits(self, call: CallView) -> bool:
        """Return whether the limit counts this call."""
        ...


@immutable
@dataclass(frozen=True)
class Calls:
    """Limits the calls in a run, or in any window of its time that is as long as `per`.

    `of` counts those of several runs: of a "session", of a "requester", of an "agent", or of the whole "tenant".
    Rules with the same `name` share one count; without a name the count is that of the rule as it is written.

    >>> Calls(20, per="1h").over
    'over the limit of 20 calls in 1h'
    """

    most: int
    per: str | float | None = None
    of: Whose = "run"
    name: str | None = None

    def __post_init__(self) -> None:
        check_count("calls", self.most)
        check_reach(self)

    @property
    def over(self) -> str:
        """Return the reason for a call that is over this limit."""
        return f"over the limit of {self.most} calls{stretch(self)}"

    def exceeded(self, call: CallView, past: Past, about: About) -> bool:
        """Return whether one more call is over the limit."""
        if self.of != "run":
            shared = past.shared(self.share(call, about))
            return shared is None or shared >= self.most
        return past.total(about, lambda other: int(about.fits(other)), _begin(call, self.per)) >= self.most

    def share(self, call: CallView, about: About) -> Share:
        """Return what a call takes of a limit that several runs share."""
        name = named_count(self, "calls", about)
        return Share(name, self.of, _window(self.per), Fraction(1), Fraction(self.most))


@immutable
@dataclass(frozen=True)
class Budget:
    """Limits the sum of a numeric argument, summed exactly over a run, or over any window of `per`.

    An argument that is missing, negative or no number is over it. Once a call ran whose argument is missing or no
    number, so is every other: nobody knows what was spent. `of` and `name` are those of `Calls`: a name can be shared
    by rules about different tools and arguments, which then spend of one budget.

    >>> Budget("amount", 99.5).over
    "over the budget of 99.5 for 'amount' in this run"
    """

    argument: str
    most: float | Decimal
    per: str | float | None = None
    of: Whose = "run"
    name: str | None = None

    def __post_init__(self) -> None:
        argument, most = cast("tuple[object, ...]", (self.argument, self.most))
        if not isinstance(argument, str) or not all(argument.split(".")):
            raise UserError(f"a budget is of an argument, as in Budget('amount', 100); not of {argument!r}")
        if len(argument) > LONGEST_NAME:
            raise UserError(f"the name of an argument has {LONGEST_NAME} characters at most in a budget")
        try:
            fits = not isinstance(most, bool) and isinstance(most, int | float | Decimal) and Fraction(str(most)) >= 0
        except ValueError:  # neither infinity nor what is no number at all
            fits = False
        if not fits:
            raise UserError(f"a budget must be a number of 0 or more; not {most!r}")
        check_reach(self)

    @property
    def over(self) -> str:
        """Return the reason for a call that is over this budget, without an amount: an argument can be secret."""
        return f"over the budget of {self.most} for {self.argument!r}{stretch(self)}"

    def exceeded(self, call: CallView, past: Past, about: About) -> bool:
        """Return whether what was spent and this call are together over the budget."""

        def amount(other: CallView) -> Fraction | int:
            return self._spent(other) if about.fits(other) else 0

        asked = number_at(call.params, self.argument)
        if asked is None or not 0 <= asked <= self._limit:
            return True
        if self.of != "run":
            shared = past.shared(self.share(call, about))
            return shared is None or shared + asked > self._limit
        return past.total(about, amount, _begin(call, self.per)) + asked > self._limit

    def share(self, call: CallView, about: About) -> Share:
        """Return what a call takes of a budget that several runs share."""
        name = named_count(self, f"budget:{self.argument}", about)
        return Share(name, self.of, _window(self.per), Fraction(self._spent(call)), self._limit)

    @property
    def _limit(self) -> Fraction:
        return Fraction(str(self.most))

    def _spent(self, call: CallView) -> Fraction:
        known = number_at(call.params, self.argument)
        return self._limit + 1 if known is None else max(known, Fraction(0))  # what came back gives no room


@immutable
@dataclass(frozen=True)
class Rejections:
    """Limits rejections of the same call, or of any call of the same tool: a circuit breaker.

    A model that asks on and on for what people rejected is told so, and nobody is asked again. What a person has
    approved is not held back by it.

    >>> Rejections(2).over
    'this call was rejected 2 times and is now denied; do not make it again'
    """

    most: int = 2
    same: Literal["call", "tool"] = "call"

    def __post_init__(self) -> None:
        check_count("rejections", self.most, least=1)
        if self.same not in ("call", "tool"):
            raise UserError(f"same is 'call', the same tool and arguments, or 'tool'; not {self.same!r}")

    @property
    def over(self) -> str:
        """Return the reason for a call that was rejected often enough."""
        times = "once" if self.most == 1 else f"{self.most} times"
        if self.same == "call":
            return f"this call was rejected {times} and is now denied; do not make it again"
        return f"calls of this tool were rejected {times} and are now denied; do not make one again"

    def exceeded(self, call: CallView, past: Past, about: About) -> bool:
        """Return whether it was rejected that often."""
        if call.approved:
            return False
        if self.same == "tool":
            return past.rejections(about, _tool, _tool(call)) >= self.most
        return past.rejections(about, _tool_and_arguments, _tool_and_arguments(call)) >= self.most


class Counted(Protocol):
    """Says whose calls a limit counts, in which time, under which name."""

    @property
    def per(self) -> str | float | None:
        """Return the time, None for all of it."""
        ...

    @property
    def of(self) -> Whose:
        """Return whose calls."""
        ...

    @property
    def name(self) -> str | None:
        """Return the name of the count, None for that of the rule."""
        ...


def check_count(what: str, most: object, least: int = 0) -> None:
    """Refuse what is no number of calls."""
    if not isinstance(most, int) or isinstance(most, bool) or most < least:
        raise UserError(f"a limit of {what} is a whole number, at least {least}; not {most!r}")


def _begin(call: CallView, per: str | float | None) -> int | None:
    """Return the start of the window that ends with this call; a call exactly that old is outside."""
    return None if per is None else call.at - milliseconds(per) + 1


def _window(per: str | float | None) -> int | None:
    return None if per is None else milliseconds(per)


def stretch(limit: Counted) -> str:
    """Return in words within which time, and of whom, a limit counts."""
    per = limit.per
    during = "" if per is None else f" in {per}" if isinstance(per, str) else f" in {per:g}s"
    if limit.of != "run":
        return f"{during} of this {limit.of}"
    return during or " in this run"


def check_reach(limit: Counted) -> None:
    """Refuse a time that is none, and a count of nobody's calls."""
    if limit.per is not None:
        milliseconds(limit.per)
    if limit.of not in get_args(Whose):
        raise UserError(f"of= names whose calls a limit counts, one of {', '.join(get_args(Whose))}; not {limit.of!r}")
    name: object = limit.name
    if name is not None and not (isinstance(name, str) and name):
        raise UserError(f"name= of a limit is a text, or None; not {name!r}")
    if name is not None and limit.of == "run":
        raise UserError("name= goes with of=: a limit of one run counts the calls of its own rule")


def named_count(limit: Counted, what: str, about: About) -> str:
    """Return the name of a count: as it was named, so that the rule can be changed, or what its rule is about."""
    kind = what.partition(":")[0]
    return digest(kind, "named", limit.name) if limit.name is not None else digest(what, "about", about.about)


def _tool(call: CallView) -> tuple[str, str]:
    return (call.tool, call.kind)


def _tool_and_arguments(call: CallView) -> tuple[str, str, str]:
    return (call.tool, call.kind, digest(call.params))
