"""Two steps and broken glass where decisions are signed: the worker verifies the confirmation as well."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from keyturn import Approval, MemoryJournal, NotAllowed, UserError
from keyturn.core import events as ev
from keyturn.directory.people import Login
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
