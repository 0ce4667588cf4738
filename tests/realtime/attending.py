"""What tests of realtime sessions share: a session whose events are read along, with OpenAI's model or one's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from keyturn.realtime import (
    RealtimeAgent,
    RealtimeModelConfig,
    RealtimeRunner,
    RealtimeSession,
)
from keyturn.testing.loopback.realtime import RealtimeServer
from tests.realtime.own_model import OwnModel as OwnModel
from tests.waiting import until


class Reader:
    """Reads a session's events and remembers them, without the raw ones."""

    def __init__(self, session: RealtimeSession) -> None:
        self.session = session
        self.events: list[Any] = []
        self.ended: BaseException | None = None
        self.task = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        try:
            async for event in self.session:
                if event.type != "raw_model_event":
                    self.events.append(event)
        except Exception as error:
            self.ended = error

    def of(self, kind: str) -> list[Any]:
        return [event for event in self.events if event.type == kind]

    def calls(self) -> list[str]:
        """What was told of calls, in its order."""
        return [f"{event.type} {event.call_id}" for event in self.events if event.type.startswith("tool_")]

    def errors(self) -> list[Any]:
        return [event.error for event in self.of("error")]

    async def until(self, kind: str, count: int = 1, seconds: float = 5) -> Any:
        """Wait for so many events of a kind and give back the last."""
        try:
            await until(lambda: len(self.of(kind)) >= count, seconds)
        except AssertionError:
            told = [(event.type, getattr(event, "error", "")) for event in self.events]
            raise AssertionError(f"never told {count} of {kind}; told {told}; ended by {self.ended!r}") from None
        return self.of(kind)[count - 1]


@asynccontextmanager
async def conversing(
    agent: RealtimeAgent[Any], script: Any = (), *, resume: Any = None, context: Any = None, **options: Any
) -> AsyncGenerator[tuple[RealtimeSession, RealtimeServer, Reader]]:
    """Hold a session with OpenAI's model over the loopback."""
    async with RealtimeServer(script) as server:
        runner = RealtimeRunner(agent, **options)
        config: RealtimeModelConfig = {"api_key": "k", "url": server.url}
        session = await runner.run(model_config=config, resume=resume, context=context)
        async with session:
            reader = Reader(session)
            yield session, server, reader
        await asyncio.wait_for(reader.task, 5)


@asynccontextmanager
async def talking_to(
    model: OwnModel, agent: RealtimeAgent[Any], *, resume: Any = None, context: Any = None, **options: Any
) -> AsyncGenerator[tuple[RealtimeSession, Reader]]:
    """Hold a session with a user's own model."""
    runner = RealtimeRunner(agent, model=model, **options)
    session = await runner.run(resume=resume, context=context)
    async with session:
        reader = Reader(session)
        yield session, reader
    await asyncio.wait_for(reader.task, 5)
