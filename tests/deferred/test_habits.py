"""What programs of Pydantic AI do by habit: handlers, toolsets, dependencies, outputs, streams, messages as JSON."""

from __future__ import annotations

import asyncio
from typing import Any

import pydantic
import pydantic_core
import pytest

from keyturn import (
    Agent as CoreAgent,
)
from keyturn import (
    Approval,
    ApprovalRequired,
    CallDeferred,
    RunHooks,
    Runner,
    Usage,
    UsageLimitExceeded,
    UserError,
    function_tool,
)
from keyturn.deferred import (
    Agent,
    AgentRunResultEvent,
    ApprovalRequiredToolset,
    DeferredToolRequests,
    DeferredToolRequestsEvent,
    DeferredToolResults,
    FunctionToolCallEvent,
    FunctionToolResultEvent,
    FunctionToolset,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    PartDeltaEvent,
    RunContext,
    Tool,
    ToolApproved,
    ToolDenied,
    ToolReturn,
    UsageLimits,
)
from keyturn.testing import ScriptedModel
from tests.deferred.playing import TEXT_OR_REQUESTS, Bank, call

YES = DeferredToolResults(approvals={"c1": True})

# ----------------------------------------------------------------------------------------------------------- handlers


async def test_a_handler_decides_in_the_same_run(run: Any) -> None:
    asked: list[Any] = []

    async def decide(ctx: RunContext[str], requests: DeferredToolRequests) -> DeferredToolResults:
        asked.append((ctx.deps, [part.args for part in requests.approvals]))
        return requests.build_results(approvals={"c1": ToolApproved(override_args={"amount": 2})})

    bank = Bank(handle_deferred=decide, output_type=str)
    done = await run(bank.agent, "Pay.", deps="ada")
    assert (done.output, bank.ran, asked) == ("Paid.", [("pay", 2)], [("ada", [{"amount": 10}])])


async def test_a_handler_answers_some_and_leaves_the_rest(run: Any, carry: Any) -> None:
    bank = Bank([call("pay", "c1", amount=1), call("pay", "c2", amount=2)], "Paid.")
    bank.agent.handle_deferred = lambda ctx, requests: (
        DeferredToolResults(approvals={"c1": False}) if "c1" in [p.tool_call_id for p in requests.approvals] else None
    )
    waits = await run(bank.agent, "Pay.")
    assert [part.tool_call_id for part in waits.output.approvals] == ["c2"]
    results = DeferredToolResults(approvals={"c2": True})
    done = await run(bank.agent, message_history=carry(waits.all_messages()), deferred_tool_results=results)
    assert (done.output, bank.ran) == ("Paid.", [("pay", 2)])


@pytest.mark.parametrize("said", [None, DeferredToolResults()], ids=["None", "no results"])
async def test_a_handler_that_decides_nothing_leaves_the_calls_waiting(run: Any, said: Any) -> None:
    bank = Bank(handle_deferred=lambda ctx, requests: said)
    assert isinstance((await run(bank.agent, "Pay.")).output, DeferredToolRequests)
    assert bank.ran == []


async def test_a_handler_that_answers_wrongly_lets_nothing_run(run: Any) -> None:
    for wrong in (True, {"c1": True}, DeferredToolResults(approvals={"c9": True})):
        bank = Bank(handle_deferred=lambda ctx, requests, wrong=wrong: wrong)
        with pytest.raises(ValueError, match=r"DeferredToolResults|no call of that id"):
            await run(bank.agent, "Pay.")
        assert bank.ran == []


async def test_a_tool_that_asks_whatever_it_is_told_does_not_hang_a_run(run: Any) -> None:
    agent: Agent[Any] = Agent(
        ScriptedModel([[call("pay")]]), handle_deferred=lambda ctx, requests: requests.build_results(approve_all=True)
    )
    ran: list[int] = []

    @agent.tool_plain
    def pay() -> str:
        ran.append(1)
        raise ApprovalRequired

    assert isinstance((await run(agent, "Go.")).output, DeferredToolRequests)
    assert 1 < len(ran) < 50


async def test_what_a_handler_decided_stands_in_the_record(run: Any) -> None:
    bank = Bank(handle_deferred=lambda ctx, requests: requests.build_results(approve_all=True))
    done = await run(bank.agent, "Pay.")
    [decision] = done.inner.to_state().live.run.decided.values()
    assert decision.note == "decided by handle_deferred"


# ----------------------------------------------------------------------------------------------------------- toolsets


def delete(path: str) -> str:
    """Delete a file."""
    return f"deleted {path}"


