"""Draw a conversation as rows of a given width: what anybody else wrote is escaped, and stays behind a margin.

Rows are pairs of a style, a word of ours, and a text. The lines are those of `render`, so that a call looks here as it
does at the console; nothing in a row is read as markup by anybody.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, LiteralString, cast

from ..core.preview import Preview
from ..core.usage import Prices
from ..models.base import Usage
from ..render.arguments import argument_lines, is_text
from ..render.escape import Escaped, escape
from ..render.layout import LayoutLine, preview_lines, text_lines
from ..render.one_row import arguments_row
from ..render.plural import plural
from ..render.terminal import NARROWEST, rows
from ..screens.drawing import Row, labelled, line_rows, ours, prose
from .transcript import CallEntry, Note, SubagentLane, Transcript, TranscriptEntry, Words

SHOWN = 8  # rows of a preview, or of a result, that are shown unless all are asked for
_BACK: LiteralString = "  "
_SHOWN_ELSEWHERE = ("asked", "needs", "in_doubt")  # while it waits, it is shown whole below the conversation
_NOT_RUN = ("reject", "asked_back", "expire", "did_not_run")
_IN_ITS_PANEL = ("write_todos",)  # the panel shows what these wrote
_LEADS: dict[str, tuple[LiteralString, str]] = {
    "proposed": ("checking", "quiet"),
    "allowed": ("about to run", "quiet"),
    "asked": ("pending", "waits"),
    "needs": ("pending answer", "waits"),
    "in_doubt": ("in doubt", "bad"),
    "approved": ("about to run", "good"),
    "edited": ("about to run", "good"),
    "supplied": ("about to run", "good"),
    "started": ("runs", "runs"),
    "finished": ("done", "good"),
    "failed": ("failed", "bad"),
    "rejected": ("not run", "bad"),
    "denied": ("not run", "bad"),
    "expired": ("not run", "bad"),
    "answered": ("answered", "good"),
    "ran": ("done", "good"),
    "did_not_run": ("not run", "bad"),
}
_MARKS: dict[str, tuple[LiteralString, str]] = {
    "pending": ("[ ] ", "text"),
    "in_progress": ("[>] ", "runs"),
    "completed": ("[x] ", "quiet"),
}


def entry_rows(entry: TranscriptEntry, width: int, *, whole: bool = False, named: bool = True) -> Iterator[Row]:
    """Draw one entry, its first rows or all; a subagent's stands back, under its name if that is to be said."""
    if not entry.lane:
        yield from _rows_of(entry, width, whole=whole)
        return
    if named:
        yield from labelled("lane", "subagent", entry.lane, width)
    for row in _rows_of(entry, max(width - len(_BACK), NARROWEST), whole=whole):
        yield [("text", _BACK), *row]


def _rows_of(entry: TranscriptEntry, width: int, *, whole: bool) -> Iterator[Row]:
    if isinstance(entry, Words):
        you = entry.who == "you"
        if not entry.lane:
            yield [("you" if you else "assistant", "You" if you else "Assistant")]
        yield from prose(entry.text, "you" if you else "assistant", width)
    elif isinstance(entry, Note):
        if entry.data:
            yield from labelled("note", entry.words, entry.data, width)
        else:
            yield from ours("note", entry.words, width)
    elif isinstance(entry, CallEntry):
        yield from _call_rows(entry, width, whole=whole)


def _call_rows(entry: CallEntry, width: int, *, whole: bool) -> Iterator[Row]:
    lead, style = _LEADS.get(entry.state, ("call", "quiet"))
    if entry.verdict in _NOT_RUN and entry.state in ("finished", "failed"):
        lead, style = "not run", "bad"
    given: Any = entry.arguments
    known = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    room = width - len(lead) - len(entry.tool) - 2
    told = arguments_row(known, room)
    yield from labelled(style, lead, Escaped(f"{escape(entry.tool, keep='')}  {told}".rstrip()), width)
    inner = max(width - len(_BACK), NARROWEST)
    for row in _below(entry, known, inner, whole=whole, told=told == arguments_row(known, sys.maxsize)):
        yield [("text", _BACK), *row]


