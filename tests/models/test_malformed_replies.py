"""Replies of open models as bug reports and public benchmarks recorded them: each is what it says, and nothing more.

`malformed_replies.jsonl` has one a line: `source` (a GitHub repository and the number of an issue or pull request, or a
file in it), `model`, `fault`, and `quoted`: "verbatim" is the reply as it stands there, "shortened" is less of it, and
in "transcribed" a part of the message is ours, as the source describes it. The reply is a `text`, `calls` (name and
arguments as they came), a `status` and `body`, or the bytes of a `stream`. `takes` are the parameters of the tool that
is offered, and `offers` its name where the reply calls another or writes the call into its text. `gives` says what
comes of it: a text, a call that asks with what `runs`, a call that goes `back` with these `words`, a call of an
`unknown` tool, or an `error`.

The server is as strict as llama.cpp and vLLM: it refuses a conversation in which a call's arguments are no object.
"""

from __future__ import annotations

import json
from collections import Counter
from inspect import Parameter, Signature
from pathlib import Path
from typing import Any

import pytest

from keyturn import Agent, FunctionTool, ModelSettings, RunConfig, function_tool
from keyturn.models.openai.chat import OpenAIChatCompletionsModel
from keyturn.models.scripted.items import assistant_message, function_call
from keyturn.testing.loopback.chat import ChatServer
from keyturn.testing.loopback.server import HttpReply, HttpRequest
from tests.effort import AT_LENGTH, part
from tests.playing import play

Entry = dict[str, Any]
ENTRIES: list[Entry] = [
    json.loads(line)
    for line in Path(__file__).with_name("malformed_replies.jsonl").read_text(encoding="utf-8").splitlines()
]
TYPES: dict[str, Any] = {"str": str, "int": int, "float": float, "bool": bool, "any": Any,
                         "strs": list[str], "ints": list[int], "floats": list[float]}  # fmt: skip


def asks_for(given: Any) -> FunctionTool:
    """The tool that a reply calls, or was offered and does not call."""
    calls = given.get("calls") or [["look", ""]]
    ran: list[Any] = []

    def made(**arguments: Any) -> str:
        ran.append(arguments)
        return "done"

    parameters = []
    for name, kind in given.get("takes", {}).items():
        may = kind.endswith("?")
        annotation = TYPES[kind.rstrip("?")]
        default = None if may else Parameter.empty
        parameters.append(
            Parameter(
                name, Parameter.KEYWORD_ONLY, annotation=annotation | None if may else annotation, default=default
            )
        )
    vars(made)["__signature__"] = Signature(parameters)
    return function_tool(made, name_override=given.get("offers", calls[0][0]), needs_approval=True)


class Recorded(ChatServer):
    """Answers with a recorded reply, and then with a text; strict about the conversation it is sent."""

    def __init__(self, entry: Entry) -> None:
        calls = [function_call(name, text, call_id=f"c{n}") for n, (name, text) in enumerate(entry.get("calls", []))]
        text = entry.get("text")
        super().__init__([[*([assistant_message(text)] if text else []), *calls], "done"])
        self.entry = entry

    def refuse(self, request: HttpRequest) -> tuple[int, str] | None:
        for message in request.json["messages"]:
            for call in message.get("tool_calls", ()):
                try:
                    assert isinstance(json.loads(call["function"]["arguments"]), dict)
                except (ValueError, AssertionError):
                    return 500, "Failed to parse tool call arguments as JSON"
        return super().refuse(request)

    def reply(self, request: HttpRequest, step: Any) -> HttpReply:
        entry, reply = self.entry, super().reply(request, step)
        if self.answered > 1:
            return reply
        if "stream" in entry:
            return HttpReply(200, {"content-type": "text/event-stream"}, entry["stream"].encode())
        if "body" in entry:
            return HttpReply(entry["status"], {"content-type": "application/json"}, entry["body"].encode())
        return finished(reply, entry["finish"]) if "finish" in entry else reply


def finished(reply: HttpReply, reason: str) -> HttpReply:
    """The reply with this finish reason in place of its own."""

    def changed(data: bytes) -> bytes:
        return data.replace(b'"finish_reason":"stop"', b'"finish_reason":"%s"' % reason.encode())

    parts = None if reply.parts is None else tuple(map(changed, reply.parts))
    return HttpReply(reply.status, reply.headers, changed(reply.body), parts=parts)


async def came_of(entry: Entry, streamed: bool) -> tuple[str, Any]:
    """What came of a reply, in the words of the file."""
    async with Recorded(entry) as server:
        model = OpenAIChatCompletionsModel("open", base_url=server.base_url, api_key="none")
        agent = Agent("a", model=model, tools=[asks_for(entry)], model_settings=ModelSettings(retry=0))
        config = RunConfig(tool_not_found_behavior="return_error_to_model")
        try:
            result = await play(agent, "go", streamed, run_config=config)
        except Exception as error:
            assert len(server.requests) == 1, "it is no error of the request after it"
            return "error", f"{type(error).__name__}: {error}"
        finally:
            await model.close()
        if result.interruptions:
            return "call", json.loads(result.interruptions[0].arguments)
        if len(server.requests) == 1:
            return "text", result.final_output
        [told] = [message for message in server.requests[1].json["messages"] if message["role"] == "tool"]
        assert result.final_output == "done"
        return ("back" if "arguments" in told["content"] else "unknown"), told["content"]


@pytest.mark.timeout(300)
async def test_each_recorded_reply_is_what_it_says() -> None:
    """Plain and streamed, at length; else half of them in one way. Each whose stream was recorded is streamed."""
    wrong = []
    ways = [
        (number, entry, streamed)
        for number, entry in enumerate(ENTRIES, 1)
        for streamed in (False, True)
        if (streamed if "stream" in entry else AT_LENGTH or streamed == bool(number % 2))
    ]
    for number, entry, streamed in part(ways, 2):
        gives, what = await came_of(entry, streamed)
        fits = what == entry.get("runs", entry.get("text")) if gives in ("call", "text") else entry["words"] in what
        if (gives, fits) != (entry["gives"], True):
            wrong.append(f"{number} ({entry['source']}): {gives}, {what}")
    assert not wrong, "\n".join(wrong)


def test_there_are_two_hundred_and_each_names_its_source() -> None:
    assert len(ENTRIES) >= 200
    assert all("#" in each["source"] or ".json " in each["source"] for each in ENTRIES)
    assert {each["quoted"] for each in ENTRIES} == {"verbatim", "shortened", "transcribed"}
    told = Counter(
        json.dumps({name: each.get(name) for name in ("text", "calls", "finish", "body", "stream")}) for each in ENTRIES
    )
    assert max(told.values()) <= 2, "no reply is there three times"
