"""A tool behind a gate that adds to its own, such as a toolset's: it is that tool in all else, and stays it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from unittest.mock import Mock

import pytest

from keyturn import (
    Agent,
    App,
    Approval,
    Computer,
    ComputerTool,
    NotAllowed,
    Policy,
    Rule,
    RunHooks,
    ShellTool,
    ToolGuardrailFunctionOutput,
    UserError,
    function_tool,
    tool_input_guardrail,
)
from keyturn.core.settable import settable_names
from keyturn.deep import create_deep_agent
from keyturn.deferred import Agent as DeferredAgent
from keyturn.deferred import ApprovalRequiredToolset, FunctionToolset
from keyturn.testing import ScriptedModel, function_call
from keyturn.tools.base import Prepared, Tool
from keyturn.tools.gates import always_asks
from tests.mcp.test_own_servers import Desk
from tests.playing import Run, call
from tests.public_objects import MAKERS
from tests.table import each

DECIDES = {"ComputerTool": "on_safety_check", "HostedMCPTool": "on_approval_request"}
TOOLS = [name for name, make in MAKERS.items() if isinstance(make(), Tool) and name != "Handoff"]
SEEN: dict[str, Any] = {"approval": Approval(role="finance"), "risk": "high", "needs_approval": True}


def never(*_call: object) -> bool:
    return False


def always(*_call: object) -> bool:
    return True


def behind(tool: Any, *, asks: Any = never) -> Any:
    toolset: Any = FunctionToolset([tool]).approval_required(asks)
    return toolset.static()[0]


@each("name", TOOLS)
def test_no_attribute_of_a_tool_behind_a_gate_is_another_tools(name: str) -> None:
    made = behind(MAKERS[name](**({DECIDES[name]: never} if name in DECIDES else {})))
    names: set[str] = {*vars(made), *settable_names(made.__class__), "on_approval", "prepare", "preview"}
    owners: dict[str, Any] = {one: getattr(getattr(made, one, None), "__self__", made) for one in names}
    assert [one for one, owner in owners.items() if isinstance(owner, Tool) and owner is not made] == []


@each("name", TOOLS)
def test_what_is_set_of_a_tool_is_what_its_toolset_offers(name: str) -> None:
    tool = MAKERS[name]()
    if name != "HostedMCPTool":  # whose requests all ask
        tool.needs_approval = False
    made = behind(behind(tool))
    assert (type(made).__name__, isinstance(made, type(tool))) == (type(tool).__name__, True)
    assert always_asks(made) == (name == "HostedMCPTool")
    for each_name, value in SEEN.items():
        setattr(tool, each_name, value)
        assert getattr(made, each_name) == value
    with pytest.raises(AttributeError, match=r"needs_approval.*follows from what else is set"):
        made.needs_approval = False


async def test_a_tool_with_slots_keeps_what_is_in_them_behind_a_gate() -> None:
    @dataclass(slots=True)
    class Radio(Tool):
        kind = "radio"
        name: str = "radio"
        wave: int = 1

        def spec(self) -> dict[str, Any]:
            return {"name": self.name, "wave": self.wave}

        def prepare(self, item: Any) -> Prepared:
            return Prepared("{}")

        async def invoke(self, context: Any, prepared: Prepared) -> Any:
            return self.wave

        def output(self, item: Any, value: Any) -> Any:
            return {}

    radio = Radio()
    made = behind(radio)
    radio.wave = 7
    assert (made.name, made.spec(), await made.invoke(None, Prepared("{}"))) == ("radio", radio.spec(), 7)


def test_a_tool_whose_calls_nobody_sees_is_refused_behind_a_gate() -> None:
    with pytest.raises(UserError, match="its commands run at the provider"):
        behind(ShellTool(environment={"type": "container_auto"}))


# --------------------------------------------------------------------------------------------------- safety checks

CHECK = {"id": "s1", "code": "sensitive_domain", "message": "This is a bank."}
CLICK = {"type": "click", "x": 1, "y": 1, "button": "left"}
CLICKS = {"type": "computer_call", "call_id": "c1", "actions": [CLICK], "pending_safety_checks": [CHECK]}


def with_screen(how: str) -> tuple[Any, Any]:
    """Make an agent with a computer whose safety checks are all acknowledged in line, and which asks besides."""
    desk = Mock(spec=Computer, environment="browser", dimensions=(10, 10))
    desk.screenshot.return_value = b"\x89PNG"
    tool: Any = ComputerTool(desk, on_safety_check=lambda _data: True)
    model = ScriptedModel([[CLICKS], "done"])
    if how == "interrupt_on":
        return desk, create_deep_agent(model, tools=[tool], interrupt_on={"computer": True}, name="a")
    if how == "policy":
        return desk, Agent("a", model=model, tools=[tool])
    asks = None if how == "toolset" else always
    return desk, DeferredAgent(model, name="a", toolsets=[FunctionToolset([tool]).approval_required(asks)])


@pytest.mark.each
@pytest.mark.parametrize("how", ["toolset", "toolset with a function", "interrupt_on", "policy"])
async def test_acknowledged_safety_checks_approve_no_call_about_which_another_asks(how: str) -> None:
    desk, agent = with_screen(how)
    async with App(
        [agent], "memory://", policy=Policy(Rule("ask", tool="computer")) if how == "policy" else None
    ) as app:
        await (await app.start("a", "go")).wait()
        assert [row.tool for row in await app.inbox.list()] == ["computer"]
    desk.click.assert_not_called()


# ------------------------------------------------------------------------------------------------------- late settings


async def test_terms_that_are_set_of_a_tool_hold_behind_the_gate_of_its_toolset() -> None:
    @function_tool
    def pay() -> str:
        raise AssertionError("nothing lets it run")

    model = ScriptedModel([[function_call("pay", {}, call_id="c1")], "done"])
    agent = DeferredAgent(model, name="a", toolsets=[FunctionToolset([pay]).approval_required()])
    async with App([agent], "memory://") as app:
        pay.approval = Approval(role="finance", quorum=2)
        await (await app.start("a", "go")).wait()
        (row,) = await app.inbox.list()
        with pytest.raises(NotAllowed):
            await app.inbox.approve(row, by="mallory")


class Late(RunHooks[Any]):
    """Sets something just before a call starts."""

    def __init__(self, owner: Any, name: str, value: object) -> None:
        self.what = owner, name, value

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        setattr(*self.what)


async def test_a_gate_that_is_set_just_before_the_start_asks_behind_the_gate_of_a_toolset() -> None:
    tool = function_tool(lambda: "paid", name_override="pay")
    model = ScriptedModel([[function_call("pay", {}, call_id="c1")], "done"])
    agent = DeferredAgent(model, name="a", toolsets=[FunctionToolset([tool]).approval_required(never)])
    async with App([agent], "memory://", hooks=Late(tool, "needs_approval", True)) as app:
        await (await app.start("a", "go")).wait()
        assert len(await app.inbox.list()) == 1


@pytest.mark.parametrize("given", [None, never])
async def test_a_servers_require_approval_that_is_set_just_before_the_start_asks(run: Run, given: Any) -> None:
    server = Desk(require_approval=given)
    agent = Agent("a", model=ScriptedModel([[call("say", "c1", text="hi")], "done"]), mcp_servers=[server])
    result = await run(agent, "go", hooks=Late(server, "require_approval", "always"))
    assert (len(result.interruptions), server.called) == (1, [])


async def test_a_servers_guardrails_and_trust_hold_for_tools_that_were_listed_before() -> None:
    @tool_input_guardrail
    def refuses(data: Any) -> ToolGuardrailFunctionOutput:
        return ToolGuardrailFunctionOutput.reject_content("not today")

    server: Any = Desk()
    agent: Any = Agent("a", mcp_servers=[server])
    tool: Any = (await server.tools_for(None, agent))[0]
    made = ApprovalRequiredToolset(server).recorded_tool(tool.spec(), agent)
    assert (tool.tool_input_guardrails, tool.read_only) == (None, False)
    own, server.tool_input_guardrails = list[Any](), [refuses]
    assert tool.tool_input_guardrails == made.tool_input_guardrails == [refuses]
    tool.tool_input_guardrails = own
    assert tool.tool_input_guardrails is own
    assert (always_asks(made), made.spec()) == (True, tool.spec()), "it asks as its toolset says, also of a log"
