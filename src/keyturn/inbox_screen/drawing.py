"""Draw a list of requests, and all of one, as rows: what would run first, then what is known, then words of others."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import LiteralString, NamedTuple, cast

from ..console.screen import Terminal, TooNarrow
from ..core.preview import Diff, Preview
from ..presenting.asking import FIND_OUT, MARKS, STATES, agent_words, facts_of, question_of, risk_words, votes_of
from ..presenting.clock import here, span
from ..presenting.list_row import ListRow
from ..presenting.message_context import ADVICE, Context
from ..presenting.notifications import delivered_of, undelivered_first
from ..presenting.recorded import MISSED, deciders, still_needed
from ..presenting.trail import UPHELD, TrailMark
from ..render.escape import escape
from ..render.layout import LayoutLine
from ..render.one_row import LEAST
from ..render.terminal import folded_words
from ..screens.drawing import Row, cut, labelled, line_rows, ours, painted
from .reading import Detail

_LATE = 600_000
_STYLES = {
    "critical": "bad",
    "stated": "bad",
    "high": "bad",
    "medium": "waits",
    "question": "you",
    "doubt": "waits",
    "review": "you",
}
_WANTS: dict[str, LiteralString] = {
    "external": "needs an answer for",
    "in_doubt": "started",
    "review": "ran",
}
_NOTIFIED = 5  # notifications that are shown one by one
_TOOL = 8  # columns that the name of a tool has at least
_BAR = 20  # columns of the bar that stands for the time left


class ListEntry(NamedTuple):
    """Holds a request of the list as it stands there: what became of it, and whether it is ticked."""

    row: ListRow
    gone: str = ""


def list_rows(entries: Sequence[ListEntry], at: int, now: int, width: int) -> Iterator[Row]:
    """Draw the list, two rows for each request."""
    for place, entry in enumerate(entries):
        yield from _entry_rows(entry, now, width, on=place == at)


def _entry_rows(entry: ListEntry, now: int, width: int, *, on: bool) -> Iterator[Row]:
    row = entry.row
    bar = ("you", "\u258c") if on else ("text", " ")
    sign = MARKS[row.mark][0]
    told = "quiet" if entry.gone else "strong" if on else "text"
    left = entry.gone or _left(row.deadline, now)
    when = entry.gone or " ".join(each for each in (left, row.step, row.votes) if each)
    late = row.deadline is not None and row.deadline - now < _LATE and not entry.gone
    tool = cut(escape(row.tool, keep=""), max(width - len(when) - 6, _TOOL))
    room = max(width - len(tool) - 5, 0)
    yield [
        bar,
        (_STYLES.get(row.mark, "quiet"), f"{sign} "),
        (told, tool),
        ("waits" if late else "quiet", f" {cut(when, room):>{room}}"),
    ]
    path = "" if entry.gone else f"{cut(escape(row.path, keep=''), width // 3)}  "
    room = width - 4
    if room - len(path) < LEAST:  # its ends say more than who asks, which stands beside the list
        path = ""
    yield [bar, ("quiet", f"  {cut(path + row.line.within(room - len(path)), room)}")]


def _left(deadline: int | None, now: int) -> str:
    if deadline is None:
        return ""
    return span(deadline - now) if deadline > now else "expired"


def head_rows(detail: Detail, now: int, width: int) -> Iterator[Row]:
    """Draw who wants what, how risky it is said to be, how long it waits still, and the one question."""
    row = detail.row
    sign, word = MARKS[detail.mark][0], risk_words(row)
    yield from labelled("quiet", "agent", agent_words(row.request.path, row.agent), width)
    yield from labelled("heading", _WANTS.get(row.kind, "wants to run"), row.tool, width)
    risk: list[tuple[str, str]] = [(_STYLES.get(detail.mark, "quiet"), f"{sign} {word}")]
    if row.state != "open":
        yield risk
        yield from _outcome_rows(detail, width)
        return
    if row.expires_at is not None:
        risk += [("text", "  "), *_clock(row.expires_at, row.asked_at, now, width - len(word) - 4)]
    yield risk
    before, _tool, after = question_of(row)
    words = "Answer its question" if row.kind == "external" else f"{before} it {after}".replace(" ?", "?")
    for folded in folded_words(words.split(" "), width):
        yield [("title", folded)]
    if row.kind == "in_doubt":
        yield from ours("note", FIND_OUT, width)


def _outcome_rows(detail: Detail, width: int) -> Iterator[Row]:
    """Draw what became of a request that is over, and that its reader missed it."""
    row = detail.row
    word = STATES.get(row.state, row.state)
    by = f" by {' and '.join(deciders(row))}" if deciders(row) else ""
    at = "" if row.closed_at is None else f", {here(row.closed_at)}"
    yield from labelled("title", "outcome", f"{word}{by}{at}", width)
    if detail.missed:
        yield from labelled("waits", "note", " ".join(MISSED), width)


def _thread_rows(detail: Detail, now: int, width: int) -> Iterator[Row]:
    """Draw the questions to the agent that stand with a request, each with its answer."""
    for each in detail.thread:
        asked = each.exchange
        about = " about the earlier request" if each.before else ""
        lead = f"{asked.by or 'An approver'} asked the agent{about} {span(now - asked.asked_at)} ago"
        yield from labelled("heading", "question", lead, width)
        yield from _written(asked.question, width)
        if not asked.answered_at:
            yield from ours("waits", "The agent has not answered yet.", width)
            continue
        again = "It requested approval again: press n to show the new request." if each.after else ""
        again = again or ("It did not request approval again." if not asked.after else "")
        yield from labelled(
            "heading", "answer", f"{span(now - asked.answered_at)} ago{'. ' * bool(again)}{again}", width
        )
        for text in asked.answer:
            yield from _written(text, width)
    if detail.thread:
        yield []


def _clock(expires: int, asked: int, now: int, room: int) -> list[tuple[str, str]]:
    left = expires - now
    if left <= 0:
        return [("bad", "expired")]
    style = "waits" if left < _LATE else "text"
    told = f"{span(left)} left"
    at = f", until {here(expires)}"
    full = max(1, round(_BAR * min(left / max(expires - asked, 1), 1)))
    bar = "\u2501" * full + "\u2500" * (_BAR - full)
    if room >= len(told) + len(at) + _BAR + 2:
        return [(style, told), ("quiet", at), ("text", "  "), (style, bar)]
    return [(style, told), ("quiet", at)] if room >= len(told) + len(at) else [(style, told)]


def payload_rows(detail: Detail, width: int) -> Iterator[Row]:
    """Draw what would run, as it would run now; the last of these rows is seen before anything runs."""
    drawn: list[str] = []
    request = detail.request
    screen = Terminal(show=drawn.append, colour=True, width=width)
    try:
        drawn += screen.rows(request.lines(numbered=True))
        for number, choice in enumerate(request.choices, 1):
            screen.label("choice", f"{number}  {choice}")
        if request.edit is not None:
            screen.say()
            screen.draw(request.difference())
        if detail.row.request.difference:
            screen.say()
            screen.draw(_changed_tool(detail))
    except TooNarrow:
        drawn = ["the window is too narrow to show the call"]
    yield from map(painted, drawn)


def _changed_tool(detail: Detail) -> Preview:
    change = detail.row.request.difference
    before, after = (json.dumps(change[side], indent=2) for side in ("before", "after"))
    return Preview((Diff(before, after, label="the tool changed after it was shown"),))


def known_rows(detail: Detail, now: int, width: int) -> Iterator[Row]:
    """Draw what is known of a request: what became of it, who decides and did, and last what others wrote."""
    shown = detail.row.request
    yield from _thread_rows(detail, now, width)
    if len(detail.trail) > 1:
        yield from ours("title", "What happened", width)
        for mark in detail.trail:
            if mark.kind != UPHELD:
                yield from _mark_rows(mark, now, width)
        yield []
    for fact in facts_of(detail.row, now, here):
        words = ", ".join(filter(None, (fact.ago, fact.after)))
        text = " \u00b7 ".join(filter(None, (fact.text, words)))
        yield from labelled("note" if fact.mark else "heading", cast("LiteralString", fact.word), text, width)
    if detail.people and detail.row.state == "open":
        yield from labelled("heading", "approvals", still_needed(shown, detail.people), width)
    if detail.row.state == "open" and shown.claim is not None and shown.claimed_by(now):
        yield from labelled("waits", "claimed by", f"{shown.claim.by} until {here(shown.claim.until)}", width)
    for vote in votes_of(shown, now):
        said = f"{vote.by} {vote.word} {vote.ago} ago" + (f", note: {vote.note}" if vote.note else "")
        yield from labelled("good", "voted", said, width)
    if detail.standing.why and detail.row.state == "open":
        yield from labelled("note", "you", detail.standing.why, width)
    if detail.standing.voted:
        yield from labelled("note", "your vote", STATES.get(detail.standing.voted, ""), width)
    if len(detail.notified) > _NOTIFIED:
        yield from labelled("quiet", "notified", delivered_of(detail.notified), width)
    for each in undelivered_first(detail.notified, _NOTIFIED):
        style = "bad" if each.state == "failed" else "quiet"
        yield from labelled(style, "notified", f"{each.to}: {each.words(now)}", width)
    yield from _others(detail, width)
    yield []
    yield from labelled("quiet", "request", detail.row.id, width)
    yield from labelled("quiet", "digest", detail.row.digest, width)


def _mark_rows(mark: TrailMark, now: int, width: int) -> Iterator[Row]:
    lead = cast("LiteralString", f"{span(now - mark.at)} ago, line {mark.line}: {mark.word}")
    style = {"failed": "bad", "lost": "bad", "denied": "bad", "ended": "good"}.get(mark.kind, "quiet")
    yield from labelled(style, f"{lead} by", mark.by, width) if mark.by else ours(style, lead, width)
    if mark.text:
        yield from _written(mark.text, width)


def _others(detail: Detail, width: int) -> Iterator[Row]:
    """Draw what is not ours: each text under words that say whose it is."""
    context, described = detail.context, detail.row.request.description
    groups: list[tuple[LiteralString, Iterable[str]]] = [
        ("Tool description", [escape(described)] if described else []),
        ("Written by the model", context.words),
        ("Input of the run", [context.task] if context.task else []),
    ]
    for title, texts in groups:
        whole = list(texts)
        if whole:
            yield []
            yield from ours("title", title, width)
            yield from _pressure(context, width) if texts is context.words else ()
        for text in whole:
            yield from _written(text, width)


def _pressure(context: Context, width: int) -> Iterator[Row]:
    """Point out how the model's words press, as advice."""
    if context.signs:
        yield from ours("note", ADVICE, width)
    for sign in context.signs:
        yield from labelled("note", cast("LiteralString", f"it {sign.says}"), sign.words, width)


def _written(text: str, width: int) -> Iterator[Row]:
    """Draw a text of others that is escaped already, behind the margin."""
    yield from line_rows([[LayoutLine("context", line) for line in text.split("\n")]], width)