@pytest.mark.parametrize(
    "toolset",
    [
        lambda: FunctionToolset([delete]).approval_required(),
        lambda: ApprovalRequiredToolset(FunctionToolset([delete])),
        lambda: FunctionToolset([delete]).approval_required(lambda ctx, tool, args: args["path"] != "tmp"),
        lambda: FunctionToolset([Tool(delete, requires_approval=True)]).approval_required(lambda *_: False),
        lambda: FunctionToolset([Tool(delete, approval=Approval())]).approval_required(lambda *_: False),
    ],
    ids=["all", "wrapped", "some", "what asks by itself", "what states terms"],
)
async def test_a_toolset_that_asks(run: Any, carry: Any, toolset: Any) -> None:
    agent: Agent[Any] = Agent(ScriptedModel([[call("delete", path="etc")], "Done."]), toolsets=[toolset()])
    waits = await run(agent, "Go.")
    assert waits.output.approvals[0].args == {"path": "etc"}
    done = await run(agent, message_history=carry(waits.all_messages()), deferred_tool_results=YES)
    assert done.new_messages()[0].parts[0].content == "deleted etc"


async def test_a_toolset_that_asks_for_some_calls_lets_the_others_run(run: Any) -> None:
    toolset = FunctionToolset([delete]).approval_required(lambda ctx, tool, args: args["path"] != "tmp")
    agent: Agent[Any] = Agent(ScriptedModel([[call("delete", path="tmp")], "Done."]), toolsets=[toolset])
    assert (await run(agent, "Go.")).output == "Done."


async def test_a_toolset_whose_question_gives_no_bool_lets_nothing_run(run: Any) -> None:
    toolset = FunctionToolset([delete]).approval_required(lambda ctx, tool, args: "no")
    agent: Agent[Any] = Agent(ScriptedModel([[call("delete", path="etc")], "Done."]), toolsets=[toolset])
    waits = await run(agent, "Go.")
    assert [part.tool_name for part in waits.output.approvals] == ["delete"]


async def test_a_source_of_tools_that_asks(run: Any) -> None:
    class Server:
        async def tools_for(self, context: Any, agent: Any) -> list[Any]:
            return [function_tool(delete)]

    agent: Agent[Any] = Agent(
        ScriptedModel([[call("delete", path="etc")], "Done."]), toolsets=[ApprovalRequiredToolset(Server())]
    )
    assert (await run(agent, "Go.")).output.approvals[0].tool_name == "delete"


@pytest.mark.each
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Agent(tools=[5]), "tools holds 5"),
        (lambda: Agent(tools=[delete, delete]), "two tools have the name 'delete'"),
        (lambda: Agent(toolsets=[5]), "toolsets holds a int"),
        (lambda: Agent(output_type=DeferredToolRequests), "needs a type for the answer"),
        (lambda: Agent(output_type=[str, 5]), "output_type holds 5"),
        (lambda: Agent(handle_deferred=5), "handle_deferred is a function"),
        (lambda: Agent(instructions=5), "instructions is a text"),
        (lambda: Agent(model_settings={"heat": 1}), "model_settings has 'heat'"),
        (lambda: Tool(delete, takes_ctx=True), "annotate its first parameter"),
        (lambda: Tool(delete, requires_approval="yes"), "needs_approval must be"),
        (lambda: Agent().tool(delete), "annotate its first parameter"),
        (lambda: ApprovalRequiredToolset(5), "wraps a toolset"),
        (lambda: ApprovalRequired("why"), "metadata of ApprovalRequired is a dict"),
        (lambda: CallDeferred([1]), "metadata of CallDeferred is a dict"),
        (lambda: Agent(ScriptedModel(["x"])).run_sync(), "user_prompt is None"),
        (lambda: Agent(ScriptedModel(["x"])).run_sync(5), "user_prompt must be a text"),
        (lambda: Agent(ScriptedModel(["x"])).run_sync("hi", usage=5), "usage is a Usage"),
        (lambda: Agent(ScriptedModel(["x"])).run_sync("hi", message_history="[]"), "message_history is a list"),
        (lambda: Agent(ScriptedModel(["x"])).run_sync("hi", deferred_tool_results={}), "is a DeferredToolResults"),
    ],
)
def test_what_is_wrong_is_refused_where_it_is_said(make: Any, words: str) -> None:
    with pytest.raises(UserError, match=words):
        make()


# ----------------------------------------------------------------------------------- dependencies, outputs and limits


async def test_instructions_and_tools_see_deps(run: Any) -> None:
    model = ScriptedModel([[call("who")], "Hello."])
    agent: Agent[Any] = Agent(model, deps_type=str, system_prompt="Be kind.", instructions="Be brief.")

    @agent.instructions
    def user(ctx: RunContext[str]) -> str:
        return f"The user is {ctx.deps}."

    @agent.system_prompt
    async def fixed() -> str:
        return "It is Monday."

    @agent.tool
    def who(ctx: RunContext[str]) -> str:
        return ctx.deps

    done = await run(agent, "Who?", deps="Ada")
    assert model.calls[0].system_instructions == "Be kind.\n\nBe brief.\n\nThe user is Ada.\n\nIt is Monday."
    assert done.all_messages()[2].parts[0].content == "Ada"


