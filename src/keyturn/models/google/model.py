"""Gemini, asked through Google's own client: the user's, or one made when it is first needed.

Here is who is asked, and how often. What is said is in `google_contents` and `google_request`, what is answered in
`google_reply`. The client's errors come as they are; what its parsers stumble over is a `ModelBehaviorError`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from functools import partial
from typing import Any, ClassVar, Self, TypeVar

from ...core.errors import UserError
from ...core.items import input_items
from ...core.settable import TEXT, Rules, Sealed
from ...support.lazy import is_installed
from ..base import Model, ModelRequest, ModelResponse
from ..faults import RETRIES, again, retries
from ..per_loop import ClientPerLoop, certificates
from ..reading import PARSERS, nonsense, understood
from ..reply_events import StreamEvent
from .reply import GoogleReply
from .request import GoogleQuestion, google_question

_T = TypeVar("_T")

# The types of the SDK that a request is made of, as its errors name them.
_REQUEST = ("GenerateContentConfig", "_GenerateContentParameters")


class GoogleModel(Model, Sealed):
    """Asks a Gemini model by name.

    `client` is your own `google.genai.Client`, for the Gemini API or for Vertex AI; without one, a client is made from
    `api_key` and `base_url`, or from the environment's `GOOGLE_API_KEY` or `GEMINI_API_KEY`. Thinking:
    `ModelSettings(reasoning={"effort": "low"})`, or Gemini's own `reasoning={"thinking_budget": 1024}`; whatever else
    its configuration takes goes in `extra_args`. What may pass is asked again, twice unless `ModelSettings.retry` says
    otherwise; with a client of your own, as often as that does by itself.

    >>> GoogleModel("gemini-3-flash", api_key="test").model
    'gemini-3-flash'
    """

    provider = "gcp.gemini"

    _rules: ClassVar[Rules] = {"model": TEXT}

    def __init__(
        self, model: str, client: Any = None, *, api_key: str | None = None, base_url: str | None = None
    ) -> None:
        if client is not None and (api_key is not None or base_url is not None):
            raise UserError("GoogleModel: the client has a key and an address of its own; give one or the other")
        if client is None and not is_installed("google.genai"):
            raise UserError("GoogleModel needs the package 'google-genai': pip install 'keyturn[google]'")
        self.model = model
        self._client = client
        self._made = ClientPerLoop(partial(gemini_client, base_url, api_key=api_key), _closed)

    @classmethod
    def made_by(cls, model: str, make: Callable[[], Any]) -> Self:
        """Make a model whose clients, one for each event loop, are made by a function."""
        made = cls(model)
        made._made = ClientPerLoop(make, _closed)
        return made

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        """Return one reply, whole."""
        posed, reply = self._pose(args, kwargs)
        answer = await again(partial(self._whole, posed), self._retries(posed))
        _read(partial(reply.feed, answer))
        _read(reply.finish)
        return _read(reply.response)

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """Stream one reply as Responses events."""
        posed, reply = self._pose(args, kwargs)
        first, chunks = await again(partial(self._open, posed, reply), self._retries(posed), stream=True)
        async with aclosing(chunks):
            for event in first:
                yield event
            async for chunk in chunks:
                for event in _read(partial(reply.feed, chunk)):
                    yield event
        for event in _read(reply.finish):
            yield event

    async def close(self) -> None:
        """Close the client that was made in this loop; your own stays open."""
        await self._made.close()

    def _pose(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[GoogleQuestion, GoogleReply]:
        request = ModelRequest(*args, **kwargs)
        request.input = input_items(request.input)
        calls = sum(item.get("type") == "function_call" for item in request.input)
        return google_question(self.model, request), GoogleReply(known_calls=calls)

    async def _whole(self, posed: GoogleQuestion) -> Any:
        try:
            return await (await self._models()).generate_content(**posed.given())
        except PARSERS as error:
            raise _what(error) from None

    async def _open(
        self, posed: GoogleQuestion, reply: GoogleReply
    ) -> tuple[list[StreamEvent], AsyncGenerator[Any, None]]:
        """Open a stream and return it with its first events, possibly none; close one that fails before."""
        chunks = _parsed((await self._models()).generate_content_stream(**posed.given()))
        try:
            async for chunk in chunks:
                if first := _read(partial(reply.feed, chunk)):
                    return first, chunks
        except BaseException:
            await chunks.aclose()
            raise
        return [], chunks

    def _retries(self, posed: GoogleQuestion) -> int:
        return retries(posed.retry, RETRIES if self._client is None else 0)

    async def _models(self) -> Any:
        client = self._client if self._client is not None else await self._made.client()
        return getattr(client, "aio", client).models


def gemini_client(base_url: str | None = None, **settings: Any) -> Any:
    """Return a client of the SDK, for the Gemini API unless the settings say otherwise."""
    from google.genai import Client
    from google.genai.types import HttpOptions
    from httpx2 import AsyncHTTPTransport

    trusted = certificates()
    # With a transport of ours it is always the same client, whatever other package happens to be installed beside it.
    options = HttpOptions(
        client_args={"verify": trusted}, async_client_args={"transport": AsyncHTTPTransport(verify=trusted)}
    )
    options.base_url = base_url
    try:
        return Client(http_options=options, **settings)
    except ValueError as error:
        raise UserError(f"Gemini needs a key: set GOOGLE_API_KEY, or pass api_key= or a client ({error})") from error


async def _closed(client: Any) -> None:
    await client.aio.aclose()
    client.close()


async def _parsed(asking: Awaitable[Any]) -> AsyncGenerator[Any, None]:
    try:
        async with aclosing(await asking) as chunks:
            async for chunk in chunks:
                yield chunk
    except PARSERS as error:
        raise _what(error) from None


def _what(error: Exception) -> Exception:
    """Convert an error of the SDK's own: a request it cannot send is the caller's mistake, an answer is the model's.

    It says the former with plain ValueErrors, and by the names of the types that a request is made of.
    """
    if type(error) is ValueError or getattr(error, "title", None) in _REQUEST:
        return UserError(f"Gemini's client does not take this request: {error}")
    return nonsense(error, "Google")


def _read(read: Callable[[], _T]) -> _T:
    return understood(read, "Google")
