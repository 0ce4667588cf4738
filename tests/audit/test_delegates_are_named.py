"""A decision that a delegate made names both, wherever it is shown: who decided, and in whose place."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyturn import Agent, App, Approval, MemoryJournal, function_tool
from keyturn.audit.checker import check
from keyturn.core.evolve import evolve
from keyturn.core.run import new_run
from keyturn.directory.people import Login
from keyturn.engine.run.log_cache import log_in
from keyturn.models.scripted.model import ScriptedModel, function_call
from keyturn.presenting.event_words import Teller
from keyturn.presenting.trail import trail_of

pytestmark = pytest.mark.usefixtures("own_key")


@function_tool(needs_approval=True, approval=Approval(role="finance", quorum=2))
def pay(amount: int) -> str:
    """Pay somebody."""
    return f"paid {amount}"


async def decided(withdrawn: bool) -> tuple[App, str]:
    """Have Eve vote for Ben on a payment, take it back or not, and Ben's colleagues decide it."""
    app = App(
        [Agent("desk", model=ScriptedModel([[function_call("pay", {"amount": 5})], "done"]), tools=[pay])],
        MemoryJournal(),
    )
    await app.people.start("ada")
    for name in ("ben", "cyd", "dan"):
        await app.people.add(name, roles=["finance"], by="ada")
    await app.people.add("eve", by="ada")
    await app.people.delegate("ben", "eve", lasts="1d", by="ben")
    async with app:
        run = await app.start("desk", "go")
        await app.wait(run.id, 20)
        [row] = await app.inbox.list()
        row = await app.inbox.approve(row, by=Login("eve"))
        assert [(vote.by, vote.acting_for) for vote in row.request.votes] == [("eve", "ben")]
        assert (await check(app.journal)).violations == []
        if withdrawn:
            await app.inbox.withdraw(row, by=Login("eve"))
            await app.inbox.approve(row, by=Login("dan"))
        await app.inbox.approve(row, by=Login("cyd"))
        await app.wait(run.id, 20)
    return app, run.id


@pytest.mark.parametrize("withdrawn", [False, True])
async def test_the_audit_names_who_decided_and_for_whom(withdrawn: bool, tmp_path: Path) -> None:
    app, run = await decided(withdrawn)
    words = ["approve", "withdraw"] if withdrawn else ["approve"]
    found = await app.audit.search(person="ben")
    assert [(each.verdict, each.by, each.acting_for, each.roles) for each in found] == [
        (word, "eve", "ben", ("finance",)) for word in words
    ]
    assert found == await app.audit.search(person="eve", run=run)
    await app.audit.export(tmp_path / "all.csv", format="csv", person="eve")
    assert [line.rpartition(",")[2] for line in (tmp_path / "all.csv").read_text().splitlines()[1:]] == ["ben"] * len(
        words
    )


@pytest.mark.parametrize("withdrawn", [False, True])
async def test_the_trail_and_the_story_of_a_run_name_both(withdrawn: bool) -> None:
    app, run = await decided(withdrawn)
    steps = (await log_in(app.journal, run)).steps
    marks = [mark.word for mark in trail_of(steps, "r/1.0") if mark.by == "eve"]
    assert marks == ["1 of 2 approvals, for ben", "vote withdrawn, for ben"][: 1 + withdrawn]
    run_now, teller, told = new_run(), Teller(), list[str]()
    for step in steps:
        for event in step.events:
            evolve(run_now, event)
            told += teller.rows(run_now, event)
    assert sum(' by "eve" for "ben"' in each for each in told) == len(marks)
