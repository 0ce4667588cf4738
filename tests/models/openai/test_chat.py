"""Chat Completions as the model asks it, and as servers of every habit answer: requests, messages, replies, events."""

from __future__ import annotations

from typing import Any

import openai
import pytest
from openai.types.chat.completion_create_params import CompletionCreateParams
from pydantic import BaseModel, TypeAdapter

from keyturn import Agent, AgentOutputSchema, MultiProvider, Runner, UserError, handoff
from keyturn.core.errors import ModelBehaviorError
from keyturn.models.base import ModelSettings, TokenDetails, Usage
from keyturn.models.openai.account import is_openais
from keyturn.models.openai.chat_messages import PROVIDER, chat_messages
from keyturn.models.scripted.items import assistant_message, function_call, reasoning, refusal
from keyturn.models.scripted.script import ModelStep
from keyturn.testing.loopback.chat import ChatDialect, ChatServer
from keyturn.testing.loopback.server import HttpReply
from keyturn.testing.suites.models import ModelSuite
from tests.models.openai.serving import (
    ask,
    bodies,
    events_of,
    hosted,
    kinds,
    served,
    status_error,
)
from tests.table import each

CHECK: TypeAdapter[Any] = TypeAdapter(CompletionCreateParams)

DIALECTS = {
    "zero": ChatDialect(index="zero"),
    "zero-every": ChatDialect(index="zero", label="every", name="every"),
    "missing": ChatDialect(index="missing"),
    "missing-never": ChatDialect(index="missing", label="never", arguments="object"),
    "late": ChatDialect(label="last", name="cut"),
    "mixed": ChatDialect(mixed=True, name="cut", label="every"),
    "object": ChatDialect(arguments="object", usage="every", done=False),
    "thoughts": ChatDialect(thoughts="reasoning"),
}


class ChatSuite(ModelSuite):
    dialect = ChatDialect()

    async def make_model(self, script: list[ModelStep]) -> Any:
        return hosted(await ChatServer(script, self.dialect).start())

    def make_error(self) -> Exception:
        return status_error(400)


class TestOpenAIChatCompletionsModel(ChatSuite):
    pass


class TestOneIndexForAll(ChatSuite):
    dialect = DIALECTS["zero-every"]


class TestNoIndex(ChatSuite):
    dialect = DIALECTS["missing"]


class TestLateAndMixed(ChatSuite):
    dialect = ChatDialect(label="last", name="cut", mixed=True)


def checked(body: Any) -> Any:
    """A body that the SDK's own type accepts; iterables in it are read, or nothing would be checked."""
    found = CHECK.validate_python(body)
    for name in ("messages", "tools"):
        for entry in found.get(name) or []:
            list(entry.get("tool_calls") or [])
            list(entry.get("content") or [])
    return body


async def sent(settings: ModelSettings | None = None, *, streamed: bool = False, **other: Any) -> Any:
    """The body of one request."""
    server = ChatServer(["done"])
    async with served(server) as model:
        await ask(model, other.pop("given", "hi"), settings=settings, streamed=streamed, **other)
    [body] = bodies(server)
    return checked(body)


# -------------------------------------------------------------------------------------------------------- requests
async def test_the_smallest_request(streamed: bool) -> None:
    stream = {"stream": True, "stream_options": {"include_usage": True}} if streamed else {}
    assert await sent(streamed=streamed) == {"model": "m", "messages": [{"role": "user", "content": "hi"}], **stream}


class City(BaseModel):
    name: str


