"""The session at OpenAI: the room's promises over the wire, what the API makes of items, and what may go wrong."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from copy import deepcopy
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI
from openai.types.conversations import ConversationItem
from pydantic import TypeAdapter

from keyturn import (
    Agent,
    Conflict,
    ModelBehaviorError,
    OpenAIConversationsSession,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    SessionSettings,
    UserError,
    set_default_openai_client,
)
from keyturn.core.items import Item
from keyturn.models.openai.defaults import OPENAI
from keyturn.sessions import conversations
from keyturn.sessions.history import orphan_calls
from keyturn.testing import SessionSuite, reasoning
from keyturn.testing.loopback.server import Fault
from tests.playing import (
    Run,
    World,
    approved,
    call,
    model,
    outputs,
    shape,
    user,
)
from tests.sessions.conversations_server import NAMED, ConversationsServer

NOW = {"retry-after": "0"}


def answered(text: str, **more: Any) -> Item:
    parts = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "role": "assistant", "status": "completed", "content": parts, **more}


class TestConversation(SessionSuite):
    shared = True

    @pytest.fixture(autouse=True)
    async def use_server(self) -> AsyncIterator[None]:
        async with ConversationsServer() as self.server, client_of(self.server) as self.client:
            yield

    def make_session(self, session_id: str) -> OpenAIConversationsSession:
        self.server.kept.setdefault(session_id, [])
        return OpenAIConversationsSession(session_id, openai_client=self.client)

    async def test_editing_a_dict_does_not_edit_the_past(self) -> None:
        """With two parts: a list of one text is to the API the same as that text, and comes back as the text."""
        session = self.open()
        one = {"type": "input_text", "text": "hello"}
        item, batch = user("") | {"content": [one, {"type": "input_text", "text": "you"}]}, list[Item]()
        batch.append(item)
        original = deepcopy(item)
        await session.add_items(batch)
        one["text"] = "goodbye"
        assert await session.get_items() == [original]
        (await session.get_items())[0]["content"].clear()
        assert await session.get_items() == [original]
        await session.add_items([user("") | {"content": [one]}])
        assert await session.get_items(1) == [user("goodbye")]

    async def test_odd_text_comes_back_as_it_was(self) -> None:
        """In values only: the API has its own names for fields and takes no others."""
        session = self.open()
        odd = [
            "nul \x00, bell \x07",
            "\u2028 \ufeff \uffff",
            "e\u0301 \u00e9 \u202e",
            "\U0001f469\u200d\U0001f467 中文",
            "",
        ]
        items = [user(text) for text in odd]
        await session.add_items(items)
        assert await session.get_items() == items

    async def test_values_keep_their_types(self) -> None:
        """Where the API takes any value: in the schema of a tool."""
        session = self.open()
        values: list[Any] = [None, True, 0, 1, -1, 2**53 - 1, 0.1, 1e300, "1", "", [], {}, [[{"a": [None]}]]]
        tools = [{"name": "t", "input_schema": {"enum": values}, "annotations": None, "description": None}]
        item: Item = {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "s", "tools": tools, "error": None}
        await session.add_items([item])
        [kept] = await session.get_items()
        assert kept == item
        found = kept["tools"][0]["input_schema"]["enum"]
        assert [type(value) for value in found] == [type(value) for value in values]


def client_of(server: ConversationsServer, **options: Any) -> AsyncOpenAI:
    return AsyncOpenAI(api_key="k", base_url=server.base_url, **options)


@pytest.fixture
async def server() -> AsyncIterator[ConversationsServer]:
    async with ConversationsServer() as running:
        yield running


@pytest.fixture
async def client(server: ConversationsServer) -> AsyncIterator[AsyncOpenAI]:
    async with client_of(server) as made:
        yield made


@pytest.fixture
def session(client: AsyncOpenAI) -> OpenAIConversationsSession:
    return OpenAIConversationsSession(openai_client=client)


# The conversation


async def test_a_conversation_begins_with_its_first_item(
    server: ConversationsServer, session: OpenAIConversationsSession, client: AsyncOpenAI
) -> None:
    assert session.session_id == ""
    assert await session.get_items() == []
    assert await session.pop_item() is None
    await session.clear_session()
    await session.add_items([])
    assert server.requests == []
    await asyncio.gather(*(session.add_items([user(str(number))]) for number in range(4)))
    assert session.session_id == "conv_1"
    assert list(server.kept) == ["conv_1"]
    again = OpenAIConversationsSession(session.session_id, openai_client=client)
    assert len(await again.get_items()) == 4


async def test_a_program_that_asks_for_the_id_gets_one_conversation(
    server: ConversationsServer, session: OpenAIConversationsSession
) -> None:
    asked = await asyncio.gather(*(session._get_session_id() for _ in range(3)))
    assert asked == ["conv_1"] * 3
    assert (session.session_id, list(server.kept)) == ("conv_1", ["conv_1"])
    await session.add_items([user("1")])
    assert await session._get_session_id() == "conv_1"


async def test_clearing_deletes_the_conversation(
    server: ConversationsServer, session: OpenAIConversationsSession
) -> None:
    await session.add_items([user("1")])
    gone = session.session_id
    await session.clear_session()
    assert (session.session_id, await session.get_items(), server.kept) == ("", [], {})
    await session.add_items([user("2")])
    assert session.session_id not in ("", gone)


async def test_an_unknown_conversation_is_the_providers_error(client: AsyncOpenAI) -> None:
    session = OpenAIConversationsSession("conv_nobody", openai_client=client)
    for use in (session.get_items(), session.add_items([user("1")]), session.pop_item(), session.clear_session()):
        with pytest.raises(openai.NotFoundError):
            await use


def test_what_is_given_is_checked() -> None:
    with pytest.raises(UserError, match="empty"):
        OpenAIConversationsSession("")


async def test_settings_say_how_much_is_read_unless_the_reader_does(client: AsyncOpenAI) -> None:
    session = OpenAIConversationsSession(openai_client=client, session_settings=SessionSettings(limit=1))
    await session.add_items([user("1"), user("2")])
    assert await session.get_items() == [user("2")]
    assert await session.get_items(2) == [user("1"), user("2")]
    with pytest.raises(UserError, match="0 or more"):
        await session.get_items(-1)


# Pages and batches


async def test_long_conversations_are_read_and_written_in_parts(
    server: ConversationsServer, session: OpenAIConversationsSession
) -> None:
    items = [user(str(number)) for number in range(245)]
    await session.add_items(items)
    sizes = [len(request.json["items"]) for request in server.requests if request.path.endswith("/items")]
    assert sizes == [20] * 12 + [5]
    assert await session.get_items() == items
    for limit in (1, 99, 100, 101, 245, 246):
        assert await session.get_items(limit) == items[-limit:]
    server.requests.clear()
    await session.get_items(120)
    assert [request.query.count("limit=100") for request in server.requests] == [1, 0]


async def test_a_long_batch_that_is_refused_is_taken_back(
    server: ConversationsServer, session: OpenAIConversationsSession
) -> None:
    await session.add_items([user("before")])
    with pytest.raises(openai.BadRequestError, match="Unknown parameter"):
        await session.add_items([*(user(str(number)) for number in range(50)), {**user("50"), "odd": 1}])
    assert await session.get_items() == [user("before")]


async def test_a_long_batch_whose_line_broke_is_left_as_far_as_it_came(
    server: ConversationsServer, session: OpenAIConversationsSession
) -> None:
    """Its reader finds the beginning of what it wrote, and goes on from there; a hole it could not read."""
    server.faults += [None, Fault(events=0)]
    with pytest.raises(openai.APIConnectionError):
        await session.add_items([user(str(number)) for number in range(50)])
    assert await session.get_items() == [user(str(number)) for number in range(40)]


# Once, and only once


async def test_a_write_whose_answer_was_lost_is_not_sent_again(
    server: ConversationsServer, session: OpenAIConversationsSession
) -> None:
    await session.add_items([user("1")])
    for spoilt in (Fault(events=0), Fault(body=b"<html>")):
        server.faults.append(spoilt)
        with pytest.raises((openai.APIConnectionError, ModelBehaviorError)):
            await session.add_items([user("2")])
    assert await session.get_items() == [user("1"), user("2"), user("2")]
    server.faults.append(Fault(status=500, headers=NOW))
    with pytest.raises(openai.InternalServerError):
        await session.add_items([user("3")])
    assert len(await session.get_items()) == 3


async def test_a_write_that_surely_was_not_done_is_tried_again(
    server: ConversationsServer, session: OpenAIConversationsSession
) -> None:
    server.faults += [Fault(status=429, headers=NOW), Fault(status=429, headers=NOW)]
    await session.add_items([user("1")])
    assert await session.get_items() == [user("1")]
    server.faults += [Fault(status=429, headers=NOW)] * 3
    with pytest.raises(openai.RateLimitError):
        await session.add_items([user("2")])
    assert await session.get_items() == [user("1")]


@pytest.mark.parametrize("text", [float("nan"), object()])
async def test_what_has_no_json_form_is_refused_before_anything_is_sent(
    server: ConversationsServer, session: OpenAIConversationsSession, text: Any
) -> None:
    with pytest.raises(UserError, match="item 1 of the batch"):
        await session.add_items([user("good"), user(text)])
    assert server.requests == []


async def test_half_a_character_does_not_lose_the_batch(session: OpenAIConversationsSession) -> None:
    whole = user("\U0001f511 and \\udce9 as six letters")
    await session.add_items([user("caf\udce9.txt"), whole])
    assert await session.get_items() == [user("caf?.txt"), whole]


# What the API makes of items


async def test_ids_and_fields_of_the_provider_do_not_come_back(
    server: ConversationsServer, session: OpenAIConversationsSession
) -> None:
    items: list[Item] = [
        user("hi"),
        {"role": "developer", "content": "be kind"},
        {"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]},
        {
            "role": "user",
            "content": [{"type": "input_image", "image_url": "data:image/png;base64,AA", "detail": "low"}],
        },
        answered("hello"),
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"},
        {"type": "function_call", "call_id": "c1", "name": "pay", "arguments": "{}", "status": "completed"},
        {"type": "function_call_output", "call_id": "c1", "output": "paid"},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": "done"},
        {"type": "shell_call_output", "call_id": "c3", "output": []},
        {"type": "apply_patch_call_output", "call_id": "c4", "status": "failed", "output": "no"},
        {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "s", "name": "pay", "arguments": "{}"},
        {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": False, "reason": "no"},
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}},
    ]
    await session.add_items(items)
    found = await session.get_items()
    # The API says of each item that it is complete, which of those is also what a provider says.
    assert [{**item, "status": None} for item in found] == [{**item, "status": None} for item in items]
    assert [item for item in found if item.get("type") == "function_call_output"] == [items[7]]
    for kept in server.kept[session.session_id]:
        assert kept["id"]
        TypeAdapter(ConversationItem).validate_python(kept)


async def test_ids_of_another_response_are_not_sent(session: OpenAIConversationsSession) -> None:
    """The API refuses, or worse finds, an id that it gave to something else."""
    items = [answered("hello", id="msg_1"), {**call("pay", "c1"), "id": "fc_1", "created_by": "me"}]
    await session.add_items(items)
    assert shape(await session.get_items()) == ["assistant", "call c1"]


async def test_what_others_keep_in_items_is_left_out(session: OpenAIConversationsSession) -> None:
    sealed = {"anthropic": {"signature": "s"}}
    items: list[Item] = [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}], "provider_data": sealed},
        {"type": "reasoning", "id": "__fake_id__", "summary": []},
        {**call("pay", "c1"), "provider_data": sealed},
        answered("hello", id="__fake_id__"),
    ]
    await session.add_items(items)
    assert shape(await session.get_items()) == ["call c1", "assistant"]
    await session.add_items(items[:2])
    assert len(await session.get_items()) == 2


def test_the_items_that_need_their_id_are_those_of_the_official_types() -> None:
    assert conversations._NAMED == NAMED


async def test_an_item_of_a_kind_that_nobody_knows_is_read(
    server: ConversationsServer, session: OpenAIConversationsSession
) -> None:
    await session.add_items([user("1")])
    new: Item = {"id": "new_1", "type": "telepathy_call", "waves": [1, {"deep": None}], "status": None}
    server.kept[session.session_id].append(new)
    assert (await session.get_items())[1] == {"type": "telepathy_call", "waves": [1, {"deep": None}]}
    assert (await session.pop_item() or {})["waves"] == [1, {"deep": None}]


@pytest.mark.each
@pytest.mark.parametrize("answer", [b"<html>", b"[]", b"\xff", b"{}", b'{"data": [1]}'])
async def test_nonsense_is_an_error_of_ours(server: ConversationsServer, answer: bytes) -> None:
    client = client_of(server, max_retries=0)
    session = OpenAIConversationsSession("conv_9", openai_client=client)
    server.kept["conv_9"] = []
    server.faults.append(Fault(body=answer))
    with pytest.raises(ModelBehaviorError, match="Conversations API's answer"):
        await session.add_items([user("1")])
    await client.close()


async def test_a_server_that_knows_no_pages_is_not_asked_for_ever(
    client: AsyncOpenAI, server: ConversationsServer
) -> None:
    session = OpenAIConversationsSession(openai_client=client)
    await session.add_items([user(str(number)) for number in range(150)])
    server.paged = False
    with pytest.raises(ModelBehaviorError, match="same page"):
        await session.get_items()


# Clients


async def test_the_process_has_a_default_client(server: ConversationsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OPENAI, "client", None)
    session = OpenAIConversationsSession()
    async with client_of(server) as client:
        set_default_openai_client(client)
        await session.add_items([user("1")])
    assert session.session_id == "conv_1"


async def test_a_client_is_made_of_the_environment(
    server: ConversationsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OPENAI, "client", None)
    monkeypatch.setattr(OPENAI, "key", None)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    session = OpenAIConversationsSession()
    with pytest.raises(UserError, match="OPENAI_API_KEY"):
        await session.add_items([user("1")])
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
    await session.add_items([user("1")])
    assert await session.get_items() == [user("1")]
    await session.close()


async def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OPENAI, "client", None)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-a-key")
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(UserError, match=r"pip install 'keyturn\[openai\]'"):
        await OpenAIConversationsSession("conv_1").get_items()


# Runs


def asking(world: World, answers: Any) -> Agent[Any]:
    return Agent("a", model=answers, tools=[world.tool("ask", needs_approval=True), world.tool("free")])


async def test_a_run_pauses_and_goes_on_in_another_process(world: World, run: Run, client: AsyncOpenAI) -> None:
    calls = [reasoning("hm", item_id="rs_7"), call("ask", "c1", x=7), call("free", "c2")]
    agent = asking(world, model("hello", calls, "done", "bye"))
    session = OpenAIConversationsSession(openai_client=client)
    await run(agent, "hi", session=session)
    result = await run(agent, "go", session=session)

    def reopened() -> OpenAIConversationsSession:
        return OpenAIConversationsSession(session.session_id, openai_client=client)

    paused = ["user", "assistant", "user", "reasoning", "call c1", "call c2", "output c2"]
    assert shape(await reopened().get_items()) == paused
    result = await run(agent, await approved(result, agent, saved=True), session=reopened())
    assert (result.final_output, sorted(world.done)) == ("done", ["ask(7)", "free(0)"])
    items = await reopened().get_items()
    assert shape(items) == [*paused, "output c1", "assistant"]
    assert orphan_calls(items) == []
    await run(agent, "thanks", session=reopened())
    assert shape(await reopened().get_items())[-2:] == ["user", "assistant"]


async def test_the_history_of_a_conversation_is_one_that_the_responses_api_takes(
    world: World, run: Run, server: ConversationsServer, client: AsyncOpenAI
) -> None:
    """Both at one server, which refuses fields that it does not know and calls without their outputs."""
    server.replies += ["hello", [reasoning(encrypted_content="gAAA"), call("ask", "c1", x=7)], "done", "bye"]
    agent = asking(world, OpenAIResponsesModel("gpt-5.6-luna", client))
    session = OpenAIConversationsSession(openai_client=client)
    await run(agent, "hi", session=session)
    result = await run(agent, "go", session=session)
    result = await run(agent, await approved(result, agent, saved=True), session=session)
    await run(agent, "thanks", session=session)
    sent = [request.json["input"] for request in server.requests if request.path == "/v1/responses"]
    conversation = ["user", "assistant", "user", "reasoning", "call c1", "output c1", "assistant", "user"]
    assert [shape(items) for items in sent] == [conversation[:count] for count in (1, 3, 6, 8)]
    assert sent[-1][3]["encrypted_content"] == "gAAA"
    assert world.done == ["ask(7)"]


async def test_a_new_message_supersedes_the_pause(world: World, run: Run, client: AsyncOpenAI) -> None:
    agent = asking(world, model([call("ask", "c1")], [call("ask", "c2", x=2)], "done"))
    session = OpenAIConversationsSession(openai_client=client)
    first = await run(agent, "pay", session=session)
    with pytest.raises(Conflict, match="requires a decision"):
        await run(agent, "hello?", session=session, run_config=RunConfig(paused_session="refuse"))
    second = await run(agent, "pay that instead", session=session)
    with pytest.raises(Conflict):
        await run(agent, await approved(first, agent, saved=True), session=session)
    await run(agent, await approved(second, agent, saved=True), session=session)
    assert world.done == ["ask(2)"]
    assert outputs(await session.get_items()) == {
        "c1": "no result: the user moved on. If the call still waited for approval, it is not executed.",
        "c2": "ask(2)",
    }


@pytest.mark.parametrize("how", [Fault(status=500, headers=NOW), Fault(events=0)], ids=["refused", "lost"])
async def test_a_failed_append_never_repeats_the_tool(
    world: World, run: Run, server: ConversationsServer, client: AsyncOpenAI, how: Fault
) -> None:
    agent = asking(world, model([call("ask", "c1")], "done"))
    session = OpenAIConversationsSession(openai_client=client)
    state = await approved(await run(agent, "go", session=session), agent, saved=True)
    server.faults.append(how)
    with pytest.raises(openai.APIError) as raised:
        await run(agent, state, session=session)
    failed: Any = raised.value
    result = await run(agent, failed.run_data.to_state(), session=session)
    assert (result.final_output, world.done) == ("done", ["ask(0)"])
    assert shape(await session.get_items()) == ["user", "call c1", "output c1", "assistant"]


FORMS: dict[str, list[Item]] = {
    "a part": [{"role": "user", "content": [{"type": "input_text", "text": "go"}]}],
    "two parts": [{"role": "user", "content": [{"type": "input_text", "text": text} for text in ("go", "on")]}],
    "a message": [{"type": "message", "role": "user", "content": "go"}],
    "an answer": [user("hi"), {"role": "assistant", "content": "hello"}, user("go")],
    "half a character": [user("caf\udce9")],
    "thoughts of another": [user("hi"), {"type": "reasoning", "summary": []}, answered("hello"), user("go")],
}


@pytest.mark.parametrize("form", FORMS)
async def test_input_of_every_form_is_found_again(world: World, run: Run, client: AsyncOpenAI, form: str) -> None:
    agent = asking(world, model([call("ask", "c1")], "done", "bye"))
    session = OpenAIConversationsSession(openai_client=client)
    result = await run(agent, FORMS[form], session=session)
    result = await run(agent, await approved(result, agent, saved=True), session=session)
    assert (result.final_output, world.done) == ("done", ["ask(0)"])
    assert shape(await session.get_items())[-3:] == ["call c1", "output c1", "assistant"]


@pytest.mark.parametrize("form", FORMS)
async def test_input_of_every_form_is_written_once_whatever_happens(
    world: World, run: Run, server: ConversationsServer, client: AsyncOpenAI, form: str
) -> None:
    """Both of its writes are done, and neither of their answers comes."""
    agent = asking(world, model([call("ask", "c1")], "done"))
    session = OpenAIConversationsSession(openai_client=client)
    server.faults.append(Fault(events=0))
    with pytest.raises(openai.APIConnectionError) as raised:
        await run(agent, FORMS[form], session=session)
    failed: Any = raised.value
    paused = await run(agent, failed.run_data.to_state(), session=session)
    server.faults.append(Fault(events=0))
    with pytest.raises(openai.APIConnectionError) as raised:
        await run(agent, await approved(paused, agent, saved=True), session=session)
    failed = raised.value
    result = await run(agent, failed.run_data.to_state(), session=session)
    assert (result.final_output, world.done) == ("done", ["ask(0)"])
    kept = [item for item in FORMS[form] if item.get("type") != "reasoning"]
    assert shape(await session.get_items()) == [*shape(kept), "call c1", "output c1", "assistant"]


def test_one_session_serves_one_loop_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OPENAI, "client", None)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    with ConversationsServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        session = OpenAIConversationsSession()
        agent = Agent("a", model=model("one", "two"))

        async def say(text: str) -> list[Item]:
            await Runner.run(agent, text, session=session)
            items = await session.get_items()
            await session.close()
            return items

        assert shape(asyncio.run(say("hi"))) == ["user", "assistant"]
        assert shape(asyncio.run(say("ho"))) == ["user", "assistant", "user", "assistant"]
