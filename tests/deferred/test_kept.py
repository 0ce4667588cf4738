"""Calls that ask from inside a tool and are kept: in an app's inbox, cut at every commit, read by the auditor."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import (
    Agent,
    App,
    Approval,
    ApprovalRequired,
    CallDeferred,
    CustomTool,
    Grant,
    Policy,
    Rule,
    Runner,
    ShellTool,
    ToolContext,
    UserError,
    Verdict,
    function_tool,
)
from keyturn.testing import Answer, check
from keyturn.testing.crash import Scenario, sweep
from keyturn.tools.base import NeedsInput
from tests.playing import call, play, script


def shop(done: Any, *calls: Any) -> Agent[Any]:
    """An agent whose tools ask from inside."""

    @function_tool
    async def pay(context: ToolContext[Any], amount: int) -> str:
        if amount > 100 and not context.tool_call_approved:
            raise ApprovalRequired(metadata={"limit": 100})
        done(context, f"pay {amount}")
        return f"paid {amount}"

    @function_tool
    async def ship(context: ToolContext[Any], to: str) -> str:
        raise CallDeferred(metadata={"to": to})

    steps = [*calls] or [call("pay", "c1", amount=300), call("ship", "c2", to="ada"), call("pay", "c3", amount=5)]
    return Agent("shop", model=script(steps, "Done."), tools=[pay, ship])


def say(item: Any) -> Any:
    if item.kind == "external":
        return Answer("box 4")
    return {"amount": 200} if item.params["amount"] == 300 else True


async def test_no_crash_loses_or_doubles_anything(streamed: bool) -> None:
    report = await sweep(Scenario("asks inside", lambda done: shop(done.record), decide=say), streamed=streamed)
    assert report.cuts > 5
    assert not report.violations, "\n".join(report.violations)


async def test_an_app_lists_them_in_its_inbox_and_its_worker_goes_on(store: Any) -> None:
    done: list[str] = []
    async with App([shop(lambda _context, what: done.append(what))], store) as app:
        run = await app.start("shop", "go")
        await run.wait()
        rows = {row.request.tool: row for row in await app.inbox.list(run=run.id)}
        assert {tool: row.request.kind for tool, row in rows.items()} == {"pay": "approval", "ship": "external"}
        assert rows["pay"].request.params == {"amount": 300}
        await app.inbox.approve(rows["pay"], by="ann", edit={"amount": 250})
        await app.inbox.answer(rows["ship"], "box 4", by="ann")
        assert (await run.result()).final_output == "Done."
    assert sorted(done) == ["pay 250", "pay 5"]
    assert not (await check(store)).violations


async def test_a_policy_has_the_last_word_on_an_approval_asked_for_inside() -> None:
    done: list[str] = []
    agent = shop(lambda _context, what: done.append(what), call("pay", "c1", amount=300))
    result = await Runner.run(agent, "go", policy=Policy(Rule("allow")))
    state = result.to_state()
    state.approve(result.interruptions[0])
    ended = await Runner.run(agent, state, policy=Policy(Rule("deny", reason="closed today")))
    assert (ended.final_output, done) == ("Done.", [])


async def test_effects_of_an_edited_call_that_asks_inside_twice_are_those_of_the_edit() -> None:
    done: list[str] = []
    agent = shop(lambda _context, what: done.append(what), call("pay", "c1", amount=300))
    agent.tools[0].needs_approval = True
    result = await Runner.run(agent, "go")
    state = result.to_state()
    state.approve(result.interruptions[0], edit={"amount": 200})
    ended = await Runner.run(agent, state)
    assert (ended.final_output, done) == ("Done.", ["pay 200"])
    assert not (await check(ended.to_state())).violations


def kiosk(done: list[int], *steps: Any, listens: bool = True, **options: Any) -> Agent[Any]:
    """An agent whose tool asks from inside each time, or whatever it is told."""

    @function_tool(**options)
    def pay(context: ToolContext[Any], amount: int) -> str:
        if not (listens and context.tool_call_approved):
            raise ApprovalRequired()
        done.append(amount)
        return f"paid {amount}"

    return Agent("kiosk", model=script(*steps, "Done."), tools=[pay])


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_standing_approval_covers_calls_that_ask_from_inside(streamed: bool, gated: bool) -> None:
    """It covered those that waited when it was given, and no later one."""
    done: list[int] = []
    first = [call("pay", "c1", amount=1), call("pay", "c2", amount=2)]
    agent = kiosk(done, first, [call("pay", "c3", amount=3)], needs_approval=gated)
    waits = await play(agent, "go", streamed)
    state = waits.to_state()
    state.approve(waits.interruptions[0], always_approve=True)
    ended = await play(agent, state, streamed)
    assert (ended.final_output, done) == ("Done.", [1, 2, 3])


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_standing_approval_that_is_used_up_covers_no_call_that_asks_from_inside(streamed: bool) -> None:
    done: list[int] = []
    agent = kiosk(done, *([call("pay", f"c{number}", amount=number)] for number in range(1, 5)))
    waits = await play(agent, "go", streamed)
    state = waits.to_state()
    state.approve(waits.interruptions[0], grant=Grant(where={"amount": {"lt": 9}}, uses=1))
    waits = await play(agent, state, streamed)
    assert (done, [item.params for item in waits.interruptions]) == ([1, 2], [{"amount": 3}])


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_tool_that_asks_whatever_stands_asks_a_person_in_the_end(streamed: bool, gated: bool) -> None:
    agent = kiosk([], [call("pay", "c1", amount=1)], [call("pay", "c2", amount=2)], listens=False, needs_approval=gated)
    result = await play(agent, "go", streamed)
    for _ in range(4):
        state = result.to_state()
        state.approve(result.interruptions[0], always_approve=True)
        result = await play(agent, state, streamed)
        assert len(result.interruptions) == 1
    assert not (await check(result.to_state())).violations


async def test_a_standing_approval_of_another_run_covers_a_call_that_asks_from_inside(store: Any) -> None:
    done: list[int] = []
    async with App([kiosk(done, [call("pay", "c1", amount=1)])], store) as app:
        run = await app.start("kiosk", "go")
        await run.wait()
        [row] = await app.inbox.list(run=run.id)
        await app.inbox.approve(row, by="ann", grant=Grant(scope="agent"))
        assert (await run.result()).final_output == "Done."
        again = await app.start("kiosk", "go")
        await again.wait()
        assert (done, await app.inbox.list(run=again.id)) == ([1, 1], [])


async def test_terms_that_let_a_call_run_hold_for_what_it_asks_from_inside(store: Any) -> None:
    """They were those of its tool alone: a request that nobody answered waited for ever."""
    agent = kiosk([], [call("pay", "c1", amount=1)], listens=False)
    terms = Approval(expires="1h", reason="required")
    async with App([agent], store, policy=lambda _call, _context: Verdict("ask", terms=terms)) as app:
        run = await app.start("kiosk", "go")
        for _ in range(2):
            await run.wait()
            [row] = await app.inbox.list(run=run.id)
            assert row.expires_at is not None
            with pytest.raises(UserError, match="reason"):
                await app.inbox.approve(row, by="ann")
            await app.inbox.approve(row, by="ann", note="it is due")


@pytest.mark.each
@pytest.mark.parametrize(
    ("wrong", "words"), [({"wants": "money"}, "wants of NeedsInput"), ({"wants": "approval", "state": 1}, "state of")]
)
async def test_a_question_that_is_none_is_an_error_of_its_tool_and_of_no_run(wrong: Any, words: str) -> None:
    """The run failed, and the call was in doubt."""
    with pytest.raises(UserError, match=words):
        NeedsInput({}, **wrong)
    tool = function_tool(lambda: NeedsInput({}, **wrong), name_override="ask")
    agent = Agent("a", model=script([call("ask", "c1")], "Done."), tools=[tool])
    assert (await play(agent)).final_output == "Done."


@pytest.mark.parametrize("behavior", ["run_llm_again", "stop_on_first_tool"])
async def test_tools_of_other_kinds_ask_from_inside(streamed: bool, behavior: Any) -> None:
    def asks(*_given: Any) -> Any:
        raise ApprovalRequired

    calls = [
        {"type": "custom_tool_call", "call_id": "c1", "name": "note", "input": "hi"},
        {"type": "shell_call", "call_id": "c2", "action": {"commands": ["ls"]}, "status": "completed"},
    ]
    tools: list[Any] = [CustomTool("note", "Notes.", asks), ShellTool(asks, needs_approval=False)]
    agent = Agent("a", model=script(calls, "Done."), tools=tools, tool_use_behavior=behavior)
    result = await play(agent, "go", streamed)
    assert [item.kind for item in result.interruptions] == ["approval", "approval"]
    state = result.to_state()
    for item in result.interruptions:
        state.approve(item, always_approve=True)
    assert len((await play(agent, state, streamed)).interruptions) == 2
