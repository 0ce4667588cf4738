"""Sit at a server: a command asks it over HTTP, as the person of its token, who may there what the server lets them.

Nothing that a server says is believed where something is signed: the bytes are made here, of what was shown.
"""

from __future__ import annotations

import argparse
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from datetime import datetime
from typing import Any

from ...audit.decisions.entry import AuditEntry
from ...client.client import AsyncClient
from ...core.errors import NotAllowed, RunMissing, UserError
from ...core.people import ProofRefused
from ...directory.finding import find
from ...directory.read_lines import Read
from ...directory.signed import confirmation_challenge, enrolment_challenge
from ...directory.state import Key
from ...inbox.personal import PersonalInbox
from ...journal.rows import Query, RequestRow, RunRow
from ...presenting.facts import Story
from ...proofs.base import PublicKey
from ...render.escape import arrived
from ...wire.people import KeySeen, TokenSeen
from ...wire.records import ReplayReport
from ..printing import print_labelled
from .base import EventLine, RunStart, Seat, SeatOutcome, SeenDirectory, Signing

_NOBODY = ("give_role", "take_role", "set")
_SECRETS = ("issue_token", "make_link")


@asynccontextmanager
async def at_server(url: str, token: str, arguments: argparse.Namespace) -> AsyncGenerator[Seat]:
    """Open the seat at a server, for the person of a token."""
    plain = bool(getattr(arguments, "plain_http", False))
    async with AsyncClient(url, token, plain_http=plain) as client:
        await _same_person(client, arguments)

        async def own_inbox(scope: str) -> PersonalInbox:
            if scope:
                await client.inbox.who(scope)
            return client.inbox

        record, policies = ServerRecord(client), ServerPolicies(client)
        yield Seat(own_inbox, ServerRuns(client), ServerPeople(client), client.insights, record, policies)


async def _same_person(client: AsyncClient, arguments: argparse.Namespace) -> None:
    """Refuse a name beside a token of somebody else."""
    named = getattr(arguments, "by", None)
    if named is None:
        return
    me = (await client.people.me()).person
    person = me.id
    if find([me], named) != person:
        raise UserError(f"the token belongs to {person!r}, but --as names {named!r}: omit one")


