"""What tests of realtime sessions share: a session whose events are read along, and a model with only the seam."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from keyturn.core.usage import Usage
from keyturn.realtime import (
    RealtimeAgent,
    RealtimeModel,
    RealtimeModelConfig,
    RealtimeModelListener,
    RealtimeRunner,
    RealtimeSession,
)
from keyturn.realtime import model_events as me
from keyturn.realtime.items import AssistantAudio, AssistantMessageItem
from keyturn.testing.loopback.realtime import RealtimeServer
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


class OwnModel(RealtimeModel):
    """A user's own model, with no more than the seam's methods: the test says what it tells."""

    def __init__(self, fails: Callable[[Any], bool] = lambda _event: False) -> None:
        self.listeners: list[RealtimeModelListener] = []
        self.sent: list[Any] = []
        self.connects = 0
        self.closes = 0
        self.options: list[RealtimeModelConfig] = []
        self._fails = fails

    async def connect(self, options: RealtimeModelConfig) -> None:
        self.connects += 1
        self.options.append(options)

    def add_listener(self, listener: RealtimeModelListener) -> None:
        self.listeners.append(listener)

    def remove_listener(self, listener: RealtimeModelListener) -> None:
        with suppress(ValueError):
            self.listeners.remove(listener)

    async def send_event(self, event: Any) -> None:
        if self._fails(event):
            raise OSError("the line is dead")
        self.sent.append(event)

    async def close(self) -> None:
        self.closes += 1

    async def tell(self, *events: Any) -> None:
        for event in events:
            for listener in list(self.listeners):
                await listener.on_event(event)

    async def calls(self, name: str, arguments: str = "{}", call_id: str = "c1") -> None:
        await self.tell(me.RealtimeModelToolCallEvent(name, call_id, arguments))

    async def says(self, text: str, item_id: str = "m1", response: str = "r1", usage: Usage | None = None) -> None:
        """One whole response."""
        whole = AssistantMessageItem(item_id=item_id, status="completed", content=[AssistantAudio(transcript=text)])
        await self.tell(
            me.RealtimeModelTurnStartedEvent(response_id=response),
            me.RealtimeModelTranscriptDeltaEvent(item_id, text, response),
            me.RealtimeModelItemUpdatedEvent(whole),
            *([] if usage is None else [me.RealtimeModelUsageEvent(usage)]),
            me.RealtimeModelTurnEndedEvent(response_id=response),
        )

    def outputs(self) -> list[tuple[str, str]]:
        """The results that it was sent."""
        return [(each.tool_call.call_id, each.output) for each in self.sent if hasattr(each, "tool_call")]


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
