"""Insights: times, rates and hurried decisions of tools and people, from what the store counted."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyturn import Agent, App, Decider, MemoryJournal, UserError, function_tool
from keyturn.inbox.figures import Figures, quantile
from keyturn.inbox.insights import Insights, floors_of
from keyturn.journal.rows import COUNTED_FROM, DAY_MS, EDGES, Changes, RunRow, Tally, summed
from keyturn.models.scripted.model import ScriptedModel, function_call
from tests.playing import Clock

NOW = 20_000 * DAY_MS


@function_tool(needs_approval=True, risk="high")
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def person(name: str) -> Decider:
    return Decider(name, strength="authenticated")


async def counted(*tallies: Tally, now: int = NOW) -> Insights:
    store = MemoryJournal(lambda: now)
    row = RunRow("run", "desk", "finished", 0, 0)
    await store.append("run", 0, [b"1"], None, Changes(row, tallies=summed(tallies)))
    return Insights(store)


def said(word: str, ms: int = 5_000, *, day: int = 20_000, **names: str) -> Tally:
    return Tally.once(word, ms, at=day * DAY_MS, **{"tool": "pay", "kind": "approval", **names})


def one(figures: list[Figures], name: str) -> Figures:
    [found] = [each for each in figures if each.name == name]
    return found


async def test_an_app_tells_how_its_people_decide(run: Any) -> None:
    clock = Clock()
    store = MemoryJournal(clock)
    agent = Agent("desk", model=ScriptedModel([[function_call("pay", {"amount": 5})]] * 3), tools=[pay])
    app = App([agent], store, worker=False)
    for took, word in ((1_000, "approve"), (4_000, "approve"), (60_000, "reject")):
        await run(agent, "go", journal=store)
        [row] = await app.inbox.list()
        clock.pass_ms(took)
        decide = app.inbox.approve if word == "approve" else app.inbox.reject
        await decide(row, by=person("ada"))
    await app.people.start("ada")
    await app.people.set("min_look", {"high": "5s"}, by="ada")
    report = await app.insights.report(days=1)
    [tool], [ada], [kind] = report.tools, report.people, report.kinds
    assert (tool.name, ada.name, kind.name) == ("pay", "ada", "approval")
    assert (tool.decided, tool.approval_rate, tool.rejection_rate, tool.expiry_rate) == (3, 0.6667, 0.3333, 0.0)
    assert (tool.to_decide.count, tool.to_decide.mean_s) == (3, pytest.approx(21.667, abs=0.5))
    assert (ada.read, ada.hurried, report.floors) == (2, 2, {"": 2.0, "high": 5.0})
    await app.people.set("min_look", {"high": "2s"}, by="ada")
    assert (await app.insights.report()).total.hurried == 1


async def test_rates_are_of_what_they_say() -> None:
    told = [said("approve", person="ada")] * 6 + [said("edit", person="ada")] * 2 + [said("reject", person="bob")] * 2
    told += [said("expire")] * 3 + [said("ask_again")] + [said("escalate")] * 2 + [said("grant")] * 4 + [said("void")]
    told += [said("vote approve", person="bob")] * 2 + [said("look", 2_500, person="bob")] * 2
    report = await (await counted(*told)).report()
    total, bob = report.total, one(report.people, "bob")
    assert (total.decided, total.ended) == (12, 20), "as the sum of the approvers"
    assert (total.approval_rate, total.edit_rate, total.rejection_rate) == (0.8333, 0.1667, 0.1667)
    assert (total.expiry_rate, total.escalation_rate) == (0.2, 0.1)
    assert (bob.decided, bob.approval_rate, bob.rejection_rate) == (4, 0.5, 0.5), "a vote is a decision of its person"
    assert (total.first_look.count, total.first_look.median_s) == (2, 2.5)
    assert total.words["void"] == 1


async def test_kinds_that_come_later_are_counted_by_their_name() -> None:
    told = [said("approve", kind="drill", person="ada"), said("reject", kind="review", person="ada")]
    report = await (await counted(*told)).report()
    assert [(each.name, each.words) for each in report.kinds] == [("drill", {"approve": 1}), ("review", {"reject": 1})]


async def test_days_are_those_that_were_asked_for() -> None:
    insights = await counted(*[said("approve", day=20_000 - ago) for ago in (0, 1, 6, 7, 29, 30)])
    assert [(await insights.report(days=days)).decided for days in (1, 2, 7, 30, 31)] == [1, 2, 3, 5, 6]
    report = await insights.report(days=7)
    assert (report.since, report.until, report.counted_from) == ("2024-09-28", "2024-10-04", None)


async def test_nothing_is_said_of_nothing() -> None:
    report = await Insights(MemoryJournal()).report()
    assert (report.total.approval_rate, report.total.to_decide.median_s, report.tools) == (None, None, [])


async def test_days_before_counting_began_are_told() -> None:
    begun = Tally(COUNTED_FROM, ms=19_999)
    assert (await (await counted(begun, said("approve"))).report()).counted_from == "2024-10-04"


@pytest.mark.parametrize("days", [0, -1, 10_000, True, "7", 1.5])
async def test_days_that_are_none_are_refused(days: Any) -> None:
    with pytest.raises(UserError, match="days is a whole number"):
        await Insights(MemoryJournal()).report(days=days)


@pytest.mark.parametrize("newest", [0, 20_001, True, "7"])
async def test_a_number_of_requests_that_is_none_is_refused(newest: Any) -> None:
    with pytest.raises(UserError, match="newest is a whole number"):
        await Insights(MemoryJournal()).suggestions(newest=newest)


@pytest.mark.parametrize("setting", ["soon", {"high": "soon"}, [5], True, {"high": None}])
def test_a_floor_that_is_no_duration_is_refused_with_the_remedy(setting: Any) -> None:
    with pytest.raises(UserError, match=r"min_look.*set it anew"):
        floors_of(setting)


@given(st.lists(st.integers(0, EDGES[-1] - 1), min_size=1, max_size=60), st.sampled_from([0.5, 0.9]))
def test_a_quantile_lies_in_the_bucket_in_which_it_truly_is(times: list[int], share: float) -> None:
    [total] = summed(Tally.once("approve", each, at=0) for each in times)
    found = quantile(list(total.times), share)
    ordered = sorted(times)
    place = next(number for number in range(len(ordered)) if number + 1 >= share * len(ordered))
    low = max((edge for edge in EDGES if edge <= ordered[place]), default=0)
    high = min(edge for edge in EDGES if edge > ordered[place])
    assert found is not None
    assert low <= found * 1_000 <= high


@pytest.mark.parametrize("floor", [1, 2, 3, 5, 10, 15, 20, 30, 60])
async def test_floors_that_are_edges_are_exact(floor: int) -> None:
    dice = Random(floor)
    times = [dice.randrange(0, 2 * floor * 1_000) for _ in range(200)]
    insights = await counted(*[said("read", each, person="ada") for each in times])
    await insights._people.start("ada")
    await insights._people.set("min_look", floor, by="ada")
    assert (await insights.report()).total.hurried == sum(each < floor * 1_000 for each in times)
