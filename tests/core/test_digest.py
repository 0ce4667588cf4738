"""Canonical text: one per value, the same for ever, and none for what is not exactly JSON."""

import datetime
import decimal
import doctest
import enum
import hashlib
import math
import random
import struct
import uuid
from collections import OrderedDict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from keyturn.core import commands as cm
from keyturn.core import digest as module
from keyturn.core.digest import canonical, digest, same
from keyturn.core.errors import BadJson
from keyturn.core.run import call_digest, call_shape
from keyturn.core.strict import parse
from tests.core.samples import asked, tool
from tests.table import each

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=16,
)


class Text(str):
    __slots__ = ()


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 1


def exact(value: Any) -> Any:
    """A value to compare by type and sign as well, whatever the order of keys."""
    if isinstance(value, dict):
        return {key: exact(member) for key, member in value.items()}
    if isinstance(value, list):
        return [exact(member) for member in value]
    return type(value), repr(value)


def test_examples() -> None:
    assert doctest.testmod(module).failed == 0


@given(VALUES)
def test_what_is_written_is_read_back_with_the_same_types(value: Any) -> None:
    assert exact(parse(canonical(value))) == exact(value)
    assert canonical(parse(canonical(value))) == canonical(value)


@given(VALUES)
def test_both_ways_of_writing_give_one_text(value: Any) -> None:
    assert canonical(value) == "".join(module._pieces(value))


def test_floats_are_written_as_repr_whatever_their_bits() -> None:
    generator = random.Random(7)
    ordinary = [generator.uniform(-1e6, 1e6) for _ in range(5_000)] + [10.0**power for power in range(-330, 309)]
    bits = [struct.unpack("d", generator.randbytes(8))[0] for _ in range(20_000)]
    for number in [*ordinary, *filter(math.isfinite, bits), 0.1, 1e15, 9999999999999998.0, 1e16, 1e-4, 9.9e-5, 5e-324]:
        assert canonical(number) == repr(number)


@each(
    ("value", "text"),
    [
        ({"b": 1, "a": 2}, '{"a":2,"b":1}'),
        ({"\U0001f600": 1, "\uffee": 2, "é": 3, "z": 4, "Z": 5, "": 6}, '{"":6,"Z":5,"z":4,"é":3,"\uffee":2,"😀":1}'),
        ({"e\u0301": 1, "é": 2}, '{"e\u0301":1,"é":2}'),
        ([1, 1.0, True, None, "1"], '[1,1.0,true,null,"1"]'),
        ([-0.0, 0.0, 0], "[-0.0,0.0,0]"),
        ([1e16, 1e22, 1e-7, 1.5e300], "[1e+16,1e+22,1e-07,1.5e+300]"),
        (
            [2**53 + 1, 2**63, -(2**63) - 1, 2**64],
            "[9007199254740993,9223372036854775808,-9223372036854775809," + "18446744073709551616]",
        ),
        ('"\\/\b\f\n\r\t\x00\x1f\x7f\u2028é', '"\\"\\\\/\\b\\f\\n\\r\\t\\u0000\\u001f\x7f\u2028é"'),
        ({"a": {}, "b": [], "c": [[], {}]}, '{"a":{},"b":[],"c":[[],{}]}'),
        ({"b": 1e99, "a": {"d": [1e99, {}], "c": "x"}}, '{"a":{"c":"x","d":[1e+99,{}]},"b":1e+99}'),
    ],
)
def test_texts_that_may_never_change(value: Any, text: str) -> None:
    assert canonical(value) == text


def test_digests_that_may_never_change() -> None:
    assert digest("run", 1, {"b": 1.0, "a": None}) == hashlib.sha256(b'["run",1,{"a":null,"b":1.0}]').hexdigest()
    assert digest() == "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"


def test_big_integers() -> None:
    number = 10**4299
    assert canonical({"n": number}) == f'{{"n":{number}}}'
    with pytest.raises(BadJson, match="more digits than this interpreter converts"):
        canonical(10**5000)


