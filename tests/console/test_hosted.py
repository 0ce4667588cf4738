"""Calls that cannot be edited or answered, at the keyboard: only what can be done is offered, and none is confused."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from keyturn import Agent, Computer, ComputerTool, HostedMCPTool, Runner
from keyturn.testing import ScriptedModel
from tests.console.test_console import Keyboard

pytestmark = pytest.mark.usefixtures("own_key")


def server(label: str) -> HostedMCPTool:
    return HostedMCPTool({"type": "mcp", "server_label": label, "server_url": f"https://{label}.example.com/mcp"})


def asks(label: str, server: str) -> dict[str, Any]:
    about = {"server_label": server, "name": "delete", "arguments": '{"page": 1}'}
    return {"type": "mcp_approval_request", "id": label, **about}


def librarian(*requests: dict[str, Any]) -> Agent[Any]:
    model = ScriptedModel([list(requests), "Done."])
    return Agent("librarian", model=model, tools=[server("wiki"), server("mail")])


def test_neither_arguments_nor_a_result_can_be_written() -> None:
    keyboard = Keyboard("e", "w", "edit", "?", "a")
    agent = librarian(asks("r1", "wiki"))
    state = keyboard.decide(Runner.run_sync(agent, "go"))
    assert keyboard.text.count("Unknown key: ") == keyboard.text.count("Nothing was decided.") == 3
    assert "edit its arguments" not in keyboard.text, "nor is it explained"
    result = Runner.run_sync(agent, state)
    assert agent.model.calls[-1].input[-1]["approve"] is True  # type: ignore[union-attr]  # it is the scripted one
    assert result.final_output == "Done."


def test_actions_on_a_computer_cannot_be_edited_but_answered() -> None:
    click = {"type": "click", "x": 1, "y": 2, "button": "left"}
    desktop = Mock(spec=Computer, environment="browser", dimensions=(640, 480))
    agent: Agent[Any] = Agent(
        "clerk",
        model=ScriptedModel([[{"type": "computer_call", "call_id": "c1", "actions": [click]}], "Done."]),
        tools=[ComputerTool(desktop, needs_approval=True)],
    )
    keyboard = Keyboard("e", "w", "I have done it.")
    Runner.run_sync(agent, keyboard.decide(Runner.run_sync(agent, "go")))
    assert "Unknown key: e\n" in keyboard.text
    assert not desktop.click.called


def test_a_grant_covers_no_tool_of_that_name_on_another_server() -> None:
    keyboard = Keyboard("g", "2", "run", "r", "not mail")
    agent = librarian(asks("r1", "wiki"), asks("r2", "mail"), asks("r3", "wiki"))
    state = keyboard.decide(Runner.run_sync(agent, "go"))
    assert not keyboard.lines, "the other server's was asked about, and the first one's only once"
    Runner.run_sync(agent, state)
    told = {item["approval_request_id"]: item["approve"] for item in agent.model.calls[-1].input[-3:]}  # type: ignore[union-attr]  # it is the scripted one
    assert told == {"r1": True, "r2": False, "r3": True}
