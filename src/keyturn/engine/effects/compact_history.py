"""Compact a conversation that grows too long: a model summarises its older part, and the summary is recorded.

What the model reads next is recorded as a view, ranges of the old conversation and new items, so that a replay is the
same. Nothing is lost: the log has it all. If anything fails half way, the conversation stays as it is.
"""

from __future__ import annotations

import asyncio
from typing import Any

from ...agents.agent import Agent
from ...core import commands as cm
from ...core.digest import canonical
from ...core.errors import ModelBehaviorError
from ...core.items import Item
from ...core.run import Frame
from ...core.usage import NOTHING, Counts, addable
from ...models import default_provider
from ...models.base import Model, ModelRequest, ModelResponse, ModelTracing
from ...support.user_code import contained
from ..driving.drive import Drive
from ..driving.usage_limits import name_of
from ..logger import error_words, logger
from ..run.frame_settings import FrameSettings

_GROWN = 10  # how many items a conversation grows before it is tried again


async def compact_history(drive: Drive, frame: Frame, scope: FrameSettings, agent: Agent[Any], model: Model) -> None:
    """Compact a frame's conversation before its model is asked, where its agent says that it is too long."""
    compaction = agent.own_compaction()
    if compaction is None or scope.managed or frame.guarding:
        return
    conversation = drive.live.conversation(frame.id)
    if len(conversation) < drive.uncompacted.get(frame.id, 0) + _GROWN and frame.id in drive.uncompacted:
        return
    kept = compaction.cut(conversation)
    summarises = _model_of(compaction, scope, model)
    if kept is None or not drive.meter.lets(summarises):
        return
    first, last = kept
    name, counts = name_of(summarises), NOTHING
    try:
        response = await _asked(drive, compaction, summarises, conversation[first:last])
        name, counts = response.model or name, _counts(response)
        summary = compaction.item(_text(compaction, response, conversation[first:last]))
    except Exception as error:
        drive.uncompacted[frame.id] = len(conversation)
        logger.warning("the conversation of %s was not compacted, it stays as it is: %s", frame.id, error_words(error))
        if counts != NOTHING:
            scope.context.usage.count(name, counts)
            await drive.commit(cm.RefuseReply(frame.id, counts, name))
        return
    view: list[list[int] | Item] = [summary, [last, len(conversation)]]
    if first:
        view.insert(0, [0, first])
    scope.context.usage.count(name, counts)
    await drive.commit(cm.CompactHistory(frame.id, view, len(conversation), counts, name))


def _model_of(compaction: Any, scope: FrameSettings, model: Model) -> Model:
    """Return the model that summarises."""
    wanted = compaction.model
    if isinstance(wanted, str):
        return (scope.config.model_provider or default_provider()).get_model(wanted)
    return model if wanted is None else wanted


async def _asked(drive: Drive, compaction: Any, model: Model, older: list[Item]) -> ModelResponse:
    """Ask a model for a summary of these items; whatever it does, the run waits no longer than it may take."""
    tracing = ModelTracing.DISABLED if drive.traces is None else drive.traces.model_tracing
    request: ModelRequest = compaction.request(older, tracing)
    drive.meter.asking += 1
    try:
        async with asyncio.timeout(compaction.seconds):
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
            with contained:
                return await (asking if drive.traces is None else drive.traces.chat(model, request, asking))
    finally:
        drive.meter.asking -= 1


def _counts(response: ModelResponse) -> Counts:
    response.usage.requests = response.usage.requests or 1
    counts = response.usage.counts()
    if not addable(counts):
        raise ModelBehaviorError("the model's summary counts a usage that cannot be added")
    return counts


def _text(compaction: Any, response: ModelResponse, older: list[Item]) -> str:
    """Return the summary, or refuse one that no log can hold or that is as long as what it would stand for."""
    text: str = compaction.text_of(response.output)
    if not text:
        raise ModelBehaviorError("the model gave no summary")
    canonical(text)
    if not compaction.shortens(text, older):
        raise ModelBehaviorError("the model's summary is as long as what it summarises")
    return text
