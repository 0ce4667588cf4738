"""What is used adds up whoever counts it; what it costs is exact, or not known."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import astuple

from keyturn.core.errors import UserError
from keyturn.core.usage import NOTHING, Counts, Price, RequestUsage, TokenDetails, Usage, price_of
from tests.table import each

COUNTS = st.lists(st.integers(0, 9), max_size=7).map(lambda numbers: Counts(*numbers))
REPLIES = st.lists(st.tuples(st.sampled_from(["", "a", "b"]), COUNTS), max_size=6)


@given(REPLIES)
def test_replies_add_up_one_by_one_as_they_do_together(replies: list[tuple[str, Counts]]) -> None:
    total, counted = Usage(), Usage()
    for model, counts in replies:
        total.add(Usage.from_counts(counts, model))
        counted.count(model, counts)
    assert total == counted == Usage.of(replies)
    assert [entry.model for entry in total.request_usage_entries] == [model for model, _ in replies]
    columns = zip(astuple(NOTHING), *(astuple(counts) for _, counts in replies), strict=True)
    assert total.counts() == Counts(*(sum(column) for column in columns))


def test_what_has_no_replies_of_its_own_is_one_reply_of_a_model_nobody_knows() -> None:
    total = Usage()
    total.add(Usage(requests=1, input_tokens=3))
    total.add(Usage())
    assert total.request_usage_entries == [RequestUsage(input_tokens=3)]


def test_a_price_counts_each_part_once() -> None:
    price = Price(input=2, output=8, cached_input="0.2", cache_write="2.5")
    #      requests, input, output, total, cached, reasoning, written
    usage = Usage.from_counts(Counts(1, 1_000_000, 500_000, 1_500_000, 300_000, 400_000, 200_000), "m")
    assert usage.cost({"m": price}) == Decimal("0.5") * 2 + Decimal("0.06") + Decimal("0.5") + 4
    assert usage.cost({"m": Price(input=2, output=8)}) == 6


def test_a_float_is_the_amount_it_prints_as() -> None:
    usage = Usage.from_counts(Counts(1, 1_000_000), "m")
    assert usage.cost({"m": Price(input=0.1, output=0.3)}) == Decimal("0.1")


@each("wrong", [-1, "a lot", float("nan"), float("inf"), True, "-0.5", [1]])
def test_an_amount_is_an_amount(wrong: Any) -> None:
    with pytest.raises(UserError, match="Price output must be an amount"):
        Price(input=1, output=wrong)


PRICES = {"a": Price(1, 1), "openai:b": Price(2, 2), "google/c": Price(3, 3)}


@each(("name", "found"), [("a", 1), ("b", 2), ("openai:b", 2), ("c", 3), ("d", None), ("", None)])
def test_a_model_is_priced_by_its_name_with_or_without_its_provider(name: str, found: int | None) -> None:
    price = price_of(PRICES, name)
    assert (price and price.input) == found


def test_a_cost_that_is_not_known_is_none_and_never_nothing() -> None:
    assert Usage.of([("a", Counts(1, 5)), ("gone", Counts(1, 5))]).cost(PRICES) is None
    assert Usage.of([("", Counts(1, 5))]).cost({"": Price(1, 1)}) == Decimal("0.000005")
    assert Usage(requests=1, input_tokens=5).cost(PRICES) is None
    assert Usage().cost({}) == 0


def test_a_count_that_somebody_changed_has_no_cost() -> None:
    usage = Usage.from_counts(Counts(1, 5), "a")
    usage.input_tokens += 1
    assert usage.cost(PRICES) is None


def test_two_usages_of_the_same_replies_share_nothing() -> None:
    replies = [("a", Counts(1, 5))]
    one, other = Usage.of(replies), Usage.of(replies)
    one.add(Usage.from_counts(Counts(1, 7), "a"))
    one.input_tokens_details.cached_tokens = 1
    assert (other.counts(), replies) == (Counts(1, 5), [("a", Counts(1, 5))])
    assert other.input_tokens_details == TokenDetails()
