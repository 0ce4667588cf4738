"""Claude, asked through Anthropic's own client: the user's, or one made when it is first needed.

Here is who is asked, how often, and how long a pause of the model's own is followed. What is said is in
`anthropic_request`, what is answered in `anthropic_reply` and `anthropic_stream`. The client's errors come as they are.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from functools import partial
from importlib.util import find_spec
from inspect import iscoroutinefunction
from typing import Any, ClassVar, Self, TypeVar, cast

from ...core.errors import ModelBehaviorError, UserError
from ...core.items import input_items
from ...core.settable import TEXT, WHOLE, Rules, Sealed
from ..base import Model, ModelRequest, ModelResponse
from ..faults import again, retries
from ..per_loop import ClientPerLoop, certificates
from ..reading import PARSERS, nonsense, plain_json, understood
from .reply import AnthropicReply
from .request import AnthropicQuestion, anthropic_question
from .stream import MessageEvents

_T = TypeVar("_T")

MAX_TOKENS = 16_384
_PATH = "/v1/messages"
# How often a reply that paused (a tool that Anthropic runs takes long) is asked to go on.
_PAUSES = 8


class AnthropicModel(Model, Sealed):
    """Asks a Claude model by name.

    `client` is your own `AsyncAnthropic` (or its Bedrock, Vertex or Foundry kin); without one, a client is made from
    `api_key` and `base_url`, or from the environment's `ANTHROPIC_API_KEY`. `max_tokens` holds where
    `ModelSettings.max_tokens` is None. Prompt caching: `ModelSettings(prompt_cache_retention="5m")`, or
    `extra_args={"cache_control": ...}`. Thinking: `ModelSettings(reasoning={"effort": "high"})`, or the API's own
    `reasoning={"type": "enabled", "budget_tokens": 4096}`. What may pass is asked again as often as the client says,
    unless `ModelSettings.retry` does.

    >>> AnthropicModel("claude-sonnet-5", api_key="sk-ant-test").model
    'claude-sonnet-5'
    """

    provider = "anthropic"

    _rules: ClassVar[Rules] = {"model": TEXT, "max_tokens": WHOLE}

    def __init__(
        self,
        model: str,
        client: Any = None,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        max_tokens: int = MAX_TOKENS,
    ) -> None:
        if client is not None and (api_key is not None or base_url is not None):
            raise UserError("AnthropicModel: the client has a key and an address of its own; give one or the other")
        if client is not None and not iscoroutinefunction(getattr(client, "post", None)):
            what = f"an AsyncAnthropic, not {type(client).__name__}, which blocks every run"
            raise UserError(f"AnthropicModel: the client must be {what}")
        if client is None and find_spec("anthropic") is None:
            raise UserError("AnthropicModel needs the package 'anthropic': pip install 'keyturn[anthropic]'")
        self.model = model
        self.max_tokens = max_tokens
        self._client = client
        self._made = ClientPerLoop(partial(_new_client, api_key, base_url), _closed)

    @classmethod
    def made_by(cls, model: str, make: Callable[[], Any]) -> Self:
        """Make a model whose clients, one for each event loop, are made by a function."""
        made = cls(model)
        made._made = ClientPerLoop(make, _closed)
        return made

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        """Return one reply, whole."""
        first, reply = self._pose(args, kwargs)
        posed = first
        for _ in range(_PAUSES):
            response = await again(partial(self._post, posed), await self._retries(posed))
            _read(lambda text=response.text: reply.absorb(plain_json(text)))
            reply.request_id = response.headers.get("request-id")
            if not reply.paused:
                return _read(reply.response)
            posed = first.going_on(reply.sent_back())
        raise _endless()

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """Stream one reply as Responses events."""
        first, reply = self._pose(args, kwargs)
        posed, telling = first, MessageEvents(reply)
        for _ in range(_PAUSES):
            async with aclosing(self._events_of(posed, telling)) as events:
                async for event in events:
                    yield event
            if not reply.paused:
                break
            posed = first.going_on(reply.sent_back())
        else:
            raise _endless()
        for event in _read(telling.finish):
            yield event

    async def close(self) -> None:
        """Close the client that was made in this loop; your own stays open."""
        await self._made.close()

    def _pose(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[AnthropicQuestion, AnthropicReply]:
        request = ModelRequest(*args, **kwargs)
        request.input = input_items(request.input)
        calls = sum(item.get("type") == "function_call" for item in request.input)
        return anthropic_question(self.model, self.max_tokens, request), AnthropicReply(known_calls=calls)

    async def _events_of(self, posed: AnthropicQuestion, telling: MessageEvents) -> AsyncGenerator[Any, None]:
        """Stream one message as Responses events; until the first event, a transient fault is retried."""
        first, stream, raw = await again(partial(self._open, posed, telling), await self._retries(posed), stream=True)
        try:
            for event in first:
                yield event
            async for given in raw:
                for event in _read(partial(telling.feed, given), _kind(given)):
                    yield event
        finally:
            await stream.close()
        telling.check_whole()

    async def _open(
        self, posed: AnthropicQuestion, telling: MessageEvents
    ) -> tuple[list[Any], Any, AsyncIterator[Any]]:
        """Open a stream and return it with its first events, possibly none; close a stream that fails before."""
        known = telling.reply.id
        stream = await self._post(posed, stream=True)
        telling.reply.request_id = stream.response.headers.get("request-id")
        raw = _parsed(stream)
        try:
            async for given in raw:
                if first := _read(partial(telling.feed, given), _kind(given)):
                    return first, stream, raw
        except BaseException:
            telling.reply.id = known
            await stream.close()
            raise
        return [], stream, raw

    async def _post(self, posed: AnthropicQuestion, *, stream: bool = False) -> Any:
        from anthropic import AsyncStream
        from httpx2 import Response

        body = {**posed.body, "stream": True} if stream else posed.body
        options = {**posed.options, "max_retries": 0}  # asked again here, so that a stream's first event counts too
        try:
            # As plain JSON, both ways: what Claude must have back is kept to the byte, known to the SDK's types or not.
            kind: Any = object if stream else Response
            return await (await self._here()).post(
                _PATH, body=body, options=options, cast_to=kind, stream=stream, stream_cls=AsyncStream[object]
            )
        except TypeError as error:
            if "authentication" not in str(error):
                raise
            raise UserError("Anthropic needs a key: set ANTHROPIC_API_KEY, or pass api_key= or a client") from error

    async def _retries(self, posed: AnthropicQuestion) -> int:
        return retries(posed.retry, (await self._here()).max_retries)

    async def _here(self) -> Any:
        return self._client if self._client is not None else await self._made.client()


def _new_client(api_key: str | None, base_url: str | None) -> Any:
    from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient

    lines = DefaultAsyncHttpxClient(verify=certificates())
    return AsyncAnthropic(api_key=api_key, base_url=base_url, http_client=lines)


def _closed(client: Any) -> Awaitable[None]:
    return client.close()


def _read(read: Callable[[], _T], event: object = None) -> _T:
    return understood(read, "Anthropic", event)


def _kind(event: object) -> Any:
    return cast("dict[str, Any]", event).get("type") if isinstance(event, dict) else None


async def _parsed(stream: Any) -> AsyncGenerator[Any, None]:
    """Parse the events of a stream; what is not JSON raises `ModelBehaviorError`, not a parser's error."""
    try:
        async for given in stream:
            yield given
    except PARSERS as error:
        raise nonsense(error, "Anthropic") from None


def _endless() -> ModelBehaviorError:
    return ModelBehaviorError(f"the model paused {_PAUSES} times in one reply; nothing of it was used")