async def test_everything_that_can_be_asked(payer: Any) -> None:
    settings = ModelSettings(
        temperature=0.0,
        top_p=0.5,
        frequency_penalty=0.1,
        presence_penalty=0.2,
        tool_choice="pay",
        parallel_tool_calls=False,
        max_tokens=100,
        reasoning={"effort": "low"},
        verbosity="low",
        metadata={"a": "b"},
        store=False,
        prompt_cache_retention="24h",
        top_logprobs=3,
        truncation="auto",
        extra_body={"chat_template_kwargs": {"enable_thinking": True}},
        extra_args={"seed": 7, "min_p": 0.1},
    )
    to_billing = handoff(Agent("Billing"))
    body = await sent(
        settings, system="Be brief.", tools=[payer], handoffs=[to_billing], schema=AgentOutputSchema(City)
    )
    tools, form = body.pop("tools"), body.pop("response_format")
    assert [tool["function"]["name"] for tool in tools] == ["pay", "transfer_to_billing"]
    assert tools[0]["function"]["parameters"] == payer.params_json_schema
    assert tools[0]["function"]["strict"] is True
    assert form["type"] == "json_schema"
    assert form["json_schema"]["name"] == "final_output"
    assert form["json_schema"]["strict"] is True
    assert form["json_schema"]["schema"]["required"] == ["name"]
    assert body == {
        "model": "m",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}],
        "temperature": 0.0,
        "top_p": 0.5,
        "frequency_penalty": 0.1,
        "presence_penalty": 0.2,
        "tool_choice": {"type": "function", "function": {"name": "pay"}},
        "parallel_tool_calls": False,
        "max_tokens": 100,
        "reasoning_effort": "low",
        "verbosity": "low",
        "metadata": {"a": "b"},
        "store": False,
        "prompt_cache_retention": "24h",
        "top_logprobs": 3,
        "logprobs": True,
        "chat_template_kwargs": {"enable_thinking": True},
        "seed": 7,
        "min_p": 0.1,
    }


async def test_settings_that_need_tools_wait_for_tools() -> None:
    assert "parallel_tool_calls" not in await sent(ModelSettings(parallel_tool_calls=True))
    own = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}
    assert (await sent(ModelSettings(tool_choice=own)))["tool_choice"] == own


async def test_usage_can_be_left_out_of_a_stream() -> None:
    assert "stream_options" not in await sent(ModelSettings(include_usage=False), streamed=True)


@pytest.mark.parametrize(
    ("address", "openais"),
    [
        ("https://api.openai.com/v1", True),
        ("https://eu.api.openai.com/v1", True),
        ("https://mine.openai.azure.com/openai/v1", True),
        ("http://localhost:8000/v1", False),
        ("https://api.openai.com.evil.example/v1", False),
    ],
)
def test_whose_server_it_is(address: str, openais: bool) -> None:
    """OpenAI's own models want `max_completion_tokens`, and others know `max_tokens`."""
    assert is_openais(openai.AsyncOpenAI(api_key="k", base_url=address)) is openais


async def test_a_tool_that_only_the_provider_runs_is_an_error() -> None:
    tool = type("Hosted", (), {"name": "search", "provider_tool": lambda self: {"type": "web_search"}})()
    with pytest.raises(UserError, match="no tool of type 'web_search'"):
        await sent(tools=[tool])


async def test_a_custom_tool_goes_there_and_back() -> None:
    tool = {"type": "custom", "name": "sql", "description": "Runs it.", "format": {"type": "text"}}
    asked = type("Custom", (), {"name": "sql", "provider_tool": lambda self: tool})()
    call = {"type": "custom_tool_call", "call_id": "c1", "name": "sql", "input": "select 'a'"}
    for streamed in (False, True):
        server = ChatServer([[call], "done"])
        async with served(server) as model:
            reply = await ask(model, tools=[asked], settings=ModelSettings(tool_choice="sql"), streamed=streamed)
            assert reply.output == [call]
            result = {"type": "custom_tool_call_output", "call_id": "c1", "output": "a"}
            await ask(model, [*reply.to_input_items(), result])
        first, second = bodies(server)
        assert first["tools"] == [{"type": "custom", "custom": {k: v for k, v in tool.items() if k != "type"}}]
        assert first["tool_choice"] == {"type": "custom", "custom": {"name": "sql"}}
        [made] = second["messages"][0]["tool_calls"]
        assert made == {"id": "c1", "type": "custom", "custom": {"name": "sql", "input": "select 'a'"}}


async def test_a_name_finds_it() -> None:
    async with ChatServer(["hello"]) as server:
        provider = MultiProvider(openai_api_key="k", openai_base_url=server.base_url)
        model = provider.get_model("openai-chat:qwen3")
        assert (await ask(model)).output[0].content[0].text == "hello"
        await provider.aclose()
    assert bodies(server)[0]["model"] == "qwen3"


# -------------------------------------------------------------------------------------------------------- messages

CALL = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"at": "sky"}'}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "blue"}
TOLD = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "sky"}'}}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "blue"}


