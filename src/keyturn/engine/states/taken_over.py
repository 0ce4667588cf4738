"""A run that was taken over from another SDK: its decisions, and how it enters a journal.

An adapter replays the state that the other SDK saved (`adapters/openai_agents/taking_over.py`). It is imported when a
program asks for it, and knows the engine; the engine knows what it returns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Literal, NamedTuple, Protocol, TypedDict, Unpack, cast

from ...agents.agent import Agent
from ...core.decide import step
from ...core.errors import Conflict
from ...core.events import Step
from ...journal.base import Journal, LostRace
from ..driving.writer import Writer
from ..run.open_run import OpenRun
from .undelivered import UndeliveredDecisions

NOTE = "decided in openai-agents, before the run was taken over"
_ADAPTER = f"{__name__.partition('.')[0]}.adapters.openai_agents.taking_over"


class TakenOverDecision(NamedTuple):
    """Holds a decision on one call; `always` says that it was one on all calls of the tool."""

    verdict: Literal["approve", "reject"]
    always: bool = False
    message: str | None = None


class TakeoverOptions(TypedDict, total=False):
    """Says how a state of openai-agents is taken over."""

    context_override: Any
    context_deserializer: Callable[[Any], Any] | None
    strict_context: bool
    max_bytes: int


class TakenOver(NamedTuple):
    """Holds the run of a state, what is to be delivered to it, and the decisions on its waiting calls."""

    live: OpenRun
    said: UndeliveredDecisions
    words: dict[str, TakenOverDecision]


class Keeping(NamedTuple):
    """Says that a journal is to keep the run: which, its time, what its caller says of the run, its requester."""

    journal: Journal
    now: int
    about: dict[str, Any]
    requester: str | None = None


class _Adapter(Protocol):
    """Describes the adapter that takes over states of openai-agents."""

    async def take_over(
        self,
        agent: Agent[Any],
        data: Mapping[str, Any] | str,
        *,
        trust: bool,
        options: TakeoverOptions,
        keeping: Keeping | None,
    ) -> TakenOver: ...


async def take_over(
    agent: Agent[Any],
    data: Mapping[str, Any] | str,
    *,
    trust: bool,
    keeping: Keeping | None = None,
    **options: Unpack[TakeoverOptions],
) -> TakenOver:
    """Replay a state of openai-agents as a run of this agent, or refuse it and name what of it cannot be carried."""
    adapter = cast("_Adapter", import_module(_ADAPTER))
    return await adapter.take_over(agent, data, trust=trust, options=options, keeping=keeping)


async def write(live: OpenRun, said: UndeliveredDecisions, keeping: Keeping) -> None:
    """Write a run that was taken over into its journal, with what was decided there; a second time it is refused."""
    events = [event for command in said.commands() for event in step(live.run, command, keeping.now)]
    if events:
        live.log.append(Step(keeping.now, events))
    try:
        await Writer(live.log, keeping.journal, live.clock).write_whole()
    except LostRace:
        raise Conflict(f"this state was taken over before, as run {live.run.id}", winner=live.run.id) from None
