"""The agents of a plan, made anew in each process: their tools, and a model that answers at random.

Tools are code and shared by all processes, as a program's functions are; what a tool does is the world's affair.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import cache
from random import Random
from typing import Any

from keyturn import Agent, Approval, function_tool
from keyturn.agents.guardrail import GuardrailFunctionOutput, InputGuardrail, OutputGuardrail
from keyturn.agents.tool_guardrail import ToolGuardrailFunctionOutput, ToolInputGuardrail
from keyturn.models.base import Model, ModelResponse, Usage
from keyturn.realtime import RealtimeAgent
from keyturn.tools.context import ToolContext

from .knobs import Spec
from .loop import PROCESS
from .plan import AgentPlan
from .poison import Hooks, poison
from .who import BOARD, CHIEFS, LEADS
from .world import World

#: By gate, the terms of a tool.
TERMS = {
    "expires": Approval(expires="90s"),
    "stale": Approval(execute_by="45s"),
    "two": Approval(quorum=2),
    "again": Approval(expires="60s", on_expiry="ask_again", max_asks=2),
    "escalates": Approval(expires="60s", on_expiry="escalate", escalate_to=["role:leads"]),
    "led": Approval(role=LEADS),
    "two_led": Approval(role=LEADS, quorum=2),
    "glass": Approval(role=BOARD, break_glass=CHIEFS),
    "chain": Approval(
        steps=[
            Approval(role=LEADS, expires="90s", on_expiry="ask_again", max_asks=2),
            Approval(role=LEADS, expires="120s", execute_by="45s"),
        ]
    ),
    "chain_glass": Approval(
        steps=[
            Approval(role=BOARD, break_glass=CHIEFS),
            Approval(role=LEADS, execute_by="45s", break_glass=CHIEFS),
        ]
    ),
}
BROKEN = ('{"n": 1, "n": 2}', "nonsense", "[]", "null", '{"n": NaN}', "", '{"n": "many"}', '{"n": 1e999}')


def here() -> World:
    """The world as code finds it that runs in some process: tools are not told where they are."""
    return PROCESS.get().here["world"]


class ProviderDown(Exception):
    """The model's provider does not answer."""


def cast_of(plan: AgentPlan, world: World) -> Agent[Any]:
    """The agent of a plan, with all below it."""
    return _made(plan, world, RandomModel(world))


def voice_of(plan: AgentPlan, world: World) -> RealtimeAgent[Any]:
    """The same as one that is talked to."""
    model = RandomModel(world)

    def tools(of: AgentPlan) -> list[Any]:
        return [_tool(spec, world) for spec in of.tools]

    colleague = [] if plan.colleague is None else [RealtimeAgent[Any]("second", tools=tools(plan.colleague))]
    clerks = [_made(below, world, model).as_tool(f"clerk_{at}", "Ask a clerk.") for at, below in enumerate(plan.nested)]
    return RealtimeAgent("voice", instructions="Help.", tools=[*tools(plan), *clerks], handoffs=colleague)


def _made(plan: AgentPlan, world: World, model: RandomModel) -> Agent[Any]:
    tools: list[Any] = [_tool(spec, world) for spec in plan.tools]
    late = [tool for spec, tool in zip(plan.tools, tools, strict=True) if spec.name == world.plan.kinds.late]
    model.late += late
    for index, below in enumerate(plan.nested):
        nested = _made(below, world, model)
        tools.append(nested.as_tool(f"clerk_{index}", "Ask a clerk.", needs_approval=plan.asks_first))
    made: Agent[Any] = Agent(
        name=plan.name,
        model=model,
        tools=tools,
        handoffs=[_made(plan.colleague, world, model)] if plan.colleague is not None else [],
        hooks=Hooks() if "hook" in world.plan.kinds.poisoned else None,
        input_guardrails=[_INPUT[plan.guardrail]] if plan.guardrail else [],
        output_guardrails=[_OUTPUT] if plan.checked else [],
        tool_use_behavior={"stop_at_tool_names": [plan.stops_at]} if plan.stops_at else "run_llm_again",
    )
    return made


def _tool(spec: Spec, world: World) -> Any:
    """A tool as this deployment has it; one that is assigned to while it is used is its process's own."""
    kinds, version = world.plan.kinds, world.version
    make = tool_of.__wrapped__ if spec.name == kinds.late else tool_of
    return make(kinds.deployed(spec, version), version if spec.name in world.plan.changing else 1)


