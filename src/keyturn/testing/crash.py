"""The crash sweep: cut a run's log at every commit, resume it, and count what really happened.

A scenario is an agent that records its effects, an input, and how its interruptions are decided. Its model must answer
from the conversation alone. Each cut is tried twice: what was in flight had happened, or it had not. The promise
checked is that the run always ends as it would have, every effect once, and never stands still with nothing to do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from ..agents.agent import Agent
from ..agents.context import RunContextWrapper
from ..core.codec import Log
from ..core.effects import pending
from ..core.events import CallFinished, CallStarted
from ..core.immutable import immutable
from ..core.run import request_id
from ..engine.result import RunResult
from ..engine.run.agents import AgentGraph
from ..engine.run.open_run import OpenRun
from ..engine.run.used_states import UsedStates
from ..engine.runner import Runner
from ..engine.states.state import RunState
from ..engine.views.items import ToolApprovalItem

ROUNDS = 40


@dataclass
class Effects:
    """Records what the tools of a scenario did to the world: a list of (key, what)."""

    done: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def record(self, context: Any, what: str) -> None:
        """Record, from inside a tool, that its effect happens now."""
        self.done.append((context.idempotency_key, what))

    def counts(self) -> Counter[str]:
        """Return how often each effect happened, one key counting once: that is what an idempotency key is for."""
        return Counter(what for _key, what in dict.fromkeys(self.done))


@dataclass(frozen=True)
class Scenario:
    """Describes a run that can be played from any point.

    `decide` answers an interruption: True approves, False rejects, a mapping or a text edits, `Answer(value)`
    answers. A tool that needs answers acts once it has them all, or is one that may act twice.
    """

    name: str
    build: Callable[[Effects], Agent[Any]]
    input: str | list[Any] = "go"
    decide: Callable[[ToolApprovalItem], Any] = lambda item: True
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])


@immutable
@dataclass(frozen=True)
class Answer:
    """Holds a person's own result for a call."""

    value: Any


class Act(NamedTuple):
    """Records one effect of an uncut run, and how long the log was at the next pause."""

    key: str
    what: str
    before: int


@dataclass(frozen=True)
class RunOutcome:
    """Describes how a run ended."""

    output: Any
    effects: Counter[str]
    log: Log


@dataclass
class Sweep:
    """Reports what a sweep tried and found."""

    cuts: int = 0
    doubts: int = 0
    violations: list[str] = field(default_factory=list[str])


async def play(scenario: Scenario, *, streamed: bool = False, saved: bool = False) -> RunOutcome:
    """Play a scenario to its end; `saved` carries the state through text at each pause."""
    effects, seen = Effects(), 0
    agent = scenario.build(effects)
    result = await _run(agent, scenario.input, scenario, streamed=streamed)
    for _ in range(ROUNDS):
        if not result.interruptions:
            return RunOutcome(result.final_output, effects.counts(), result.to_state().live.log)
        state = result.to_state()
        if saved:
            agent = scenario.build(effects)
            state = await RunState.from_string(agent, state.to_string())
        _settle(state, scenario, effects.done[seen:])
        seen = len(effects.done)
        result = await _run(agent, state, scenario, streamed=streamed)
    raise AssertionError(f"{scenario.name}: still waiting after {ROUNDS} rounds")


async def _run(agent: Agent[Any], given: Any, scenario: Scenario, *, streamed: bool) -> RunResult:
    if not streamed:
        return await Runner.run(agent, given, **scenario.options)
    stream = Runner.run_streamed(agent, given, **scenario.options)
    async for _event in stream.stream_events():
        pass
    return stream.run_loop_task.result()


def _settle(state: RunState[Any], scenario: Scenario, fresh: list[tuple[str, str]]) -> None:
    """Decide all that waits; `fresh` is what happened since the last time, by which a call in doubt is resolved."""
    for item in state.get_interruptions():
        if item.kind == "in_doubt":
            happened = [what for key, what in fresh if key == item.request_id]
            state.resolve(item, "ran" if happened else "retry", output=happened[0] if happened else None)
            continue
        how = scenario.decide(item)
        if isinstance(how, Answer):
            state.answer(item, how.value)
        elif isinstance(how, Mapping | str):
            state.approve(item, edit=cast("Mapping[str, Any] | str", how))
        elif how:
            state.approve(item)
        else:
            state.reject(item)


