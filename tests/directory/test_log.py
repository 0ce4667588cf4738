"""The log of the directory in hostile hands: erased, cut, written by hand, taken for a run, read and exported."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import App, MemoryJournal, NotAllowed, UserError
from keyturn.audit.checker import check
from keyturn.core.errors import LogDamaged, RunMissing
from keyturn.core.people import Decider
from keyturn.directory import events as de
from keyturn.directory.book import NAME, Book
from keyturn.directory.people import Login, People
from tests.directory.test_signed import Desk
from tests.steps import Calls


@pytest.fixture
def journal(own_key: None) -> MemoryJournal:
    return MemoryJournal()


# The log of the directory -------------------------------------------------------------------------------------------


async def test_the_directory_is_never_erased_nor_taken_for_a_run(own_key: None, store: Any) -> None:
    people = People(store)
    await people.start("ada")
    desk = Desk(store, worker=False)
    with pytest.raises(UserError, match="never erased"):
        await store.erase(NAME)
    for way in (desk.app.cancel(NAME), desk.app.send(NAME, "hi"), desk.app.resume(NAME), desk.app.fork(NAME)):
        with pytest.raises(RunMissing):
            await way
    assert [each.id for each in await People(store).list()] == ["ada"]


async def test_a_directory_that_was_cut_back_is_seen_where_it_was_known(journal: Any) -> None:
    desk = Desk(journal)
    people = await desk.people()
    log: Any = journal._log(NAME)
    del log.lines[-2:]
    with pytest.raises(LogDamaged):
        await people.list()
    log.lines.clear()
    log.erased = False
    with pytest.raises(LogDamaged):
        await people.list()


@pytest.mark.each
@pytest.mark.parametrize(
    ("by", "events"),
    [
        ("bob", [de.KeyEnrolled("k1", "bob", "ssh", "x")]),  # Ada's key, moved to Bob
        ("ada", [de.KeyConfirmed("k1")]),  # a second time
        ("ada", [de.PersonAdded("bob", kind="machine")]),
        ("ada", [de.PersonReturned("bob")]),
        ("ada", [de.PersonReturned("nobody")]),
        ("ada", [de.PersonAdded("BOB")]),
        ("ada", [de.RoleGiven("x", person="nobody")]),
        ("ada", [de.RoleGiven("x")]),
        ("ada", [de.TokenIssued("t", "nobody", "d", ("decide",))]),
        ("ada", [de.TokenIssued("t", "robot", "d", ("decide",))]),
        ("ada", [de.TokenIssued("t", "bob", "d", ("decide", "run"))]),
        ("ada", [de.TokenIssued("t1", "ada", "other", ("decide",))]),  # an id is given once
        ("ada", [de.Delegated("d", "bob", "bob", 10**14)]),
        ("ada", [de.Delegated("d", "bob", "robot", 10**14)]),
        ("ada", [de.Delegated("d", "bob", "ada", 10**14, ("finance",))]),
        ("ada", [de.KeyCounted("k1", 3)]),
        ("robot", [de.KeyEnrolled("k2", "robot", "ssh", "x")]),
        ("ada", [de.RoleTaken("admin", person="ada")]),
        ("ada", [de.PersonRemoved("ada")]),
        ("eve", [de.Restored("because")]),
    ],
)
async def test_an_entry_that_no_change_makes_is_found_by_the_check(own_key: None, by: str, events: Any) -> None:
    journal = MemoryJournal()
    people = People(journal)
    await people.start("ada")
    await people.add("bob", by="ada")
    await people.add("robot", kind="machine", by="ada")
    good = [
        de.KeyEnrolled("k1", "ada", "ssh", "public"),
        de.KeyConfirmed("k1"),
        de.KeyCounted("k1", 5),
        de.TokenIssued("t1", "ada", "d", ("people",)),
    ]
    await Book(journal).change(Decider("ada"), lambda _now, _at: good)
    assert (await check(journal)).ok
    book = Book(journal)
    line = (await _chain(book)).seal(de.written(de.Entry(await journal.now(), Decider(by), events)))
    await journal.append(NAME, 4, [line])
    assert [each.position for each in (await check(journal)).violations] == [4]


async def _chain(book: Book) -> Any:
    await book.read()
    return book._chain.copy()


@pytest.mark.trial
async def test_a_person_is_added_in_as_many_steps_beside_ten_thousand_as_beside_a_few() -> None:
    journal = MemoryJournal()
    people = People(journal)
    await people.start("ada")

    async def steps_of(name: str) -> int:
        with Calls() as counted:
            await people.add(name, by="ada")
        return counted.count

    few = await steps_of("p1")
    more = [de.PersonAdded(f"q{number}") for number in range(10_000)]
    await Book(journal).change(Decider("ada"), lambda _now, _at: list(more))
    await steps_of("p2")  # which folds what was added
    assert await steps_of("p3") < 2 * few


async def test_whoever_was_killed_in_a_change_keeps_others_out_for_a_moment_only(own_key: None, store: Any) -> None:
    people = People(store)
    await people.start("ada")
    await store.claim(NAME, "who was killed", 2_000)
    await people.add("bob", by="ada")
    assert [each.id for each in await people.list()] == ["ada", "bob"]


async def test_an_export_shows_the_directory_and_traces_leave_it_out(own_key: None, store: Any, tmp_path: Any) -> None:
    app = App([], store)
    await app.people.start("ada")
    written = await app.audit.export(tmp_path / "out.jsonl")
    assert written.ok
    assert not written.withheld
    assert "PersonAdded" in (tmp_path / "out.jsonl").read_text()
    assert (await app.audit.verify()).ok
    assert (await app.audit.export(tmp_path / "traces", format="agentack")).ok


async def test_an_id_in_which_no_person_acts_is_nobodys(journal: Any) -> None:
    people = People(journal)
    with pytest.raises(UserError, match="is ours"):
        await people.start("Keyturn")


async def test_who_is_read_is_not_changed_by_the_reader(journal: Any) -> None:
    people = People(journal)
    await people.start("ada")
    await people.add("bob", by="ada")
    found: Any = await people.get("bob")
    with pytest.raises(AttributeError):
        found.roles.add("admin")
    with pytest.raises(AttributeError):
        found.here = False


async def test_what_is_no_token_or_scope_or_setting_is_refused(journal: Any) -> None:
    people = People(journal)
    await people.start("ada")
    wrong: Any = None
    with pytest.raises(NotAllowed):
        await people.login(wrong)
    with pytest.raises(UserError, match="token is a text"):
        await people.revoke_token(wrong, by="ada")
    listed: Any = "people"
    with pytest.raises(UserError, match="list of names"):
        await people.add("bob", by=Login("ada", listed))
    with pytest.raises(UserError, match="at most"):
        await people.set("s", "x" * 70_000, by="ada")
