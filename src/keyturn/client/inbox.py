"""The inbox of a server: list, show and decide requests with the words of `Inbox`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Unpack

from ..core.errors import Conflict, KeyturnError, NotAllowed, NotPending, UserError
from ..core.preview import Preview
from ..core.records import Word
from ..core.request import Request
from ..inbox.naming import Naming, Outcome, Shown, shown_of
from ..inbox.personal import Details, InboxOwner, Marking, Verdict, method_of, signed_of
from ..inbox.signed_words import challenge_of, check_shown
from ..journal.rows import GrantRow, Query, RequestRow
from ..policies.grants import Grant
from ..presenting.edit_preview import EditPreview
from ..presenting.facts import RequestFacts
from ..wire import bodies
from ..wire.detail import RequestDetail
from ..wire.people import KeySeen, KeysSeen, Me
from ..wire.responses import Decided, Done, Form, GrantPage, GrantSeen, Outcomes, RequestPage, RequestSeen, ToSign
from .naming import Names, SentWords, body_of, grant_said, length_of
from .sending import PATIENCE, Sender, ServerError, StreamBreaks, after_of, read, told_error

_MOST = 500  # rows of the page that is followed
_EVERY = 10.0  # seconds after which it is looked at once more, whatever the server sent
_SIGNED = ("output", "message", "note", "break_glass", "asks_back", "undo")


class AsyncInbox:
    """Lists and decides the pending requests of a server.

    Who decides is the person of the token.
    """

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self._me: Me | None = None
        self._names = Names()

    @property
    def server(self) -> str:
        """Return the URL of the server."""
        return self._sender.url

    async def who(self, scope: str = "") -> InboxOwner:
        """Return whose inbox it is, or raise `NotAllowed` where the token is not good for this scope."""
        me = await self._own()
        if scope and scope not in me.scopes:
            raise NotAllowed(f"this token does not allow {scope!r}; its scopes are {', '.join(me.scopes)}")
        return InboxOwner(me.person.id, verified=True)

    async def _own(self) -> Me:
        self._me = self._me or await self._sender.get("/me", Me)
        return self._me

    async def now(self) -> int:
        """Return the server's time in milliseconds, as its last answer has it."""
        return self._sender.now()

    async def changes(self) -> AsyncGenerator[object]:
        """Yield at once, whenever something else is listed, and every few seconds; raise where the stream is cut."""
        pages = self.pages(patience=0, limit=_MOST)
        coming = asyncio.ensure_future(anext(pages, None))
        try:
            while True:
                coming = await _next_page(pages, coming)
                yield None
        finally:
            coming.cancel()
            await asyncio.wait({coming})  # cancelled here as well, it leaves the pages to the task that reads them
            await pages.aclose()

    async def list(self, *, mine: bool = False, unclaimed: bool = False, **wanted: Any) -> Sequence[RequestRow]:
        """Return requests by when they were asked, the open ones unless `state` says otherwise, at most `limit`.

        With `mine`, only those that you may decide and did not put off; with `unclaimed`, none that somebody else is
        on. `wanted` are the fields of a `Query`.
        """
        named: dict[str, Any] = wanted | {"for": "me" if mine else None, "unclaimed": unclaimed or None}
        pages = self._sender.pages("/requests", RequestPage, int(named.pop("limit", 100)), **named)
        return [each.row async for page in pages for each in page.requests]

    async def page(
        self, query: Query, *, mine: bool = False, unclaimed: bool = False, shown: bool = True
    ) -> Sequence[RequestRow]:
        """Return the rows of a query, as a store does; that you read them is on record, `shown` or not."""
        named: dict[str, Any] = {name: getattr(query, name) for name in ("run", "agent", "tool", "kind")}
        named |= {"state": query.state or "all", "after": after_of(query), "newest": query.newest}
        named |= {"for": "me" if mine else None, "unclaimed": unclaimed}
        pages = self._sender.pages("/requests", RequestPage, query.limit, **named)
        return [each.row async for page in pages for each in page.requests]

    async def pages(
        self, *, mine: bool = False, patience: int = PATIENCE, **wanted: Any
    ) -> AsyncGenerator[Sequence[RequestRow]]:
        """Yield what waits, now and whenever it is something else, over breaks of the connection.

        More than `patience` breaks in a row raise `ServerError`.
        """
        last, breaks = None, StreamBreaks(patience)
        while True:
            try:
                named: dict[str, Any] = wanted | {"for": "me" if mine else None}
                async for name, data in self._sender.events("/requests/stream", last, **named):
                    page = read(data, RequestPage)
                    last = name
                    breaks.came()
                    yield [each.row for each in page.requests]
                breaks.ended()
            except ServerError as error:
                breaks.cut(error)
            await breaks.pause()

    async def row(self, request: str) -> RequestRow | None:
        """Return the row of a request, whatever became of it; None where there is none."""
        try:
            return await self.get(request)
        except NotPending:
            return None

    async def get(self, request: str) -> RequestRow:
        """Return one request, whatever became of it, or raise `NotPending`."""
        return (await self._sender.get(f"/requests/{request}", RequestSeen)).row

    async def detail(self, request: str) -> RequestDetail:
        """Return one request with what stands beside it: what you can do, what was said, and what happened to it."""
        return await self._sender.get(f"/requests/{request}/detail", RequestDetail)

    async def facts(self, request: str) -> RequestFacts:
        """Return one request with all that stands beside it, as it is shown at a journal."""
        found = (await self.detail(request)).facts
        change: Any = found.row.request.difference
        if found.row.id != request or (change and not {"before", "after"} <= set(change)):
            raise ServerError("the response is not from a Keyturn server; check the URL", 200)
        return found

    async def item(self, request: str) -> None:
        """Return None: the tool of a request is at the server."""

    async def form(self, request: str) -> Form:
        """Return what an edit form is made of: the schema of the tool's arguments."""
        return await self._sender.get(f"/requests/{request}/form", Form)

    async def alike(self, request: Shown) -> Sequence[RequestRow]:
        """Return the open requests of the same tool with the same arguments, of whatever run."""
        name = request if isinstance(request, str) else shown_of(request, {}).id
        page = await self._sender.get(f"/requests/{name}/alike", RequestPage)
        found = [each.row for each in page.requests]
        while page.next is not None:
            page = await self._sender.get(f"/requests/{name}/alike", RequestPage, after=page.next)
            found += [each.row for each in page.requests]
        shown = None if isinstance(request, str) else shown_of(request, {}).digest
        if shown is not None and shown not in [row.digest for row in found if row.id == name]:
            raise Conflict("the request is no longer the one that was shown; look at it again")
        return found

    async def looked(self, request: Shown, **words: Unpack[Naming]) -> None:
        """Note that you have a request on the screen, as it was shown."""
        name, body = body_of(request, bodies.Shown, words, {})
        await self._sender.post(f"/requests/{name}/look", Done, body)

    async def review(
        self, request: Shown, verdict: Literal["right", "wrong"], **words: Unpack[SentWords]
    ) -> RequestRow:
        """Say whether a call was right or wrong to let run."""
        name, body = body_of(request, bodies.Review, words, {"verdict": verdict})
        return (await self._sender.post(f"/requests/{name}/review", RequestSeen, body)).row

    async def decide(self, request: Shown, verdict: Verdict, **details: Unpack[Details]) -> RequestRow:
        """Record a verdict on exactly what was shown; repeated after a lost answer, it is recorded once."""
        shown = shown_of(request, {"digest": details.get("digest"), "revision": details.get("revision")})
        method, given = method_of(verdict, details)

        async def recorded(once: str) -> RequestRow:
            return await getattr(self, method)(request, **{"once": once} | given)

        return await self._names.once(repr((shown, verdict, sorted(details.items()))), recorded)

    async def decide_all(
        self,
        requests: Sequence[RequestRow | Request],
        verdict: Literal["approve", "reject"],
        **details: Unpack[Details],
    ) -> Sequence[Outcome]:
        """Record one verdict on each of several requests; one that is refused holds up none of the others."""
        recording, more = (self.approve_all, "undo") if verdict == "approve" else (self.reject_all, "message")
        given: dict[str, Any] = {name: details.get(name) for name in ("note", more)}

        async def recorded(once: str) -> Sequence[Outcome]:
            return await recording(requests, once=details.get("once") or once, **given)

        return await self._names.once(repr((verdict, [(row.id, row.digest) for row in requests], given)), recorded)

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
        return await self._marked(request, mark, {"once": once, **shown}, until, lasts)

    async def take(
        self, request: Shown, *, until: datetime | None = None, lasts: str | None = None, **words: Unpack[SentWords]
    ) -> RequestRow:
        """Say that you are on it."""
        return await self._marked(request, "take", words, until, lasts)

    async def let_go(self, request: Shown, **words: Unpack[SentWords]) -> RequestRow:
        """Say that you are not on it any more."""
        return await self._marked(request, "let_go", words)

    async def snooze(
        self, request: Shown, *, until: datetime | None = None, lasts: str | None = None, **words: Unpack[SentWords]
    ) -> RequestRow:
        """Put a request off, for yourself alone."""
        return await self._marked(request, "snooze", words, until, lasts)

    async def wake(self, request: Shown, **words: Unpack[SentWords]) -> RequestRow:
        """Have a request back that you put off."""
        return await self._marked(request, "wake", words)

    async def preview_edit(self, request: Shown, edit: Mapping[str, Any], **words: Unpack[Naming]) -> EditPreview:
        """Return what approving a request with these arguments would run, as its tool checks it; nothing is recorded.

        Secrets are marks; one that is left as it is keeps its value. Approve it with `edit=` and `seen=made.would`.
        """
        name, body = body_of(request, bodies.PreviewEdit, words, {"edit": dict(edit)})
        return await self._sender.post(f"/requests/{name}/preview_edit", EditPreview, body)

    async def approve(
        self,
        request: Shown,
        *,
        edit: dict[str, Any] | str | None = None,
        grant: Grant | None = None,
        seen: Preview | None = None,
        break_glass: bool = False,
        undo: str | float | None = None,
        **words: Unpack[SentWords],
    ) -> RequestRow:
        """Approve this call, with other arguments, or with a grant; `undo` ("5s") delays its start, to withdraw it."""
        given = None if grant is None else grant_said(grant)
        more: dict[str, Any] = {"edit": edit, "grant": given, "seen": seen, "break_glass": break_glass}
        more["undo"] = None if undo is None else length_of(undo)
        return await self._decided(request, "approve", bodies.Approve, words, more)

    async def reject(
        self, request: Shown, *, message: str | None = None, always: bool = False, **words: Unpack[SentWords]
    ) -> RequestRow:
        """Reject the call; its model is told `message`."""
        return await self._decided(request, "reject", bodies.Reject, words, {"message": message, "always": always})

    async def ask_back(self, request: Shown, question: str, **words: Unpack[SentWords]) -> RequestRow:
        """Ask the agent back: the call does not run, and its model answers the question."""
        return await self._decided(request, "ask_back", bodies.AskBack, words, {"question": question})

    async def answer(self, request: Shown, output: object, **words: Unpack[SentWords]) -> RequestRow:
        """Give the call's result in its tool's place, or what its tool asked for."""
        return await self._decided(request, "answer", bodies.Answer, words, {"output": output})

    async def resolve(
        self, request: Shown, outcome: Word, output: object = None, **words: Unpack[SentWords]
    ) -> RequestRow:
        """Record what became of a call in doubt."""
        return await self._decided(request, "resolve", bodies.Resolve, words, {"outcome": outcome, "output": output})

    async def withdraw(
        self, request: Shown, *, run: str | None = None, once: str | None = None, **words: Unpack[Naming]
    ) -> RequestRow:
        """Withdraw your vote on an open request, or an approval before its call starts; `once` is a key of yours."""
        name, body = body_of(request, bodies.Withdraw, words, {"run": run})
        return (await self._sender.post(f"/requests/{name}/withdraw", RequestSeen, body, once)).row

    async def challenge(self, request: Shown, verdict: Verdict, **details: Unpack[Details]) -> bytes:
        """Return the bytes that you sign to say so."""
        word, signed = signed_of(verdict, details)
        return await self.to_sign(request, word, **signed)

    async def keys(self) -> Sequence[KeySeen]:
        """Return the keys that you enrolled."""
        return (await self._sender.get("/keys", KeysSeen, person=(await self._own()).person.id)).keys

    async def to_sign(self, request: Shown, verdict: Word, **words: Any) -> bytes:
        """Return what somebody signs who decides so, with the very words of the decision.

        It is made here, of the request as it was shown; what the server would have signed is refused where it differs.
        """
        asked = await self._asked(request, words)
        if words.get("edit") is not None:
            raise UserError("an edit is signed where its tool is: name the app and its journal")
        tenant = (await self._own()).tenant
        said_so: dict[str, Any] = {name: words[name] for name in _SIGNED if name in words}
        own = challenge_of(tenant, asked, verdict, **said_so)
        name, body = body_of(asked, bodies.Signing, {}, words | {"verdict": verdict, "digest": asked.digest})
        told = await self._sender.post(f"/requests/{name}/to_sign", ToSign, body)
        check_shown(asked, told.tool or {})
        if told.challenge != own:
            raise NotAllowed("nothing was signed: the server wants something else signed than what it showed")
        return own

    async def _asked(self, request: Shown, words: Mapping[str, Any]) -> Request:
        """Return the request that was shown; of one that is named by its id, what it is now if that was shown."""
        named = shown_of(request, {"digest": words.get("digest"), "revision": words.get("revision")})
        found = await self.get(request) if isinstance(request, str) else request
        asked = found if isinstance(found, Request) else found.request
        if (asked.id, named.digest or asked.digest) != (named.id, asked.digest) or (
            named.revision not in (None, asked.revision)
        ):
            raise Conflict("the request is no longer the one that was shown; look at it again")
        return asked

    async def approve_all(
        self,
        requests: Iterable[RequestRow | Request],
        *,
        note: str | None = None,
        undo: str | None = None,
        once: str | None = None,
    ) -> list[Outcome]:
        """Approve each of these requests, as it was shown; return what became of each, `once` under this name."""
        named = [bodies.OneOf(id=each.id, digest=each.digest) for each in requests]
        return await self._several("/approve_all", bodies.ApproveAll(requests=named, note=note, undo=undo), once)

    async def reject_all(
        self,
        requests: Iterable[RequestRow | Request],
        *,
        message: str | None = None,
        note: str | None = None,
        once: str | None = None,
    ) -> list[Outcome]:
        """Reject each of these requests, as it was shown; return what became of each, `once` under this name."""
        named = [bodies.OneOf(id=each.id, digest=each.digest) for each in requests]
        return await self._several("/reject_all", bodies.RejectAll(requests=named, message=message, note=note), once)

    async def grants(
        self, *, run: str | None = None, state: str | None = None, limit: int = 100, after: str | None = None
    ) -> list[GrantSeen]:
        """Return standing decisions, by run and id; `after` is the key of the last one before, as `0.run/id`."""
        pages = self._sender.pages("/grants", GrantPage, limit, run=run, state=state, after=after)
        return [each async for page in pages for each in page.grants]

    async def grant_rows(self, query: Query) -> Sequence[GrantRow]:
        """Return the rows of standing decisions, as a store does."""
        found = await self.grants(run=query.run, state=query.state, limit=query.limit, after=after_of(query))
        return [each.row for each in found]

    async def revoke(self, run: str, grant: str) -> None:
        """Revoke a standing decision; what it let run before stays."""
        await self._sender.post(f"/runs/{run}/grants/{grant}/revoke", Done, bodies.Said())

    async def _several(self, path: str, body: Any, once: str | None) -> list[Outcome]:
        made = (await self._sender.post(path, Outcomes, body, once)).outcomes
        told = [(each, None if each.error is None else told_error(each.error)) for each in made]
        return [Outcome(each.request, None if why else await self._recorded(each.request), why) for each, why in told]

    async def _marked(
        self, request: Shown, word: str, words: SentWords, until: datetime | None = None, lasts: str | None = None
    ) -> RequestRow:
        timed = word in ("take", "snooze")
        kind = bodies.Until if timed else bodies.Shown
        name, body = body_of(request, kind, words, {"until": until, "lasts": lasts} if timed else {})
        return (await self._sender.post(f"/requests/{name}/{word}", RequestSeen, body, words.get("once"))).row

    async def _decided(
        self, request: Shown, word: str, kind: object, words: SentWords, more: dict[str, Any]
    ) -> RequestRow:
        name, body = body_of(request, kind, words, more)
        await self._sender.post(f"/requests/{name}/{word}", Decided, body, words.get("once"))
        return await self._recorded(name)

    async def _recorded(self, request: str) -> RequestRow:
        """Return a request on which a word was recorded; that it cannot be read says nothing against that."""
        try:
            return await self.get(request)
        except KeyturnError as error:
            error.uncertain = True
            raise


async def _next_page(pages: AsyncGenerator[Any], coming: asyncio.Future[Any]) -> asyncio.Future[Any]:
    """Wait for a page, not for long; return the one after it, or raise why none comes."""
    if not (await asyncio.wait({coming}, timeout=_EVERY))[0]:
        return coming
    coming.result()
    return asyncio.ensure_future(anext(pages, None))
