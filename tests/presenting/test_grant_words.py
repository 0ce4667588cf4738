"""The words of a grant tell apart what its comparisons tell apart: the page says just what the gate lets through."""

from __future__ import annotations

from typing import Any

from keyturn.core.predicates.predicate import evaluate
from keyturn.presenting.grant_words import covered_words

VALUES: list[Any] = [
    0, 1, "1", True, "true", None, "null", "not given", [], [None], ["not given"], "none", ["none"], "a", ["a"],
    ["a", "b"],
    ['a", "b'], [["a"], "b"], [[]], [[1, 2]], [1, 2], {"a": 1}, '{"a": 1}', [{"a": 1}], "a" * 300, ["a" * 300],
    "a" * 299 + "b", "5 and is at most 6",
]  # fmt: skip
NAMES = ("eq", "ne", "one_of", "any", "all")


def test_no_two_grants_that_differ_have_the_same_words() -> None:
    conditions: list[Any] = [
        {name: value} for value in VALUES for name in NAMES if name != "one_of" or isinstance(value, list)
    ]
    conditions += [{"any": {"one_of": value}} for value in VALUES if isinstance(value, list)]
    told: dict[str, list[tuple[Any, list[Any]]]] = {}
    for one in conditions:
        means = [evaluate({"x": one}, {"x": value}) for value in VALUES]
        told.setdefault(covered_words({"x": one}), []).append((one, means))
    assert [each for each in told.values() if any(means != each[0][1] for _, means in each)] == []
