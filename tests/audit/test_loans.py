"""What the checker says of grants that outlive their run: a forged loan is found, and an honest store is left alone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from keyturn import App, Grant, Inbox, MemoryJournal, RunState
from keyturn.audit.checker import check
from keyturn.audit.loans import Loans
from keyturn.audit.log import read_step
from keyturn.audit.report import CheckReport
from keyturn.audit.run import AuditedRun
from keyturn.core import events as ev
from keyturn.engine.run.log_cache import log_in
from keyturn.inbox.restored import settle
from keyturn.journal import open_journal
from keyturn.journal.moving import copy_store
from keyturn.models.scripted.model import ScriptedModel, function_call, tool_outputs
from tests.behaviour.test_standing_grants import Desk, begun, granted, paid
from tests.playing import play


def twice(items: Any) -> Any:
    """Pay 5, then 99, then say that it is done."""
    paid = len(tool_outputs(items))
    return "done" if paid == 2 else [function_call("pay", {"amount": (5, 99)[paid]}, call_id=f"c{paid}")]


def backwards(items: Any) -> Any:
    """Pay 99, then 5, then say that it is done."""
    paid = len(tool_outputs(items))
    return "done" if paid == 2 else [function_call("pay", {"amount": (99, 5)[paid]}, call_id=f"c{paid}")]


async def lent(journal: Any) -> tuple[Desk, str, str]:
    """A home that lent its grant to a call of another run, which waits at its next one."""
    desk = Desk()
    home = await granted(journal, desk, Grant(where={"amount": {"le": 5}}, scope="agent"))
    desk.agent.model = ScriptedModel(twice)
    return desk, home, await begun(journal, desk)


async def violations(journal: Any) -> list[str]:
    return [found.what for found in (await check(journal)).violations]


# -------------------------------------------------------------------------------------------------------- honest stores


async def test_a_fork_of_a_run_that_borrowed_is_no_forgery() -> None:
    journal = MemoryJournal()
    desk, home, borrower = await lent(journal)
    app = App([desk.agent], journal, worker=False)
    fork = await app.fork(borrower)
    again = await app.fork(fork.id)
    assert await violations(journal) == []
    await app.fork(home, 1)
    await journal.erase(borrower)
    assert await violations(journal) == []
    await journal.erase(fork.id)
    await journal.erase(home)
    assert await violations(journal) == []
    assert again.id != fork.id


class Lively(MemoryJournal):
    """A store in which something happens between the first log that is checked and the second."""

    def __init__(self) -> None:
        super().__init__()
        self.order: list[str] = []
        self.then: Callable[[], Awaitable[object]] | None = None

    async def every_run(self) -> list[str]:
        return self.order

    async def hashes(self, run: str) -> list[tuple[str, str]]:
        then = self.then
        if then is not None and run == self.order[1]:
            self.then = None
            await then()
        return await super().hashes(run)


async def test_a_store_that_is_at_work_while_it_is_checked_is_not_accused() -> None:
    """A home is read, lends, and then the borrower is read: the home is read once more before it is held against it."""
    journal, desk = Lively(), Desk()
    home = await granted(journal, desk, Grant(where={"amount": {"le": 5}}, scope="agent"))
    desk.agent.model = ScriptedModel(backwards)
    borrower = await begun(journal, desk)
    [row] = await Inbox(journal).list(run=borrower)
    await Inbox(journal).approve(row, by="ann")

    async def go_on() -> None:
        await play(desk.agent, await RunState.load(journal, borrower, desk.agent))

    journal.order, journal.then = [home, borrower], go_on
    assert await violations(journal) == []
    assert desk.paid == [5, 99, 5]


async def test_a_store_that_was_moved_keeps_its_loans(tmp_path: Path) -> None:
    one, other = (open_journal(f"sqlite:///{tmp_path}/{name}.db") for name in ("one", "other"))
    desk, _home, _borrower = await lent(one)
    await copy_store(one, other)
    assert await paid(other, Desk()) == 0
    assert await violations(other) == []
    assert desk.paid == [5, 5]
    for journal in (one, other):
        await journal.close()


async def test_a_store_that_was_restored_is_not_accused_of_what_was_used_up_before(tmp_path: Path) -> None:
    journal = open_journal(f"sqlite:///{tmp_path}/j.db")
    desk, _home, borrower = await lent(journal)
    await App([desk.agent], journal, worker=False).fork(borrower)
    await journal.taken_for_restored("was brought back")
    await settle(journal)
    assert await violations(journal) == []
    await journal.close()


# ------------------------------------------------------------------------------------------------------------ forgeries


def audited(steps: list[ev.Step], run: str) -> AuditedRun:
    automaton = AuditedRun(run)
    for step in steps:
        read_step(automaton, step)
    return automaton


def accused(*logs: tuple[str, list[ev.Step]]) -> list[str]:
    loans, report = Loans(), CheckReport()
    for run, steps in logs:
        loans.read(audited(steps, run))
    loans.left(report)
    return [found.what for found in report.violations]


def other_grant(steps: list[ev.Step], **terms: Any) -> list[ev.Step]:
    """The same log, with what it borrowed on other terms."""

    def changed(event: ev.AnyEvent) -> ev.AnyEvent:
        if isinstance(event, ev.GrantBorrowed):
            return replace(event, grant=replace(event.grant, **terms))
        return event

    return [replace(step, events=[changed(event) for event in step.events]) for step in steps]


async def test_a_loan_that_one_side_does_not_know_is_found() -> None:
    journal = MemoryJournal()
    _desk, home, borrower = await lent(journal)
    gave, took = [(await log_in(journal, run)).steps for run in (home, borrower)]
    assert accused((home, gave), (borrower, took)) == []
    kept = [step for step in gave if not any(isinstance(event, ev.GrantLent) for event in step.events)]
    assert "never lent" in accused((home, kept), (borrower, took))[0]
    assert "never lent" in accused((borrower, took))[0], "a home that nobody knows"
    assert "other terms" in accused((home, gave), (borrower, other_grant(took, where=None)))[0]
    assert "other terms" in accused((home, gave), (borrower, other_grant(took, reach="session:x")))[0]


@pytest.mark.parametrize("scope", ["requester", "session"])
async def test_a_loan_to_a_run_that_the_grant_does_not_reach_is_found(scope: Any) -> None:
    """Both sides agree, and a person was told that it holds for one session, or for one person."""
    journal, desk = MemoryJournal(), Desk()
    options: dict[str, Any] = {"requester": "eve"} if scope == "requester" else {"conversation_id": "conv_1"}
    home = await granted(journal, desk, Grant(scope=scope), **options)
    borrower = await begun(journal, desk, **options)
    gave, took = [(await log_in(journal, run)).steps for run in (home, borrower)]
    assert accused((home, gave), (borrower, took)) == []
    first = took[0].events[0]
    assert isinstance(first, ev.RunStarted)
    for other in (replace(first, requester="bob"), replace(first, requester=None, about={"conversation_id": "conv_2"})):
        stranger = [replace(took[0], events=[other, *took[0].events[1:]]), *took[1:]]
        assert "does not reach" in accused((home, gave), (borrower, stranger))[0]


async def test_a_fork_says_of_its_origin_only_what_it_copied() -> None:
    """A fork that borrows by itself is not covered by what its origin was lent."""
    journal = MemoryJournal()
    desk, home, borrower = await lent(journal)
    fork = (await App([desk.agent], journal, worker=False).fork(borrower)).id
    gave, took, copy = [(await log_in(journal, run)).steps for run in (home, borrower, fork)]
    assert accused((home, gave), (borrower, took), (fork, copy)) == []
    first = copy[0].events[0]
    assert isinstance(first, ev.RunStarted)
    early = replace(first, about={**first.about, "forked_from": {"run": borrower, "at": 1}})
    later = [replace(copy[0], events=[early, *copy[0].events[1:]]), *copy[1:]]
    assert "never lent" in accused((home, gave), (borrower, took), (fork, later))[0]
    assert len(await Inbox(journal).grants()) == 1
