"""Make the states in `states/` by running real programs of openai-agents, with models that follow a script.

It runs where that SDK is installed, and not in the tests: `python tests/openai_agents/make_states.py`. Each file holds
the state as that SDK saved it, which world it is of, what its tools had done, and what its session held.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import agents
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call
from openai.types.responses import (
    ResponseApplyPatchToolCall,
    ResponseCustomToolCall,
    ResponseFunctionShellToolCall,
    ResponseReasoningItem,
)
from openai.types.responses.response_output_item import McpApprovalRequest

sys.path.insert(0, str(Path(__file__).parent))
from worlds import WORLDS, Account

STATES = Path(__file__).with_name("states")
agents.set_tracing_disabled(True)


def call(tool: str, label: str, /, **given: Any) -> Any:
    return function_call(tool, given, call_id=label)


def used(*output: Any, tokens: int = 10, response: str | None = "resp-1") -> ModelStep:
    return ModelStep(
        output=list(output),
        usage=agents.Usage(requests=1, input_tokens=tokens, output_tokens=1, total_tokens=tokens + 1),
        response_id=response,
    )


class Making:
    """One state in the making: its world, its models' scripts, what was done."""

    def __init__(self, world: str, **scripts: list[Any]) -> None:
        self.world, self.done = world, list[str]()
        self.models = {name: ScriptedModel(steps) for name, steps in scripts.items()}
        self.agent = WORLDS[world](agents, lambda name: self.models.setdefault(name, ScriptedModel([])), self.done)
        self.extra: dict[str, Any] = {}

    async def run(self, given: Any = "Pay them", **options: Any) -> Any:
        return await agents.Runner.run(self.agent, given, **options)

    def save(self, name: str, state: Any, **options: Any) -> None:
        kept = {"world": self.world, "done": self.done, **self.extra, "state": state.to_json(**options)}
        STATES.mkdir(exist_ok=True)
        (STATES / f"{name}.json").write_text(json.dumps(kept, indent=1) + "\n")


def two_payments() -> list[Any]:
    return [
        used(call("look", "l1", name="ann")),
        used(
            ResponseReasoningItem(id="rs_1", type="reasoning", summary=[], encrypted_content="gAAA"),
            assistant_message("I shall pay."),
            call("pay", "p1", to="ann", amount=5),
            call("look", "l2", name="bob"),
            call("pay", "p2", to="bob", amount=6),
            tokens=20,
            response="resp-2",
        ),
    ]


async def waiting() -> None:
    m = Making("desk", desk=two_payments())
    m.save("waiting", (await m.run(context={"who": "me"}, max_turns=7)).to_state())


async def one_decided() -> None:
    m = Making("desk", desk=two_payments())
    state = (await m.run()).to_state()
    first, second = state.get_interruptions()
    state.approve(first)
    state.reject(second, rejection_message="Bob is no customer.")
    m.save("decided", state)


async def for_good() -> None:
    m = Making("desk", desk=two_payments())
    state = (await m.run()).to_state()
    state.approve(state.get_interruptions()[0], always_approve=True)
    m.save("always_approved", state)
    m = Making("desk", desk=two_payments())
    state = (await m.run()).to_state()
    state.reject(state.get_interruptions()[0], always_reject=True, rejection_message="No money today.")
    m.save("always_rejected", state)


async def resumed_in_part() -> None:
    m = Making("desk", desk=two_payments())
    state = (await m.run()).to_state()
    state.approve(state.get_interruptions()[0])
    m.save("resumed_in_part", (await m.run(state)).to_state())


async def for_good_earlier() -> None:
    m = Making("desk", desk=[used(call("pay", "p1", to="ann", amount=5)), used(call("wire", "w1", to="bob"))])
    state = (await m.run()).to_state()
    state.approve(state.get_interruptions()[0], always_approve=True)
    m.save("always_approved_earlier", (await m.run(state)).to_state())


async def message_delivered() -> None:
    m = Making(
        "desk", desk=[*two_payments(), used(call("pay", "p3", to="zoe", amount=7), tokens=30, response="resp-3")]
    )
    state = (await m.run()).to_state()
    for item in state.get_interruptions():
        state.reject(item)
    state.add_input("Pay Zoe then")
    m.save("message_delivered", (await m.run(state)).to_state())


async def same_label_again() -> None:
    script = [
        used(call("look", "c", name="ann")),
        used(call("look", "c", name="ann")),
        used(call("pay", "p", to="a", amount=1)),
    ]
    m = Making("desk", desk=script)
    m.save("label_used_again", (await m.run()).to_state())


