"""The inbox: requests listed, shown and decided, without holding the run and without having its agents.

Besides the engine nothing else writes to a journal. A decision is decided by the core against the run as it stands and
appended with the rows that it changes; who comes second is told who was first. Its run is due from then on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ..agents.agent import Agent
from ..core import commands as cm
from ..core import events as ev
from ..core.codec import Log
from ..core.decide import step
from ..core.errors import Conflict, NotPending, UserError
from ..core.run import Call, Run, request_id
from ..core.states import WAITING
from ..engine.facts import checked_items, jsonable
from ..engine.graph import Graph
from ..engine.live import Live, new_id, wrapped
from ..engine.loading import waiting_tools
from ..engine.recent import log_in
from ..engine.requests import requests_of
from ..engine.rows import changes, known_open
from ..engine.undelivered import edited_text
from ..journal.base import LostRace, Store
from ..journal.rows import ALL, Closing, GrantRow, Query, RequestRow
from ..policies.grants import Grant


class Inbox:
    """What waits for people in a journal, and what they decide.

    `agents` are the roots by name; they are needed to check an edit, and for nothing else.

    >>> import asyncio
    >>> from keyturn import MemoryJournal
    >>> asyncio.run(Inbox(MemoryJournal()).list())
    []
    """

    def __init__(self, store: Store, agents: Mapping[str, Agent[Any]] | None = None) -> None:
        self._store = store
        self._agents = agents or {}

    async def list(self, query: Query | None = None, **wanted: Any) -> Sequence[RequestRow]:
        """Requests by when they were asked; the open ones, unless a query says otherwise."""
        wanted.setdefault("state", "open")
        return await self._store.requests(query or Query(**wanted))

    async def get(self, request: str) -> RequestRow:
        """One request, whatever became of it, or `NotPending`."""
        found = await self._store.requests(Query(id=request))
        if not found:
            raise NotPending("there is no such request; list() says which there are")
        return found[0]

    async def approve(
        self,
        request: str,
        *,
        by: str,
        note: str | None = None,
        edit: Mapping[str, Any] | str | None = None,
        grant: Grant | None = None,
        digest: str | None = None,
    ) -> RequestRow:
        """Let exactly this call run, or with other arguments, or from now on what a grant covers."""
        row = await self._open(request, digest)
        args = None if edit is None else await self._edited(row, edit)
        verdict = "approve" if args is None else "edit"
        return await self._decide(row, verdict, by, grant=grant, note=note, args=args)

    async def reject(
        self,
        request: str,
        *,
        by: str,
        message: str | None = None,
        note: str | None = None,
        always: bool = False,
        digest: str | None = None,
    ) -> RequestRow:
        """Refuse the call; its model is told `message`. `always` refuses later calls of the tool in this run, too."""
        row = await self._open(request, digest)
        return await self._decide(row, "reject", by, grant=Grant() if always else None, note=note, message=message)

    async def answer(
        self, request: str, output: Any, *, by: str, note: str | None = None, digest: str | None = None
    ) -> RequestRow:
        """Give the call's result in its tool's place, or what its tool asked for."""
        row = await self._open(request, digest)
        return await self._decide(row, "answer", by, note=note, output=jsonable(output))

    async def resolve(
        self,
        request: str,
        outcome: Literal["ran", "did_not_run", "retry"],
        output: Any = None,
        *,
        by: str,
        note: str | None = None,
        digest: str | None = None,
    ) -> RequestRow:
        """Say what became of a call in doubt."""
        row = await self._open(request, digest)
        if outcome not in ("ran", "did_not_run", "retry"):
            raise UserError(f"a call in doubt ran, did_not_run or is to retry, not {outcome!r}")
        return await self._decide(row, outcome, by, note=note, output=jsonable(output))

    async def grants(self, query: Query = ALL) -> Sequence[GrantRow]:
        """Standing decisions."""
        return await self._store.grants(query)

    async def revoke(self, run: str, grant: str, *, by: str) -> None:
        """Take a standing decision back; what it let run before stays."""
        await self.tell(run, cm.Revoke(grant, _named(by)))

    async def send(self, run: str, message: str | Sequence[Any]) -> None:
        """Add a message that the run's model reads at its next turn."""
        await self.tell(run, cm.AddInput(ev.ROOT, checked_items(message if isinstance(message, str) else [*message])))

    async def cancel(self, run: str, *, by: str, why: str = "") -> None:
        """End a run. What is in flight is stopped; nothing of the run waits any more."""
        await self.tell(run, cm.Cancel(_named(by), why))

    async def tell(self, run: str, *commands: cm.Command) -> Run:
        """Decide commands against a run as it stands and append what comes of it; the run afterwards."""
        while True:
            log = await self._read(run)
            if await self._append(log, commands, await self._store.now()) is not None:
                return log.run

    async def _read(self, run: str) -> Log:
        log = await log_in(self._store, run)
        if not log.steps:
            raise NotPending(f"the journal has no run {run!r}")
        return log

    async def _append(self, log: Log, commands: tuple[cm.Command, ...], now: int) -> Sequence[Closing] | None:
        """The requests that were closed by it; None where somebody else appended first, and nothing was decided."""
        live = Live(log, Graph(Agent(log.run.root_agent)), wrapped(None), open=known_open(log.run))
        events = [event for command in commands for event in step(log.run, command, now)]
        if not events:
            return []
        line = log.sealed(ev.Step(now, events))
        rows = changes(live, events, {}, log.steps[0].at)
        try:
            await self._store.append(log.run.id, len(log), [line], None, rows)
        except LostRace:
            return None
        return rows.closed

    async def _open(self, request: str, digest: str | None) -> RequestRow:
        row = await self.get(request)
        if digest is not None and digest != row.digest:
            raise Conflict("the request is no longer the one that was shown; look at it again")
        return row

    async def _decide(
        self, row: RequestRow, verdict: str, by: str, *, grant: Grant | None = None, **words: Any
    ) -> RequestRow:
        by = _named(by)
        while True:
            now = await self._store.now()
            decision = ev.Decision(row.call, verdict, row.digest, now, by, **words)
            log = await self._read(row.run)
            run = log.run
            call = _waiting(run, row, decision)
            if call is None:
                return await self.get(row.id)
            standing = [] if grant is None else [_stand(call, grant, decision)]
            deliver = cm.Deliver([decision], standing, recheck=bool(run.about.get("policy")))
            closed = await self._append(log, (deliver, cm.Resume()), now)  # a run that failed is taken up again
            if closed is not None:
                end = next((end for end in closed if end.id == row.id), None)
                return await self.get(row.id) if end is None else row.ended(end)

    async def _edited(self, row: RequestRow, edit: Mapping[str, Any] | str) -> str:
        """The text that will run after an edit, checked by the tool."""
        log = await self._read(row.run)
        agent = self._agents.get(log.run.root_agent)
        if agent is None:
            raise UserError(f"an edit is checked by its tool: give the inbox the agent {log.run.root_agent!r}")
        live = Live(log, Graph(agent), wrapped(None))
        items = requests_of(live, await waiting_tools(live))
        item = next((item for item in items if item.request_id == row.id), None)
        if item is None:
            raise NotPending("this request waits no longer; get() says what became of it")
        return edited_text(item, edit, live.run.calls.get(item.call))


def _waiting(run: Run, row: RequestRow, decision: ev.Decision) -> Call | None:
    """The call that waits for this decision; None where the same person said the same before."""
    before, call = run.decided.get(row.call), run.calls.get(row.call)
    if before is not None and (call is None or call.state not in WAITING):
        if _said(before) == _said(decision):
            return None
        raise Conflict(
            f"this request was decided before: {before.verdict} by {before.by or 'somebody else'}",
            winner=before.by,
            decision=before.verdict,
            at=before.at,
        )
    if call is None or call.state not in WAITING or request_id(run, row.call) != row.id:
        raise NotPending("this request waits no longer; get() says what became of it")
    return call


def _said(decision: ev.Decision) -> tuple[Any, ...]:
    return decision.by, decision.verdict, decision.args, decision.message, decision.output


def _stand(call: Call, grant: Grant, decision: ev.Decision) -> ev.GrantTerms:
    verdict = "reject" if decision.verdict == "reject" else "approve"
    return grant.terms(
        new_id(), call.agent, call.proposal.tool, decision.at, verdict=verdict, message=decision.message, by=decision.by
    )


def _named(by: str) -> str:
    if not by or not isinstance(by, str):
        raise UserError("say who decides: by= is a name")
    return by
