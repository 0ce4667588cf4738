"""A reply told as it comes is told as `reply_events` tells one that is known whole."""

from __future__ import annotations

from typing import Any

from keyturn.models.base import ModelResponse
from keyturn.models.reply_events import reply_events
from keyturn.models.telling import ReplyEvents

SUMMARY = [{"type": "summary_text", "text": "Think so."}]
CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"n":1}', "status": "completed"}
TEXT = {"type": "output_text", "text": "to be", "annotations": []}
NO = {"type": "refusal", "refusal": "No."}
MESSAGE = {"type": "message", "role": "assistant", "status": "completed", "content": [TEXT, NO]}
REASONING = {"type": "reasoning", "summary": SUMMARY}


def test_the_same_events_in_the_same_order() -> None:
    teller = ReplyEvents()
    events = teller.start("r1")
    events += teller.begin({"type": "reasoning", "summary": []})
    events += [event for piece in ("Think ", "so.") for event in teller.thought(piece)]
    events += [event for piece in ("to ", "be") for event in teller.text(piece)]
    events += teller.refusal("No.")
    events += teller.begin({**CALL, "arguments": "", "status": "in_progress"})
    events += teller.arguments('{"n":1}')
    events += teller.close(dict(CALL))
    events += teller.finish(ModelResponse(teller.items, response_id="r1"))

    whole = ModelResponse([REASONING, MESSAGE, CALL], response_id="r1")
    assert [dict(item) for item in teller.items] == [REASONING, MESSAGE, CALL]
    told, known = [event.type for event in events], [event.type for event in reply_events(whole)]
    assert told == known
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[-1].response.output == list(reply_events(whole))[-1].response.output


def test_what_a_provider_must_have_back_is_kept_on_the_message() -> None:
    teller = ReplyEvents("google")
    teller.text("a")
    teller.end_part({"thought_signature": "s"})
    teller.text("b")
    teller.close()
    [message] = teller.items
    assert [part["text"] for part in message["content"]] == ["a", "b"]
    assert message["provider_data"] == {"google": {"parts": [{"thought_signature": "s"}, {}]}}


def test_the_beginning_is_told_once() -> None:
    teller = ReplyEvents()
    assert [event.type for event in [*teller.start("r"), *teller.start("r")]] == ["response.created"]


def test_nothing_open_is_nothing_to_close() -> None:
    teller: Any = ReplyEvents()
    assert (teller.close(), teller.end_part(), teller.items, teller.open_type) == ([], [], [], None)
