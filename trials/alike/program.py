"""`PYTHON program.py agents|keyturn FROM COUNT`: run the programs of these seeds, and print what happened, by seed.

It is run by the Python that has the SDK, and by ours: all that differs is the name of the package. Each program is run
plain and streamed. What is printed says in which order hooks, guardrails, tools and models were called and with what,
and what the results are.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import os
import sys
import warnings
from collections.abc import AsyncIterator, Callable
from types import new_class
from typing import Any

from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputRefusal,
    ResponseOutputText,
    ResponseReasoningItem,
)
from openai.types.responses.response_reasoning_item import Summary
from pydantic import BaseModel

try:
    from .world import World, world
except ImportError:  # as a program, in the Python that has the SDK
    from world import World, world  # pyright: ignore[reportMissingImports]  # beside this file

SECONDS = 20
USAGE: dict[str, Any] = {
    "input_tokens": 10,
    "output_tokens": 5,
    "total_tokens": 15,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens_details": {"reasoning_tokens": 0},
}
#: Members of items that say nothing of what happened.
DROPPED = ("id", "status", "annotations", "logprobs", "provider_data", "phase")
Trace = list[list[Any]]


class Out(BaseModel):
    """The answer of an agent that owes one of a type."""

    n: int
    s: str = "x"


def plain(value: Any) -> Any:
    """Return a value as JSON, without what differs between two runs of one program."""
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, Out):
        return {"model": "Out", **value.model_dump()}
    if hasattr(value, "model_dump"):
        value = value.model_dump(exclude_unset=True)
    if isinstance(value, dict):
        kept = {key: plain(each) for key, each in value.items() if key not in DROPPED and each is not None}
        if isinstance(kept.get("content"), str) and kept.get("role") == "assistant":
            kept["content"] = [{"type": "output_text", "text": kept["content"]}]
        return kept
    return value if isinstance(value, (str, int, float, bool)) or value is None else type(value).__name__


def part_of(part: list[str], name: str) -> Any:
    """Make an item of a reply."""
    kind, *said = part
    if kind == "reasoning":
        return ResponseReasoningItem(id=f"r{name}", type="reasoning", summary=[Summary(type="summary_text", text="hm")])
    if kind == "call":
        return ResponseFunctionToolCall(
            id=f"f{name}", type="function_call", call_id=f"c{name}", name=said[0], arguments=said[1]
        )
    content: Any = (
        ResponseOutputRefusal(type="refusal", refusal=said[0])
        if kind == "refusal"
        else ResponseOutputText(type="output_text", text=said[0], annotations=[])
    )
    return ResponseOutputMessage(id=f"m{name}", type="message", role="assistant", status="completed", content=[content])


def model_of(sdk: Any, replies: list[Any], trace: Trace) -> Any:
    """Make a model that gives these replies, one after the other."""

    def reply(*given: Any, **named: Any) -> list[Any]:
        system, given_input, settings, tools, schema, handoffs = [*given, *named.values()][:6]
        items = [{"role": "user", "content": given_input}] if isinstance(given_input, str) else given_input
        names = sorted(tool.name for tool in tools), sorted(handoff.tool_name for handoff in handoffs)
        typed = bool(schema and not schema.is_plain_text())
        trace.append(["model", system, plain(list(items)), *names, settings.tool_choice, settings.temperature, typed])
        turn = sum(each[0] == "model" for each in trace) - 1
        parts: Any = replies[turn] if turn < len(replies) else [["text", "The end."]]
        if parts == "raise":
            raise RuntimeError("the model is down")
        return [part_of(part, f"{turn}_{place}") for place, part in enumerate(parts)]

    class Scripted(sdk.Model):
        async def get_response(self, *given: Any, **named: Any) -> Any:
            usage = sdk.Usage(requests=1, input_tokens=10, output_tokens=5, total_tokens=15)
            return sdk.ModelResponse(output=reply(*given, **named), usage=usage, response_id=None)

        async def stream_response(self, *given: Any, **named: Any) -> AsyncIterator[Any]:
            made: dict[str, Any] = {"id": "r", "created_at": 0, "model": "m", "object": "response", "tools": []}
            whole = Response(
                **made, output=reply(*given, **named), parallel_tool_calls=True, tool_choice="auto", usage=USAGE
            )
            yield ResponseCompletedEvent(type="response.completed", sequence_number=0, response=whole)

    return Scripted()


def tools_of(sdk: Any, trace: Trace) -> dict[str, Any]:
    """Make each tool anew."""

    async def add(a: int, b: int = 5) -> int:
        trace.append(["ran", "add", a, b])
        return a + b

    async def echo(text: str) -> str:
        trace.append(["ran", "echo", text])
        return text

    async def boom() -> str:
        trace.append(["ran", "boom"])
        raise ValueError("boom")

    async def nothing() -> None:
        trace.append(["ran", "nothing"])

    async def obj() -> dict[str, Any]:
        trace.append(["ran", "obj"])
        return {"k": [1, None]}

    def sync() -> str:
        trace.append(["ran", "sync"])
        return "sync"

    async def gated(n: int) -> str:
        trace.append(["ran", "gated", n])
        return f"g{n}"

    async def gatedfn(n: int) -> str:
        trace.append(["ran", "gatedfn", n])
        return f"gf{n}"

    async def many(_context: Any, given: dict[str, Any], _call: str) -> bool:
        return given.get("n", 0) > 4

    free = {tool.__name__: sdk.function_tool(tool) for tool in (add, echo, boom, nothing, obj, sync)}
    asks = {"gated": sdk.function_tool(gated, needs_approval=True)}
    return {**free, **asks, "gatedfn": sdk.function_tool(gatedfn, needs_approval=many)}


def guarded(sdk: Any, tool: Any, guard: str, trace: Trace) -> Any:
    """Give a tool its guardrail, or switch it off."""
    made = sdk.ToolGuardrailFunctionOutput
    verdicts = {"reject": lambda: made.reject_content("blocked", 1), "raise": lambda: made.raise_exception(2)}

    def look(data: Any) -> Any:
        trace.append(["tool guardrail", guard, data.context.tool_name, plain(getattr(data, "output", None))])
        return verdicts.get(guard.partition("_")[2], lambda: made.allow(3))()

    if guard.startswith("in_"):
        tool.tool_input_guardrails = [sdk.ToolInputGuardrail(guardrail_function=look, name="look")]
    elif guard.startswith("out_"):
        tool.tool_output_guardrails = [sdk.ToolOutputGuardrail(guardrail_function=look, name="look")]
    else:
        tool.is_enabled = (lambda _context, agent: agent.name != "A0") if guard == "off_here" else False
    return tool


def guardrail(sdk: Any, kind: str, verdict: str, name: str, trace: Trace) -> Any:
    """Make a guardrail of an agent, or of the configuration."""

    async def look(*given: Any) -> Any:
        trace.append([kind, name, given[1].name, *([plain(given[2])] if kind == "output guardrail" else [])])
        if verdict == "raise":
            raise ValueError("the guardrail broke")
        return sdk.GuardrailFunctionOutput(output_info=name, tripwire_triggered=verdict == "trip")

    if kind == "input guardrail":
        return sdk.InputGuardrail(guardrail_function=look, name=name, run_in_parallel=False)
    return sdk.OutputGuardrail(guardrail_function=look, name=name)


def listener(base: Any, prefix: str, names: dict[str, Callable[..., list[Any]]], trace: Trace) -> Any:
    """Make hooks of which each writes down that it was called."""

    def hook(name: str, said: Callable[..., list[Any]]) -> Any:
        async def called(_self: Any, *given: Any, **named: Any) -> None:
            trace.append([f"{prefix}.{name}", *said(*given, *named.values())])

        return called

    hooks = {f"on_{name}": hook(name, said) for name, said in names.items()}
    return new_class("Hooks", (base,), exec_body=lambda body: body.update(hooks))()


RUN_HOOKS: dict[str, Callable[..., list[Any]]] = {
    "handoff": lambda _c, source, target: [source.name, target.name],
    "tool_start": lambda _c, agent, tool: [agent.name, tool.name],
    "tool_end": lambda _c, agent, tool, result: [agent.name, tool.name, plain(result)],
    "llm_start": lambda _c, agent, system, items: [agent.name, system, len(items)],
    "llm_end": lambda _c, agent, _response: [agent.name],
}
AGENT_HOOKS = RUN_HOOKS | {"handoff": lambda _c, agent, source: [agent.name, source.name]}


def ends(sdk: Any, kind: str) -> Any:
    """Return when the results of tools end an agent's work."""

    async def function(_context: Any, results: list[Any]) -> Any:
        echoed = any(result.tool.name == "echo" for result in results)
        return sdk.ToolsToFinalOutputResult(is_final_output=echoed, final_output="by a function")

    return {"stop_at": {"stop_at_tool_names": ["add", "gated"]}, "function": function}.get(kind, kind)


