"""The inbox of a server for the commands that list, show and decide: what they ask of an `Inbox`, over HTTP.

Who decides is the person of the token. An edit is tried at the server, by the code of its tool.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.errors import Conflict, NotAllowed
from ...directory.login import Login
from ...journal.rows import ALL, GrantRow, Query, RequestRow
from ...presenting.trail import Mark
from ...presenting.words_before import NOTHING_SAID, Context
from ...proofs import scheme as scheme_named
from ...proofs.base import PublicKey
from ..printing import print_labelled


class RemotePeople:
    """Says who the token's person is, and which keys people have."""

    def __init__(self, people: Any) -> None:
        self._people = people

    async def login(self, _token: str, scope: str = "") -> Login:
        """Return whose token the client has, if it is good for this."""
        me = await self._people.me()
        if scope and scope not in me.scopes:
            raise NotAllowed(f"this token is not good for {scope!r}; its scopes are {', '.join(me.scopes)}")
        return Login(me.person.id, tuple(me.scopes))

    async def keys(self, person: str) -> Sequence[Any]:
        """Return the keys that a person enrolled."""
        found: Sequence[Any] = await self._people.keys(person)
        return found

    def read_key(self, scheme: str, text: str) -> PublicKey:
        """Read a key that is at hand."""
        return scheme_named(scheme).enrol(text)


class RemoteInbox:
    """Lists and decides what waits at a server."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self._inbox = client.inbox
        self.url: str = client.url
        self.people = RemotePeople(client.people)

    async def list(
        self, query: Query = ALL, *, for_: Any = None, unclaimed: bool = False, by: Any = None
    ) -> Sequence[RequestRow]:
        """Return the rows of a query; `for_` is the person of the token, as whom it is read in any case."""
        found: Sequence[RequestRow] = await self._inbox.page(query, mine=for_ is not None, unclaimed=unclaimed)
        return found

    async def get(self, request: str, *, by: Any = None) -> RequestRow:
        """Return one request."""
        found: RequestRow = await self._inbox.get(request)
        return found

    async def now(self) -> int:
        """Return the server's time."""
        return int(self.client.now())

    async def context(self, row: RequestRow) -> Context:
        """Return what was said before a call, with how it presses; nothing where the token is not good for "read"."""
        try:
            told = await self._inbox.detail(row.id)
        except NotAllowed as error:
            print_labelled("what was said before is not shown", str(error))
            return NOTHING_SAID
        seen = told.request.row
        if (seen.id, seen.digest, seen.revision) != (row.id, row.digest, row.revision):
            raise Conflict("the request is no longer the one that was shown; look at it again")
        return told.context.context

    async def trail(self, row: RequestRow) -> list[Mark]:
        """Return what happened to the call of a request so far; nothing where the token lacks the scope "read"."""
        try:
            return [seen.mark for seen in (await self._inbox.detail(row.id)).trail]
        except NotAllowed:
            return []

    async def alike(self, request: str, *, by: Any = None, **_shown: Any) -> Sequence[RequestRow]:
        """Return the open requests of the same tool with the same arguments."""
        found: Sequence[RequestRow] = await self._inbox.alike(request)
        return found

    async def grants(self, query: Query = ALL) -> Sequence[GrantRow]:
        """Return standing decisions."""
        after = None if query.after is None else f"{query.after[0]}.{query.after[1]}"
        found = await self._inbox.grants(run=query.run, state=query.state, limit=query.limit, after=after)
        return [each.row for each in found]

    def __getattr__(self, word: str) -> Any:
        """Return a word of the inbox, said by the person of the token."""
        said = getattr(self._inbox, word)

        async def saying(*args: Any, by: Any = None, **words: Any) -> Any:
            return await said(*args, **words)

        return saying
