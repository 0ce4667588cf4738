"""The checker: healthy journals pass on every store, and what the world knows besides is held against them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from keyturn import Agent, Grant, MemoryJournal, Runner, RunState, ToolContext, function_tool
from keyturn.agents.context import RunContextWrapper
from keyturn.audit.checker import Told, check, heads
from keyturn.cli.main import main
from keyturn.core.codec import Log
from keyturn.engine.run.agents import AgentGraph
from keyturn.engine.run.open_run import OpenRun
from keyturn.journal import open_journal
from keyturn.journal.base import Store
from keyturn.testing import ScriptedModel, assistant_message, function_call
from keyturn.testing.crash import Effects, Scenario, play
from keyturn.tools.base import NeedsInput, OutcomeUnknown
from tests.effort import AT_LENGTH
from tests.scenarios import CATALOGUE


def kept(scenario: Scenario, journal: Store, build: Callable[[Effects], Agent[Any]] | None = None) -> Scenario:
    """A scenario whose run is kept in a journal."""
    return replace(scenario, build=build or scenario.build, options={**scenario.options, "journal": journal})


@pytest.mark.sweep
async def test_every_scenario_keeps_every_promise_on_every_store(store: Store) -> None:
    effects = Effects()
    played = [(scenario, streamed) for scenario in CATALOGUE for streamed in (False, True)]
    played = played if AT_LENGTH else [each for place, each in enumerate(played) if place % 4 in (0, 3)]
    for scenario, streamed in played:

        def build(own: Effects, scenario: Scenario = scenario) -> Agent[Any]:
            own.done = effects.done  # all runs act in one world
            return scenario.build(own)

        await play(kept(scenario, store, build), streamed=streamed)
    seen = Counter(key for key, _what in effects.done)
    report = await check(store, effects=seen, heads=await heads(store))
    assert report.ok, str(report)
    assert (report.runs, report.unproven, report.moving) == (len(played), 0, 0)
    assert report.lines > 200


async def test_a_standing_approval_that_covers_what_asks_from_inside_keeps_every_promise(store: Store) -> None:
    """A later call is decided in the line in which its tool asks; one that was approved asks a person."""
    asked = list[int]()

    @function_tool
    def pay(context: ToolContext, amount: int) -> Any:
        asked.append(amount)
        if amount == 3 or not context.tool_call_approved:
            return NeedsInput({"amount": amount}, wants="approval")
        return "paid"

    model = ScriptedModel([[function_call("pay", {"amount": amount})] for amount in (1, 2, 3)])
    agent = Agent("desk", model=model, tools=[pay])
    result = await Runner.run(agent, "go", journal=store)
    state = result.to_state()
    state.approve(result.interruptions[0], always_approve=True)
    result = await Runner.run(agent, state)
    assert (asked, [call.params for call in result.interruptions]) == ([1, 1, 2, 2, 3, 3], [{"amount": 3}])
    report = await check(store)
    assert report.ok, report.violations


async def test_an_idempotent_call_that_was_in_doubt_and_asks_from_inside_is_proposed_anew() -> None:
    """To repeat it does no harm, so that nobody has to say what its first start did."""
    starts = list[int]()

    @function_tool(idempotent=True)
    def pay(amount: int) -> Any:
        starts.append(amount)
        if len(starts) == 1:
            raise OutcomeUnknown("the bank does not answer")
        return NeedsInput({"amount": amount}, wants="approval")

    agent = Agent("desk", model=ScriptedModel([[function_call("pay", {"amount": 1})], "done"]), tools=[pay])
    journal = MemoryJournal()
    state = (await Runner.run(agent, "go", journal=journal)).to_state()
    state.resolve(state.get_interruptions()[0], "retry")
    state = (await Runner.run(agent, state)).to_state()
    state.approve(state.get_interruptions()[0])
    pay.description = "Pay somebody else."
    result = await Runner.run(agent, state)
    assert (len(starts), [call.kind for call in result.interruptions]) == (2, ["approval"])
    report = await check(journal)
    assert report.ok, report.violations


@pytest.mark.trial
async def test_every_prefix_of_every_log_keeps_every_promise() -> None:
    for scenario in CATALOGUE[::3]:
        log = (await play(scenario)).log
        for count in range(1, len(log) + 1):
            cut = OpenRun(Log.read(log.lines(count)), AgentGraph(scenario.build(Effects())), RunContextWrapper(None))
            report = await check(RunState.at(cut, count, []))
            assert report.ok, f"{scenario.name}, {count} lines: {report}"


async def test_a_bare_state_is_checked_as_far_as_it_goes() -> None:
    state = RunState(None, "hi", Agent("a"))
    assert (await check(state)).lines == 0
    result = await Runner.run(Agent("a", model=ScriptedModel(["hello"])), "hi")
    report = await check(result.to_state())
    assert (report.ok, report.lines) == (True, result.to_state().position)


class Desk:
    """A run that pays once it is approved, in a store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.keys: list[str] = []

    async def pays(self, *amounts: int, grant: Grant | None = None, by: str = "ada") -> str:
        """The id of a run that has paid."""

        @function_tool(needs_approval=True)
        async def pay(context: ToolContext[Any], amount: int) -> str:
            self.keys.append(context.idempotency_key)
            return f"paid {amount}"

        rounds = [[function_call("pay", {"amount": amount}, call_id=f"c{amount}")] for amount in amounts]
        agent = Agent("desk", model=ScriptedModel([*rounds, assistant_message("done")]), tools=[pay])
        result = await Runner.run(agent, "go", journal=self.store)
        while result.interruptions:
            state = result.to_state()
            state.approve(result.interruptions[0], grant=grant, by=by)
            result = await Runner.run(agent, state)
        return result.run_id


