"""Name what a decision is about, and who says it: the very asking that was shown, never a request's id alone."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple, TypedDict, cast

from ..core.durations import milliseconds
from ..core.encodable import in_milliseconds
from ..core.errors import KeyturnError, UserError
from ..core.people import Decider, Proof, decider
from ..core.request import Request
from ..directory.login import Login
from ..engine.views.items import ToolApprovalItem
from ..journal.rows import RequestRow

By = str | Decider | Login
Shown = RequestRow | Request | ToolApprovalItem | str


class Naming(TypedDict, total=False):
    """Holds what goes with any decision: what was shown, where only its id is known, and words for the record."""

    digest: str | None
    revision: int | None
    note: str | None
    proof: Proof | None


class Outcome(NamedTuple):
    """Says what became of one request of several that were decided together: its row, or why it was refused.

    >>> Outcome("5e1f", error=UserError("no")).ok
    False
    """

    request: str
    row: RequestRow | None = None
    error: KeyturnError | None = None

    @property
    def ok(self) -> bool:
        """Return whether the word was recorded."""
        return self.error is None


class NamedRequest(NamedTuple):
    """Names a request, and what of it somebody was shown."""

    id: str
    digest: str | None
    revision: int | None


def shown_of(request: Shown, words: Naming) -> NamedRequest:
    """Return what a decision is about: the very asking that was shown, never a request's id alone."""
    digest, revision = words.get("digest"), words.get("revision")
    if not isinstance(cast("object", request), RequestRow | Request | ToolApprovalItem | str):
        raise UserError(f"decide a request as list() gives it, or its id, not a {type(request).__name__}")
    if not isinstance(request, str):
        name = request.request_id if isinstance(request, ToolApprovalItem) else request.id
        return NamedRequest(name, digest or request.digest, revision)
    if digest is None and revision is None:
        raise UserError("name what was shown: pass the request itself, or its id with revision= or digest=")
    return NamedRequest(request, digest, revision)


def named(given: object, what: str) -> str:
    """Return the id of something, or raise `UserError` for what is none."""
    if not isinstance(given, str):
        raise UserError(f"{what} is named by its id, a text, not by a {type(given).__name__}")
    return given


def person_of(by: object) -> Decider:
    """Return who says something, where that is not a login: a name, or somebody whom the program knows."""
    if isinstance(by, Login):
        raise UserError("a login is looked up in the directory first")
    who = decider(cast("str | Decider | None", by or None))
    if who is None:
        raise UserError("the approver is missing: by= is a name, or a Decider(...) of a verified user")
    return who


def ends_at(now: int, until: object, lasts: str | float | None) -> int:
    """Return when something ends, in milliseconds: at a time, or so long from now."""
    if (until is None) == (lasts is None):
        raise UserError("pass until=, an aware datetime, or lasts=, a duration such as '2h'")
    if lasts is not None:
        return now + milliseconds(lasts)
    if not isinstance(until, datetime) or until.tzinfo is None:
        raise UserError("until= is a datetime with a time zone")
    return int(in_milliseconds(until))
