"""Hosted MCP keeps the room's promises: a request waits, and its answer is an item that the next question carries."""

from __future__ import annotations

from typing import Any

import openai
import pytest
from openai.types.responses.response_create_params import ResponseCreateParams
from pydantic import TypeAdapter

from keyturn import (
    Agent,
    App,
    Approval,
    Conflict,
    HostedMCPTool,
    MCPApprovalRequestItem,
    MCPApprovalResponseItem,
    MemoryJournal,
    MemorySession,
    ModelBehaviorError,
    Policy,
    Rule,
    RunConfig,
    Runner,
    Text,
    UserError,
    function_tool,
    handoff,
)
from keyturn.core.items import Item
from keyturn.testing import ModelStep, ScriptedModel, ToolSuite, assistant_message, function_call
from keyturn.testing.crash import Effects
from keyturn.testing.loopback.responses import ResponsesServer
from tests.models.openai.serving import served
from tests.playing import approved, play, through_text
from tests.table import each
from tests.tools.wire import bodies, decided

pytestmark = pytest.mark.usefixtures("own_key")

CHECK: TypeAdapter[Any] = TypeAdapter(ResponseCreateParams)
REFUSED = "Tool execution was not approved."


def server_of(label: str = "files", on_approval_request: Any = None, **config: Any) -> HostedMCPTool:
    given = {"type": "mcp", "server_label": label, "server_url": f"https://{label}.example.com/mcp", **config}
    return HostedMCPTool(given, on_approval_request)


def asks(label: str, arguments: str = '{"path": "a"}', *, name: str = "read", server: str = "files") -> Item:
    return {
        "type": "mcp_approval_request",
        "id": label,
        "server_label": server,
        "name": name,
        "arguments": arguments,
    }


def response(label: str, approve: bool = True, reason: str | None = None) -> Item:
    made = {"type": "mcp_approval_response", "approval_request_id": label, "approve": approve}
    return made if reason is None else {**made, "reason": reason}


class TestHostedMCPTool(ToolSuite):
    """What happens here is that somebody says yes."""

    def make_tool(self, effects: Effects, **settings: Any) -> Any:
        tool = server_of()
        tool.needs_approval = settings.get("needs_approval", True)
        approve = tool.invoke

        async def recorded(context: Any, prepared: Any) -> Any:
            effects.record(context, prepared.text)
            return await approve(context, prepared)

        tool.invoke = recorded  # type: ignore[method-assign]  # it says that it acts, as the suite wants it
        return tool

    def changed_tool(self, effects: Effects) -> Any:
        tool = self.make_tool(effects)
        tool.tool_config = {**tool.tool_config, "server_url": "https://elsewhere.example.com/mcp"}
        return tool

    def call(self, label: str, variant: int = 0) -> Item:
        return asks(label, f'{{"path": "w{variant}"}}')

    def called(self) -> str:
        return "read"

    def refused(self) -> list[Item]:
        return [*super().refused(), {**self.call("bad"), "name": None}]


def agent_of(*rounds: Any, tools: Any = None, **settings: Any) -> tuple[Agent[Any], ScriptedModel]:
    model = ScriptedModel([*rounds, "done"])
    return Agent("a", model=model, tools=tools or [server_of()], **settings), model


async def test_what_people_see_of_a_request() -> None:
    agent, _ = agent_of([asks("r1")])
    result = await Runner.run(agent, "go")
    [item] = result.interruptions
    assert (item.kind, item.name, item.call_id) == ("approval", "read", "r1")
    assert (item.arguments, item.params) == ('{"path": "a"}', {"path": "a"})
    assert item.raw_item.server_label == "files"
    assert item.preview.blocks[0] == Text(
        "files (https://files.example.com/mcp), called by the provider", label="server"
    )
    assert type(result.new_items[0]) is MCPApprovalRequestItem


@pytest.mark.parametrize("arguments", [{}, {"arguments": None}, {"arguments": ""}], ids=str)
async def test_a_request_without_arguments_asks_a_person(streamed: bool, saved: bool, arguments: Item) -> None:
    request = {"type": "mcp_approval_request", "id": "r1", "server_label": "files", "name": "list", **arguments}
    agent, model = agent_of([request])
    result = await play(agent, "go", streamed)
    assert [(item.name, item.arguments, item.params) for item in result.interruptions] == [("list", "{}", {})]
    result = await play(agent, await approved(result, agent, saved), streamed)
    assert (result.final_output, model.calls[-1].input[-1]) == ("done", response("r1"))