def said(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def thought(text: str, field: str = "reasoning_content") -> dict[str, Any]:
    return {"type": "reasoning", "summary": [], "provider_data": {PROVIDER: {field: text}}}


USER = {"role": "user", "content": "hi"}


@each(
    ("items", "messages"),
    [
        ([USER, {"role": "developer", "content": "d"}], [USER, {"role": "developer", "content": "d"}]),
        ([assistant_message("yes")], [said("yes")]),
        ([assistant_message("yes"), assistant_message("no")], [said("yes"), said("no")]),
        ([refusal("no")], [{"role": "assistant", "content": None, "refusal": "no"}]),
        ([assistant_message("yes"), CALL, OUTPUT], [{**said("yes"), "tool_calls": [TOLD]}, RESULT]),
        ([CALL, assistant_message("yes"), OUTPUT], [{**said("yes"), "tool_calls": [TOLD]}, RESULT]),
        (
            [CALL, {**CALL, "call_id": "c2"}, {**OUTPUT, "call_id": "c2"}, OUTPUT],
            [
                {"role": "assistant", "content": None, "tool_calls": [TOLD, {**TOLD, "id": "c2"}]},
                RESULT,
                {**RESULT, "tool_call_id": "c2"},
            ],
        ),
        # A message came between a call and its result: the result stands with its call, as the API wants it.
        ([CALL, USER, OUTPUT], [{"role": "assistant", "content": None, "tool_calls": [TOLD]}, RESULT, USER]),
        # The same id in two turns.
        (
            [CALL, OUTPUT, CALL, {**OUTPUT, "output": "red"}],
            [
                {"role": "assistant", "content": None, "tool_calls": [TOLD]},
                RESULT,
                {"role": "assistant", "content": None, "tool_calls": [TOLD]},
                {**RESULT, "content": "red"},
            ],
        ),
        ([OUTPUT], [RESULT]),
    ],
)
def test_items_as_messages(items: list[Any], messages: list[Any]) -> None:
    assert chat_messages(None, items) == messages


def test_instructions_come_first() -> None:
    assert chat_messages("Be brief.", [USER]) == [{"role": "system", "content": "Be brief."}, USER]
    assert chat_messages("", [USER]) == [USER]


@each(
    ("part", "told"),
    [
        ({"type": "input_text", "text": "hi"}, "hi"),
        ({"type": "input_image", "image_url": "https://e.com/a.png"}, {"url": "https://e.com/a.png"}),
        (
            {"type": "input_image", "image_url": "data:image/png;base64,aGk=", "detail": "low"},
            {"url": "data:image/png;base64,aGk=", "detail": "low"},
        ),
        ({"type": "input_file", "file_data": "aGk=", "filename": "a.txt"}, {"file_data": "aGk=", "filename": "a.txt"}),
        ({"type": "input_file", "file_id": "file_1"}, {"file_id": "file_1"}),
        ({"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}}, {"data": "aGk=", "format": "wav"}),
    ],
)
def test_parts(part: Any, told: Any) -> None:
    [message] = chat_messages(None, [{"role": "user", "content": [part]}])
    if isinstance(told, str):
        assert message["content"] == told
        return
    [made] = message["content"]
    assert made[made["type"]] == told
    checked({"model": "m", "messages": [message]})


def test_several_parts_and_none() -> None:
    parts = [{"type": "input_text", "text": text} for text in ("a", "b")]
    [message] = chat_messages(None, [{"role": "user", "content": parts}])
    assert message["content"] == [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert chat_messages(None, [{"role": "user", "content": []}]) == [{"role": "user", "content": ""}]
    made = chat_messages(None, [CALL, {**OUTPUT, "output": parts}])
    assert made[1]["content"] == [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]


@pytest.mark.each
@pytest.mark.parametrize(
    ("item", "complaint"),
    [
        ({"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}, "not by a file id"),
        ({"role": "user", "content": [{"type": "input_file", "file_url": "https://e.com"}]}, "not by a URL"),
        ({"role": "user", "content": [{"type": "input_hologram"}]}, "no content of type 'input_hologram'"),
        ({"type": "item_reference", "id": "msg_1"}, "item 0 of the input, a 'item_reference'"),
        ({"type": "shell_call", "call_id": "c"}, "call_model_input_filter"),
    ],
)
def test_what_no_message_can_carry_is_an_error(item: Any, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        chat_messages(None, [item])


def test_thoughts_go_back_with_their_calls_until_the_user_speaks() -> None:
    called = {"role": "assistant", "content": None, "tool_calls": [TOLD]}
    turn = [thought("hm"), CALL, OUTPUT]
    assert chat_messages(None, [USER, *turn])[1] == {**called, "reasoning_content": "hm"}
    assert chat_messages(None, [USER, *turn, USER])[1] == called
    assert chat_messages(None, [USER, thought("hm"), assistant_message("yes")]) == [USER, said("yes")]
    several = [thought("a", "reasoning"), thought("b", "reasoning"), CALL, OUTPUT]
    assert chat_messages(None, several)[0] == {**called, "reasoning": "ab"}
    foreign = {"type": "reasoning", "summary": [], "provider_data": {"anthropic": {"signature": "s"}}}
    assert chat_messages(None, [foreign, reasoning("own", item_id="rs_1"), CALL, OUTPUT])[0] == called


def test_what_a_server_keeps_on_a_call_goes_back_to_it() -> None:
    kept = {"extra_content": {"google": {"thought_signature": "s=="}}}
    call = {**CALL, "provider_data": {PROVIDER: kept}}
    [message, _] = chat_messages(None, [call, OUTPUT])
    assert message["tool_calls"] == [{**TOLD, **kept}]


# --------------------------------------------------------------------------------------------------------- replies

USED = Usage(1, 11, TokenDetails(cached_tokens=3), 7, TokenDetails(reasoning_tokens=2), 18)
EVERYTHING = [
    reasoning("The invoice is due."),
    assistant_message("To be, or not to be."),
    function_call("pay", {"to": "ada"}, call_id="c1"),
    function_call("look", call_id="c2"),
    function_call("pay", {"to": "bob", "note": "two words"}, call_id="c3"),
]


@each("dialect", DIALECTS.values(), ids=DIALECTS)
async def test_a_reply_is_the_same_in_every_dialect(dialect: ChatDialect, streamed: bool) -> None:
    step = ModelStep(EVERYTHING, usage=USED, response_id="chatcmpl-mine", request_id="req_mine")
    async with served(ChatServer([step], dialect)) as model:
        reply = await ask(model, streamed=streamed)
    assert (reply.response_id, reply.request_id, reply.usage) == ("chatcmpl-mine", "req_mine", USED)
    thought, message, *calls = reply.output
    assert thought["summary"] == [{"type": "summary_text", "text": "The invoice is due."}]
    assert thought["provider_data"] == {PROVIDER: {dialect.thoughts: "The invoice is due."}}
    assert message == assistant_message("To be, or not to be.")
    made_up = streamed and dialect.label == "never"
    assert [call for call in calls if not made_up] == (EVERYTHING[2:] if not made_up else [])
    if made_up:
        assert len({call["call_id"] for call in calls}) == 3
        assert [(call["name"], call["arguments"]) for call in calls] == [
            (call["name"], call["arguments"]) for call in EVERYTHING[2:]
        ]


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
async def test_the_events_say_what_the_reply_says(dialect: ChatDialect) -> None:
    async with served(ChatServer([EVERYTHING], dialect)) as model:
        events = await events_of(model)
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert kinds(events)[0] == "created"
    assert kinds(events).count("completed") == 1
    last = events[-1].response
    done = [event for event in events if event.type == "response.output_item.done"]
    added = [event for event in events if event.type == "response.output_item.added"]
    assert [event.output_index for event in done] == [event.output_index for event in added] == list(range(5))
    late = dialect.label in ("last", "never")
    told = [without_label(event.item) if late else event.item for event in done]
    assert told == [without_label(item) if late else item for item in last.output]
    for index, call in enumerate(last.output):
        deltas = [
            event.delta
            for event in events
            if event.type == "response.function_call_arguments.delta" and event.output_index == index
        ]
        assert "".join(deltas) in ((call["arguments"], "") if call["type"] == "function_call" else ("",))


def without_label(item: Any) -> Any:
    return {name: value for name, value in item.items() if name != "call_id"}


async def test_deltas_come_as_they_come() -> None:
    """A text is told before its stream is over, and so are the arguments of the first call."""
    async with served(ChatServer([EVERYTHING])) as model:
        asked = (None, "hi", ModelSettings(), [], None, [], None)
        seen: list[str] = []
        async for event in model.stream_response(*asked):
            seen.append(event.type.removeprefix("response."))
    first = seen.index("output_text.delta")
    assert seen.index("function_call_arguments.delta") > first
    assert seen.count("output_text.delta") == 6
    assert seen.count("function_call_arguments.delta") > 10


def completion(message: Any, **other: Any) -> Any:
    choice = {"index": 0, "message": message, "finish_reason": "stop", **other}
    return lambda _request: HttpReply.json({"id": "c", "object": "chat.completion", "choices": [choice]})


def called(label: str | None = None, **told: Any) -> Any:
    return {"tool_calls": [{"id": label, "type": "function", "function": {"name": "look", **told}}]}


@each(
    ("message", "items"),
    [
        ({"content": "hi"}, [assistant_message("hi")]),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, [assistant_message("ab")]),
        ({"content": None}, []),
        ({"content": "", "tool_calls": None}, []),
        ({"refusal": "no"}, [refusal("no")]),
        ({"function_call": {"name": "look", "arguments": "{}"}}, [function_call("look", call_id="?")]),
        (called(arguments={"at": "sky"}), [function_call("look", {"at": "sky"}, call_id="?")]),
        (called("c", arguments=""), [function_call("look", call_id="c")]),
        (called("c", arguments=None), [function_call("look", call_id="c")]),
        (called("c"), [function_call("look", call_id="c")]),
    ],
)
async def test_messages_of_all_kinds(message: Any, items: list[Any]) -> None:
    async with served(ChatServer([completion(message)])) as model:
        reply = await ask(model)
    for made, item in zip(reply.output, items, strict=True):
        if item.get("call_id") == "?":
            assert made["call_id"].startswith("call_")
            made = {**made, "call_id": "?"}
        assert made == item


@pytest.mark.each
@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        ({"content": 5}, "a JSON int, not a text"),
        ({"tool_calls": [{"id": "c", "function": {"arguments": "{}"}}]}, "without a tool's name"),
        ({"tool_calls": [{"id": "c", "function": "look"}]}, "names no function"),
        ({"tool_calls": ["look"]}, "not a list of objects"),
        ({"tool_calls": 5}, "not a list of objects"),
    ],
)
async def test_messages_that_are_nonsense(message: Any, complaint: str) -> None:
    async with served(ChatServer([completion(message)])) as model:
        with pytest.raises(ModelBehaviorError, match=complaint):
            await ask(model)


async def test_log_probabilities_and_sealed_thoughts(streamed: bool) -> None:
    probable = {"content": [{"token": "hi", "bytes": [104], "logprob": -0.5, "top_logprobs": []}], "refusal": None}
    sealed = [{"type": "reasoning.encrypted", "data": "s==", "id": "r1", "index": 0}]
    said = {"content": "hi", "reasoning": "hm", "reasoning_details": sealed}
    if streamed:
        head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        choices = [
            {"index": 0, "delta": {"reasoning": "hm", "reasoning_details": sealed}},
            {"index": 0, "delta": {"content": "hi"}, "logprobs": probable},
            {"index": 0, "delta": {}, "finish_reason": "stop"},
        ]
        step: Any = lambda _request: HttpReply.stream([*({**head, "choices": [each]} for each in choices), "[DONE]"])  # noqa: E731  # one of two, as a value
    else:
        step = completion(said, logprobs=probable)
    async with served(ChatServer([step])) as model:
        reply = await ask(model, streamed=streamed)
    assert reply.output[0]["provider_data"] == {PROVIDER: {"reasoning": "hm", "reasoning_details": sealed}}
    assert reply.output[1]["content"][0]["logprobs"] == probable["content"]


async def test_a_run_over_a_server_that_thinks() -> None:
    server = ChatServer([[reasoning("Look up."), function_call("look", call_id="c1")], [reasoning("Blue."), "blue"]])
    from keyturn import function_tool

    @function_tool
    def look() -> str:
        """Look."""
        return "blue"

    async with served(server) as model:
        result = await Runner.run(Agent("a", model=model, tools=[look]), "sky?")
    assert result.final_output == "blue"
    assert [item.type for item in result.new_items] == [
        "reasoning_item",
        "tool_call_item",
        "tool_call_output_item",
        "reasoning_item",
        "message_output_item",
    ]
    assert bodies(server)[1]["messages"][1]["reasoning_content"] == "Look up."


async def test_a_structured_answer() -> None:
    async with served(ChatServer(['{"name": "Rome"}'])) as model:
        result = await Runner.run(Agent("a", model=model, output_type=City), "capital?")
    assert result.final_output == City(name="Rome")
