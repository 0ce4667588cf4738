"""Pause, decide, resume over a real wire: what tests of tools with calls of their own share. Nothing is tested here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keyturn import Agent
from keyturn.testing.loopback.server import LoopbackServer
from tests.playing import play, through_text


def bodies(server: LoopbackServer) -> list[Any]:
    """What the requests said."""
    return [request.json for request in server.requests]


async def decided(agent: Agent[Any], streamed: bool, decide: Callable[[Any, Any], None], **options: Any) -> Any:
    """A run in which everything that waits is decided, each time through a saved state."""
    result = await play(agent, "go", streamed, **options)
    while result.interruptions:
        state = await through_text(agent, result)
        for item in state.get_interruptions():
            decide(state, item)
        result = await play(agent, state, streamed)
    return result