class City(pydantic.BaseModel):
    name: str


@pytest.mark.each
@pytest.mark.parametrize(
    ("output_type", "text", "output"),
    [
        ([City, DeferredToolRequests], '{"name": "Rome"}', City(name="Rome")),
        (City | DeferredToolRequests, '{"name": "Rome"}', City(name="Rome")),
        ([int, City, DeferredToolRequests], '{"response": 5}', 5),
    ],
)
async def test_output_types(run: Any, carry: Any, output_type: Any, text: str, output: Any) -> None:
    bank = Bank([call("pay", amount=1)], text, output_type=output_type)
    waits = await run(bank.agent, "Go.")
    done = await run(bank.agent, message_history=carry(waits.all_messages()), deferred_tool_results=YES)
    assert done.output == output


async def test_an_output_type_of_one_run(run: Any) -> None:
    agent: Agent[Any] = Agent(ScriptedModel(['{"response": 7}']))
    assert (await run(agent, "Go.", output_type=[int, DeferredToolRequests])).output == 7


async def test_usage_is_added_up_and_limited(run: Any, carry: Any) -> None:
    used = Usage()
    one = Usage(requests=1, input_tokens=10, output_tokens=1, total_tokens=11)
    bank = Bank()
    bank.model.set_default_usage(one)
    waits = await run(bank.agent, "Pay.", usage=used)
    assert (used.requests, waits.usage.requests, waits.usage().total_tokens) == (1, 1, 11)
    done = await run(bank.agent, message_history=waits.all_messages(), deferred_tool_results=YES, usage=used)
    assert (used.requests, used.total_tokens, done.usage.requests) == (2, 22, 2)
    with pytest.raises(UsageLimitExceeded):
        await run(Bank().agent, "Pay.", usage_limits=UsageLimits(requests=0))


async def test_a_run_that_goes_on_from_a_finished_one(run: Any, carry: Any) -> None:
    model = ScriptedModel(["One.", "Two."])
    agent: Agent[Any] = Agent(model)
    first = await run(agent, "1?")
    second = await run(agent, "2?", message_history=carry(first.all_messages()))
    assert (second.output, len(second.all_messages()), len(second.new_messages())) == ("Two.", 4, 2)
    assert model.calls[1].input[0]["content"] == "1?"


async def test_hooks_hear_of_a_run(run: Any) -> None:
    heard: list[str] = []

    class Hooks(RunHooks[Any]):
        async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
            heard.append(tool.name)

    bank = Bank(hooks=Hooks())
    waits = await run(bank.agent, "Pay.")
    assert heard == []
    await run(bank.agent, message_history=waits.all_messages(), deferred_tool_results=YES)
    assert heard == ["pay"]


async def test_messages_as_json_by_the_adapter_and_by_pydantic(run: Any) -> None:
    bank = Bank()
    waits = await run(bank.agent, "Pay.")
    for data in (
        ModelMessagesTypeAdapter.validate_json(waits.all_messages_json()),
        ModelMessagesTypeAdapter.validate_python(pydantic_core.to_jsonable_python(waits.all_messages())),
    ):
        assert [type(message) for message in data] == [ModelRequest, ModelResponse]
        again = await run(bank.agent, message_history=data)
        assert [part.tool_call_id for part in again.output.approvals] == ["c1"]


def test_results_are_data() -> None:
    adapter = pydantic.TypeAdapter(DeferredToolResults)
    given = DeferredToolResults(approvals={"a": True, "b": ToolDenied("No."), "c": ToolApproved()}, calls={"d": 5})
    assert adapter.validate_json(adapter.dump_json(given)) == given


# ------------------------------------------------------------------------------------------------------------ streams


async def test_text_is_streamed_as_it_comes() -> None:
    agent: Agent[Any] = Agent(ScriptedModel(["to be or not"]))
    async with agent.run_stream("Go.") as stream:
        assert [text async for text in stream.stream_text(delta=True)] == ["to ", "be ", "or ", "not"]
        assert (stream.is_complete, await stream.get_output()) == (True, "to be or not")
    async with Agent(ScriptedModel(["to be"])).run_stream("Go.") as stream:
        assert [text async for text in stream.stream_output()] == ["to ", "to be", "to be"]