def agents_of(sdk: Any, made: World, trace: Trace) -> list[Any]:
    """Make the agents, and connect them."""
    model = model_of(sdk, made["replies"], trace)

    async def told(_context: Any, agent: Any) -> str:
        return f"You are {agent.name}."

    agents: list[Any] = []
    for place, said in enumerate(made["agents"]):
        known, name = tools_of(sdk, trace), f"A{place}"
        for tool, guard in said["guards"].items():
            guarded(sdk, known[tool], guard, trace)
        looks = {kind: said[kind.replace(" ", "_")] for kind in ("input guardrail", "output guardrail")}
        found = {kind: [guardrail(sdk, kind, to, name, trace)] if to else [] for kind, to in looks.items()}
        agent = sdk.Agent(
            name=name,
            model=model,
            instructions={"text": f"I am {name}.", "function": told}.get(said["instructions"]),
            tools=[known[tool] for tool in said["tools"]],
            tool_use_behavior=ends(sdk, said["ends"]),
            reset_tool_choice=said["reset"],
            model_settings=sdk.ModelSettings(tool_choice=said["choice"], temperature=0.5 if place else None),
            output_type={"Out": Out, "list": list[int]}.get(said["output"]),
            input_guardrails=found["input guardrail"],
            output_guardrails=found["output guardrail"],
            hooks=listener(sdk.AgentHooks, name, AGENT_HOOKS, trace) if said["hooks"] else None,
        )
        agents.append(agent)
    for agent, said in zip(agents, made["agents"], strict=True):
        agent.handoffs = [handoff_to(sdk, said["handoff"], agents[other], trace) for other in said["handoffs"]]
        agent.tools = [*agent.tools, *(agents[other].as_tool(f"ask_a{other}", "Ask.") for other in said["as_tools"])]
    return agents


