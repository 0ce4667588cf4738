"""An approved call of a hosted MCP server acts at the provider, inside of the next question: once, and only there."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from keyturn import (
    Agent,
    App,
    HostedMCPTool,
    MemoryJournal,
    MemorySession,
    OpenAIResponsesModel,
    Policy,
    Rule,
    RunConfig,
    RunHooks,
    Runner,
    UserError,
    function_tool,
)
from keyturn.audit.checker import check
from keyturn.core.items import Item
from keyturn.deferred import FunctionToolset
from keyturn.models.fallback import FallbackModel
from keyturn.models.openai import wire
from keyturn.testing import approve_all, function_call
from keyturn.testing.loopback.responses import ResponsesServer
from keyturn.testing.loopback.wire import Fault
from tests.models.openai.serving import NOW, client_of, model_of, served
from tests.table import each

ASKS: Item = {"type": "mcp_approval_request", "id": "r1", "server_label": "bank", "name": "pay", "arguments": "{}"}
BANK = {"type": "mcp", "server_label": "bank", "server_url": "https://bank.example.com/mcp"}
EVE = {**BANK, "server_url": "https://eve.example.com/mcp"}

pytestmark = pytest.mark.usefixtures("own_key")


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test waits before a further try."""

    async def pause(_seconds: float) -> None: ...

    monkeypatch.setattr(wire, "pause", pause)


def desk(model: Any, *tools: Any, **settings: Any) -> Agent[Any]:
    return Agent("desk", model=model, tools=[HostedMCPTool(BANK), *tools], **settings)


def answers(server: Any) -> list[list[bool]]:
    """What each question says of approval requests."""
    return [
        [item["approve"] for item in request.json["input"] if item.get("type") == "mcp_approval_response"]
        for request in server.requests
    ]


def approvals(server: Any) -> int:
    """In how many questions the provider was told to run the call."""
    return sum(any(said) for said in answers(server))


UNCLEAR = {
    "status 500": Fault(status=500),
    "status 504": Fault(status=504),
    "the line dropped in the answer": Fault("Paid.", pieces=20, events=0),
    "no JSON": Fault(body=b"<html>"),
}


async def in_doubt(server: ResponsesServer, model: Any, streamed: bool = False) -> tuple[Agent[Any], Any]:
    agent = desk(model)
    state = approve_all(await Runner.run(agent, "go"))
    result: Any = Runner.run_streamed(agent, state) if streamed else await Runner.run(agent, state)
    if streamed:
        async for _ in result.stream_events():
            pass
    assert [(item.kind, item.name) for item in result.interruptions] == [("in_doubt", "pay")]
    assert "the provider may have run it" in result.interruptions[0].reason
    assert approvals(server) == 1, "nothing is sent once more by itself"
    return agent, result.to_state()


@pytest.mark.trial
@each(("name", "ran"), [(name, word) for name in UNCLEAR for word in ("ran", "did_not_run", "retry")][::2])
async def test_a_call_whose_question_failed_after_it_was_sent_is_in_doubt(name: str, ran: str) -> None:
    server = ResponsesServer([[ASKS], UNCLEAR[name], "Done."])
    async with served(server) as model:
        agent, state = await in_doubt(server, model)
        state.resolve(state.get_interruptions()[0], ran)
        assert (await Runner.run(agent, state)).final_output == "Done."
    assert answers(server)[-1] == [ran == "retry"]


async def test_a_client_of_ones_own_sends_an_approval_no_second_time() -> None:
    server = ResponsesServer([[ASKS], Fault(status=500, headers=NOW), "Done.", "Done."])
    async with server, client_of(server, max_retries=2) as client:
        await in_doubt(server, model_of(server, client))


async def test_the_next_model_of_several_is_sent_no_approval_that_the_first_may_have_acted_on() -> None:
    server = ResponsesServer([[ASKS], Fault(status=500), "Done."])
    async with server, client_of(server) as client:
        model = FallbackModel(model_of(server, client), OpenAIResponsesModel("m2", client))
        await in_doubt(server, model, streamed=True)


@pytest.mark.parametrize("status", [400, 429])
async def test_a_call_whose_question_was_refused_goes_on_without_doubt(status: int) -> None:
    server = ResponsesServer([[ASKS], *[Fault(status=status)] * (1 if status == 400 else 3), "Paid."])
    async with served(server) as model:
        agent = desk(model)
        app = App([agent], MemoryJournal())
        async with app:
            run = await app.start("desk", "go")
            await run.wait(20)
            [row] = await app.inbox.list()
            await app.inbox.approve(row, by="ann")
            assert (await run.wait(20)).status == "failed"
            await app.resume(run.id)
            assert ((await run.wait(20)).status, await app.inbox.list()) == ("finished", [])
            assert (await check(app.journal)).ok


async def test_what_was_approved_is_checked_again_before_it_is_sent_again() -> None:
    server = ResponsesServer([[ASKS], Fault(status=400), "Done."])
    async with served(server) as model:
        agent = desk(model)
        async with App([agent], MemoryJournal(), Policy(Rule("ask"))) as app:
            run = await app.start("desk", "go")
            await run.wait(20)
            await app.inbox.approve((await app.inbox.list())[0], by="ann")
            await run.wait(20)
            agent.tools[0].tool_config = EVE
            await app.resume(run.id)
            await run.wait(20)
            [row] = await app.inbox.list()
            assert "https://eve.example.com/mcp" in str(row.request.preview)
    assert (len(server.requests), approvals(server)) == (2, 1)


