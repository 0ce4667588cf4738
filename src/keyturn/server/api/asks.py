"""Requests of external callers over HTTP: ask, wait, claim once, report, withdraw."""

from __future__ import annotations

from typing import Annotated, Any

from ...asks.ask import AskState
from ...asks.service import LASTS, is_as_before
from ...core.errors import NotAllowed
from ...wire import asks as sent
from ...wire import bodies
from .paging import IdPath
from .routes import ApiContext, Call, Routes, answer, taken
from .runs import decider_of
from .waiting import Wait, settled

routes = Routes("asks")


@routes.add("POST", "/asks", scope="ask", takes=sent.AskFor, gives=AskState, errors=(409,))
async def ask(here: ApiContext, body: Annotated[sent.AskFor, taken(sent.AskFor)]) -> Any:
    """Ask for approval of a call that you carry out yourself.

    The same key with the same content is the same request; with other content it is a conflict.
    """
    visitor = here.visitor
    requester = body.requester or visitor.id
    if requester != visitor.id and visitor.person.kind != "machine":
        raise NotAllowed("a person asks for themselves; a service account says for whom it asks")
    asks, quota = here.app.asks, here.request.app.state.open_asks
    known = await asks.find(body.key, account=visitor.id)
    if known is None:
        await quota.check(visitor.id)
    state = await asks.ask(body.ask, account=visitor.id, requester=requester, agent=body.agent)
    if known is None:
        quota.opened(visitor.id, state.id)
    return answer(state)


@routes.add("GET", "/asks/{ask}", scope="ask", gives=AskState, errors=(404,))
async def get_ask(here: ApiContext, ask: IdPath, wait: Wait = 0) -> Any:
    """Return how a request stands; with `wait`, once it is not pending any more, or so many seconds have passed."""
    asks = here.app.asks

    async def look(now: Call) -> AskState:
        return await asks.get(ask, account=now.visitor.id)

    async def left(state: AskState) -> float | None:
        return await asks.undo_left(state) if state.status == "pending" else None

    return answer(await settled(here, wait, ask, look, left, lambda before, now: not is_as_before(before, now)))


@routes.add("POST", "/asks/{ask}/claim", scope="ask", takes=sent.ClaimAsk, gives=AskState, errors=(404, 409))
async def claim(here: ApiContext, ask: IdPath, body: Annotated[sent.ClaimAsk, taken(sent.ClaimAsk)]) -> Any:
    """Claim an approved call, once: the caller that gets an answer runs it, and no other does."""
    asks, lasts = here.app.asks, body.lasts or LASTS
    return answer(await asks.claim(ask, body.digest, body.name, lasts=lasts, account=here.visitor.id))


@routes.add("POST", "/asks/{ask}/hold", scope="ask", takes=sent.HoldAsk, gives=AskState, errors=(404, 409))
async def hold(here: ApiContext, ask: IdPath, body: Annotated[sent.HoldAsk, taken(sent.HoldAsk)]) -> Any:
    """Prolong a claim, so that the call is not put in doubt while it is being carried out."""
    asks, lasts = here.app.asks, body.lasts or LASTS
    return answer(await asks.hold(ask, body.name, lasts=lasts, account=here.visitor.id))


@routes.add("POST", "/asks/{ask}/outcome", scope="ask", takes=sent.ReportOutcome, gives=AskState, errors=(404, 409))
async def report(here: ApiContext, ask: IdPath, body: Annotated[sent.ReportOutcome, taken(sent.ReportOutcome)]) -> Any:
    """Report what came of a claimed call: succeeded, failed, or unknown, which puts it in doubt."""
    asks = here.app.asks
    return answer(await asks.report(ask, body.name, body.outcome, body.result, account=here.visitor.id))


@routes.add("POST", "/asks/{ask}/withdraw", scope="ask", takes=bodies.Why, gives=AskState, errors=(404, 409))
async def withdraw_ask(here: ApiContext, ask: IdPath, body: Annotated[bodies.Why, taken(bodies.Why)]) -> Any:
    """Withdraw a request that was not claimed."""
    asks = here.app.asks
    return answer(await asks.withdraw(ask, account=here.visitor.id, by=decider_of(here), why=body.why))
