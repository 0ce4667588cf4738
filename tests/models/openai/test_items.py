"""Items of the Responses API come and go without loss: each type that the SDK has, and what nobody has yet."""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

from openai.types.responses import ResponseOutputItem
from openai.types.responses.response_input_item_param import ResponseInputItemParam
from pydantic import TypeAdapter

from keyturn import Agent, Runner
from keyturn.models.openai.request import sent_items
from keyturn.models.scripted.items import assistant_message
from keyturn.models.scripted.script import ModelStep
from keyturn.testing.loopback.responses import ResponsesServer, response_body
from keyturn.testing.loopback.server import HttpReply, HttpRequest
from tests.models.openai.items import KNOWN, SEALED, UNKNOWN
from tests.models.openai.serving import ask, bodies, served
from tests.playing import approved, play
from tests.table import each


def told(items: list[dict[str, Any]]) -> Any:
    """A step that gives these items exactly, as they would come."""

    def reply(request: HttpRequest) -> HttpReply:
        from keyturn.models.base import ModelResponse, Usage

        whole = response_body(ModelResponse(list(items), Usage(), "resp_1"), request.json)
        if not request.json.get("stream"):
            return HttpReply.json(whole)
        return HttpReply.stream([{"type": "response.completed", "sequence_number": 0, "response": whole}], named=True)

    return reply


def test_the_table_has_every_type_of_the_sdk() -> None:
    types = {get_args(kind.model_fields["type"].annotation)[0] for kind in get_args(get_args(ResponseOutputItem)[0])}
    assert {item["type"] for item in KNOWN} == types
    adapter: TypeAdapter[Any] = TypeAdapter(ResponseOutputItem)
    for item in KNOWN:
        assert adapter.validate_python(item).type == item["type"]


@each("item", [*KNOWN, *UNKNOWN], ids=lambda item: item["type"])
async def test_an_item_is_kept_as_it_came(item: dict[str, Any], streamed: bool, recwarn: Any) -> None:
    async with served(ResponsesServer([told([item])])) as model:
        reply = await ask(model, streamed=streamed)
    assert [dict(kept) for kept in reply.output] == [item]
    assert reply.to_input_items() == [item]
    assert not recwarn.list


async def test_a_whole_reply_of_everything(streamed: bool) -> None:
    async with served(ResponsesServer([told([*KNOWN, *UNKNOWN])])) as model:
        reply = await ask(model, streamed=streamed)
    assert reply.output == [*KNOWN, *UNKNOWN]


def not_taken() -> dict[str, set[str]]:
    """For each type, the fields that the SDK has in what comes and not in what goes."""
    goes: dict[str, set[str]] = {}
    for kind in get_args(ResponseInputItemParam):
        hints = get_type_hints(kind)
        for name in literals(hints.get("type")):
            goes.setdefault(name, set()).update(hints)
    comes = [(kind, kind.model_fields) for kind in get_args(get_args(ResponseOutputItem)[0])]
    aliased = {
        get_args(found["type"].annotation)[0]: {field.alias or name for name, field in found.items()}
        for _, found in comes
    }
    return {name: found - goes[name] for name, found in aliased.items() if found - goes[name]}


def literals(hint: Any) -> list[str]:
    return [hint] if isinstance(hint, str) else [name for part in get_args(hint) for name in literals(part)]


def test_only_what_the_api_does_not_take_is_left_out() -> None:
    refused = not_taken()
    for item in KNOWN:
        [sent] = sent_items([item])
        assert item.keys() - sent.keys() == refused.get(item["type"], set()) & item.keys()
        assert "created_by" not in str(sent)
        assert {**sent, "output": 0} == {**{name: item[name] for name in sent}, "output": 0}


def test_what_is_sent_unchanged_is_not_copied() -> None:
    item = {"role": "user", "content": "hi"}
    assert sent_items([item])[0] is item


def test_what_other_providers_keep_on_items_stays_here() -> None:
    thought = {"type": "reasoning", "summary": [], "provider_data": {"anthropic": {"signature": "s"}}}
    call = {"type": "function_call", "call_id": "c", "name": "n", "arguments": "{}", "provider_data": {"google": {}}}
    faked = {"type": "message", "id": "__fake_id__", "role": "assistant", "content": []}
    plain = [
        {key: value for key, value in item.items() if key not in ("provider_data", "id")} for item in (call, faked)
    ]
    assert sent_items([thought, call, {**thought, "id": "__fake_id__"}, faked]) == plain


async def test_calls_that_the_provider_answered_itself_wait_for_nobody(streamed: bool) -> None:
    """A shell in the provider's container, a search of tools on its server: the results stand in the same reply."""
    answered = [item for item in KNOWN if item["type"] not in ASKING]
    async with served(ResponsesServer([told([*answered, assistant_message("done", item_id="msg_b")])])) as model:
        agent = Agent("a", model=model)
        result = await play(agent, "go", streamed)
    assert result.interruptions == []
    assert result.final_output == "done"


# Of these there is an item in the table that asks somebody here.
ASKING = ("local_shell_call", "local_shell_call_output", "mcp_approval_request", "mcp_approval_response")


async def to_done(agent: Agent[Any], result: Any) -> Any:
    """Save, forget, load, approve, and go on."""
    return await Runner.run(agent, await approved(result, agent, saved=True))


async def test_sealed_reasoning_survives_a_pause_byte_for_byte(payer: Any) -> None:
    thought = {"type": "reasoning", "id": "rs_a", "summary": [], "encrypted_content": SEALED}
    call = {"type": "function_call", "id": "fc_a", "call_id": "c1", "name": "pay", "arguments": '{"to":"ada"}'}
    server = ResponsesServer([ModelStep([thought, call]), "done"])
    async with served(server) as model:
        agent = Agent("a", model=model, tools=[payer])
        result = await to_done(agent, await Runner.run(agent, "go"))
    assert result.final_output == "done"
    sent = bodies(server)[1]["input"]
    assert sent[1] == thought
    assert SEALED.encode() in server.requests[1].body