async def local_server() -> None:
    m = Making("served", desk=[used(call("delete_note", "n1", name="secrets"))])
    async with m.agent.mcp_servers[0]:
        state = (await m.run()).to_state()
        state.approve(state.get_interruptions()[0])
        m.save("local_server", state)


async def with_input() -> None:
    m = Making("desk", desk=two_payments())
    given = [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hello!"},
        {"role": "user", "content": "Pay"},
    ]
    state = (await m.run(given)).to_state()
    state.add_input("Be quick about it")
    m.save("message_added", state)


async def executed() -> None:
    m = Making("desk", desk=[used(call("wire", "w1", to="ann"), call("pay", "p1", to="bob", amount=1))])
    state = (await m.run()).to_state()
    state.approve(state.get_interruptions()[0])
    try:
        await m.run(state)
    except Exception as error:
        print("executed:", type(error).__name__)
    m.save("executed_without_result", state)


async def inner() -> None:
    scripts = {
        "desk": [used(call("ask_clerk", "a1", input="pay ann"), call("look", "l1", name="zoe"), tokens=1)],
        "clerk": [
            used(call("ask_payer", "b1", input="pay bob"), call("pay", "p1", to="ann", amount=5), tokens=2),
        ],
        "payer": [
            used(call("look", "l2", name="bob"), tokens=3),
            used(call("pay", "p2", to="bob", amount=6), tokens=4),
        ],
    }
    m = Making("nested", **scripts)
    m.save("nested", (await m.run()).to_state())
    m = Making("nested", **scripts)
    state = (await m.run()).to_state()
    for item in state.get_interruptions():
        if json.loads(item.arguments)["to"] == "bob":
            state.approve(item)
        else:
            state.reject(item, rejection_message="Not Ann.")
    m.save("nested_decided", state)


async def inner_finished() -> None:
    m = Making(
        "nested",
        desk=[used(call("ask_clerk", "a1", input="look")), used(call("ask_clerk", "a2", input="pay"))],
        clerk=[used(assistant_message("looked"), tokens=100), used(call("pay", "p1", to="ann", amount=5), tokens=200)],
    )
    m.save("nested_after_another", (await m.run()).to_state())


async def gated() -> None:
    m = Making("gated_agent", desk=[used(call("ask_payer", "a1", input="pay ann"))])
    m.save("agent_tool_waiting", (await m.run()).to_state())


async def handoffs() -> None:
    m = Making(
        "handing_over",
        front=[used(call("look", "l1", name="ann")), used(call("transfer_to_payer", "h1"))],
        payer=[used(call("pay", "p1", to="ann", amount=5))],
    )
    m.save("handed_over", (await m.run()).to_state())
    m = Making(
        "filtering",
        front=[used(call("look", "l1", name="ann")), used(call("transfer_to_payer", "h1"))],
        payer=[used(call("pay", "p1", to="ann", amount=5))],
    )
    m.save("handed_over_filtered", (await m.run()).to_state())


async def handoff_waits() -> None:
    m = Making(
        "handing_over",
        front=[used(call("transfer_to_payer", "h1"))],
        payer=[used(call("pay", "p1", to="ann", amount=5), call("transfer_to_front", "h2"))],
    )
    m.save("handoff_beside_a_wait", (await m.run()).to_state())


def request(label: str, name: str) -> Any:
    return McpApprovalRequest(
        id=label, type="mcp_approval_request", server_label="wiki", name=name, arguments='{"page":"home"}'
    )


async def servers() -> None:
    def script() -> list[Any]:
        both = used(request("mcpr_2", "write"), call("pay", "p1", to="ann", amount=5))
        return [used(request("mcpr_1", "read")), both]

    m = Making("hosted", desk=script())
    state = (await m.run()).to_state()
    state.approve(state.get_interruptions()[0])
    m.save("hosted", (await m.run(state)).to_state())
    m = Making("hosted", desk=script())
    state = (await m.run()).to_state()
    state.approve(state.get_interruptions()[0], always_approve=True)
    m.save("hosted_always", state)
    m = Making("hosted", desk=script())
    state = (await m.run()).to_state()
    state.reject(state.get_interruptions()[0], rejection_message="not today")
    m.save("hosted_rejected", state)


