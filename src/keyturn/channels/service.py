"""Run a dispatcher beside an app's worker, for as long as the worker works."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from ..journal.base import Store
from ..support.user_code import answer_of, class_name
from .base import Channel
from .dispatcher import Dispatcher
from .plan import ChannelPlan

log = logging.getLogger("keyturn.channels")

Channels = Sequence[Channel] | ChannelPlan

_CLOSING = 10.0  # how long a channel may take to close, in seconds


class ChannelService:
    """Starts and stops the dispatcher of a plan; one without channels does nothing.

    >>> from keyturn import MemoryJournal
    >>> service = ChannelService(MemoryJournal(), [])
    >>> service.start()
    >>> asyncio.run(service.stop())
    """

    def __init__(self, store: Store, channels: Channels) -> None:
        self._store, self._plan = store, ChannelPlan.of(channels)
        self._dispatcher: Dispatcher | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def plan(self) -> ChannelPlan:
        """Return by which channels people are told, and which people."""
        return self._plan

    @plan.setter
    def plan(self, plan: ChannelPlan) -> None:
        if self._task is not None and not self._task.done():
            raise AttributeError("channels of an App cannot be set while messages are delivered: stop() the app first")
        self._plan = plan

    def start(self) -> None:
        """Begin to deliver, unless that is done already."""
        if self.plan.channels and (self._task is None or self._task.done()):
            self._dispatcher = Dispatcher(self._store, self.plan)
            self._task = asyncio.ensure_future(self._dispatcher.run())

    async def stop(self) -> None:
        """Stop delivering and close the channels; what is left is delivered by whoever comes next."""
        dispatcher, task = self._dispatcher, self._task
        self._dispatcher = self._task = None
        if dispatcher is None or task is None:
            return
        if task.get_loop() is not asyncio.get_running_loop():  # that loop is over, and its task with it
            return
        dispatcher.stop()
        await asyncio.wait({task})
        for channel in self.plan.channels:
            try:
                async with asyncio.timeout(_CLOSING):
                    await answer_of(channel.close)
            except Exception as error:
                log.warning("channel %r was not closed: %s", channel.name, class_name(error))