async def test_no_fork_sends_the_approval_that_its_run_has_sent() -> None:
    """Finding D30: three forks of the line behind the approval, and four questions that told the provider to run it."""
    server = ResponsesServer([[ASKS], "Paid.", *["Hello."] * 9])
    async with served(server) as model, App([desk(model)], MemoryJournal()) as app:
        run = await app.start("desk", "go")
        await run.wait(20)
        await app.inbox.approve((await app.inbox.list())[0], by="ann")
        await run.wait(20)
        sent = approvals(server)
        for at in range(1, 12):
            try:
                fork = await app.fork(run.id, at)
            except UserError:
                continue
            await fork.wait(20)
        assert len(server.requests) > 2, "there was something to fork"
        assert all(server.requests[place].json["input"][1:] for place, said in enumerate(answers(server)) if any(said))
        assert approvals(server) == sent, "nothing of an approval is in a fork"
        assert (await check(app.journal)).ok


async def test_an_approval_that_was_not_answered_leaves_a_rejection_in_the_session() -> None:
    """Its question failed, and the run was cancelled: the next message of the user sends nothing that runs."""
    session = MemorySession("s")
    server = ResponsesServer([[ASKS], Fault(status=400), "Hello."])
    async with served(server) as model:
        agent = desk(model)
        paused = await Runner.run(agent, "go", session=session)
        with pytest.raises(openai.BadRequestError):
            await Runner.run(agent, approve_all(paused), session=session)
        config = RunConfig(paused_session="supersede")
        assert (await Runner.run(agent, "Never mind.", session=session, run_config=config)).final_output == "Hello."
    assert answers(server) == [[], [True], [False]]


@pytest.mark.parametrize("how", ["stop_on_first_tool", "a handler"])
async def test_a_run_that_ends_before_its_approval_is_sent_leaves_a_rejection(how: str) -> None:
    @function_tool
    def weather() -> str:
        return "sunny"

    def sunny(_given: Any) -> str:
        return "sunny"

    session = MemorySession("s")
    calls = [ASKS, function_call("weather", {}, call_id="w1")]
    settings: dict[str, Any] = {"tool_use_behavior": how} if how == "stop_on_first_tool" else {}
    options: dict[str, Any] = {} if settings else {"max_turns": 1, "error_handlers": {"max_turns": sunny}}
    server = ResponsesServer([calls, "You are welcome."])
    async with served(server) as model:
        agent = desk(model, weather, **settings)
        paused = await Runner.run(agent, "go", session=session)
        done = await Runner.run(agent, approve_all(paused), session=session, **options)
        assert (done.final_output, len(server.requests)) == ("sunny", 1)
        given = [item["approve"] for item in done.to_input_list() if item.get("type") == "mcp_approval_response"]
        assert given == [False]
        await Runner.run(agent, "Thanks.", session=session)
    assert answers(server)[1] == [False]


@pytest.mark.parametrize("tools", [[HostedMCPTool(EVE)], []], ids=["a server of the same label", "no server"])
async def test_a_request_beside_a_handoff_is_not_sent_by_the_other_agent(tools: list[Any]) -> None:
    server = ResponsesServer([[ASKS, function_call("transfer_to_other", {}, call_id="h1")], "Hello."])
    async with served(server) as model:
        other = Agent("other", model=model, tools=tools)
        result = await Runner.run(desk(model, handoffs=[other]), "go")
        assert (result.final_output, result.interruptions) == ("Hello.", [])
    assert answers(server)[1] == [False]


async def test_a_filter_that_leaves_out_an_approval_is_refused() -> None:
    def shorter(data: Any) -> Any:
        data.model_data.input = [item for item in data.model_data.input if not item["type"].endswith("_response")]
        return data.model_data

    server = ResponsesServer([[ASKS]])
    async with served(server) as model:
        agent = desk(model)
        paused = await Runner.run(agent, [{"type": "message", "role": "user", "content": "go"}])
        with pytest.raises(UserError, match="call_model_input_filter left out the approval of 'pay': keep it"):
            await Runner.run(agent, approve_all(paused), run_config=RunConfig(call_model_input_filter=shorter))
    assert len(server.requests) == 1


@pytest.mark.parametrize("required", ["never", {"never": {"tool_names": ["read"]}}], ids=str)
def test_what_the_provider_runs_unasked_is_put_behind_no_gate_here(required: Any) -> None:
    """Finding D16: `approval_required()` took it, and the provider was told never to ask."""
    tool = HostedMCPTool({**BANK, "require_approval": required})
    told = "HostedMCPTool 'bank': require_approval says \"never\""
    with pytest.raises(UserError, match=told):
        FunctionToolset([tool]).approval_required().static()
    with pytest.raises(UserError, match=told):
        tool.needs_approval = True
    tools: Any = FunctionToolset([HostedMCPTool(BANK)]).approval_required().static()
    assert [asks.needs_approval for asks in tools] == [True]


@pytest.mark.parametrize("late", [False, True], ids=["in a hook", "as its start is recorded"])
async def test_a_server_that_changes_just_before_its_call_is_sent_asks_anew(late: bool) -> None:
    class Moves(RunHooks[Any]):
        async def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, input_items: Any) -> None:
            if server.requests and not late:
                agent.tools[0].tool_config = EVE

    class Slow(MemoryJournal):
        async def append(self, *args: Any, **options: Any) -> Any:
            if late and any(b"CallStarted" in line for line in args[2]):
                agent.tools[0].tool_config = EVE
            return await super().append(*args, **options)

    server = ResponsesServer([[ASKS]])
    async with served(server) as model:
        agent = desk(model)
        options: dict[str, Any] = {"journal": Slow(), "hooks": Moves()}
        paused = await Runner.run(agent, "go", **options)
        asked = await Runner.run(agent, approve_all(paused), **options)
        assert "https://eve.example.com/mcp" in str(asked.interruptions[0].preview)
    assert len(server.requests) == 1, "nothing of the approval was sent"
