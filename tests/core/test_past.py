"""The past: what was let run is counted once, from then on, and counted off where it did not run."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from keyturn.core import commands as cm
from keyturn.core.counted import CountedCall
from keyturn.core.empties import owned
from keyturn.core.folding import fold
from keyturn.core.past import RunPast, Totals
from keyturn.core.policy import CallView
from keyturn.core.run import new_run
from tests.core.samples import ALLOW, ASK, DENY, Pen, asked, nested, reply, tool


def ran(pen: Pen, own: str = "", **more: Any) -> list[str]:
    return [view.call_id for view in RunPast(pen.run, own, str.upper).ran(**more)]


def test_a_call_counts_once_from_when_it_was_let_run() -> None:
    pen = asked(tool("c0", ""), tool("c1", ""))
    assert ran(pen) == []
    pen(cm.Screen("r/1.0", ALLOW))
    assert ran(pen) == ["c0"]
    pen.begin()
    pen.end()
    pen(cm.Screen("r/1.1", DENY))
    pen.end("r/1.1")
    assert ran(pen) == ["c0"]
    pen(reply(tool("c2")))
    assert ran(pen) == ["c2", "c0"], "one that nobody had to screen counts too; the latest comes first"


def test_what_asks_counts_when_it_was_approved_and_the_policy_had_its_word() -> None:
    pen = asked(tool("c0", ""))
    pen(cm.Screen("r/1.0", ASK))
    assert ran(pen) == []
    pen(cm.Deliver([pen.decision("approve")]))
    assert ran(pen) == []
    pen(*pen.screened())
    assert ran(pen) == ["c0"]


def test_it_is_seen_with_what_will_run() -> None:
    pen = asked(tool("c0", "ask", risk="high"))
    pen.decide("edit", args='{"n":7}')
    pen(*pen.screened())
    [view] = RunPast(pen.run, "", str.upper).ran()
    assert (view.params, view.risk, view.agent, view.path, view.tool) == ({"n": 7}, "high", "A", "a", "t")


@pytest.mark.parametrize("how", ["fails", "is voided", "did not run"])
def test_what_did_not_run_is_counted_off(how: str) -> None:
    pen = asked(tool("c0"))
    if how == "fails":
        pen.end(failed=True)
    elif how == "is voided":
        pen(cm.VoidCall("r/1.0", tool("c0", "")[1], "changed"))
    else:
        pen.begin()
        pen(cm.LoseCall("r/1.0", "gone"))
        assert ran(pen) == ["c0"], "in doubt it counts"
        pen.decide("did_not_run")
    assert ran(pen) == []
    assert [let.sign for let in pen.run.let] == [1, -1]


@pytest.mark.parametrize("verdict", ["ran", "retry"])
def test_what_may_have_run_stays_counted(verdict: str) -> None:
    pen = asked(tool("c0"))
    pen.begin()
    pen(cm.LoseCall("r/1.0", "gone"))
    pen.decide(verdict)
    assert ran(pen) == ["c0"]
    assert ran(pen, own="r/1.0") == [], "but not against itself"


def test_what_was_dropped_with_its_agent_before_it_started_is_counted_off() -> None:
    pen = nested(tool("c0"), tool("c1"))
    pen.begin("r/1.0/1.0")
    assert ran(pen) == ["c1", "c0", "outer"]
    pen.end("r/1.0/1.0")
    pen(cm.CloseFrame("r/1.0", "OSError", {"type": "function_call_output", "call_id": "outer", "output": "failed"}))
    assert ran(pen) == ["c0", "outer"]


def test_a_time_leaves_out_what_was_earlier() -> None:
    pen = asked(tool("c0"))
    pen.begin()
    pen.end()
    pen(reply(tool("c1"), tool("c2")), at=5_000)
    pen.end("r/2.1", failed=True)
    assert (ran(pen, since=0), ran(pen, since=5_000), ran(pen, since=5_001)) == (["c1", "c0"], ["c1"], [])


def test_rejections_are_kept_with_what_was_rejected() -> None:
    pen = asked(tool("c0", "ask"), tool("c1", "ask"))
    pen.decide("reject")
    pen.decide("reject", "r/1.1")
    past = RunPast(pen.run, "r/1.1", str.upper)
    assert [view.call_id for view in past.rejected()] == ["c0"]
    assert list(past.ran()) == []


def test_sums_go_on_where_they_stopped_and_begin_anew_in_a_run_that_was_folded_anew() -> None:
    totals: Totals = {}
    seen = list[str]()

    def one(view: CallView) -> int:
        seen.append(view.call_id)
        return 1

    def total(pen: Pen, own: str = "") -> Any:
        return RunPast(pen.run, own, str.upper, totals).total(test_rejections_are_kept_with_what_was_rejected, one)

    pen = asked(tool("c0"), tool("c1"))
    assert (total(pen), total(pen), seen) == (2, 2, ["c0", "c1"])
    pen.end("r/1.0", failed=True)
    assert (total(pen), seen[2:]) == (1, []), "what it came to is known when it is counted off"
    assert total(pen, own="r/1.1") == 0
    pen.log.run = fold(new_run(), pen.log.steps)
    assert total(pen) == 1
    assert seen.count("c1") == 2, "measured once, and once more in the run that was folded anew"


@given(st.lists(st.tuples(st.sampled_from(["let", "let again", "back"]), st.integers(0, 4), st.integers(0, 30))))
def test_a_window_is_the_sum_of_what_ran_in_it(happened: list[tuple[str, int, int]]) -> None:
    run = new_run()
    totals: Totals = {}
    _raw, made = tool("c0", "")
    standing = dict[str, CountedCall]()

    def one(_view: CallView) -> int:
        return 1

    for what, number, back in happened:
        call = f"r/1.{number}"
        run.now += number
        if what == "back" and call in standing:
            owned(run, "let").append(replace(standing.pop(call), sign=-1))
        elif what != "back" and call not in standing:
            standing[call] = CountedCall(call, "a", made, "{}", run.now)
            owned(run, "let").append(standing[call])
        # The begin of the stretch may go back as well: a clock was put back.
        for since in (None, run.now - back, run.now - 2):
            past = RunPast(run, "r/1.0", str.upper, totals)
            assert past.total(totals, one, since) == len(list(past.ran(since)))