@pytest.mark.parametrize("arguments", [{"path": "a"}, ["a"], 5, "[]", "null", "not JSON"], ids=str)
async def test_a_request_whose_arguments_cannot_be_shown_is_not_approved(streamed: bool, arguments: Any) -> None:
    agent, model = agent_of([asks("r1", arguments)])
    result = await play(agent, "go", streamed)
    assert (result.interruptions, result.final_output) == ([], "done")
    assert model.calls[-1].input[-1]["approve"] is False


@pytest.mark.parametrize("kept", [None, "previous", "auto", "conversation"])
async def test_requests_of_one_reply_are_decided_one_by_one(streamed: bool, kept: str | None) -> None:
    """Two servers and a function in one reply. The exact requests; where the server keeps the conversation, only what
    it has not seen."""

    @function_tool(needs_approval=True)
    def pay(to: str) -> str:
        """Pay somebody."""
        return f"paid {to}"

    calls = [
        asks("mcpr_1"),
        function_call("pay", {"to": "ada"}, call_id="c1", item_id="fc_1"),
        asks("mcpr_2", '{"path": "b"}', name="write"),
        asks("mcpr_3", "{}", server="mail"),
    ]
    ran = {"type": "mcp_call", "id": "mcp_9", "server_label": "files", "name": "read", "arguments": "{}", "output": "x"}
    server = ResponsesServer(
        [ModelStep(calls, response_id="resp_1"), ModelStep([ran, assistant_message("done")], response_id="resp_2")]
    )
    server.stored["resp_0"] = []
    options: Any = {
        None: {},
        "previous": {"previous_response_id": "resp_0"},
        "auto": {"auto_previous_response_id": True},
        "conversation": {"conversation_id": "conv_1"},
    }[kept]
    async with served(server) as model:
        agent = Agent("a", model=model, tools=[server_of(), server_of("mail", require_approval="always"), pay])
        result = await play(agent, "go", streamed, **options)
        assert [item.call_id for item in result.interruptions] == ["mcpr_1", "c1", "mcpr_2", "mcpr_3"]
        for label in ("mcpr_3", "c1", "mcpr_1"):
            state = await through_text(agent, result)
            state.approve(next(item for item in state.get_interruptions() if item.call_id == label))
            result = await play(agent, state, streamed)
        [last] = result.interruptions
        assert len(server.requests) == 1, "the model waits for all of them"
        state = await through_text(agent, result)
        state.reject(last, rejection_message="not this file")
        result = await play(agent, state, streamed)
    assert result.final_output == "done"
    first, second = bodies(server)
    CHECK.validate_python(first)
    CHECK.validate_python(second)
    assert first["tools"][1] == {
        "type": "mcp",
        "server_label": "mail",
        "server_url": "https://mail.example.com/mcp",
        "require_approval": "always",
    }
    told = [
        response("mcpr_1"),
        {"type": "function_call_output", "call_id": "c1", "output": "paid ada"},
        response("mcpr_2", False, "not this file"),
        response("mcpr_3"),
    ]
    before = [{"role": "user", "content": "go"}, calls[0], {**calls[1], "status": "completed"}, *calls[2:]]
    assert second["input"] == (told if kept else [*before, *told])
    assert result.to_input_list()[-6:-2] == told, "in the order of the requests, whatever the order of the decisions"


