"""A gate in front of a tool takes nothing away of what that tool asks, and hides nothing that is set of it later."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from keyturn import App, Approval, Computer, ComputerTool, HostedMCPTool, NotAllowed, Tool, function_tool
from keyturn.core.items import Item
from keyturn.deferred import Agent, DeferredToolRequests, FunctionToolset
from keyturn.testing import ScriptedModel, function_call
from keyturn.tools.base import always_asks
from keyturn.tools.gated import gated


def no(*_given: Any) -> bool:
    return False


def yes(*_given: Any) -> bool:
    return True


def paying() -> Tool:
    @function_tool
    def pay() -> str:
        return "paid"

    return pay


CHECKS = [{"id": "s1", "code": "sensitive_domain", "message": "This is a bank."}]
CLICK: Item = {
    "type": "computer_call",
    "call_id": "c1",
    "actions": [{"type": "click", "x": 1, "y": 1, "button": "left"}],
    "pending_safety_checks": CHECKS,
}


@pytest.mark.parametrize("asks", [None, yes, no], ids=["all", "yes", "no"])
async def test_on_safety_check_approves_no_call_of_a_computer_behind_a_gate(asks: Any) -> None:
    desk = Mock(spec=Computer, environment="browser", dimensions=(10, 10))
    tool = ComputerTool(desk, on_safety_check=lambda _data: True)
    tools = FunctionToolset([tool]).approval_required(asks)
    agent = Agent(ScriptedModel([[CLICK], "Done."]), output_type=[str, DeferredToolRequests], toolsets=[tools])
    assert isinstance((await agent.run("go")).output, DeferredToolRequests)
    assert not desk.click.called


@pytest.mark.parametrize("twice", [False, True], ids=["a gate", "a gate in front of a gate"])
@pytest.mark.parametrize("asks", [None, no], ids=["all", "none"])
async def test_what_is_set_of_a_tool_behind_a_gate_holds_in_an_app(asks: Any, twice: bool) -> None:
    ran: list[int] = []

    @function_tool
    def pay(amount: int) -> str:
        ran.append(amount)
        return "paid"

    tools = FunctionToolset([pay]).approval_required(asks)
    tools = tools.approval_required(no) if twice else tools
    model = ScriptedModel([[function_call("pay", {"amount": 1})], "Done."])
    app = App([Agent(model, name="desk", toolsets=[tools])], "memory://")
    pay.approval = Approval(role="finance", quorum=2)
    pay.needs_approval = True
    async with app:
        run = await app.start("desk", "go")
        await run.wait()
        [row] = await app.inbox.list()
        assert row.request.terms == pay.approval
        with pytest.raises(NotAllowed):
            await app.inbox.approve(row, by="mallory")
    assert ran == []


def test_a_gate_that_is_set_late_is_heard_in_front_of_a_gate_too() -> None:
    pay = paying()
    asking = gated(gated(pay, no), no)
    assert not always_asks(asking)
    pay.needs_approval = True
    assert always_asks(asking)


def test_a_gated_tool_is_of_the_kind_of_the_tool_behind_it_and_shares_none_of_its_own_settings() -> None:
    pay = paying()
    asking = gated(pay, True)
    asking.risk = "high"
    assert isinstance(asking, type(pay))
    assert (repr(asking), pay.risk, pay.needs_approval) == (repr(pay), None, False)


async def test_a_tool_that_keeps_a_value_in_slots_is_gated_as_any_other() -> None:
    class Slotted(Tool):
        __slots__ = ("kept",)
        kind, name = "slotted", "slotted"

        def __init__(self) -> None:
            self.kept = "value"

        def spec(self) -> dict[str, Any]:
            return {"kept": self.kept}

        def prepare(self, item: Any) -> Any:
            raise NotImplementedError

        async def invoke(self, context: Any, prepared: Any) -> Any:
            raise NotImplementedError

        def output(self, item: Any, value: Any) -> Any:
            raise NotImplementedError

    assert gated(Slotted(), True).spec() == {"kept": "value"}


@pytest.mark.parametrize("required", ["never", {"never": {"tool_names": ["pay"]}}, "always", None], ids=str)
def test_the_provider_requests_approval_for_every_call_of_a_server_behind_a_gate(required: Any) -> None:
    config = {"type": "mcp", "server_label": "docs", "server_url": "https://d.example/mcp"}
    server = HostedMCPTool({**config, "require_approval": required})
    assert server.provider_tool()["require_approval"] == required
    asking: Any = gated(server, no)
    assert asking.provider_tool()["require_approval"] == "always"
    assert asking.spec()["config"]["require_approval"] == "always"
