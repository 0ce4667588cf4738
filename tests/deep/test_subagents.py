"""Subagents: each with its own tools, model and limits, in the one run."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import MaxTurnsExceeded, UsageLimits, UserError, function_tool
from keyturn.core.errors import UsageLimitExceeded
from keyturn.deep import DeepAgentDeps, create_deep_agent
from keyturn.testing import function_call
from tests.deep.playing_deep import Play, delegates, model, told, writes


def spec(**more: Any) -> Any:
    return {"name": "writer", "description": "Writes texts.", "instructions": "Write well.", **more}


async def test_a_subagent_has_its_own_model_and_tools(play: Play) -> None:
    @function_tool
    def look() -> str:
        """Look around."""
        return "seen"

    inner = model(function_call("look", {}), "I saw it.")
    outer = model(delegates("Look for it.", "writer"), "Done.")
    agent = create_deep_agent(outer, tools=[], subagents=[spec(model=inner, tools=[look])])
    assert (await play(agent)).output == "Done."
    assert told(outer) == ["I saw it."]
    first = inner.calls[0]
    assert first.input == [{"role": "user", "content": "Look for it."}]
    assert "Write well." in first.system_instructions
    assert {"look", "write_file"} <= {tool.name for tool in first.tools}
    assert not {"task", "write_todos"} & {tool.name for tool in first.tools}


async def test_a_subagent_shares_the_files_and_not_the_conversation(play: Play) -> None:
    deps = DeepAgentDeps()
    agent = create_deep_agent(model(delegates("Write /a."), writes("/a"), "It is written.", "Done."))
    assert (await play(agent, "secret words", deps=deps)).output == "Done."
    assert list(deps.files) == ["/a"]


async def test_a_subagent_that_never_ends_is_ended(play: Play) -> None:
    scripted = model(delegates(to="writer"), *[function_call("ls", {}) for _ in range(3)], "I gave up on it.")
    agent = create_deep_agent(scripted, subagents=[spec(max_turns=3)])
    done = await play(agent)
    assert done.output == "I gave up on it."
    assert "limit of 3 turns" in told(scripted)[-1] or "error" in told(scripted)[-1]


async def test_an_agent_that_never_ends_is_ended() -> None:
    agent = create_deep_agent(model(*[function_call("ls", {}) for _ in range(60)]))
    with pytest.raises(MaxTurnsExceeded):
        await agent.run("go")


async def test_usage_limits_count_subagents_too() -> None:
    scripted = model(delegates(), function_call("ls", {}), function_call("ls", {}), "sub", "Done.")
    agent = create_deep_agent(scripted, usage_limits=UsageLimits(requests=3))
    with pytest.raises(UsageLimitExceeded):
        await agent.run("go")
    assert len(scripted.calls) == 3


async def test_a_subagent_that_is_not_there_is_told_to_the_model(play: Play) -> None:
    scripted = model(delegates(to="nobody"), "Done.")
    assert (await play(create_deep_agent(scripted))).output == "Done."
    assert "there is no subagent 'nobody'; there are general-purpose" in told(scripted)[-1]


async def test_depth_is_bounded() -> None:
    core = create_deep_agent(model(), max_depth=2).core_agent()
    depth = 0
    agent: Any = core
    while (task := next((tool for tool in agent.tools if tool.name == "task"), None)) is not None:
        agent, depth = task.agents["general-purpose"], depth + 1
    assert depth == 2


async def test_an_answer_has_its_type(play: Play) -> None:
    agent = create_deep_agent(model(writes("/a"), '{"response": 7}'), output_type=int)
    assert (await play(agent)).output == 7


@pytest.mark.each
@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"subagents": [spec(name="")]}, "needs a name"),
        ({"subagents": [spec(tool=[])]}, "has no setting 'tool'"),
        ({"subagents": ["writer"]}, "a subagent is a dict"),
        ({"subagents": spec()}, "must be a list"),
        ({"subagents": [spec(), spec()]}, "two subagents are named 'writer'"),
        ({"subagents": [spec(max_turns=0)]}, "max_turns of subagent 'writer' must be"),
        ({"max_depth": 0}, "max_depth must be"),
        ({"max_depth": 99}, "max_depth must be"),
        ({"max_subagent_turns": True}, "max_subagent_turns must be"),
        ({"backend": "memory"}, "backend must be a backend"),
        ({"deps_type": dict}, "deps_type must be"),
        ({"compaction": 5}, "compaction must be"),
        ({"interrupt_on": ["write_file"]}, "interrupt_on must be a dict"),
        ({"include_execute": True, "include_filesystem": False}, "include_execute=True needs"),
        ({"include_todo": "yes"}, "include_todo must be"),
        ({"skills": "skills"}, "skills must be a list"),
        ({"memory": "/../x"}, "refused"),
        ({"name": ""}, "name must be"),
        ({"tools": [5]}, "neither a function nor a tool"),
    ],
)
def test_what_is_wrong_is_refused_when_the_agent_is_made(wrong: Any, why: str) -> None:
    with pytest.raises(Exception, match=why):
        create_deep_agent(model(), **wrong)


def test_an_option_that_there_is_not_is_refused() -> None:
    made: Any = create_deep_agent
    with pytest.raises(TypeError, match="unexpected keyword argument 'interupt_on'; did you mean 'interrupt_on'"):
        made(model(), interupt_on={})


def test_deps_that_are_none_are_refused() -> None:
    made: Any = DeepAgentDeps
    with pytest.raises(UserError, match="backend must be a backend"):
        made(backend="files")


@pytest.mark.parametrize("name", ["write_file", "ls", "task", "load_skill"])
def test_a_tool_with_the_name_of_another_is_refused_when_the_agent_is_made(name: str, tmp_path: Any) -> None:
    """In a subagent it was an error that its parent's model was told of, at each task."""
    (tmp_path / "SKILL.md").write_text("---\ndescription: Greets.\n---\nSay hello.")
    tool = function_tool(lambda: "x", name_override=name)
    spec = {"name": "s", "description": "d", "instructions": "i", "tools": [tool]}
    options: Any
    for options in ({"tools": [tool]}, {"subagents": [spec]}):
        if name == "task" and "subagents" in options:
            continue  # that subagent has no task of its own
        with pytest.raises(UserError, match=f"(are called|have the name) '{name}'"):
            create_deep_agent(model(), skills=[tmp_path], **options)
