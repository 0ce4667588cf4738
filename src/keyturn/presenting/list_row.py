"""Say what a request is in one row of a list: which agent requests what, its risk and deadline, and both ends of it."""

from __future__ import annotations

from typing import Any, NamedTuple
from zlib import crc32

from ..core.preview import Command, Diff
from ..core.request import Request
from ..journal.rows import RequestRow
from ..render import diff
from ..render.escape import Escaped
from ..render.one_row import arguments_row, ends_of
from ..render.verdicts import STATES
from .asking import agent_words, is_overdue, mark_of, own_vote, progress, step_words
from .clock import span
from .source import source_of

#: How many characters of a payload a list of a page shows.
LINE = 112
#: How much of where a request comes from a list shows.
_SOURCE_LINE = 60
_COMPARED = 4_000  # characters of both sides that are compared for a row


class RowText(NamedTuple):
    """Holds what tells most of a payload: a text, or the arguments; a face draws as much as it has room for.

    >>> print(RowText("rm -rf /srv", "$ ").within(40))
    $ rm -rf /srv
    """

    text: str
    lead: str = ""
    arguments: Any = None

    def within(self, room: int) -> Escaped:
        """Return it in one row: where it does not fit, the first and last parts, and how much is between them."""
        if self.arguments is not None:
            return arguments_row(self.arguments, room)
        return Escaped(self.lead + ends_of(self.text.rstrip("\n"), room - len(self.lead)))


class ListRow(NamedTuple):
    """Holds one row of the inbox's list; `own` says what a visitor did about it, or that others decide it."""

    id: str
    tool: str
    path: str
    line: RowText
    mark: str
    risk: str
    kind: str
    left: str
    late: bool
    deadline: int | None
    step: str
    votes: str
    claimed: str
    state: str
    revision: int
    overdue: bool
    stand: str
    own: str = ""
    closed_at: int | None = None


def row_of(row: RequestRow, now: int) -> ListRow:
    """Return a request as it stands in the list."""
    shown = row.request
    left = None if row.expires_at is None else row.expires_at - now
    return ListRow(
        row.id,
        row.tool,
        _from(row),
        row_text(shown),
        mark_of(row),
        row.risk,
        row.kind,
        "" if left is None else span(left),
        left is not None and left < 600_000,
        row.expires_at,
        step_words(shown),
        progress(shown),
        shown.claimed_by(now),
        row.state,
        shown.revision,
        is_overdue(row, now),
        stand_of(row, now),
        closed_at=row.closed_at,
    )


def own_words(row: RequestRow, person: str, *, may: bool) -> str:
    """Return what a person did about an open request, or that they may not decide it; "" for neither."""
    own = own_vote(row.request, person) if row.state == "open" else None
    if own is not None:
        return f"you {STATES.get(own.verdict, own.verdict)}"
    return "" if may or row.state != "open" else "others decide"


def stand_of(row: RequestRow, now: int) -> str:
    """Return a mark of what can change in a row but for its clock: an open page compares it with its own.

    >>> row = RequestRow("1", "run", "r/1.0", "approval", "pay", "desk", "d", 0)
    >>> stand_of(row, 0) == stand_of(row, 5)
    True
    """
    shown = row.request
    changing = row.state, shown.revision, step_words(shown), progress(shown), shown.claimed_by(now)
    return f"{crc32(repr(changing).encode()):08x}"


def _from(row: RequestRow) -> str:
    """Return which agent requests, and from where as an external caller states it."""
    who, stated = agent_words(row.request.path, row.agent), source_of(row.request).text
    if not stated:
        return who
    return f"{who} ({stated if len(stated) <= _SOURCE_LINE else f'{stated[:_SOURCE_LINE]}…'})"


def row_text(request: Request) -> RowText:
    """Return what tells most of a payload: its commands, its files, its summary, its text, else its arguments."""
    preview = request.preview
    if preview.summary:
        return RowText(preview.summary)
    for block in preview.blocks:
        if isinstance(block, Diff):
            others = [
                each.path or each.label for each in preview.blocks if isinstance(each, Diff) and each is not block
            ]
            return RowText("\n".join([_changed(block), *others]))
        if isinstance(block, Command) and block.command:
            commands = [each.command for each in preview.blocks if isinstance(each, Command)]
            return RowText("\n".join(commands), "$ ")
        if text := getattr(block, "text", "") or getattr(block, "path", ""):
            return RowText(text)
    given: Any = request.requests if request.kind == "external" else request.params
    return RowText("", arguments=given)


def _changed(block: Diff) -> str:
    """Return the name of what is changed and, of a text that is not long, the lines that go and come."""
    lines = [block.path or block.label]
    if len(block.before) + len(block.after) <= _COMPARED:
        lines += [f"{sign}{text}" for sign, text in diff.rows(block.before, block.after) if sign in ("-", "+")]
    return "\n".join(lines)
