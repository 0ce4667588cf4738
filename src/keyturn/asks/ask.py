"""What an external caller asks, and how its request stands: data, as the log, the API and the client have it."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal, cast

import msgspec

from ..core.approval import Approval
from ..core.digest import canonical
from ..core.errors import BadJson, UserError
from ..core.immutable import immutable
from ..core.people import plain_text
from ..core.strict import parse

Status = Literal[
    "pending", "approved", "claimed", "in_doubt", "succeeded", "failed", "answered", "rejected", "expired",
    "withdrawn", "not_run",
]  # fmt: skip
#: The states of a request that nothing changes any more.
ENDED = frozenset({"succeeded", "failed", "answered", "rejected", "expired", "withdrawn", "not_run"})
_CALL = "external_call"
#: In these a request can be delivered: it was decided, or a user stated that its call ran or did not run.
DELIVERABLE = frozenset({"succeeded", "answered", "rejected", "expired", "not_run"})
#: How often a caller may have people asked again where they did not decide in time: each time they are notified.
MOST_ASKS = 20
#: The tool of a call that passes decisions on.
RESUME = "resume"
Outcome = Literal["succeeded", "failed", "unknown"]


@immutable
class Ask(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, forbid_unknown_fields=True):
    """Asks for approval of one call that the caller carries out itself.

    `arguments` is the JSON text of the call's arguments: people are shown that text, and the caller gets it back to the
    byte. `key` names the request: the same key with the same content is the same request, with other content it is
    refused. `server` and `description` say where the tool is from and what it does; a changed description is another
    tool. `reasoning` is what the caller's model wrote, `context` where the request comes from: framework, host, folder.

    `terms` are the caller's wishes. A policy may add to them and takes nothing away; terms that state times alone apply
    where people are asked. An approval that is not claimed in time asks again, or with `ask_again=False` ends the
    request.

    `delivers` names requests of the same account that are decided and that nothing runs for: rejections, answers. A
    call of `resume` passes them on to the program that waits for them, and requires no approval of its own, so that of
    several processes one claims it.

    >>> Ask(key="order-7", tool="refund", arguments='{"amount": 5}').arguments
    '{"amount": 5}'
    """

    key: str
    tool: str
    arguments: str = "{}"
    server: str = ""
    description: str = ""
    schema: dict[str, Any] | None = None
    reasoning: str = ""
    context: dict[str, Any] = {}
    terms: Approval | None = None
    risk: str | None = None
    secrets: tuple[str, ...] = ()
    editable: bool = True
    delivers: tuple[str, ...] = ()
    ask_again: bool = True

    def __post_init__(self) -> None:
        for name in ("key", "tool", "server", "description", "reasoning"):
            plain_text(getattr(self, name), name)
        plain_text(self.risk or "", "risk")
        for secret in self.secrets:
            plain_text(secret, "secrets")
        if not self.key or not self.tool:
            raise UserError("a request has a key and names a tool")
        if self.delivers and (self.tool != RESUME or self.server or self.description or self.schema or self.terms):
            raise UserError(f"a request that delivers decisions is a call of {RESUME!r} of no server, without terms")
        if self.terms is not None and any(step.max_asks > MOST_ASKS for step in self.terms.in_turn):
            raise UserError(f"max_asks= in the terms of a caller is at most {MOST_ASKS}")
        if len({*self.delivers}) != len(self.delivers):
            raise UserError("a request delivers each decision once")
        try:
            parse(self.arguments)
        except BadJson as error:
            raise UserError(f"the arguments of {self.tool!r} must be the text of JSON; they are {error}") from None
        json.loads(self.arguments, parse_float=_as_shown)
        canonical([self.schema, self.context])


def _as_shown(digits: str) -> float:
    """Return a number, and refuse one that people would be shown rounded: the caller gets all of its digits."""
    value = float(digits)
    try:
        same = Decimal(digits) == Decimal(repr(value))
    except ArithmeticError:
        same = False
    if not same:
        raise UserError("a number of the arguments has more digits than a float holds: pass it as a text")
    return value


class AskedBy(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Holds a request as its run was given it: what is asked, and by which account.

    A run is given it as a call, so that it is shown as calls are: without the arguments that are secret.

    >>> asked = AskedBy(Ask(key="order-7", tool="refund", secrets=("card",)), "ci")
    >>> AskedBy.read(asked.input()) == asked
    True
    """

    ask: Ask
    account: str = ""

    def input(self) -> list[dict[str, Any]]:
        """Return the input of the run: words for people, and the call."""
        ask: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self.ask))
        call = {"type": _CALL, "call_id": self.ask.key, "name": ask.pop("tool"), "arguments": self.ask.arguments}
        ask.pop("arguments", None)
        secrets = ask.pop("secrets", [])
        words = f"{self.account or 'A program'} requests approval to run {self.ask.tool}."
        return [{"role": "user", "content": words}, {**call, "secrets": secrets, "asked": ask, "account": self.account}]

    @classmethod
    def read(cls, given: object) -> AskedBy | None:
        """Return what the input of a run asks; None for a run of another kind."""
        items = cast("list[Any]", given) if isinstance(given, list) else []
        call: Any = items[1] if len(items) > 1 else None
        if not isinstance(call, dict) or cast("dict[str, Any]", call).get("type") != _CALL:
            return None
        told = cast("dict[str, Any]", call)
        ask = {**told["asked"], "tool": told["name"], "arguments": told["arguments"], "secrets": told["secrets"]}
        try:
            return msgspec.convert({"ask": ask, "account": told["account"]}, cls)
        except msgspec.ValidationError:
            return None


@immutable
class AskState(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Describes how a request of an external caller stands.

    `id` is the request's id for its caller, `request` that of the approval request in the inbox. `digest` and
    `arguments` are of what would run now: a claim names that digest. `note` is written for the caller's model,
    `decided_by` is who decided. A decision is possible until `expires_at`, a claim until `execute_by`, a report until
    `claimed_until`. An approval that can be undone until `undo_until` is pending until then. `result` is what the
    caller reported, or what a person answered in its place.

    >>> AskState(id="5e1f", key="order-7", tool="refund", status="approved").ended
    False
    """

    id: str
    key: str
    tool: str
    status: Status
    digest: str = ""
    arguments: str = ""
    edited: bool = False
    request: str = ""
    asked: int = 1
    reason: str = ""
    note: str = ""
    decided_by: str = ""
    decided_at: datetime | None = None
    expires_at: datetime | None = None
    undo_until: datetime | None = None
    execute_by: datetime | None = None
    claimed_by: str = ""
    claimed_until: datetime | None = None
    attempts: int = 0
    result: Any = None

    @property
    def ended(self) -> bool:
        """Return whether nothing changes it any more."""
        return self.status in ENDED
