"""Gemini, through Google's own client: the user's, or one made when it is first needed.

Here is who is asked, and how often. What is said is in `google_contents` and `google_request`, what is answered in
`google_reply`. The client's errors come as they are; what its parsers stumble over is a `ModelBehaviorError`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from functools import partial
from importlib.util import find_spec
from typing import Any

from ..core.errors import ModelBehaviorError, UserError
from ..core.items import input_items
from .base import Model, ModelRequest, ModelResponse
from .faults import again, retries
from .google_reply import Reply
from .google_request import Question, question
from .reply_events import StreamEvent


class GoogleModel(Model):
    """A Gemini model by name.

    `client` is your own `google.genai.Client`, for the Gemini API or for Vertex AI; without one, a client is made from
    `api_key` and `base_url`, or from the environment's `GOOGLE_API_KEY` or `GEMINI_API_KEY`. Thinking:
    `ModelSettings(reasoning={"effort": "low"})`, or Gemini's own `reasoning={"thinking_budget": 1024}`; whatever else
    its configuration takes goes in `extra_args`. `ModelSettings(retry=0)` asks once.

    >>> GoogleModel("gemini-3-flash", api_key="test").model
    'gemini-3-flash'
    """

    def __init__(
        self, model: str, client: Any = None, *, api_key: str | None = None, base_url: str | None = None
    ) -> None:
        if client is not None and (api_key is not None or base_url is not None):
            raise UserError("GoogleModel: the client has a key and an address of its own; give one or the other")
        if client is None and not _installed():
            raise UserError("GoogleModel needs the package 'google-genai': pip install 'keyturn[google]'")
        self.model = model
        self._client = client
        self._made: Any = None
        self._account = api_key, base_url

    async def get_response(self, *asked: Any, **kept: Any) -> ModelResponse:
        """One reply, whole."""
        posed, reply = self._pose(asked, kept)
        answer = await again(partial(self._whole, posed), retries(posed.retry))
        understood(partial(reply.feed, answer))
        understood(reply.finish)
        return reply.response()

    async def stream_response(self, *asked: Any, **kept: Any) -> AsyncIterator[Any]:
        """The same reply as Responses events."""
        posed, reply = self._pose(asked, kept)
        told, chunks = await again(partial(self._open, posed, reply), retries(posed.retry))
        async with aclosing(chunks):
            for event in told:
                yield event
            async for chunk in chunks:
                for event in understood(partial(reply.feed, chunk)):
                    yield event
        for event in understood(reply.finish):
            yield event

    async def close(self) -> None:
        """Close the client made here; your own stays open."""
        made, self._made = self._made, None
        if made is not None:
            await made.aio.aclose()
            made.close()
    ...
