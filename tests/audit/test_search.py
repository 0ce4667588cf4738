"""Search: who decided what, when, on which bytes; page by page, from the logs, and never a secret."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from keyturn import App, Grant, MemoryJournal, Runner, UserError
from keyturn.audit.decisions import search as search_module
from keyturn.audit.decisions.calls import CallBook
from keyturn.audit.decisions.entries import entries_of
from keyturn.audit.decisions.search import EntryPlace, SearchTerms, search_page
from keyturn.audit.service import Audit
from keyturn.core.codec import decode
from keyturn.core.people import Decider
from keyturn.engine.run.open_run import chain_of
from keyturn.journal.rows import Query
from tests.audit.records import ADA, FOUR_EYES, a_call, desk, paid, paying
from tests.scenarios import CATALOGUE
from tests.table import each


async def store_of_decisions(store: Any) -> dict[str, str]:
    """A store with one run for each way in which a payment is decided."""
    made = {"approved": await paid(store, a_call(1), by=ADA, note="as agreed")}
    made["edited"] = await paid(store, a_call(2, token="hush-hush"), edit={"amount": 3, "token": "psst-psst"})
    made["granted"] = await paid(store, a_call(4), a_call(5), grant=Grant(uses=1))
    agent = paying(a_call(6), "Done.")
    result = await Runner.run(agent, "go", journal=store)
    state = result.to_state()
    state.reject(result.interruptions[0], by="bob", rejection_message="too much")
    await Runner.run(agent, state)
    made["rejected"] = state.run_id
    return made


async def test_each_decision_is_found_by_what_it_is(store: Any) -> None:
    runs = await store_of_decisions(store)
    audit = Audit(store)
    [entry] = await audit.search(run=runs["approved"], verdict="approve")
    assert (entry.by, entry.strength, entry.roles, entry.note) == ("ada", "claimed", (), "as agreed")
    assert (entry.tool, entry.agent, entry.what, entry.via) == ("pay", "desk", "decision", "person")
    assert entry.arguments == '{"amount":1,"token":"[redacted]"}'
    request = await _request(store, runs["approved"])
    assert (entry.request, entry.digest) == (request.id, request.digest)
    [edited] = await audit.search(verdict="edit")
    assert edited.edited == '{"amount":3,"token":"[redacted]"}'
    assert {each.run for each in await audit.search(person="bob")} == {runs["rejected"]}
    assert [each.message for each in await audit.search(verdict="reject")] == ["too much"]
    granted = await audit.search(run=runs["granted"])
    assert [each.what for each in granted].count("grant") == 1
    assert any(each.via == "grant" or each.by.startswith("grant:") for each in granted)
    assert {each.run for each in await audit.search(text="TOO MUCH")} == {runs["rejected"]}
    assert {each.tool for each in await audit.search(tool="pay")} == {"pay"}
    assert await audit.search(tool="nothing") == await audit.search(agent="nobody") == []


async def _request(store: Any, run: str) -> Any:
    [row] = await store.requests(Query(run=run))
    return row


async def test_a_secret_is_neither_shown_nor_found(store: Any) -> None:
    await store_of_decisions(store)
    audit = Audit(store)
    for secret in ("hush", "psst"):
        assert await audit.search(text=secret) == []
    assert all("hush" not in str(dict(entry)) for entry in await audit.search())


async def test_pages_follow_each_other_without_a_gap_or_a_repeat(store: Any) -> None:
    await store_of_decisions(store)
    audit = Audit(store)
    whole = await audit.search(limit=1_000)
    assert len({entry.key for entry in whole}) == len(whole) > 6
    for size in (1, 2, 3):
        found: list[Any] = []
        after = None
        while page := await audit.search(limit=size, after=after):
            found += page
            after = page[-1].key
        assert found == whole


async def test_times_choose(store: Any) -> None:
    await store_of_decisions(store)
    audit = Audit(store)
    whole = await audit.search()
    first, last = min(each.at for each in whole), max(each.at for each in whole)
    moment = timedelta(milliseconds=1)
    assert await audit.search(between=(first, last)) == whole
    assert await audit.search(between=(last + moment, None)) == []
    assert await audit.search(between=(None, first - moment)) == []


@each(
    "wrong, says",
    [
        ({"verdict": "yes"}, "verdict is one of"),
        ({"between": (datetime(2026, 1, 1), None)}, "with its zone"),
        ({"between": (datetime(2026, 1, 2, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC))}, "later time first"),
        ({"between": "today"}, "two times"),
        ({"person": "a\x00"}, "person holds a NUL"),
        ({"tool": 5}, "tool is a text"),
        ({"text": "\ud800"}, "text holds"),
        ({"limit": 0}, "limit is a number"),
        ({"limit": 10**9}, "limit is a number"),
        ({"after": "nonsense"}, "after is the key"),
        ({"after": "5.run.x.0"}, "after is the key"),
    ],
)
async def test_what_cannot_be_searched_for_is_refused(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=says):
        await Audit(MemoryJournal()).search(**wrong)


async def test_votes_of_a_quorum_and_a_cancellation_are_on_record(store: Any) -> None:
    agent = paying(a_call(1), "Done.", approval=None)
    tool: Any = agent.tools[0]
    tool.approval = FOUR_EYES
    async with App([agent], store) as app:
        run = await app.start("desk", "go")
        await run.wait()
        [row] = await app.inbox.list(run=run.id)
        row = await app.inbox.approve(row, by=ADA)
        await app.cancel(run.id, by=Decider("bob"), why="not today")
        found = await app.audit.search(run=run.id)
    assert [(entry.what, entry.by) for entry in found if entry.what != "verdict"] == [
        ("vote", "ada"),
        ("cancellation", "bob"),
    ]


async def test_an_altered_log_shows_what_is_before_and_says_that_it_is_damaged() -> None:
    journal = MemoryJournal()
    run = await paid(journal, a_call(1), a_call(2))
    lines = journal._mine.logs[run].lines
    lines[3] = lines[3].replace(b'"at":', b'"at": ', 1)
    found = await Audit(journal).search()
    assert [entry.line for entry in found if entry.what != "damage"] == [1, 2, 2]
    assert (found[-1].what, found[-1].line) == ("damage", 3)


async def test_every_story_can_be_searched(tmp_path: Any) -> None:
    here = await desk(tmp_path, scenarios=CATALOGUE)
    found = await here.audit.search(limit=10_000)
    decided = {entry.verdict for entry in found if entry.what == "decision"}
    assert decided >= {"approve", "reject", "edit", "answer"}
    assert all(entry.digest for entry in found if entry.what == "decision")
    assert EntryPlace.of(found[0].key).run == found[0].run


class Counting(MemoryJournal):
    """A store that notes how many lines each reading of a log gave."""

    read_lines: list[int]

    async def read(self, run: str, after: int = 0, limit: int | None = None) -> list[bytes]:
        found = await super().read(run, after, limit)
        self.read_lines.append(len(found))
        return found


async def long_run(store: Any, calls: int) -> str:
    """A run in which so many calls are approved, one after another, and each has its result."""
    return await paid(store, *(a_call(number) for number in range(calls)), by=ADA)


@pytest.mark.parametrize("newest", [False, True])
async def test_a_log_is_read_in_pieces_and_its_entries_are_the_same_whatever_their_size(
    monkeypatch: pytest.MonkeyPatch, newest: bool
) -> None:
    store = Counting()
    store.read_lines = []
    await long_run(store, 8)
    await store_of_decisions(store)
    whole = (await search_page(store, SearchTerms(), limit=1_000, newest=newest)).entries
    assert len(whole) > 20
    for piece in (1, 2, 5):
        monkeypatch.setattr(search_module, "PIECE", piece)
        for limit, looks in ((3, None), (1_000, 1), (2, 4)):
            store.read_lines.clear()
            found, after, ended = list[Any](), None, False
            while not ended:
                page = await search_page(store, SearchTerms(), after, limit, newest=newest, looks=looks)
                found += page.entries
                assert len(page.entries) <= limit
                ended, after = page.next is None, page.next
            assert found == whole
            assert max(store.read_lines) <= piece, "no more than a piece of a log is held"


async def test_a_page_that_looked_at_as_much_as_it_may_ends_and_says_where_it_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The cost of a page does not grow with the store, nor with what does not fit; within a run it goes on, too."""
    monkeypatch.setattr(search_module, "PIECE", 3)
    store = Counting()
    store.read_lines = []
    for _ in range(6):
        await long_run(store, 3)
    wanted = SearchTerms(person="nobody at all")
    lines = len(await store.read((await store.runs())[0].run))
    pages, after = 0, None
    while True:
        store.read_lines.clear()
        page = await search_page(store, wanted, after, looks=10)
        assert sum(store.read_lines) <= 10 + lines + 3, "what is looked at, and a run up to where it goes on"
        assert (page.entries, page.late) == ([], page.next is not None)
        pages, after = pages + 1, page.next
        if after is None:
            break
    assert pages > 6
    late = datetime(2999, 1, 1, tzinfo=UTC)
    store.read_lines.clear()
    skipped = await search_page(store, SearchTerms(between=(late, None)), looks=4)
    assert (skipped.late, store.read_lines) == (True, []), "runs that are left out by their times are looks, too"


async def test_what_is_kept_of_a_long_log_is_what_is_open() -> None:
    """A call that has its result is kept by its names alone, without its arguments."""
    store = MemoryJournal()
    run = await long_run(store, 8)
    chain, book = chain_of(store, run), CallBook(run)
    held = list[int]()
    for line in await store.read(run):
        list(entries_of(book, decode(chain.open(line)), 0, chain.count - 1))
        held.append(len(book.calls))
    assert max(held) == 1
    assert len(book.settled) == 8
    assert book.about("r/1.0") | {"request": ""} == {"tool": "pay", "agent": "desk", "call": "r/1.0", "request": ""}
