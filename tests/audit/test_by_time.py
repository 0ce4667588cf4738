"""Decisions by time: the newest first whatever run they are of, page by page, without what a call passed before."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import Agent, MemoryJournal, Runner, UserError, function_tool
from keyturn.audit.decisions.by_time import search_by_time
from keyturn.audit.decisions.search import SearchTerms
from keyturn.audit.service import Audit
from keyturn.engine.states.fork import write_fork
from keyturn.inbox.desk import Inbox
from keyturn.testing import ScriptedModel, function_call
from tests.server.office import Clock


async def decided(journal: MemoryJournal, clock: Clock) -> list[str]:
    """Three runs that each ask twice; their second requests are approved in the order in which they did not start."""

    @function_tool(needs_approval=True)
    def pay(to: str) -> str:
        return f"paid {to}"

    @function_tool(needs_approval=lambda _context, _given, _call: False)
    def look(at: str) -> str:
        return at

    runs = list[str]()
    for name in ("one", "two", "three"):
        calls = [function_call("pay", {"to": f"{name} {n}"}) for n in (1, 2)]
        model = ScriptedModel([[function_call("look", {"at": name}), *calls], "Done."])
        agent = Agent("desk", model=model, tools=[pay, look])
        clock.now += 1_000
        runs.append((await Runner.run(agent, "go", journal=journal)).run_id)
    inbox = Inbox(journal)
    for run in (runs[2], runs[0], runs[1]):
        for row in await inbox.list(run=run):
            clock.now += 1_000
            await inbox.approve(row, by="ada", note=str(row.params["to"]))
    return runs


async def test_pages_by_time_hold_each_decision_once_the_newest_first() -> None:
    clock = Clock()
    journal = MemoryJournal(clock)
    await decided(journal, clock)
    wanted = SearchTerms(person="ada", decisions=True)
    whole = (await search_by_time(journal, wanted)).entries
    assert [each.note.split()[0] for each in whole] == ["two", "two", "one", "one", "three", "three"]
    assert [each.at for each in whole] == sorted((each.at for each in whole), reverse=True)
    for size in (1, 2, 4, 5):
        found, after = list[Any](), None
        while True:
            page = await search_by_time(journal, wanted, after, size)
            found += page.entries
            after = page.next
            if after is None:
                break
        assert found == whole, size
    for wrong in ("x", "@", "1@x", "9" * 30 + "@1.run.0.0"):
        with pytest.raises(UserError):
            await search_by_time(journal, wanted, wrong)


async def test_a_decision_is_an_entry_of_the_run_in_which_it_was_made_and_of_no_fork_of_it() -> None:
    clock = Clock()
    journal = MemoryJournal(clock)
    runs = await decided(journal, clock)
    before = await Audit(journal).search()
    fork = await write_fork(journal, runs[0], None, None)
    last = await write_fork(journal, fork, None, None)
    assert await Audit(journal).search() == before
    [row, *_] = await Inbox(journal).list(run=last)
    await Inbox(journal).approve(row, by="ada", note="again")
    assert [each.note for each in await Audit(journal).search(run=last, person="ada")] == ["again"]


async def test_no_page_loses_what_was_decided_after_the_clock_was_set_back() -> None:
    """A run's own time never goes back, as the core has it: nothing of it is older than its begin."""
    clock = Clock()
    journal = MemoryJournal(clock)

    @function_tool(needs_approval=True)
    def pay(to: str) -> str:
        return f"paid {to}"

    async def asked(name: str) -> None:
        model = ScriptedModel([[function_call("pay", {"to": name})], "Done."])
        await Runner.run(Agent("desk", model=model, tools=[pay]), "go", journal=journal)

    await asked("first")
    [row] = await Inbox(journal).list()
    clock.now -= 60_000
    await Inbox(journal).approve(row, by="ada")
    clock.now += 30_000
    await asked("second")
    whole = (await search_by_time(journal, SearchTerms())).entries
    found, after = list[Any](), ""
    while after is not None:
        page = await search_by_time(journal, SearchTerms(), after or None, 1)
        found, after = [*found, *page.entries], page.next
    assert (found, [each.verdict for each in found]) == (whole, ["approve", "ask", "ask"])


async def test_decisions_are_what_people_decided_and_what_was_allowed_without_one() -> None:
    clock = Clock()
    journal = MemoryJournal(clock)
    await decided(journal, clock)
    found = (await Audit(journal).latest(decisions=True)).entries
    assert {(each.what, each.verdict, each.tool) for each in found} == {
        ("decision", "approve", "pay"),
        ("verdict", "allow", "look"),
    }
    every = (await Audit(journal).latest()).entries
    assert {each.verdict for each in every} >= {"ask", "approve", "allow"}


async def test_a_page_reads_no_log_that_holds_nothing_newer_and_says_where_it_stopped() -> None:
    clock = Clock()

    class Counting(MemoryJournal):
        reads = 0

        async def read(self, *given: Any, **named: Any) -> Any:
            self.reads += 1
            return await super().read(*given, **named)

    journal = Counting(clock)
    await decided(journal, clock)
    journal.reads = 0
    page = await search_by_time(journal, SearchTerms(person="ada"), limit=1)
    assert (journal.reads, len(page.entries), page.late) == (1, 1, False)
    late = await search_by_time(journal, SearchTerms(person="ada"), looks=1)
    assert late.late
    assert [each.note.split()[0] for each in late.entries] == ["two", "two"]
