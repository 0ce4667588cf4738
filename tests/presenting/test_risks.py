"""A risk that a tool states is shown as stated, and what is higher than high is held as what is high."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from keyturn import MemoryJournal
from keyturn.presenting.asking import is_held, mark_of, risk_words
from tests.channels.telling import asked

RISKS = [
    ("critical", "critical", "critical risk", True),
    ("high", "high", "high risk", True),
    ("severe", "stated", "risk: severe", True),
    ("medium", "medium", "medium risk", False),
    ("low", "low", "low risk", False),
    ("", "", "risk not stated", False),
]


@pytest.mark.parametrize(("risk", "mark", "words", "held"), RISKS)
async def test_a_risk_is_shown_as_it_is_stated_and_held_from_high_upward(
    risk: str, mark: str, words: str, held: Any
) -> None:
    [row] = await asked(MemoryJournal(), "ann")
    row = replace(row, risk=risk)
    assert (mark_of(row), risk_words(row), is_held(row)) == (mark, words, held)
