"""Two steps and broken glass where decisions are signed: the worker verifies the confirmation as well."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from keyturn import Approval, MemoryJournal, NotAllowed, UserError
from keyturn.core import commands as cm
from keyturn.core import events as ev
from keyturn.directory.people import Login
from keyturn.engine.driving.writer import write_to
from keyturn.engine.run.log_cache import log_in
from tests.directory.test_attacks import asked_again, bare, write
from tests.directory.test_signed import Desk
from tests.waiting import until_status

TERMS = Approval(signed=True, confirm=True, users=["bob", "cyd"], break_glass="chief")


@pytest.fixture
def journal(own_key: None) -> MemoryJournal:
    return MemoryJournal()


async def waiting(desk: Desk) -> Any:
    await desk.people()
    desk.run = await desk.app.start("desk", "Pay 5.", requester="ada")
    await until_status(desk.app, desk.run.id, "waiting")
    [request] = await desk.app.inbox.list()
    return request


async def test_the_requester_and_another_sign(journal: Any) -> None:
    desk = Desk(journal, TERMS)
    async with desk.app:
        request = await waiting(desk)
        await desk.app.inbox.approve(request, by=Login("ada"), proof=await desk.signed("ada", request))
        assert desk.paid == []
        await desk.app.inbox.approve(request, by=Login("bob"), proof=await desk.signed("bob", request))
        await desk.run.result(10)
    assert desk.paid == [5]


async def test_a_requester_who_confirms_with_an_edit_does_not_decide_alone(journal: Any) -> None:
    desk = Desk(journal, TERMS)
    async with desk.app:
        request = await waiting(desk)
        edit = {"amount": 5000}
        with pytest.raises(UserError, match="cannot be edited"):
            await desk.signed("ada", request, "edit", edit=edit)
    assert desk.paid == []


async def test_a_confirmation_that_nobody_signed_starts_nothing(journal: Any) -> None:
    desk = Desk(journal, TERMS)
    async with desk.app:
        request = await waiting(desk)
        _run, made = await bare(desk, request)
        proof = await desk.signed("bob", request)
        who = await desk.app.people.decider("bob", "signed")
        let = replace(made, decider=who, proof=proof)
        await write(desk, request.run, ev.CallDecided(let))
        again = await asked_again(desk, request)
        assert "did not confirm" in again.reason
    assert desk.paid == []


async def test_whoever_breaks_the_glass_signs(journal: Any) -> None:
    desk = Desk(journal, TERMS)
    async with desk.app:
        request = await waiting(desk)
        await desk.app.people.give_role("chief", to="cyd", by="ada")
        with pytest.raises(NotAllowed):
            await desk.app.inbox.approve(request, by=Login("cyd"), note="fire", break_glass=True)
        assert desk.paid == []
        proof = await desk.signed("cyd", request, note="fire", break_glass=True)
        await desk.app.inbox.approve(request, by=Login("cyd"), note="fire", break_glass=True, proof=proof)
        await desk.run.result(10)
    assert desk.paid == [5]


CHAIN = Approval(steps=[Approval(users=["bob"], signed=True), Approval(users=["cyd"], signed=True)])


async def test_each_step_of_a_chain_is_signed_by_its_approver(journal: Any) -> None:
    desk = Desk(journal, CHAIN)
    async with desk.app:
        request = await waiting(desk)
        with pytest.raises(NotAllowed):
            await desk.app.inbox.approve(request, by=Login("bob"))
        proof = await desk.signed("bob", request)
        await desk.app.inbox.approve(request, by=Login("bob"), proof=proof)
        await desk.app.inbox.approve(request, by=Login("bob"), proof=proof)  # sent again, it is the same vote
        [request] = await desk.app.inbox.list()
        await desk.app.inbox.approve(request, by=Login("cyd"), proof=await desk.signed("cyd", request))
        await desk.run.result(10)
    assert desk.paid == [5]


async def test_a_signed_step_that_escalated_is_met_by_those_to_whom_it_did(own_key: None) -> None:
    clock = [1_790_000_000_000]
    last = Approval(users=["cyd"], signed=True, expires="1h", on_expiry="escalate", escalate_to=["ada"])
    desk = Desk(MemoryJournal(lambda: clock[0]), Approval(steps=[Approval(users=["bob"], signed=True), last]))
    async with desk.app:
        request = await waiting(desk)
        await desk.app.inbox.approve(request, by=Login("bob"), proof=await desk.signed("bob", request))
        clock[0] += 2 * 3_600_000
        await write_to(desk.app.journal, await log_in(desk.app.journal, request.run), cm.Tick())
        [request] = await desk.app.inbox.list()
        await desk.app.inbox.approve(request, by=Login("ada"), proof=await desk.signed("ada", request))
        await desk.run.result(10)
    assert desk.paid == [5]


async def test_a_step_of_a_chain_that_nobody_signed_starts_nothing(journal: Any) -> None:
    desk = Desk(journal, CHAIN)
    async with desk.app:
        request = await waiting(desk)
        run, made = await bare(desk, request)
        forged = replace(made, decider=await desk.app.people.decider("bob", "signed"), confirms=True)
        due = CHAIN.then
        await write(desk, request.run, ev.VoteCast(forged), ev.CallAskedAgain(request.call, "step", run.now, due))
        request = await desk.app.inbox.get(request.id)
        await desk.app.inbox.approve(request, by=Login("cyd"), proof=await desk.signed("cyd", request))
        again = await asked_again(desk, request)
        assert "step 1 of its approval chain" in again.reason
        assert again.request.step == 1
    assert desk.paid == []


async def test_an_emergency_override_is_judged_by_all_steps_of_a_chain(journal: Any) -> None:
    """One of a later step was recorded, and the call asked again, since nobody had signed it."""
    steps = Approval(users=["bob"], signed=True, break_glass="chief"), Approval(users=["ada"], break_glass="chief")
    desk = Desk(journal, Approval(steps=steps))
    async with desk.app:
        request = await waiting(desk)
        await desk.app.people.give_role("chief", to="cyd", by="ada")
        await desk.app.inbox.approve(request, by=Login("bob"), proof=await desk.signed("bob", request))
        [request] = await desk.app.inbox.list()
        glass: Any = {"note": "fire", "break_glass": True}
        with pytest.raises(NotAllowed, match="signed with the approver's own key"):
            await desk.app.inbox.approve(request, by=Login("cyd"), **glass)
        proof = await desk.signed("cyd", request, **glass)
        await desk.app.inbox.approve(request, by=Login("cyd"), proof=proof, **glass)
        await desk.run.result(10)
    assert desk.paid == [5]
