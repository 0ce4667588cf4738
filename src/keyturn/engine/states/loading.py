"""Load a saved state as a run in hand: authenticate it, fold its log, find its agents and its context again."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypedDict, cast

import msgspec

from ...agents.agent import Agent
from ...agents.context import RunContextWrapper
from ...agents.context_type import checked_type, declared_type
from ...core import events as ev
from ...core.aside import check_not_aside
from ...core.codec import Log
from ...core.errors import AgentMissing, RunMissing, StateRejected, UserError
from ...core.items import own_copy, wrong_in_kept
from ...core.reply import check_proposal
from ...core.run import Run
from ...journal import opened
from ...journal.base import Journal
from ...support.turns import in_turns
from ..run.agents import AgentGraph
from ..run.known_tools import known_tool
from ..run.log_cache import log_in, recall
from ..run.open_run import OpenRun, journal_clock, wrapped
from ..views.items import ToolApprovalItem
from ..views.projection import approval_item, waiting_calls
from .blob import MAX_BYTES, unpack
from .context_data import Maker, load_context, made_of, only_data
from .undelivered import UndeliveredDecisions

_RUN_ID = re.compile("[0-9a-f]{32}")


class ContextOptions(TypedDict, total=False):
    """Says what the context of a run is that is loaded from a journal."""

    context: Any
    context_deserializer: Callable[[Any], Any] | None
    context_type: type[Any] | None


class LoadOptions(TypedDict, total=False):
    """Says how a saved state is loaded."""

    context_override: Any
    context_deserializer: Callable[[Any], Any] | None
    context_type: type[Any] | None
    strict_context: bool
    allow_unsigned: bool
    max_bytes: int


async def open_saved(
    agent: Agent[Any], data: Mapping[str, Any], options: LoadOptions
) -> tuple[OpenRun, UndeliveredDecisions]:
    """Load the run and the decisions of a saved state, or raise `StateRejected` or `AgentMissing`."""
    allow, size = options.get("allow_unsigned", False), options.get("max_bytes", MAX_BYTES)
    _check_root(agent)
    blob = unpack(data, allow_unsigned=allow, max_bytes=size)
    if blob.agent != agent.name:
        raise AgentMissing(blob.agent)
    live = OpenRun(await recall(blob.run, blob.log), AgentGraph(agent), _context(blob.context, agent, options))
    if options.get("context_override") is None:
        live.only_data = only_data(live.run, live.context, options.get("context_deserializer"))
    if not live.log.steps:
        live.run.id = blob.run
    elif live.run.id != blob.run:
        raise StateRejected("the state's log is another run's than the state names; use it as it was saved")
    try:
        said = msgspec.json.decode(blob.undelivered, type=UndeliveredDecisions)
    except (msgspec.MsgspecError, RecursionError):
        raise StateRejected("the state's decisions are not decisions; use the state as it was saved") from None
    if data.get("mac") is None:
        _check_recorded(live.log)
    if not _RUN_ID.fullmatch(live.run.id) or (said.start is None and not live.log.steps):
        raise StateRejected("the state is of no run that started or could start; use it as it was saved")
    return live, said


def _check_recorded(log: Log) -> None:
    """Refuse a log that nobody authenticated if one of its replies could not have been recorded."""
    replies = (event for step in log.steps for event in step.events if isinstance(event, ev.ReplyRecorded))
    for reply in replies:
        tools_are_read = all(isinstance(spec, dict) for spec in reply.tools.values())
        if not tools_are_read or any(wrong_in_kept(item) is not None for item in reply.output):
            raise StateRejected("a reply in the state's log cannot be read; use it as it was saved")
        for proposal in reply.proposals:
            try:
                check_proposal(proposal, reply.output[proposal.item])
            except (UserError, IndexError):
                raise StateRejected("a call in the state's log cannot be read; use it as it was saved") from None


def _context(saved: str, agent: Agent[Any], options: LoadOptions) -> RunContextWrapper[Any]:
    override = options.get("context_override")
    if isinstance(override, RunContextWrapper):
        return cast("RunContextWrapper[Any]", override)
    kind = checked_type(options.get("context_type")) or declared_type(agent)
    strict = options.get("strict_context", False)
    return load_context(saved, override, Maker(options.get("context_deserializer"), kind), strict=strict)


def checked_journal(journal: Any, run_id: object, agent: object) -> Journal:
    """Return the journal to load a run from; refuse arguments that are in each other's place, or something else."""
    # The class of a journal is remembered by what it has; of anything else each member is looked at.
    if not (issubclass(type(journal), str | Journal) or isinstance(journal, Journal)):
        raise UserError(f"journal is a journal or its URL, not {type(journal).__name__}: load(journal, run_id, agent)")
    if not isinstance(run_id, str):
        raise UserError(f"run_id is a text, not {type(run_id).__name__}: load(journal, run_id, agent)")
    _check_root(agent)
    return opened(journal) if isinstance(journal, str) else journal


def _check_root(agent: object) -> None:
    if not isinstance(agent, Agent):
        raise UserError(f"a run is loaded with the agent that started it, not with {type(agent).__name__}")


async def found(
    journal: Journal,
    run_id: str,
    agent: Callable[[str], Agent[Any]],
    options: ContextOptions,
    *,
    held: bool = False,
) -> OpenRun:
    """Load the run that a journal keeps, with the context given or the saved one, and the journal's clock.

    `agent` gives the root by its name. Who holds the run has the time from the claim, and needs its whole context.
    """
    log = await log_in(journal, run_id)
    if not log.steps:
        raise RunMissing(run_id)
    if held:  # before any code of the user's is called for it
        check_not_aside(log.run)
    root, context = agent(log.run.root_agent), options.get("context")
    maker = Maker(options.get("context_deserializer"), checked_type(options.get("context_type")) or declared_type(root))
    kept = log.run.context if context is None else None
    given = wrapped(context) if kept is None else made_of(own_copy(kept), maker, strict=held)
    live = OpenRun(log, AgentGraph(root), given, journal, kept=True)
    if kept is not None:
        live.only_data = only_data(live.run, given, maker.function)
    if not held:  # what is decided on it is decided by the journal's time, and not by ours
        live.clock = await journal_clock(journal)
    return live


def own_context(run: Run, agent: Agent[Any]) -> RunContextWrapper[Any]:
    """Return the context that an agent itself makes for its runs, as this one saved it; None where it makes none."""
    made = agent.own_context()
    kept = cast("dict[str, Any]", run.context or {})
    if made is not None and kept.get("kind") == "typed":
        made = agent.own_context(own_copy(kept["data"]))
    return wrapped(made)


async def waiting_tools(live: OpenRun) -> dict[str, Any]:
    """Return the tools of the waiting calls, for their previews and to check edits; no server is asked for them."""
    run = live.run
    return {
        call.id: await known_tool(run, call, live.graph.agent(call.agent), live.context)
        async for call in in_turns(list(run.groups["wait"].values()))
    }


async def waiting_requests(live: OpenRun) -> list[ToolApprovalItem]:
    """Return the items of the waiting calls of a run that was just read, with their tools."""
    run, tools = live.run, await waiting_tools(live)
    return [
        approval_item(run, call, live.graph.agent(call.agent), tools.get(call.id))
        async for call in in_turns(waiting_calls(run))
    ]
