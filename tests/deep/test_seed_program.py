"""A program in the style of the deep agents' example: only its imports are others."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import DeferredToolRequests, DeferredToolResults, ToolApproved, ToolDenied
from keyturn.deep import DeepAgentDeps, StateBackend, create_deep_agent
from keyturn.deferred import messages_from_json, messages_to_json
from tests.deep.playing_deep import Play, answered, model, plainly, runs, told, writes

SCRIPT = "#!/bin/sh\ntar -czf /backup.tgz /data\n"


async def test_one_is_approved_and_one_denied(play: Play) -> None:
    scripted = model([writes("/backup.sh", SCRIPT), runs("rm -rf /")], "I wrote the script.")
    agent = create_deep_agent(
        model=scripted,
        instructions="You are a system administrator assistant.",
        interrupt_on={"write_file": True, "edit_file": True, "execute": True},
    )
    deps = DeepAgentDeps(backend=StateBackend())
    result = await play(agent, "Make a backup script.", deps=deps)
    assert isinstance(result.output, DeferredToolRequests)
    approvals: dict[str, Any] = {}
    for call in result.output.approvals:
        approved = call.tool_name == "write_file"
        approvals[call.tool_call_id] = (
            ToolApproved() if approved else ToolDenied(message=f"User denied {call.tool_name}")
        )
    done = await play(
        agent,
        None,
        deps=deps,
        message_history=result.all_messages(),
        deferred_tool_results=DeferredToolResults(approvals=approvals),
    )
    assert done.output == "I wrote the script."
    assert {path: len(data["content"]) for path, data in deps.files.items()} == {"/backup.sh": 3}
    assert told(scripted) == ["Created 'backup.sh'.", "User denied execute"]


async def test_a_run_without_deps_comes_back_with_its_files(play: Play) -> None:
    agent = create_deep_agent(
        model(writes("/a"), writes("/b"), "Done.", writes("/c"), "More."), interrupt_on={"write_file": True}
    )
    waits = await play(agent)
    waits = await answered(play, agent, waits)
    text = messages_to_json(waits.all_messages())
    results = DeferredToolResults(approvals={part.tool_call_id: True for part in waits.output.approvals})
    done = await play(agent, None, message_history=messages_from_json(text), deferred_tool_results=results)
    assert done.output == "Done."
    assert list(done.inner.context_wrapper.context.files) == ["/a", "/b"]
    more = await answered(play, agent, await play(agent, "And c.", message_history=done.all_messages()))
    assert list(more.inner.context_wrapper.context.files) == ["/a", "/b", "/c"]


async def test_a_run_with_deps_wants_them_again(play: Play) -> None:
    deps = DeepAgentDeps()
    agent = create_deep_agent(model(writes("/a"), "Done."), interrupt_on={"write_file": True})
    waits = await play(agent, deps=deps)
    with pytest.raises(Exception, match="pass the deps that the run began with"):
        await answered(play, agent, waits)
    assert deps.files == {}
    assert "/a" in (await answered(play, agent, waits, deps)).inner.context_wrapper.context.files


async def test_an_approval_changes_the_arguments(play: Play, tmp_path: Any) -> None:
    deps = DeepAgentDeps()
    agent = create_deep_agent(model(writes("/a", "old"), "Done."), interrupt_on={"write_file": True})
    waits = await play(agent, deps=deps)
    [part] = waits.output.approvals
    approval = ToolApproved(override_args={**part.args, "content": "new"})
    await answered(play, agent, waits, deps, approvals={part.tool_call_id: approval})
    assert deps.files["/a"]["content"] == ["new"]


@pytest.mark.parametrize(
    "override", [{}, {"path": "/a"}, {"path": 5, "content": "x"}, {"path": "/../a", "content": "x"}, {"no": "such"}]
)
async def test_an_override_that_no_call_could_have_runs_nothing(override: Any) -> None:
    deps = DeepAgentDeps()
    agent = create_deep_agent(model(writes("/a"), "Done."), interrupt_on={"write_file": True})
    waits = await plainly(agent, deps=deps)
    [part] = waits.output.approvals
    with pytest.raises(Exception, match=r"invalid|refused"):
        await answered(plainly, agent, waits, deps, approvals={part.tool_call_id: ToolApproved(override_args=override)})
    assert deps.files == {}
    assert (await answered(plainly, agent, waits, deps)).output == "Done."


async def test_a_handler_decides_without_ending_the_run(play: Play) -> None:
    def decide(ctx: Any, requests: DeferredToolRequests) -> DeferredToolResults:
        return requests.build_results(approve_all=True)

    deps = DeepAgentDeps()
    agent = create_deep_agent(model(writes("/a"), "Done."), interrupt_on={"write_file": True}, handle_deferred=decide)
    assert (await play(agent, deps=deps)).output == "Done."
    assert list(deps.files) == ["/a"]


async def test_a_tool_that_is_declared_later_asks_for_itself(play: Play) -> None:
    done: list[str] = []
    agent = create_deep_agent(model([call("ship"), call("look")], "Done."))

    @agent.tool_plain(requires_approval=True)
    def ship() -> str:
        done.append("ship")
        return "shipped"

    @agent.tool_plain
    def look() -> str:
        done.append("look")
        return "seen"

    waits = await play(agent)
    assert ([part.tool_name for part in waits.output.approvals], done) == (["ship"], ["look"])


def call(name: str) -> Any:
    from keyturn.testing import function_call

    return function_call(name, {})
