"""Traces for the public checker `agentack`: its own code passes our real runs and fails every mutant of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agentack.engine import evaluate_events
from agentack.models import TraceEvent
from agentack.parser import read_jsonl
from agentack.policy import Policy
from msgspec.structs import replace

from keyturn import App, Approval, Grant, MemoryJournal, Runner
from keyturn.audit.checker import check
from keyturn.audit.decisions.agentack import trace_of
from keyturn.audit.service import Audit
from keyturn.core import commands as cm
from keyturn.core import events as ev
from keyturn.core.people import Decider
from keyturn.engine.run.log_cache import log_in
from keyturn.testing.crash import play
from tests.audit.records import ADA, a_call, desk, paid, paying
from tests.core.samples import asked, person, tool
from tests.corpus.stories import STORIES
from tests.scenarios import CATALOGUE

BOB = Decider("bob", strength="authenticated")
Steps = list[ev.Step]


def judged(steps: Steps, **sources: Any) -> tuple[str, set[str]]:
    """What agentack says of a run, where everything takes an approval."""
    first: Any = steps[0].events[0]
    trace = trace_of(first.run, steps, **sources)
    events = [TraceEvent.from_dict(json.loads(json.dumps(each)), line=place) for place, each in enumerate(trace, 1)]
    report = evaluate_events(events, policy=Policy(require_approval_for=("*:*",)))
    return report.status, {finding.rule_id for finding in report.findings}


async def test_every_scenario_passes(streamed: bool) -> None:
    for scenario in CATALOGUE:
        log = (await play(scenario, streamed=streamed)).log
        assert judged(log.steps) == ("PASS", set()), scenario.name


async def test_every_story_of_the_corpus_passes() -> None:
    for name, story in STORIES.items():
        journal = MemoryJournal()
        result = await Runner.run(story.make(), "go", journal=journal)
        while result.interruptions:
            state = result.to_state()
            for item in result.interruptions:
                story.decide(state, item)
            result = await Runner.run(story.make(), state)
        assert judged(result.to_state().live.log.steps) == ("PASS", set()), name


async def test_what_runs_outside_is_compared_with_what_was_shown_and_approved(tmp_path: Path) -> None:
    """The trace is no circle: what people were shown is read from the rows, and what ran from the tools themselves."""
    journal = MemoryJournal()
    run = await paid(journal, a_call(5))
    steps = (await log_in(journal, run)).steps
    [row] = await journal.requests()
    told = {"shown": {row.id: row.params}, "executed": {row.id: [{"amount": 5, "token": "[redacted]"}]}}
    assert judged(steps, **told) == ("PASS", set())
    assert judged(steps, **(told | {"executed": {row.id: [{"amount": 6, "token": "[redacted]"}]}}))[0] == "FAIL"
    assert judged(steps, **(told | {"shown": {row.id: {"amount": 6}}}))[0] == "FAIL"


async def test_an_open_run_is_incomplete_and_a_store_is_exported_run_by_run(tmp_path: Path) -> None:
    here = await desk(tmp_path, scenarios=CATALOGUE)
    waiting = await Runner.run(paying(a_call(1)), "go", journal=here.store)
    folder = tmp_path / "traces"
    await here.audit.export(folder, format="agentack")
    policy = Policy.from_toml(folder / "policy.toml")
    assert policy.require_approval_for == ("*:*",)
    found = {
        path.stem: evaluate_events(read_jsonl(path), policy=policy).status for path in sorted(folder.glob("*.jsonl"))
    }
    run = waiting.to_state().run_id
    assert found.pop(run) == "INCOMPLETE"
    assert len(found) == len(CATALOGUE)
    assert set(found.values()) == {"PASS"}
    await here.audit.export(tmp_path / "one", format="agentack", run=run)
    assert [path.stem for path in (tmp_path / "one").glob("*.jsonl")] == [run]


def test_who_decides_alone_in_an_emergency_or_after_a_confirmation_approved_it() -> None:
    def trace(terms: Approval, *words: ev.Decision) -> tuple[str, set[str]]:
        pen = asked(tool("c0", "ask", terms=terms), requester="eve")
        for made in words:
            pen.decide("approve", by=made.decider, broke_glass=made.broke_glass, note=made.note)
        if pen.state() == "asked":
            return "pending", set()
        pen.begin()
        pen.end()
        pen(cm.CloseRun("done", []))
        return judged(pen.log.steps)

    def by(name: str, *roles: str, **way: Any) -> ev.Decision:
        return ev.Decision("r/1.0", "approve", "", decider=person(name, *roles), **way)

    two = Approval(role="ops", confirm=True, break_glass="chief")
    chain = Approval(steps=[Approval(confirm=True), Approval(role="ops", quorum=2)])
    alone, requester, ops, other = (
        by("cyd", "chief", broke_glass=True, note="fire"),
        by("eve"),
        by("ada", "ops"),
        by("bob", "ops"),
    )
    assert trace(two, alone) == ("PASS", set())
    assert trace(two, requester, ops) == ("PASS", set())
    assert trace(chain, requester, ops, other) == ("PASS", set())
    assert trace(chain, requester, ops) == ("pending", set())


# Mutants ------------------------------------------------------------------------------------------------------------


def each_event(steps: Steps, change: Callable[[Any], list[Any]]) -> Steps:
    """The steps with each of their events changed, left out or doubled."""
    made = [replace(step, events=[new for event in step.events for new in change(event)]) for step in steps]
    return [step for step in made if step.events]


def decision(change: Callable[[ev.Decision], ev.Decision]) -> Callable[[Steps], Steps]:
    def made(event: Any) -> list[Any]:
        return [replace(event, decision=change(event.decision))] if isinstance(event, ev.CallDecided) else [event]

    return lambda steps: each_event(steps, made)


def without(kind: type[Any]) -> Callable[[Steps], Steps]:
    return lambda steps: each_event(steps, lambda event: [] if isinstance(event, kind) else [event])


def doubled(kind: type[Any]) -> Callable[[Steps], Steps]:
    return lambda steps: each_event(steps, lambda event: [event, event] if isinstance(event, kind) else [event])


def late(steps: Steps) -> Steps:
    """Everything from the decision on happens a day after it."""
    place = next(n for n, step in enumerate(steps) if any(isinstance(each, ev.CallDecided) for each in step.events))
    moved = [replace(step, at=step.at + 86_400_000) for step in steps[place:]]
    return [*steps[:place], *decision(lambda made: with_decision(made, at=made.at + 86_400_000))(moved)]


def stale(steps: Steps) -> Steps:
    """It starts a day after it was approved."""
    place = next(n for n, step in enumerate(steps) if any(isinstance(each, ev.CallDecided) for each in step.events))
    step = steps[place]
    first = [each for each in step.events if isinstance(each, ev.CallDecided)]
    rest = [each for each in step.events if not isinstance(each, ev.CallDecided)]
    after = [replace(step, events=rest), *steps[place + 1 :]]
    return [*steps[:place], replace(step, events=first), *[replace(each, at=each.at + 86_400_000) for each in after]]


def with_decision(made: ev.Decision, **fields: Any) -> ev.Decision:
    return replace(made, **fields)


def restarted(steps: Steps) -> Steps:
    """It is started again after it had its result."""
    return each_event(
        steps,
        lambda event: [event, ev.CallStarted(event.call)] if isinstance(event, ev.CallFinished) else [event],
    )


def cancelled(steps: Steps) -> Steps:
    """The run is cancelled before the tool is started, and it is started."""
    return each_event(steps, lambda event: [ev.RunCancelled(), event] if isinstance(event, ev.CallStarted) else [event])


def other_call(steps: Steps) -> Steps:
    """The word on one call is used for another."""
    return decision(lambda made: with_decision(made, call="r/1.1"))(steps)


TERMS = Approval(not_requester=True, quorum=2, users=("ada", "bob"), expires="1h", execute_by="1h")
MUTANTS: dict[str, Callable[[Steps], Steps]] = {
    "started twice": doubled(ev.CallStarted),
    "started again after its result": restarted,
    "started without a decision": without(ev.CallDecided),
    "started without being asked about": without(ev.CallScreened),
    "decided for other bytes": decision(lambda made: with_decision(made, digest="0" * 64)),
    "decided after its time": late,
    "started after its approval had gone stale": stale,
    "rejected and started": decision(lambda made: with_decision(made, verdict="reject")),
    "expired and started": decision(lambda made: with_decision(made, verdict="expire", via="clock", decider=None)),
    "decided by the requester": decision(lambda made: with_decision(made, decider=with_name(made, "root"))),
    "decided by the wrong person": decision(lambda made: with_decision(made, decider=with_name(made, "eve"))),
    "decided by a name alone": decision(lambda made: with_decision(made, decider=Decider("bob"))),
    "decided by nobody": decision(lambda made: with_decision(made, decider=None)),
    "decided by one of two": without(ev.VoteCast),
    "decided twice by the same": decision(lambda made: with_decision(made, decider=ADA)),
    "decided by a grant that is not": decision(
        lambda made: with_decision(made, via="grant", grant="none", decider=None)
    ),
    "decided by the tool itself": decision(lambda made: with_decision(made, via="on_approval", decider=None)),
    "edited to other bytes": decision(
        lambda made: with_decision(made, verdict="edit", args='{"amount":9}', runs="0" * 64)
    ),
    "the word on another call": other_call,
    "cancelled and started": cancelled,
}


def with_name(made: ev.Decision, name: str) -> Decider:
    assert made.decider is not None
    return replace(made.decider, id=name)


async def strict() -> Steps:
    """An honest run that two people let make a payment, neither of them its requester."""
    journal = MemoryJournal()
    agent = paying([*a_call(5), *a_call(6)], "Done.")
    _tool: Any = agent.tools[0]
    _tool.approval = TERMS
    async with App([agent], journal) as app:
        run = await app.start("desk", "go", requester="root")
        await run.wait()
        for row in await app.inbox.list(run=run.id):
            await app.inbox.approve(row, by=ADA)
        for row in await app.inbox.list(run=run.id):
            await app.inbox.approve(row, by=BOB)
        await run.result()
    assert (await check(journal)).ok
    return (await log_in(journal, run.id)).steps


async def test_agentack_passes_the_honest_run_and_fails_every_mutant() -> None:
    steps = await strict()
    assert judged(steps) == ("PASS", set())
    for name, mutate in MUTANTS.items():
        status, rules = judged(mutate(steps))
        assert status == "FAIL", f"{name}: {status} {rules}"


async def test_a_grant_used_too_late_or_for_another_tool_fails() -> None:
    journal = MemoryJournal()
    run = await paid(journal, a_call(1), a_call(2), grant=Grant(expires="1h"))
    steps = (await log_in(journal, run)).steps
    assert judged(steps) == ("PASS", set())

    def other_tool(event: Any) -> list[Any]:
        if isinstance(event, ev.GrantGiven):
            return [replace(event, grant=replace(event.grant, tool="another"))]
        return [event]

    said = [each.decision.via for step in steps for each in step.events if isinstance(each, ev.CallDecided)]
    by = [each.by for step in steps for each in step.events if isinstance(each, ev.CallScreened)]
    assert "grant" in said or any(each.startswith("grant:") for each in by), (said, by)
    assert judged(each_event(steps, other_tool))[0] == "FAIL"


async def test_arguments_of_any_shape_make_a_trace_that_can_be_read() -> None:
    deep: Any = 5
    for _ in range(40):
        deep = [deep]
    assert trace_of("run", [])[:] == []
    from keyturn.audit.decisions.agentack import _plain

    for value in (None, 5, [1], {"a": deep}, {"a": "x" * 300_000}):
        made = _plain(value)
        assert isinstance(made, dict)
        assert len(json.dumps(made)) < 300_000


@pytest.mark.each
@pytest.mark.parametrize("wrong", [{"format": "xml"}, {"format": "agentack", "tool": "pay"}, {"run": "x"}])
async def test_what_an_export_cannot_do_is_refused(wrong: dict[str, Any], tmp_path: Path) -> None:
    from keyturn import UserError

    with pytest.raises(UserError):
        await Audit(MemoryJournal(), key=tmp_path / "key").export(tmp_path / "out", **wrong)
