"""Decide requests over HTTP: each word names what was shown, and the answer is read from the record.

So the same word said again, on this server or another, is answered the same: it is one decision on record.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Annotated, Any

from msgspec.structs import replace

from ...core import events as ev
from ...core.codec import Log
from ...core.drill_words import SAID
from ...core.encodable import moment
from ...core.errors import NotAllowed, NotPending, UserError
from ...core.request import Request
from ...engine.facts.reaches import reach_of
from ...engine.run.log_cache import log_in
from ...inbox.naming import Outcome
from ...journal.rows import RequestRow
from ...policies.grants import Grant, own_where
from ...presenting.edit_preview import EditPreview
from ...wire import bodies
from ...wire.responses import Decided, OneOutcome, Outcomes, RequestSeen, ToSign
from .paging import IdPath
from .refusing import error_body_of
from .routes import ApiContext, Call, Routes, answer, taken

routes = Routes("decisions")
_ERRORS = (404, 409, 410)


def _decides(word: str, takes: type, gives: type = Decided) -> Any:
    return routes.add("POST", f"/requests/{{request}}/{word}", scope="decide", takes=takes, gives=gives, errors=_ERRORS)


@_decides("approve", bodies.Approve)
async def approve(here: ApiContext, request: IdPath, body: Annotated[bodies.Approve, taken(bodies.Approve)]) -> Any:
    """Approve exactly this call, or with other arguments, or from now on what a grant covers."""
    row = await here.visibility.request(request)
    grant = (
        None if body.grant is None else Grant(body.grant.where, body.grant.expires, body.grant.uses, body.grant.scope)
    )
    more: dict[str, Any] = {"edit": body.edit, "grant": grant, "seen": body.seen, "break_glass": body.break_glass}
    more["undo"] = body.undo
    done = here.inbox.decide(request, "approve", **more, **words(body))
    verdicts = ("approve",) if body.edit is None else ("edit", "approve")
    return await _recorded(here, row, done, verdicts, grant)


@_decides("preview_edit", bodies.PreviewEdit, EditPreview)
async def preview_edit(
    here: ApiContext, request: IdPath, body: Annotated[bodies.PreviewEdit, taken(bodies.PreviewEdit)]
) -> Any:
    """Return what approving the call with other arguments would run, or what its tool has against them.

    Nothing is recorded. Secrets are marks in what is told, and a mark that is sent stands for the secret it hides.
    """
    row = await here.visibility.request(request, shows=True)
    here.visibility.must_decide(row.request)
    shown: dict[str, Any] = {"digest": body.digest, "revision": body.revision}
    return answer(await here.inbox.preview_edit(request, body.edit, **shown))


@_decides("reject", bodies.Reject)
async def reject(here: ApiContext, request: IdPath, body: Annotated[bodies.Reject, taken(bodies.Reject)]) -> Any:
    """Reject the call; its model is told the message."""
    row = await here.visibility.request(request)
    more: dict[str, Any] = {"message": body.message, "always": body.always}
    done = here.inbox.decide(request, "reject", **more, **words(body))
    return await _recorded(here, row, done, ("reject",), Grant() if body.always else None)


@_decides("ask_back", bodies.AskBack)
async def ask_back(here: ApiContext, request: IdPath, body: Annotated[bodies.AskBack, taken(bodies.AskBack)]) -> Any:
    """Ask the agent back: the call does not run, and its model answers the question."""
    row = await here.visibility.request(request)
    done = here.inbox.decide(request, "ask_back", message=body.question, **words(body))
    return await _recorded(here, row, done, ("reject",))


@_decides("answer", bodies.Answer)
async def answer_request(
    here: ApiContext, request: IdPath, body: Annotated[bodies.Answer, taken(bodies.Answer)]
) -> Any:
    """Give the call's result in its tool's place, or what its tool asked for."""
    row = await here.visibility.request(request)
    done = here.inbox.decide(request, "answer", output=body.output, **words(body))
    return await _recorded(here, row, done, ("answer",))


@_decides("resolve", bodies.Resolve)
async def resolve(here: ApiContext, request: IdPath, body: Annotated[bodies.Resolve, taken(bodies.Resolve)]) -> Any:
    """Record what became of a call in doubt."""
    row = await here.visibility.request(request)
    done = here.inbox.decide(request, body.outcome, output=body.output, **words(body))
    return await _recorded(here, row, done, (body.outcome,))


@_decides("withdraw", bodies.Withdraw, RequestSeen)
async def withdraw(here: ApiContext, request: IdPath, body: Annotated[bodies.Withdraw, taken(bodies.Withdraw)]) -> Any:
    """Withdraw one's vote on an open request, or an approval before its call starts."""
    if body.run is None:
        await here.visibility.request(request)
    else:
        await here.visibility.run(body.run)
    row = await here.inbox.withdraw(request, run=body.run, once=here.name, **words(body))
    await here.visibility.reads("request", [row])
    return answer(RequestSeen.of(row))