class ServerRuns:
    """Finds, starts, follows and steers the runs of a server."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    @property
    def mover(self) -> str:
        """Return who moves a run that was only started."""
        return "the server"

    async def runs(self, query: Query) -> Sequence[RunRow]:
        """Return the rows of a query."""
        if query.run is not None:
            return await self._named(query.run)
        after = None if query.after is None else f"{query.after[0]}.{query.after[1]}"
        wanted = {"state": query.state, "agent": query.agent, "newest": query.newest, "after": after}
        found: Sequence[RunRow] = await self._client.runs(limit=query.limit, **wanted)
        return found

    async def _named(self, run: str) -> list[RunRow]:
        try:
            found: RunRow = await self._client.get(run)
        except RunMissing:
            return []
        return [_same(found, run)]

    async def story(self, row: RunRow) -> Story:
        """Return how a run stands, and where it failed."""
        told = await self._client.story(row.run)
        return Story(_same(told.run.row, row.run), told.traceback)

    async def start(self, start: RunStart) -> RunRow:
        """Record that a run starts."""
        return (await self._named(await self._begun(start)))[0]

    async def carry(self, start: RunStart, seconds: float | None) -> SeatOutcome:
        """Start a run, and wait until it is over, requires a decision, or has had its time."""
        run = await self._begun(start)
        try:
            row = _same(await self._client.wait(run, seconds), run)
        except TimeoutError:
            return SeatOutcome((await self._named(run))[0], goes_on=True)
        output: Any = (await self._client.result(run)).output if row.status == "finished" else None
        try:
            waiting: Sequence[RequestRow] = await self._client.inbox.list(run=run)
        except NotAllowed as error:  # the run is started: that this token does not show requests is no reason to fail
            print_labelled("keyturn run", f"the pending requests are not shown: {error}")
            waiting = []
        return SeatOutcome(row, output, [each for each in waiting if each.run == run])

    async def _begun(self, start: RunStart) -> str:
        rest: dict[str, Any] = {"requester": start.requester, "session_id": start.session, "priority": start.priority}
        made: str = await self._client.start(start.agent, start.input, **rest)
        return made

    async def steer(self, word: str, run: str, *given: Any) -> str:
        """Send a run a message, cancel it for a reason, resume it, or fork it at a line; return the id of the run."""
        if word == "fork":
            return str(await self._client.fork(run, *given))
        if word == "cancel":
            await self._client.cancel(run, why=given[0])
        elif word == "resume":
            await self._client.resume(run)
        else:
            await self._client.send(run, *given)
        return run

    async def lines(self, run: str, *, follow: bool) -> AsyncGenerator[EventLine]:
        """Yield what happened in a run, and with `follow` what happens until it ends."""
        async with aclosing(self._client.events(run, words=True, follow=follow)) as lines:
            async for line in lines:
                for event in line.events:
                    words: Any = event.get("words")
                    rows = [str(arrived(each, keep="")) for each in words or () if isinstance(each, str)]
                    yield EventLine(line.at, str(event.get("event")), rows)


def _same(row: RunRow, run: str) -> RunRow:
    if row.run != run:
        raise NotAllowed("the server returned another run than the one requested")
    return row


class ServerPeople:
    """Tells who is who at a server, and changes it as the person of the token."""

    def __init__(self, client: AsyncClient) -> None:
        self._people = client.people

    async def book(self) -> SeenDirectory:
        """Return who is who now; tokens only to a token that is good for people."""
        told = await self._people.directory()
        tokens: Sequence[TokenSeen] | None
        try:
            tokens = await self._people.tokens()
        except NotAllowed:
            tokens = None
        return SeenDirectory(
            told.people, tokens, await self._people.keys(), await self._people.delegations(), told.place
        )

    async def log(self) -> Sequence[dict[str, Any]]:
        """Return every change there was, oldest first."""
        found: Sequence[dict[str, Any]] = await self._people.log()
        return found

    async def settings(self, person: str) -> dict[str, Any]:
        """Return the settings of a person, or of everybody."""
        if not person:
            return dict(await self._people.settings())
        found = [each for each in (await self._people.directory(person=person)).people if each.id == person]
        if not found:
            raise UserError(f"no user named {person!r} is in this directory")
        if found[0].settings is None:
            raise NotAllowed(
                "the settings of a user are visible to them, and to administrators with a token of the scope 'people'"
            )
        return dict(found[0].settings)

    async def change(self, word: str, *given: Any, **more: Any) -> Any:
        """Say a word of the directory that changes it."""
        if word in _NOBODY:  # a server is told of no person and no group by nothing, and not by ""
            more = {name: value for name, value in more.items() if value != ""}
        made = await getattr(self._people, word)(*given, **more)
        return made if word in _SECRETS else None

    async def enrol(self, key: PublicKey, text: str, sign: Signing) -> KeySeen:
        """Enrol an own key of the token's person, who signs with it."""
        me = await self._people.me()
        proof = sign(enrolment_challenge(me.tenant, me.person.id, key))
        return await self._key(await self._people.enrol_key(key.scheme, text, proof, label=key.label))

    async def confirm(self, key: str, sign: Signing | None) -> KeySeen:
        """Confirm that a key is its owner's; what is signed is made here, of the key as it is listed."""
        proof = None
        if sign is not None:
            shown = await self._key(key)
            own = Key(shown.id, shown.person, shown.scheme, shown.public, shown.label, 0)
            if not _is_named(shown):
                raise NotAllowed("nothing was signed: the key that the server shows is not the one it names")
            print_labelled("you confirm a key", f"{shown.id} is {shown.person!r}'s")
            proof = sign(confirmation_challenge((await self._people.me()).tenant, own))
        await self._people.confirm_key(key, proof=proof)
        return await self._key(key)

    async def _key(self, key: str) -> KeySeen:
        found = next((each for each in await self._people.keys() if each.id == key), None)
        if found is None:
            raise UserError(f"there is no key {key!r}; keyturn users keys lists them")
        return found


def _is_named(key: KeySeen) -> bool:
    """Return whether an ssh key has the fingerprint that it is named by; of a passkey only a browser could say."""
    from ...proofs import scheme as scheme_named

    try:
        return key.scheme != "ssh" or scheme_named(key.scheme).enrol(key.public).id == key.id
    except ProofRefused:
        return False


class ServerRecord:
    """Searches the record of a server."""

    def __init__(self, client: AsyncClient) -> None:
        self._audit = client.audit

    async def search(self, *, after: str | None, limit: int, **terms: Any) -> Sequence[AuditEntry]:
        """Return decisions, the oldest run first."""
        since, until = terms.pop("between", (None, None))
        between: tuple[datetime | None, datetime | None] = (since, until)
        found: Sequence[AuditEntry] = await self._audit.search(after=after, limit=limit, between=between, **terms)
        return found

    async def reads(self, *, person: str | None, request: str | None) -> Sequence[Read]:
        """Return who read the arguments of calls."""
        found: Sequence[Read] = await self._audit.reads(person=person, request=request)
        return found


class ServerPolicies:
    """Tries policies on the past calls of a server."""

    def __init__(self, client: AsyncClient) -> None:
        self._policies = client.policies

    async def replayed(self, policy: str | None, since: str | None, examples: int) -> ReplayReport:
        """Return what a policy would have said, or the one in shadow mode did."""
        asked: dict[str, Any] = {"since": since, "examples": examples}
        told: ReplayReport = await (
            self._policies.shadow(**asked) if policy is None else self._policies.replay(policy, **asked)
        )
        return told
