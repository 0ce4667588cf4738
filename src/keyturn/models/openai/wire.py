"""Send one request to an OpenAI client and return its answer as plain JSON, whole or event by event.

Both of OpenAI's APIs are asked here. Errors of the SDK pass through as they are; an answer that is no JSON is a
`ModelBehaviorError`, never a parser's error. What an answer means is read elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from inspect import isawaitable
from typing import Any, NamedTuple, cast

import msgspec

from ...core.errors import ModelBehaviorError, UserError
from ...core.items import Item
from ..base import UNSENT, ModelSettings
from ..faults import again, is_passing, status_of
from ..reading import PARSERS

# These come with a status that passes elsewhere, and will be said again to every further try.
_LASTING = frozenset({"insufficient_quota", "billing_hard_limit_reached"})


#: How a wait before the next try is waited; tests put their own here.
pause = asyncio.sleep

# For how many seconds the end of a stream is waited for when its reply is complete.
_LINGER = 0.1

# What extra arguments may say to the SDK and not to the server.
_NOT_BODY = ("extra_headers", "extra_query", "timeout")


class OpenAIQuestion(NamedTuple):
    """Holds one call of a method of the SDK, and how often it may be retried.

    `once` says that the provider may have acted on the question though no answer came: it kept it in a conversation, or
    ran a call that it approves. It is asked again only where that cannot be.
    """

    resource: Any
    body: dict[str, Any]
    settings: ModelSettings
    retries: int = 0
    once: bool = False

    def passing(self, error: BaseException) -> bool:
        """Return whether a retry may help, and does no harm."""
        return is_passing(error) and self.safe(error)

    def safe(self, error: BaseException) -> bool:
        """Return whether a retry does no harm, and is not bound to be refused."""
        if getattr(error, "code", None) in _LASTING:
            return False
        return not self.once or status_of(error) == 429 or type(error.__cause__).__name__ in UNSENT


class OpenAIAnswer(NamedTuple):
    """Holds an answer as JSON, and the provider's request id."""

    body: Item
    request_id: str | None


async def whole(question: OpenAIQuestion) -> OpenAIAnswer:
    """Return the complete answer to a request."""
    create = question.resource.with_raw_response.create
    options = _options(question)
    raw = await again(lambda: create(**options), question.retries, pause, question.passing, question.safe)
    response = raw.http_response
    body = _json(response.content, response.headers.get("content-type", ""))
    if body.get("error") and not body.get("output") and not body.get("choices") and "status" not in body:
        raise _api_error(body["error"], response)
    return OpenAIAnswer(body, raw.request_id)


async def events(question: OpenAIQuestion) -> AsyncGenerator[tuple[Any, str | None], None]:
    """Stream the answer's events as JSON, each with the provider's request id.

    It is asked for again only until its first event is there: what was told is never told twice.
    """
    options = _options(question)

    async def begin() -> tuple[Any, Any]:
        stream = await _stream(question, options)
        try:
            return stream, await _next(stream)
        except BaseException:
            await stream.close()
            raise

    stream, event = await again(begin, question.retries, pause, question.passing, question.safe, stream=True)
    request_id = stream.response.headers.get("x-request-id")
    try:
        while event is not None:
            yield event, request_id
            event = await _next(stream)
    finally:
        await stream.close()


async def _stream(question: OpenAIQuestion, options: dict[str, Any]) -> Any:
    """Return the events of a stream as JSON, since making an SDK object of each takes longer than reading it."""
    from openai import AsyncStream

    raw = await question.resource.with_raw_response.create(**options, stream=True)
    stream = raw.parse(to=AsyncStream[object])
    return await stream if isawaitable(stream) else stream  # a coming version of the SDK says that it will be


async def read_out(events: AsyncGenerator[Any, None]) -> None:
    """Read what follows the last event of a reply, so that its connection can be reused.

    The reply is complete: neither a fault nor a server that keeps the line open may spoil it any more.
    """
    with suppress(Exception):
        async with asyncio.timeout(_LINGER):
            async for _ in events:
                pass


async def _next(stream: Any) -> Any:
    """Return the next event, None at the end; an error event is raised as the SDK raises others."""
    try:
        event: Any = await anext(stream, None)
    except PARSERS as error:  # broken JSON or broken UTF-8, found by the SDK's parser
        raise ModelBehaviorError(f"the model's stream has an event that is not JSON: {_what(error)}") from None
    _check_event(event, stream.response)
    return event


def _check_event(event: object, response: object) -> None:
    fields = cast("Item", event) if isinstance(event, dict) else {}
    if fields.get("type") == "error":
        raise _api_error({name: fields.get(name) for name in ("code", "message", "param")}, response)


def _api_error(error: object, response: Any) -> Exception:
    """Make the SDK's error, with what the provider said as its body, of an error that came without a status."""
    from openai import APIError

    given = cast("Mapping[str, Any]", error) if isinstance(error, Mapping) else {"message": str(error)}
    body = {"type": given.get("code"), **{name: value for name, value in given.items() if value is not None}}
    message = str(body.get("message") or "the provider does not say what went wrong")
    return APIError(message, response.request, body=body)


def _options(question: OpenAIQuestion) -> dict[str, Any]:
    """Return the arguments for the SDK's method.

    The body goes past its typed parameters: those are converted one by one, for 2 ms per item of a conversation, and
    may not know what a newer server does. What they are, the tests check by the same types.
    """
    settings = question.settings
    extra = dict(settings.extra_args or {})
    options = {name: extra.pop(name) for name in _NOT_BODY if name in extra}
    body = {**question.body, **extra, **(settings.extra_body or {})}
    if "model" in body:
        options["model"] = body.pop("model")
    if "messages" in body:
        options["messages"] = []  # the method insists on it; the body's own takes its place
    given = {name: getattr(settings, name) for name in _NOT_BODY}
    options |= {name: value for name, value in given.items() if value is not None}
    return {**options, "extra_body": body}


def _json(content: bytes, kind: str) -> Item:
    try:
        value = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        came = f"{len(content)} bytes of {kind or 'no named type'}"
        raise ModelBehaviorError(f"the provider's answer is not JSON ({came}): {_what(error)}") from None
    if not isinstance(value, dict):
        raise ModelBehaviorError(f"the provider's answer is a JSON {type(value).__name__}, not an object")
    return cast("Item", value)


def _what(error: Exception) -> str:
    """Describe what a parser found wrong, without the text that it parsed."""
    place = getattr(error, "pos", None)
    return type(error).__name__ if place is None else f"{type(error).__name__} at character {place}"


def plain(setting: object, what: str) -> Any:
    """Return a setting as JSON, where it may be an object of the SDK."""
    dump = getattr(setting, "model_dump", None)
    if dump is not None:
        return dump(mode="json", exclude_none=True)
    if isinstance(setting, Mapping):
        return dict(cast("Mapping[str, Any]", setting))
    raise UserError(f"{what} must be a mapping or an object of the OpenAI SDK, not {type(setting).__name__}")
