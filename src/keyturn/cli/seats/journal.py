"""Sit at a journal: a command works on the store itself, with its keys, and with the app where one is named."""

from __future__ import annotations

import argparse
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from ...application.app import App
from ...audit.decisions.entry import AuditEntry
from ...audit.service import Audit
from ...core.codec import Log
from ...core.durations import milliseconds
from ...core.encodable import moment
from ...core.errors import UserError
from ...core.states import OVER
from ...directory import events as ev
from ...directory.login import DECIDE
from ...directory.people import People
from ...directory.read_lines import Read
from ...directory.reads import Reads
from ...engine.run.log_cache import log_in
from ...engine.run.open_run import chain_of
from ...inbox.desk import Inbox
from ...inbox.figures import InsightsReport
from ...inbox.insights import Insights
from ...inbox.personal import PersonalInbox
from ...inbox.replay import replay
from ...inbox.replayed import Replayed, Suggestion, Unread
from ...journal.base import Store
from ...journal.rows import Query, RunRow
from ...policies.rules import Policy
from ...presenting.event_words import Teller
from ...presenting.stopped import Story, story_of
from ...proofs.base import PublicKey
from ...render.escape import escape
from ...wire.people import DelegationSeen, KeySeen, PersonSeen, TokenSeen
from ...wire.records import ReplayCount, ReplayReport
from ..logging_in import login_of, named_by, reader_of
from ..with_journal import hinting
from .base import EventLine, RunStart, Seat, SeatOutcome, SeenDirectory, Signing

_ENDED = (*OVER, "failed")
_NO_APP = "starting or forking a run requires its agents: pass the app as module:name, or a server with --server"


def at_journal(store: Store, arguments: argparse.Namespace, app: App | None = None) -> Seat:
    """Return the seat at a journal; `app` has the agents of its runs, where one was named."""
    people = People(store, roots=app.people.roots) if app is not None else People(store)
    inbox = Inbox(store) if app is None else Inbox(store, app.agents, people)

    async def own_inbox(scope: str) -> PersonalInbox:
        if not scope:
            return inbox.as_person(await reader_of(people, arguments))
        return inbox.as_person(await login_of(people, arguments, scope) or await named_by(people, arguments))

    return Seat(
        own_inbox,
        JournalRuns(store, people, arguments, app),
        JournalPeople(people, arguments),
        JournalInsights(store, people, arguments),
        JournalRecord(store, people, arguments),
        JournalPolicies(store, people, arguments),
    )


class JournalRuns:
    """Finds, starts, follows and steers the runs of a journal."""

    def __init__(self, store: Store, people: People, arguments: argparse.Namespace, app: App | None) -> None:
        self._store = store
        self._people = people
        self._given = arguments
        self._app = app

    @property
    def mover(self) -> str:
        """Return who moves a run that was only started."""
        return f"keyturn worker or keyturn serve {escape(self._given.app, keep='')}"

    async def runs(self, query: Query) -> Sequence[RunRow]:
        """Return the rows of a query."""
        return await self._store.runs(query)

    async def story(self, row: RunRow) -> Story:
        """Return how a run stands, and where it failed."""
        return await story_of(self._store, row)

    async def start(self, start: RunStart) -> RunRow:
        """Record that a run starts."""
        app = self._needed()
        app.embedded = False
        return await (await self._begun(app, start)).get()

    async def carry(self, start: RunStart, seconds: float | None) -> SeatOutcome:
        """Start a run and go on with it until it is over, requires a decision, or has had its time."""
        async with self._needed() as app:
            begun = await self._begun(app, start)
            try:
                row = await begun.wait(seconds)
            except TimeoutError:
                return SeatOutcome(await begun.get(), goes_on=True)
            output: Any = (await begun.result()).final_output if row.status == "finished" else None
            return SeatOutcome(row, output, await app.inbox.list(Query(run=row.run, state="open")))

    async def steer(self, word: str, run: str, *given: Any) -> str:
        """Send a run a message, cancel it for a reason, resume it, or fork it at a line; return the id of the run."""
        if word == "fork":
            app = self._needed()
            app.embedded = False
            return (await app.fork(run, *given)).id
        inbox = Inbox(self._store, people=self._people)
        if word in ("cancel", "resume"):
            who = await login_of(self._people, self._given, DECIDE) or await named_by(self._people, self._given)
            await (inbox.cancel(run, by=who, why=given[0]) if word == "cancel" else inbox.resume(run, by=who))
        else:
            await inbox.send(run, *given)
        return run

    async def lines(self, run: str, *, follow: bool) -> AsyncGenerator[EventLine]:
        """Yield what happened in a run, and with `follow` what happens until it ends."""
        await Reads(self._store, self._people).note(await reader_of(self._people, self._given), "log", what=run)
        await log_in(self._store, run)  # refused whole where a line is not the one that was written
        log, teller = Log(chain=chain_of(self._store, run)), Teller()
        for line in await self._store.read(run):
            for each in _told(log, teller, line):
                yield each
        if not follow:
            return
        async with aclosing(self._store.watch(run, len(log))) as lines:
            while log.run.status not in _ENDED:
                for each in _told(log, teller, await anext(lines)):
                    yield each

    def _needed(self) -> App:
        if self._app is None:
            raise UserError(_NO_APP)
        return self._app

    async def _begun(self, app: App, start: RunStart) -> Any:
        rest: dict[str, Any] = {"session_id": start.session, "priority": start.priority}
        return await app.start(start.agent, start.input, requester=start.requester, **rest)


