"""What the documents that Keyturn came from show their readers, done with it: only the import line is another.

Each scenario is of our own words, in the style of those documents, plain and streamed. `SHOWN` says which statement of
which document a test stands for; `WAITS` lists what they show and a later issue brings.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel

from keyturn import (
    Agent,
    FunctionTool,
    MaxTurnsExceeded,
    ModelSettings,
    RunContextWrapper,
    Runner,
    RunResult,
    RunState,
    SQLiteSession,
    ToolApprovalItem,
    UserError,
    function_tool,
)
from keyturn.testing import ModelStep, ScriptedModel, function_call, tool_outputs


class Statement(NamedTuple):
    """One thing that a document says or shows, and the test that does it."""

    seed: str
    what: str
    test: str


WORKFLOW, RELEASE, PRINCIPLE, REVIEW, DEEP = "000_feee", "001_34a8", "002_fb03", "003_f413", "004_5d38"

SHOWN = [
    Statement(WORKFLOW, "a tool asks always, never or as a callable says", "test_each_tool_asks_in_its_own_way"),
    Statement(WORKFLOW, "a run that waits returns normally, without a final output", "test_a_pause_is_no_error"),
    Statement(WORKFLOW, "a state holds every waiting call and can be stored", "test_a_state_is_kept_in_a_file"),
    Statement(WORKFLOW, "approve lets a call run, reject tells the model", "test_some_are_approved_and_some_not"),
    Statement(WORKFLOW, "always_approve and always_reject decide later calls", "test_a_decision_for_good"),
    Statement(WORKFLOW, "a resume may pause again; a loop goes through all rounds", "test_a_loop_of_decisions"),
    Statement(RELEASE, "the loop over interruptions", "test_a_loop_of_decisions"),
    Statement(RELEASE, "the loop, streamed and drained", "test_a_loop_of_decisions_while_listening"),
    Statement(RELEASE, "needs_approval=True on a function tool", "test_a_pause_is_no_error"),
    Statement(RELEASE, "needs_approval as an async function", "test_each_tool_asks_in_its_own_way"),
    Statement(RELEASE, "an agent as a tool asks, and its tools too", "test_an_expert_and_its_tools_ask"),
    Statement(RELEASE, "calls inside several agents wait on the one result", "test_two_experts_ask_at_once"),
    Statement(RELEASE, "usage and turns are kept over a pause", "test_usage_and_turns_go_on"),
    Statement(RELEASE, "ids of a conversation at the server stay in step", "test_only_news_goes_to_the_server"),
    Statement(RELEASE, "a memory session with a pause in it", "test_a_session_holds_each_item_once"),
    Statement(RELEASE, "a pause before and after a handoff", "test_a_handoff_between_two_pauses"),
    Statement(PRINCIPLE, "get_interruptions() is empty where nothing waits", "test_nothing_waits_in_a_new_state"),
    Statement(PRINCIPLE, "a rejected call is told, and the model goes on", "test_words_for_the_model"),
    Statement(PRINCIPLE, "decisions add up over rounds and can be asked for", "test_a_context_knows_what_was_decided"),
    Statement(PRINCIPLE, "calls of one reply are decided independently", "test_some_are_approved_and_some_not"),
    Statement(PRINCIPLE, "deciding on a state without a context is a UserError", "test_a_state_that_has_not_run"),
    Statement(REVIEW, "needs_approval of a hand-made FunctionTool", "test_a_hand_made_tool_asks"),
    Statement(REVIEW, "approve_tool and reject_tool on the context", "test_deciding_through_the_context"),
    Statement(REVIEW, "from_json and from_string build the state again", "test_a_state_is_kept_in_a_file"),
    Statement(REVIEW, "a result can be resumed in place of its state", "test_a_result_in_place_of_its_state"),
    Statement(REVIEW, "run_sync takes a state", "test_resuming_without_await"),
    Statement(REVIEW, "a streamed result has a state with the turn in it", "test_usage_and_turns_go_on"),
    Statement(REVIEW, "a streamed resume sends the server nothing twice", "test_only_news_goes_to_the_server"),
    Statement(REVIEW, "a streamed resume keeps to the turn limit", "test_the_turn_limit_holds_over_a_pause"),
    Statement(REVIEW, "after a rejection the model tries something else", "test_words_for_the_model"),
]


class Later(NamedTuple):
    """What a document shows and a later issue brings."""

    seed: str
    what: str
    comes_with: str


WAITS = [
    Later(WORKFLOW, "ShellTool that asks", "shell, apply_patch and computer tools"),
    Later(WORKFLOW, "require_approval in the tool_config of a hosted MCP tool", "MCP servers and hosted MCP"),
    Later(RELEASE, "ShellTool with an executor, always flags and the commands of an interruption", "shell tools"),
    Later(RELEASE, "apply_patch that asks", "shell, apply_patch and computer tools"),
    Later(RELEASE, "HostedMCPTool with require_approval always, never or by tool", "MCP servers and hosted MCP"),
    Later(RELEASE, "local MCP servers whose tools ask", "MCP servers and hosted MCP"),
    Later(RELEASE, "a realtime session's tool_approval_required, approve_tool_call, reject_tool_call", "realtime"),
    Later(DEEP, "create_deep_agent with interrupt_on by tool name", "deep agents"),
    Later(DEEP, "DeferredToolRequests as an output, and its approvals", "deep agents"),
    Later(DEEP, "ToolApproved and ToolDenied, and going on with DeferredToolResults", "deep agents"),
    Later(DEEP, "DeepAgentDeps with a StateBackend, and the files in it", "deep agents"),
    Later(DEEP, "an endpoint of the user's own that approves by request id", "server and inbox"),
]


def test_the_table_names_every_test() -> None:
    named = {statement.test for statement in SHOWN}
    here = {name for name, value in globals().items() if name.startswith("test_") and callable(value)}
    assert here - named == {"test_the_table_names_every_test"}
    assert not named - here
    assert {seed for seed, *_ in (*SHOWN, *WAITS)} == {WORKFLOW, RELEASE, PRINCIPLE, REVIEW, DEEP}


# ------------------------------------------------------------------------------------------------- a theatre's desk

Run = Callable[..., Awaitable[RunResult]]


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEYTURN_SECRET", "the secret of the seeds")


@pytest.fixture(params=["plain", "streamed"])
def run(request: pytest.FixtureRequest) -> Run:
    """The two ways to run or resume an agent."""

    async def plain(agent: Agent[Any], given: Any, **options: Any) -> RunResult:
        return await Runner.run(agent, given, **options)

    async def streamed(agent: Agent[Any], given: Any, **options: Any) -> RunResult:
        result = Runner.run_streamed(agent, given, **options)
        async for _ in result.stream_events():
            pass
        return await result.run_loop_task

    return plain if request.param == "plain" else streamed


@pytest.fixture
def sold() -> list[str]:
    """What the tools did."""
    return []


@pytest.fixture
def sell(sold: list[str]) -> FunctionTool:
    """A tool that always asks."""

    @function_tool(needs_approval=True)
    async def sell_seat(seat: str) -> str:
        """Sell a seat."""
        sold.append(seat)
        return f"{seat} is sold"

    return sell_seat


def sale(seat: str, label: str | None = None) -> Any:
    return function_call("sell_seat", {"seat": seat}, call_id=label or seat)


def outputs(model: ScriptedModel) -> dict[str, Any]:
    """What the model read at last, by call."""
    return tool_outputs(model.calls[-1])


# ---------------------------------------------------------------------------------------------------------- asking


async def test_a_pause_is_no_error(run: Run, sell: FunctionTool, sold: list[str]) -> None:
    agent = Agent(name="Box office", model=ScriptedModel([[sale("B12")], "Enjoy the play."]), tools=[sell])
    result = await run(agent, "A seat in row B, please")
    assert len(result.interruptions) == 1
    assert result.final_output is None
    interruption = result.interruptions[0]
    assert isinstance(interruption, ToolApprovalItem)
    assert (interruption.name, interruption.arguments, interruption.agent) == ("sell_seat", '{"seat":"B12"}', agent)
    assert sold == []


async def test_each_tool_asks_in_its_own_way(run: Run, sell: FunctionTool) -> None:
    asked: list[tuple[str, str]] = []

    async def _is_a_box(ctx: RunContextWrapper[str], params: dict[str, Any], call_id: str) -> bool:
        asked.append((ctx.context, call_id))
        return params.get("row") == "box"

    @function_tool(needs_approval=_is_a_box)
    async def hold_row(row: str, minutes: int = 10) -> str:
        return f"row {row} is held for {minutes} minutes"

    @function_tool(needs_approval=False)
    def price_of(row: str) -> int:
        return 40

    calls = [
        sale("A1"),
        function_call("hold_row", {"row": "C"}, call_id="c"),
        function_call("hold_row", {"row": "box"}, call_id="box"),
        function_call("price_of", {"row": "C"}, call_id="price"),
    ]
    model = ScriptedModel([calls, "All done."])
    agent = Agent[str](name="Box office", model=model, tools=[sell, hold_row, price_of])
    result = await run(agent, "Hold me a row", context="desk 3")
    assert [item.call_id for item in result.interruptions] == ["A1", "box"]
    assert sorted(asked) == [("desk 3", "box"), ("desk 3", "c")]
    state = result.to_state()
    for interruption in result.interruptions:
        state.approve(interruption)
    result = await run(agent, state)
    assert result.final_output == "All done."
    assert list(outputs(model)) == ["A1", "c", "box", "price"]
    assert len(asked) == 2


async def test_a_hand_made_tool_asks(run: Run, sold: list[str]) -> None:
    async def refund(ctx: RunContextWrapper[Any], arguments: str) -> str:
        sold.remove(json.loads(arguments)["seat"])
        return "refunded"

    tool = FunctionTool(
        name="refund_seat",
        description="Takes a seat back.",
        params_json_schema={"type": "object", "properties": {"seat": {"type": "string"}}},
        on_invoke_tool=refund,
        needs_approval=True,
    )
    sold.append("F7")
    model = ScriptedModel([[function_call("refund_seat", {"seat": "F7"})], "It is free again."])
    agent = Agent(name="Box office", model=model, tools=[tool])
    result = await run(agent, "I cannot come")
    assert sold == ["F7"]
    state = result.to_state()
    state.approve(result.interruptions[0])
    result = await run(agent, state)
    assert (result.final_output, sold) == ("It is free again.", [])


# --------------------------------------------------------------------------------------------------------- deciding


async def test_a_loop_of_decisions(sell: FunctionTool, sold: list[str]) -> None:
    async def confirm(question: str) -> bool:
        return "A1" not in question

    model = ScriptedModel([[sale("A1")], [sale("A2"), sale("A3")], "Two seats are yours."])
    agent = Agent(name="Box office", model=model, tools=[sell])
    rounds = 0
    result = await Runner.run(agent, "Two seats in front")
    while len(result.interruptions) > 0:
        rounds += 1
        state = result.to_state()
        for interruption in result.interruptions:
            if await confirm(f"Run {interruption.name} with {interruption.arguments}?"):
                state.approve(interruption)
            else:
                state.reject(interruption)
        result = await Runner.run(agent, state)
    assert (result.final_output, rounds) == ("Two seats are yours.", 2)
    assert sold == ["A2", "A3"]


async def test_a_loop_of_decisions_while_listening(sell: FunctionTool, sold: list[str]) -> None:
    model = ScriptedModel([[sale("A1")], [sale("A2"), sale("A3")], "Two seats are yours."])
    agent = Agent(name="Box office", model=model, tools=[sell])
    heard: list[str] = []

    async def drained(events: AsyncIterator[Any]) -> None:
        async for event in events:
            if event.type == "run_item_stream_event":
                heard.append(event.name)

    result = Runner.run_streamed(agent, "Two seats in front")
    await drained(result.stream_events())
    while result.interruptions:
        state = result.to_state()
        for interruption in result.interruptions:
            if "A1" in interruption.arguments:
                state.reject(interruption)
            else:
                state.approve(interruption)
        result = Runner.run_streamed(agent, state)
        await drained(result.stream_events())
    assert (result.final_output, sold) == ("Two seats are yours.", ["A2", "A3"])
    assert (heard.count("tool_called"), heard.count("tool_output")) == (3, 3)
    assert heard[-1] == "message_output_created"


async def test_some_are_approved_and_some_not(run: Run, sell: FunctionTool, sold: list[str]) -> None:
    model = ScriptedModel([[sale("A1"), sale("A2"), sale("A3")], "Here they are."])
    agent = Agent(name="Box office", model=model, tools=[sell])
    state = (await run(agent, "Three seats")).to_state()
    first, second, third = state.get_interruptions()
    state.reject(second)
    state.approve(third)
    state.approve(first)
    result = await run(agent, state)
    assert result.final_output == "Here they are."
    assert sorted(sold) == ["A1", "A3"]
    told = outputs(model)
    assert list(told) == ["A1", "A2", "A3"]
    assert told["A2"] == "Tool execution was not approved."


@pytest.mark.parametrize("always", ["approve", "reject"])
async def test_a_decision_for_good(run: Run, sell: FunctionTool, sold: list[str], always: str) -> None:
    @function_tool(needs_approval=True)
    async def close_desk() -> str:
        sold.append("closed")
        return "closed"

    rounds = [[sale("A1")], [sale("A2")], [function_call("close_desk", call_id="close")], "Good night."]
    model = ScriptedModel(rounds)
    agent = Agent(name="Box office", model=model, tools=[sell, close_desk])
    result = await run(agent, "Sell what you can")
    state = result.to_state()
    if always == "approve":
        state.approve(result.interruptions[0], always_approve=True)
    else:
        state.reject(result.interruptions[0], always_reject=True)
    state = await RunState.from_string(agent, state.to_string())
    result = await run(agent, state)
    assert [item.name for item in result.interruptions] == ["close_desk"], "for good, but for one tool"
    assert sold == (["A1", "A2"] if always == "approve" else [])
    state = result.to_state()
    state.reject(result.interruptions[0])
    assert (await run(agent, state)).final_output == "Good night."


async def test_words_for_the_model(run: Run, sell: FunctionTool, sold: list[str]) -> None:
    model = ScriptedModel([[sale("A1")], [sale("K9")], "You sit in row K."])
    agent = Agent(name="Box office", model=model, tools=[sell])
    state = (await run(agent, "A good seat")).to_state()
    state.reject(state.get_interruptions()[0], rejection_message="Row A is for the critics.")
    result = await run(agent, state)
    assert outputs(model) == {"A1": "Row A is for the critics."}
    state = result.to_state()
    state.approve(state.get_interruptions()[0])
    assert (await run(agent, state)).final_output == "You sit in row K."
    assert sold == ["K9"]


async def test_a_result_in_place_of_its_state(run: Run, sell: FunctionTool, sold: list[str]) -> None:
    agent = Agent(name="Box office", model=ScriptedModel([[sale("A1")], "Done."]), tools=[sell])
    paused = await run(agent, "A seat")
    same = await run(agent, paused)
    assert [item.call_id for item in same.interruptions] == ["A1"]
    state = same.state
    state.approve(state.get_interruptions()[0])
    assert (await run(agent, state)).final_output == "Done."
    assert sold == ["A1"]


def test_resuming_without_await(sell: FunctionTool, sold: list[str]) -> None:
    agent = Agent(name="Box office", model=ScriptedModel([[sale("A1")], "Done."]), tools=[sell])
    result = Runner.run_sync(agent, "A seat")
    state = result.to_state()
    state.approve(result.interruptions[0])
    assert Runner.run_sync(agent, state).final_output == "Done."
    assert sold == ["A1"]


# ------------------------------------------------------------------------------------------ the context, and errors


async def test_a_context_knows_what_was_decided(run: Run, sold: list[str]) -> None:
    @function_tool(needs_approval=True)
    async def sell_seat(ctx: RunContextWrapper[dict[str, str]], seat: str) -> str:
        seen = [ctx.is_tool_approved("sell_seat", label) for label in ("A1", "A2", "A3")]
        sold.append(f"{seat} by {ctx.context['clerk']}: {seen}")
        return "sold"

    rounds = [[sale("A1")], [sale("A2")], [sale("A3")], "Done."]
    agent = Agent(name="Box office", model=ScriptedModel(rounds), tools=[sell_seat])
    result = await run(agent, "Three seats", context={"clerk": "Ida"})
    for approve in (True, False, True):
        state = await RunState.from_string(agent, result.to_state().to_string())
        [interruption] = state.get_interruptions()
        if approve:
            state.approve(interruption)
        else:
            state.reject(interruption, rejection_message="taken")
        result = await run(agent, state)
    assert sold == ["A1 by Ida: [True, None, None]", "A3 by Ida: [True, False, True]"]
    wrapper = result.context_wrapper
    known = [wrapper.is_tool_approved("sell_seat", label) for label in ("A1", "A2", "A3", "A4")]
    assert known == [True, False, True, None]
    assert wrapper.get_rejection_message("sell_seat", "A2") == "taken"


async def test_deciding_through_the_context(run: Run, sell: FunctionTool, sold: list[str]) -> None:
    model = ScriptedModel([[sale("A1"), sale("A2")], "Done."])
    agent = Agent(name="Box office", model=model, tools=[sell])
    result = await run(agent, "Two seats")
    first, second = result.interruptions
    assert result.context_wrapper.is_tool_approved("sell_seat", "A1") is None
    result.context_wrapper.approve_tool(first)
    result.context_wrapper.reject_tool(second)
    assert result.context_wrapper.is_tool_approved("sell_seat", "A1") is True
    result = await run(agent, result.to_state())
    assert (result.final_output, sold) == ("Done.", ["A1"])


def test_nothing_waits_in_a_new_state() -> None:
    state: RunState[Any] = RunState(context=None, original_input="hello", starting_agent=Agent(name="Box office"))
    assert state.get_interruptions() == []


async def test_a_state_that_has_not_run(run: Run, sell: FunctionTool, sold: list[str]) -> None:
    agent = Agent(name="Box office", model=ScriptedModel([[sale("A1")], "Done."]), tools=[sell])
    interruption = (await run(agent, "A seat")).interruptions[0]
    state: RunState[Any] = RunState(context=None, original_input="hello", starting_agent=agent)
    for decide in (state.approve, state.reject):
        with pytest.raises(UserError, match="get_interruptions"):
            decide(interruption)
    assert sold == []


# -------------------------------------------------------------------------------------------------- elsewhere, later


@pytest.mark.parametrize("form", ["json", "string"])
async def test_a_state_is_kept_in_a_file(
    run: Run, sell: FunctionTool, sold: list[str], tmp_path: Path, form: str
) -> None:
    model = ScriptedModel([[sale("A1"), sale("A2")], [sale("A3")], "Three seats."])
    agent = Agent(name="Box office", model=model, tools=[sell])
    path = tmp_path / "state.json"
    result = await run(agent, "Three seats")
    while result.interruptions:
        state = result.to_state()
        if form == "json":
            with path.open("w") as f:
                json.dump(state.to_json(), f)
            with path.open() as f:
                state = await RunState.from_json(agent, json.load(f))
        else:
            path.write_text(state.to_string())
            state = await RunState.from_string(agent, path.read_text())
        assert len(state.get_interruptions()) == len(result.interruptions)
        for interruption in state.get_interruptions():
            state.approve(interruption)
        result = await run(agent, state)
    assert (result.final_output, sorted(sold)) == ("Three seats.", ["A1", "A2", "A3"])


async def test_usage_and_turns_go_on(sell: FunctionTool) -> None:
    def agent() -> Agent[Any]:
        model = ScriptedModel([[sale("A1")], [sale("A2")], "Done."])
        return Agent(name="Box office", model=model, tools=[sell])

    plain = agent()
    result = await Runner.run(plain, "Two seats")
    for requests in (1, 2):
        assert result.context_wrapper.usage.requests == requests
        state = await RunState.from_string(plain, result.to_state().to_string())
        assert state.usage.requests == requests
        state.approve(state.get_interruptions()[0])
        result = await Runner.run(plain, state)
    assert (result.final_output, result.usage.requests) == ("Done.", 3)

    listened = agent()
    stream = Runner.run_streamed(listened, "Two seats")
    for turn in (1, 2):
        async for _ in stream.stream_events():
            pass
        assert (stream.current_turn, stream.context_wrapper.usage.requests) == (turn, turn)
        state = await RunState.from_string(listened, stream.to_state().to_string())
        state.approve(state.get_interruptions()[0])
        stream = Runner.run_streamed(listened, state)
    async for _ in stream.stream_events():
        pass
    assert (stream.current_turn, stream.final_output) == (3, "Done.")
    assert stream.context_wrapper.usage.requests == 3


@pytest.mark.parametrize("saved", [False, True], ids=["live", "saved"])
async def test_the_turn_limit_holds_over_a_pause(run: Run, sell: FunctionTool, sold: list[str], saved: bool) -> None:
    agent = Agent(name="Box office", model=ScriptedModel([[sale("A1")], [sale("A2")], "Done."]), tools=[sell])
    result = await run(agent, "Two seats", max_turns=2)
    state = result.to_state()
    state.approve(result.interruptions[0])
    result = await run(agent, state)
    state = result.to_state()
    state.approve(result.interruptions[0])
    if saved:
        state = await RunState.from_string(agent, state.to_string())
    with pytest.raises(MaxTurnsExceeded):
        await run(agent, state)
    assert sold == ["A1"], "with the turns spent nothing more is done"
    result = await run(agent, state, max_turns=3)
    assert (result.final_output, sold) == ("Done.", ["A1", "A2"])


@pytest.mark.parametrize("name", ["previous_response_id", "conversation_id"])
async def test_only_news_goes_to_the_server(run: Run, sell: FunctionTool, name: str) -> None:
    steps = [ModelStep([sale("A1")], response_id="r1"), ModelStep([sale("A2")], response_id="r2"), ModelStep("Done.")]
    model = ScriptedModel(steps)
    agent = Agent(name="Box office", model=model, tools=[sell])
    result = await run(agent, "Two seats", **{name: "before"})
    for _ in range(2):
        state = await RunState.from_string(agent, result.to_state().to_string())
        state.approve(state.get_interruptions()[0])
        result = await run(agent, state)
    assert result.final_output == "Done."
    ids = [getattr(asked, name) for asked in model.calls]
    assert ids == (["before"] * 3 if name == "conversation_id" else ["before", "r1", "r2"])
    sent = [[item.get("call_id") or item["content"] for item in asked.input] for asked in model.calls]
    assert sent == [["Two seats"], ["A1"], ["A2"]]


async def test_a_session_holds_each_item_once(run: Run, sell: FunctionTool, tmp_path: Path) -> None:
    model = ScriptedModel([[sale("A1")], "Sold.", "Your seat is A1."])
    agent = Agent(name="Box office", model=model, tools=[sell])
    session = SQLiteSession("visitor", tmp_path / "visitors.db")
    result = await run(agent, "A seat", session=session)
    state = await RunState.from_string(agent, result.to_state().to_string())
    state.approve(state.get_interruptions()[0])
    result = await run(agent, state, session=session)
    result = await run(agent, "Which one was it?", session=session)
    assert result.final_output == "Your seat is A1."
    kinds = [item.get("type", item.get("role")) for item in await session.get_items()]
    assert kinds == ["user", "function_call", "function_call_output", "message", "user", "message"]
    session.close()


# ---------------------------------------------------------------------------------------------------- several agents


class Visitor(BaseModel):
    name: str


def expert(sold: list[str], seat: str) -> Agent[Visitor]:
    """An agent with a tool that asks, to be the tool of another."""

    @function_tool(needs_approval=True)
    async def seat_of(ctx: RunContextWrapper[Visitor], guest: str) -> str:
        sold.append(f"{guest} for {ctx.context.name}")
        return seat

    model = ScriptedModel([[function_call("seat_of", {"guest": seat}, call_id=seat)], f"It is {seat}."])
    settings = ModelSettings(tool_choice="required")
    return Agent[Visitor](name=f"Usher {seat}", model=model, model_settings=settings, tools=[seat_of])


@pytest.mark.parametrize("outer", [True, False], ids=["asks", "does not ask"])
async def test_an_expert_and_its_tools_ask(run: Run, sold: list[str], outer: bool) -> None:
    usher = expert(sold, "C4")
    tool = usher.as_tool(tool_name="ask_usher", tool_description="Finds a seat", needs_approval=outer)
    model = ScriptedModel([[function_call("ask_usher", {"input": "Where do I sit?"}, call_id="u")], "In C4."])
    agent = Agent[Visitor](name="Door", model=model, tools=[tool])
    result = await run(agent, "Where is my seat?", context=Visitor(name="Ida"))
    asked: list[tuple[str, str]] = []
    while result.interruptions:
        text = result.to_state().to_string(context_serializer=lambda visitor: visitor.model_dump())
        state = await RunState.from_string(agent, text, context_deserializer=Visitor.model_validate)
        for interruption in state.get_interruptions():
            asked.append((interruption.agent.name, interruption.name))
            state.approve(interruption)
        result = await run(agent, state)
    inner = ("Usher C4", "seat_of")
    assert asked == ([("Door", "ask_usher"), inner] if outer else [inner])
    assert (result.final_output, sold) == ("In C4.", ["C4 for Ida"])
    assert outputs(model) == {"u": "It is C4."}


async def test_two_experts_ask_at_once(run: Run, sold: list[str]) -> None:
    tools = [expert(sold, seat).as_tool(f"usher_{seat}", "Finds a seat") for seat in ("L1", "R1")]
    calls = [function_call(tool.name, {"input": "go"}, call_id=tool.name) for tool in tools]
    model = ScriptedModel([calls, "Left or right."])
    agent = Agent[Visitor](name="Door", model=model, tools=[*tools])
    result = await run(agent, "Where do we sit?", context=Visitor(name="Ida"))
    assert [item.call_id for item in result.interruptions] == ["L1", "R1"]
    state = result.to_state()
    state.approve(result.interruptions[0])
    state.reject(result.interruptions[1])
    result = await run(agent, state)
    assert (result.final_output, sold) == ("Left or right.", ["L1 for Ida"])
    assert outputs(model) == {"usher_L1": "It is L1.", "usher_R1": "It is R1."}


async def test_a_handoff_between_two_pauses(run: Run, sell: FunctionTool, sold: list[str]) -> None:
    manager = Agent(name="Manager", model=ScriptedModel([[sale("Box 1")], "With pleasure."]), tools=[sell])
    first = [sale("A1"), function_call("transfer_to_manager", call_id="up")]
    clerk = Agent(name="Clerk", model=ScriptedModel([first]), tools=[sell], handoffs=[manager])
    result = await run(clerk, "A box, please")
    agents: list[str] = []
    while result.interruptions:
        state = await RunState.from_string(clerk, result.to_state().to_string())
        for interruption in state.get_interruptions():
            agents.append(interruption.agent.name)
            state.approve(interruption)
        result = await run(clerk, state)
    assert (result.final_output, result.last_agent) == ("With pleasure.", manager)
    assert (agents, sold) == (["Clerk", "Manager"], ["A1", "Box 1"])
