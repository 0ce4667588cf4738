"""Record what people decide of requests, one by one and several at once, and standing decisions.

Besides the engine nothing else writes to a journal. A decision is decided by the core against the run as it stands and
appended with the rows that it changes; who comes second is told who was first. Its run is due from then on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any, Literal, Unpack, cast

import msgspec

from ..core import commands as cm
from ..core.errors import KeyturnError, NotPending, UserError
from ..core.preview import REDACTED, Preview, redact
from ..core.records import Word
from ..core.request import Request
from ..core.states import WAITING
from ..core.words import decided_before
from ..engine.facts import decisions
from ..engine.facts.reaches import reach_of
from ..engine.views.items import ToolApprovalItem
from ..journal.rows import ALL, GrantRow, Query, RequestRow
from ..policies.grants import Grant
from .beside import Beside
from .naming import By as By
from .naming import Naming, Outcome, Shown, named, shown_of
from .signed_words import Said, challenge_of

_PAGE = 500
#: How many requests without a shape in their column are read for a page of those that are alike.
LOOKS = 2_000


class Decisions(Beside):
    """Records decisions; `by` is a name, a `Decider(...)` or a login."""

    async def approve(
        self,
        request: Shown,
        *,
        by: By,
        edit: Mapping[str, Any] | str | None = None,
        grant: Grant | None = None,
        seen: Preview | None = None,
        break_glass: bool = False,
        **words: Unpack[Naming],
    ) -> RequestRow:
        """Approve exactly this call, or with other arguments, or from now on what a grant covers.

        With `break_glass`, alone and with a `note`, where the terms name a role that may: others are told.
        """
        shown = shown_of(request, words)
        log, waiting = await self._waiting(shown)
        now = await self._store.now()  # before its decider is admitted: what lets them decide holds at that time
        told = await self._words(by, words, waiting, glass=break_glass)
        if edit is not None:  # before the tool compares anything that they sent with the call
            decisions.check_may(waiting, told)
        made = None if edit is None else await self._edited(log, waiting, edit, seen)
        reach = reach_of(grant, log.run, self._store)
        said = decisions.approve(waiting, now, edit=made, grant=grant, reach=reach, broke_glass=break_glass, **told)
        if said.grant is not None:
            await self.people.check_grant(by, said.grant.expires_at)
        return await self._deliver(log, shown, said)

    async def reject(
        self,
        request: Shown,
        *,
        by: By,
        message: str | None = None,
        always: bool = False,
        **words: Unpack[Naming],
    ) -> RequestRow:
        """Reject the call; its model is told `message`.

        `always` rejects later calls of the tool in this run, too.
        """
        shown = shown_of(request, words)
        log, waiting = await self._waiting(shown)
        now = await self._store.now()
        said = decisions.reject(waiting, now, message=message, always=always, **await self._words(by, words, waiting))
        return await self._deliver(log, shown, said)

    async def ask_back(self, request: Shown, question: str, *, by: By, **words: Unpack[Naming]) -> RequestRow:
        """Ask the agent back: the call does not run, and its model answers the question and may propose it again."""
        shown = shown_of(request, words)
        log, waiting = await self._waiting(shown)
        now = await self._store.now()
        return await self._deliver(
            log, shown, decisions.ask_back(waiting, now, question, **await self._words(by, words, waiting))
        )

    async def answer(self, request: Shown, output: Any, *, by: By, **words: Unpack[Naming]) -> RequestRow:
        """Give the call's result in its tool's place, or what its tool asked for."""
        shown = shown_of(request, words)
        log, waiting = await self._waiting(shown)
        now = await self._store.now()
        return await self._deliver(
            log, shown, decisions.answer(waiting, now, output, **await self._words(by, words, waiting))
        )

    async def resolve(
        self,
        request: Shown,
        outcome: Literal["ran", "did_not_run", "retry"],
        output: Any = None,
        *,
        by: By,
        **words: Unpack[Naming],
    ) -> RequestRow:
        """Record what became of a call in doubt."""
        shown = shown_of(request, words)
        log, waiting = await self._waiting(shown)
        now = await self._store.now()
        said = decisions.resolve(waiting, now, outcome, output, **await self._words(by, words, waiting))
        return await self._deliver(log, shown, said)

    async def to_sign(
        self,
        request: Shown,
        verdict: Word,
        *,
        edit: Mapping[str, Any] | str | None = None,
        seen: Preview | None = None,
        output: Any = None,
        message: str | None = None,
        break_glass: bool = False,
        asks_back: bool = False,
        **words: Unpack[Naming],
    ) -> bytes:
        """Return what somebody signs who decides so, with the very words of the decision; it fits no other.

        Raises `Conflict` for a request that was decided, and `NotPending` for a review, which nobody signs.
        """
        log, waiting = await self._waiting(shown_of(request, words))
        call = log.run.calls.get(waiting.call)
        if call is None or call.state not in WAITING:
            if (before := log.run.decided.get(waiting.call)) is not None:
                raise decided_before(before)
            raise NotPending("there is nothing to sign: no call waits for that decision; get() says what it is")
        if (
            redact(cast("Any", edit), waiting.secrets) != edit
        ):  # equal challenges would tell that a secret was guessed right
            raise UserError(f"an edit is signed with {REDACTED} in the place of each secret: leave it as it is shown")
        made = None if edit is None else await self._edited(log, waiting, edit, seen)
        said = Said(
            output=output, message=message, break_glass=break_glass, asks_back=asks_back, note=words.get("note")
        )
        return challenge_of(self.people.tenant, waiting, verdict, made, **said)

    async def alike(
        self, request: Shown, query: Query = ALL, *, by: By | None = None, **words: Unpack[Naming]
    ) -> Sequence[RequestRow]:
        """Return the open requests of the same tool with the same arguments, this one among them, of whatever run.

        Their arguments are compared as they are. A call with secrets is like calls of its own run alone: elsewhere
        nobody can try which secret it has. `query` says which requests are looked at.
        """
        found: list[RequestRow] = []
        asked: Query | None = query
        while asked is not None:
            page, after = await self.alike_page(request, asked, **words)
            found += page
            asked = None if after is None else msgspec.structs.replace(asked, after=after)
        await self._read_by(by, "list", found)
        return found

    async def alike_page(
        self, request: Shown, query: Query = ALL, *, looks: int = LOOKS, **words: Unpack[Naming]
    ) -> tuple[Sequence[RequestRow], tuple[int, str] | None]:
        """Return a page of them, and where the next one begins, if there is one.

        The index of shapes gives a page. Of open requests without a shape in their column, which an earlier version
        wrote, no more than `looks` are read for it. Nobody is said to have read anything.
        """
        _, waiting = await self._waiting(shown_of(request, words))
        asked = msgspec.structs.replace(query, state="open", tool=waiting.tool, limit=_PAGE)
        found, ends = list[RequestRow](), list[tuple[int, str]]()
        if waiting.shape:
            same = msgspec.structs.replace(asked, shape=waiting.shape, tool=query.tool)  # it is of one tool anyway
            found += await self._store.requests(same)
            ends += [found[-1].place] if len(found) == _PAGE else []
        older = msgspec.structs.replace(asked, kind=query.kind or waiting.kind, shape="")
        for _ in range(-(-looks // _PAGE)):
            page = await self._store.requests(older)
            found += page
            if len(page) < _PAGE:
                break
            older = msgspec.structs.replace(older, after=page[-1].place)
            await asyncio.sleep(0)  # others are served meanwhile
        else:
            ends += [] if older.after is None else [older.after]
        alike = {row.id: row for row in found if (row.tool, row.shape) == (waiting.tool, waiting.shape)}
        return _up_to([*alike.values()], ends, newest=query.newest)

    async def alike_among(
        self, request: Shown, rows: Iterable[RequestRow], **words: Unpack[Naming]
    ) -> Sequence[RequestRow]:
        """Return those of some requests that are open, of the same tool and with the same arguments."""
        _, waiting = await self._waiting(shown_of(request, words))
        wanted = ("open", waiting.tool, waiting.shape)
        return [row for row in rows if (row.state, row.tool, row.shape) == wanted]

    async def approve_all(
        self, requests: Iterable[RequestRow | Request | ToolApprovalItem], *, by: By, note: str | None = None
    ) -> Sequence[Outcome]:
        """Approve each of these requests, as it was shown; return what became of each, in their order.

        Each is decided by itself: one that is refused holds up none of the others.
        """
        return [await _outcome(each, self.approve(each, by=by, note=note)) for each in _several(requests)]

    async def reject_all(
        self,
        requests: Iterable[RequestRow | Request | ToolApprovalItem],
        *,
        by: By,
        message: str | None = None,
        note: str | None = None,
    ) -> Sequence[Outcome]:
        """Reject each of these requests, as it was shown; return what became of each, in their order."""
        return [
            await _outcome(each, self.reject(each, by=by, message=message, note=note)) for each in _several(requests)
        ]

    async def grants(self, query: Query = ALL) -> Sequence[GrantRow]:
        """Return standing decisions."""
        return await self._store.grants(query)

    async def revoke(self, run: str, grant: str, *, by: By) -> None:
        """Revoke a standing decision; what it let run before stays.

        Anybody may revoke an approval. A rejection is revoked by those whom the terms of its call let decide.
        """
        log = await self._read(run)
        given = log.run.grants.get(named(grant, "a grant"))
        who = await self._who(by, None if given is None else given.terms, log.run.requester)
        await self._commit(log, cm.Revoke(grant, who))


def _up_to(
    rows: list[RequestRow], ends: list[tuple[int, str]], *, newest: bool
) -> tuple[list[RequestRow], tuple[int, str] | None]:
    """Return the rows in order up to the first place that both readings reached, and that place if either goes on."""
    rows.sort(key=lambda row: row.place, reverse=newest)
    if not ends:
        return rows, None
    end = max(ends) if newest else min(ends)
    return [row for row in rows if (row.place >= end if newest else row.place <= end)], end


def _several(requests: Iterable[Shown]) -> list[Shown]:
    """Return requests that were shown, all of them: none of them is decided where one is none."""
    listed: list[Shown] = [requests] if isinstance(requests, str) else [*requests]
    for each in listed:
        shown_of(each, Naming())
    return listed


async def _outcome(request: Shown, deciding: Coroutine[Any, Any, RequestRow]) -> Outcome:
    name = shown_of(request, Naming()).id
    try:
        return Outcome(name, await deciding)
    except KeyturnError as error:
        return Outcome(name, error=error)
