"""A grant is a standing decision of its giver: it applies as long as they could give it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import pytest

from keyturn import (
    Agent,
    App,
    Approval,
    Grant,
    MemoryJournal,
    NotAllowed,
    ToolGuardrailFunctionOutput,
    function_tool,
    tool_input_guardrail,
)
from keyturn.directory.credentials import FRESH_MS, check_grant
from keyturn.directory.people import Login, People
from keyturn.models.base import ModelRequest
from keyturn.models.scripted.model import ScriptedModel, function_call
from tests.attack.leaving import left, left_and_came_back, lost_the_role

pytestmark = pytest.mark.usefixtures("own_key")
PAID: list[int] = []
BETWEEN: list[Callable[[], Awaitable[Any]]] = []


@function_tool(needs_approval=True, approval=Approval(role="finance"))
async def pay(amount: int) -> str:
    """Pay somebody."""
    PAID.append(amount)
    for each in BETWEEN:
        await each()
    return "paid"


def says(request: ModelRequest) -> Any:
    """Pay once for each word of the question."""
    done = sum(item.get("type") == "function_call_output" for item in request.input)
    words = str(request.input[0].get("content")).split()
    return "Done." if done >= len(words) else [function_call("pay", {"amount": done})]


@pytest.fixture
async def app() -> AsyncGenerator[App]:
    PAID.clear()
    BETWEEN.clear()
    app = App([Agent("desk", model=ScriptedModel(says), tools=[pay])], MemoryJournal())
    people = app.people
    await people.start("ada")
    for name, roles in (("ben", ["finance", "ops"]), ("cyd", [])):
        await people.add(name, roles=roles, by="ada")
    async with app:
        yield app


async def granted(app: App, by: str = "ben", scope: Any = "agent", words: str = "once") -> str:
    """Give a grant with the approval of a first call, and return its run."""
    run = await app.start("desk", words)
    await app.wait(run.id, 20)
    [asked] = await app.inbox.list(run=run.id)
    await app.inbox.approve(asked, by=Login(by), grant=Grant(scope=scope))
    await app.wait(run.id, 20)
    return run.id


async def later(app: App) -> str:
    run = await app.start("desk", "once")
    return (await app.wait(run.id, 20)).status


@pytest.mark.parametrize("became", [left, left_and_came_back, lost_the_role])
async def test_a_grant_of_a_person_who_could_not_give_it_now_lets_no_call_of_another_run_pass(
    app: App, became: Callable[[People], Awaitable[None]]
) -> None:
    await granted(app)
    assert await later(app) == "finished"
    await became(app.people)
    assert (await later(app), len(PAID)) == ("waiting", 2)


async def test_a_grant_stays_where_its_giver_loses_what_it_did_not_need(app: App) -> None:
    await granted(app)
    await app.people.take_role("ops", of="ben", by="ada")
    await app.people.remove("cyd", by="ada")
    assert await later(app) == "finished"


async def test_a_grant_applies_again_once_its_giver_has_the_role_again(app: App) -> None:
    await granted(app)
    await lost_the_role(app.people)
    assert await later(app) == "waiting"
    await app.people.give_role("finance", to="ben", by="ada")
    assert await later(app) == "finished"


@pytest.mark.parametrize("became", [left, lost_the_role])
async def test_a_grant_of_the_run_itself_ends_with_its_giver_too(
    app: App, became: Callable[[People], Awaitable[None]]
) -> None:
    async def once() -> None:
        BETWEEN.clear()
        await became(app.people)

    BETWEEN.append(once)
    run = await granted(app, scope="run", words="twice over")
    assert ((await app.get(run)).status, PAID) == ("waiting", [0])
    [asked] = await app.inbox.list(run=run)
    assert "ben gave the grant" in asked.request.reason


async def test_a_grant_that_was_given_in_the_place_of_another_ends_with_the_delegation(app: App) -> None:
    lent = await app.people.delegate("ben", "cyd", lasts="1h", by="ben")
    await granted(app, by="cyd")
    assert await later(app) == "finished"
    await app.people.end_delegation(lent.id, by="ben")
    assert (await later(app), len(PAID)) == ("waiting", 2)


@pytest.mark.parametrize("scope", ["run", "agent"])
async def test_a_grant_lets_no_call_start_whose_giver_left_just_before(app: App, scope: str) -> None:
    """A call of the grant's own run, or of another one that borrowed it: guardrails come before the start."""
    first: list[Any] = []

    @tool_input_guardrail
    async def meanwhile(_data: Any) -> ToolGuardrailFunctionOutput:
        if PAID and not first:
            first.append(await left(app.people))
        return ToolGuardrailFunctionOutput.allow()

    pay.tool_input_guardrails = [meanwhile]
    try:
        run = await granted(app, scope=scope, words="once twice" if scope == "run" else "once")
        status = (await app.wait(run, 20)).status if scope == "run" else await later(app)
    finally:
        pay.tool_input_guardrails = None
    assert (status, len(PAID), len(first)) == ("waiting", 1, 1)


async def test_a_login_gives_no_grant_that_outlasts_it(app: App) -> None:
    """A token of an hour, and a session that was left open, which is fresh at first."""
    people = app.people
    short = await people.login(await people.issue_token("ben", ["decide"], by="ada", expires="1h"))
    session = await people.login(await people.begin_session("ben", "password", lasts="12h"))
    run = await app.start("desk", "once")
    await app.wait(run.id, 20)
    [asked] = await app.inbox.list(run=run.id)
    for grant in (Grant(), Grant(uses=2), Grant(expires="2h")):
        with pytest.raises(NotAllowed, match="outlasts it"):
            await app.inbox.approve(asked, by=short, grant=grant)
    await people.check_grant(session, None)
    directory, later = await people.directory(), await people.now() + FRESH_MS
    with pytest.raises(NotAllowed, match="sign in again"):
        check_grant(directory, session, None, later)
    check_grant(directory, session, later + 3_600_000, later)
    await app.inbox.approve(asked, by=short, grant=Grant(expires="59m"))
