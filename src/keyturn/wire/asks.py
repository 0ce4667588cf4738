"""What external callers send: requests, claims and reports."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from ..asks.ask import Ask, Outcome
from ..core.approval import Approval
from .bodies import Digest, Id, Length, Line, Note, Said

_Names = Annotated[tuple[Line, ...], msgspec.Meta(max_length=100)]


class AskFor(Said, frozen=True, kw_only=True, omit_defaults=True):
    """Asks for approval of one call, which the caller carries out itself once it has claimed it.

    `arguments` is the JSON text of its arguments, `requester` the person for whom a service account asks, `agent` the
    name of the `ExternalAgent`, where the app has several.
    """

    key: Id
    tool: Line
    arguments: str = "{}"
    server: Annotated[str, msgspec.Meta(max_length=200)] = ""
    description: Note = ""
    schema: dict[str, Any] | None = None
    reasoning: Note = ""
    context: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    terms: Approval | None = None
    risk: Line | None = None
    secrets: _Names = ()
    editable: bool = True
    delivers: _Names = ()
    ask_again: bool = True
    requester: Id | None = None
    agent: Id | None = None

    @property
    def ask(self) -> Ask:
        """Return what is asked."""
        return Ask(**{name: getattr(self, name) for name in Ask.__struct_fields__})


class ClaimAsk(Said, frozen=True, kw_only=True, omit_defaults=True):
    """Claims an approved call as it was shown; the same `name` gets the same answer again."""

    digest: Digest
    name: Id
    lasts: Length | None = None


class HoldAsk(Said, frozen=True, kw_only=True, omit_defaults=True):
    """Prolongs a claim."""

    name: Id
    lasts: Length | None = None


class ReportOutcome(Said, frozen=True, kw_only=True, omit_defaults=True):
    """Reports what came of a claimed call."""

    name: Id
    outcome: Outcome
    result: Any = None