async def test_events_tell_of_calls_requests_and_the_result() -> None:
    bank = Bank([call("look", "c1"), call("pay", "c2", amount=1)], "Paid.")
    bank.agent.handle_deferred = lambda ctx, requests: requests.build_results(approve_all=True)
    events = [event async for event in bank.agent.run_stream_events("Go.")]
    kinds = [type(event) for event in events]
    assert kinds == [
        FunctionToolCallEvent, FunctionToolCallEvent, FunctionToolResultEvent, DeferredToolRequestsEvent,
        FunctionToolResultEvent, PartDeltaEvent, AgentRunResultEvent,
    ]  # fmt: skip
    assert [event.part.tool_name for event in events if hasattr(event, "part")] == ["look", "pay", "look", "pay"]
    assert events[-1].result.output == "Paid."


async def test_a_stream_that_is_left_stops_its_run() -> None:
    bank = Bank([call("look")], "Done.")
    async with bank.agent.run_stream("Go.") as stream:
        assert not stream.is_complete
        with pytest.raises(UserError, match="get_output"):
            stream.result()
    assert bank.ran == []


# ------------------------------------------------------------------------------------- the same tools, the same gate


async def test_tools_of_any_agent_may_ask_from_inside() -> None:
    @function_tool
    def pay(amount: int) -> str:
        raise ApprovalRequired(metadata={"limit": 1})

    core: CoreAgent[Any] = CoreAgent("desk", model=ScriptedModel([[call("pay", amount=5)], "Done."]), tools=[pay])
    result = await Runner.run(core, "Pay.")
    [item] = result.interruptions
    assert (item.kind, item.params) == ("approval", {"amount": 5})
    state = result.to_state()
    state.reject(item, rejection_message="No.")
    assert (await Runner.run(core, state)).final_output == "Done."


async def test_an_inner_agents_call_waits_on_the_outer_run(run: Any, carry: Any) -> None:
    ran: list[int] = []

    @function_tool(needs_approval=True)
    def pay(amount: int) -> str:
        ran.append(amount)
        return "paid"

    inner: CoreAgent[Any] = CoreAgent("teller", model=ScriptedModel([[call("pay", amount=5)], "Paid."]), tools=[pay])
    model = ScriptedModel([[call("ask", input="Pay 5.")], "Done."])
    outer: Agent[Any] = Agent(model, tools=[inner.as_tool("ask", "Asks the teller.")], output_type=TEXT_OR_REQUESTS)
    waits = await run(outer, "Go.")
    [part] = waits.output.approvals
    assert (part.tool_name, part.args) == ("pay", {"amount": 5})
    assert part.agent == "agent > ask, asked: Pay 5."
    assert part.tool_call_id != "c1", "the outer call has that id"
    results = DeferredToolResults(approvals={part.tool_call_id: True})
    done = await run(outer, message_history=carry(waits.all_messages()), deferred_tool_results=results)
    assert (done.output, ran) == ("Done.", [5])


def test_run_sync_works_inside_a_running_loop() -> None:
    async def main() -> Any:
        return Agent(ScriptedModel(["hi"])).run_sync("go").output

    assert asyncio.run(main()) == "hi"


# ------------------------------------------------------------------------------- what programs of Pydantic AI also do


async def test_metadata_of_a_result_is_not_told_to_the_model(run: Any) -> None:
    model = ScriptedModel([[call("look")], "Done."])
    agent: Agent[Any] = Agent(model)

    @agent.tool_plain
    def look() -> Any:
        return ToolReturn({"rows": 3}, metadata={"secret": "k"})

    done = await run(agent, "Go.")
    assert done.all_messages()[2].parts[0].content == '{"rows": 3}'
    assert "secret" not in str(model.calls[1].input)


async def test_events_are_read_in_a_with_block_and_a_run_that_is_left_stops() -> None:
    bank = Bank([call("look", "c1")], [call("look", "c2")], "Done.")
    async with bank.agent.run_stream_events("Go.") as events:
        assert isinstance(await anext(events), FunctionToolCallEvent)
    assert len(bank.model.calls) == 1
    whole = Bank([call("look", "c1")], "Done.")
    async with whole.agent.run_stream_events("Go.") as events:
        last = [event async for event in events][-1]
    assert isinstance(last, AgentRunResultEvent)


async def test_pieces_of_text_come_together() -> None:
    async with Agent(ScriptedModel(["to be or not"])).run_stream("Go.") as stream:
        pieces = [text async for text in stream.stream_text(delta=True, debounce_by=60)]
    assert pieces == ["to ", "be or not"]
    for wrong in ("soon", -1, True, float("nan")):
        async with Agent(ScriptedModel(["to be"])).run_stream("Go.") as stream:
            with pytest.raises(UserError, match="debounce_by is a number of seconds or None"):
                await anext(stream.stream_text(debounce_by=wrong))  # type: ignore[arg-type]  # it is wrong