async def sweep(scenario: Scenario, *, streamed: bool = False) -> Sweep:
    """Cut the scenario's log at every commit, resume it both ways, and compare with the uncut run."""
    acts: list[Act] = []
    whole = await _whole(scenario, acts)
    report = Sweep()
    for cut in range(1, len(whole.log)):
        before, in_flight = _acts_at(whole.log, acts, cut)
        for happened in [[], in_flight] if in_flight else [[]]:
            report.cuts += 1
            await _resume_cut(scenario, whole, (cut, before, happened), report, streamed=streamed)
    return report


async def _whole(scenario: Scenario, acts: list[Act]) -> RunOutcome:
    """Play a scenario uncut, and record of each act how long the log was at the pause after it."""
    effects = Effects()
    agent = scenario.build(effects)
    result = await Runner.run(agent, scenario.input, **scenario.options)
    for _ in range(ROUNDS):
        state, fresh = result.to_state(), effects.done[len(acts) :]
        acts += [Act(key, what, len(state.live.log)) for key, what in fresh]
        if not result.interruptions:
            break
        _settle(state, scenario, fresh)
        result = await Runner.run(agent, state, **scenario.options)
    return RunOutcome(result.final_output, effects.counts(), result.to_state().live.log)


def _acts_at(log: Log, acts: list[Act], cut: int) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return what had happened for sure when the log was `cut` commits long, and what was in flight then."""
    starts: dict[str, list[int]] = {}
    for position, step in enumerate(log.steps, 1):
        for event in step.events:
            if isinstance(event, CallStarted):
                starts.setdefault(request_id(log.run, event.call), []).append(position)
    prefix = Log.read(log.lines(cut))
    flying = {request_id(prefix.run, call_id) for call_id in prefix.run.groups["started"]}
    sure, in_flight = list[tuple[str, str]](), list[tuple[str, str]]()
    for act in acts:
        began = max(start for start in starts[act.key] if start <= act.before)
        last = max((start for start in starts[act.key] if start <= cut), default=0)
        if began <= cut:
            (in_flight if act.key in flying and began == last else sure).append((act.key, act.what))
    return sure, in_flight


async def _resume_cut(
    scenario: Scenario,
    whole: RunOutcome,
    cut: tuple[int, list[tuple[str, str]], list[tuple[str, str]]],
    report: Sweep,
    *,
    streamed: bool,
) -> None:
    count, known, happened = cut
    effects, seen = Effects([*known, *happened]), len(known)
    agent = scenario.build(effects)
    live = OpenRun(
        Log.read(whole.log.lines(count)),
        AgentGraph(agent),
        RunContextWrapper(scenario.options.get("context")),
        used=UsedStates(),  # another process remembers nothing of what this one did
    )
    state = RunState.at(live, count, [])
    where = f"{scenario.name}: cut after commit {count} of {len(whole.log)}, {len(effects.done)} effects before"
    try:
        result = await _run(agent, state, scenario, streamed=streamed)
        for _ in range(ROUNDS):
            if not result.interruptions:
                break
            state = result.to_state()
            report.doubts += sum(item.kind == "in_doubt" for item in state.get_interruptions())
            _settle(state, scenario, effects.done[seen:])
            seen = len(effects.done)
            result = await _run(agent, state, scenario, streamed=streamed)
    except Exception as error:
        report.violations.append(f"{where}: {type(error).__name__}: {error}")
        return
    _compare(where, whole, RunOutcome(result.final_output, effects.counts(), live.log), report)


def _compare(where: str, whole: RunOutcome, ended: RunOutcome, report: Sweep) -> None:
    run = ended.log.run
    if run.status != "finished":
        stuck = "nothing to do" if not pending(run) else "something left to do"
        report.violations.append(f"{where}: ended {run.status} with {stuck}")
    elif ended.output != whole.output:
        report.violations.append(f"{where}: answered differently")
    if ended.effects != whole.effects:
        failed = "; ".join(_failures(ended.log)) or "no call failed"
        report.violations.append(f"{where}: effects {dict(ended.effects)}, not {dict(whole.effects)} ({failed})")


def _failures(log: Log) -> Iterator[str]:
    """Return what was reported of calls that failed: why an effect is missing."""
    for step in log.steps:
        for event in step.events:
            if isinstance(event, CallFinished) and event.failed:
                yield f"{event.call}: {str(event.item.get('output'))[:300]}"
