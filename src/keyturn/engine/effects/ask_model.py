"""Ask the model once: build its request, and record its whole reply.

A stream that breaks off leaves nothing behind: a reply is recorded when it is complete, or not at all.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Mapping
from dataclasses import replace
from typing import Any, cast

from ...agents.agent import Agent
from ...agents.output import output_schema_for
from ...agents.settings import CallModelData, ModelInputData
from ...core import commands as cm
from ...core.call_ids import call_id
from ...core.empties import owned
from ...core.errors import Conflict, MaxTurnsExceeded, ModelBehaviorError, UserError
from ...core.items import Item, own_copies, own_copy, without_id
from ...core.run import Frame
from ...core.usage import Counts, addable
from ...models.base import (
    Model,
    ModelRequest,
    ModelResponse,
    ModelSettings,
    ModelTracing,
    TokenDetails,
    Usage,
    close_stream,
    in_time,
)
from ...support.user_code import answer_of, contained, raised_by
from ..driving.drive import Drive
from ..driving.usage_limits import name_of, stuck
from ..logger import error_words, logger
from ..run.frame_settings import FrameSettings, Toolset, model_for
from ..views.event_stream import AgentAtWork, Delta
from .borrowing import borrow_for_reply
from .compact_history import compact_history
from .fused_steps import end_of
from .invalid_calls import check_invalid_calls, log_invalid_calls
from .judge import answered
from .proposals import ReplyReading
from .provider_calls import ProviderCalls, checked_calls
from .result_words import unknown_worded

_TEXT = (str, type(None))


async def ask_model(drive: Drive, frame_id: str) -> None:
    """Ask the model of a frame's agent and record what it answers; calls that the provider runs are started with it."""
    frame, scope = drive.log.run.frames[frame_id], await drive.enter(frame_id)
    check_invalid_calls(drive, frame, scope)
    agent = drive.graph.agent_at[frame.agent]
    model = model_for(agent, scope.config)
    if drive.meter.lets(model) and frame.phase == "model":
        await compact_history(drive, frame, scope, agent, model)
    if not drive.meter.lets(model):  # a summary counts, too
        drive.stops.add("limit")
        return
    calls = await checked_calls(drive, frame, scope)
    if calls is None:
        return
    drive.meter.asking += 1
    try:
        await _ask(drive, frame, scope, agent, model, calls)
    finally:
        drive.meter.asking -= 1


async def _ask(
    drive: Drive, frame: Frame, scope: FrameSettings, agent: Agent[Any], model: Model, calls: ProviderCalls
) -> None:
    if frame.fresh:
        await _agent_starts(drive, frame, scope, agent)
    toolset = await drive.toolset(frame, fresh=True)
    more = calls.items()
    request, heard = await _request(drive, frame, scope, toolset, more)
    if drive.log.run.frames[frame.id].guarding == "ahead":  # a message came that may not reach the model unseen
        return
    listeners = [hooks for hooks in (scope.hooks, agent.hooks) if hooks is not None]
    if listeners:
        await _llm_starts(drive, frame, scope, request, listeners, more)
    used: tuple[str, Counts] | None = None
    reading = None
    try:
        await calls.start(request.input, toolset)
        asking: Awaitable[ModelResponse] = _reply(drive, frame.id, model, request)
        if (seconds := request.model_settings.timeout) is not None:
            asking = in_time(asking, seconds)
        response = await (asking if drive.traces is None else drive.traces.chat(model, request, asking))
        calls.replied = True
        used = response.model, response.usage.counts()
        scope.context.usage.count(*used)
        for hooks in listeners:
            with raised_by("on_llm_end of the hooks"):
                await hooks.on_llm_end(scope.context, agent, replace(response, output=own_copy(response.output)))
        reading = await ReplyReading(drive, frame, toolset).read(response)
        await _record(drive, scope, reading, response, used[1], heard, calls=calls)
        if reading.proposals and reading.proposals[0].refused is not None:
            log_invalid_calls(drive, frame.id)
    except Exception as error:
        # Of a store that failed nobody knows whether it holds the reply.
        if reading is None or isinstance(error, ModelBehaviorError):
            await _refuse(drive, frame, used or _told(scope, error, name_of(model)))
        if not await calls.failed(error):
            raise


async def hear(
    drive: Drive, frame_id: str, response: ModelResponse, heard: int | None = None, by: str | None = None
) -> list[str]:
    """Record what a model that talks by itself has said, and return the ids of its calls, which the loop goes on with.

    `by` is the path of the agent that made the calls: a `Conflict` is raised where another one has taken over. Words
    alone are recorded whichever agent is at work. Replies are heard one after the other.
    """
    scope, counts = await drive.enter(frame_id), response.usage.counts()
    scope.context.usage.count(response.model, counts)
    calls = any(item.get("type", "message") != "message" for item in response.output)  # words need no tools
    while True:
        frame = drive.log.run.frames.get(frame_id)
        if frame is None:
            raise Conflict("this conversation is over; nothing more is said in it")
        agent, turn = by or frame.agent, frame.turn
        toolset = await drive.toolset(frame, fresh=calls, of=agent)
        reading = await ReplyReading(drive, frame, toolset).read(response)
        try:
            await _record(drive, scope, reading, response, counts, heard, agent)
        except Conflict:
            if by is not None or drive.log.run.frames[frame_id].agent == agent:
                raise
            continue  # another agent took over while its words were read
        drive.rouse()
        return [call_id(frame_id, turn + 1, index) for index in range(len(reading.proposals))]


