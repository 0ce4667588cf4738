"""What events carry: a proposal, a report, a decision, a grant. Frozen facts, each meaning one thing."""

from __future__ import annotations

from typing import Any

import msgspec

from .items import Item
from .policy import Approval


class Proposal(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """One call as the model made it and as it will run.

    `item` is its place in the reply; `label` the provider's call id; `tool` the digest of what the tool
    is. `args` is the frozen text of what will run, absent where it is the model's own text. `refused` is
    the result of a call that never gets as far as the gate. `gate` is what the tool's own setting says
    where that needs no question. `recover` says what an interrupted start means; `last` that it runs after
    its siblings; `edited` that `args` is what a person made of the call before its tool changed. `risk` is what the
    tool states of itself.
    """

    kind: str
    name: str
    label: str
    item: int
    tool: str = ""
    args: str | None = None
    refused: Item | None = None
    gate: str = ""
    terms: Approval | None = None
    recover: str = "ask"
    last: bool = False
    edited: bool = False
    risk: str | None = None


class Report(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What one guardrail said."""

    name: str
    stage: str
    tripped: bool = False
    info: Any = None


class Decision(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What somebody decided of one call: bound to a digest, single use.

    `args` is the edited text of what will run, `output` a person's own result, `message` the words for
    the model, `note` the words for the record.
    """

    call: str
    verdict: str
    digest: str
    at: int
    by: str | None = None
    note: str | None = None
    message: str | None = None
    args: str | None = None
    output: Any = None


class GrantTerms(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A standing decision: which tool of which agent, for which arguments, how long, how often."""

    id: str
    agent: str
    tool: str
    verdict: str = "approve"
    where: dict[str, Any] | None = None
    expires_at: int | None = None
    uses: int | None = None
    message: str | None = None
    by: str | None = None