class Beside:
    """A request of a server beside a call that waits for somebody else, on a clock that is set by hand."""

    def __init__(self) -> None:
        @function_tool(needs_approval=True)
        def pay(to: str) -> str:
            return f"paid {to}"

        calls = [asks("r1"), function_call("pay", {"to": "ada"}, call_id="c1")]
        self.time, self.model = [1_000_000], ScriptedModel([calls, "done"])
        self.server, self.pay = server_of(), pay
        self.server.approval = Approval(execute_by="10m")
        self.agent = Agent("desk", model=self.model, tools=[self.server, pay])
        self.app = App([self.agent], MemoryJournal(lambda: self.time[0]), Policy(Rule("ask")))

    async def approve(self, tool: str) -> Any:
        [request] = [row for row in await self.app.inbox.list() if row.request.tool == tool]
        await self.app.inbox.approve(request, by="ann")
        [run] = await self.app.runs()
        await self.app.run(run.run).wait(20)
        return request

    async def denied(self, _request: Any) -> None:
        self.app.policy = Policy(Rule("deny", kind="hosted_mcp", reason="not today"), Rule("ask"))

    async def moved(self, _request: Any) -> None:
        self.server.tool_config = {**self.server.tool_config, "server_url": "https://eve.example.com/mcp"}

    async def too_late(self, _request: Any) -> None:
        self.time[0] += 3_600_000

    async def withdrawn(self, request: Any) -> None:
        await self.app.inbox.withdraw(request, by="ann")


@pytest.mark.parametrize("then", ["denied", "moved", "too_late", "withdrawn"])
async def test_an_approval_is_sent_as_it_is_when_the_provider_reads_it(then: str) -> None:
    """It acts with the next question to the model, which a call beside it may hold back for weeks."""
    world = Beside()
    async with world.app as app:
        await (await app.start("desk", "go")).wait(20)
        request = await world.approve("read")
        await getattr(world, then)(request)
        await world.approve("pay")
        waits = [row.request.tool for row in await app.inbox.list()]
    if then == "denied":
        assert response("r1", False, "not today") in world.model.calls[-1].input
    else:
        assert (len(world.model.calls), waits) == (1, ["read"])


async def test_a_request_beside_a_handoff_asks_nobody_since_another_agent_would_send_the_answer() -> None:
    other = Agent("other", model=ScriptedModel(["hello"]))
    calls = [asks("r1"), function_call("over", {}, call_id="h1"), asks("r2")]
    model = ScriptedModel([calls, "stayed"])
    agent = Agent("desk", model=model, tools=[server_of()], handoffs=[handoff(other, tool_name_override="over")])
    done = await Runner.run(agent, "go")
    assert (done.final_output, done.last_agent.name, done.interruptions) == ("hello", "other", [])
    words = "Not sent, and not executed: the same reply hands the conversation over to another agent. "
    answers = [item for item in done.to_input_list() if item.get("type") == "mcp_approval_response"]
    assert answers == [response(label, False, words + "Make the request alone.") for label in ("r1", "r2")]


async def test_the_names_of_items_and_stream_events() -> None:
    agent, _ = agent_of([asks("r1")])
    names = []
    stream = Runner.run_streamed(agent, "go")
    async for event in stream.stream_events():
        names += [event.name] if event.type == "run_item_stream_event" else []
    state = stream.to_state()
    state.approve(stream.interruptions[0])
    stream = Runner.run_streamed(agent, state)
    async for event in stream.stream_events():
        names += [event.name] if event.type == "run_item_stream_event" else []
    assert names == ["mcp_approval_requested", "mcp_approval_response", "message_output_created"]
    request, _, answer, _ = stream.new_items
    assert (type(request), type(answer)) == (MCPApprovalRequestItem, MCPApprovalResponseItem)
    assert (answer.raw_item.approve, answer.call_id) == (True, "r1")


ANSWERS = [
    ({"approve": True}, response("r1")),
    ({"approve": False, "reason": "no"}, response("r1", False, "no")),
    ({"approve": False, "reason": ""}, response("r1", False, REFUSED)),
    ({"approve": False}, response("r1", False, REFUSED)),
    *[(wrong, None) for wrong in ({"approve": 1}, {"approve": "True"}, {}, True, None)],
]


@pytest.mark.parametrize(("answer", "sent"), ANSWERS)
@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_callback_decides_in_line(answer: Any, sent: Any, asynchronous: bool) -> None:
    asked: list[Any] = []

    def decide(request: Any) -> Any:
        asked.append((request.data.name, request.data.id, request.data["server_label"], request.ctx_wrapper.context))

        async def later() -> Any:
            return answer

        return later() if asynchronous else answer

    agent, model = agent_of([asks("r1")], tools=[server_of(on_approval_request=decide)])
    result = await Runner.run(agent, "go", context="mine")
    assert asked == [("read", "r1", "files", "mine")]
    assert bool(result.interruptions) is (sent is None)
    if sent is not None:
        assert model.calls[1].input[-1] == sent