def _below(entry: CallEntry, known: dict[str, Any], width: int, *, whole: bool, told: bool) -> Iterator[Row]:
    """Draw what stands below a call's first row: what it does, who decided, and its result.

    `told` says that the first row has all of its arguments.
    """
    if entry.state not in _SHOWN_ELSEWHERE or whole:
        yield from _cut([list(line_rows([lines], width)) for lines in _body(entry, known, told=told)], whole=whole)
    if entry.decided:
        style: str = "bad" if entry.verdict in _NOT_RUN else "good"
        yield from labelled(style, entry.decided, entry.by or _no_one(entry), width)
    if entry.before is not None:
        yield from labelled("note", "in place of", json.dumps(entry.before, ensure_ascii=False), width)
    if entry.reason:
        yield from labelled("note", "because", entry.reason, width)
    if entry.result is not None and (whole or entry.tool not in _IN_ITS_PANEL or entry.state == "failed"):
        result = text_lines(entry.result.strip("\n"))
        yield from _cut([[[("quiet", row)] for [(_, row)] in line_rows([result], width)]], whole=whole)


def _no_one(entry: CallEntry) -> str:
    """Return what stands for the name of who decided, where none was recorded."""
    return "no decision in time" if entry.verdict == "expire" else "unknown"


def _body(entry: CallEntry, known: dict[str, Any], *, told: bool) -> Iterator[Iterable[LayoutLine]]:
    """Yield what a call does: its preview where it has one, else its arguments, of those that were told the texts."""
    if entry.preview is not None:
        yield from preview_lines(Preview(entry.preview.blocks))  # its summary repeats the row above it
        return
    if not told and entry.tool not in _IN_ITS_PANEL:
        yield from argument_lines(known)
        return
    for name, value in known.items():
        if is_text(value) and entry.tool not in _IN_ITS_PANEL:
            yield [LayoutLine("heading", escape(name, keep=""), "argument"), *text_lines(str(value))]


def _cut(groups: list[list[Row]], *, whole: bool) -> Iterator[Row]:
    """Yield the first rows of the first group, and a mark that says how many rows are missing."""
    drawn = [row for rows in groups for row in rows]
    first = drawn if whole else groups[0][:SHOWN] if groups else []
    yield from first
    missing = len(drawn) - len(first)
    if missing:
        yield from ours("quiet", "[{} more rows; ctrl+o shows all]", 80, missing)


def todo_rows(todos: list[dict[str, Any]], width: int) -> Iterator[Row]:
    """Draw the todos, each behind its mark.

    >>> list(todo_rows([{"content": "Look", "status": "completed"}], 30))
    [[('quiet', '[x] '), ('quiet', 'Look')]]
    """
    for todo in todos:
        mark, style = _MARKS.get(str(todo.get("status")), _MARKS["pending"])
        active = str(todo.get("active_form") or "") if todo.get("status") == "in_progress" else ""
        text = escape(active or str(todo.get("content", "")), keep="")
        lead: str = mark
        for row in rows(LayoutLine("text", text), width=max(width - 2, NARROWEST)):
            yield [(style, lead), (style, row[2:])]
            lead = "    "


def lane_rows(lanes: Iterable[SubagentLane], width: int) -> Iterator[Row]:
    """Draw the subagents: who, what it does now, and its task."""
    for lane in lanes:
        style = {"pending": "waits", "done": "quiet"}.get(lane.doing, "runs")
        yield from labelled(style, "done" if lane.over else lane.doing, _with_tool(lane), width)
        if not lane.over and lane.task:
            first = next(iter(lane.task.strip().splitlines()), "")
            yield from islice(([("quiet", row)] for [(_, row)] in line_rows([text_lines(first)], width)), 3)


def _with_tool(lane: SubagentLane) -> str:
    return f"{lane.name}, {lane.tool}" if lane.tool and not lane.over else lane.name


def usage_rows(usage: Usage, prices: Prices, width: int) -> Iterator[Row]:
    """Draw what was used; money only where it is known what each reply costs."""
    yield from ours("text", "{:,} requests", width, usage.requests)
    yield from ours("text", "{:,} tokens in", width, usage.input_tokens)
    yield from ours("text", "{:,} tokens out", width, usage.output_tokens)
    cost = usage.cost(prices) if prices else None
    if cost is not None:
        yield [("text", f"cost {cost:.4f}")]


def summary(transcript: Transcript, usage: Usage) -> str:
    """Say in one row how things stand: for a terminal with no room for more.

    >>> summary(Transcript(), Usage(requests=2, input_tokens=1200, output_tokens=30))
    '2 requests, 1,230 tokens'
    """
    told = [f"{plural(usage.requests, 'request')}, {plural(usage.input_tokens + usage.output_tokens, 'token')}"]
    if transcript.todos:
        done = sum(todo.get("status") == "completed" for todo in transcript.todos)
        told.append(f"todos {done} of {len(transcript.todos)}")
    if transcript.at_work:
        told.append(f"{plural(len(transcript.at_work), 'subagent')} working")
    return ", ".join(told)
