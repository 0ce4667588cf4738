"""A realtime model without a wire: a test makes it say things, and it answers results and messages as it is told to."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable
from typing import Any

from keyturn.core.effects import pending
from keyturn.realtime import (
    AssistantMessageItem,
    AssistantText,
    RealtimeModel,
    RealtimeModelConnectionStatusEvent,
    RealtimeModelEvent,
    RealtimeModelItemUpdatedEvent,
    RealtimeModelListener,
    RealtimeModelSendToolOutput,
    RealtimeModelSendUserInput,
    RealtimeModelToolCallEvent,
    RealtimeModelTurnEndedEvent,
    RealtimeModelTurnStartedEvent,
    RealtimeSession,
)
from tests.waiting import turns_of_the_loop, until


class TalkingModel(RealtimeModel):
    """Says "done" to each result; keeps what it was sent."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.connections: list[Any] = []
        self._listeners: list[RealtimeModelListener] = []
        self._count = itertools.count(1)
        self._replies: set[asyncio.Task[None]] = set()
        self.fails: Callable[[Any], Exception | None] = lambda _event: None

    async def connect(self, options: Any) -> None:
        self.connections.append(options)
        await self.tell(RealtimeModelConnectionStatusEvent("connected"))

    def add_listener(self, listener: RealtimeModelListener) -> None:
        self._listeners.append(listener)

    def remove_listener(self, listener: RealtimeModelListener) -> None:
        self._listeners.remove(listener)

    async def send_event(self, event: Any) -> None:
        if (error := self.fails(event)) is not None:
            raise error
        self.sent.append(event)
        if isinstance(event, RealtimeModelSendToolOutput | RealtimeModelSendUserInput):
            reply = asyncio.ensure_future(self.say("done"))
            self._replies.add(reply)
            reply.add_done_callback(self._replies.discard)

    async def close(self) -> None:
        for reply in self._replies:
            reply.cancel()

    async def tell(self, event: RealtimeModelEvent) -> None:
        """Tell listeners an event."""
        for listener in list(self._listeners):
            await listener.on_event(event)

    async def call(self, name: str, arguments: Any, call_id: str) -> None:
        """Call a tool."""
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        await self.tell(RealtimeModelToolCallEvent(name, call_id, text))

    async def say(self, text: str) -> None:
        """Say something, in a turn of its own."""
        item = AssistantMessageItem(
            item_id=f"said_{next(self._count)}", status="completed", content=[AssistantText(text=text)]
        )
        await self.tell(RealtimeModelTurnStartedEvent())
        await self.tell(RealtimeModelItemUpdatedEvent(item))
        await self.tell(RealtimeModelTurnEndedEvent())

    @property
    def talking(self) -> bool:
        """Return whether it is about to say something."""
        return bool(self._replies)

    @property
    def outputs(self) -> dict[str, str]:
        """Return the results it was given, by call."""
        outputs = [event for event in self.sent if isinstance(event, RealtimeModelSendToolOutput)]
        return {event.tool_call.call_id: event.output for event in outputs}


async def quiet(session: RealtimeSession) -> None:
    """Wait until the session has heard what others said, its run waits for people, and its model fell silent."""
    play: Any = session.opened()
    model: Any = session.model

    async def calm() -> bool:
        heard = play.live.journal is None or await play.live.journal.head(session.run_id) == len(play.live.log)
        busy = pending(play.run) or play.run.groups["started"] or play.drive.begun or model.talking
        return heard and not busy

    async def still_calm() -> bool:
        if not await calm():
            return False
        await turns_of_the_loop(100)
        return await calm()

    await until(still_calm)
