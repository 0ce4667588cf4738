"""Each leak on pydantic-deep and Pydantic AI as installed: run as a program, it prints a line of JSON each.

It runs in an environment of its own and imports nothing of Keyturn. The model is their FunctionModel; no network.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import warnings
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ModelMessagesTypeAdapter, ToolApproved
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.toolsets import FunctionToolset
from pydantic_deep import DeepAgentDeps, LocalWorkspace, StateBackend, StateWorkspace, create_deep_agent

Found = tuple[bool, str]
LEAKS: dict[str, Callable[[Path], Awaitable[Found]]] = {}
YES = DeferredToolResults(approvals={"c1": True})


def leak(show: Callable[[Path], Awaitable[Found]]) -> Callable[[Path], Awaitable[Found]]:
    """Put one into the list, by its name."""
    LEAKS[show.__name__] = show
    return show


def call(name: str, label: str = "c1", args: Any = None, **more: Any) -> ToolCallPart:
    """Make a call of the model."""
    return ToolCallPart(name, more if args is None else args, tool_call_id=label)


def model(*steps: Any) -> FunctionModel:
    """Make a model that says these things, whichever agent asks."""
    left = list(steps)

    def answer(messages: Any, info: Any) -> ModelResponse:
        step = left.pop(0) if left else "Done."
        parts = [TextPart(step)] if isinstance(step, str) else step if isinstance(step, list) else [step]
        return ModelResponse(parts=parts)

    return FunctionModel(answer)


def deep(scripted: FunctionModel, rules: dict[str, Any], **options: Any) -> Any:
    """Make a deep agent with as little else as can be."""
    off = dict.fromkeys(("include_memory", "include_skills", "include_plan", "web_search", "web_fetch"), False)
    return create_deep_agent(
        model=scripted, interrupt_on=rules, context_manager=False, cost_tracking=False, thinking=False,
        edit_format="str_replace", **{**off, **options},
    )  # fmt: skip


def asked(result: Any) -> list[str]:
    """Return the names of the tools whose calls wait."""
    return [part.tool_name for part in getattr(result.output, "approvals", [])]


class Bank:
    """An agent of Pydantic AI whose tools ask, and what they did."""

    def __init__(self, *steps: Any) -> None:
        self.ran: list[Any] = []
        self.agent = Agent(model(*steps), output_type=[str, DeferredToolRequests])
        ran = self.ran

        @self.agent.tool_plain(requires_approval=True)
        def pay(amount: int) -> str:
            ran.append(f"pay {amount}")
            return f"paid {amount}"

        @self.agent.tool_plain(requires_approval=True)
        def wipe(amount: int = 0) -> str:
            ran.append("wipe")
            return "wiped"

    async def waits(self) -> Any:
        return await self.agent.run("Pay 10.")

    def did(self) -> str:
        return f"ran: {', '.join(self.ran)}" if self.ran else "nothing ran"


def altered(messages: list[Any], change: Callable[[Any], None]) -> list[Any]:
    """Change the call in a history that was outside, as JSON."""
    copy = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(messages))
    change(copy[-1].parts[-1])
    return copy


@leak
async def a_subagent_writes(place: Path) -> Found:
    store: dict[str, StateBackend] = {}
    scripted = model(call("task", description="Write it.", subagent_type="general-purpose"),
                     call("write_file", path="/pwn", content="x"), "ok")  # fmt: skip
    agent = deep(scripted, {"write_file": True, "edit_file": True, "execute": True},
                 workspace=StateWorkspace(store=store))  # fmt: skip
    result = await agent.run("go", deps=DeepAgentDeps())
    written = sorted(path for backend in store.values() for path in backend.files)
    return bool(written) and not asked(result), f"written, asked nobody: {written}" if written else "nothing written"


@leak
async def a_tool_of_the_users_own(place: Path) -> Found:
    ran: list[str] = []

    def deploy(to: str) -> str:
        """Deploy the site."""
        ran.append(to)
        return "deployed"

    agent = deep(model(call("deploy", to="prod")), {"deploy": True}, tools=[deploy])
    result = await agent.run("go", deps=DeepAgentDeps())
    return bool(ran), f"deployed to {ran[0]}, asked nobody" if ran else f"asked for {asked(result)}"


@leak
async def a_name_that_no_tool_has(place: Path) -> Found:
    try:
        deep(model(), {"write_fil": True})
    except Exception as error:
        return False, f"refused: {type(error).__name__}"
    return True, "taken in silence"


@leak
async def one_name_gates_one_tool(place: Path) -> Found:
    agent = deep(model(call("write_file", path="/a", content="x")), {"edit_file": True})
    waits = asked(await agent.run("go", deps=DeepAgentDeps()))
    return bool(waits), f"edit_file alone is named, and {', '.join(waits) or 'nothing else'} asks"


@leak
async def another_way_to_run_commands(place: Path) -> Found:
    agent = deep(model(call("start_monitor", command=f"touch {place}/pwn")), {"execute": True},
                 workspace=LocalWorkspace(place))  # fmt: skip
    await agent.run("go", deps=DeepAgentDeps())
    await asyncio.sleep(0.5)
    ran = (place / "pwn").exists()
    return ran, "start_monitor ran a command, asked nobody" if ran else "no command ran"


@leak
async def commands_of_which_nothing_is_said(place: Path) -> Found:
    agent = deep(model(call("execute", command=f"touch {place}/pwn")), {"write_file": True},
                 workspace=LocalWorkspace(place))  # fmt: skip
    waits = asked(await agent.run("go", deps=DeepAgentDeps()))
    ran = (place / "pwn").exists()
    return ran, "write_file is gated, and a command wrote, asked nobody" if ran else f"asked for {', '.join(waits)}"


@leak
async def a_file_that_changed_meanwhile(place: Path) -> Found:
    file = place / "a"
    agent = deep(model(call("write_file", path="a", content="new\n")), {"write_file": True},
                 workspace=LocalWorkspace(place))  # fmt: skip
    waits = await agent.run("go", deps=DeepAgentDeps())
    file.write_text("somebody else's\n")
    await agent.run(message_history=waits.all_messages(), deferred_tool_results=YES, deps=DeepAgentDeps())
    lost = bool(asked(waits)) and file.read_text() == "new\n"
    return lost, "overwritten, asked nobody again" if lost else f"not overwritten: {file.read_text()!r}"


@leak
async def an_agent_that_the_user_brings(place: Path) -> Found:
    ran: list[str] = []
    inner = Agent(model(call("deploy", to="prod"), "ok"), output_type=[str, DeferredToolRequests])

    @inner.tool_plain
    def deploy(to: str) -> str:
        """Deploy the site."""
        ran.append(to)
        return "deployed"

    subagent: Any = {"name": "shipper", "description": "Ships.", "instructions": "Ship.", "agent": inner}
    scripted = model(call("task", description="Ship it.", subagent_type="shipper"))
    agent = deep(scripted, {"deploy": True}, tools=[deploy], subagents=[subagent])
    await agent.run("go", deps=DeepAgentDeps())
    return bool(ran), f"ran: deploy to {ran[0]}" if ran else "nothing ran"


@leak
async def arguments_changed_while_it_waited(place: Path) -> Found:
    bank = Bank(call("pay", amount=10))
    waits = await bank.waits()
    history = altered(waits.all_messages(), lambda part: part.args.update(amount=999))
    await bank.agent.run(message_history=history, deferred_tool_results=YES)
    return bank.ran == ["pay 999"], bank.did()


@leak
async def another_tool_while_it_waited(place: Path) -> Found:
    bank = Bank(call("pay", amount=10))
    waits = await bank.waits()
    history = altered(waits.all_messages(), lambda part: setattr(part, "tool_name", "wipe"))
    await bank.agent.run(message_history=history, deferred_tool_results=YES)
    return bank.ran == ["wipe"], bank.did()


@leak
async def a_call_that_nobody_made(place: Path) -> Found:
    bank = Bank("Hello.")
    history = [*(await bank.waits()).all_messages(), ModelResponse(parts=[call("wipe")])]
    await bank.agent.run(message_history=history, deferred_tool_results=YES)
    return bool(bank.ran), bank.did()


@leak
async def one_approval_twice(place: Path) -> Found:
    bank = Bank(call("pay", amount=10))
    history = (await bank.waits()).all_messages()
    for _ in range(2):
        await bank.agent.run(message_history=history, deferred_tool_results=YES)
    return len(bank.ran) > 1, bank.did()


@leak
async def a_result_in_place_of_an_approval(place: Path) -> Found:
    bank = Bank(call("pay", amount=10))
    history = (await bank.waits()).all_messages()
    try:
        done = await bank.agent.run(
            message_history=history, deferred_tool_results=DeferredToolResults(calls={"c1": "paid 10"})
        )
    except Exception as error:
        return False, f"refused: {type(error).__name__}"
    told = [
        part.content for message in done.all_messages() for part in message.parts if part.part_kind == "tool-return"
    ]
    return told == ["paid 10"], f"nothing ran, and the model is told {told}"


@leak
async def what_a_person_is_shown(place: Path) -> Found:
    bank = Bank(call("pay", args='{"amount": "10"}'))
    shown = (await bank.waits()).output.approvals[0].args
    return not isinstance(shown, dict), f"shown {shown!r}"


@leak
async def a_rule_that_says_otherwise_when_answered(place: Path) -> Found:
    ran: list[str] = []
    answers = [True, False]

    def deploy(to: str) -> str:
        """Deploy the site."""
        ran.append(to)
        return "deployed"

    gated = FunctionToolset([deploy]).approval_required(lambda ctx, tool, args: answers.pop(0) if answers else False)
    agent = Agent(model(call("deploy", to="prod")), toolsets=[gated], output_type=[str, DeferredToolRequests])
    waits = await agent.run("go")
    no = DeferredToolResults(approvals={"c1": False})
    await agent.run(message_history=waits.all_messages(), deferred_tool_results=no)
    return bool(ran), f"rejected, and {'it ran' if ran else 'nothing ran'}"


@leak
async def an_edit_that_does_not_fit(place: Path) -> Found:
    bank = Bank(call("pay", amount=10))
    history = (await bank.waits()).all_messages()
    wrong = DeferredToolResults(approvals={"c1": ToolApproved(override_args={"amount": "much"})})
    try:
        done = await bank.agent.run(message_history=history, deferred_tool_results=wrong)
    except Exception as error:
        return False, f"refused: {type(error).__name__}"
    return True, f"the person is told nothing, the run ends with {done.output!r}"


async def main() -> None:
    """Show each, and say of which versions."""
    warnings.simplefilter("ignore")
    print(json.dumps({"versions": {name: version(name) for name in ("pydantic-deep", "pydantic-ai")}}))
    for name, show in LEAKS.items():
        with tempfile.TemporaryDirectory() as place:
            try:
                leaked, what = await show(Path(place))
            except Exception as error:
                leaked, what = None, f"could not be shown: {type(error).__name__}: {str(error)[:120]}"
        print(json.dumps({"leak": name, "leaked": leaked, "what": what}))


if __name__ == "__main__":
    asyncio.run(main())
