"""OpenAI's Responses API, asked through the official client.

Replies are kept as they came, and a stream's events are the client's own. A reply that is cut, failed or nonsense is
an error, and nothing of it is told as complete. The package `openai` is imported when the model is first asked.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from functools import cache, partial
from typing import Any, cast, get_args

from ...core.errors import ModelBehaviorError
from ...core.items import input_items
from ..base import ModelRequest, ModelResponse, approves
from ..faults import retries
from ..reading import charged, understood
from ..reply_events import StreamEvent
from .account import OpenAIModel
from .reply import check_ending, check_output, checked_reply, usage_of
from .request import responses_body
from .wire import OpenAIQuestion, events, read_out, whole

_WHO = "the provider"
_ENDINGS = ("response.failed", "response.incomplete")


class OpenAIResponsesModel(OpenAIModel):
    """Asks a model behind the Responses API.

    Give your own `AsyncOpenAI`, or what one is made from. Without a name it is the default model, which a stored prompt
    may replace. Failed requests are asked again up to twice, or as `ModelSettings(retry=...)` says, while nothing of
    the reply has come; a client of your own does that itself, unless `retry` is set.

    >>> OpenAIResponsesModel("gpt-5.6-luna", api_key="sk-test").model
    'gpt-5.6-luna'
    """

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        """Return one reply to this conversation."""
        answer = await whole(await self._question(ModelRequest(*args, **kwargs)))
        return understood(partial(checked_reply, answer), _WHO)

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """Stream one reply as the client's own events, the last of which is `response.completed`."""
        items: list[Any] = []
        posed = await self._question(ModelRequest(*args, **kwargs))
        async with aclosing(events(posed)) as stream:
            async for given, request_id in stream:
                event = understood(partial(sdk_event, given), _WHO)
                kind: str = event.type
                if kind == "response.output_item.done":
                    items.append(event.item)
                elif kind == "response.completed" or kind in _ENDINGS:
                    understood(partial(_check_last, event, kind, items), _WHO)
                    event.response._request_id = request_id
                    yield event
                    await read_out(stream)
                    return
                yield event
        raise ModelBehaviorError("the model's stream ended before its reply was complete; nothing of it was recorded")

    async def close(self) -> None:
        """Close the client that was made here; one that was given stays open."""
        await self._account.close()

    async def _question(self, request: ModelRequest) -> OpenAIQuestion:
        client, ours = await self._account.client()
        if isinstance(cast("Any", request.input), str):
            request = replace(request, input=input_items(cast("Any", request.input)))
        # A stored prompt names a model of its own; only one that was asked for by name takes its place.
        name = self._name if request.prompt is not None else self.model
        settings = request.model_settings
        acts = approves(request.input)
        if acts and hasattr(client, "with_options"):  # it is known here, and not there, what may be sent once more
            client = client.with_options(max_retries=0)
        return OpenAIQuestion(
            client.responses,
            responses_body(name, request),
            settings,
            retries(settings.retry, 2 if ours or acts else 0),
            once=acts or request.conversation_id is not None,
        )


def _check_last(event: object, kind: str, items: list[Any]) -> None:
    response = getattr(event, "response", None)
    if response is None:
        raise ModelBehaviorError(f"the model's stream ended in a {kind} without a response")
    status = getattr(response, "status", None) or kind.partition(".")[2]
    if items and getattr(response, "output", None) == []:
        response.output = items  # some servers tell the items in their events and do not repeat them at the end
    with charged(usage_of(getattr(response, "usage", None))):
        output = getattr(response, "output", None)
        check_ending(status, getattr(response, "error", None), getattr(response, "incomplete_details", None), output)
        check_output(output)


def sdk_event(given: object) -> Any:
    """Make one stream event from its JSON, as the SDK's own object.

    It is what the SDK would have made, in a twentieth of the time for the many small ones: the SDK tries the types of
    all events before it takes the one that the event names. A type that the SDK does not know becomes a `StreamEvent`.
    """
    fields: dict[str, Any] = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    kind = fields.get("type")
    if not isinstance(kind, str):
        raise ModelBehaviorError("the model's stream has an event without a type")
    made = _types().get(kind)
    if made is None:
        return StreamEvent(**fields)
    if kind.endswith(".delta"):
        try:
            return made.model_validate(fields, strict=True)  # changes nothing, or refuses
        except ValueError:
            pass
    return made.model_construct(**fields)  # the SDK's own way: what its types do not foresee is kept as it came


@cache
def _types() -> dict[str, Any]:
    """Return the SDK's class for each type of event."""
    from openai.types.responses import ResponseStreamEvent

    classes: tuple[Any, ...] = get_args(get_args(ResponseStreamEvent)[0])
    return {kind: each for each in classes for kind in get_args(each.model_fields["type"].annotation)}
