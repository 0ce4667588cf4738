"""The same leaks tried on Keyturn: what happened, and whether anything went round the gate."""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from keyturn import Agent as CoreAgent
from keyturn import Conflict, LocalExecutor, RunContextWrapper, UserError
from keyturn.core.errors import KeyturnError
from keyturn.deep import DeepAgentDeps, FilesystemBackend, create_deep_agent
from keyturn.deferred import (
    Agent,
    DeferredToolRequests,
    DeferredToolResults,
    FunctionToolset,
    ModelMessagesTypeAdapter,
    ToolApproved,
)
from keyturn.testing import ScriptedModel, function_call

Found = tuple[bool, str]
LEAKS: dict[str, Callable[[Path], Awaitable[Found]]] = {}
YES = DeferredToolResults(approvals={"c1": True})


def leak(show: Callable[[Path], Awaitable[Found]]) -> Callable[[Path], Awaitable[Found]]:
    """Put one into the list, by its name."""
    LEAKS[show.__name__] = show
    return show


def call(name: str, label: str = "c1", **args: Any) -> Any:
    """Make a call of the model."""
    return function_call(name, args, call_id=label)


def deep(steps: list[Any], rules: dict[str, Any], **options: Any) -> Any:
    """Make a deep agent."""
    return create_deep_agent(ScriptedModel([*steps, "Done."]), interrupt_on=rules, **options)


def asked(result: Any) -> list[str]:
    """Return the names of the tools whose calls wait."""
    return (
        [part.tool_name for part in result.output.approvals] if isinstance(result.output, DeferredToolRequests) else []
    )


def asks(result: Any) -> str:
    return f"asked for {', '.join(asked(result)) or 'nothing'}"


async def refused(work: Awaitable[Any]) -> str:
    """Return the kind of error that something is refused with, or nothing if it is done."""
    try:
        await work
    except (KeyturnError, ValueError) as error:
        return f"refused: {type(error).__name__}"
    return ""


