"""Who reads the arguments of calls is put on record where the directory says so: before they are shown, and bounded."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from keyturn import Agent, App, Conflict, MemoryJournal, Runner
from keyturn.audit.checker import check
from keyturn.audit.service import Audit
from keyturn.core.people import Decider
from keyturn.directory.people import Login, People
from keyturn.directory.read_lines import READS
from keyturn.directory.reads import Reads
from keyturn.inbox.desk import Inbox
from keyturn.testing import ScriptedModel, function_call
from tests.audit.records import paying


async def waiting(store: Any, *, on_record: bool = True) -> Inbox:
    """An inbox with one request, in a store whose directory says that reading is on record."""
    people = People(store)
    await people.start("ada")
    await people.add("bob", by="ada")
    if on_record:
        await people.set("record_reads", True, by="ada")
    await Runner.run(paying([function_call("pay", {"amount": 5, "token": "hush"})]), "Pay.", journal=store)
    return Inbox(store)


async def read(store: Any, **named: Any) -> list[tuple[str, str]]:
    """What is on record, each with who."""
    return [(each.how, each.by.id if each.by else "") for each in await Audit(store).reads(**named)]


async def test_who_reads_is_on_record_before_it_is_shown(own_key: None, store: Any) -> None:
    inbox = await waiting(store)
    [row] = await inbox.list()
    assert await read(store) == [], "the program itself is nobody"
    await inbox.get(row.id, for_=Login("bob"))
    await inbox.get(row.id, by="ada")
    await inbox.list(by=Login("ada"))
    await Audit(store).search(by=Decider("ada", strength="authenticated"), tool="pay")
    assert await read(store) == [("request", "bob"), ("request", "ada"), ("search", "ada")]
    assert await read(store, person="bob") == [("request", "bob")]
    assert len(await read(store, request=row.id)) == 2
    [entry] = await Audit(store).reads(person="bob")
    assert (entry.requests, entry.by) == ((row.id,), Decider("bob", strength="authenticated"))
    assert "hush" not in str(await Audit(store).reads())
    assert await store.due() == []
    assert (await check(store)).ok
    assert (await Audit(store).verify()).ok


async def test_nothing_is_written_where_the_directory_does_not_say_so(own_key: None, store: Any) -> None:
    inbox = await waiting(store, on_record=False)
    [row] = await inbox.list(by="ada")
    await inbox.get(row.id, by="ada")
    assert await read(store) == []


async def test_secrets_are_never_exported_unrecorded(own_key: None, tmp_path: Path) -> None:
    store = MemoryJournal()
    await waiting(store, on_record=False)
    audit = Audit(store, key=tmp_path / "key")
    await audit.export(tmp_path / "a", by="ada")
    assert await read(store) == []
    await audit.export(tmp_path / "b", secrets=True, by=Login("ada"))
    await audit.export(tmp_path / "c", secrets=True)
    assert await read(store) == [("secrets", "ada"), ("secrets", "")]
    assert b"@reads-" in (tmp_path / "b").read_bytes(), "the export shows who made it"


async def test_the_same_request_again_adds_nothing_for_an_hour(own_key: None) -> None:
    time = [1_000_000]
    store = MemoryJournal(lambda: time[0])
    inbox = await waiting(store)
    [row] = await inbox.list()
    for _ in range(50):
        await inbox.get(row.id, by="ada")
        await inbox.list(by="ada")
    assert len(await read(store)) == 1
    time[0] += 3_600_000
    await inbox.get(row.id, by="ada")
    assert len(await read(store)) == 2


async def test_the_same_log_or_search_again_adds_nothing_for_an_hour(own_key: None) -> None:
    time = [1_000_000]
    store = MemoryJournal(lambda: time[0])
    inbox = await waiting(store)
    for _ in range(50):
        await inbox.reads.note("ada", "log", what="a run without requests")
        await inbox.reads.note("ada", "search", what="tool=pay")
    assert await read(store) == [("log", "ada"), ("search", "ada")]
    time[0] += 3_600_000
    await inbox.reads.note("ada", "log", what="a run without requests")
    assert len(await read(store)) == 3


async def test_many_who_read_at_once_are_few_appends(own_key: None) -> None:
    store = MemoryJournal()
    people = People(store)
    await people.start("ada")
    await people.set("record_reads", True, by="ada")
    appends = 0
    append = store.append

    async def counted(*given: Any, **named: Any) -> None:
        nonlocal appends
        appends += 1
        await append(*given, **named)

    store.append = counted
    reads = Reads(store, people)
    await asyncio.gather(*(reads.note(f"p{number}", "request", [f"r{number}"]) for number in range(300)))
    assert len(await read(store)) == 300
    assert appends < 30
    await reads.note("ada", "list", [f"r{number}" for number in range(1_200)])
    assert [len(entry.requests) for entry in await Audit(store).reads(person="ada")] == [500, 500, 200]
    assert (await check(store)).ok


async def test_what_cannot_be_recorded_is_not_shown(own_key: None, monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryJournal()
    inbox = await waiting(store)
    [row] = await inbox.list()

    async def held(*_given: Any) -> Any:
        raise Conflict("somebody has it")

    monkeypatch.setattr(store, "claim", held)
    monkeypatch.setattr("keyturn.directory.reads._PATIENCE", 0.05)
    for reading in (inbox.get(row.id, by="ada"), inbox.list(by="ada"), inbox.item(row.id, by="ada")):
        with pytest.raises(Conflict, match="on record"):
            await reading


async def test_a_record_that_was_altered_is_found(own_key: None) -> None:
    store = MemoryJournal()
    inbox = await waiting(store)
    [row] = await inbox.list()
    await inbox.get(row.id, by="ada")
    await inbox.get(row.id, by="bob")
    [name] = [name for name in await store.every_run() if name.startswith(READS)]
    log = store._mine.logs[name]  # pyright: ignore[reportPrivateUsage] whoever can write the store
    log.lines[0] = log.lines[0].replace(b"ada", b"eve")
    assert not (await check(store)).ok
    assert not (await Audit(store).verify()).ok


async def test_an_app_with_workers_lets_the_record_be(own_key: None) -> None:
    store = MemoryJournal()
    await waiting(store)
    app = App([Agent("idle", model=ScriptedModel(["Done."]))], store)
    async with app:
        [row] = await app.inbox.list(by="ada")
        run = await app.start("idle", "Go.")
        await run.result(10)
        assert row.state == "open"
    assert app.trouble is None
    assert len(await app.audit.reads()) == 1
