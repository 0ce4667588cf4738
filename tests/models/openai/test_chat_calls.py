"""Tool calls in pieces: however a server cuts, labels and mixes them, the same calls come out."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyturn.core.errors import ModelBehaviorError
from keyturn.models.openai.chat_calls import CallsInPieces
from keyturn.models.openai.chat_messages import PROVIDER
from tests.table import each


def put_together(*chunks: list[Any]) -> list[tuple[str, str, str]]:
    """Label, name and arguments of each call."""
    calls = CallsInPieces()
    for pieces in chunks:
        for _call, _added in calls.take(pieces):
            pass
    return [(call.label, call.name, call.item()["arguments"]) for call in calls.made]


def piece(index: int | None = None, label: str | None = None, name: str | None = None, text: Any = None) -> Any:
    made: dict[str, Any] = {} if index is None else {"index": index}
    if label is not None:
        made["id"] = label
    return {
        **made,
        "function": {key: value for key, value in (("name", name), ("arguments", text)) if value is not None},
    }


@each(
    ("chunks", "calls"),
    [
        ([[piece(0, "a", "pay", "")], [piece(0, text='{"n":')], [piece(0, text="1}")]], [("a", "pay", '{"n":1}')]),
        ([[piece(0, "a", "pay", "{}"), piece(1, "b", "look", "{}")]], [("a", "pay", "{}"), ("b", "look", "{}")]),
        # The id in every piece; another one in every piece, as one server made it up anew each time.
        ([[piece(0, "a", "pay", "{")], [piece(0, "a", None, "}")]], [("a", "pay", "{}")]),
        ([[piece(0, "a", "pay", "{")], [piece(0, "b", None, "}")]], [("a", "pay", "{}")]),
        # One index for all calls.
        ([[piece(0, "a", "pay", "{}")], [piece(0, "b", "pay", "{}")]], [("a", "pay", "{}"), ("b", "pay", "{}")]),
        ([[piece(0, "a", "pay")], [piece(0, "b", "look")]], [("a", "pay", "{}"), ("b", "look", "{}")]),
        ([[piece(0, None, "pay", "{}")], [piece(0, None, "look", "{}")]], [("", "pay", "{}"), ("", "look", "{}")]),
        # No index at all.
        ([[piece(None, "a", "pay", "{")], [piece(text="}")]], [("a", "pay", "{}")]),
        ([[piece(None, "a", "pay", "{")], [piece(None, "a", None, "}")]], [("a", "pay", "{}")]),
        ([[piece(None, None, "pay", "{}")], [piece(None, None, "pay", "{}")]], [("", "pay", "{}"), ("", "pay", "{}")]),
        ([[piece(None, None, "pay"), piece(None, None, "look")]], [("", "pay", "{}"), ("", "look", "{}")]),
        ([[piece(None, None, "pay", "{")], [piece(None, "a", None, "}")]], [("a", "pay", "{}")]),
        # The id only at the end.
        ([[piece(0, None, "pay", "{")], [piece(0, "", None, "}")], [piece(0, "a")]], [("a", "pay", "{}")]),
        # The name in pieces, repeated, or growing.
        ([[piece(0, "a", "pa")], [piece(0, None, "y")], [piece(0, text="{}")]], [("a", "pay", "{}")]),
        ([[piece(0, "a", "pay", "{")], [piece(0, "a", "pay", "}")]], [("a", "pay", "{}")]),
        ([[piece(0, "a", "pa")], [piece(0, "a", "pay")], [piece(0, "a", "pay", "{}")]], [("a", "pay", "{}")]),
        # Arguments as an object, as nothing.
        ([[piece(0, "a", "pay", {"n": [1, {"é": None}]})]], [("a", "pay", '{"n":[1,{"é":null}]}')]),
        ([[piece(0, "a", "pay", {})]], [("a", "pay", "{}")]),
        ([[piece(0, "a", "pay")]], [("a", "pay", "{}")]),
        # Mixed.
        (
            [[piece(0, "a", "pay", "{"), piece(1, "b", "look", "[")], [piece(1, text="]"), piece(0, text="}")]],
            [("a", "pay", "{}"), ("b", "look", "[]")],
        ),
    ],
)
def test_habits(chunks: list[Any], calls: list[Any]) -> None:
    assert put_together(*chunks) == calls


@pytest.mark.parametrize("pieces", [[5], "look", {"a": 1}, [{"function": 5}], [{"custom": ["x"]}]])
def test_what_is_no_call(pieces: Any) -> None:
    with pytest.raises(ModelBehaviorError):
        put_together(pieces)


def test_a_call_without_a_name() -> None:
    with pytest.raises(ModelBehaviorError, match="without a tool's name"):
        put_together([piece(0, "a", None, "{}")])


def test_fields_of_a_servers_own_are_kept() -> None:
    calls = CallsInPieces()
    kept = {"extra_content": {"google": {"thought_signature": "s"}}}
    assert [added for _, added in calls.take([{**piece(0, "a", "pay", "{}"), **kept, "odd": None}])] == ["{}"]
    assert calls.made[0].item()["provider_data"] == {PROVIDER: kept}


def test_a_label_that_is_made_up_stays_the_same() -> None:
    calls = CallsInPieces()
    calls.take_whole([piece(name="pay"), piece(name="pay")])
    first, second = (call.item()["call_id"] for call in calls.made)
    assert first != second
    assert first == calls.made[0].item()["call_id"]


NAMES = st.sampled_from(["pay", "look", "a_long_name"])
TEXTS = st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=5), max_size=3)


@given(st.lists(st.tuples(NAMES, TEXTS), min_size=1, max_size=4), st.data())
def test_any_cut_in_the_protocols_words(made: list[tuple[str, Any]], data: st.DataObject) -> None:
    """An index in every piece, the id and the name in the first: any cut and any order of pieces gives the same."""
    wanted = [(f"c{n}", name, json.dumps(value)) for n, (name, value) in enumerate(made)]
    queues = [cut(n, call, data) for n, call in enumerate(wanted)]
    chunks: list[Any] = []
    while any(queues):
        # A server begins its calls in order; after that it may send of any of them.
        begun = [n for n, queue in enumerate(queues) if queue and queue[0].get("id")][:1]
        going = [n for n, queue in enumerate(queues) if queue and not queue[0].get("id")]
        chunks.append([queues[data.draw(st.sampled_from(begun + going))].pop(0)])
    assert put_together(*chunks) == wanted


def cut(index: int, call: tuple[str, str, str], data: st.DataObject) -> list[Any]:
    label, name, text = call
    places = sorted({0, len(text), *data.draw(st.lists(st.integers(0, len(text)), max_size=4))})
    pieces = [text[start:end] for start, end in pairwise(places)]
    return [piece(index, label, name, ""), *(piece(index, text=each) for each in pieces)]