async def _record(
    drive: Drive,
    scope: FrameSettings,
    reading: ReplyReading,
    response: ModelResponse,
    counts: Counts,
    heard: int | None = None,
    agent: str | None = None,
    calls: ProviderCalls | None = None,
) -> None:
    frame = reading.frame
    judged = drive.graph.agent_at[frame.agent].tool_use_behavior != "run_llm_again"
    grants = await borrow_for_reply(drive, reading)
    proposals = await unknown_worded(scope, reading.proposals)
    record = cm.RecordReply(
        frame.id,
        reading.output,
        proposals,
        counts,
        response.response_id,
        response.request_id,
        reading.tools,
        judged,
        response.model,
        frame.turn,
        heard,
        agent,
    )
    end = [] if reading.proposals or not frame.barrier else end_of(drive, frame, scope, reading.output)
    results = [] if calls is None else calls.results()
    try:
        await drive.commit(*results, *grants, record, *end)
    except Conflict:
        if not end:
            raise
        await drive.commit(*results, record)
        return
    finally:
        if heard is not None and heard < len(frame.items) - len(reading.output):  # messages came in between
            drive.live.copies.forget()
    if end:
        owned(drive.live, "finals")[frame.id] = end[0].output


def _told(scope: FrameSettings, error: Exception, name: str) -> tuple[str, Counts] | None:
    """Return the usage of a reply that was refused while it was read, where that is known."""
    usage: Any = getattr(error, "usage", None)
    if not isinstance(usage, Usage) or not addable(usage.counts()):
        return None
    counts = usage.counts()
    scope.context.usage.count(name, counts)
    return name, counts


async def _refuse(drive: Drive, frame: Frame, used: tuple[str, Counts] | None) -> None:
    """Count the usage of a reply that no run can go on with, where it is known."""
    if used is not None:
        try:
            await drive.commit(cm.RefuseReply(frame.id, used[1], used[0]))
        except Conflict as error:  # the run may be over meanwhile
            logger.info("what a refused reply used is not counted: %s", error_words(error))


async def _agent_starts(drive: Drive, frame: Frame, scope: FrameSettings, agent: Agent[Any]) -> None:
    drive.signal(AgentAtWork(frame.id, agent))
    with raised_by("on_agent_start or on_start of the hooks"):
        if scope.hooks is not None:
            await scope.hooks.on_agent_start(scope.context, agent)
        if agent.hooks is not None:
            await agent.hooks.on_start(scope.context, agent)


async def _llm_starts(
    drive: Drive,
    frame: Frame,
    scope: FrameSettings,
    request: ModelRequest,
    listeners: list[Any],
    more: list[Item],
) -> None:
    """Call hooks with what the model is about to read; each gets items of its own."""
    agent, filtered = drive.graph.agent_at[frame.agent], scope.config.call_model_input_filter is not None
    for hooks in listeners:
        told = own_copy(request.input) if filtered else _conversation(drive, frame, scope, hooks, more)
        with raised_by("on_llm_start of the hooks"):
            await hooks.on_llm_start(scope.context, agent, request.system_instructions, told)


def _conversation(drive: Drive, frame: Frame, scope: FrameSettings, reader: object, more: list[Item]) -> list[Item]:
    """Return what the model is to read of a frame's conversation and behind it, as items that only this reader has."""
    live, frames = drive.live, drive.log.run.frames
    conversation = live.copies.of(reader, frames[frame.id], live.prefixes.get(frame.id) or None, frames)
    if scope.managed:
        conversation = conversation[frame.sent :]
    if scope.config.reasoning_item_id_policy == "omit":
        conversation = [without_id(item) if item.get("type") == "reasoning" else item for item in conversation]
    return [*conversation, *own_copies(more)] if more else conversation


