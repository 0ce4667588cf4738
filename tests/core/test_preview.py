"""Previews are data of four kinds, and secrets never get into them."""

import doctest
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyturn.core import preview as module
from keyturn.core.errors import BadJson
from keyturn.core.preview import REDACTED, Block, Command, Diff, Json, Preview, Text, redact, unredacted
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
        ("text", ["token"], REDACTED),
        ("text", [], "text"),
        (None, ["token"], None),
    ],
)
def test_secrets_are_replaced(value: Any, secrets: Any, shown: Any) -> None:
    assert redact(value, secrets) == shown


@given(st.dictionaries(st.sampled_from("abc"), st.dictionaries(st.sampled_from("abc"), st.integers())))
def test_the_true_value_is_not_touched_and_the_order_is_kept(value: Any) -> None:
    before = repr(value)
    shown = redact(value, ["a", "b.c"])
    assert repr(value) == before
    assert isinstance(shown, dict)
    assert list(shown) == list(value)
    assert shown.get("a", REDACTED) == REDACTED


KEYS = [{"user": "ann", "key": "s1"}, {"user": "bob", "key": "s2"}, {"user": "bob", "key": "s3"}]
_ANN, _BOB, _CARL = ({"user": name, "key": REDACTED} for name in ("ann", "bob", "carl"))


@pytest.mark.each
@pytest.mark.parametrize(
    ("wanted", "becomes"),
    [
        ([_ANN, _BOB, _BOB], ["s1", "s2", "s3"]),
        ([_ANN], ["s1"]),
        ([_BOB, _ANN, _BOB], None),  # which of two that look alike?
        ([_BOB], None),
        ([_CARL, _BOB, _BOB], ["s1", "s2", "s3"]),
        ([_CARL, _ANN, _BOB], None),
        ([_CARL, {"user": "bob", "key": "new"}, _BOB], None),
        ([_ANN, {"user": "bob", "key": "new"}, _BOB], ["s1", "new", "s3"]),
        ([_ANN, _BOB, _BOB, _CARL], None),
        ([_ANN, _BOB, _BOB, {"user": "carl", "key": "new"}], None),
        ([{"user": "carl", "key": "new"}, _ANN], ["new", "s1"]),
        ([REDACTED, _BOB, _BOB], None),
        ([], []),
    ],
)
def test_a_member_of_an_edited_list_never_gets_the_secret_of_another(wanted: Any, becomes: Any) -> None:
    true = {"people": KEYS}
    shown = redact(true, ["people.key"])
    if becomes is None:
        with pytest.raises(BadJson, match="write the value itself"):
            unredacted({"people": wanted}, shown, true)
        return
    made = unredacted({"people": wanted}, shown, true)
    assert [each["key"] for each in made["people"]] == becomes
    assert [each["user"] for each in made["people"]] == [each["user"] for each in wanted]
