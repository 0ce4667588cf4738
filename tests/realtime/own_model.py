"""Realtime models without a wire: a test says what one tells, or it answers by itself. No test is here."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from keyturn.core.effects import pending
from keyturn.core.usage import Usage
from keyturn.realtime import (
    RealtimeModel,
    RealtimeModelConfig,
    RealtimeModelListener,
    RealtimeModelSendToolOutput,
    RealtimeModelSendUserInput,
    RealtimeSession,
)
from keyturn.realtime import model_events as me
from keyturn.realtime.items import AssistantAudio, AssistantMessageItem
from tests.waiting import turns_of_the_loop, until


class OwnModel(RealtimeModel):
    """A user's own model, with no more than the seam's methods; it keeps what it was sent.

    `fails` says of an event whether sending it fails, with which error or just so.
    """

    def __init__(self, fails: Callable[[Any], Exception | bool | None] = lambda _event: False) -> None:
        self.listeners: list[RealtimeModelListener] = []
        self.sent: list[Any] = []
        self.connects = 0
        self.closes = 0
        self.options: list[RealtimeModelConfig] = []
        self.fails = fails

    async def connect(self, options: RealtimeModelConfig) -> None:
        self.connects += 1
        self.options.append(options)

    def add_listener(self, listener: RealtimeModelListener) -> None:
        self.listeners.append(listener)

    def remove_listener(self, listener: RealtimeModelListener) -> None:
        with suppress(ValueError):
            self.listeners.remove(listener)

    async def send_event(self, event: Any) -> None:
        if failed := self.fails(event):
            raise failed if isinstance(failed, Exception) else OSError("the line is dead")
        self.sent.append(event)

    async def close(self) -> None:
        self.closes += 1

    async def tell(self, *events: Any) -> None:
        for event in events:
            for listener in list(self.listeners):
                await listener.on_event(event)

    async def calls(self, name: str, arguments: Any = "{}", call_id: str = "c1") -> None:
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        await self.tell(me.RealtimeModelToolCallEvent(name, call_id, text))

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


class TalkingModel(OwnModel):
    """Says "done" to each result and each message."""

    def __init__(self) -> None:
        super().__init__()
        self._count = itertools.count(1)
        self._replies: set[asyncio.Task[None]] = set()

    async def connect(self, options: RealtimeModelConfig) -> None:
        await super().connect(options)
        await self.tell(me.RealtimeModelConnectionStatusEvent("connected"))

    async def send_event(self, event: Any) -> None:
        await super().send_event(event)
        if isinstance(event, RealtimeModelSendToolOutput | RealtimeModelSendUserInput):
            number = next(self._count)
            reply = asyncio.ensure_future(self.says("done", f"said_{number}", f"r{number}"))
            self._replies.add(reply)
            reply.add_done_callback(self._replies.discard)

    async def close(self) -> None:
        await super().close()
        for reply in self._replies:
            reply.cancel()

    @property
    def talking(self) -> bool:
        """Return whether it is about to say something."""
        return bool(self._replies)


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
