"""The example of deep agents: calls that wait, approvals and denials, the files at the end."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import DeferredToolRequests, DeferredToolResults, ToolApproved, ToolDenied
from keyturn.deep import DeepAgentDeps, StateBackend, create_deep_agent
from tests.deep.playing_deep import Play, answered, listening, model, plainly, runs, told, writes

SCRIPT = "#!/bin/sh\ntar -czf /backup.tgz /data\n"


@pytest.fixture(params=[plainly, listening], ids=["plain", "streamed"])
def play(request: pytest.FixtureRequest) -> Play:
    """Run a deep agent, in both ways that there are."""
    return request.param


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


async def test_an_approval_changes_the_arguments(play: Play) -> None:
    deps = DeepAgentDeps()
    agent = create_deep_agent(model(writes("/a", "old"), "Done."), interrupt_on={"write_file": True})
    waits = await play(agent, deps=deps)
    [part] = waits.output.approvals
    approval = ToolApproved(override_args={**part.args, "content": "new"})
    await answered(play, agent, waits, deps, approvals={part.tool_call_id: approval})
    assert deps.files["/a"]["content"] == ["new"]
