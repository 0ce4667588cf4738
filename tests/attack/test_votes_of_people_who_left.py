"""A vote of a quorum counts where its person could cast it as the quorum is complete."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import pytest

from keyturn import Agent, App, Approval, MemoryJournal, NotAllowed, function_tool
from keyturn.audit.checker import check
from keyturn.directory.people import Login, People
from keyturn.inbox.request_store import RequestStore
from keyturn.models.scripted.model import ScriptedModel, function_call
from keyturn.tools.base import OutcomeUnknown
from tests.attack.leaving import left, left_and_came_back, lost_the_role
from tests.table import each

pytestmark = pytest.mark.usefixtures("own_key")
PAID: list[int] = []
_TWO = Approval(role="finance", quorum=2)
_CHAIN = Approval(steps=[Approval(role="finance"), Approval(role="ops")])


async def pay(amount: int) -> str:
    """Pay somebody."""
    if not amount:
        raise OutcomeUnknown("the line went dead")
    PAID.append(amount)
    return "paid"


async def _apps(terms: Approval = _TWO, amount: int = 5) -> AsyncGenerator[App]:
    PAID.clear()
    tool = function_tool(needs_approval=True, approval=terms)(pay)
    app = App(
        [Agent("desk", model=ScriptedModel([[function_call("pay", {"amount": amount})], "Done."]), tools=[tool])],
        MemoryJournal(),
    )
    await app.people.start("ada")
    for name in ("ben", "cyd", "dan"):
        await app.people.add(name, roles=["finance", "ops"], by="ada")
    await app.people.add("eve", by="ada")
    async with app:
        yield app


@pytest.fixture
async def app() -> AsyncGenerator[App]:
    async for made in _apps():
        yield made


async def lost_another_role(people: People) -> None:
    await people.take_role("ops", of="ben", by="ada")


async def nothing(_people: People) -> None:
    """Nothing became of Ben."""


async def voted(app: App, became: Callable[[People], Awaitable[None]], by: str = "ben") -> Any:
    """Let Ben, or who decides in his place, vote on a call, and then become somebody else."""
    run = await app.start("desk", "once", requester="ben")
    await app.wait(run.id, 20)
    [asked] = await app.inbox.list(run=run.id)
    await app.inbox.approve(asked, by=Login(by))
    await became(app.people)
    return asked


async def ends(app: App, asked: Any, by: str) -> str:
    await app.inbox.approve(asked, by=Login(by))
    return (await app.wait(asked.run, 20)).status


@each("became", [left, left_and_came_back, lost_the_role])
async def test_a_vote_of_a_person_who_could_not_cast_it_now_completes_no_quorum(became: Any) -> None:
    async for app in _apps():
        asked = await voted(app, became)
        assert (await ends(app, asked, "cyd"), PAID) == ("waiting", [])
        row = await app.inbox.get(asked.id)
        assert [vote.by for vote in row.request.votes] == ["cyd"]
        assert (await ends(app, asked, "dan"), PAID) == ("finished", [5])
        assert (await check(app.journal)).violations == []


async def test_a_person_who_came_back_votes_anew(app: App) -> None:
    asked = await voted(app, left_and_came_back)
    assert await ends(app, asked, "ben") == "waiting"
    assert await ends(app, asked, "cyd") == "finished"
    assert (await check(app.journal)).violations == []


async def test_a_vote_stays_where_its_person_loses_what_it_did_not_need(app: App) -> None:
    asked = await voted(app, lost_another_role)
    assert await ends(app, asked, "cyd") == "finished"
    assert (await check(app.journal)).violations == []


async def test_a_vote_in_the_place_of_another_ends_with_the_delegation(app: App) -> None:
    lent = await app.people.delegate("ben", "eve", lasts="1h", by="ben")

    async def ended(people: People) -> None:
        await people.end_delegation(lent.id, by="ben")

    asked = await voted(app, ended, by="eve")
    assert await ends(app, asked, "cyd") == "waiting"
    assert await ends(app, asked, "dan") == "finished"
    assert (await check(app.journal)).violations == []


async def returned_and_delegated_anew(people: People) -> None:
    await left_and_came_back(people)
    await people.delegate("ben", "eve", lasts="1h", by="ben")


async def test_a_vote_in_the_place_of_a_person_ends_as_that_person_leaves(app: App) -> None:
    """Whom Ben lets decide for him once he is back votes anew, as Ben himself would."""
    await app.people.delegate("ben", "eve", lasts="1h", by="ben")
    asked = await voted(app, returned_and_delegated_anew, by="eve")
    assert await ends(app, asked, "cyd") == "waiting"
    assert await ends(app, asked, "eve") == "finished"
    assert (await check(app.journal)).violations == []


@each("became", [left, left_and_came_back])
async def test_a_confirmation_of_a_person_who_could_not_give_it_now_lets_nothing_run(became: Any) -> None:
    async for app in _apps(Approval(role="finance", confirm=True)):
        asked = await voted(app, became)
        with pytest.raises(NotAllowed, match="ben confirmed this call, and could not confirm it now"):
            await app.inbox.approve(asked, by=Login("cyd"))
        await app.inbox.reject(asked, by=Login("cyd"))
        assert ((await app.wait(asked.run, 20)).status, PAID) == ("finished", [])
        assert (await check(app.journal)).violations == []


async def test_a_call_in_doubt_is_resolved_though_a_voter_of_an_earlier_step_left() -> None:
    async for app in _apps(_CHAIN, amount=0):
        asked = await voted(app, nothing)
        assert await ends(app, await app.inbox.get(asked.id), "cyd") == "waiting"
        await app.inbox.resolve(await app.inbox.get(asked.id), "retry", by=Login("ben"))
        await left(app.people)
        doubt = await app.inbox.get(asked.id)
        assert (doubt.kind, doubt.request.step) == ("in_doubt", 2)
        with pytest.raises(NotAllowed, match=r"ben approved this call.* resolve it as ran or did_not_run"):
            await app.inbox.resolve(doubt, "retry", by=Login("cyd"))
        await app.inbox.resolve(doubt, "did_not_run", by=Login("cyd"))
        assert (await app.wait(asked.run, 20)).status == "finished"
        assert (await check(app.journal)).violations == []


@each("became", [left, left_and_came_back, lost_the_role, returned_and_delegated_anew])
async def test_the_auditor_finds_a_vote_that_counted_and_could_not_be_cast(became: Any) -> None:
    """As an inbox would count it that does not ask the directory."""

    async def nobody(_self: object, _run: object, _call: object) -> tuple[str, ...]:
        return ()

    async for app in _apps():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(RequestStore, "_lapsed", nobody)
            by = "eve" if became is returned_and_delegated_anew else "ben"
            if by == "eve":
                await app.people.delegate("ben", "eve", lasts="1h", by="ben")
            assert await ends(app, await voted(app, became, by), "cyd") == "finished"
        [found] = (await check(app.journal)).violations
        assert (found.invariant, f"a vote of {by!r}" in found.what) == ("I1", True)
