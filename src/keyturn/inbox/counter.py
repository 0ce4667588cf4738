"""The counter behind every word of an inbox: find what it is about and who says it, and append what follows."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Unpack, cast

import msgspec

from ..agents.agent import Agent
from ..core import commands as cm
from ..core.codec import Log
from ..core.errors import Conflict, NotPending, RunMissing, UserError
from ..core.people import Decider, Strength
from ..core.policy import Approval
from ..core.preview import Preview
from ..core.request import Request, request_of
from ..core.run import Call, Run, edit_digest, request_id
from ..core.states import WAITING
from ..core.words import decided_before
from ..directory.login import DECIDE, Login
from ..directory.people import People
from ..directory.reads import How, Reads
from ..engine.driving.writer import Written, write_to
from ..engine.facts import decisions
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
from ..journal.rows import Query, RequestRow
from ..presenting.edit_preview import EditPreview
from ..presenting.shown_request import ShownRequest
from ..presenting.trail import Mark, trail_of
from ..presenting.words_before import Context, context_of
from .naming import By, Named, Naming, Shown, named, person_of, shown_of

NO_SUCH = "there is no such request; list() says which there are"


class Counter:
    """Reads requests and runs of a journal, and appends what is said of them."""

    def __init__(
        self, store: Store | str, agents: Mapping[str, Agent[Any]] | None = None, people: People | None = None
    ) -> None:
        self._store = opened(store) if isinstance(store, str) else store
        self._agents = agents or {}
        self.people = People(self._store) if people is None else people
        self.reads = Reads(self._store, self.people)

    @property
    def store(self) -> Store:
        """Return the journal that this is the inbox of."""
        return self._store

    async def tell(self, run: str, *commands: cm.RunCommand) -> Run:
        """Decide commands against a run as it stands and append their events; return the run afterwards."""
        log = await self._read(run)
        await self._commit(log, *commands)
        return log.run

    async def now(self) -> int:
        """Return the journal's time, in milliseconds since 1970."""
        return await self._store.now()

    async def item(self, request: str, *, by: By | None = None) -> ToolApprovalItem:
        """Return an open request with its tool at hand, by which a change of its arguments can be checked and shown.

        `by` says who reads it, which is put on record where the directory says so.
        """
        row = await self._row(request)
        await self._read_by(by, "request", [row])
        item, _call = await self._item(await self._read(row.run), row.request)
        return item

    async def context(self, row: RequestRow) -> Context:
        """Return what was said before the call of a request, and how the model's words press whoever reads them."""
        return context_of(await self._read(row.run), row.call)

    async def trail(self, row: RequestRow) -> list[Mark]:
        """Return what happened to the call of a request so far, oldest first: votes, decisions, edits, its result."""
        return trail_of(await log_in(self._store, row.run), row.call)

    async def _read_by(self, by: By | None, how: How, rows: Sequence[RequestRow]) -> None:
        """Put on record that somebody is about to be shown these; nobody is said to read for the program itself."""
        if by is not None and rows:
            await self.reads.note(by, how, [row.id for row in rows])

    async def _row(self, request: str) -> RequestRow:
        found = await self._store.requests(Query(id=named(request, "a request")))
        if not found:
            raise NotPending(NO_SUCH)
        if found[0].state != "damaged":
            return found[0]
        made = (await rows_in(self._store, found[0].run)).opened  # the row's run is a hint: the log has the request
        row = next((row for row in made if row.id == request), None)
        if row is None:
            raise NotPending("the row of this request is damaged, and its run has no such request")
        return row

    async def _read(self, run: str) -> Log:
        log = await log_in(self._store, named(run, "a run"))
        if not log.steps:
            raise RunMissing(run)
        return log

    async def _commit(self, log: Log, *commands: cm.RunCommand) -> Written:
        return await write_to(self._store, log, *commands)

    async def _words(self, by: By, words: Naming, waiting: Request, *, glass: bool = False) -> decisions.Words:
        terms = waiting.terms_now
        if glass and waiting.terms is not None:
            terms = waiting.terms.behind_glass()
        strength: Strength = "authenticated" if words.get("proof") is None else "signed"
        named: decisions.Words = {"by": await self._who(by, terms, waiting.requester, strength=strength)}
        if "note" in words:
            named["note"] = words["note"]
        if "proof" in words:
            named["proof"] = words["proof"]
        return named

    async def _who(
        self,
        by: By,
        terms: Approval | None = None,
        requester: str | None = None,
        scopes: tuple[str, ...] = (DECIDE,),
        strength: Strength = "authenticated",
    ) -> Decider:
        """Return who decides: who logged in has the roles of now, and a name is no more than that."""
        if not isinstance(by, Login):
            return person_of(by)
        return await self.people.admitted(by, strength, scopes=scopes, terms=terms, requester=requester)

    async def _waiting(self, shown: Named) -> tuple[Log, Request]:
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

    async def _deliver(self, log: Log, shown: Named, said: decisions.MadeDecision) -> RequestRow:
        """Record a decision; a run that failed is taken up again by it."""
        await self._check_proof(log.run, said)
        deliver = cm.Deliver([said.decision], [] if said.grant is None else [said.grant])
        written = await self._commit(log, deliver, *self._resumed(log))
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

    def _resumed(self, log: Log) -> list[cm.RunCommand]:
        """Return the command that takes a run up again that failed."""
        return [cm.Resume()] if _resumes(log.run) else []

    async def _edited(
        self, log: Log, request: Request, edit: Mapping[str, Any] | str, seen: Preview | None
    ) -> decisions.Edit | None:
        """Return what will run after an edit, checked by the tool."""
        item, call = await self._item(log, request)
        return edited(item, edit, call, seen)

    async def preview_edit(self, request: Shown, edit: Mapping[str, Any], **words: Unpack[Naming]) -> EditPreview:
        """Return what approving a request with these arguments would run, as its tool checks it; nothing is recorded.

        A secret is left as it is by the mark that is shown in its place.
        """
        log, waiting = await self._waiting(shown_of(request, words))
        item, call = await self._item(log, waiting)
        shown = ShownRequest(item)
        if not shown.editable or call is None:
            raise UserError(f"nobody can change the arguments of {waiting.tool!r}; approve or reject the call as it is")
        if not isinstance(cast("object", edit), Mapping):
            raise UserError("edit is all arguments by their names, as they are to be")
        edited(item, edit, call)  # which says what the tool has against them
        shown.take(dict(edit))
        made = await asyncio.to_thread(shown.previewed)
        checked = edited(item, edit, call, made.would)
        # Equal digests would tell that a secret was guessed right.
        runs = "" if checked is None or shown.types_secret else edit_digest(log.run, call, checked.args, checked.basis)
        return msgspec.structs.replace(made, runs=runs)

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


def _resumes(run: Run) -> bool:
    """Return whether a decision resumes a run: one that failed, unless it is a drill or was set aside."""
    return run.status == "failed" and run.drill is None and not run.lost
