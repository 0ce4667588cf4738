"""Show beside the conversation how things stand: the todos, the subagents at work, and what was used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import LiteralString

from textual.containers import VerticalScroll

from ...screens.drawing import Row, labelled, ours
from ...screens.rows import Rows
from ..conversation import ChatConversation
from ..drawing import lane_rows, todo_rows, usage_rows


class SideView(VerticalScroll):
    """Shows the panel of one conversation."""

    can_focus = False

    def show(self, conversation: ChatConversation) -> None:
        """Draw it as things stand."""
        self._rows.redraw(lambda width: _panel_rows(conversation, width))

    def on_mount(self) -> None:
        """Begin empty."""
        self._rows = Rows(lambda width: ())
        self.mount(self._rows)


def _panel_rows(conversation: ChatConversation, width: int) -> Iterator[Row]:
    now = conversation.now
    yield from _part("Todos", list(todo_rows(now.todos, width)), "no todos")
    yield from _part("Subagents", list(lane_rows(now.lanes.values(), width)), "none")
    yield from _part("Used", list(usage_rows(conversation.usage, conversation.assistant.prices, width)), "nothing")
    run = conversation.run_id
    yield from _part("Run", list(labelled("quiet", "id", run[:12], width)) if run else [], "none")


def _part(title: LiteralString, rows: list[Row], empty: LiteralString) -> Iterator[Row]:
    yield [("title", title)]
    yield from rows or ours("quiet", empty, 40)
    yield []