@each("number", [math.nan, math.inf, -math.inf])
@each("shape", [lambda x: x, lambda x: [1, x], lambda x: {"a": {"b": [x]}}])
def test_constants_have_no_text(number: float, shape: Any) -> None:
    with pytest.raises(BadJson, match="NaN and Infinity"):
        canonical(shape(number))


@each(
    "value",
    [
        (1, 2), {1, 2}, b"x", 1j, object(), decimal.Decimal(1), uuid.UUID(int=0), datetime.date(2026, 1, 1),
        OrderedDict(a=1), Text("x"), Colour.RED, Level.HIGH, ...,
    ],
)  # fmt: skip
@each("shape", [lambda x: x, lambda x: [1, x], lambda x: {"a": {"b": [x]}}, lambda x: [1e99, x]])
def test_other_types_have_no_text(value: Any, shape: Any) -> None:
    with pytest.raises(BadJson, match="type"):
        canonical(shape(value))


@each("key", [1, None, True, 1.5, (1,), b"a", Text("x"), Colour.RED])
def test_other_keys_have_no_text(key: Any) -> None:
    for value in ({key: 1}, [{"a": {key: 1}}], {"f": 1e99, "o": {key: 1}}):
        with pytest.raises(BadJson, match="key"):
            canonical(value)


@pytest.mark.each
@pytest.mark.parametrize(
    "value", ["\ud800", {"\udc00": 1}, {"a": ["\ud83d\ude00"]}, {"\ud800": 1e99}, [1e99, "\ud800"]]
)
def test_lone_surrogates_have_no_text(value: Any) -> None:
    with pytest.raises(BadJson, match="surrogate") as caught:
        canonical(value)
    assert caught.value.__context__ is None


def test_a_cycle_and_a_deep_value_have_no_text() -> None:
    cycle: list[Any] = []
    cycle += [cycle, cycle]
    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]
    for value in (cycle, {"a": cycle}, [1e99, cycle], deep):
        with pytest.raises(BadJson, match="nested deeper"):
            canonical(value)


def test_parts_cannot_be_moved_into_one_another() -> None:
    parts = [("ab", "c"), ("a", "bc"), ("abc",), (["ab", "c"],), ("a", "b", "c"), ('a","b', "c"), (), ("",), (None,)]
    assert len({digest(*each) for each in parts}) == len(parts)


@given(VALUES, VALUES)
def test_same_means_equal_with_types(a: Any, b: Any) -> None:
    assert same(a, a)
    assert same(a, b) is (exact(a) == exact(b))


@each(("a", "b"), [(1, True), (0, False), (1, 1.0), (0.0, -0.0), ("1", 1), (None, False), ([], {})])
def test_values_that_python_or_people_confuse_are_not_the_same(a: Any, b: Any) -> None:
    assert not same(a, b)
    assert not same({"k": [a]}, {"k": [b]})


def test_same_ignores_the_order_of_keys_only() -> None:
    assert same({"a": 1, "b": [1, 2]}, {"b": [1, 2], "a": 1})
    assert not same([1, 2], [2, 1])


def test_equal_calls_with_secrets_have_one_shape_in_a_run_and_another_in_every_other_run() -> None:
    def shapes(*keys: str) -> list[str]:
        pen = asked(*(tool(f"c{place}", "ask", secrets=("n",), key=key) for place, key in enumerate(keys)))
        return [call_shape(call) for call in pen.run.calls.values()]

    one, same = shapes("k1", "k2")
    [other] = shapes("k3")
    assert one == same != other


def test_a_call_that_an_earlier_version_recorded_keeps_its_digest_without_a_key() -> None:
    pen = asked(tool("c0", "ask", secrets=("n",)))
    assert call_digest(pen.run, pen.call()) == digest("run", "r/1.0", "a", "t1", '{"n":1}')
    pen(cm.VoidCall("r/1.0", replace(pen.call().proposal, key="k"), "its tool changed"))
    assert pen.copy().run.key == "k"