def handoff_to(sdk: Any, kind: str, agent: Any, trace: Trace) -> Any:
    """Return a handoff to an agent."""

    def begins(_context: Any) -> None:
        trace.append(["on_handoff", agent.name])

    def begins_with(_context: Any, data: Any) -> None:
        trace.append(["on_handoff", agent.name, plain(data)])

    if kind == "typed":
        return sdk.handoff(agent, on_handoff=begins_with, input_type=Out)
    return sdk.handoff(agent, on_handoff=begins) if kind == "handoff" else agent


def config_of(sdk: Any, made: World, trace: Trace) -> Any:
    """Make the run configuration."""
    kind, given = made["config"], dict[str, Any]()
    if kind == "filter_input":
        data = importlib.import_module(f"{sdk.__name__}.run").ModelInputData
        given["call_model_input_filter"] = lambda at: data(input=at.model_data.input[-3:], instructions="filtered")
    elif kind == "settings":
        given["model_settings"] = sdk.ModelSettings(temperature=0.9)
    elif kind is not None:
        look = guardrail(sdk, kind.replace("_", " "), "pass", "configured", trace)
        given[f"{kind}s"] = [look]
    if made["formatted"]:
        given["tool_error_formatter"] = lambda at: f"formatted {at.kind} {at.tool_name}"
    return sdk.RunConfig(tracing_disabled=True, **given)


