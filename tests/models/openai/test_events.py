"""A stream's events are what the SDK itself would have made of them."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from openai._models import construct_type  # the SDK has no public way to make one event
from openai.types.responses import ResponseStreamEvent, ResponseTextDeltaEvent

from keyturn import ModelBehaviorError
from keyturn.models.openai.responses import sdk_event
from keyturn.models.reply_events import StreamEvent
from keyturn.models.scripted.items import assistant_message, function_call, reasoning, refusal
from keyturn.testing.loopback.responses import ResponsesServer
from tests.models.openai.serving import events_of, served
from tests.table import each

DELTA: dict[str, Any] = {
    "type": "response.output_text.delta",
    "delta": "word ",
    "sequence_number": 5,
    "item_id": "msg_1",
    "output_index": 0,
    "content_index": 0,
    "logprobs": [],
}
ODD: list[dict[str, Any]] = [
    {**DELTA, "logprobs": [{"token": "a", "logprob": -1, "top_logprobs": []}]},
    {**DELTA, "obfuscation": "x7"},
    {**DELTA, "delta": 5, "sequence_number": "7"},
    {"type": "response.output_text.delta", "delta": "and nothing else"},
    {"type": "response.completed", "response": {"id": "r", "output": [{"type": "new_kind", "x": 1.0}]}},
]


def same(made: Any, theirs: Any) -> bool:
    """Of one class, equal, and set in the same fields."""
    dumped = [event.model_dump(exclude_unset=True, warnings=False) for event in (made, theirs)]
    return type(made) is type(theirs) and dumped[0] == dumped[1]


@each("given", [DELTA, *ODD], ids=lambda given: str(given)[-30:])
def test_an_odd_event_is_the_sdks(given: Any) -> None:
    assert same(sdk_event(given), construct_type(type_=ResponseStreamEvent, value=given))


async def test_each_event_of_a_reply_is_the_sdks() -> None:
    reply = [reasoning("Hm, hm."), assistant_message("hello you"), refusal("no"), function_call("look", call_id="c")]
    async with served(ResponsesServer([reply])) as model:
        events = await events_of(model)
    assert len({event.type for event in events}) > 12
    for event in events:
        given = event.model_dump(exclude_unset=True, by_alias=True, warnings=False)
        assert same(event, construct_type(type_=ResponseStreamEvent, value=given))


def test_every_type_of_the_sdk_is_known() -> None:
    for event in get_args(get_args(ResponseStreamEvent)[0]):
        [kind] = get_args(event.model_fields["type"].annotation)
        assert type(sdk_event({"type": kind})) is event


def test_an_event_that_nobody_knows_reads_as_it_came() -> None:
    event = sdk_event({"type": "response.mood.delta", "delta": {"good": True}})
    assert isinstance(event, StreamEvent)
    assert event.delta.good is True


def test_a_delta_is_not_bent_into_shape() -> None:
    made = sdk_event({**DELTA, "sequence_number": "7"})
    assert isinstance(made, ResponseTextDeltaEvent)
    assert made.model_dump(warnings=False)["sequence_number"] == "7"


@each("given", [None, [], "x", {}, {"type": None}, {"type": ["x"]}])
def test_what_is_no_event_says_so(given: Any) -> None:
    with pytest.raises(ModelBehaviorError, match="without a type"):
        sdk_event(given)