async def test_nobody_can_answer_for_it_or_edit_it() -> None:
    agent, model = agent_of([asks("r1")])
    state = (await Runner.run(agent, "go")).to_state()
    [item] = state.get_interruptions()
    with pytest.raises(UserError, match="'read' runs elsewhere"):
        state.answer(item, {"approve": True})
    with pytest.raises(UserError, match="cannot be edited"):
        state.approve(item, edit={"path": "b"})
    assert not state.undelivered.decisions
    state.reject(item)
    await Runner.run(agent, state)
    assert model.calls[1].input[-1] == response("r1", False, REFUSED)


def test_no_words_of_anybody_are_an_approval() -> None:
    tool = server_of()
    for value in (True, "True", {"approve": True}, {"type": "mcp_approval_response", "approve": True}, None):
        assert tool.output(asks("r1"), value)["approve"] is False


@pytest.mark.parametrize(
    ("second", "covered"),
    [
        (asks("r2", '{"path": "other"}'), True),
        (asks("r2", name="write"), False),
        (asks("r2", server="mail"), False),
    ],
    ids=["the same tool", "another tool", "the same name on another server"],
)
async def test_a_grant_is_for_one_tool_of_one_server(second: Item, covered: bool, streamed: bool) -> None:
    agent, model = agent_of([asks("r1")], [second], tools=[server_of(), server_of("mail")])
    state = await through_text(agent, await play(agent, "go", streamed))
    state.approve(state.get_interruptions()[0], always_approve=True)
    result = await play(agent, state, streamed)
    assert [item.call_id for item in result.interruptions] == ([] if covered else ["r2"])
    assert model.calls[1].input[-1] == response("r1")


async def test_a_standing_rejection() -> None:
    agent, model = agent_of([asks("r1")], [asks("r2")])
    state = (await Runner.run(agent, "go")).to_state()
    state.reject(state.get_interruptions()[0], always_reject=True, rejection_message="never")
    assert (await Runner.run(agent, state)).final_output == "done"
    assert model.calls[2].input[-1] == response("r2", False, "never")


async def test_a_server_that_asks_though_it_never_should_waits_all_the_same() -> None:
    agent, _ = agent_of([asks("r1")], tools=[server_of(require_approval="never")])
    assert len((await Runner.run(agent, "go")).interruptions) == 1


@pytest.mark.parametrize("tools", [[], [server_of("mail")]], ids=["no server", "another server"])
async def test_a_request_of_a_server_that_the_agent_does_not_have(tools: list[Any]) -> None:
    model = ScriptedModel([[asks("r1")]])
    with pytest.raises(ModelBehaviorError, match="'read', which agent 'a' does not have"):
        await Runner.run(Agent("a", model=model, tools=tools), "go")


async def test_two_servers_of_one_label() -> None:
    agent, _ = agent_of(tools=[server_of(), server_of()])
    with pytest.raises(UserError, match="two tools of this agent are called 'files'"):
        await Runner.run(agent, "go")


async def test_a_policy_may_deny_it() -> None:
    agent, model = agent_of([asks("r1")])
    config = RunConfig(policy=Policy(Rule("deny", kind="hosted_mcp", reason="no servers today")))
    assert (await Runner.run(agent, "go", run_config=config)).final_output == "done"
    assert model.calls[1].input[-1] == response("r1", False, "no servers today")


async def test_an_approval_is_no_result_of_a_tool() -> None:
    """So it neither ends an agent's work nor is told to hooks of tools."""
    agent, model = agent_of([asks("r1")], tool_use_behavior="stop_on_first_tool")
    state = (await Runner.run(agent, "go")).to_state()
    state.approve(state.get_interruptions()[0])
    assert (await Runner.run(agent, state)).final_output == "done"
    assert len(model.calls) == 2


