"""A run finds in its session what it wrote, whatever a store makes of items and wherever a write broke off."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyturn.core.items import Item
from keyturn.engine.session import matching as module
from keyturn.engine.session.matching import overlaps
from tests.playing import user

FOREIGN: Item = {"type": "reasoning", "summary": [], "provider_data": {"anthropic": {"signature": "s"}}}
SEARCH: Item = {"type": "server_tool_use", "id": "srv_1", "provider_data": {"anthropic": {"verbatim": True}}}
SEALED: Item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
PARTS: Item = {"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]}


def spoken(text: str) -> Item:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def called(label: str) -> Item:
    return {"type": "function_call", "call_id": label, "name": "pay", "arguments": "{}", "id": f"fc_{label}"}


def result(label: str) -> Item:
    return {"type": "function_call_output", "call_id": label, "output": "paid"}


def faithful(items: list[Item]) -> list[Item]:
    return items


def other(items: list[Item]) -> list[Item]:
    """As a store does that is not the provider's: its own ids, texts in the other form, and no thoughts of others."""
    return [_other(item) for item in items if item is not FOREIGN and item is not SEARCH]


def _other(item: Item) -> Item:
    made = {**item, "id": "kept_1", "status": "completed"}
    content = item.get("content")
    if isinstance(content, str):
        made["content"] = [{"type": "input_text", "text": content}]
    elif isinstance(content, list):
        made["content"] = "".join(part["text"] for part in content)
    return made


STORES = pytest.mark.parametrize("store", [faithful, other])

# What a provider's model thought stands before what it said or called.
THOUGHT = st.sampled_from([[], [FOREIGN], [SEARCH, FOREIGN], [SEALED]])
STEP = st.sampled_from([user("a"), user("b"), PARTS, spoken("a"), spoken(""), called("c1"), result("c1"), called("c2")])
TAPE = st.lists(st.tuples(THOUGHT, STEP), max_size=6).map(
    lambda steps: [item for thought, step in steps for item in (*thought, step)]
)


@STORES
@given(history=TAPE, tape=TAPE, data=st.data())
def test_wherever_a_write_broke_off_the_rest_is_written_once(
    store: Any, history: list[Item], tape: list[Item], data: Any
) -> None:
    """The history before it is told by its address, so that only one reading fits."""
    written = data.draw(st.integers(0, len(tape)))
    least = data.draw(st.integers(0, written))
    before, there = store(history), store(tape[:written])
    stored = before + there
    count = next(count for count, taken in overlaps(stored, tape, least) if stored[: len(stored) - taken] == before)
    assert least <= count <= max(written, least)
    assert before + there + store(tape[count:]) == before + store(tape)


@STORES
@given(history=TAPE, tape=TAPE.filter(bool))
def test_a_newer_message_is_seen(store: Any, history: list[Item], tape: list[Item]) -> None:
    """Somebody wrote behind what the run had written."""
    assert [*overlaps([*store(history), *store(tape), user("and something else")], tape, len(tape))] == []


def test_what_a_run_wrote_may_not_be_gone() -> None:
    tape = [user("a"), called("c1")]
    assert list(overlaps([user("a")], tape, 2)) == []
    assert list(overlaps([], tape, 1)) == []
    assert list(overlaps([called("c1")], tape, 2)) == []


def test_thoughts_may_be_missing_and_calls_may_not() -> None:
    assert list(overlaps([user("a"), called("c1")], [user("a"), FOREIGN, SEARCH, called("c1")], 4)) == [(4, 2)]
    assert list(overlaps([user("a"), called("c2")], [user("a"), called("c1"), called("c2")], 3)) == []


def test_thoughts_at_the_end_count_as_written_only_where_it_is_known() -> None:
    tape = [user("a"), FOREIGN]
    assert list(overlaps([user("a")], tape, 0)) == [(1, 1), (0, 0)]
    assert list(overlaps([user("a")], tape, 2)) == [(2, 1)]
    assert next(overlaps([user("a"), FOREIGN], tape, 0)) == (2, 2)


def every_way(stored: list[Item], tape: list[Item], least: int) -> list[tuple[int, int]]:
    """The definition, tried out in full: every count, every subset of what may be missing."""
    ways: dict[int, int] = {}
    there = [module._mark(item) for item in stored]
    for count in range(len(tape), least - 1, -1):
        starts = {len(there)}
        for item in reversed(tape[:count]):
            found = {start - 1 for start in starts if start and there[start - 1] == module._mark(item)}
            starts = found | starts if module._may_be_missing(item) else found
        ways |= {len(there) - start: count for start in starts}
    return [(ways[taken], taken) for taken in sorted(ways, reverse=True)]


# The same to every session, but for one of them that may be missing.
TWINS: list[Item] = [{"type": "odd_call"}, {"type": "odd_call", "provider_data": {}}]


@given(
    st.lists(st.sampled_from([user("a"), FOREIGN, SEARCH, called("c1"), *TWINS]), max_size=9),
    st.lists(st.sampled_from([user("a"), FOREIGN, SEARCH, called("c1"), *TWINS]), max_size=7),
    st.integers(0, 7),
)
def test_every_way_is_found(stored: list[Item], tape: list[Item], least: int) -> None:
    assert list(overlaps(stored, tape, min(least, len(tape)))) == every_way(stored, tape, min(least, len(tape)))


class CountedMark(tuple[Any, ...]):
    """A mark that counts how often it is compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        CountedMark.compared += 1
        return super().__eq__(other)

    __hash__ = tuple.__hash__


@pytest.mark.trial
def test_what_a_session_holds_is_found_in_one_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    """L10: a tape of many thoughts was compared with itself over and over, in the cube of their number."""
    mark = module._mark
    monkeypatch.setattr(module, "_mark", lambda item: CountedMark(mark(item)))
    many = 1_000
    turns = [item for n in range(many // 4) for item in (FOREIGN, SEARCH, called(f"c{n}"), result(f"c{n}"))]
    for tape in (
        [user("a"), *[FOREIGN] * many],
        [user("a"), *turns],
        [user("a")] + [SEALED, spoken("b")] * (many // 2),
    ):
        for kept in (len(tape), len(tape) // 2):
            for store in (faithful, other):
                for least in (0, kept):
                    CountedMark.compared = 0
                    stored = [user("before")] * many + store(tape[:kept])
                    count, _taken = next(overlaps(stored, tape, least))
                    assert least <= count <= kept
                    assert CountedMark.compared < 8 * many, (len(tape), kept, store, least)