async def _request(
    drive: Drive, frame: Frame, scope: FrameSettings, toolset: Toolset, more: list[Item]
) -> tuple[ModelRequest, int]:
    """Return what the model is asked, and how many items of the conversation it hears."""
    agent, config = drive.graph.agent_at[frame.agent], scope.config
    instructions = await agent.get_system_prompt(scope.context)
    heard = len(frame.items) + len(more)
    # A provider may make a model anew for each turn: its reader is what was named.
    conversation = _conversation(drive, frame, scope, agent.model if config.model is None else config.model, more)
    if config.call_model_input_filter is not None:
        data = CallModelData(ModelInputData(own_copy(conversation), instructions), agent, scope.context.context)
        changed = await answer_of(config.call_model_input_filter, data)
        if not isinstance(changed, ModelInputData) or not isinstance(cast("object", changed.input), list | tuple):
            raise UserError("call_model_input_filter must return a ModelInputData, with a list of items as its input")
        conversation, instructions = list(changed.input), changed.instructions
    request = ModelRequest(
        instructions,
        conversation,
        _settings(agent, config.model_settings, frame),
        toolset.tools,
        output_schema_for(agent.output_type),
        toolset.handoffs,
        ModelTracing.DISABLED if drive.traces is None else drive.traces.model_tracing,
        frame.response_id if scope.chained else None,
        scope.conversation_id,
        await agent.get_prompt(scope.context) if agent.prompt is not None else None,
    )
    return request, heard


def _settings(agent: Agent[Any], override: ModelSettings | None, frame: Frame) -> ModelSettings:
    settings = agent.model_settings.resolve(override)
    if agent.reset_tool_choice and frame.used_tools and settings.tool_choice is not None:
        return replace(settings, tool_choice=None)
    return settings


async def _reply(drive: Drive, frame_id: str, model: Model, request: ModelRequest) -> ModelResponse:
    asked = (
        request.system_instructions,
        request.input,
        request.model_settings,
        request.tools,
        request.output_schema,
        request.handoffs,
        request.tracing,
    )
    kept = {
        "previous_response_id": request.previous_response_id,
        "conversation_id": request.conversation_id,
        "prompt": request.prompt,
    }
    if not drive.listens(frame_id):
        return _counted(await answer_of(model.get_response, *asked, **kept), name_of(model))
    with contained:
        final = await _streamed(drive, frame_id, model.stream_response(*asked, **kept))
    if final is None:
        raise ModelBehaviorError("the model's stream ended before its reply was complete; nothing of it was recorded")
    return _counted(final, name_of(model))


async def _streamed(drive: Drive, frame_id: str, events: AsyncIterator[Any]) -> ModelResponse | None:
    """Pass a model's events on, and return the reply that the last of them carries."""
    final = None
    feed = drive.feeds[frame_id]
    try:
        async for event in events:
            if read(event, "type") == "response.completed":  # taken before a listener has it in hand
                final = _own(streamed_response(read(event, "response")))
            drive.signal(Delta(frame_id, event))
            if feed.full:
                await feed.room()
    finally:
        await close_stream(events)
    return final


def _own(response: ModelResponse) -> ModelResponse:
    return replace(response, output=own_copy(response.output))


def _counted(response: ModelResponse, name: str) -> ModelResponse:
    if not response.usage.requests:
        response.usage.requests = 1
    if not addable(response.usage.counts()):
        raise ModelBehaviorError("the model's reply counts a usage that cannot be added; nothing of it was used")
    if not isinstance(response.response_id, _TEXT):
        raise ModelBehaviorError("the model's reply has an id that is no text; nothing of it was used")
    response.model = response.model or name
    return response


def read(value: Any, name: str) -> Any:
    """Return a field of a provider's object or of a mapping, None where it has none."""
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value).get(name)
    return getattr(value, name, None)


def streamed_response(final: object) -> ModelResponse:
    """Return the reply that a `response.completed` event carries."""
    if isinstance(final, ModelResponse):
        return final
    counts = read(final, "usage")
    usage = Usage(requests=1)
    if isinstance(counts, Usage):
        usage = counts
    elif counts is not None:
        usage.input_tokens = read(counts, "input_tokens") or 0
        usage.output_tokens = read(counts, "output_tokens") or 0
        usage.total_tokens = read(counts, "total_tokens") or 0
        sent, received = read(counts, "input_tokens_details"), read(counts, "output_tokens_details")
        cached, written = read(sent, "cached_tokens") or 0, read(sent, "cache_write_tokens") or 0
        usage.input_tokens_details = TokenDetails(cached_tokens=cached, cache_write_tokens=written)
        usage.output_tokens_details = TokenDetails(reasoning_tokens=read(received, "reasoning_tokens") or 0)
    return ModelResponse(list(read(final, "output") or []), usage, read(final, "id"), read(final, "_request_id"))


async def exhausted(drive: Drive, frame_id: str) -> None:
    """Let an error handler answer at the turn limit, or raise `MaxTurnsExceeded`."""
    frame = drive.log.run.frames[frame_id]
    error = MaxTurnsExceeded(
        f"agent {drive.graph.agent_at[frame.agent].name!r} reached its limit of {frame.max_turns} turns; "
        "nothing is lost: resume the run with a higher max_turns"
    )
    await answered(drive, frame_id, "max_turns", error)


async def limited(drive: Drive, frame_id: str) -> None:
    """Let an error handler answer at a usage limit, once nothing else is left to do, or raise the error."""
    error = drive.meter.reached
    assert error is not None
    if not stuck(drive.log.run):  # a nested agent waits for its model: an answer of the root's would take its place
        raise error
    await answered(drive, frame_id, "usage_limit", error)
