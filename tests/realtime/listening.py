"""What tests of realtime models share: a listener that remembers, and a model that is connected to a script."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from keyturn.realtime import OpenAIRealtimeWebSocketModel, RealtimeModelListener
from keyturn.testing.loopback.realtime import RealtimeServer
from tests.waiting import turns_of_the_loop


class Heard(RealtimeModelListener):
    """Remembers every event; `until` waits for some."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self._changed = asyncio.Condition()

    async def on_event(self, event: Any) -> None:
        self.events.append(event)
        async with self._changed:
            self._changed.notify_all()

    def of(self, *kinds: str) -> list[Any]:
        return [event for event in self.events if event.type in kinds]

    def kinds(self) -> list[str]:
        """The kinds of events in their order, without the raw ones."""
        return [event.type for event in self.events if event.type != "raw_server_event"]

    def raw(self, kind: str) -> list[dict[str, Any]]:
        return [event.data for event in self.of("raw_server_event") if event.data["type"] == kind]

    async def until(self, match: str | Callable[[], Any], count: int = 1) -> list[Any]:
        """Wait until so many events of a kind were heard, or a function says yes."""
        kind = match if isinstance(match, str) else ""
        there = (lambda: len(self.of(kind)) >= count) if isinstance(match, str) else match
        try:
            async with asyncio.timeout(40), self._changed:
                await self._changed.wait_for(there)
        except TimeoutError:
            raise AssertionError(f"never heard {count} of {match}; heard {self.kinds()}") from None
        return self.of(kind)


async def stillness(count: Callable[[], int]) -> int:
    """Wait until a count stays what it is, however often everybody else goes first, and give it back."""
    last = -1
    while last != (last := count()):
        await turns_of_the_loop(500)
    return last


@asynccontextmanager
async def talking(
    script: Any = (), *, settings: Any = None, transport: Any = None, **options: Any
) -> AsyncIterator[tuple[OpenAIRealtimeWebSocketModel, RealtimeServer, Heard]]:
    """A model, connected to a server that plays a script, and what it tells."""
    heard = Heard()
    model = OpenAIRealtimeWebSocketModel(transport_config=transport)
    model.add_listener(heard)
    async with RealtimeServer(script) as server:
        given: Any = {"url": server.url, "api_key": "k", "initial_model_settings": settings or {}, **options}
        await model.connect(given)
        try:
            yield model, server, heard
        finally:
            await model.close()
