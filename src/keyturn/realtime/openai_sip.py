"""OpenAI's realtime model on a telephone call that exists already: the provider carries the audio, we only decide."""

from __future__ import annotations

from ..core.errors import UserError
from .model import RealtimeModelConfig
from .openai_websocket import OpenAIRealtimeWebSocketModel


class OpenAIRealtimeSIPModel(OpenAIRealtimeWebSocketModel):
    """Attaches to a call that came in by SIP, by the `call_id` of the provider's webhook.

    >>> import asyncio
    >>> asyncio.run(OpenAIRealtimeSIPModel().connect({"api_key": "k"}))
    Traceback (most recent call last):
    ...
    keyturn.core.errors.UserError: a call is attached to by its id: give call_id in the model's config
    """

    async def connect(self, options: RealtimeModelConfig) -> None:
        """Attach to the call and send the initial settings."""
        if not options.get("call_id"):
            raise UserError("a call is attached to by its id: give call_id in the model's config")
        await super().connect(options)