async def kinds() -> None:
    def script() -> list[Any]:
        return [
            used(
                ResponseFunctionShellToolCall.model_validate(
                    {
                        "id": "sh_1",
                        "type": "shell_call",
                        "call_id": "s1",
                        "status": "completed",
                        "action": {"commands": ["ls"], "timeout_ms": 500, "max_output_length": 100},
                    }
                ),
                ResponseApplyPatchToolCall.model_validate(
                    {
                        "id": "ap_1",
                        "type": "apply_patch_call",
                        "call_id": "a1",
                        "status": "completed",
                        "operation": {"type": "create_file", "path": "a.txt", "diff": "+hello\n"},
                    }
                ),
                ResponseCustomToolCall(
                    id="ct_1", type="custom_tool_call", call_id="q1", name="query", input="select 1"
                ),
            )
        ]

    m = Making("commands", desk=script())
    m.save("commands", (await m.run()).to_state())
    m = Making("commands", desk=script())
    state = (await m.run()).to_state()
    for item in state.get_interruptions():
        state.approve(item)
    m.save("commands_approved", state)
    m = Making("commands", desk=script())
    state = (await m.run()).to_state()
    state.approve(state.get_interruptions()[0])
    m.save("commands_in_part", (await m.run(state)).to_state())


async def guards() -> None:
    m = Making("guarded", desk=two_payments())
    m.save("guarded", (await m.run()).to_state())


async def sessions() -> None:
    m = Making("desk", desk=[used(assistant_message("Hello."), tokens=1), *two_payments()])
    session = agents.SQLiteSession("s")
    await m.run("Hello", session=session)
    state = (await m.run("Pay them", session=session)).to_state()
    m.extra["session"] = await session.get_items()
    m.save("session", state)
    m.models["desk"]  # the same, with one of two calls executed at a first resume
    m = Making("desk", desk=[used(assistant_message("Hello."), tokens=1), *two_payments()])
    session = agents.SQLiteSession("s")
    await m.run("Hello", session=session)
    state = (await m.run("Pay them", session=session)).to_state()
    state.approve(state.get_interruptions()[0])
    state = (await m.run(state, session=session)).to_state()
    m.extra["session"] = await session.get_items()
    m.save("session_resumed_in_part", state)


async def contexts() -> None:
    m = Making("desk", desk=two_payments())
    m.save("context_of_a_type", (await m.run(context=Account("ann"))).to_state())
    m = Making("desk", desk=two_payments())
    m.save("context_omitted", (await m.run(context=object())).to_state())


async def chained() -> None:
    m = Making("desk", desk=two_payments())
    m.save("chained", (await m.run(auto_previous_response_id=True, previous_response_id="resp-0")).to_state())
    m = Making("desk", desk=two_payments())
    m.save("conversation", (await m.run(conversation_id="conv_1")).to_state())


async def twins() -> None:
    m = Making(
        "twins", desk=[used(call("ask_two", "a1", input="x"))], payer=[used(call("pay", "p1", to="ann", amount=5))]
    )
    m.save("twins", (await m.run()).to_state())


async def others() -> None:
    m = Making("desk", desk=[used(assistant_message("Done."))])
    m.save("finished", (await m.run()).to_state())
    m = Making("desk", desk=[])
    m.save("not_started", agents.RunState(agents.RunContextWrapper(None), "Pay them", m.agent, 3))
    m = Making("desk", desk=two_payments())
    result = agents.Runner.run_streamed(m.agent, "Pay them")
    async for event in result.stream_events():
        if event.type == "run_item_stream_event" and event.name == "tool_output":
            result.cancel(mode="after_turn")
    m.save("between_turns", result.to_state())
    m = Making("desk", desk=two_payments())
    config = agents.RunConfig(reasoning_item_id_policy="omit")
    m.save("reasoning_ids_omitted", (await m.run(run_config=config)).to_state())
    agents.set_tracing_disabled(False)
    agents.set_trace_processors([])
    m = Making("desk", desk=two_payments())
    config = agents.RunConfig(workflow_name="payday", group_id="g1", trace_metadata={"team": "money"})
    m.save("traced", (await m.run(run_config=config)).to_state())
    agents.set_tracing_disabled(True)


async def main() -> None:
    for make in (
        waiting, one_decided, for_good, for_good_earlier, resumed_in_part, message_delivered, same_label_again,
        local_server, with_input, executed, inner, inner_finished, gated, handoffs,
        handoff_waits, servers, kinds, guards, sessions, contexts, chained, twins, others,
    ):  # fmt: skip
        try:
            await make()
        except Exception as error:
            print(make.__name__, type(error).__name__, error)


if __name__ == "__main__":
    asyncio.run(main())