class Play:
    """Runs one program, and writes down what happens."""

    def __init__(self, sdk: Any, seed: int, streamed: bool) -> None:
        self.sdk, self.made, self.streamed, self.trace = sdk, world(seed), streamed, list[list[Any]]()
        self.agent = agents_of(sdk, self.made, self.trace)[0]
        self.decisions = list(self.made["decisions"])
        self.session = sdk.SQLiteSession("s", ":memory:") if self.made["session"] else None
        self.given: dict[str, Any] = {
            "max_turns": self.made["max_turns"],
            "run_config": config_of(sdk, self.made, self.trace),
            "hooks": listener(sdk.RunHooks, "run", RUN_HOOKS, self.trace),
            "session": self.session,
        }
        if self.made["handled"]:
            handled = dict.fromkeys(("max_turns", "model_refusal"), self._handled)
            self.given["error_handlers"] = handled

    def _handled(self, data: Any) -> str:
        self.trace.append(["handled", type(data.error).__name__])
        return "handled"

    async def once(self, given: Any) -> Any:
        """Run or resume, and write down the result."""
        runner = self.sdk.Runner
        if not self.streamed:
            result = await runner.run(self.agent, given, **self.given)
        else:
            result, names = runner.run_streamed(self.agent, given, **self.given), list[list[str]]()
            async for event in result.stream_events():
                if event.type == "run_item_stream_event":
                    names.append([event.name, event.item.type])
                elif event.type == "agent_updated_stream_event":
                    names.append(["agent", event.new_agent.name])
            self.trace.append(["events", names])
        items = [
            [item.type, item.agent.name, plain(item.raw_item), plain(getattr(item, "output", None))]
            for item in result.new_items
        ]
        looks = [
            [one.guardrail.get_name(), plain(one.output.output_info)]
            for one in (*result.input_guardrail_results, *result.output_guardrail_results)
        ]
        usage, replies = result.context_wrapper.usage, len(result.raw_responses)
        self.trace.append(["result", plain(result.final_output), result.last_agent.name, items, looks, replies])
        self.trace.append(["usage", usage.requests, usage.total_tokens])
        if self.session is None:
            self.trace.append(["input list", plain(result.to_input_list())])
        return result

    async def decided(self, result: Any) -> Any:
        """Decide everything that waits, and return the state."""
        waits = [[item.name, item.arguments, item.agent.name] for item in result.interruptions]
        self.trace.append(["interruptions", waits])
        state = result.to_state()
        if self.made["saved"]:
            state = await self.sdk.RunState.from_string(self.agent, state.to_string())
        for item in state.get_interruptions():
            decision = self.decisions.pop(0) if self.decisions else "approve"
            if decision == "never" and len(waits) > 1:  # there it takes approvals back that were given before it
                decision = "reject"
            self.trace.append(["decided", decision])
            if decision in ("approve", "always"):
                state.approve(item, always_approve=decision == "always")
            else:
                words = {"rejection_message": "Not today."} if decision == "words" else {}
                state.reject(item, always_reject=decision == "never", **words)
        return state

    async def through(self) -> Trace:
        """Run the program to its end."""
        talk = [{"role": role, "content": text} for role, text in (("user", "Hi."), ("assistant", "Yes?"))]
        given: Any = [*talk, {"role": "user", "content": "Go."}]
        try:
            result = await self.once("Hello." if self.session or not self.made["conversation"] else given)
            for _ in range(6):
                if not result.interruptions:
                    break
                result = await self.once(await self.decided(result))
            if self.made["again"] and not result.interruptions:
                more = {"role": "user", "content": "And again."}
                result = await self.once("And again." if self.session else [*result.to_input_list(), more])
            if self.session is not None:
                self.trace.append(["session", plain(await self.session.get_items())])
        except Exception as error:
            name = "UserError" if isinstance(error, self.sdk.UserError) else type(error).__name__
            self.trace.append(["raised", name])
        return self.trace


async def traced(name: str, seed: int, streamed: bool) -> Trace:
    """Run the program of a seed on an SDK, and return what happened."""
    return await asyncio.wait_for(Play(importlib.import_module(name), seed, streamed).through(), SECONDS)


def main(name: str, first: int, count: int) -> None:
    """Run the programs, and print them."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    os.environ.setdefault("KEYTURN_SECRET", "x" * 40)
    if name == "agents":
        importlib.import_module(name).set_tracing_disabled(True)
    for seed in range(first, first + count):
        for streamed in (False, True):
            print(json.dumps([seed, streamed, asyncio.run(traced(name, seed, streamed))]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
