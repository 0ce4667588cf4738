"""Runs that earlier versions saved are gone on with under each engine, by workers on PostgreSQL."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from keyturn.audit.checker import check
from keyturn.journal.moving import copy_store
from keyturn.journal.postgres import PostgresJournal
from keyturn.journal.sqlite import SQLiteJournal
from keyturn.support.keys import VARIABLE
from tests.corpus import people, queued
from tests.corpus.stories import DONE, SECRET
from tests.corpus.test_saved_runs import HERE

pytestmark = [pytest.mark.trial, pytest.mark.timeout(180)]


@pytest.mark.parametrize("folder", sorted(HERE.glob("v*")), ids=lambda folder: folder.name)
async def test_saved_runs_come_to_the_same_end_under_each_engine(
    folder: Path,
    engine: tuple[str, str],
    tmp_path: Path,
    new_database: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What several people said of them counts, and those of a session begin in their order."""
    for variable, value in zip(("KEYTURN_ENGINE", "KEYTURN_ENGINE_URL"), engine, strict=True):
        monkeypatch.setenv(variable, value)
    monkeypatch.setenv(VARIABLE, SECRET)
    monkeypatch.setenv("KEYTURN_HOME", str(tmp_path))  # where no other copy is known
    DONE.clear()
    store = await _copied(folder / "people.db", tmp_path, new_database())
    said = json.loads((folder / "people.waits").read_text())
    assert await people.to_the_end(store) == said["answers"]
    assert sorted(DONE) == said["done"]
    await _kept(store)
    store = await _copied(folder / "queued.db", tmp_path, new_database())
    said = json.loads((folder / "queued.waits").read_text())
    assert await queued.to_the_end(store, said) == said["end"]
    await _kept(store)


async def _copied(file: Path, here: Path, url: str) -> Any:
    """Copy a saved journal to a database of PostgreSQL."""
    shutil.copy(file, here)
    (here / file.name).chmod(0o600)
    source, target = SQLiteJournal(here / file.name), PostgresJournal(url)
    await copy_store(source, target, reseal=False)
    await source.close()
    await target.close()
    return PostgresJournal(url)


async def _kept(store: Any) -> None:
    assert (await check(store)).violations == []
    await store.close()
