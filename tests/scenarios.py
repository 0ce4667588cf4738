"""The catalogue: one run for each thing an agent can do, each with a model that answers from its input alone.

Every scenario is played plain, streamed and through saved states, and swept: cut at every commit and resumed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keyturn import (
    Agent,
    Approval,
    ModelSettings,
    RunConfig,
    StopAtTools,
    ToolContext,
    ToolExecutionConfig,
    ToolGuardrailFunctionOutput,
    function_tool,
    handoff,
    input_guardrail,
    output_guardrail,
    tool_input_guardrail,
)
from keyturn.agents.guardrail import GuardrailFunctionOutput
from keyturn.models.base import ModelRequest
from keyturn.models.scripted.model import ScriptedModel, assistant_message, function_call, tool_outputs
from keyturn.testing.crash import Answer, Effects, Scenario

CATALOGUE: list[Scenario] = []


def scenario(**settings: Any) -> Callable[[Callable[[Effects], Agent[Any]]], Callable[[Effects], Agent[Any]]]:
    """Put a builder into the catalogue."""

    def add(build: Callable[[Effects], Agent[Any]]) -> Callable[[Effects], Agent[Any]]:
        CATALOGUE.append(Scenario(build.__name__, build, **settings))
        return build

    return add


def script(*rounds: list[Any] | str) -> ScriptedModel:
    """A model that says `rounds[n]` once it has read n rounds of results, and tells what it read at the end."""

    def answer(request: ModelRequest) -> Any:
        known = tool_outputs(request)
        for step in rounds:
            if isinstance(step, str):
                return [assistant_message(f"{step}: " + "; ".join(f"{key}={known[key]}" for key in sorted(known)))]
            if any(call["call_id"] not in known for call in step):
                return step
        raise AssertionError("the script has no end")

    return ScriptedModel(answer)


def tools(effects: Effects, **options: Any) -> dict[str, Any]:
    """Tools that record what they do: one that asks, one that does not, and some that are more careful."""

    def make(name: str, **own: Any) -> Any:
        async def act(context: ToolContext[Any], x: int = 0) -> str:
            effects.record(context, f"{name}({x})")
            return f"{name}({x})"

        return function_tool(act, name_override=name, **{**options, **own})

    return {
        "ask": make("ask", needs_approval=True),
        "free": make("free"),
        "maybe": make("maybe", needs_approval=lambda _context, params, _id: params["x"] > 5),
        "again": make("again", idempotent=True),
        "timed": make("timed", approval=Approval(expires="1h", execute_by="1h")),
        "probed": make("probed", check=lambda context: happened(effects, context.idempotency_key)),
    }


def happened(effects: Effects, key: str) -> str | bool:
    """A probe: what the effect of that key was, False where there was none."""
    return next((what for known, what in effects.done if known == key), False)


def call(name: str, x: int = 0, label: str | None = None) -> Any:
    """A call of a tool with one number."""
    return function_call(name, {"x": x}, call_id=label or f"{name}_{x}")


@scenario()
def nothing_to_do(effects: Effects) -> Agent[Any]:
    return Agent("a", model=script("done"))


@scenario()
def one_free_call(effects: Effects) -> Agent[Any]:
    return Agent("a", model=script([call("free", 1)], "done"), tools=[tools(effects)["free"]])


@scenario()
def one_approval(effects: Effects) -> Agent[Any]:
    return Agent("a", model=script([call("ask", 1)], "done"), tools=[tools(effects)["ask"]])


@scenario(decide=lambda item: False)
def one_rejection(effects: Effects) -> Agent[Any]:
    return Agent("a", model=script([call("ask", 1)], "done"), tools=[tools(effects)["ask"]])


@scenario(decide=lambda item: {"x": 42})
def one_edit(effects: Effects) -> Agent[Any]:
    return Agent("a", model=script([call("ask", 1)], "done"), tools=[tools(effects)["ask"]])


@scenario(decide=lambda item: Answer("said a person"))
def one_answer(effects: Effects) -> Agent[Any]:
    return Agent("a", model=script([call("ask", 1)], "done"), tools=[tools(effects)["ask"]])


@scenario()
def ten_rounds(effects: Effects) -> Agent[Any]:
    rounds = [[call("ask", n)] for n in range(9)]
    return Agent("a", model=script(*rounds, "done"), tools=[tools(effects)["ask"]])


@scenario(decide=lambda item: item.params["x"] % 2 == 0)
def several_mixed(effects: Effects) -> Agent[Any]:
    made = tools(effects)
    first = [call("ask", 1), call("free", 2), call("maybe", 3), call("maybe", 9), call("ask", 4), call("again", 5)]
    return Agent("a", model=script(first, [call("free", 7)], "done"), tools=list(made.values()))


@scenario()
def careful_tools(effects: Effects) -> Agent[Any]:
    made = tools(effects)
    return Agent(
        "a", model=script([call("again", 1), call("probed", 2), call("timed", 3)], "done"), tools=list(made.values())
    )


@scenario()
def refused_arguments(effects: Effects) -> Agent[Any]:
    bad = function_call("ask", '{"x": "many"}', call_id="bad")
    return Agent(
        "a", model=script([bad, call("free", 1)], [call("ask", 2)], "done"), tools=list(tools(effects).values())
    )


@scenario()
def handed_over(effects: Effects) -> Agent[Any]:
    made = tools(effects)
    second = Agent("second", model=script([call("to")], [call("ask", 2)], "done"), tools=[made["ask"]])
    return Agent(
        "first",
        model=script([call("free", 1), function_call("transfer_to_second", "{}", call_id="to_0")], "never"),
        tools=[made["free"]],
        handoffs=[second],
    )


@scenario()
def handed_over_after_approval(effects: Effects) -> Agent[Any]:
    made = tools(effects)
    second = Agent("second", model=script([call("ask", 2)], "done"), tools=[made["ask"]])
    first = [function_call("transfer_to_second", "{}", call_id="to"), call("ask", 1)]
    return Agent("first", model=script(first, "never"), tools=[made["ask"]], handoffs=[second])


@scenario()
def handed_over_filtered(effects: Effects) -> Agent[Any]:
    made = tools(effects)

    def keep_first(data: Any) -> Any:
        return data.clone(input_history=data.input_history[:1], pre_handoff_items=(), new_items=data.new_items[-2:])

    second = Agent("second", model=script([call("ask", 2)], "done"), tools=[made["ask"]])
    first = [call("free", 1), function_call("transfer_to_second", "{}", call_id="to")]
    return Agent(
        "first", model=script(first, "never"), tools=[made["free"]], handoffs=[handoff(second, input_filter=keep_first)]
    )


def expert(effects: Effects, name: str, *rounds: Any) -> Agent[Any]:
    """An agent to be used as a tool."""
    return Agent(name, model=script(*rounds, name), tools=list(tools(effects).values()))


@scenario()
def nested_once(effects: Effects) -> Agent[Any]:
    inner = expert(effects, "inner", [call("ask", 1), call("free", 2)])
    ask_inner = function_call("inner", {"input": "please"}, call_id="in")
    tool = inner.as_tool("inner", "asks", needs_approval=True)
    return Agent("outer", model=script([ask_inner, call("free", 3)], "done"), tools=[tool, tools(effects)["free"]])


@scenario(decide=lambda item: item.tool_name != "ask" or item.params["x"] < 3)
def nested_three_deep(effects: Effects) -> Agent[Any]:
    third = expert(effects, "third", [call("ask", 3)])
    second = expert(effects, "second", [call("ask", 2), function_call("third", {"input": "go"}, call_id="t")])
    second.tools.append(third.as_tool("third", "asks", needs_approval=True))
    first = expert(effects, "first", [function_call("second", {"input": "go"}, call_id="s"), call("ask", 1)])
    first.tools.append(second.as_tool("second", "asks", needs_approval=True))
    return first


@scenario()
def nested_side_by_side(effects: Effects) -> Agent[Any]:
    left = expert(effects, "left", [call("ask", 1)]).as_tool("left", "asks")
    right = expert(effects, "right", [call("ask", 2)], [call("free", 3)]).as_tool("right", "asks")
    both = [
        function_call("left", {"input": "l"}, call_id="l"),
        function_call("right", {"input": "r"}, call_id="r"),
        function_call("left", {"input": "l again"}, call_id="l2"),
    ]
    return Agent("outer", model=script(both, "done"), tools=[left, right])


@scenario()
def nested_fails(effects: Effects) -> Agent[Any]:
    def broken(_request: ModelRequest) -> Any:
        raise RuntimeError("no")

    inner = Agent("inner", model=ScriptedModel(broken)).as_tool("inner", "asks")
    both = [function_call("inner", {"input": "x"}, call_id="in"), call("free", 1)]
    return Agent("outer", model=script(both, "done"), tools=[inner, tools(effects)["free"]])


@scenario()
def stops_at_tool(effects: Effects) -> Agent[Any]:
    behavior = StopAtTools(stop_at_tool_names=["ask"])
    return Agent(
        "a",
        model=script([call("free", 1)], [call("ask", 2)], "never"),
        tools=list(tools(effects).values()),
        tool_use_behavior=behavior,
    )


@scenario()
def guarded(effects: Effects) -> Agent[Any]:
    @input_guardrail
    async def fine(context: Any, agent: Any, given: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput({"seen": True}, False)

    @output_guardrail
    async def good(context: Any, agent: Any, output: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(None, False)

    @tool_input_guardrail
    def small(data: Any) -> ToolGuardrailFunctionOutput:
        return (
            ToolGuardrailFunctionOutput.reject_content("too big")
            if "7" in data.context.tool_arguments
            else ToolGuardrailFunctionOutput.allow()
        )

    made = tools(effects, tool_input_guardrails=[small])
    return Agent(
        "a",
        model=script([call("ask", 1), call("free", 7)], "done"),
        tools=[made["ask"], made["free"]],
        input_guardrails=[fine],
        output_guardrails=[good],
    )


@scenario(options={"run_config": RunConfig(policy=lambda view, _context: "ask" if view.tool == "free" else None)})
def under_a_policy(effects: Effects) -> Agent[Any]:
    return Agent("a", model=script([call("free", 1), call("ask", 2)], "done"), tools=list(tools(effects).values()))


@scenario(options={"run_config": RunConfig(tool_execution=ToolExecutionConfig(max_function_tool_concurrency=1))})
def one_at_a_time(effects: Effects) -> Agent[Any]:
    return Agent("a", model=script([call("free", n) for n in range(4)], "done"), tools=[tools(effects)["free"]])


@scenario()
def forced_choice(effects: Effects) -> Agent[Any]:
    return Agent(
        "a",
        model=script([call("ask", 1)], "done"),
        tools=[tools(effects)["ask"]],
        model_settings=ModelSettings(tool_choice="required"),
    )


@scenario(options={"context": {"user": "ann"}})
def with_context(effects: Effects) -> Agent[Any]:
    return Agent(
        "a",
        instructions=lambda context, _agent: f"for {context.context['user']}",
        model=script([call("ask", 1)], "done"),
        tools=[tools(effects)["ask"]],
    )
