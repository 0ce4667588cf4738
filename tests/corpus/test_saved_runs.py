"""Runs that each version saved are gone on with by this one: they show the same, and come to the same end."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from keyturn import App, RunState
from keyturn.audit.checker import check
from keyturn.core.upcasts import VERSION, readable
from keyturn.journal.rows import Query
from keyturn.journal.sqlite import SQLiteJournal
from keyturn.support.keys import VARIABLE
from tests.corpus import people, queued, talks
from tests.corpus.save import asks
from tests.corpus.stories import BOB, DONE, SECRET, STORIES, Story, voted
from tests.playing import play

HERE = Path(__file__).parent
SAVED = sorted(HERE.glob("v*/*.json"))


@pytest.fixture(autouse=True)
def known_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, SECRET)
    DONE.clear()


async def _to_the_end(story: Story, state: RunState[Any], *, streamed: bool, **options: Any) -> str:
    for _ in range(9):
        for item in state.get_interruptions():
            story.decide(state, item)
        result = await play(story.make(), state, streamed, **options)
        if not result.interruptions:
            return str(result.final_output)
        state = result.to_state()
    raise AssertionError("it waits for ever")


@pytest.mark.parametrize("path", SAVED, ids=lambda path: f"{path.parent.name}-{path.stem}")
async def test_a_saved_state_shows_the_same_and_comes_to_the_same_end(
    path: Path, streamed: bool, another_process: Callable[[], None]
) -> None:
    story, saved = STORIES[path.stem], json.loads(path.read_text())
    for stage in saved["stages"]:
        DONE.clear()
        another_process()  # where nobody went on from it yet
        state = await RunState.from_string(story.make(), stage["state"])
        assert asks(state.get_interruptions()) == stage["asks"]
        assert await _to_the_end(story, state, streamed=streamed) == saved["answer"]
        assert saved["done"][stage["done"] :] == DONE


@pytest.mark.parametrize("folder", sorted({path.parent for path in SAVED}), ids=lambda folder: folder.name)
async def test_a_saved_journal_is_whole_and_goes_on(folder: Path, tmp_path: Path) -> None:
    shutil.copy(folder / "runs.db", tmp_path / "runs.db")
    (tmp_path / "runs.db").chmod(0o600)
    store = SQLiteJournal(tmp_path / "runs.db")
    assert (await check(store)).violations == []
    rows = await store.runs(Query(limit=100))
    assert {row.agent for row in rows} == {path.stem for path in folder.glob("*.json")} | {"voted"}
    for row in (row for row in rows if row.agent != "voted"):
        DONE.clear()
        story, saved = STORIES[row.agent], json.loads((folder / f"{row.agent}.json").read_text())
        state = await RunState.load(store, row.run, story.make())
        before = saved["stages"][0]["done"]
        assert await _to_the_end(story, state, streamed=False, journal=store) == saved["answer"]
        assert saved["done"][before:] == DONE
    DONE.clear()
    async with App([voted()], store) as app:
        [shown] = await app.inbox.list()
        assert [vote["by"] for vote in json.loads(shown.body)["votes"]] == ["ada"]
        await app.inbox.approve(shown, by=BOB)
        assert (await app.result(shown.run)).final_output == "voted: wire_1=wire 1"
    assert DONE == ["wire 1"]
    assert (await check(store)).violations == []
    await store.close()


@pytest.mark.parametrize("folder", sorted({path.parent for path in SAVED}), ids=lambda folder: folder.name)
async def test_what_several_people_said_is_whole_and_goes_on(folder: Path, tmp_path: Path) -> None:
    """Marks, a withdrawal, broken glass, a confirmation, a question, a signature, shared limits and who is who."""
    shutil.copy(folder / "people.db", tmp_path / "people.db")
    (tmp_path / "people.db").chmod(0o600)
    saved = json.loads((folder / "people.waits").read_text())
    store = SQLiteJournal(tmp_path / "people.db")
    assert (await check(store)).violations == []
    assert await people.shown(store) == saved["waits"]
    assert await people.to_the_end(store) == saved["answers"]
    assert sorted(DONE) == saved["done"]
    assert (await check(store)).violations == []
    await store.close()


@pytest.mark.parametrize("folder", sorted({path.parent for path in SAVED}), ids=lambda folder: folder.name)
async def test_a_run_that_was_talked_to_is_whole_and_goes_on(folder: Path, tmp_path: Path) -> None:
    """Over a handoff: one call ran, one is approved and has not run, one waits, and all that was said is there."""
    shutil.copy(folder / "talked.db", tmp_path / "talked.db")
    (tmp_path / "talked.db").chmod(0o600)
    saved = json.loads((folder / "talked.waits").read_text())["journal"]
    store = SQLiteJournal(tmp_path / "talked.db")
    assert (await check(store)).violations == []
    assert [row.digest for row in await store.requests(Query(state="open"))] == [ask[3] for ask in saved["waits"]]
    assert await talks.to_the_end(store, saved["run"]) == saved["end"]
    assert sorted(DONE) == saved["done"] == ["pay 3", "pay 4"]
    assert (await check(store)).violations == []
    assert [row.status for row in await store.runs(Query())] == ["finished"]
    await store.close()


@pytest.mark.parametrize("folder", sorted({path.parent for path in SAVED}), ids=lambda folder: folder.name)
async def test_a_state_of_a_session_goes_on(folder: Path, another_process: Callable[[], None]) -> None:
    saved = json.loads((folder / "talked.waits").read_text())["state"]
    another_process()
    state = await RunState.from_string(talks.agent(), saved["state"])
    assert asks(state.get_interruptions()) == saved["waits"]
    assert await talks.to_the_end(None, state) == saved["end"]
    assert sorted(DONE) == saved["done"] == ["pay 3", "pay 4"]


@pytest.mark.parametrize("folder", sorted({path.parent for path in SAVED}), ids=lambda folder: folder.name)
async def test_runs_that_wait_for_their_turn_begin_in_their_order(folder: Path, tmp_path: Path) -> None:
    shutil.copy(folder / "queued.db", tmp_path / "queued.db")
    (tmp_path / "queued.db").chmod(0o600)
    saved = json.loads((folder / "queued.waits").read_text())
    store = SQLiteJournal(tmp_path / "queued.db")
    assert (await check(store)).violations == []
    assert await store.ahead(saved["runs"][2]) == saved["runs"][:2]
    assert await queued.to_the_end(store, saved) == saved["end"]
    assert saved["end"]["answers"] == ["heard pay", "heard second", "heard third"]
    assert DONE == ["pay 1"]
    assert (await check(store)).violations == []
    await store.close()


def test_every_version_that_can_be_read_has_saved_runs() -> None:
    assert [path.parent.name for path in SAVED if path.stem == "approved"] == [f"v{each}" for each in readable()]
    assert {path.stem for path in SAVED if path.parent.name == f"v{VERSION}"} == set(STORIES)
