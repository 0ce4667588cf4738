"""Terms that its tool states now hold for a call that waits: stricter ones ask anew, looser ones help nobody."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import Agent, App, Approval, Decider, MemoryJournal, RunHandle, UserError, function_tool
from keyturn.audit.checker import check
from keyturn.core.events import CallDecided, CallLost, CallVoided
from keyturn.deep import create_deep_agent
from keyturn.models.scripted.model import function_call
from keyturn.tools.base import OutcomeUnknown
from tests.playing import Effects, call, pay_tool, script
from tests.table import each

ANN = Decider("ann", roles=("finance",), strength="authenticated")
BEA = Decider("bea", roles=("board",), strength="authenticated")
BOB = Decider("bob", roles=("board",), strength="authenticated")
FINANCE = Approval(role="finance")

#: What is stricter than finance alone: the terms of the next deployment, and who lets the call run then, if anybody.
STRICTER: dict[str, tuple[Approval, list[Decider]]] = {
    "another role": (Approval(role="board"), [BEA]),
    "several of another role": (Approval(role="board", quorum=2), [BEA, BOB]),
    "several": (Approval(quorum=2), [ANN, BEA]),
    "named people": (Approval(users=["bea"]), [BEA]),
    "somebody else than the requester": (Approval(role="board", not_requester=True), [BEA]),
    "a reason": (Approval(role="finance", reason="required"), [ANN]),
    "a look": (Approval(role="finance", min_look="1h"), []),
}


def app_of(effects: Effects, journal: Any, approval: Approval | None, **options: Any) -> App:
    gated: dict[str, Any] = {"needs_approval": approval is not None, "approval": approval, **options}
    agent = Agent("desk", model=script([call("pay", "c1", to="ada")], "done"), tools=[pay_tool(effects, **gated)])
    return App([agent], journal, worker=True)


async def waiting(effects: Effects, journal: Any, approval: Approval | None, **options: Any) -> RunHandle:
    async with app_of(effects, journal, approval, **options) as app:
        run = await app.start("desk", "go", requester="eve")
        assert (await run.wait(20)).status == "waiting"
        return run


async def the_request(app: App) -> Any:
    [found] = await app.inbox.list()
    return found


@each("stricter", STRICTER)
async def test_stricter_terms_hold_for_what_waits(stricter: str) -> None:
    """Who could decide before the deployment decides, and the call is asked about anew, on the terms of now."""
    effects, journal = Effects(), MemoryJournal()
    terms, deciders = STRICTER[stricter]
    run = await waiting(effects, journal, FINANCE)
    async with app_of(effects, journal, terms) as app:
        first = await the_request(app)
        await app.inbox.approve(first, by=ANN)
        run = app.run(run.id)
        await run.wait(20)
        again = await the_request(app)
        assert (effects, again.revision > first.revision) == ([], True)
        assert "terms of its tool have changed" in again.reason
        if not deciders:
            return
        for decider in deciders:
            await app.inbox.approve(await the_request(app), by=decider, note="as agreed")
        assert (await run.result(20)).final_output == "done"
    assert effects == [("pay", "ada", 5)]
    report = await check(journal)
    assert report.ok, report.violations


@each(
    "looser",
    [
        Approval(role="finance"),
        Approval(expires="2h"),
        None,
    ],
)
async def test_looser_terms_help_nobody(looser: Approval | None) -> None:
    """The terms on which a call asked hold as well: they are on record."""
    effects, journal = Effects(), MemoryJournal()
    run = await waiting(effects, journal, Approval(role="finance", quorum=2))
    async with app_of(effects, journal, looser) as app:
        await app.inbox.approve(await the_request(app), by=ANN)
        with pytest.raises(UserError):
            await app.inbox.approve(await the_request(app), by=BEA)
        assert effects == []
        await app.inbox.approve(await the_request(app), by=Decider("amy", roles=("finance",), strength="authenticated"))
        assert (await app.run(run.id).result(20)).final_output == "done"
    assert effects == [("pay", "ada", 5)]
    assert (await check(journal)).ok


async def test_who_meets_the_terms_of_now_is_not_asked_twice() -> None:
    effects, journal = Effects(), MemoryJournal()
    run = await waiting(effects, journal, Approval(quorum=2))
    async with app_of(effects, journal, Approval(role="board", quorum=2)) as app:
        for decider in (BEA, BOB):
            await app.inbox.approve(await the_request(app), by=decider)
        result = await app.run(run.id).result(20)
        log = result.to_state().live.log
    assert effects == [("pay", "ada", 5)]
    assert not [event for step in log.steps for event in step.events if isinstance(event, CallVoided)]
    assert (await check(journal)).ok


async def test_an_approval_that_waits_for_its_start_meets_the_terms_of_then() -> None:
    """Decided before the deployment, and started after it: the start looks at the terms of its own time."""
    effects, journal = Effects(), MemoryJournal()
    run = await waiting(effects, journal, FINANCE)
    decides = App([], journal, worker=False)
    await decides.inbox.approve(await the_request(decides), by=ANN)
    async with app_of(effects, journal, Approval(role="board")) as app:
        await app.run(run.id).wait(20)
        assert effects == []
        await app.inbox.approve(await the_request(app), by=BEA)
        assert (await app.run(run.id).result(20)).final_output == "done"
    assert effects == [("pay", "ada", 5)]
    assert (await check(journal)).ok


async def test_a_retry_of_a_call_in_doubt_takes_the_terms_of_now() -> None:
    """It may have acted: it stays in doubt, and the people of now say what becomes of it."""
    journal, ran = MemoryJournal(), list[str]()

    def app_on(terms: Approval) -> App:
        @function_tool(needs_approval=True, approval=terms)
        def pay(to: str) -> str:
            ran.append(to)
            if len(ran) == 1:
                raise OutcomeUnknown("the line went down")
            return "paid"

        return App([Agent("desk", model=script([call("pay", "c1", to="ada")], "done"), tools=[pay])], journal)

    async with app_on(FINANCE) as app:
        run = await app.start("desk", "go")
        await run.wait(20)
        await app.inbox.approve(await the_request(app), by=ANN)
        await run.wait(20)
        assert (await the_request(app)).kind == "in_doubt"
    async with app_on(Approval(role="board")) as app:
        await app.inbox.resolve(await the_request(app), "retry", by=ANN)
        await app.run(run.id).wait(20)
        again = await the_request(app)
        assert (ran, again.kind) == (["ada"], "in_doubt")
        with pytest.raises(UserError, match="board"):
            await app.inbox.resolve(again, "retry", by=ANN)
        await app.inbox.resolve(again, "retry", by=BEA)
        result = await app.run(run.id).result(20)
        log = result.to_state().live.log
    assert ran == ["ada", "ada"]
    assert [event for step in log.steps for event in step.events if isinstance(event, CallLost)]
    assert (await check(journal)).ok


async def test_an_answer_in_a_tools_place_takes_the_terms_of_now() -> None:
    effects, journal = Effects(), MemoryJournal()
    run = await waiting(effects, journal, FINANCE)
    async with app_of(effects, journal, Approval(role="board")) as app:
        await app.inbox.answer(await the_request(app), "paid 5", by=ANN)
        result = await app.run(run.id).result(20)
        assert "paid 5" not in str(result.to_input_list())
    assert effects == []
    assert (await check(journal)).ok


async def test_a_nested_call_takes_the_terms_of_now() -> None:
    effects, journal = Effects(), MemoryJournal()

    def app_on(terms: Approval) -> App:
        inner = Agent("inner", model=script([call("pay", "i1", to="ada")], "paid"), tools=[])
        inner.tools = [pay_tool(effects, approval=terms)]
        tool = inner.as_tool("inner", "Pays.")
        return App([Agent("desk", model=script([call("inner", "c1", input="x")], "done"), tools=[tool])], journal)

    async with app_on(FINANCE) as app:
        run = await app.start("desk", "go")
        await run.wait(20)
    async with app_on(Approval(role="board")) as app:
        await app.inbox.approve(await the_request(app), by=ANN)
        await app.run(run.id).wait(20)
        assert effects == []
        await app.inbox.approve(await the_request(app), by=BEA)
        assert (await app.run(run.id).result(20)).final_output == "done"
    assert effects == [("pay", "ada", 5)]
    assert (await check(journal)).ok


async def test_the_terms_of_interrupt_on_hold_for_what_waits() -> None:
    journal = MemoryJournal()

    def app_on(terms: Approval) -> App:
        writes = function_call("write_file", {"path": "/a", "content": "x"}, call_id="w1")
        agent = create_deep_agent(script([writes], "done"), name="desk", interrupt_on={"write_file": terms})
        return App([agent], journal)

    async with app_on(FINANCE) as app:
        run = await app.start("desk", "go")
        await run.wait(20)
    async with app_on(Approval(role="board")) as app:
        await app.inbox.approve(await the_request(app), by=ANN)
        await app.run(run.id).wait(20)
        await app.inbox.approve(await the_request(app), by=BEA)
        result = await app.run(run.id).result(20)
        decided = [event for step in result.to_state().live.log.steps for event in step.events]
    assert [made.decision.by for made in decided if isinstance(made, CallDecided)] == ["ann", "bea"]
    assert (await check(journal)).ok
