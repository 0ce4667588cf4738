"""Make the message that a person gets of a notice: the one place that words it, for every channel.

What it shows is read from the request as it is now, with secrets redacted, and is escaped here once. Rows of data
begin with a margin, ours never do. Whatever is cut is cut with a mark that data cannot write, and the request's whole
digest stands below it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from ..core.digest import canonical
from ..core.encodable import in_milliseconds, moment
from ..core.request import Request
from ..journal.rows import Delivery, RequestRow
from ..render.arguments import request_lines
from ..render.escape import clip, quote
from ..render.layout import LayoutLine
from ..render.length import is_long
from ..render.names import doubtful_names
from ..render.plural import plural
from ..render.terminal import drawn
from ..render.verdicts import STATES
from .base import CLAIMED, Message, Recipient

# How many characters a name, the line of a request, a text of it and a whole message may have.
NAME = 60
LINE = 120
TEXT = 1_500
MOST = 2_600
# What is larger than this, in characters of its JSON text, is not laid out at all.
LARGEST = 262_144
# How many requests a digest names.
_NAMED = 10

_KINDS = {
    "approval": "asks to run",
    "external": "needs an answer for",
    "in_doubt": "does not know the outcome of",
    "review": "has a call to review:",
}


class NoticedRequest(msgspec.Struct, frozen=True):
    """Holds a delivery, and the row of the request that it is about, if it is about one that is still known."""

    delivery: Delivery
    row: RequestRow | None = None

    @property
    def request(self) -> Request | None:
        """Return the request as it is now."""
        return None if self.row is None else self.row.request


def message_of(told: Sequence[NoticedRequest], to: Recipient, tenant: str, link: str | None = None) -> Message:
    """Return what one recipient is told of one notice, or of several; `link` has `{request}` in it.

    >>> from keyturn.journal.rows import Delivery
    >>> gone = Delivery("mail", "ada", "grant.revoked", "run", "g1", {"by": "bob"}, 7)
    >>> message_of([NoticedRequest(gone)], Recipient(person="ada", channel="mail"), "default").title
    'bob revoked grant g1'
    """
    return _single(told[0], to, tenant, link) if len(told) == 1 else _digest(told, to, tenant, link)


def message_id(told: Sequence[NoticedRequest], tenant: str) -> str:
    """Return the id of a message, the same whenever the same is told to the same recipient, and of no other message.

    A store's numbers alone are given again: in a copy, in a backup that is brought back, and in another store.
    """
    notices = [each.delivery for each in told]
    named = [
        [tenant, each.channel, each.person, each.notice, each.topic, each.run, each.subject, canonical(each.about)]
        for each in notices
    ]
    return "msg_" + hashlib.sha256(msgspec.json.encode(named)).hexdigest()[:32]


def _single(told: NoticedRequest, to: Recipient, tenant: str, link: str | None) -> Message:
    note, row = told.delivery, told.row
    common: dict[str, Any] = {
        "id": message_id([told], tenant),
        "topic": note.topic,
        "to": to,
        "at": _number(note.about.get("at")),
        "run": note.run,
        "title": title_of(note, row, details=to.details),
    }
    if row is None:
        return Message(**common, facts=_facts(note, None, details=to.details))
    request = row.request
    opens = _opens(link, row.id)
    about, rows = _about(row, request, to), _rows(note, row, request, details=to.details)
    return Message(
        **common,
        request=row.id,
        revision=request.revision,
        digest=row.digest,
        verdicts=tuple(request.verdicts) if row.state == "open" and _asks(note) else (),
        whole=to.details and _asks(note) and shows_whole(row),
        link=opens,
        text=_text(row, about, rows, opens),
        about=about,
        rows=rows,
        facts=_facts(note, request, details=to.details),
    )


def _digest(told: Sequence[NoticedRequest], to: Recipient, tenant: str, link: str | None) -> Message:
    """Say several notices in one message: how many wait, and a line of each."""
    waits = len({each.row.id for each in told if each.row is not None and each.row.state == "open"})
    title = plural(waits, "pending request")
    lines = [title_of(each.delivery, each.row, details=to.details) for each in told[:_NAMED]]
    more = len(told) - len(lines)
    text = "\n".join([*(f"- {line}" for line in lines), *([f"and {more} more"] if more else [])])
    return Message(
        id=message_id(told, tenant),
        topic="digest",
        to=to,
        title=title if waits else plural(len(told), "notification"),
        text=text,
        at=max(_number(each.delivery.about.get("at")) for each in told),
        link=_opens(link, ""),
        count=len(told),
        facts={"notices": [_facts(each.delivery, None, details=False) for each in told]},
    )


def _asks(note: Delivery) -> bool:
    """Return whether a message shows what would run; one about a decision or a claim does not, and asks for none.

    It may go out late, when its request asks anew.
    """
    return note.topic not in ("request.decided", CLAIMED)


def title_of(note: Delivery, row: RequestRow | None, *, details: bool = True) -> str:
    """Say a notice in one escaped line."""
    by = _name(note.about.get("by")) or "an unknown user"
    if note.topic == "grant.revoked":
        return f"{by} revoked grant {_name(note.subject)}"
    what = _what(row, details=details)
    if note.topic == "request.decided":
        verdict = str(note.about.get("verdict", ""))
        if verdict.startswith("drill_"):
            return f"this was a drill, nothing would have run: {what}"
        said = STATES.get(verdict, "settled")
        return f"{said}{'' if verdict in ('expire', 'void') else f' by {by}'}: {what}"
    lead = {
        "request.expiring": "expires soon: ",
        "request.escalated": "escalated to you: ",
        "approval.revoked": f"approval revoked by {by}: ",
        "request.glass_broken": f"approved alone by {by} (emergency override): ",
        CLAIMED: f"claimed by {by}: ",
    }
    return lead.get(note.topic, "") + what


def _what(row: RequestRow | None, *, details: bool) -> str:
    if row is None:
        return "a request"
    if not details:
        return "a pending request" if row.state == "open" else "a request"
    return f"{_name(row.agent)} {_KINDS.get(row.kind, 'asks to run')} {_name(row.tool)}"


def _about(row: RequestRow, request: Request, to: Recipient) -> tuple[tuple[str, str], ...]:
    """Return what is known of a request besides what would run: labels of ours, with escaped values."""
    about = list[tuple[str, str]]()
    if request.expires_at is not None and row.state == "open":
        about.append(("expires", _moment(request.expires_at, to.zone)))
    if row.reason and to.details:
        about.append(("reason", clip(row.reason, TEXT, keep="")))
    if row.risk and to.details:
        about.append(("risk", _name(row.risk)))
    for name, odd in doubtful_names([row.tool], request.params) if to.details else ():
        about.append(("note", f"the {'tool' if name == row.tool else 'argument'}'s name {odd}"))
    return tuple(about)


def _rows(note: Delivery, row: RequestRow, request: Request, *, details: bool) -> tuple[str, ...]:
    return tuple(_shown(row, request)) if details and _asks(note) else ()


def _text(row: RequestRow, about: tuple[tuple[str, str], ...], rows: tuple[str, ...], link: str) -> str:
    head = [f"{label}: {value}" for label, value in about]
    return "\n".join([*head, *rows, f"digest {row.digest}", *([link] if link else [])])


def _shown(row: RequestRow, request: Request) -> list[str]:
    """Return the rows of what would run, as many as fit, and a mark where not all do."""
    if len(row.body) > LARGEST:
        whole = hashlib.sha256(row.body.encode("utf-8", "surrogatepass")).hexdigest()
        return [f"\\[not shown here: {len(row.body)} characters, sha256 {whole}; open the request to see all of it]"]
    kept, room = list[str](), MOST
    groups = request_lines(request.preview, request.params, limit=TEXT)
    for line in drawn(_bounded(groups), width=200):
        room -= len(line) + 1
        if room < 0:
            return [*kept, "\\[cut here: open the request to see all of it; its digest is below]"]
        kept.append(line)
    return kept


def shows_whole(row: RequestRow) -> bool:
    """Return whether a message shows all of what would run, at a glance: only then a click in it approves.

    That includes the names in its title, the reason and the risk: of whatever is cut, others may differ in the rest.
    """
    cut = len(row.reason) > TEXT or any(len(name) > NAME for name in (row.agent, row.tool, row.risk))
    if cut or len(row.body) > LARGEST or len(_what(row, details=True)) > LINE:
        return False
    groups = [*request_lines(row.request.preview, row.request.params)]
    drawn_whole = sum(len(line) + 1 for line in drawn(groups, width=200))
    longest = max((len(line.text) for group in groups for line in group), default=0)
    return not is_long(groups) and drawn_whole <= MOST and longest <= TEXT


def _bounded(groups: Any) -> Any:
    """Pass on no more lines than a message could hold: most of a huge request is never drawn."""
    left = MOST
    for group in groups:
        lines: list[LayoutLine] = group[:left]
        left -= len(lines)
        yield lines
        if left <= 0:
            return


def _facts(note: Delivery, request: Request | None, *, details: bool) -> dict[str, Any]:
    """Return what a program is told: ids and plain facts, the tool's arguments never."""
    facts: dict[str, Any] = {"topic": note.topic, "run": note.run, "subject": note.subject, **note.about}
    if request is not None:
        facts |= {"revision": request.revision, "digest": request.digest, "kind": request.kind}
        facts |= {"tool": request.tool, "agent": request.agent, "risk": request.risk} if details else {}
        facts["asked_at"] = in_milliseconds(request.asked_at)
    return facts


def _opens(link: str | None, request: str) -> str:
    return "" if not link else link.replace("{request}", request)


def _moment(at: datetime, zone: str) -> str:
    plain = at.strftime("%Y-%m-%d %H:%M UTC")
    return f"{at.astimezone(ZoneInfo(zone)):%Y-%m-%d %H:%M %Z} ({plain})" if zone else plain


def _number(given: object) -> int:
    return given if isinstance(given, int) else 0


def _name(given: object) -> str:
    """Return a name as it may stand within a line of ours: escaped, short, and quoted unless it is a plain word."""
    text = given if isinstance(given, str) else ""
    plain = text.replace("_", "").replace("-", "").replace(".", "").replace("/", "")
    return text if len(text) <= NAME and plain.isascii() and plain.isalnum() else quote(text, NAME) if text else ""


def asked_at(note: Delivery) -> datetime:
    """Return when it happened of which a notice tells."""
    return moment(_number(note.about.get("at")))
