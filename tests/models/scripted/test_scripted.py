"""The scripted model: every form of a step, plain and streamed, and every way in which a script can be wrong."""

from __future__ import annotations

import asyncio
import copy
import json
import pickle
import re
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyturn import Agent, Runner
from keyturn.core.errors import UserError
from keyturn.models.base import ModelRequest, ModelResponse, ModelSettings, Usage
from keyturn.models.scripted.model import (
    InvalidModelStep,
    ModelCall,
    ModelScriptError,
    ModelStep,
    ScriptedModel,
    StreamEvent,
    UnconsumedModelSteps,
    UnexpectedModelCall,
    assistant_message,
    function_call,
    last_user_text,
    reasoning,
    refusal,
    tool_outputs,
)
from tests.table import each
from tests.waiting import turns_of_the_loop

SAID = {
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "hi", "annotations": []}],
}


def asked(input: Any = "go", **kept: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (None, input, ModelSettings(), [], None, [], None), kept


async def plain(model: ScriptedModel, input: Any = "go") -> ModelResponse:
    args, kept = asked(input)
    return await model.get_response(*args, **kept)


async def until_it_breaks(model: ScriptedModel, error: type[Exception]) -> list[Any]:
    """The events of a stream that ends in that error."""
    seen: list[Any] = []

    async def listen() -> None:
        async for event in model.stream_response(*asked()[0]):
            seen.append(event)

    with pytest.raises(error):
        await listen()
    return seen


async def streamed(model: ScriptedModel, input: Any = "go") -> list[Any]:
    args, kept = asked(input)
    return [event async for event in model.stream_response(*args, **kept)]


async def both(make: Any) -> list[list[Any]]:
    """The output of one reply, plain and streamed, of two models made alike."""
    return [(await plain(make())).output, (await streamed(make()))[-1].response.output]


# ------------------------------------------------------------------------------------------------------------- steps


@each(
    "step",
    [
        "hi", ["hi"], ("hi",), assistant_message("hi"), [assistant_message("hi")], dict(SAID), [SAID],
        ModelStep("hi"), ModelStep(["hi"]), ModelStep(SAID), {"output": "hi"}, {"output": [SAID], "response_id": "r"},
        ModelResponse([SAID]), lambda _request: "hi", lambda _request: [SAID],
        ModelStep(responder=lambda _request: "hi"),
    ],
)  # fmt: skip
async def test_every_form_of_a_step_says_the_same(step: Any) -> None:
    assert await both(lambda: ScriptedModel([step])) == [[SAID], [SAID]]


async def test_an_async_function_is_awaited() -> None:
    async def answer(request: ModelRequest) -> str:
        await turns_of_the_loop()
        return last_user_text(request)

    assert (await plain(ScriptedModel([answer]), "hi")).output == [SAID]
    assert (await plain(ScriptedModel(answer), "hi")).output == [SAID]


class Sdk:
    """An item as a provider's SDK makes it."""

    def model_dump(self, **_options: Any) -> dict[str, Any]:
        return dict(SAID)


async def test_items_of_an_sdk_are_read() -> None:
    assert await both(lambda: ScriptedModel([[Sdk()]])) == [[SAID], [SAID]]
    assert await both(lambda: ScriptedModel([Sdk()])) == [[SAID], [SAID]]


async def test_an_empty_reply_is_a_reply() -> None:
    assert await both(lambda: ScriptedModel([[]])) == [[], []]


@pytest.mark.parametrize("error", [ConnectionError("gone"), asyncio.CancelledError(), UserError("no"), SystemExit(3)])
async def test_an_error_is_raised_as_it_is(error: BaseException) -> None:
    for step in (error, ModelStep(error=error), lambda _request: error):
        for ask in (plain, streamed):
            with pytest.raises(type(error)) as raised:
                await ask(ScriptedModel([step]))
            assert raised.value is error


async def test_replies_come_in_order_and_can_be_added() -> None:
    model = ScriptedModel(["one"])
    assert (await plain(model)).output[0].content[0].text == "one"
    model.enqueue("two", ["three"])
    assert model.remaining_steps == 2
    assert [(await plain(model)).output[0].content[0].text for _ in range(2)] == ["two", "three"]
    model.assert_done()


async def test_a_script_is_extended_by_a_list() -> None:
    model = ScriptedModel(["one"])
    model.extend(step for step in ("two", ModelStep("three")))
    model.extend([])
    assert model.remaining_steps == 3
    for ask in (plain, streamed, plain):
        await ask(model)
    model.assert_done()
    for single in ("four", SAID, ModelStep("four"), OSError(), lambda _request: "four"):
        with pytest.raises(InvalidModelStep, match="enqueue it"):
            model.extend(cast("Any", single))
    with pytest.raises(InvalidModelStep, match="step 5: "):
        model.extend(["four", 5])
    assert model.remaining_steps == 0, "a list with a wrong step adds nothing"


async def test_the_first_and_the_last_call_are_at_hand() -> None:
    model = ScriptedModel(["a", "b"])
    assert (model.first_call, model.last_call) == (None, None)
    await plain(model, "one")
    assert model.first_call is model.last_call
    await streamed(model, "two")
    with pytest.raises(UnexpectedModelCall):
        await plain(model, "three")
    assert model.first_call is not None
    assert model.last_call is not None
    assert (model.first_call.input[0]["content"], model.last_call.input[0]["content"]) == ("one", "three")


async def test_the_default_usage_can_be_set_between_replies() -> None:
    much, own = Usage(1, 10, total_tokens=10), Usage(1, 3, output_tokens=4, total_tokens=7)
    model = ScriptedModel(["a", "b", ModelStep("c", usage=own), "d"])
    replies = [await plain(model)]
    model.set_default_usage(much)
    replies += [await plain(model), await plain(model)]
    model.set_default_usage(None)
    replies.append(await plain(model))
    assert [reply.usage for reply in replies] == [Usage(requests=1), much, own, Usage(requests=1)]
    wrong: Any
    for wrong in (5, {"requests": 1}):
        with pytest.raises(InvalidModelStep, match="must be a Usage"):
            model.set_default_usage(wrong)
        with pytest.raises(InvalidModelStep, match="must be a Usage"):
            ScriptedModel(default_usage=wrong)


async def test_a_step_is_made_by_what_it_does() -> None:
    assert await both(lambda: ScriptedModel([ModelStep.respond(lambda _request: "hi")])) == [[SAID], [SAID]]
    assert await until_it_breaks(ScriptedModel([ModelStep.raise_error(OSError("gone"))]), OSError) == []
    with pytest.raises(OSError, match="gone"):
        await plain(ScriptedModel([ModelStep.raise_error(OSError("gone"))]))
    used = Usage(1, 3, output_tokens=4, total_tokens=7)
    told = ModelStep.stream([1, OSError("gone")], output=["hi"], usage=used, response_id="r")
    assert await until_it_breaks(ScriptedModel([told]), OSError) == [1]
    whole = await plain(ScriptedModel([told]))
    assert (whole.output, whole.usage, whole.response_id) == ([SAID], used, "r")
    make: Any
    for make in (ModelStep.respond, ModelStep.raise_error, ModelStep.stream):
        with pytest.raises(InvalidModelStep, match="must be"):
            make(5)


async def test_nobodys_edit_reaches_the_script() -> None:
    step = ModelStep([reasoning("because"), "hi"])
    model = ScriptedModel(lambda _request: step)
    first = await plain(model)
    first.output[0]["summary"][0]["text"] = "changed"
    first.output[1]["content"].clear()
    (await streamed(model))[-1]["response"]["output"][1]["content"].clear()
    assert (await plain(model)).output == [reasoning("because"), SAID]


# ------------------------------------------------------------------------------------------------ the history decides


def history_driven(request: ModelRequest) -> Any:
    done = tool_outputs(request)
    if "c1" not in done:
        return [function_call("look", {"at": last_user_text(request)}, call_id="c1")]
    return f"it is {done['c1']}"


async def test_a_function_answers_every_request_from_its_conversation() -> None:
    model = ScriptedModel(history_driven)
    [call] = (await plain(model, "sky")).output
    assert json.loads(call.arguments) == {"at": "sky"}
    again: list[Any] = [{"role": "user", "content": "sky"}, dict(call)]
    assert (await plain(model, again)).output == [call], "asked anew with nothing done it answers the same"
    again.append({"type": "function_call_output", "call_id": "c1", "output": "blue"})
    assert (await plain(ScriptedModel(history_driven), again)).output == [assistant_message("it is blue")]
    model.assert_done()
    with pytest.raises(InvalidModelStep, match="no script"):
        model.enqueue("more")


def request(*items: dict[str, Any]) -> ModelRequest:
    return ModelRequest(None, list(items), ModelSettings(), [], None, [])


def test_tool_outputs_are_those_of_every_kind_of_call() -> None:
    seen = request(
        {"role": "user", "content": "go"},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "1"},
        {"type": "shell_call_output", "call_id": "c2", "output": [{"stdout": ""}]},
        {"type": "function_call_output", "call_id": "c1", "output": "later"},
    )
    assert tool_outputs(seen) == {"c1": "later", "c2": [{"stdout": ""}]}