async def test_grants_and_edits_are_in_their_rows(store: Store) -> None:
    desk = Desk(store)
    await desk.pays(1, 2, 3, grant=Grant(uses=1, where={"amount": {"le": 2}}))
    await desk.pays(1, 2, grant=Grant())
    report = await check(store)
    assert report.ok, str(report)
    assert sum(row.uses for row in await store.grants()) == 2


async def test_effects_of_the_world_are_held_against_the_starts() -> None:
    desk = Desk(MemoryJournal())
    run = await desk.pays(5)
    [key] = desk.keys
    assert (await check(desk.store, effects={key: 1})).ok
    assert (await check(desk.store, effects={key: 0})).ok, "who looks too early has seen nothing yet"
    [twice] = (await check(desk.store, effects={key: 2})).violations
    assert (twice.invariant, twice.run) == ("I2", run)
    [alone] = (await check(desk.store, effects={key: 1, "5e1f": 1})).violations
    assert (alone.invariant, alone.run) == ("I1", "")


async def test_an_acknowledged_decision_is_looked_for() -> None:
    desk = Desk(MemoryJournal())
    run = await desk.pays(5)
    for call in ("r/1.0", desk.keys[0]):
        assert (await check(desk.store, acknowledged=[(run, call, "approve"), Told(run, call, "approve", "ada")])).ok
    lost = [Told(run, "r/1.0", "reject"), Told(run, "r/1.0", "approve", "bob"), Told("gone", "r/1.0", "approve")]
    report = await check(desk.store, acknowledged=lost)
    assert [violation.invariant for violation in report.violations] == ["I5"] * 3


async def test_heads_kept_elsewhere_say_what_is_proven() -> None:
    desk = Desk(MemoryJournal())
    first = await desk.pays(5)
    known = await heads(desk.store)
    second = await desk.pays(6)
    report = await check(desk.store, heads=known)
    assert (report.ok, report.unproven) == (True, await desk.store.head(second))
    report = await check(desk.store, heads={**known, "gone": (3, "5e1f"), first: (known[first].lines, "5e1f")})
    assert {(violation.invariant, violation.run) for violation in report.violations} == {("I5", "gone"), ("I8", first)}


async def test_a_run_that_moves_too_fast_is_counted_and_not_judged() -> None:
    desk = Desk(MemoryJournal())
    await desk.pays(5)

    class Restless:
        """A store in which somebody appends whenever it is looked at."""

        moved = 0

        def __getattr__(self, name: str) -> Any:
            return getattr(desk.store, name)

        async def head(self, run: str) -> int:
            self.moved += 1
            return self.moved

    restless: Any = Restless()
    report = await check(restless)
    assert (report.ok, report.moving, report.runs) == (True, 1, 0)


# The command --------------------------------------------------------------------------------------------------------


def checked(*arguments: str) -> int:
    return main(["check", *arguments])


async def written(path: Path, *amounts: int) -> str:
    journal: Any = open_journal(f"sqlite:///{path}")
    run = await Desk(journal).pays(*amounts)
    await journal.close()
    return run


def test_the_command_says_that_all_is_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url, kept_heads = f"sqlite:///{tmp_path}/runs.db", str(tmp_path / "heads.json")
    asyncio.run(written(tmp_path / "runs.db", 5))
    assert checked(url, "--keep", kept_heads) == 0
    assert "verified" in capsys.readouterr().out
    assert checked(url, "--heads", kept_heads) == 0
    assert "vouches" not in capsys.readouterr().out
    asyncio.run(written(tmp_path / "other.db", 5))
    assert checked(f"sqlite:///{tmp_path}/other.db", "--heads", kept_heads) == 1
    assert "I5" in capsys.readouterr().out


def test_the_command_says_what_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert checked(f"sqlite:///{tmp_path}/none.db") == 2
    assert "there is no journal" in capsys.readouterr().err
    assert not (tmp_path / "none.db").exists()
    (tmp_path / "heads.json").write_text("{]")
    assert checked("memory://", "--heads", str(tmp_path / "heads.json")) == 2
    assert "holds no heads" in capsys.readouterr().err
