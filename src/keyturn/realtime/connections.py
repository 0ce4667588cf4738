"""Keep a session's model connected: open a connection, tell it the conversation, make another where one is lost.

One connection is opened at a time, and none before the last has ended. What a run has recorded is told to whichever
connection there is.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from ..agents.context import RunContextWrapper
from ..core.call_ids import ROOT
from ..core.items import Item
from ..core.run import Call
from ..engine.driving.drive import Drive
from ..support.user_code import answer_of
from .config import RealtimeRunConfig, RealtimeSessionModelSettings
from .delivery import ConnectionDelivery, Send, Session
from .model import RealtimeDisconnected, RealtimeModel, RealtimeModelConfig
from .model_inputs import RealtimeModelSendEvent

CLOSE = 10.0
_ATTEMPTS = 3
_BACKOFF = 0.1


class Line(NamedTuple):
    """Holds what connections need of their session."""

    session: Session
    # The agent at work, by its path.
    agent: Callable[[], str]
    failed: Callable[[Exception], None]


async def settings_of(drive: Drive, context: RunContextWrapper[Any], path: str) -> RealtimeSessionModelSettings:
    """Return the settings of the model under an agent: its instructions, tools and handoffs as they are now."""
    agent: Any = drive.agent(path)
    toolset = await drive.toolset(drive.run.frames[ROOT], fresh=True, of=path)
    settings: dict[str, Any] = {"tools": toolset.tools, "handoffs": toolset.handoffs}
    instructions = await agent.get_system_prompt(context)
    if instructions is not None:
        settings["instructions"] = instructions
    if agent.prompt is not None:
        settings["prompt"] = await agent.get_prompt(context)
    return cast("RealtimeSessionModelSettings", settings)


async def same_server(drive: Drive, request: Item, before: str, now: str) -> bool:
    """Return whether two agents have the same hosted MCP server for a request, with the same keys."""
    if before == now:
        return True
    frame = drive.run.frames[ROOT]
    servers: list[Any] = [(await drive.toolset(frame, of=path)).find(request) for path in (before, now)]
    return None not in servers and servers[0].provider_tool() == servers[1].provider_tool()


class Connections:
    """Keeps one model connected until it is closed."""

    def __init__(
        self, model: RealtimeModel, options: RealtimeModelConfig, config: RealtimeRunConfig, line: Line
    ) -> None:
        self._model = model
        self._options = options
        self._config = config
        self._line = line
        self._delivery: ConnectionDelivery | None = None
        # How many connections were begun.
        self._begun = 0
        self._delivering: asyncio.Task[None] | None = None
        self._again: asyncio.Task[None] | None = None
        self._opening = asyncio.Lock()
        # Whether the model has a connection as far as is known, and whether one was lost while it was opened.
        self._up = False
        self._lost_early = False
        self._closed = False
        # How often it was tried to connect anew without use, and how many replies were recorded before.
        self._attempts = 0
        self._replies = 0

    @property
    def delivery(self) -> ConnectionDelivery:
        """Return what delivers to the connection."""
        assert self._delivery is not None
        return self._delivery

    def answering(self) -> Send:
        """Return what sends to the connection there is now, and nothing to a later one."""
        begun = self._begun

        async def send(event: RealtimeModelSendEvent) -> None:
            if self._begun == begun:
                await self._line.session.send(event)

        return send

    def rouse(self) -> None:
        """Look again at what there is to deliver."""
        if self._delivering is not None:
            self.delivery.rouse()

    async def delivered(self) -> None:
        """Wait until the connection has everything that the log has; return at once where there is none."""
        delivering = self._delivering
        if delivering is None or delivering.done():
            return
        idle = asyncio.ensure_future(self.delivery.idle())
        await asyncio.wait({idle, delivering}, return_when=asyncio.FIRST_COMPLETED)
        idle.cancel()

    async def open(self) -> None:
        """Open a connection, tell it the conversation so far, and deliver to it from then on."""
        async with self._opening:
            self._stop_delivering()
            if self._up:
                await self.hang_up()
            agent = self._line.agent()
            settings: Any = {**self._config.get("model_settings", {}), **await self._line.session.settings(agent)}
            settings |= self._options.get("initial_model_settings", {})
            delivery = ConnectionDelivery(self._line.session, agent)
            self._delivery = self._delivery or delivery  # until the next one is there, the last one may tell something
            options: Any = {**self._options, "initial_model_settings": settings}
            self._up = True
            self._begun += 1
            await answer_of(self._model.connect, options)
            self._up = True
            self._delivery = delivery
            self._lost_early = False
            await delivery.open()
            if self._closed:  # meanwhile: what was opened would stay
                await self.hang_up()
                return
            if self._lost_early:  # nobody would notice it before there is something to send
                raise RealtimeDisconnected("the connection ended while the conversation was told to it; connect again")
            self._delivering = asyncio.ensure_future(self._deliver(delivery))

    async def anew(self) -> None:
        """Open another connection in place of the one there is, or of one that is being made."""
        again, self._again = self._again, None
        if again is not None:
            again.cancel()
            await asyncio.wait([again])
        self._attempts = 0
        await self.open()

    async def _deliver(self, delivery: ConnectionDelivery) -> None:
        try:
            await delivery.run()
        except RealtimeDisconnected:
            self.lost()
        except Exception as error:  # a user's own model raises what it likes
            self._line.failed(error)
            self._stop_delivering()
            self._begin_again()

    def lost(self) -> None:
        """Begin to connect anew, where the connection was lost."""
        self._up = False
        self._lost_early = True
        self._stop_delivering()
        if not self._opening.locked():  # whoever opens one finds it out
            self._begin_again()

    async def refusal(self, call: Call) -> str:
        """Return why the approval of a call cannot be sent on the connection there is; "" where it can."""
        return await self.delivery.refusal(call)

    async def approve(self, call: Call, item: Item) -> None:
        """Send what approves a call of the provider's own, and wait until the provider has ended it."""
        await self.delivery.approve(call, item)

    def _stop_delivering(self) -> None:
        if self._delivery is not None:
            self._delivery.approvals.end()
        delivering, self._delivering = self._delivering, None
        if delivering is not None and delivering is not asyncio.current_task():
            delivering.cancel()

    def _begin_again(self) -> None:
        busy = self._again is not None and not self._again.done()
        if not self._closed and not busy:
            self._again = asyncio.ensure_future(self._connect_anew())

    async def _connect_anew(self) -> None:
        attempts = self._config.get("reconnect_attempts", _ATTEMPTS)
        replies = self._line.session.run().frames[ROOT].turn
        if replies > self._replies:  # the last connection was of use
            self._replies, self._attempts = replies, 0
        while self._attempts < attempts:
            await asyncio.sleep(_BACKOFF * 2**self._attempts)
            self._attempts += 1
            try:
                await self.open()
                return
            except Exception as error:
                self._line.failed(error)
        self._line.failed(
            RealtimeDisconnected(
                "the model's connection was lost; what the run has recorded is kept: call reconnect() once it can be "
                "had"
            )
        )

    async def hang_up(self) -> None:
        """End the connection, whatever its model does about it."""
        self._up = False
        with contextlib.suppress(Exception):
            async with asyncio.timeout(self._config.get("close_timeout", CLOSE)):
                await answer_of(self._model.close)

    def close(self) -> None:
        """Connect and deliver no more."""
        self._closed = True
        self._stop_delivering()
        if self._again is not None:
            self._again.cancel()