async def test_a_new_message_supersedes_a_request(streamed: bool) -> None:
    session = MemorySession("s")
    server = ResponsesServer([[asks("mcpr_1")], "never mind"])
    async with served(server) as model:
        agent = Agent("a", model=model, tools=[server_of()])
        paused = await play(agent, "go", streamed, session=session)
        assert paused.interruptions
        result = await play(agent, "never mind", streamed, session=session)
        assert result.final_output == "never mind"
        assert bodies(server)[1]["input"][2] == response(
            "mcpr_1", False, "no result: the user moved on. If the call still waited for approval, it is not executed."
        )
        state = paused.to_state()
        state.approve(state.get_interruptions()[0])
        with pytest.raises(Conflict):
            await play(agent, state, streamed, session=session)


async def test_keys_are_in_no_log_and_may_change_while_a_request_waits() -> None:
    def keyed(key: str) -> HostedMCPTool:
        return server_of(authorization=key, headers={"x-key": key})

    agent, _ = agent_of([asks("r1")], tools=[keyed("hunter2")])
    text = (await Runner.run(agent, "go")).to_state().to_string()
    assert "hunter2" not in text
    agent.tools = [keyed("hunter3")]
    result = await decided(agent, False, lambda state, item: state.approve(item))
    assert result.final_output == "done"


WRONG: list[tuple[Any, str]] = [
    ({"type": "web_search"}, '"type": "mcp"'),
    ({"type": "mcp", "server_url": "https://e.com"}, "server_label"),
    ({"type": "mcp", "server_label": "x"}, "one of server_url"),
    ({"type": "mcp", "server_label": "x", "server_url": "u", "headers": {1: 2}}, "must be JSON"),
]
WRONG += [
    ({"type": "mcp", "server_label": "x", "server_url": "u", "require_approval": wrong}, told)
    for wrong, told in (
        ("Always", "require_approval must be"),
        (True, "require_approval must be"),
        ({"allways": {"tool_names": ["a"]}}, "require_approval must be"),
        ({"always": ["a"]}, "require_approval must be"),
        ({"always": {"tools": ["a"]}}, "require_approval must be"),
        ({"always": {"tool_names": "a"}}, "require_approval must be"),
        ({"always": {"tool_names": ["a"]}, "never": {"tool_names": ["a"]}}, "lists a more than once"),
    )
]


@each(("config", "told"), WRONG)
def test_a_configuration_that_means_something_else(config: Any, told: str) -> None:
    with pytest.raises(UserError, match=told):
        HostedMCPTool(config)


def test_what_a_configuration_may_be() -> None:
    filters = {"always": {"tool_names": ["write"]}, "never": {"tool_names": ["read"], "read_only": True}}
    for required in (None, "always", "never", filters, {"never": {"read_only": True}}):
        assert server_of(require_approval=required).provider_tool()["require_approval"] == required
    with pytest.raises(UserError, match="on_approval_request must be"):
        server_of(on_approval_request=True)


async def test_an_input_approves_no_call_that_did_not_run() -> None:
    """The provider would run it, and no person was asked. A conversation that is given again may hold what ran."""
    yes, ran = response("mcpr_1"), {"type": "mcp_call", "id": "c1", "server_label": "docs", "name": "read_page"}
    ran |= {"arguments": "{}", "output": "read"}
    asked = {**asks("mcpr_1"), "server_label": "docs", "name": "read_page"}
    for items in ([asked, yes], [yes], [ran, asked, yes], [asked, yes, {**ran, "name": "delete_page"}]):
        with pytest.raises(UserError, match="the input approves a call of a hosted MCP server"):
            await Runner.run(Agent("a", model=ScriptedModel(["done"])), items)
    for answer in (ran, {"role": "assistant", "content": "There is no such page."}):
        again = [asked, yes, answer, {"role": "user", "content": "and now?"}]
        assert (await Runner.run(Agent("a", model=ScriptedModel(["done"])), again)).final_output == "done"


async def test_the_loopback_server_wants_an_answer_to_each_request_and_none_besides() -> None:
    server = ResponsesServer([])
    async with served(server) as model:
        for items, told in (
            ([asks("mcpr_1")], "No approval response"),
            ([response("mcpr_1", approve=False)], "No approval request"),
        ):
            with pytest.raises(openai.BadRequestError, match=told):
                await Runner.run(Agent("a", model=model), items)
