"""Calls that ask from inside a tool and are kept: in an app's inbox, cut at every commit, read by the auditor."""

from __future__ import annotations

from typing import Any

from keyturn import Agent, App, ApprovalRequired, CallDeferred, Policy, Rule, Runner, ToolContext, function_tool
from keyturn.testing import Answer, check
from keyturn.testing.crash import Scenario, sweep
from tests.playing import call, script


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
