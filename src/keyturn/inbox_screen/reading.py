"""Sit at the inbox of one person: a list, all of one request, and the verdicts that name the request as it was shown.

At a server it is the same, but that an edit is checked there, by the tool.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, LiteralString, NamedTuple, Unpack, cast

from ..core.errors import Conflict, KeyturnError
from ..core.preview import Preview
from ..core.strict import parse
from ..inbox.listing import Filters, Listed, first_page
from ..inbox.naming import Naming, Outcome
from ..inbox.personal import Details, Marking, PersonalInbox, Verdict
from ..inbox.signing_key import signing_key
from ..journal.rows import RequestRow
from ..presenting.asking import Standing, mark_of
from ..presenting.edit_preview import EditPreview
from ..presenting.exchange import Question
from ..presenting.message_context import Context
from ..presenting.notifications import Notification
from ..presenting.recorded import Recorded
from ..presenting.shown_request import ShownRequest, bare_item
from ..presenting.trail import TrailMark

_SIGN_IN = "Sign in: open the inbox with --token-file FILE, or set KEYTURN_TOKEN."


class RemoteRequest(ShownRequest):
    """Holds a waiting call of a server, which alone can check a change of it."""

    _made: EditPreview | None = None

    @property
    def editable(self) -> bool:
        """Return whether there are named arguments that may be changed."""
        return "edit" in self.item.request.verdicts and isinstance(self.item.params, dict)

    @property
    def arguments(self) -> Any:
        """Return what would run if it were approved now, or what is asked; secrets are redacted."""
        return super().arguments if self._made is None else self._made.arguments

    def wanted_of(self, typed: Mapping[str, str]) -> dict[str, Any]:
        """Return all arguments, some of them as they were typed."""
        now = cast("dict[str, Any]", self.true_arguments)
        given = {name: text if isinstance(now.get(name), str) else parse(text) for name, text in typed.items()}
        return {**now, **given}

    def checked(self, wanted: dict[str, Any], made: EditPreview) -> None:
        """Take a change that the server checked, as it drew it."""
        if (made.request, made.digest) != (self.item.request_id, self.item.digest):
            raise Conflict("the server checked a change of another request; look at it again")
        self.edit = wanted
        self._note_typed(wanted)
        self._made = made
        self._edited = made.would
        self.seen_whole = False

    def _true(self) -> dict[str, Any]:
        """Return the arguments as the server shows them: marks stand for what is secret."""
        return cast("dict[str, Any]", self.item.params)

    def difference(self) -> Preview:
        """Return the arguments that were changed, before and after, as the server has them."""
        return super().difference() if self._made is None else self._made.difference


class Detail(NamedTuple):
    """Holds all that is shown of one request."""

    row: RequestRow
    request: ShownRequest
    standing: Standing
    context: Context
    trail: Sequence[TrailMark]
    head: int
    ran: bool
    notified: Sequence[Notification] = ()
    recorded: Recorded | None = None
    missed: bool = False
    thread: Sequence[Question] = ()
    people: Sequence[str] = ()

    @property
    def mark(self) -> str:
        """Return which mark stands for it."""
        return mark_of(self.row)

    @property
    def asking(self) -> tuple[str, str, int]:
        """Return what a decision names: the request, as it was shown."""
        return self.row.id, self.row.digest, self.row.revision

    @property
    def state(self) -> tuple[object, ...]:
        """Return what differs where the request is not as it was shown."""
        row = self.row
        return row.digest, row.state, row.request.revision, len(row.request.votes), row.request.claim, row.expires_at


class InboxSeat:
    """Lists, reads and decides in the inbox of one person; `keyfile` is what signs, "" for the key in ~/.ssh.

    `unverified` says that they only gave their name, which decides nothing where the terms name approvers.
    """

    def __init__(self, inbox: PersonalInbox, person: str, keyfile: str = "", *, unverified: bool = False) -> None:
        self.inbox = inbox
        self.person = person
        self.unverified = unverified
        self._keyfile = keyfile

    @property
    def place(self) -> LiteralString:
        """Return what is away when nothing can be read."""
        return "journal" if self.inbox.server is None else "server"

    async def now(self) -> int:
        """Return the time there, in milliseconds."""
        return await self.inbox.now()

    def changes(self) -> AsyncGenerator[object]:
        """Yield at once, and whenever something else may be listed."""
        return self.inbox.changes()

    async def lists(self, chosen: Filters) -> Listed:
        """Return the list, as far as it is shown."""
        return await first_page(partial(self.inbox.page, mine=chosen.mine), chosen)

    async def row(self, name: str) -> RequestRow | None:
        """Return the row of a request, whatever became of it; None where there is none."""
        return await self.inbox.row(name)

    async def reads(self, name: str, before: Detail | None = None) -> Detail:
        """Return all of one request; what was seen and changed of it stays if it is still the one that was shown."""
        found = await self.inbox.facts(name)
        row = found.row
        kept = before is not None and before.asking == (row.id, row.digest, row.revision)
        request = before.request if before is not None and kept else await self._request(row)
        return Detail(
            row,
            request,
            self._with_remedy(found.standing),
            found.context,
            found.trail,
            found.lines,
            found.ran,
            found.notified,
            found.recorded,
            found.missed,
            found.thread,
            found.people,
        )

    def _with_remedy(self, found: Standing) -> Standing:
        """Add how to sign in to what keeps a bare name from deciding."""
        return found._replace(why=f"{found.why} {_SIGN_IN}") if self.unverified and found.why else found

    async def _request(self, row: RequestRow) -> ShownRequest:
        if self.inbox.server is not None:
            return RemoteRequest(bare_item(row))
        if row.state == "open":
            try:
                return ShownRequest(await self.inbox.item(row.id) or bare_item(row))
            except KeyturnError:  # its tool is not at hand: it can be shown, and not edited
                pass
        return ShownRequest(bare_item(row))

    async def looked(self, row: RequestRow) -> None:
        """Record that a request is on the screen."""
        await self.inbox.looked(row)

    async def decide(self, request: ShownRequest, verdict: Verdict, **details: Unpack[Details]) -> RequestRow:
        """Record a verdict on exactly what was shown."""
        return await self.inbox.decide(request.item.request_id, verdict, **{**named(request), **details})

    async def marks(self, request: ShownRequest, mark: Marking, lasts: str | None = None) -> RequestRow:
        """Claim what was shown or let it go, or snooze it."""
        return await self.inbox.mark(request.item.request_id, mark, lasts=lasts, **named(request))

    async def alike(self, request: ShownRequest) -> Sequence[RequestRow]:
        """Return the open requests of the same tool with the same arguments."""
        return await self.inbox.alike(request.item.request)

    async def decide_all(
        self, verdict: Literal["approve", "reject"], rows: Sequence[RequestRow], note: str | None
    ) -> Sequence[Outcome]:
        """Record one verdict on several requests, on each as it was shown."""
        return await self.inbox.decide_all(rows, verdict, note=note)

    async def edits(self, request: ShownRequest, typed: Mapping[str, str]) -> None:
        """Change arguments as they were typed, or raise what the tool has against it."""
        if not isinstance(request, RemoteRequest):
            request.put_all(typed)
            request.preview()
            return
        wanted = request.wanted_of(typed)
        request.checked(wanted, await self.inbox.preview_edit(request.item.request_id, wanted, **named(request)))

    async def challenge(self, request: ShownRequest, verdict: Verdict, details: Details) -> bytes:
        """Return the bytes that this person signs to say that of exactly what was shown."""
        return await self.inbox.challenge(request.item.request, verdict, **details)

    async def key(self) -> Path:
        """Return the file of the ssh key that this person signs with, or raise `UserError` with the remedy."""
        return await signing_key(self.inbox, self._keyfile)

    def signing(self, row: RequestRow) -> str:
        """Return the command that approves a request with a signature."""
        server = "" if self.inbox.server is None else f" --server {self.inbox.server}"
        return f"keyturn approve {row.id[:12]} --digest {row.digest[:16]}{server} --sign"


def named(request: ShownRequest) -> Naming:
    """Return what was shown, as a verdict names it."""
    item = request.item
    return Naming(digest=item.digest, revision=item.request.revision)
