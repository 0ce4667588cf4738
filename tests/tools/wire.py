"""Pause, decide, resume over a real wire: what tests of tools with calls of their own share. Nothing is tested here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from keyturn import Agent, Runner, RunState
from keyturn.engine.run.log_cache import forget
from keyturn.testing.loopback.server import LoopbackServer


@pytest.fixture(autouse=True)
def keep_secrets(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No test reads or makes the user's own key, and none remembers another's logs."""
    monkeypatch.setenv("KEYTURN_SECRET", "the-secret-of-the-tool-tests")
    yield
    forget()


def bodies(server: LoopbackServer) -> list[Any]:
    """What the requests said."""
    return [request.json for request in server.requests]


async def run(agent: Agent[Any], given: Any, streamed: bool, **options: Any) -> Any:
    """To the end or to a pause."""
    if not streamed:
        return await Runner.run(agent, given, **options)
    result = Runner.run_streamed(agent, given, **options)
    async for _event in result.stream_events():
        pass
    return result


async def saved(agent: Agent[Any], result: Any) -> Any:
    """A state of a result as another process would load it."""
    text = result.to_state().to_string()
    forget()
    return await RunState.from_string(agent, text)


async def decided(agent: Agent[Any], streamed: bool, decide: Callable[[Any, Any], None], **options: Any) -> Any:
    """A run in which everything that waits is decided, each time through a saved state."""
    result = await run(agent, "go", streamed, **options)
    while result.interruptions:
        state = await saved(agent, result)
        for item in state.get_interruptions():
            decide(state, item)
        result = await run(agent, state, streamed)
    return result
