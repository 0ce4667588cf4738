"""The inbox of one person, which every face asks: pages, API, terminal, command line, chat and channels.

`Inbox.as_person` gives it at a journal, and `AsyncInbox` of the client is it at a server. Nobody passes who decides. A
new verdict is a row of `_METHODS`, and a method of both.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple, Protocol, Unpack, cast

from ..core.preview import Preview
from ..core.records import Word
from ..core.request import Request
from ..engine.views.items import ToolApprovalItem
from ..journal.rows import GrantRow, Query, RequestRow
from ..policies.grants import Grant
from ..presenting.edit_preview import EditPreview
from ..presenting.facts import RequestFacts
from .naming import Naming, Outcome, Shown

Verdict = Literal[
    "approve", "edit", "reject", "ask_back", "answer", "ran", "did_not_run", "retry", "right", "wrong", "withdraw"
]  # fmt: skip
Marking = Literal["take", "let_go", "snooze", "wake"]

_METHODS: dict[Verdict, tuple[str, dict[str, str]]] = {
    "approve": ("approve", {}),
    "edit": ("approve", {}),
    "reject": ("reject", {}),
    "ask_back": ("ask_back", {}),
    "answer": ("answer", {}),
    "ran": ("resolve", {"outcome": "ran"}),
    "did_not_run": ("resolve", {"outcome": "did_not_run"}),
    "retry": ("resolve", {"outcome": "retry"}),
    "right": ("review", {"verdict": "right"}),
    "wrong": ("review", {"verdict": "wrong"}),
    "withdraw": ("withdraw", {}),
}
_SIGNED = ("edit", "seen", "output", "message", "note", "break_glass", "undo", "digest", "revision")
#: The verdicts that a person can sign; a review is signed by nobody.
SIGNABLE: tuple[Verdict, ...] = tuple(each for each, (method, _) in _METHODS.items() if method != "review")
VERDICTS: tuple[Verdict, ...] = tuple(_METHODS)
MARKINGS: tuple[Marking, ...] = ("take", "let_go", "snooze", "wake")


class Details(Naming, total=False):
    """Holds what goes with a verdict; `message` is the question of one that asks back."""

    edit: Mapping[str, Any] | str | None
    seen: Preview | None
    grant: Grant | None
    break_glass: bool
    undo: str | None
    message: str | None
    always: bool
    output: Any
    once: str | None


class InboxOwner(NamedTuple):
    """Says whose inbox it is; `verified` where they logged in, so that it is more than a name.

    >>> InboxOwner("ada", verified=True).id
    'ada'
    """

    id: str
    verified: bool


class PublicKeyOf(Protocol):
    """Describes a key that a person enrolled."""

    @property
    def id(self) -> str:
        """Return its fingerprint."""
        ...

    @property
    def person(self) -> str:
        """Return whose it is."""
        ...

    @property
    def scheme(self) -> str:
        """Return how it signs."""
        ...

    @property
    def counts(self) -> bool:
        """Return whether its signatures are accepted."""
        ...


class PersonalInbox(Protocol):
    """Lists, shows and decides requests as one person."""

    @property
    def server(self) -> str | None:
        """Return the URL of the server whose inbox it is; None for a journal."""
        ...

    async def who(self, scope: str = "") -> InboxOwner:
        """Return whose inbox it is, or raise `NotAllowed` where their login is not good for this scope."""
        ...

    async def now(self) -> int:
        """Return the time there, in milliseconds."""
        ...

    def changes(self) -> AsyncGenerator[object]:
        """Yield at once, and whenever something else may be listed."""
        ...

    async def page(
        self, query: Query, *, mine: bool = False, unclaimed: bool = False, shown: bool = True
    ) -> Sequence[RequestRow]:
        """Return the rows of a query; with `mine`, those only that this person may decide and did not put off.

        That they read them is on record, where the directory says so; a journal leaves it out if they are not `shown`.
        """
        ...

    async def row(self, request: str) -> RequestRow | None:
        """Return the row of a request as lists have it; None where there is none."""
        ...

    async def get(self, request: str) -> RequestRow:
        """Return one request, whatever became of it, or raise `NotPending`."""
        ...

    async def facts(self, request: str) -> RequestFacts:
        """Return one request with all that stands beside it."""
        ...

    async def item(self, request: str) -> ToolApprovalItem | None:
        """Return an open request with its tool at hand; None at a server, where the tool is."""
        ...

    async def alike(self, request: Shown) -> Sequence[RequestRow]:
        """Return the open requests of the same tool with the same arguments, this one among them."""
        ...

    async def looked(self, request: Shown, **shown: Unpack[Naming]) -> None:
        """Record that this person has a request on the screen."""
        ...

    async def decide(self, request: Shown, verdict: Verdict, **details: Unpack[Details]) -> RequestRow:
        """Record a verdict on exactly what was shown."""
        ...

    async def decide_all(
        self,
        requests: Sequence[RequestRow | Request],
        verdict: Literal["approve", "reject"],
        **details: Unpack[Details],
    ) -> Sequence[Outcome]:
        """Record one verdict on each of several requests; one that is refused holds up none of the others."""
        ...

    async def mark(
        self,
        request: Shown,
        mark: Marking,
        *,
        until: datetime | None = None,
        lasts: str | None = None,
        once: str | None = None,
        **shown: Unpack[Naming],
    ) -> RequestRow:
        """Claim a request or let it go, snooze it or end that, once under a name."""
        ...

    async def withdraw(
        self, request: Shown, *, run: str | None = None, once: str | None = None, **shown: Unpack[Naming]
    ) -> RequestRow:
        """Withdraw one's vote on an open request, or an approval before its call starts, once under a name."""
        ...

    async def preview_edit(self, request: Shown, edit: Mapping[str, Any], **shown: Unpack[Naming]) -> EditPreview:
        """Return what approving a request with these arguments would run."""
        ...

    async def challenge(self, request: Shown, verdict: Verdict, **details: Unpack[Details]) -> bytes:
        """Return the bytes that this person signs to say so."""
        ...

    async def keys(self) -> Sequence[PublicKeyOf]:
        """Return the keys that this person enrolled."""
        ...

    async def grant_rows(self, query: Query) -> Sequence[GrantRow]:
        """Return standing decisions."""
        ...

    async def revoke(self, run: str, grant: str) -> None:
        """Revoke a standing decision."""
        ...


def method_of(verdict: Verdict, details: Details) -> tuple[str, dict[str, Any]]:
    """Return the method of an inbox that records a verdict, and what it is given.

    >>> method_of("ask_back", {"message": "Which account?"})
    ('ask_back', {'question': 'Which account?'})
    >>> method_of("ran", {"output": "paid"})
    ('resolve', {'outcome': 'ran', 'output': 'paid'})
    """
    method, fixed = _METHODS[verdict]
    given = cast("dict[str, Any]", fixed | details)
    if method == "ask_back":
        given["question"] = given.pop("message", None) or ""
    return method, given


def signed_of(verdict: Verdict, details: Details) -> tuple[Word, dict[str, Any]]:
    """Return the word of the record that a person signs, and what is signed along with it.

    >>> signed_of("ask_back", {"message": "Which account?", "once": "7"})
    ('reject', {'message': 'Which account?', 'asks_back': True})
    """
    said = {name: value for name, value in details.items() if name in _SIGNED and value is not None}
    if verdict == "ask_back":
        return "reject", said | {"asks_back": True}
    if verdict == "approve":
        said.pop("seen", None)
    return cast("Word", verdict), said
