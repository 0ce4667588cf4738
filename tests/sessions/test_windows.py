"""A session that shows a model only its newest items: the run that paused on it finds itself again all the same."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from keyturn import Agent, EncryptedSession, MemorySession, SessionSettings, SQLAlchemySession, SQLiteSession
from keyturn.sessions.history import orphan_calls, orphan_outputs
from tests.playing import (
    Run,
    World,
    approved,
    asked,
    call,
    model,
    shape,
)

ALL = 1_000


@pytest.fixture(params=["memory", "sqlite", "sqlalchemy", "encrypted"])
async def session(request: pytest.FixtureRequest, limit: int, tmp_path: Path) -> AsyncIterator[Any]:
    """A session whose settings say how much of it is read."""
    settings = SessionSettings(limit=limit)
    if request.param == "sqlite":
        with closing(SQLiteSession("s", tmp_path / "s.db", session_settings=settings)) as file:
            yield file
    elif request.param == "sqlalchemy":
        url = f"sqlite:///{tmp_path}/s.db"
        database = SQLAlchemySession.from_url("s", url=url, create_tables=True, session_settings=settings)
        yield database
        await database.close()
    else:
        store = MemorySession("s", settings)
        yield store if request.param == "memory" else EncryptedSession("s", store, "a key of 32 characters by chance")


@pytest.mark.parametrize("limit", [0, 1, 2, 4])
@pytest.mark.parametrize("calls", [1, 3])
async def test_a_pause_on_it_is_resumed(
    world: World, run: Run, session: Any, saved: bool, limit: int, calls: int
) -> None:
    rounds = ["hello", [call("ask", f"c{n}") for n in range(calls)], "done"]
    agent = Agent("a", model=model(*rounds), tools=[world.tool("ask", needs_approval=True)])
    await run(agent, "hi", session=session)
    result = await run(agent, "go", session=session)
    result = await run(agent, await approved(result, agent, saved), session=session)
    assert (result.final_output, len(world.done)) == ("done", calls)
    assert all(len(request.input) <= limit + 1 + 2 * calls for request in asked(agent))
    items = await session.get_items(ALL)
    told = [f"{kind} c{n}" for kind in ("call", "output") for n in range(calls)]
    assert shape(items) == ["user", "assistant", "user", *told, "assistant"]
    assert orphan_calls(items) == orphan_outputs(items) == []
