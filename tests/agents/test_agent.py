"""What an agent is declared with, and how wrong declarations are told."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import pytest

from keyturn.agents.agent import Agent, AgentBase, FunctionToolResult, StopAtTools, ToolsToFinalOutputResult
from keyturn.agents.guardrail import GuardrailFunctionOutput, InputGuardrail
from keyturn.agents.handoff import handoff
from keyturn.agents.hooks import AgentHooks
from keyturn.agents.output import AgentOutputSchema
from keyturn.core.errors import UserError
from keyturn.models.base import ModelSettings
from keyturn.tools.agent_tool import AgentTool
from tests.table import each

FIELDS = [
    "name",
    "instructions",
    "prompt",
    "handoff_description",
    "handoffs",
    "model",
    "model_settings",
    "tools",
    "mcp_servers",
    "mcp_config",
    "input_guardrails",
    "output_guardrails",
    "output_type",
    "hooks",
    "tool_use_behavior",
    "reset_tool_choice",
]


def test_the_fields_are_the_contracts_in_its_order() -> None:
    assert [each.name for each in dataclasses.fields(Agent)] == FIELDS


def test_an_agent_needs_only_a_name() -> None:
    agent: Agent[Any] = Agent("a")
    assert (agent.model_settings, agent.tool_use_behavior, agent.reset_tool_choice) == (
        ModelSettings(),
        "run_llm_again",
        True,
    )
    assert agent.tools == agent.handoffs == agent.mcp_servers == []
    assert isinstance(agent, AgentBase)
    assert hash(agent)
    assert agent != Agent("a")
    assert Agent[int](name="typed").name == "typed"


@each(
    ("wrong", "said"),
    [
        ({"name": 3}, "Agent name must be a string, got int"),
        ({"tools": "search"}, "Agent tools must be a list, got str"),
        ({"handoffs": ()}, "Agent handoffs must be a list, got tuple"),
        ({"mcp_servers": None}, "Agent mcp_servers must be a list, got NoneType"),
        ({"mcp_config": []}, "Agent mcp_config must be a dict"),
        ({"instructions": 3}, "Agent instructions must be a string, callable, or None, got int"),
        ({"prompt": "p"}, "Agent prompt must be a Prompt, callable, or None, got str"),
        ({"handoff_description": 3}, "Agent handoff_description must be a string or None"),
        ({"model": 3}, "Agent model must be a string, Model, or None, got int"),
        ({"model_settings": {}}, "Agent model_settings must be a ModelSettings instance, got dict"),
        ({"input_guardrails": None}, "Agent input_guardrails must be a list"),
        ({"output_guardrails": {}}, "Agent output_guardrails must be a list"),
        ({"output_type": 3}, "Agent output_type must be a type, AgentOutputSchemaBase, or None, got int"),
        ({"output_type": "Answer"}, "Agent output_type must be a type, AgentOutputSchemaBase, or None, got str"),
        ({"hooks": print}, "Agent hooks must be an AgentHooks instance or None"),
        ({"tool_use_behavior": "stop"}, "Agent tool_use_behavior must be 'run_llm_again', 'stop_on_first_tool'"),
        ({"tool_use_behavior": {"stop_at": []}}, "Agent tool_use_behavior must be"),
        ({"tool_use_behavior": {"stop_at_tool_names": "book"}}, "Agent tool_use_behavior must be"),
        ({"reset_tool_choice": "yes"}, "Agent reset_tool_choice must be a boolean, got str"),
    ],
)
def test_a_setting_of_the_wrong_type_is_a_type_error(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(TypeError) as raised:
        Agent(**{"name": "a", **wrong})
    assert said in str(raised.value)


def forgotten() -> str:
    return "not wrapped"


@pytest.mark.each
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (
            {"tools": [forgotten]},
            "tools of agent 'a': 'forgotten' is a plain function: decorate it with @function_tool",
        ),
        ({"tools": [3]}, "tools of agent 'a': 3 is no tool: decorate a function with @function_tool"),
        ({"tools": [Agent("b")]}, "tools of agent 'a': an agent is not a tool: use its as_tool"),
        ({"handoffs": ["b"]}, "handoffs of agent 'a': an entry must be an Agent or a Handoff, not str"),
        ({"input_guardrails": [forgotten]}, "decorate it with @input_guardrail"),
        ({"output_guardrails": [InputGuardrail(print)]}, "decorate it with @output_guardrail"),
    ],
)
def test_what_is_in_the_wrong_list_is_told_with_its_remedy(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as raised:
        Agent(name="a", **wrong)
    assert said in str(raised.value)


def test_what_is_right_is_taken() -> None:
    agent: Agent[Any] = Agent(
        "a",
        "Help.",
        handoffs=[Agent("b"), handoff(Agent("c"))],
        input_guardrails=[InputGuardrail(lambda context, agent, text: GuardrailFunctionOutput(None, False))],
        hooks=AgentHooks(),
        tool_use_behavior=StopAtTools(stop_at_tool_names=["book"]),
    )
    assert agent.instructions == "Help."
    for kind in (str, list[str], int | None, Annotated[str, "x"], dict[str, int], AgentOutputSchema(int)):
        assert Agent("a", output_type=kind).output_type == kind
    Agent("a", tool_use_behavior=lambda context, results: ToolsToFinalOutputResult(False))


def test_a_clone_differs_in_what_was_changed_only() -> None:
    agent: Agent[Any] = Agent("a", "Help.", tools=[])
    clone = agent.clone(name="b")
    assert (clone.name, clone.instructions) == ("b", "Help.")
    assert clone.tools is agent.tools
    with pytest.raises(TypeError):
        agent.clone(nmae="b")
    with pytest.raises(TypeError):
        agent.clone(name=3)


def test_an_agent_as_a_tool() -> None:
    agent: Agent[Any] = Agent("Contract expert")
    tool = agent.as_tool(tool_name="help", tool_description="Helps.", needs_approval=True, max_turns=3)
    assert isinstance(tool, AgentTool)
    assert (tool.name, tool.description, tool.needs_approval, tool.max_turns) == ("help", "Helps.", True, 3)
    assert tool.agent is agent
    by_default = agent.as_tool(None, None)
    assert (by_default.name, by_default.description, by_default.max_turns) == ("contract_expert", "", 10)


def test_small_results_have_the_known_shape() -> None:
    assert FunctionToolResult("t", "o", "i") == FunctionToolResult(tool="t", output="o", run_item="i")
    assert ToolsToFinalOutputResult(True, "x").final_output == "x"
    assert ToolsToFinalOutputResult(False).final_output is None


@pytest.mark.trial
def test_declaring_an_agent_loads_nothing_heavy() -> None:
    code = (
        "import sys, keyturn.agents.agent\n"
        "agent = keyturn.agents.agent.Agent('a'); keyturn.agents.agent.Agent('b', tools=[agent.as_tool('t', 'd')])\n"
        "print([name for name in ('pydantic', 'docstring_parser', 'asyncio', 'openai') if name in sys.modules])"
    )
    source = Path(__file__).resolve().parents[2] / "src"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=source, check=False)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
