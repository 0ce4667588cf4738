"""Sit at a server: what it lists, all of one request, and the words that it takes, by the server's time.

Who decides is the person of the token. What a server says is drawn as everything that others wrote is, and a word names
the very request that was shown.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, LiteralString, cast

from ..client import AsyncClient, ServerError
from ..core.errors import Conflict, NotPending
from ..core.preview import Preview
from ..core.records import Word
from ..core.strict import parse
from ..inbox.listing import Filters, Listed, narrowed, wanted_of
from ..inbox.naming import Outcome
from ..journal.rows import RequestRow
from ..presenting.edit_preview import EditPreview
from ..presenting.shown_request import ShownRequest, bare_item
from .reading import Detail
from .signing import own_key

_MOST = 500  # rows of the page that is followed
_EVERY = 10.0  # seconds after which it is looked at once more, whatever the server told


class ServerRequest(ShownRequest):
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
        """Return the arguments that were changed, before and after, as the server tells."""
        return super().difference() if self._made is None else self._made.difference


class ServerSeat:
    """Sits at a server, as the person of a token."""

    def __init__(self, client: AsyncClient, person: str, keyfile: str = "") -> None:
        self._client = client
        self._keyfile = keyfile
        self._inbox = client.inbox
        self._names = dict[str, str]()  # by what was said: under which name, until the server answered
        self._person = person

    @property
    def place(self) -> LiteralString:
        """Return what is away when nothing can be read."""
        return "server"

    @property
    def person(self) -> str:
        """Return the id of who looks."""
        return self._person

    async def now(self) -> int:
        """Return the server's time, as its last answer told it."""
        return self._client.now()

    async def changes(self) -> AsyncGenerator[object]:
        """Yield at once, whenever something else waits, and every few seconds; raise where the stream is cut."""
        async with contextlib.aclosing(self._inbox.pages(patience=0, limit=_MOST)) as pages:
            coming = asyncio.ensure_future(anext(pages, None))
            try:
                while True:
                    coming = await _come(pages, coming)
                    yield None
            finally:
                coming.cancel()
                await asyncio.wait({coming})

    async def lists(self, chosen: Filters) -> Listed:
        """Return the list, as far as it is shown."""
        return narrowed(await self._inbox.list(mine=chosen.mine, **wanted_of(chosen)), chosen)

    async def row(self, name: str) -> RequestRow | None:
        """Return the row of a request, whatever became of it; None where there is none."""
        try:
            return await self._inbox.get(name)
        except NotPending:
            return None

    async def reads(self, name: str, before: Detail | None = None) -> Detail:
        """Return all of one request; what was seen and changed of it stays if it is still the one that was shown."""
        told = await self._inbox.detail(name)
        row, trail = told.request.row, [each.mark for each in told.trail]
        change: Any = row.request.difference
        if row.id != name or (change and not {"before", "after"} <= set(change)):
            raise ServerError("the server answers what no Keyturn server does; is the URL right?", 200)
        kept = before is not None and before.asking == (row.id, row.digest, row.revision)
        request = before.request if before is not None and kept else ServerRequest(bare_item(row))
        return Detail(row, request, told.standing.standing, told.context.context, trail, told.lines, told.ran)

    async def looked(self, row: RequestRow) -> None:
        """Put on record that a request is on the screen."""
        await self._inbox.looked(row)

    async def says(self, request: ShownRequest, word: str, *given: Any, **more: Any) -> RequestRow:
        """Say a word of the inbox about exactly what was shown; said again after a lost answer, it is the same word."""
        item = request.item
        shown = {"digest": item.digest, "revision": item.request.revision}
        what = repr((item.request_id, shown, word, given, sorted(more.items())))
        said: RequestRow = await self._once(
            what, lambda name: getattr(self._inbox, word)(item.request_id, *given, once=name, **shown, **more)
        )
        return said

    async def _once(self, what: str, saying: Callable[[str], Awaitable[Any]]) -> Any:
        """Say something under a name that it keeps until the server has answered."""
        name = self._names.setdefault(what, secrets.token_hex(16))
        try:
            made = await saying(name)
        except ServerError:
            raise  # nobody knows whether it was recorded: the name stays
        except Exception:
            self._names.pop(what, None)
            raise
        self._names.pop(what, None)
        return made

    async def alike(self, request: ShownRequest) -> Sequence[RequestRow]:
        """Return the open requests of the same tool with the same arguments."""
        rows = await self._inbox.alike(request.item.request_id)
        if request.item.digest not in [row.digest for row in rows if row.id == request.item.request_id]:
            raise Conflict("the request is no longer the one that was shown; look at it again")
        return rows

    async def says_all(self, word: str, rows: Sequence[RequestRow], note: str | None) -> Sequence[Outcome]:
        """Say one word of several requests, of each as it was shown."""
        deciding: Any = self._inbox.approve_all if word == "approve" else self._inbox.reject_all
        what = repr((word, [(row.id, row.digest) for row in rows], note))
        made: Sequence[Outcome] = await self._once(what, lambda name: deciding(rows, note=note, once=name))
        return made

    async def edits(self, request: ShownRequest, typed: Mapping[str, str]) -> None:
        """Change arguments as they were typed, as the server's tool checks them."""
        shown = cast("ServerRequest", request)
        item, wanted = request.item, shown.wanted_of(typed)
        named: Any = {"digest": item.digest, "revision": item.request.revision}
        shown.checked(wanted, await self._inbox.preview_edit(item.request_id, wanted, **named))

    async def challenge(self, request: ShownRequest, verdict: Word, words: dict[str, Any]) -> bytes:
        """Return what this person signs, made here of what was shown; a server that wants another is refused."""
        return await self._inbox.to_sign(request.item.request, verdict, **words)

    async def key(self) -> Path:
        """Return the file of the ssh key that this person signs with."""
        return own_key(self.person, await self._client.people.keys(self.person), self._keyfile)

    def signing(self, row: RequestRow) -> str:
        """Return the command that approves a request with a signature."""
        return f"keyturn approve {row.id[:12]} --digest {row.digest[:16]} --server {self._client.url} --sign"


async def _come(pages: AsyncGenerator[Any], coming: asyncio.Future[Any]) -> asyncio.Future[Any]:
    """Wait for a page, not for long; return what waits for the next one, or raise why none comes."""
    if not (await asyncio.wait({coming}, timeout=_EVERY))[0]:
        return coming
    coming.result()
    return asyncio.ensure_future(anext(pages, None))
