"""A call is reviewed in the terminal inbox, and one that has to be looked at for a while before it is approved."""

from __future__ import annotations

import pytest

from keyturn import Agent, App, Approval, MemoryJournal, Policy, function_tool
from keyturn.models.scripted.model import ScriptedModel, function_call
from keyturn.policies.rules import allow
from tests.inbox_screen.playing_inbox import sitting
from tests.server.office import Clock, peopled

pytestmark = pytest.mark.usefixtures("undrawn")


@function_tool
def pay(to: str) -> str:
    """Pay somebody."""
    return f"paid {to}"


@function_tool(needs_approval=True, approval=Approval(role="finance", min_look="5s"))
def sign_off(what: str) -> str:
    """Sign something off."""
    return f"signed off {what}"


def app_of(tool: object, call: object, policy: Policy | None = None) -> tuple[App, Clock]:
    clock = Clock()
    agent = Agent("desk", model=ScriptedModel([[call], "Done."]), tools=[tool])
    return App([agent], MemoryJournal(clock), policy=policy), clock


@pytest.mark.trial
async def test_a_call_is_said_to_have_been_wrong_with_a_reason() -> None:
    app, clock = app_of(pay, function_call("pay", {"to": "ann"}), Policy(allow(tool="pay", review=1.0)))
    async with app:
        await peopled(app)
        await (await app.start("desk", "Go.", requester="cyd")).result(20)
        async with sitting(app, clock, "ada") as at:
            await at.says("◇ review", "y it was right", "N it was wrong")
            await at.press("N")
            await at.until(lambda: at.asks)
            await at.type("She was paid before.")
            await at.says("Recorded")
            assert not await app.inbox.list(kind="review")


async def test_what_has_to_be_looked_at_is_approved_only_after_a_while() -> None:
    app, clock = app_of(sign_off, function_call("sign_off", {"what": "the report"}))
    async with app:
        await peopled(app)
        run = await app.start("desk", "Go.", requester="cyd")
        await app.wait(run.id, 20)
        async with sitting(app, clock, "ada") as at:
            await at.says("wants to run: sign_off")
            await at.seen()
            await at.press("a")
            await at.says("Not recorded")
            assert await app.inbox.list()
            clock.now += 6_000
            await at.press("a")
            await at.says("Recorded: You approved this call")
