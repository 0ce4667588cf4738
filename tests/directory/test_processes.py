"""A directory that several processes change at once, and one that is killed in the middle of a change."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from keyturn.audit.checker import check
from keyturn.directory.people import People
from keyturn.journal import opened
from tests import forked

_ADDS = """
import asyncio, sys
from keyturn.directory.people import People
from keyturn.journal import opened
from tests import forked
async def main():
    store = opened(sys.argv[1])
    people = People(store)
    await asyncio.gather(*(people.add(f"{sys.argv[2]}{number}", by="ada") for number in range(60)))
    await store.close()
asyncio.run(main())
"""
_DIES = """
import asyncio, os, signal, sys
from keyturn.directory.people import People
from keyturn.journal import opened
from tests import forked
async def main():
    store = opened(sys.argv[1])
    async def dies(*_arguments, **_words):
        os.kill(os.getpid(), signal.SIGKILL)
    store.append = dies
    await People(store).add("eve", by="ada")
asyncio.run(main())
"""


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path, own_key: None) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/runs.db"
    new_database: Callable[[], str] = request.getfixturevalue("new_database")
    return new_database()


async def process(program: str, *arguments: str) -> int:
    made = await asyncio.create_subprocess_exec(forked.python(), "-c", program, *arguments)
    return await made.wait()


async def test_processes_change_it_at_once_and_nothing_is_lost_or_refused(url: str) -> None:
    store: Any = opened(url)
    people = People(store)
    await people.start("ada")
    assert await asyncio.gather(*(process(_ADDS, url, tag) for tag in ("b", "c"))) == [0, 0]
    assert len(await people.list()) == 121
    assert (await check(store)).ok
    await store.close()


async def test_a_process_that_is_killed_in_a_change_leaves_the_others_to_work(url: str) -> None:
    store: Any = opened(url)
    people = People(store)
    await people.start("ada")
    assert await process(_DIES, url) == -signal.SIGKILL
    await people.add("bob", by="ada")
    assert [each.id for each in await people.list()] == ["ada", "bob"]
    assert await store.due() == []
    assert (await check(store)).ok
    await store.close()
