"""Rules that are passed by, and texts that keep a rule busy."""

from __future__ import annotations

import time
from typing import Any

import pytest

from keyturn import Agent, Approval, Budget, Policy, Rule, Runner, ShellTool, function_tool
from keyturn.core.predicate import Truth, evaluate
from keyturn.testing import ScriptedModel
from keyturn.tools.base import OutcomeUnknown

from .world import Desk, clerk


@pytest.mark.parametrize(
    "path",
    [
        "/srv/data/.. ",
        "/srv/data/..\u2028",
        "/srv/data/..\x85",
        "/srv/data/..\u200b",
        "/srv/data/.\u200b./x",
        "/srv/data/.. /x",
    ],
)
def test_h1_under_is_sure_of_a_path_whose_trimmed_reading_leads_out(path: str) -> None:
    assert evaluate({"path": {"under": "/srv/data"}}, {"path": path}) is not Truth.YES


async def test_h1_under_in_a_run() -> None:
    removed: list[str] = []

    @function_tool
    def remove(path: str) -> str:
        """Removes a directory."""
        removed.append(path.strip())
        return "removed"

    policy = Policy(Rule("allow", where={"path": {"under": "/srv/data"}}), default="ask")
    await Runner.run(clerk(remove, [{"path": "/srv/data/.. "}]), "go", policy=policy)
    assert removed == [], "removed the directory above, and nobody was asked"


@pytest.mark.parametrize(
    "policy", [Policy(Rule("deny", tool="shell"), Rule("allow")), Policy(Rule("allow", tool="search"), default="deny")]
)
async def test_h2_a_call_of_another_type_brings_its_own_name(policy: Policy) -> None:
    ran: list[Any] = []

    async def execute(request: Any) -> str:
        ran.append(request.data.action.commands)
        return ""

    call = {"type": "shell_call", "id": "x", "call_id": "c1", "name": "search", "action": {"commands": ["rm -rf /"]}}
    agent = Agent("clerk", model=ScriptedModel([[call], "done"]), tools=[ShellTool(executor=execute)])
    await Runner.run(agent, "go", policy=policy)
    assert ran == []


async def test_h2_and_people_are_shown_that_name() -> None:
    call = {"type": "shell_call", "id": "x", "call_id": "c1", "name": "search", "action": {"commands": ["rm -rf /"]}}
    shell = ShellTool(executor=lambda request: "", needs_approval=True)
    result = await Runner.run(Agent("clerk", model=ScriptedModel([[call]]), tools=[shell]), "go")
    assert result.interruptions[0].request.tool == "shell"


@pytest.mark.parametrize(
    ("where", "long"),
    [
        ({"eq": "secret"}, "a" + "\u0301\u0316" * 25_000),  # 100 kB; a megabyte takes minutes
        ({"matches": "(?s).*secret.*"}, "a" + "\u0301\u0316" * 25_000),
        ({"under": "/etc"}, "/a" + "\u0301\u0316" * 25_000),
        ({"eq": "secret"}, "0x" + "f" * 250_000),
        ({"one_of": [f"name {number}" for number in range(100)]}, "a b/" * 250_000),
    ],
    ids=["combining-eq", "combining-matches", "combining-under", "hex-eq", "one-of-100"],
)
def test_h3_a_text_holds_up_the_loop(where: Any, long: str) -> None:
    begun = time.perf_counter()
    evaluate({"text": where}, {"text": long})
    assert time.perf_counter() - begun < 0.5


@pytest.mark.parametrize(
    ("where", "params"),
    [
        ({"date": {"lt": "2025-01-01"}}, {"date": "31.12.2024"}),
        ({"date": {"lt": "2025-10-01"}}, {"date": "2025-9-1"}),
        ({"at": {"lt": "2025-01-01T00:00:00Z"}}, {"at": "2025-01-01T01:00:00+02:00"}),
        ({"amount": {"gt": "100"}}, {"amount": "$500"}),
        ({"amount": {"gt": "100"}}, {"amount": "1.000,50"}),
        ({"amount": {"lt": "0"}}, {"amount": "\u22125"}),
        ({"to": {"eq": {"country": "ir"}}}, {"to": {"country": "de", "Country": "ir"}}),
        ({"a.b.c": "evil"}, {"a": {"b": {"c": "ok"}}, "a.b": {"c": "evil"}}),
        ({"sql": {"matches": "DROP TABLE.*"}}, {"sql": "DROP\nTABLE users"}),
        ({"path": {"under": "/etc"}}, {"path": "/`echo etc`/passwd"}),
    ],
)
def test_m1_a_sure_no_that_is_not_sure(where: Any, params: Any) -> None:
    assert evaluate(where, params) is not Truth.NO


async def test_m2_a_budget_forgets_an_edit_of_a_call_that_began_before() -> None:
    done: list[int] = []

    @function_tool(needs_approval=True, approval=Approval(execute_by="30m"))
    async def pay(amount: int) -> str:
        """Pays."""
        done.append(amount)
        if len(done) == 1:
            raise OutcomeUnknown("the line was cut")
        return "paid"

    desk = Desk(
        clerk(pay, [{"amount": 5}], [{"amount": 90}]), Policy(Rule("deny", over=Budget("amount", 100)), Rule("ask"))
    )
    await desk.start()
    await desk.inbox.approve(await desk.row(), by="ann")
    await desk.go_on()
    await desk.inbox.resolve(await desk.row(), "retry", by="ann")
    desk.time[0] += 3_600_000
    await desk.go_on()
    await desk.inbox.approve(await desk.row(), by="ann", edit={"amount": 95})
    result = await desk.go_on()
    if result.interruptions:
        await desk.inbox.approve(await desk.row(), by="ann")
        await desk.go_on()
    assert sum(done[1:]) <= 100