def _told(log: Log, teller: Teller, line: bytes) -> list[EventLine]:
    return [
        EventLine(moment(step.at), type(event).__name__, list(teller.rows(log.run, event)))
        for step in log.extend([line])
        for event in step.events
    ]


class JournalPeople:
    """Tells who is who in a journal, and changes it as whoever logged in, or as the name that was given."""

    def __init__(self, people: People, arguments: argparse.Namespace) -> None:
        self._people = people
        self._given = arguments

    async def book(self) -> SeenDirectory:
        """Return who is who now."""
        directory, now = await self._people.directory(), await self._people.now()
        return SeenDirectory(
            [PersonSeen.of(directory, each, closely=True) for each in await self._people.list()],
            [TokenSeen.of(directory, each, now) for each in directory.tokens.values()],
            [KeySeen.of(each) for each in directory.keys.values()],
            [DelegationSeen.of(each, now) for each in directory.delegations.values()],
            directory.place,
        )

    async def log(self) -> Sequence[dict[str, Any]]:
        """Return every change there was, oldest first."""
        return [ev.shown(each) for each in await self._people.entries()]

    async def settings(self, person: str) -> dict[str, Any]:
        """Return the settings of a person, or of everybody."""
        found = (await self._people.get(person)).settings if person else (await self._people.directory()).settings
        return dict(found)

    async def change(self, word: str, *given: Any, **more: Any) -> Any:
        """Say a word of the directory that changes it."""
        login = await login_of(self._people, self._given, "people")
        with hinting(login is not None, ", or name the user with --as"):
            by = login or await named_by(self._people, self._given)
            return await getattr(self._people, word)(*given, by=by, **more)

    async def enrol(self, key: PublicKey, text: str, sign: Signing) -> KeySeen:
        """Enrol an own key of whoever asks, who signs with it."""
        login = await login_of(self._people, self._given, "people")
        person = await named_by(self._people, self._given) if login is None else login.person
        await self._people.get(person)
        proof = sign(self._people.to_sign(person, key))
        return KeySeen.of(await self._people.enrol_key(person, key, proof, by=login))

    async def confirm(self, key: str, sign: Signing | None) -> KeySeen:
        """Confirm that a key is its owner's; the first key of a directory needs no signature."""
        proof = None if sign is None else sign(await self._people.to_confirm(key))
        await self.change("confirm_key", key, proof=proof)
        return KeySeen.of(next(each for each in await self._people.keys() if each.id == key))


class JournalRecord:
    """Searches the record of a journal."""

    def __init__(self, store: Store, people: People, arguments: argparse.Namespace) -> None:
        self._audit = Audit(store)
        self._people = people
        self._given = arguments

    async def search(self, *, after: str | None, limit: int, **terms: Any) -> Sequence[AuditEntry]:
        """Return decisions, the oldest run first."""
        by = await reader_of(self._people, self._given)
        return await self._audit.search(by=by, after=after, limit=limit, **terms)

    async def reads(self, *, person: str | None, request: str | None) -> Sequence[Read]:
        """Return who read the arguments of calls."""
        return await self._audit.reads(person=person, request=request)


class JournalInsights:
    """Tells how people decide at a journal."""

    def __init__(self, store: Store, people: People, arguments: argparse.Namespace) -> None:
        self._insights, self._reads = Insights(store), Reads(store, people)
        self._people, self._given = people, arguments

    async def report(self, *, days: int = 30) -> InsightsReport:
        """Return what was counted in so many days."""
        return await self._insights.report(days=days)

    async def suggestions(self, *, tool: str | None = None) -> Sequence[Suggestion]:
        """Return rules that would have let run what people approved unchanged."""
        await self._reads.note(await reader_of(self._people, self._given), "search", what="suggestions")
        return await self._insights.suggestions(tool=tool)


class JournalPolicies:
    """Tries policies on the past calls of a journal."""

    def __init__(self, store: Store, people: People, arguments: argparse.Namespace) -> None:
        self._store, self._reads = store, Reads(store, people)
        self._people, self._given = people, arguments

    async def replayed(self, policy: str | None, since: str | None, examples: int) -> ReplayReport:
        """Return what a policy would have said, or the one in shadow mode did."""
        await self._reads.note(await reader_of(self._people, self._given), "search", what="replay")
        tried = None if policy is None else Policy.from_toml(f"{policy}\n")
        begins = 0 if since is None else await self._store.now() - milliseconds(since)
        found = dict[tuple[str, Any, Any], ReplayCount]()
        unread = list[Unread]()
        async for each in replay(self._store, tried, begins):
            if isinstance(each, Unread):
                unread.append(each)
                continue
            key = (each.tool, each.was, each.would)
            found[key] = _counted(found.get(key) or ReplayCount(*key, 0, []), each, examples)
        counts = [found[key] for key in sorted(found)]
        changed = sum(
            each.calls for each in counts if "unknown" not in (each.was, each.would) and each.was != each.would
        )
        return ReplayReport(sum(each.calls for each in counts), changed, counts, unread, True)


def _counted(count: ReplayCount, each: Replayed, examples: int) -> ReplayCount:
    if len(count.examples) < examples:
        count.examples.append(each)
    return msgspec.structs.replace(count, calls=count.calls + 1)
