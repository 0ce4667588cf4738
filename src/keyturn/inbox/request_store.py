"""What every part of an inbox asks of a journal: a request with its run, who is speaking, and an append."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ..agents.agent import Agent
from ..core import commands as cm
from ..core import events as ev
from ..core.approval import Approval
from ..core.codec import Log
from ..core.errors import Conflict, NotAllowed, NotPending, RunMissing, UserError
from ..core.gate.reviews import reviewed_call
from ..core.gate.words import decided_before, in_two_steps
from ..core.people import Decider, Strength
from ..core.preview import Preview
from ..core.request import Request, request_of, review_of
from ..core.run import Call, Run, confirmed, request_id, terms_now
from ..core.states import WAITING
from ..directory.login import DECIDE, Login
from ..directory.people import People
from ..directory.read_lines import How
from ..directory.reads import Reads
from ..engine.driving.writer import Written, write_to
from ..engine.facts import decisions
from ..engine.run.agents import AgentGraph
from ..engine.run.log_cache import log_in
from ..engine.run.open_run import OpenRun
from ..engine.states.loading import own_context, waiting_requests
from ..engine.states.undelivered import edited
from ..engine.views.items import ToolApprovalItem
from ..engine.views.rows import rows_in
from ..journal.base import Store
from ..journal.rows import Query, RequestRow
from .naming import By, NamedRequest, Naming, named, person_of
from .shows import may_decide

NO_SUCH = "there is no such request; list() shows the requests"


class RequestStore:
    """Reads requests and runs of a journal, and appends what is decided of them."""

    def __init__(self, store: Store, agents: Mapping[str, Agent[Any]], people: People) -> None:
        self.store = store
        self.agents = agents
        self.people = people
        self.reads = Reads(store, people)

    async def row(self, request: str) -> RequestRow:
        """Return the row of a request, or raise `NotPending`."""
        found = await self.store.requests(Query(id=named(request, "a request")))
        if not found:
            raise NotPending(NO_SUCH)
        if found[0].state != "damaged":
            return found[0]
        made = (await rows_in(self.store, found[0].run)).opened  # the row's run is a hint: the log has the request
        row = next((row for row in made if row.id == request), None)
        if row is None:
            raise NotPending("the row of this request is damaged, and its run has no such request")
        return row

    async def log(self, run: str) -> Log:
        """Return the log of a run, or raise `RunMissing`."""
        log = await log_in(self.store, named(run, "a run"))
        if not log.steps:
            raise RunMissing(run)
        return log

    async def commit(self, log: Log, *commands: cm.RunCommand) -> Written:
        """Append what commands lead to."""
        return await write_to(self.store, log, *commands)

    async def note_reading(self, by: By | None, how: How, rows: Sequence[RequestRow]) -> None:
        """Put on record that somebody is about to be shown these; nobody is said to read for the program itself."""
        if by is not None and rows:
            await self.reads.note(by, how, [row.id for row in rows])

    async def words(self, by: By, words: Naming, waiting: Request, *, glass: bool = False) -> decisions.DecisionWords:
        """Return who decides, admitted by the terms of the request, with their note and proof."""
        terms = waiting.terms_now
        if glass and waiting.terms is not None:
            terms = waiting.behind_glass
        strength: Strength = "authenticated" if words.get("proof") is None else "signed"
        named: decisions.DecisionWords = {"by": await self.who(by, terms, waiting.requester, strength=strength)}
        if "note" in words:
            named["note"] = words["note"]
        if "proof" in words:
            named["proof"] = words["proof"]
        return named

    async def who(
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

    async def waiting(self, shown: NamedRequest) -> tuple[Log, Request]:
        """Return the run and the open request of that name, else what was shown, which the gate refuses."""
        row = await self.row(shown.id)
        log = await self.log(row.run)
        call = log.run.calls.get(row.call)
        if request_id(log.run, row.call) != row.id:
            raise NotPending("this request belongs to no call of its run; get() shows its state")
        if call is None or call.state not in WAITING:
            return log, msgspec.structs.replace(row.request, digest=shown.digest or row.digest)
        waiting = request_of(log.run, call)
        if shown.digest is None and call.renewed:  # askings are counted anew in a copy that was brought back
            raise Conflict(
                "this request was made again after its store was restored from a backup, so its revision does not "
                "identify what was shown: review it again, and pass the request itself or its digest"
            )
        if shown.digest not in (None, waiting.digest) or shown.revision not in (None, waiting.revision):
            before = log.run.decided.get(row.call)
            if before is not None and before.digest == shown.digest:  # said before, and asked again since
                return log, msgspec.structs.replace(waiting, digest=before.digest, verdicts=(before.verdict,))
            for step in call.met:  # said in an earlier step, which it met
                if step.votes[-1].digest == shown.digest:
                    return log, msgspec.structs.replace(waiting, digest=shown.digest, terms=step.terms, waits_for="")
            raise Conflict("the request is no longer the one that was shown; look at it again")
        return log, waiting

    async def deliver(self, log: Log, shown: NamedRequest, said: decisions.MadeDecision) -> RequestRow:
        """Record a decision; a run that failed is taken up again by it."""
        await self._check_proof(log.run, said)
        grants = [] if said.grant is None else [said.grant]
        await self._check_confirmed(log.run, said.decision)
        lapsed = await self._lapsed(log.run, said.decision.call)
        written = await self.commit(log, cm.Deliver([said.decision], grants, lapsed=lapsed))
        before = log.run.decided.get(said.decision.call)
        if not written.events and before is not None and before.by != said.decision.by:
            raise decided_before(before)  # they are of one mind, but it is not on their word that it runs
        row = await self.row(shown.id)
        ends = [] if written.changes is None else written.changes.closed
        end = next((end for end in ends if end.id == shown.id), None)
        return row if end is None or end.state == "void" or row.state != "open" else row.ended(end)

    async def _lapsed(self, run: Run, name: str) -> tuple[str, ...]:
        """Return whose votes on a call do not count any more, since they could not cast them now."""
        call = run.calls.get(name)
        votes = {} if call is None else call.votes
        terms = None if call is None else terms_now(run, call)
        due = [] if terms is None else [terms.unsigned]
        return tuple([by for by, vote in votes.items() if await self._is_lapsed(vote, due, run)])

    async def _is_lapsed(self, vote: ev.Decision, due: Sequence[Approval], run: Run) -> bool:
        """Return whether a person of the directory could not cast a vote now."""
        who = vote.decider
        return who is not None and who.place is not None and bool(await self.people.lapsed(who, due, run.requester))

    async def _check_confirmed(self, run: Run, decision: ev.Decision) -> None:
        """Refuse to let a call run beside a confirmation, or an earlier step's vote, that could not be given now.

        What became of a call is a fact and no permission, and what a tool asks is asked once the call was let run.
        """
        call = run.calls.get(decision.call)
        if call is None or call.terms is None or call.state == "needs" or decision.broke_glass:
            return
        if decision.verdict in ("reject", "ran", "did_not_run"):
            return
        earlier = [(vote, step.terms.alone) for step in call.met for vote in step.votes]
        if call.confirmed is not None and in_two_steps(call) and confirmed(run, call):
            earlier.append((call.confirmed, call.terms.at_step(confirmed=False)))
        for vote, terms in earlier:
            if await self._is_lapsed(vote, [terms.unsigned], run):
                did, do = ("confirmed", "confirm") if terms.confirm else ("approved", "approve")
                remedy = "reject it, so that it can be requested again"
                remedy = "resolve it as ran or did_not_run" if call.state == "in_doubt" else remedy
                raise NotAllowed(f"{vote.by} {did} this call, and could not {do} it now: {remedy}")

    async def _check_proof(self, run: Run, said: decisions.MadeDecision) -> None:
        """Verify a signature before anything is recorded; a worker does so once more before it starts a call."""
        decision = said.decision
        call = run.calls.get(decision.call)
        if decision.proof is None or call is None:
            return
        if said.grant is not None:
            raise UserError("a signature is for one call: sign the decision without a grant")
        for step in call.met:  # said in an earlier step, and sent again
            call = msgspec.structs.replace(call, asks=step.asks) if step.votes[-1].digest == decision.digest else call
        await self.people.check_proof((request_id(run, call.id), call.revision), decision)

    async def checked(
        self, log: Log, request: Request, edit: Mapping[str, Any] | str, seen: Preview | None
    ) -> decisions.Edit | None:
        """Return what will run after an edit, checked by the tool."""
        item, call = await self.item_of(_as_it_waited(log, request.call), request)
        return edited(item, edit, call, seen)

    async def item_of(self, log: Log, request: Request) -> tuple[ToolApprovalItem, Call | None]:
        """Return the item of an open request with its tool, and its call."""
        agent = self.agents.get(log.run.root_agent)
        if agent is None:
            raise UserError(f"an edit is validated by its tool: give the inbox the agent {log.run.root_agent!r}")
        live = OpenRun(log, AgentGraph(agent), own_context(log.run, agent))
        items = await waiting_requests(live)
        item = next((item for item in items if item.request_id == request.id), None)
        if item is None:
            raise NotPending("this request is no longer pending; get() shows its state")
        return item, live.run.calls.get(item.call)

    async def may_see(self, row: RequestRow, for_: By) -> bool:
        """Return whether somebody may decide a request, a signature aside."""
        shown = row.request
        try:
            who = await self.who(for_, shown.terms_now, shown.requester, scopes=())
        except NotAllowed:
            return False
        return may_decide(shown, who)

    async def review_shown(self, row: RequestRow) -> Request | None:
        """Return a review as its run's own log says it; None where it asks nobody any more."""
        run = (await self.log(row.run)).run
        review = run.reviews.get(reviewed_call(row.call) or "")
        open = review is not None and review.said is None and request_id(run, row.call) == row.id
        return review_of(run, review) if review is not None and open else None


def _as_it_waited(log: Log, call: str) -> Log:
    """Return the log as it was before an edit of this call was recorded, by which a repeated edit is checked."""
    live = log.run.calls.get(call)
    if live is not None and live.state in WAITING:
        return log
    for place in range(len(log.steps) - 1, -1, -1):
        decided = [event.decision for event in log.steps[place].events if isinstance(event, ev.CallDecided)]
        if any((each.call, each.verdict) == (call, "edit") for each in decided):
            return Log(log.steps[:place])
    return log
