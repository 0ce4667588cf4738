"""A conversation is compacted between turns: ranges of what was there and a summary, and nothing unseen is dropped."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn.core import commands as cm
from keyturn.core import events as ev
from keyturn.core.errors import Conflict, UserError
from keyturn.core.usage import NOTHING
from tests.core.samples import Pen, asked, says, start, user


def test_a_conversation_is_compacted_when_its_model_is_to_be_asked() -> None:
    pen = Pen()
    pen(start())
    pen(cm.AddInput("r", [user("wait")]))
    assert pen(cm.CompactHistory("r", [says("so far"), [1, 2]], 2, NOTHING)) == [
        ev.HistoryCompacted("r", [says("so far"), [1, 2]], NOTHING)
    ]
    assert pen.root().items == [says("so far"), user("wait")]
    asked().refuses(Conflict, cm.CompactHistory("r", [[0, 1]], 1, NOTHING))


def test_a_summary_keeps_the_message_that_nobody_had_seen() -> None:
    pen = Pen()
    pen(start())
    pen(cm.AddInput("r", [user("wait")]))
    pen(cm.CompactHistory("r", [says("so far")], 1, NOTHING))
    assert pen.root().items == [says("so far"), user("wait")]


@pytest.mark.parametrize("view", [[[0, 9]], [[1, 0]], [[-1, 1]], [[0, 1, 1]], [[0, 1], [0, 1]]])
def test_a_summary_keeps_ranges_of_what_was_there(view: Any) -> None:
    pen = Pen()
    pen(start())
    pen.refuses(UserError, cm.CompactHistory("r", view, 1, NOTHING))
