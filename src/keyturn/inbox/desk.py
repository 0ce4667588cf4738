"""The inbox: list, show and decide requests, without holding the run's lease and without its agents.

Besides the engine nothing else writes to a journal. A decision is decided by the core against the run as it stands and
appended with the rows that it changes; who comes second is told who was first. Its run is due from then on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypedDict, Unpack, cast

import msgspec

from ..agents.agent import Agent
from ..core import commands as cm
from ..core import events as ev
from ..core.challenge import decision_challenge
from ..core.codec import Log
from ..core.errors import Conflict, NotAllowed, NotPending, RunMissing, UserError
from ..core.gate import decided_before
from ..core.people import Decider, Proof, Strength, decider, plain_text
from ..core.preview import Preview
from ..core.records import Word
from ..core.request import Request, request_of
from ..core.run import Call, Run, request_id
from ..core.states import WAITING
from ..directory.people import DECIDE, Login, People
from ..engine.driving.writer import Written, write_to
from ..engine.facts import decisions
from ..engine.facts.reaches import reach_of
from ..engine.facts.values import said_items
from ..engine.run.agents import AgentGraph
from ..engine.run.log_cache import log_in
from ..engine.run.open_run import OpenRun
from ..engine.states.loading import own_context, waiting_tools
from ..engine.states.undelivered import edited
from ..engine.views.items import ToolApprovalItem
from ..engine.views.projection import requests_of
from ..engine.views.rows import rows_in
from ..journal import opened
from ..journal.base import Store
from ..journal.rows import ALL, GrantRow, Query, RequestRow
from ..policies.grants import Grant

By = str | Decider | Login
Shown = RequestRow | Request | ToolApprovalItem | str


class Naming(TypedDict, total=False):
    """Holds what goes with any decision: what was shown, where only its id is known, and words for the record."""

    digest: str | None
    revision: int | None
    note: str | None
    proof: Proof | None


class Inbox:
    """Lists what waits for people in a journal, and records what they decide.

    `store` is a journal or its URL. `agents` are the roots by name; they are needed to check an edit, and for nothing
    else. `people` is the directory of the same journal. `by` is a name, which proves nothing; a `Decider(...)`, where
    the program knows who that is; or the login of somebody in the directory, which says what they may do.

    >>> import asyncio
    >>> from keyturn import MemoryJournal
    >>> asyncio.run(Inbox(MemoryJournal()).list())
    []
    """

    def __init__(
        self, store: Store | str, agents: Mapping[str, Agent[Any]] | None = None, people: People | None = None
    ) -> None:
        self._store = opened(store) if isinstance(store, str) else store
        self._agents = agents or {}
        self.people = People(self._store) if people is None else people

    async def now(self) -> int:
        """Return the journal's time, in milliseconds since 1970."""
        return await self._store.now()

    async def list(self, query: Query | None = None, **wanted: Any) -> Sequence[RequestRow]:
        """Return requests by when they were asked; the open ones, unless a query says otherwise."""
        wanted.setdefault("state", "open")
        return await self._store.requests(query or Query(**wanted))

    async def get(self, request: str) -> RequestRow:
        """Return one request, whatever became of it, or raise `NotPending`.

        What it shows is read from the run's own log.
        """
        row = await self._row(request)
        if row.state != "open":
            return row
        run = (await self._read(row.run)).run
        call = run.calls.get(row.call)
        if call is None or call.state not in WAITING or request_id(run, row.call) != row.id:
            return await self._row(request)  # it was settled between the two
        return RequestRow.of(request_of(run, call))

    async def item(self, request: str) -> ToolApprovalItem:
        """Return an open request with its tool at hand, by which a change of its arguments can be checked and shown."""
        row = await self._row(request)
        item, _call = await self._item(await self._read(row.run), row.request)
        return item

    async def approve(
        self,
        request: Shown,
        *,
        by: By,
        edit: Mapping[str, Any] | str | None = None,
        grant: Grant | None = None,
        seen: Preview | None = None,
        **words: Unpack[Naming],
    ) -> RequestRow:
        """Approve exactly this call, or with other arguments, or from now on what a grant covers."""
        shown = _shown(request, words)
        log, waiting = await self._waiting(shown)
        made = None if edit is None else await self._edited(log, waiting, edit, seen)
        now = await self._store.now()
        reach = reach_of(grant, log.run, self._store)
        said = decisions.approve(
            waiting, now, edit=made, grant=grant, reach=reach, **await self._words(by, words, waiting)
        )
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
        shown = _shown(request, words)
        log, waiting = await self._waiting(shown)
        now = await self._store.now()
        said = decisions.reject(waiting, now, message=message, always=always, **await self._words(by, words, waiting))
        return await self._deliver(log, shown, said)

    async def answer(self, request: Shown, output: Any, *, by: By, **words: Unpack[Naming]) -> RequestRow:
        """Give the call's result in its tool's place, or what its tool asked for."""
        shown = _shown(request, words)
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
        shown = _shown(request, words)
        log, waiting = await self._waiting(shown)
        now = await self._store.now()
        said = decisions.resolve(waiting, now, outcome, output, **await self._words(by, words, waiting))
        return await self._deliver(log, shown, said)

    async def grants(self, query: Query = ALL) -> Sequence[GrantRow]:
        """Return standing decisions."""
        return await self._store.grants(query)

    async def revoke(self, run: str, grant: str, *, by: By) -> None:
        """Revoke a standing decision; what it let run before stays."""
        await self.tell(run, cm.Revoke(_name(grant, "a grant"), await self._who(by)))

    async def send(self, run: str, message: str | Sequence[Any]) -> None:
        """Add a message that the run's model reads at its next turn."""
        await self.tell(run, cm.AddInput(ev.ROOT, said_items(message if isinstance(message, str) else [*message])))

    async def cancel(self, run: str, *, by: By, why: str = "") -> None:
        """Cancel a run; what is in flight is stopped, and nothing of the run waits any more."""
        await self.tell(run, cm.Cancel(await self._who(by), plain_text(why, "why")))

    async def tell(self, run: str, *commands: cm.RunCommand) -> Run:
        """Decide commands against a run as it stands and append their events; return the run afterwards."""
        log = await self._read(run)
        await self._commit(log, *commands)
        return log.run

    async def _row(self, request: str) -> RequestRow:
        found = await self._store.requests(Query(id=_name(request, "a request")))
        if not found:
            raise NotPending("there is no such request; list() says which there are")
        if found[0].state != "damaged":
            return found[0]
        made = (await rows_in(self._store, found[0].run)).opened  # the row's run is a hint: the log has the request
        row = next((row for row in made if row.id == request), None)
        if row is None:
            raise NotPending("the row of this request is damaged, and its run has no such request")
        return row

    async def _read(self, run: str) -> Log:
        log = await log_in(self._store, _name(run, "a run"))
        if not log.steps:
            raise RunMissing(run)
        return log

    async def _commit(self, log: Log, *commands: cm.RunCommand) -> Written:
        return await write_to(self._store, log, *commands)

    async def _words(self, by: By, words: Naming, waiting: Request) -> decisions.Words:
        strength = "authenticated" if words.get("proof") is None else "signed"
        named: decisions.Words = {"by": await self._who(by, waiting, strength)}
        if "note" in words:
            named["note"] = words["note"]
        if "proof" in words:
            named["proof"] = words["proof"]
        return named

    async def _who(self, by: By, waiting: Request | None = None, strength: Strength = "authenticated") -> Decider:
        """Return who decides: who logged in has the roles of now, and a name is no more than that."""
        if not isinstance(by, Login):
            return _named(by)
        if DECIDE not in by.scopes:
            raise NotAllowed(f"the token of {by.person!r} is not good for deciding; its scopes: {', '.join(by.scopes)}")
        terms, requester = (None, None) if waiting is None else (waiting.terms, waiting.requester)
        return await self.people.decider(by.person, strength, terms=terms, requester=requester)

    async def _waiting(self, shown: _Named) -> tuple[Log, Request]:
        """Return the run and the open request of that name, else what was shown, which the gate refuses."""
        row = await self._row(shown.id)
        log = await self._read(row.run)
        call = log.run.calls.get(row.call)
        if request_id(log.run, row.call) != row.id:
            raise NotPending("this request belongs to no call of its run; get() says what became of it")
        if call is None or call.state not in WAITING:
            return log, msgspec.structs.replace(row.request, digest=shown.digest or row.digest)
        waiting = request_of(log.run, call)
        if shown.digest is None and call.renewed:  # askings are counted anew in a copy that was brought back
            raise Conflict(
                "this request was asked anew after its store was restored from a copy, so its revision does not say "
                "what was shown: look at it again, and pass the request itself or its digest"
            )
        if shown.digest not in (None, waiting.digest) or shown.revision not in (None, waiting.revision):
            before = log.run.decided.get(row.call)
            if before is not None and before.digest == shown.digest:  # said before, and asked again since
                return log, msgspec.structs.replace(waiting, digest=before.digest, verdicts=(before.verdict,))
            raise Conflict("the request is no longer the one that was shown; look at it again")
        return log, waiting

    async def _deliver(self, log: Log, shown: _Named, said: decisions.MadeDecision) -> RequestRow:
        """Record a decision; a run that failed is taken up again by it."""
        await self._check_proof(log.run, said)
        deliver = cm.Deliver([said.decision], [] if said.grant is None else [said.grant])
        resume = [cm.Resume()] if log.run.status == "failed" else []
        written = await self._commit(log, deliver, *resume)
        before = log.run.decided.get(said.decision.call)
        if not written.events and before is not None and before.by != said.decision.by:
            raise decided_before(before)  # they are of one mind, but it is not on their word that it runs
        row = await self._row(shown.id)
        ends = [] if written.changes is None else written.changes.closed
        end = next((end for end in ends if end.id == shown.id), None)
        return row if end is None or row.state != "open" else row.ended(end)

    async def _check_proof(self, run: Run, said: decisions.MadeDecision) -> None:
        """Verify a signature before anything is recorded; a worker does so once more before it starts a call."""
        decision = said.decision
        call = run.calls.get(decision.call)
        if decision.proof is None or call is None:
            return
        if said.grant is not None:
            raise UserError("a signature is for one call: sign the decision without a grant")
        await self.people.check_proof((request_id(run, call.id), call.revision), decision)

    async def to_sign(
        self,
        request: Shown,
        verdict: Word,
        *,
        edit: Mapping[str, Any] | str | None = None,
        seen: Preview | None = None,
        output: Any = None,
        message: str | None = None,
        **words: Unpack[Naming],
    ) -> bytes:
        """Return what somebody signs who decides so, with the very words of the decision; it fits no other."""
        log, waiting = await self._waiting(_shown(request, words))
        made = None if edit is None else await self._edited(log, waiting, edit, seen)
        args, basis = (None, None) if made is None else (made.args, made.basis)
        given = decisions.said_output(output, "an output") if verdict in ("answer", "ran") else None
        said = ev.Decision(waiting.call, verdict, waiting.digest, args=args, basis=basis, output=given)
        said = msgspec.structs.replace(said, note=words.get("note"), message=message)
        return decision_challenge(self.people.tenant, waiting.id, waiting.revision, said)

    async def _edited(
        self, log: Log, request: Request, edit: Mapping[str, Any] | str, seen: Preview | None
    ) -> decisions.Edit | None:
        """Return what will run after an edit, checked by the tool."""
        item, call = await self._item(log, request)
        return edited(item, edit, call, seen)

    async def _item(self, log: Log, request: Request) -> tuple[ToolApprovalItem, Call | None]:
        agent = self._agents.get(log.run.root_agent)
        if agent is None:
            raise UserError(f"an edit is checked by its tool: give the inbox the agent {log.run.root_agent!r}")
        live = OpenRun(log, AgentGraph(agent), own_context(log.run, agent))
        items = requests_of(live, await waiting_tools(live))
        item = next((item for item in items if item.request_id == request.id), None)
        if item is None:
            raise NotPending("this request waits no longer; get() says what became of it")
        return item, live.run.calls.get(item.call)


class _Named(NamedTuple):
    """Names a request, and what of it somebody was shown."""

    id: str
    digest: str | None
    revision: int | None


def _shown(request: Shown, words: Naming) -> _Named:
    """Return what a decision is about: the very asking that was shown, never a request's id alone."""
    digest, revision = words.get("digest"), words.get("revision")
    if not isinstance(cast("object", request), RequestRow | Request | ToolApprovalItem | str):
        raise UserError(f"decide a request as list() gives it, or its id, not a {type(request).__name__}")
    if not isinstance(request, str):
        name = request.request_id if isinstance(request, ToolApprovalItem) else request.id
        return _Named(name, digest or request.digest, revision)
    if digest is None and revision is None:
        raise UserError("name what was shown: pass the request itself, or its id with revision= or digest=")
    return _Named(request, digest, revision)


def _name(given: object, what: str) -> str:
    if not isinstance(given, str):
        raise UserError(f"{what} is named by its id, a text, not by a {type(given).__name__}")
    return given


def _named(by: str | Decider) -> Decider:
    who = decider(by or None)
    if who is None:
        raise UserError("say who decides: by= is a name, or a Decider(...) where it is known who that is")
    return who
