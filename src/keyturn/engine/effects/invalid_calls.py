"""Bound how often a model may go on making calls that no tool takes: invalid arguments, or a tool that is not there.

Such a call never runs and nothing of it is repaired, since a person approves what was meant: its result says what is
wrong, and the model makes another. What is counted are the replies in a row that held nothing else, by the run's log
(`Frame.invalid`), so that a restart or another worker does not begin anew; a run that is resumed after it failed does.
"""

from __future__ import annotations

from ...agents.settings import ToolExecutionConfig
from ...core.errors import ModelBehaviorError
from ...core.run import Frame
from ..driving.drive import Drive
from ..logger import logger
from ..run.frame_settings import FrameSettings

_DEFAULT = ToolExecutionConfig()


def log_invalid_calls(drive: Drive, frame_id: str) -> None:
    """Tell the log of a recorded reply none of whose calls could be made."""
    frame = drive.log.run.frames.get(frame_id)
    if frame is not None and frame.invalid:
        logger.info(
            "no tool takes the calls of the model's reply (%d in a row): %s", len(frame.invalid), frame.invalid[-1]
        )


def check_invalid_calls(drive: Drive, frame: Frame, scope: FrameSettings) -> None:
    """Stop before the model is asked once more, where it has made too many such replies in a row."""
    if not frame.invalid:
        return
    config = scope.config.tool_execution
    most, count = (config or _DEFAULT).max_invalid_replies, len(frame.invalid)
    if most is None or count < most:
        return
    agent = drive.graph.agent_at[frame.agent].name
    raise ModelBehaviorError(
        f"the model of agent {agent!r} made {count} replies in a row whose calls no tool takes (the last: "
        f"{frame.invalid[-1]}); none of them ran. Their results in the conversation say what is wrong. Resume the run "
        "to let it try again, or set ToolExecutionConfig(max_invalid_replies=...)"
    )