@_decides("to_sign", bodies.Signing, ToSign)
async def to_sign(here: ApiContext, request: IdPath, body: Annotated[bodies.Signing, taken(bodies.Signing)]) -> Any:
    """Return the bytes that somebody signs who decides so; nothing is recorded."""
    row = await here.visibility.request(request)
    here.visibility.must_decide(row.request)
    more: dict[str, Any] = {
        "edit": body.edit, "seen": body.seen, "output": body.output, "message": body.message,
        "break_glass": body.break_glass, "asks_back": body.asks_back, "undo": body.undo,
        "digest": body.digest, "revision": body.revision, "note": body.note,
    }  # fmt: skip
    challenge = await here.app.inbox.to_sign(request, body.verdict, **more)
    run = (await log_in(here.app.journal, row.run)).run
    call = run.calls.get(row.call)  # it may have been decided in this moment
    return answer(ToSign(challenge, None if call is None else run.tools.get(call.proposal.tool)))


@routes.add("POST", "/approve_all", scope="decide", takes=bodies.ApproveAll, gives=Outcomes)
async def approve_all(here: ApiContext, body: Annotated[bodies.ApproveAll, taken(bodies.ApproveAll)]) -> Any:
    """Approve several requests, each as it was shown; one that is refused holds up none of the others."""
    rows, missing = await _several(here, body.requests)
    made = await here.inbox.decide_all(rows, "approve", note=body.note, undo=body.undo)
    return answer(_outcomes(body.requests, [*made, *missing]))


@routes.add("POST", "/reject_all", scope="decide", takes=bodies.RejectAll, gives=Outcomes)
async def reject_all(here: ApiContext, body: Annotated[bodies.RejectAll, taken(bodies.RejectAll)]) -> Any:
    """Reject several requests, each as it was shown."""
    rows, missing = await _several(here, body.requests)
    made = await here.inbox.decide_all(rows, "reject", message=body.message, note=body.note)
    return answer(_outcomes(body.requests, [*made, *missing]))


async def _several(here: Call, named: Sequence[bodies.OneOf]) -> tuple[list[Request], list[Outcome]]:
    """Return the requests as they were shown, and an outcome of each that is not there for whoever asks."""
    rows: list[Request] = []
    missing: list[Outcome] = []
    for each in {each.id: each for each in named}.values():
        try:
            row = await here.visibility.request(each.id)
        except NotPending as error:
            missing.append(Outcome(each.id, error=error))
        else:
            rows.append(replace(row.request, digest=each.digest))
    return rows, missing


def _outcomes(named: Sequence[bodies.OneOf], made: Sequence[Outcome]) -> Outcomes:
    by_id = {each.request: each for each in made}
    return Outcomes([_one(by_id[each.id]) for each in named])


def _one(made: Outcome) -> OneOutcome:
    told = None if made.error is None else error_body_of(made.error)
    return OneOutcome(made.request, made.ok, None if made.row is None else made.row.state, told)


def words(body: bodies.Word) -> dict[str, Any]:
    """Return what goes with any decision."""
    return {"digest": body.digest, "revision": body.revision, "note": body.note, "proof": body.proof}


async def _recorded(
    here: Call,
    row: RequestRow,
    deciding: Awaitable[RequestRow],
    verdicts: Sequence[str],
    grant: Grant | None = None,
) -> Any:
    """Decide, and answer with what the run's log says of it; `grant` is the standing one that is given."""
    try:
        done = await deciding
    except (NotAllowed, NotPending):
        raise
    except UserError:  # a standing decision is given once: said again with the same word, it is the one on record
        log = await log_in(here.app.journal, row.run)
        found = _decision(log, row, here.visitor.id, verdicts)
        if found is None or grant is None or found.grant is None:
            raise
        reach = reach_of(grant, log.run, here.app.journal)
        if not all(_is_same(grant, reach, terms) for terms in _granted(log, found.line)):
            raise
        return answer(found)
    log = await log_in(here.app.journal, row.run)
    found = _decision(log, row, here.visitor.id, verdicts)
    if found is None:  # it said nothing new, and what was said before was somebody else's word
        raise NotPending(f"nothing was recorded: the request is {done.state}")
    return answer(found)


def _granted(log: Log, line: int) -> list[ev.GrantTerms]:
    return [event.grant for event in log.steps[line].events if isinstance(event, ev.GrantGiven)]


def _is_same(grant: Grant, reach: str, terms: ev.GrantTerms) -> bool:
    """Return whether a grant is the one on record; when it ends is counted from when it was given."""
    asked = own_where(grant.where), grant.uses, grant.expires is None, reach
    return asked == (terms.where, terms.uses, terms.expires_at is None, terms.reach)


def _decision(log: Log, row: RequestRow, person: str, verdicts: Sequence[str]) -> Decided | None:
    """Find the newest word of a person on a call."""
    for line in range(len(log.steps) - 1, -1, -1):
        step = log.steps[line]
        granted = _granted(log, line)
        for event in step.events:
            if not isinstance(event, ev.CallDecided | ev.VoteCast | ev.DrillEnded):
                continue
            said_so = event.decision
            if said_so.call == row.call and said_so.by == person and said_so.verdict in verdicts:
                settled = not isinstance(event, ev.VoteCast)
                drill = SAID[event.passed] if isinstance(event, ev.DrillEnded) and event.passed is not None else None
                at = moment(max(step.at, 0))
                grant = granted[0].id if granted else None
                return Decided(row.id, row.run, said_so.verdict, person, at, line, settled, grant, drill)
    return None
