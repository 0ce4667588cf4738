"""Compact a conversation that grows too long: a model summarises its older part, and the summary is recorded.

What the model reads next is recorded as a view, ranges of the old conversation and new items, so that a replay is the
same. Nothing is lost: the log has it all. If anything fails half way, the conversation stays as it is.
"""

from __future__ import annotations

from typing import Any

from ...agents.agent import Agent
from ...core import commands as cm
from ...core.errors import ModelBehaviorError
from ...core.items import Item
from ...core.run import Frame
from ...core.usage import Counts, addable
from ...models import default_provider
from ...models.base import Model, ModelRequest, ModelResponse, ModelTracing, in_time
from ..driving.drive import Drive
from ..driving.usage_limits import name_of
from ..logger import error_words, logger
from ..run.frame_settings import FrameSettings

_GROWN = 10  # how many items a conversation grows before it is tried again


async def compact_history(drive: Drive, frame: Frame, scope: FrameSettings, agent: Agent[Any], model: Model) -> None:
    """Compact a frame's conversation before its model is asked, where its agent says that it is too long."""
    compaction = agent.own_compaction()
    if compaction is None or scope.managed or frame.guarding or frame.turn == 0:
        return
    conversation = drive.live.conversation(frame.id)
    if len(conversation) < drive.uncompacted.get(frame.id, 0) + _GROWN and frame.id in drive.uncompacted:
        return
    kept = compaction.cut(conversation)
    if kept is None:
        return
    first, last = kept
    try:
        summary, counts, name = await _summarised(drive, scope, compaction, (model, conversation[first:last]))
    except Exception as error:
        drive.uncompacted[frame.id] = len(conversation)
        logger.warning("the conversation of %s was not compacted, it stays as it is: %s", frame.id, error_words(error))
        return
    view: list[list[int] | Item] = [compaction.item(summary), [last, len(conversation)]]
    if first:
        view.insert(0, [0, first])
    scope.context.usage.count(name, counts)
    await drive.commit(cm.CompactHistory(frame.id, view, len(conversation), counts, name))


async def _summarised(
    drive: Drive, scope: FrameSettings, compaction: Any, asked: tuple[Model, list[Item]]
) -> tuple[str, Counts, str]:
    """Return a model's summary of these items, what it used, and the name of the model."""
    wanted = compaction.model
    if isinstance(wanted, str):
        wanted = (scope.config.model_provider or default_provider()).get_model(wanted)
    model: Model = asked[0] if wanted is None else wanted
    tracing = ModelTracing.DISABLED if drive.traces is None else drive.traces.model_tracing
    request: ModelRequest = compaction.request(asked[1], tracing)
    asking = model.get_response(
        request.system_instructions,
        request.input,
        request.model_settings,
        request.tools,
        request.output_schema,
        request.handoffs,
        request.tracing,
        previous_response_id=None,
        conversation_id=None,
        prompt=None,
    )
    asking = in_time(asking, compaction.seconds)
    response: ModelResponse = await (asking if drive.traces is None else drive.traces.chat(model, request, asking))
    response.usage.requests = response.usage.requests or 1
    counts = response.usage.counts()
    if not addable(counts):
        raise ModelBehaviorError("the model's summary counts a usage that cannot be added")
    text = compaction.text_of(response.output)
    if not text:
        raise ModelBehaviorError("the model gave no summary")
    return text, counts, response.model or name_of(model)