@cache
def tool_of(spec: Spec, version: int) -> Any:
    """The tool of a spec; another version says something else of itself."""

    async def work(context: ToolContext[Any], n: int, note: str = "") -> Any:
        return await here().used(context, spec, {"n": n, "note": note})

    def needs(_context: Any, params: dict[str, Any], call_id: str) -> bool:
        poison("needs")
        if params["n"] == 99:
            raise ValueError("cannot say")
        asks = spec.asks(params)
        if not asks:
            here().witness.cleared.add((spec.name, call_id, params["n"]))
        here().meddle(params)
        return asks

    def check(context: Any) -> Any:
        return here().probed(context)

    return function_tool(
        work,
        name_override=spec.name,
        description_override=f"Does {spec.name}, version {version}.",
        strict_mode=False,
        needs_approval=needs if spec.gate == "asks_if" else spec.gate == "asks",
        approval=TERMS.get(spec.gate),
        idempotent=spec.recover == "retry",
        read_only=spec.recover == "read",
        check=check if spec.recover == "probe" else None,
        timeout=spec.timeout,
        tool_input_guardrails=[_TOOL_INPUT] if spec.guarded else None,
    )


def _look_at_arguments(_data: Any) -> ToolGuardrailFunctionOutput:
    poison("tool guardrail")
    world = here()
    if world.calm or world.tool_dice.random() < 0.8:
        return ToolGuardrailFunctionOutput.allow()
    world.count("tool guardrail said no")
    return ToolGuardrailFunctionOutput.reject_content("not with these")


async def _look(_context: Any, _agent: Any, _value: Any) -> GuardrailFunctionOutput:
    poison("guardrail")
    world = here()
    tripped = not world.calm and world.tool_dice.random() < 0.1
    if tripped:
        world.count("guardrail tripped")
    return GuardrailFunctionOutput(None, tripwire_triggered=tripped)


_TOOL_INPUT = ToolInputGuardrail(_look_at_arguments, name="arguments")
_INPUT = {
    "before": InputGuardrail(_look, name="before", run_in_parallel=False),
    "beside": InputGuardrail(_look, name="beside", run_in_parallel=True),
}
_OUTPUT = OutputGuardrail(_look, name="answer")


class RandomModel(Model):
    """Says whatever the dice say: an answer, calls, or what no model should say."""

    model = "random"

    def __init__(self, world: World) -> None:
        self._world = world
        self.late: list[Any] = []
        self.gated = False

    async def get_response(self, *asked: Any, **_kept: Any) -> ModelResponse:
        world = self._world
        _instructions, given, _settings, tools, _schema, handoffs, _tracing = asked
        dice = world.model_dice
        world.count("replies")
        if dice.random() < 0.2:
            await world.pause(dice)
        poison("model")
        odd = world.plan.knobs.misbehaviour and not world.calm
        if odd and dice.random() < 0.02:
            raise ProviderDown("the provider is down")
        said = [item for item in given if item.get("type") == "function_call"]
        output: list[Any] = []
        if dice.random() < min(0.95, 0.15 + 0.12 * len(said) + 0.5 * world.calm):
            output = [_message(f"done after {len(said)}")]
        else:
            output = self._calls(dice, [*tools, *handoffs], said, odd)
        for item in given:  # a model is code as well, and may edit what it was handed
            world.meddle(item)
        return ModelResponse(output, Usage(requests=1, input_tokens=len(given), output_tokens=1))

    def _calls(self, dice: Random, tools: list[Any], said: list[Any], odd: bool) -> list[Any]:
        calls = [self._call(dice, dice.choice(tools)) for _ in range(dice.randint(1, self._world.plan.knobs.calls))]
        if odd and dice.random() < 0.1:
            calls.append(dict(dice.choice(calls)))  # the same id with the same content: one call
            self._world.count("model repeats itself")
        if odd and said and dice.random() < 0.15:
            calls[0]["call_id"] = dice.choice(said)["call_id"]  # an id of an earlier turn
            self._world.count("model reuses an id")
        if odd and dice.random() < 0.02:
            calls.append({**calls[0], "arguments": '{"n": 98}'})  # one id, two calls: refused as a whole
            self._world.count("model gives two calls one id")
        if odd and dice.random() < 0.08:
            dice.choice(calls)["arguments"] = dice.choice(BROKEN)
            self._world.count("model writes bad arguments")
        return calls

    def _call(self, dice: Random, tool: Any) -> dict[str, Any]:
        self._world.labels += 1
        late = self.gated and tool.name == self._world.plan.kinds.late
        note = f', "note": "late {PROCESS.get().name}"' if late else ""
        arguments = f'{{"n": {dice.randrange(100)}{note}}}' if "n" in _asked(tool) else "{}"
        if "input" in _asked(tool):
            arguments = f'{{"input": "task {self._world.labels}"}}'
        return {
            "type": "function_call",
            "call_id": f"c{self._world.labels}",
            "name": tool.name,
            "arguments": arguments,
        }

    async def stream_response(self, *asked: Any, **kept: Any) -> AsyncIterator[Any]:
        reply = await self.get_response(*asked, **kept)
        yield {"type": "response.completed", "response": reply}


def _asked(tool: Any) -> Any:
    return tool.params_json_schema.get("properties", {})


def _message(text: str) -> dict[str, Any]:
    return {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }
