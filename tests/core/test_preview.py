"""Previews are data of four kinds, and secrets never get into them."""

import doctest
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyturn.core import preview as module
from keyturn.core.preview import REDACTED, Block, Command, Diff, Json, Preview, Text, redact
from tests.table import each

EVERY = Preview(
    (Text("a", "l"), Command("ls", "/srv", "l"), Diff("a", "b", "p", "l"), Json({"z": [1, 1.5, None], "a": True}, "l")),
    summary="everything",
)


def test_examples() -> None:
    assert doctest.testmod(module).failed == 0


def test_there_are_four_kinds_and_no_fifth() -> None:
    assert [kind.__struct_config__.tag for kind in get_args(Block)] == ["text", "command", "diff", "json"]
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"blocks": [{"kind": "html", "text": "<b>"}]}', type=Preview)


def test_a_preview_survives_the_wire() -> None:
    sent = msgspec.json.encode(EVERY)
    assert msgspec.json.decode(sent, type=Preview) == EVERY
    assert b'{"kind":"command","command":"ls","cwd":"/srv","label":"l"}' in sent


def test_blocks_are_frozen() -> None:
    block: Any = Text("a")
    with pytest.raises(AttributeError):
        block.text = "b"


@each(
    ("value", "secrets", "shown"),
    [
        ({"token": "s3", "user": "ann"}, ["token"], {"token": REDACTED, "user": "ann"}),
        ({"token": {"deep": ["s3"]}}, ["token"], {"token": REDACTED}),
        ({"token": None}, {"token"}, {"token": REDACTED}),
        ({"auth": {"token": "s3", "user": 1}}, ["auth.token"], {"auth": {"token": REDACTED, "user": 1}}),
        ({"a": {"b": {"c": "s3"}}}, ("a.b.c",), {"a": {"b": {"c": REDACTED}}}),
        ({"rows": [{"key": "s3"}, {"key": "s4"}, 5]}, ["rows.key"], {"rows": [{"key": REDACTED}] * 2 + [5]}),
        ({"other": {"token": "shown"}}, ["token"], {"other": {"token": "shown"}}),
        ({"a.b": "s3", "a": {"b": "s4"}}, ["a.b"], {"a.b": REDACTED, "a": {"b": REDACTED}}),
        ({"a.b": {"c": "s3"}}, ["a.b.c"], {"a.b": {"c": REDACTED}}),
        ([{"token": "s3"}], ["token"], [{"token": REDACTED}]),
        ({"auth": {"token": "s3"}}, "auth.token", {"auth": {"token": REDACTED}}),
        ({"to": "shown"}, "token", {"to": "shown"}),
        ("text", ["token"], "text"),
    ],
)
def test_f7_secrets_are_replaced(value: Any, secrets: Any, shown: Any) -> None:
    assert redact(value, secrets) == shown


@given(st.dictionaries(st.sampled_from("abc"), st.dictionaries(st.sampled_from("abc"), st.integers())))
def test_f7_the_true_value_is_not_touched_and_the_order_is_kept(value: Any) -> None:
    before = repr(value)
    shown = redact(value, ["a", "b.c"])
    assert repr(value) == before
    assert isinstance(shown, dict)
    assert list(shown) == list(value)
    assert shown.get("a", REDACTED) == REDACTED
