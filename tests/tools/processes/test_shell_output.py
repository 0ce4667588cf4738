"""Long output is cut in plain sight, within the length that was allowed, whatever is written how."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyturn.tools.processes.output import LENGTH_AT_MOST, Kept, allowed_length, fitted, kept_text

_MARK = re.compile(r"\n\[\.\.\. ([0-9,]+) of ([0-9,]+) characters cut \.\.\.\]\n")


@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(0, 300), st.integers(0, 300))
def test_what_is_shown_is_the_text_or_says_what_is_missing(pieces: list[bytes], limit: int, most: int) -> None:
    kept = Kept(limit)
    for piece in pieces:
        kept.add(piece)
    kept.add(b"", final=True)
    whole = b"".join(pieces).decode("utf-8", "replace")
    assert kept.total == len(whole)
    most = min(most, limit)
    shown = kept.shown(most)
    assert len(shown) <= most
    if len(whole) <= most:
        assert shown == whole
        return
    marks = list(_MARK.finditer(shown))
    if len(marks) == 1 and int(marks[0][2].replace(",", "")) == len(whole):
        before, after = shown[: marks[0].start()], shown[marks[0].end() :]
        assert whole.startswith(before)
        assert whole.endswith(after)
        assert int(marks[0][1].replace(",", "")) == len(whole) - len(before) - len(after)
    else:
        assert "[cut]" in shown or "\u2026" in shown or most == 0


@given(st.text(max_size=300), st.text(max_size=300), st.integers(0, 400))
def test_both_streams_fit_together(out: str, err: str, most: int) -> None:
    shown = fitted(kept_text(out), kept_text(err), most)
    assert sum(map(len, shown)) <= most
    if len(out) + len(err) <= most:
        assert shown == (out, err)


def test_memory_stays_small() -> None:
    kept = Kept(1000)
    for _ in range(200):
        kept.add(b"x" * 100_000)
    assert kept.total == 20_000_000
    assert len(kept.shown(1000)) <= 1000
    assert sum(len(part) for part in kept._head) + len(kept._tail) <= 2000


@pytest.mark.parametrize(("asked", "allowed"), [(None, 32_000), (1, 1), (32_001, 32_001), (10**12, LENGTH_AT_MOST)])
def test_a_model_may_ask_for_less_and_for_somewhat_more(asked: int | None, allowed: int) -> None:
    assert allowed_length(asked) == allowed
