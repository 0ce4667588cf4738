"""The seam of realtime models: what a session needs of one, and nothing of any provider.

A model tells its listeners what happens (`model_events.py`) and is sent what is to happen (`model_inputs.py`). Your
own subclass of `RealtimeModel` works in a session like any of ours.
"""

from __future__ import annotations

import abc
import os
from collections.abc import Awaitable, Callable
from typing import Any, TypedDict

from ..core.errors import KeyturnError, UserError
from ..models.openai.defaults import OPENAI
from ..support.user_code import answer_of
from .config import RealtimeAudioFormat as RealtimeAudioFormat
from .config import RealtimeSessionModelSettings
from .model_events import RealtimeModelEvent as RealtimeModelEvent
from .model_inputs import RealtimeModelSendEvent as RealtimeModelSendEvent
from .playback import RealtimePlaybackState as RealtimePlaybackState
from .playback import RealtimePlaybackTracker as RealtimePlaybackTracker

ApiKey = str | Callable[[], str | Awaitable[str]]


class RealtimeDisconnected(KeyturnError):
    """Raised by `send_event` where a message was not handed to the provider, because there is no connection.

    What was to be sent is not lost to the caller: connect again, and send it again.

    >>> issubclass(RealtimeDisconnected, KeyturnError)
    True
    """


class RealtimeModelListener(abc.ABC):
    """Hears what a realtime model tells.

    >>> class Printer(RealtimeModelListener):
    ...     async def on_event(self, event):
    ...         print(event.type)
    """

    @abc.abstractmethod
    async def on_event(self, event: RealtimeModelEvent) -> None:
        """Hear one event; the model goes on reading when this returns."""


class RealtimeModelConfig(TypedDict, total=False):
    """How to connect a model.

    `api_key` is the key, or a function, sync or async, that returns it. `url` replaces the provider's address.
    `headers` replace those that the model would send, the key's included. `call_id` attaches to a call that exists.
    """

    api_key: ApiKey
    url: str
    headers: dict[str, str]
    initial_model_settings: RealtimeSessionModelSettings
    playback_tracker: RealtimePlaybackTracker
    call_id: str


class RealtimeModel(abc.ABC):
    """Connects a session with a realtime model of some provider; subclass it for one of your own.

    `send_event` returns when the message was handed over, and raises where it was not.
    """

    @abc.abstractmethod
    async def connect(self, options: RealtimeModelConfig) -> None:
        """Open a connection and send the initial settings; it may be called again once a connection has ended."""

    @abc.abstractmethod
    def add_listener(self, listener: RealtimeModelListener) -> None:
        """Tell this listener every event from now on."""

    @abc.abstractmethod
    def remove_listener(self, listener: RealtimeModelListener) -> None:
        """Tell this listener nothing more."""

    @abc.abstractmethod
    async def send_event(self, event: RealtimeModelSendEvent) -> None:
        """Hand an event to the provider."""

    async def send_event_if(self, event: RealtimeModelSendEvent, send_if: Callable[[], bool]) -> bool:
        """Hand an event over only if `send_if` says so at that moment; return whether it was."""
        if not send_if():
            return False
        await self.send_event(event)
        return True

    @abc.abstractmethod
    async def close(self) -> None:
        """End the connection."""


async def get_api_key(key: ApiKey | None) -> str | None:
    """Return the key of a model's config; without one the process's default or `OPENAI_API_KEY`.

    >>> import asyncio
    >>> asyncio.run(get_api_key(lambda: "sk-test"))
    'sk-test'
    """
    found: Any = await answer_of(key) if callable(key) else key
    if found is None and key is None:
        return OPENAI.key or os.environ.get("OPENAI_API_KEY")
    if not isinstance(found, str) or not found:
        raise UserError("api_key must be a text that is not empty, or a function that returns one")
    return found
