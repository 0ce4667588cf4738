"""What a program of deep agents does between runs: files come back, answers that fit no call run nothing."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import DeferredToolRequests, DeferredToolResults, ToolApproved
from keyturn.deep import CompositeBackend, DeepAgentDeps, FilesystemBackend, StateBackend, create_deep_agent
from keyturn.deferred import messages_from_json, messages_to_json
from tests.deep.playing_deep import Play, answered, model, plainly, writes


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


@pytest.mark.each
@pytest.mark.parametrize("where", ["in memory", "in a folder", "routed"])
async def test_an_override_below_a_file_is_refused_while_its_approver_is_there(
    play: Play, where: str, tmp_path: Any
) -> None:
    """No file can be there: the approver is told, the call still waits, and what is shown of it says so."""
    (tmp_path / "notes").write_text("milk")
    made: dict[str, Any] = {
        "in memory": lambda: StateBackend({"/notes": "milk"}),
        "in a folder": lambda: FilesystemBackend(tmp_path),
        "routed": lambda: CompositeBackend(StateBackend({}), {"/sub/": StateBackend({"/notes": "milk"})}),
    }
    at = "/sub/notes/x" if where == "routed" else "/notes/x"
    deps = DeepAgentDeps(backend=made[where]())
    agent = create_deep_agent(model(writes("/a"), "Done."), interrupt_on={"write_file": True})
    waits = await play(agent, deps=deps)
    [part] = waits.output.approvals
    override = ToolApproved(override_args={"path": at, "content": "x"})
    with pytest.raises(Exception, match=r"is a file|not a directory"):
        await answered(play, agent, waits, deps, approvals={part.tool_call_id: override})
    assert (await answered(play, agent, waits, deps)).output == "Done."
    shown = await play(create_deep_agent(model(writes(at), "Done."), interrupt_on={"write_file": True}), deps=deps)
    assert "it would change nothing" in str(shown.inner.interruptions[0].preview.blocks[0])


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
