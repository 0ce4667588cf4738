"""Make what somebody signs of what they were shown and of what they say; nobody else's word for it is taken.

A server that returns bytes to sign could return those of another request. So whoever signs makes the bytes anew, of
the request as it was on the screen, and signs no others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict, Unpack

from ..core import events as ev
from ..core.challenge import decision_challenge
from ..core.digest import bound_words, canonical, digest, same
from ..core.durations import milliseconds
from ..core.errors import BadJson, NotAllowed
from ..core.records import Word
from ..core.request import Request
from ..core.strict import parse
from ..engine.facts import decisions
from ..engine.facts.values import said_output
from .naming import Naming


class SignedWords(TypedDict, total=False):
    """Holds the words of a decision that are signed with it."""

    output: Any
    message: str | None
    note: str | None
    break_glass: bool
    asks_back: bool
    undo: str | float | None


class WordsToSign(SignedWords, Naming, total=False):
    """Holds the words of a decision that are signed, and what was shown of its request."""


def challenge_of(
    tenant: str, request: Request, verdict: Word, edit: decisions.Edit | None = None, **said: Unpack[SignedWords]
) -> bytes:
    """Return what somebody signs who decides a request so, with the very words of the decision."""
    args, basis, key = (None, None, "") if edit is None else edit
    output = said_output(said.get("output"), "an output") if verdict in ("answer", "ran") else None
    undo = said.get("undo")
    made = ev.Decision(
        request.call,
        verdict,
        request.digest,
        args=args,
        basis=basis,
        key=key,
        output=output,
        note=said.get("note"),
        message=said.get("message"),
        broke_glass=said.get("break_glass", False),
        asks_back=said.get("asks_back", False),
        withdrawals=len(request.withdrawn),
        undo_ms=0 if undo is None else milliseconds(undo),
    )
    return decision_challenge(tenant, request.id, request.revision, made)


def shown_digest(request: Request, tool: Mapping[str, Any]) -> str | None:
    """Return the digest of a request, made of what is shown of it; None where what is shown is not all of it.

    `tool` is what identifies its tool. A call with secrets, one in doubt, and a question of a tool have more in their
    digests than anybody is shown.

    >>> from datetime import UTC, datetime
    >>> made = datetime(2026, 11, 2, tzinfo=UTC)
    >>> asked = Request("5e1f", "run", "r/1.0", "approval", "pay", "desk", "d1", made, params={})
    >>> shown_digest(asked, {"name": "pay"}) == "d1"
    False
    """
    if request.kind != "approval" or request.requests is not None or request.secrets:
        return None
    true = parse(request.arguments or "{}")
    if not same(request.params, true):
        raise BadJson("the arguments that are shown are not those that would run")
    if tool.get("name", request.tool) != request.tool:
        raise BadJson("the tool that is shown is not the one that would run")
    shown = request.preview.basis
    return digest(
        *bound_words(
            request.run, request.call, request.agent, digest(tool), canonical(true), shown, request.revision - 1
        )
    )


def check_shown(request: Request, tool: Mapping[str, Any]) -> bool:
    """Return whether the digest is that of what is shown; False where nobody can say.

    Raises `NotAllowed` where it is the digest of something else.
    """
    try:
        made = shown_digest(request, tool)
    except BadJson as error:
        raise NotAllowed(f"nothing was signed: {error.reason}") from None
    if made not in (None, request.digest):
        raise NotAllowed(
            "nothing was signed: the digest of this request is not that of the arguments that are shown. Sign it where "
            "the journal is, if its store was restored from a copy; else do not trust where it comes from"
        )
    return made is not None
