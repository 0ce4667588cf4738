"""Take over a paused state of openai-agents: its run is replayed here, through the same gate as every run.

The log is made as if the run had been played here, so what waits is a request like any other, and what was decided of
it is said on the state like any decision. A state of another SDK has no seal: who passes it vouches for it. Even so
nothing runs a second time of which it says that it ran, and nothing runs that no tool of the agent is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ...agents.agent import Agent
from ...agents.context import RunContextWrapper
from ...agents.context_type import declared_type
from ...core import commands as cm
from ...core.call_ids import ROOT
from ...core.codec import Log
from ...core.digest import digest
from ...core.errors import StateRejected
from ...core.items import own_copy
from ...core.people import plain_text
from ...core.usage import NOTHING, Counts
from ...engine.facts.values import said_items
from ...engine.run.agents import AgentGraph
from ...engine.run.open_run import OpenRun, new_salt, wrapped
from ...engine.states.blob import MAX_BYTES
from ...engine.states.context_data import Maker, load_context
from ...engine.states.taken_over import Keeping, TakenOver, TakeoverOptions
from ...engine.states.undelivered import UndeliveredDecisions
from .items import counts_of, turns_left
from .replay import FrameReplay
from .saved_state import VERSION, SavedState, read_state
from .takeover import Takeover

_NO_SEAL = (
    "a state of openai-agents has no seal: anyone with write access to where it was kept could change its calls and "
    "approve them; pass trust=True if it is as your program saved it"
)


async def take_over(
    agent: Agent[Any],
    data: Mapping[str, Any] | str,
    *,
    trust: bool,
    options: TakeoverOptions,
    keeping: Keeping | None = None,
) -> TakenOver:
    """Replay a state as a run of this agent, or refuse it and say what of it cannot be carried."""
    if trust is not True:
        raise StateRejected(_NO_SEAL)
    saved, name = read_state(data, options.get("max_bytes", MAX_BYTES))
    _check_paused(saved)
    live = OpenRun(Log(), AgentGraph(agent), _context(agent, saved, options))
    live.handed_out = True
    if keeping is not None:
        live.journal, live.clock = keeping.journal, lambda: keeping.now
        if not saved.model_responses:
            raise StateRejected("the state is of a run that has asked no model yet; start the run anew")
    # Its own name, so that the same state, taken over twice, is one run, whatever was decided on a copy of it.
    run_id = digest("openai-agents", name)[:32]
    said = UndeliveredDecisions(input=said_items(saved.pending_input) if saved.pending_input else [])
    if not saved.model_responses:
        live.run.id = run_id
        said.start = _start(saved)
        return TakenOver(live, said, {})
    over = Takeover(live, saved)
    _begin(over, saved, run_id, keeping)
    await FrameReplay(over, saved, ROOT).play()
    rest = _rest(live.run.usage, counts_of(saved.context.usage))
    if rest != NOTHING:  # of nested agents that have ended, whose replies the state does not hold
        over.do(cm.RefuseReply(ROOT, rest))
    if keeping is not None and saved.context.context is not None:
        kind = "typed" if saved.context.context_meta.get("requires_deserializer") else "plain"
        over.do(cm.SaveContext({"kind": kind, "data": own_copy(saved.context.context)}))
    return TakenOver(live, said, over.words)


def _check_paused(saved: SavedState) -> None:
    """Refuse a state that nobody can go on from, and what a run of ours cannot hold, by its name."""
    at = saved.current_step
    if saved.sandbox is not None:
        raise StateRejected("the state has a sandbox, and there are no sandbox agents here; finish this run there")
    if saved.terminal_unrecoverable or saved.pending_session_write is not None:
        what = "terminal_unrecoverable" if saved.terminal_unrecoverable else "pending_session_write"
        raise StateRejected(f"the state is marked {what}: its session lacks what ran; finish this run there")
    if saved.reasoning_item_id_policy is not None and saved.reasoning_item_id_policy != "preserve":
        raise StateRejected(
            "the state has a reasoning_item_id_policy, which is no part of a state here: set it to null in the state, "
            "and pass RunConfig(reasoning_item_id_policy=...) when you resume it"
        )
    if at is None and (saved.model_responses or saved.current_turn):
        raise StateRejected("the state is of a run that has ended or failed; only a paused run can be imported")
    if at is not None and at.type not in ("next_step_interruption", "next_step_run_again"):
        raise StateRejected(f"the state's current_step is a {at.type!r}, of which nothing is known here")
    if at is not None and not saved.model_responses:
        raise StateRejected("the state's model_responses are missing; use it as it was saved")


def _context(agent: Agent[Any], saved: SavedState, options: TakeoverOptions) -> RunContextWrapper[Any]:
    override, meta = options.get("context_override"), saved.context.context_meta
    if isinstance(override, RunContextWrapper):
        return wrapped(override)
    if meta.get("omitted") and override is None:
        raise StateRejected(
            f"the state was saved without its context, a {meta.get('original_type')}: pass context_override="
        )
    kind = "typed" if meta.get("requires_deserializer") else "plain"
    text = msgspec.json.encode({"kind": kind, "data": saved.context.context}).decode()
    strict = options.get("strict_context", False)
    return load_context(text, override, Maker(options.get("context_deserializer"), declared_type(agent)), strict=strict)


def _start(saved: SavedState) -> dict[str, Any]:
    """Return how a run begins that has asked no model yet."""
    return {
        "input": own_copy(saved.original_input),
        "max_turns": saved.max_turns,
        "conversation_id": saved.conversation_id,
        "previous_response_id": saved.previous_response_id,
        "auto_previous_response_id": saved.auto_previous_response_id,
        "about": _about(saved),
    }


def _begin(over: Takeover, saved: SavedState, run_id: str, keeping: Keeping | None) -> None:
    items, prefix, guarded = over.begins(saved)
    over.do(
        cm.Start(
            run_id,
            new_salt(run_id),
            own_copy(saved.original_input),
            _about(saved) | ({} if keeping is None else keeping.about),
            over.live.graph.root.name,
            items,
            turns_left(saved),
            guarded,
            prefix,
            saved.previous_response_id,
            None if keeping is None or keeping.requester is None else plain_text(keeping.requester, "requester"),
        )
    )


def _about(saved: SavedState) -> dict[str, Any]:
    """Return what is known of a run: where it is from, its trace, its conversation.

    The key of its trace is a secret, and no log holds it.
    """
    about: dict[str, Any] = {"taken_over_from": f"openai-agents, state {VERSION}"}
    trace = saved.trace or {}
    names = {"id": "trace_id", "workflow_name": "workflow", "group_id": "group_id", "metadata": "trace_metadata"}
    about |= {ours: trace[theirs] for theirs, ours in names.items() if trace.get(theirs) is not None}
    if saved.conversation_id is not None:
        about["conversation_id"] = saved.conversation_id
    if saved.previous_response_id is not None or saved.auto_previous_response_id:
        about["chained"] = True
    return about


def _rest(counted: Counts, told: Counts) -> Counts:
    """Return what a state says was used beyond what its replies did."""
    return Counts(*(max(getattr(told, name) - getattr(counted, name), 0) for name in Counts.__struct_fields__))