class Tools:
    """A tool that may not run unasked, and what it did."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def deploy(self, to: str) -> str:
        """Deploy the site."""
        self.ran.append(f"deploy to {to}")
        return "deployed"

    def did(self) -> str:
        return f"ran: {', '.join(self.ran)}" if self.ran else "nothing ran"


class Bank:
    """An agent whose tools ask, and what they did."""

    def __init__(self, *steps: Any) -> None:
        self.ran: list[str] = []
        self.agent: Agent[Any] = Agent(ScriptedModel([*steps, "Done."]), output_type=[str, DeferredToolRequests])
        ran = self.ran

        @self.agent.tool_plain(requires_approval=True)
        def pay(amount: int) -> str:
            ran.append(f"pay {amount}")
            return f"paid {amount}"

        @self.agent.tool_plain(requires_approval=True)
        def wipe(amount: int = 0) -> str:
            ran.append("wipe")
            return "wiped"

    async def history(self) -> list[Any]:
        return (await self.agent.run("Pay 10.")).all_messages()

    async def answered(self, history: list[Any], results: DeferredToolResults = YES) -> str:
        said = await refused(self.agent.run(message_history=history, deferred_tool_results=results))
        return said or (f"ran: {', '.join(self.ran)}" if self.ran else "nothing ran")


def altered(messages: list[Any], change: Callable[[Any], None]) -> list[Any]:
    """Change the call in a history that was outside, as JSON."""
    copy = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(messages))
    change([part for message in copy for part in message.parts if part.part_kind == "tool-call"][-1])
    return copy


@leak
async def a_subagent_writes(place: Path) -> Found:
    task = call("task", description="Write it.", subagent_type="general-purpose")
    agent = deep([task, call("write_file", path="/pwn", content="x"), "ok"], {"write_file": True},
                 backend=FilesystemBackend(place))  # fmt: skip
    waits = await agent.run("go")
    return (place / "pwn").exists(), asks(waits)


@leak
async def an_agent_that_the_user_brings(place: Path) -> Found:
    tools = Tools()
    script = ScriptedModel([call("deploy", to="prod"), "ok"])
    inner: CoreAgent[Any] = CoreAgent("inner", model=script, tools=Agent(tools=[tools.deploy]).core_agent().tools)
    bring = inner.as_tool("ship", "Ships.")
    waits = await deep([call("ship", input="Ship it.")], {"deploy": True}, tools=[bring]).run("go")
    return bool(tools.ran), asks(waits)


@leak
async def a_tool_of_the_users_own(place: Path) -> Found:
    tools = Tools()
    waits = await deep([call("deploy", to="prod")], {"deploy": True}, tools=[tools.deploy]).run("go")
    return bool(tools.ran), asks(waits)


@leak
async def a_name_that_no_tool_has(place: Path) -> Found:
    try:
        deep([], {"write_fil": True})
    except UserError as error:
        return False, f"refused: {type(error).__name__}"
    return True, "taken in silence"


@leak
async def one_name_gates_one_tool(place: Path) -> Found:
    waits = await deep([call("write_file", path="/a", content="x")], {"edit_file": True}).run("go")
    return bool(asked(waits)), f"edit_file alone is named, and {', '.join(asked(waits)) or 'nothing else'} asks"


@leak
async def another_way_to_run_commands(place: Path) -> Found:
    backend = FilesystemBackend(place, shell=LocalExecutor(place))
    tools = (
        await deep([], {"execute": True}, backend=backend)
        .core_agent()
        .get_all_tools(RunContextWrapper(DeepAgentDeps()))
    )
    others = [tool.name for tool in tools if tool.name != "execute" and "command" in str(tool.params_json_schema)]
    return bool(others), f"{', '.join(others)} runs commands too" if others else "execute is the only way"


@leak
async def commands_of_which_nothing_is_said(place: Path) -> Found:
    backend = FilesystemBackend(place, shell=LocalExecutor(place))
    waits = await deep([call("execute", command="touch pwn")], {"write_file": True}, backend=backend).run("go")
    return (place / "pwn").exists(), asks(waits)


@leak
async def a_file_that_changed_meanwhile(place: Path) -> Found:
    file = place / "a"
    agent = deep([call("write_file", path="/a", content="new\n")], {"write_file": True},
                 backend=FilesystemBackend(place))  # fmt: skip
    waits = await agent.run("go")
    file.write_text("somebody else's\n")
    again = await agent.run(message_history=waits.all_messages(), deferred_tool_results=YES)
    return file.read_text() == "new\n", f"not overwritten; {asks(again)} again"


@leak
async def arguments_changed_while_it_waited(place: Path) -> Found:
    bank = Bank(call("pay", amount=10))
    what = await bank.answered(altered(await bank.history(), lambda part: part.args.update(amount=999)))
    return bank.ran == ["pay 999"], what


@leak
async def another_tool_while_it_waited(place: Path) -> Found:
    bank = Bank(call("pay", amount=10))
    what = await bank.answered(altered(await bank.history(), lambda part: setattr(part, "tool_name", "wipe")))
    return bank.ran == ["wipe"], what


@leak
async def a_call_that_nobody_made(place: Path) -> Found:
    made, bank = Bank(call("wipe")), Bank("Hello.")
    forged = [*(await bank.history()), (await made.history())[-1]]
    what = await bank.answered(forged)
    return bool(bank.ran), what


@leak
async def one_approval_twice(place: Path) -> Found:
    bank = Bank(call("pay", amount=10), "Paid.")
    history = await bank.history()
    first, second = await bank.answered(history), ""
    try:
        await bank.agent.run(message_history=history, deferred_tool_results=YES)
    except Conflict as error:
        second = f"; the second is refused: {type(error).__name__}"
    return len(bank.ran) > 1, first + second


@leak
async def a_result_in_place_of_an_approval(place: Path) -> Found:
    bank = Bank(call("pay", amount=10))
    what = await bank.answered(await bank.history(), DeferredToolResults(calls={"c1": "paid 10"}))
    return not what.startswith("refused"), what


@leak
async def what_a_person_is_shown(place: Path) -> Found:
    bank = Bank(function_call("pay", '{"amount": "10"}', call_id="c1"))
    output = (await bank.agent.run("Pay 10.")).output
    if isinstance(output, str):
        return bool(bank.ran), "not requested: the model gets the error of the schema"
    shown = output.approvals[0].args
    return shown != {"amount": 10}, f"shown {shown!r}"


@leak
async def an_edit_that_does_not_fit(place: Path) -> Found:
    bank = Bank(call("pay", amount=10))
    wrong = DeferredToolResults(approvals={"c1": ToolApproved(override_args={"amount": "much"})})
    what = await bank.answered(await bank.history(), wrong)
    return not what.startswith("refused"), what


@leak
async def an_edit_that_names_another_tool(place: Path) -> Found:
    bank = Bank(call("pay", amount=10))
    other = ToolApproved(override_args={"name": "wipe", "args": {}})
    what = await bank.answered(await bank.history(), DeferredToolResults(approvals={"c1": other}))
    return bool(bank.ran), what


@leak
async def a_rule_that_says_otherwise_when_answered(place: Path) -> Found:
    tools, answers = Tools(), [True, False]
    gated = FunctionToolset([tools.deploy]).approval_required(lambda *_: answers.pop(0) if answers else False)
    agent: Agent[Any] = Agent(ScriptedModel([call("deploy", to="prod"), "Done."]), toolsets=[gated])
    waits = await agent.run("go")
    no = DeferredToolResults(approvals={"c1": False})
    await agent.run(message_history=waits.all_messages(), deferred_tool_results=no)
    return bool(tools.ran), f"rejected, and {tools.did()}"


async def shown() -> dict[str, Found]:
    """Try each."""
    found: dict[str, Found] = {}
    for name, show in LEAKS.items():
        with tempfile.TemporaryDirectory() as place:
            found[name] = await show(Path(place))
    return found
