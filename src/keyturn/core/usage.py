"""Count what models used, as providers report it, and its cost, by prices that the caller gives.

No price is known here: lists of prices go stale and still look true. A cost that cannot be known is None, never 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from decimal import Decimal, InvalidOperation

import msgspec

from .errors import UserError
from .immutable import immutable

Amount = Decimal | int | float | str

# More than any provider will ever count in one reply, and a number that every reader of JSON can hold.
_MOST = 2**53
_WHOLE: frozenset[object] = frozenset({int})
_MILLION = Decimal(1_000_000)


class Counts(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """Holds what a reply used, as a log holds it; `requests` says how many requests it took.

    >>> Counts(requests=1, input_tokens=10) + Counts(requests=1)
    Counts(requests=2, input_tokens=10, output_tokens=0, total_tokens=0, cached_tokens=0, reasoning_tokens=0, \
cache_write_tokens=0)
    """

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cache_write_tokens: int = 0

    def __add__(self, more: Counts) -> Counts:
        return Counts(
            self.requests + more.requests,
            self.input_tokens + more.input_tokens,
            self.output_tokens + more.output_tokens,
            self.total_tokens + more.total_tokens,
            self.cached_tokens + more.cached_tokens,
            self.reasoning_tokens + more.reasoning_tokens,
            self.cache_write_tokens + more.cache_write_tokens,
        )


NOTHING = Counts()
Reply = tuple[str, Counts]


def amount(value: object, what: str) -> Decimal:
    """Convert an amount of money exactly as it was written; a float is read as it prints.

    >>> amount(0.1, "x"), amount("2.50", "x")
    (Decimal('0.1'), Decimal('2.50'))
    """
    try:
        made = Decimal(str(value)) if not isinstance(value, bool) else Decimal("NaN")
    except InvalidOperation:
        made = Decimal("NaN")
    if not made.is_finite() or made < 0:
        raise UserError(f"{what} must be an amount of 0 or more, such as 0.25 or '0.25', not {value!r}")
    return made


@immutable
@dataclass(frozen=True)
class Price:
    """Sets what a million tokens of one model cost, in a currency of your choice.

    `cached_input` is for input read from a cache and `cache_write` for input written to one; left out, both cost what
    other input costs. Reasoning is output.

    >>> Price(input=1.25, output=10, cached_input="0.125").cached_input
    Decimal('0.125')
    """

    input: Amount
    output: Amount
    cached_input: Amount | None = None
    cache_write: Amount | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            given = getattr(self, each.name)
            if given is not None:
                object.__setattr__(self, each.name, amount(given, f"Price {each.name}"))

    def of(self, counts: Counts) -> Decimal:
        """Return what these counts cost."""
        cached = counts.cached_tokens
        written = counts.cache_write_tokens
        received = counts.output_tokens
        fresh = max(0, counts.input_tokens - cached - written)
        read = self.input if self.cached_input is None else self.cached_input
        wrote = self.input if self.cache_write is None else self.cache_write
        parts = ((fresh, self.input), (cached, read), (written, wrote), (received, self.output))
        return sum((count * Decimal(price) for count, price in parts), Decimal(0)) / _MILLION


Prices = Mapping[str, Price]


def price_of(prices: Prices, model: str) -> Price | None:
    """Return the price of a model, listed by its name or with its provider: `"anthropic:claude-sonnet-5"`.

    >>> price_of({"openai:gpt-5.6-luna": Price(1, 2)}, "gpt-5.6-luna").output
    Decimal('2')
    """
    found = prices.get(model)
    if found is None and model:
        found = next((price for name, price in prices.items() if re.split("[:/]", name, maxsplit=1)[-1] == model), None)
    return found


def addable(counts: Counts) -> bool:
    """Return whether these are counts: whole numbers of 0 or more that a log can hold.

    >>> addable(Counts(1, 10)), addable(Counts(1, -10)), addable(Counts(1, 1.5)), addable(Counts(1, 10**30))
    (True, False, False, False)
    """
    each = msgspec.structs.astuple(counts)
    return _WHOLE.issuperset(map(type, each)) and min(each) >= 0 and max(each) <= _MOST


@dataclass(slots=True)
class TokenDetails:
    """Holds the parts of a token count that providers report apart."""

    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cache_write_tokens: int = 0

    def copy(self) -> TokenDetails:
        """Return the same counts, to be counted on apart."""
        return TokenDetails(self.cached_tokens, self.reasoning_tokens, self.cache_write_tokens)


@immutable
@dataclass(frozen=True)
class RequestUsage:
    """Holds what one reply used, and of which model; `requests` says how many requests it took.

    >>> RequestUsage("gpt-5.6-luna", input_tokens=1000).cost({"gpt-5.6-luna": Price(input=2, output=8)})
    Decimal('0.002')
    """

    model: str = ""
    requests: int = 1
    input_tokens: int = 0
    input_tokens_details: TokenDetails = field(default_factory=TokenDetails)
    output_tokens: int = 0
    output_tokens_details: TokenDetails = field(default_factory=TokenDetails)
    total_tokens: int = 0

    @classmethod
    def of(cls, model: str, counts: Counts) -> RequestUsage:
        """Return the usage of a reply that was recorded with these counts."""
        return cls(model, *_spread(counts))

    def cost(self, prices: Prices) -> Decimal | None:
        """Return what it cost; None where its model has no price."""
        price = price_of(prices, self.model)
        return None if price is None else price.of(_counts(self))


@dataclass(init=False, slots=True)
class Usage:
    """Counts what a run has used so far, over pauses and nested agents.

    `request_usage_entries` are the same counts, request by request.

    >>> total = Usage(requests=1, input_tokens=10, total_tokens=10)
    >>> total.add(Usage(requests=1, output_tokens=5, total_tokens=5)); total.total_tokens
    15
    """

    requests: int = 0
    input_tokens: int = 0
    input_tokens_details: TokenDetails = field(default_factory=TokenDetails)
    output_tokens: int = 0
    output_tokens_details: TokenDetails = field(default_factory=TokenDetails)
    total_tokens: int = 0
    replies: list[Reply] = field(default_factory=list[Reply], repr=False, compare=False)

    def __init__(
        self,
        requests: int = 0,
        input_tokens: int = 0,
        input_tokens_details: TokenDetails | None = None,
        output_tokens: int = 0,
        output_tokens_details: TokenDetails | None = None,
        total_tokens: int = 0,
        replies: list[Reply] | None = None,
        request_usage_entries: Iterable[RequestUsage] = (),
    ) -> None:
        self.requests = requests
        self.input_tokens = input_tokens
        self.input_tokens_details = TokenDetails() if input_tokens_details is None else input_tokens_details
        self.output_tokens = output_tokens
        self.output_tokens_details = TokenDetails() if output_tokens_details is None else output_tokens_details
        self.total_tokens = total_tokens
        self.replies = [] if replies is None else replies
        if request_usage_entries != ():
            self.replies += [(entry.model, _counts(entry)) for entry in request_usage_entries]

    @property
    def request_usage_entries(self) -> list[RequestUsage]:
        """Return the same, reply by reply, in the order in which they were recorded."""
        return [RequestUsage.of(model, counts) for model, counts in self.replies]

    def add(self, other: Usage) -> None:
        """Add another count to this one."""
        self.requests += other.requests
        self.input_tokens += other.input_tokens
        self.output_tokens += other.output_tokens
        self.total_tokens += other.total_tokens
        for mine, more in (
            (self.input_tokens_details, other.input_tokens_details),
            (self.output_tokens_details, other.output_tokens_details),
        ):
            mine.cached_tokens += more.cached_tokens
            mine.reasoning_tokens += more.reasoning_tokens
            mine.cache_write_tokens += more.cache_write_tokens
        self.replies += other.replies or ([("", other.counts())] if other.requests else [])

    def count(self, model: str, counts: Counts) -> None:
        """Add one reply that used this."""
        self.requests += counts.requests
        self.input_tokens += counts.input_tokens
        self.output_tokens += counts.output_tokens
        self.total_tokens += counts.total_tokens
        self.input_tokens_details.cached_tokens += counts.cached_tokens
        self.output_tokens_details.reasoning_tokens += counts.reasoning_tokens
        self.input_tokens_details.cache_write_tokens += counts.cache_write_tokens
        self.replies.append((model, counts))

    def copy(self) -> Usage:
        """Return the same counts, to be counted on apart."""
        made = object.__new__(type(self))  # one for each result: `replace` would ask the class for its fields
        made.requests = self.requests
        made.input_tokens = self.input_tokens
        made.input_tokens_details = self.input_tokens_details.copy()
        made.output_tokens = self.output_tokens
        made.output_tokens_details = self.output_tokens_details.copy()
        made.total_tokens = self.total_tokens
        made.replies = self.replies.copy()
        return made

    def cost(self, prices: Prices) -> Decimal | None:
        """Return the cost by your prices; None where a model has none or a request is not known apart.

        >>> usage = Usage.of([("gpt-5.6-luna", Counts(1, 1000, 100, 1100))])
        >>> usage.cost({"gpt-5.6-luna": Price(input=1, output=10)}), usage.cost({})
        (Decimal('0.002'), None)
        """
        if Usage.of(self.replies).counts() != self.counts():
            return None
        costs = [entry.cost(prices) for entry in self.request_usage_entries]
        known = [cost for cost in costs if cost is not None]
        return sum(known, Decimal(0)) if len(known) == len(costs) else None

    def counts(self) -> Counts:
        """Return the same numbers as a log holds them."""
        return _counts(self)

    @classmethod
    def from_counts(cls, counts: Counts, model: str = "") -> Usage:
        """Return the usage of one reply whose `counts()` these are."""
        return cls.of([(model, counts)], counts)

    @classmethod
    def of(cls, replies: Sequence[Reply], total: Counts | None = None) -> Usage:
        """Sum the usage of several replies: of which model each was, and its counts."""
        if total is None:
            total = sum((counts for _, counts in replies), NOTHING)
        return cls(*_spread(total), list(replies))


def _spread(counts: Counts) -> tuple[int, int, TokenDetails, int, TokenDetails, int]:
    sent = TokenDetails(cached_tokens=counts.cached_tokens, cache_write_tokens=counts.cache_write_tokens)
    received = TokenDetails(reasoning_tokens=counts.reasoning_tokens)
    return counts.requests, counts.input_tokens, sent, counts.output_tokens, received, counts.total_tokens


def _counts(usage: Usage | RequestUsage) -> Counts:
    return Counts(
        usage.requests,
        usage.input_tokens,
        usage.output_tokens,
        usage.total_tokens,
        usage.input_tokens_details.cached_tokens,
        usage.output_tokens_details.reasoning_tokens,
        usage.input_tokens_details.cache_write_tokens,
    )
