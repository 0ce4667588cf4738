"""Bound how often a model may go on making calls that no tool takes: invalid arguments, or a tool that is not there.

Such a call never runs and nothing of it is repaired, since a person approves what was meant: its result says what is
wrong, and the model makes another. What is counted here are the replies in a row that held nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...agents.settings import ToolExecutionConfig
from ...core.errors import ModelBehaviorError
from ...core.events import Proposal
from ...core.run import Frame
from ..driving.drive import Drive
from ..logger import logger
from ..run.frame_settings import FrameSettings

_DEFAULT = ToolExecutionConfig()


def note_invalid_calls(drive: Drive, frame: Frame, proposals: Sequence[Proposal]) -> None:
    """Count a recorded reply."""
    refused = [proposal.name for proposal in proposals if proposal.refused is not None]
    if not refused or len(refused) < len(proposals):
        drive.misfits.pop(frame.id, None)
        return
    count, _ = drive.misfits.get(frame.id, (0, ""))
    names = ", ".join(dict.fromkeys(refused))
    drive.misfits[frame.id] = count + 1, names
    logger.info("the model made calls that no tool takes, %d replies in a row: %s", count + 1, names)


def check_invalid_calls(drive: Drive, frame: Frame, scope: FrameSettings) -> None:
    """Stop before the model is asked once more, where it has made too many such replies in a row."""
    count, names = drive.misfits.get(frame.id, (0, ""))
    config = scope.config.tool_execution
    most = (config or _DEFAULT).max_invalid_replies
    if most is None or count < most:
        return
    del drive.misfits[frame.id]
    agent = drive.graph.agent_at[frame.agent].name
    raise ModelBehaviorError(
        f"the model of agent {agent!r} made {count} replies in a row whose calls no tool takes (the last: {names}); "
        "none of them ran. Their results in the conversation say what is wrong. Resume the run to let it try again, "
        "or set ToolExecutionConfig(max_invalid_replies=...)"
    )