def test_the_last_user_text() -> None:
    parts = [{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": "x"}, {"text": "b"}]
    assert last_user_text(request({"role": "user", "content": parts}, dict(SAID))) == "ab"
    assert last_user_text(request({"role": "user", "content": "x"}, {"role": "user", "content": "y"})) == "y"
    assert last_user_text(request(dict(SAID))) == last_user_text(request({"role": "user", "content": None})) == ""


# ------------------------------------------------------------------------------------------ what is kept, what is told


async def test_calls_keep_what_was_asked() -> None:
    model, given = ScriptedModel(["a", "b"]), [{"role": "user", "content": "x"}]
    args, kept = asked(given, previous_response_id="r0", conversation_id="v", prompt={"id": "p"})
    await model.get_response(*args, **kept)
    await streamed(model, "y")
    first, second = model.calls
    first.input[0]["content"] = "edited"
    assert given == [{"role": "user", "content": "x"}], "a recorded call is a copy"
    assert (first.streamed, second.streamed) == (False, True)
    assert (first.previous_response_id, first.conversation_id, first.prompt) == ("r0", "v", {"id": "p"})
    assert second.input == [{"role": "user", "content": "y"}]


async def test_arguments_may_be_named() -> None:
    model = ScriptedModel(["hi"])
    names = ("system_instructions", "input", "model_settings", "tools", "output_schema", "handoffs", "tracing")
    await model.get_response(**dict(zip(names, asked()[0], strict=True)))
    assert model.calls[0].input == [{"role": "user", "content": "go"}]


async def test_ids_are_given_or_counted() -> None:
    model = ScriptedModel(["a", ModelStep("b", response_id="mine", request_id="q"), "c"])
    replies = [await plain(model) for _ in range(3)]
    assert [reply.response_id for reply in replies] == ["resp_1", "mine", "resp_3"]
    assert [reply.request_id for reply in replies] == [None, "q", None]
    whole = (await streamed(ScriptedModel([ModelStep("b", response_id="mine", request_id="q")])))[-1].response
    assert (whole.id, whole["_request_id"]) == ("mine", "q")


async def test_usage_is_one_request_unless_said() -> None:
    own, default = Usage(1, 3, output_tokens=4, total_tokens=7), Usage(1, 10, total_tokens=10)
    assert (await plain(ScriptedModel(["a"]))).usage == Usage(requests=1)
    model = ScriptedModel(["a", ModelStep("b", usage=own), "c"], default_usage=default)
    replies = [await plain(model) for _ in range(3)]
    assert [reply.usage for reply in replies] == [default, own, default]
    replies[0].usage.add(own)
    assert default == Usage(1, 10, total_tokens=10), "a reply's usage is a copy"
    counts = (await streamed(ScriptedModel(["a"], default_usage=own)))[-1].response.usage
    assert (counts.input_tokens, counts.output_tokens, counts.total_tokens) == (3, 4, 7)


async def test_a_delay_is_waited_for() -> None:
    gate = asyncio.Event()
    for ask in (plain, streamed):
        gate.clear()
        waiting = asyncio.ensure_future(ask(ScriptedModel([ModelStep("hi", delay=gate.wait)])))
        await turns_of_the_loop()
        assert not waiting.done()
        gate.set()
        assert await waiting
    assert (await plain(ScriptedModel([ModelStep("hi", delay=0)]))).output == [SAID]


# ------------------------------------------------------------------------------------------------------------ streams


def kinds(events: list[Any]) -> list[str]:
    return [event.type.removeprefix("response.") for event in events]


async def test_a_message_is_told_as_the_responses_api_tells_it() -> None:
    events = await streamed(ScriptedModel(["to be"]))
    assert kinds(events) == [
        "created", "output_item.added", "content_part.added", "output_text.delta", "output_text.delta",
        "output_text.done", "content_part.done", "output_item.done", "completed",
    ]  # fmt: skip
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [event.delta for event in events[3:5]] == ["to ", "be"]
    assert events[5].text == "to be"
    assert (events[1].item.status, events[1].item.content) == ("in_progress", [])
    assert events[-2].item == events[-1].response.output[0]
    assert (events[0].response.status, events[-1].response.status) == ("in_progress", "completed")
    assert {event.item_id for event in events[2:7]} == {"item_0"}


async def test_a_call_is_told_with_its_arguments() -> None:
    call = function_call("pay", {"to": "ada lovelace"}, call_id="c1", item_id="fc_1")
    events = await streamed(ScriptedModel([["hi", call]]))
    about = [event for event in events if event.get("output_index") == 1]
    assert kinds(about) == [
        "output_item.added", "function_call_arguments.delta", "function_call_arguments.delta",
        "function_call_arguments.done", "output_item.done",
    ]  # fmt: skip
    assert (about[0].item.arguments, about[0].item.name) == ("", "pay")
    assert "".join(event.delta for event in about[1:3]) == about[3].arguments == call.arguments
    assert about[1].item_id == "fc_1"
    assert about[-1].item == call


async def test_refusals_reasoning_and_custom_calls_are_told() -> None:
    custom = {"type": "custom_tool_call", "call_id": "c1", "name": "sql", "input": "select 1"}
    other = {"type": "image_generation_call", "id": "ig_1", "result": "..."}
    events = await streamed(ScriptedModel([[reasoning("it is due"), refusal("I will not"), custom, other]], chunk=100))
    told = {event.type: event for event in events}
    assert told["response.reasoning_summary_text.delta"].delta == "it is due"
    assert told["response.reasoning_summary_text.done"].summary_index == 0
    assert told["response.refusal.done"].refusal == "I will not"
    assert told["response.custom_tool_call_input.done"].input == "select 1"
    assert [event.item for event in events if event.type == "response.output_item.added"][-1] == other
    assert kinds(events).count("output_item.done") == 4


@given(text=st.text(), chunk=st.none() | st.integers(1, 9))
async def test_deltas_add_up(text: str, chunk: int | None) -> None:
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": text}
    events = await streamed(ScriptedModel([[text, call]], chunk=chunk))
    for name in ("output_text", "function_call_arguments"):
        deltas = [event.delta for event in events if event.type == f"response.{name}.delta"]
        assert "".join(deltas) == text
        assert all(deltas)
        assert chunk is None or all(len(delta) <= chunk for delta in deltas)


ODD = [{"type": "message"}, {"role": "assistant", "content": "x"}, {"type": "reasoning"}, {"type": "function_call"},
       {"type": "message", "content": [{"type": "odd"}]}]  # fmt: skip


@pytest.mark.each
@pytest.mark.parametrize("item", ODD)
async def test_odd_items_are_told_without_complaint(item: dict[str, Any]) -> None:
    assert await both(lambda: ScriptedModel([[item]])) == [[item], [item]]


async def test_exact_events_are_yielded_exactly() -> None:
    events = [StreamEvent("response.created"), {"type": "odd"}, object()]
    assert await streamed(ScriptedModel([ModelStep(stream_events=events)])) == events
    model = ScriptedModel([ModelStep("hi", stream_events=events)])
    assert (await plain(model)).output == [SAID]
    with pytest.raises(InvalidModelStep, match="only told as a stream"):
        await plain(ScriptedModel([ModelStep(stream_events=events)]))


async def test_an_error_among_the_events_is_raised_there() -> None:
    model = ScriptedModel([ModelStep(stream_events=[1, ConnectionError("gone"), 2])])
    assert await until_it_breaks(model, ConnectionError) == [1]


async def test_events_may_come_from_a_function() -> None:
    async def told(request: ModelRequest) -> AsyncIterator[Any]:
        for number in range(len(request.input)):
            await turns_of_the_loop()
            yield number

    assert await streamed(ScriptedModel([ModelStep(stream_events=told)])) == [0]
    assert await streamed(ScriptedModel([ModelStep(stream_events=lambda _request: [1, 2])])) == [1, 2]


async def test_a_stream_can_break_off_anywhere() -> None:
    whole = await streamed(ScriptedModel(["to be"]))
    for count in range(len(whole) + 2):
        assert await streamed(ScriptedModel([ModelStep("to be", break_after=count)])) == whole[:count]
    assert (await plain(ScriptedModel([ModelStep("to be", break_after=0)]))).output, "plain it is answered whole"


async def test_a_stream_can_break_with_an_error() -> None:
    model = ScriptedModel(lambda _request: ModelStep("to be", break_after=4, error=ConnectionError("gone")))
    assert kinds(await until_it_breaks(model, ConnectionError))[-1] == "output_text.delta"
    with pytest.raises(ConnectionError):
        await plain(model)


def test_an_event_reads_in_both_habits_and_cannot_be_changed() -> None:
    event = StreamEvent("response.output_item.done", item={"content": [{"text": "x"}]})
    assert event.item.content[0].text == event["item"]["content"][0]["text"] == "x"
    assert json.loads(json.dumps(event)) == event == event.model_dump()
    assert StreamEvent(**event) == event
    for change in (
        lambda: event.__setitem__("type", "x"), lambda: event.update(a=1), lambda: event.pop("type"),
        lambda: event.setdefault("a", 1), lambda: event.clear(), lambda: event.popitem(),
        lambda: event.__delitem__("type"), lambda: event.__ior__({"a": 1}),
    ):  # fmt: skip
        with pytest.raises(TypeError, match="cannot be changed"):
            change()
    with pytest.raises(AttributeError):
        event.type = "x"
    with pytest.raises(AttributeError, match="delta"):
        _ = event.delta


def test_an_event_can_be_copied_and_sent() -> None:
    event = StreamEvent("response.output_text.delta", delta="x")
    for made in (copy.copy(event), copy.deepcopy(event), pickle.loads(pickle.dumps(event))):
        assert (type(made), made) == (StreamEvent, event)


# ------------------------------------------------------------------------------------------------------------- faults


async def test_a_script_that_is_used_up_says_so_and_quotes_nothing() -> None:
    model = ScriptedModel(["one"])
    await plain(model)
    for ask, number in ((plain, 2), (streamed, 3)):
        with pytest.raises(UnexpectedModelCall, match=f"reply {number} and its script has 1 ") as raised:
            await ask(model, "my secret")
        assert raised.value.call.input[0]["content"] == "my secret"
        assert "secret" not in str(raised.value)
    assert isinstance(raised.value, UserError)


async def test_steps_that_are_left_are_found() -> None:
    model = ScriptedModel(["one", "two", "three"])
    await plain(model)
    for check in (model.assert_done, model.assert_complete):
        with pytest.raises(UnconsumedModelSteps, match="asked 1 times and 2 steps"):
            check()


@each("step", [None, 3.5, True, [None], [["hi"]], b"hi", ValueError, {}, {"text": "hi"}, object(),
                                  {"output": "hi", "typo": 1}])  # fmt: skip
async def test_nonsense_is_refused_with_its_place(step: Any) -> None:
    with pytest.raises(InvalidModelStep, match=r"step 2: .*a step is a list of output items"):
        ScriptedModel(["fine", step])
    with pytest.raises(InvalidModelStep, match=r"step 2: "):
        ScriptedModel(["fine"]).enqueue(step)
    with pytest.raises(InvalidModelStep, match=r"reply 1: "):
        await plain(ScriptedModel(lambda _request: step))


async def test_a_function_of_a_function_is_refused() -> None:
    with pytest.raises(InvalidModelStep, match="a function again"):
        await plain(ScriptedModel(lambda _request: lambda _again: "hi"))


@pytest.mark.parametrize("steps", ["hi", SAID, ModelStep("hi"), ValueError("x"), ModelResponse([])])
def test_one_step_is_no_script(steps: Any) -> None:
    with pytest.raises(InvalidModelStep, match="a list of steps"):
        ScriptedModel(steps)


@each(
    ("fields", "why"),
    [
        ({"output": "x", "error": OSError()}, "answer and raise"),
        ({"error": "boom"}, "an exception"),
        ({"responder": "x"}, "a function"),
        ({"responder": len, "output": "x"}, "says everything"),
        ({"responder": len, "usage": Usage()}, "says everything"),
        ({"stream_events": [], "error": OSError()}, "exactly"),
        ({"stream_events": [], "break_after": 1}, "exactly"),
        ({"output": "x", "break_after": -1}, "0 or more"),
        ({"output": "x", "usage": {"input_tokens": 1}}, "a Usage"),
        ({"output": "x", "delay": -1}, "0 or more"),
    ],
)
def test_a_step_that_contradicts_itself_is_refused(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidModelStep, match=why):
        ModelStep(**fields)
    with pytest.raises(InvalidModelStep, match=why):
        ScriptedModel([fields])


@pytest.mark.parametrize("chunk", [0, -1])
def test_a_delta_has_characters(chunk: int) -> None:
    with pytest.raises(InvalidModelStep, match="at least 1"):
        ScriptedModel(chunk=chunk)


def test_the_errors_have_one_root() -> None:
    assert issubclass(ModelScriptError, UserError)
    assert all(
        issubclass(error, ModelScriptError) for error in (InvalidModelStep, UnexpectedModelCall, UnconsumedModelSteps)
    )


# -------------------------------------------------------------------------------------------------------------- items


def test_items_hold_what_was_given_and_nothing_else() -> None:
    assert assistant_message("hi") == SAID
    assert assistant_message("hi", item_id="m1") == {**SAID, "id": "m1"}
    assert function_call("f", call_id="c") == {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    full = function_call("f", '{"broken', call_id="c", item_id="i", namespace="n")
    assert (full.arguments, full.id, full.namespace) == ('{"broken', "i", "n")
    assert function_call("f", {"s": "é"}, call_id="c").arguments == '{"s":"é"}'
    assert reasoning() == {"type": "reasoning", "summary": []}
    assert reasoning(encrypted_content="x").encrypted_content == "x"
    assert refusal("no").content == [{"type": "refusal", "refusal": "no"}]


def test_call_ids_are_counted() -> None:
    ids = [function_call("f").call_id for _ in range(5)]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"call_\d+", label) for label in ids)


def test_errors_of_a_script_say_which_step_and_which_call() -> None:
    with pytest.raises(InvalidModelStep) as invalid:
        ScriptedModel(["fine", object()])
    assert invalid.value.input_index == 1
    with pytest.raises(UnexpectedModelCall) as unexpected:
        Runner.run_sync(Agent("a", model=ScriptedModel([])), "hi")
    assert (unexpected.value.call_index, type(unexpected.value.call)) == (0, ModelCall)


def test_the_spans_of_model_calls_are_the_runs() -> None:
    assert ScriptedModel(["hi"], emit_traces=True).remaining_steps == 1
    with pytest.raises(InvalidModelStep, match="leave emit_traces out"):
        ScriptedModel(["hi"], emit_traces=False)
