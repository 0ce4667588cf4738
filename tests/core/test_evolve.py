"""The fold: what a run looks like after what happened, and that the same log always looks the same."""

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from keyturn.core import commands as cm
from keyturn.core import events as ev
from keyturn.core import evolve as module
from keyturn.core.empties import NONE, NOTHING_YET, owned
from keyturn.core.errors import Conflict
from keyturn.core.evolve import evolve, viewed
from keyturn.core.folding import fold
from keyturn.core.moves import move
from keyturn.core.run import copy_run, new_run, request_id
from keyturn.core.usage import Counts
from tests.core.samples import ASK, USED, Pen, asked, everything, nested, reply, result, says, start, tool, user

CALL = "r/1.0"


def run_all(pen: Pen, *order: int) -> Pen:
    """Start all calls of the first turn and let them end in this order."""
    for index in order:
        pen.begin(f"r/1.{index}")
    for index in order:
        pen.end(f"r/1.{index}", f"out {index}")
    return pen


def outputs(items: list[Any]) -> list[str]:
    return [item["output"] for item in items if item.get("type") == "function_call_output"]


def test_every_event_is_in_the_table() -> None:
    every = set(get_args(ev.AnyEvent))
    assert set(module._FOLD) == every  # pyright: ignore[reportPrivateUsage]  # the table is what is tested


def test_folding_the_steps_is_what_deciding_them_did() -> None:
    pen = run_all(asked(tool("c0"), tool("c1"), prefix="p"), 1, 0)
    assert everything(fold(new_run(), pen.log.steps)) == everything(pen.run)


def test_a_new_run_shares_nothing_with_another() -> None:
    one, other = new_run(), new_run()
    one.usage += USED
    move(one, asked().call(), "approve")
    one.frames["x"] = asked().root()
    owned(one, "decided")["x"] = owned(one, "let")
    assert everything(other) == everything(new_run())


def test_what_all_runs_share_stays_empty() -> None:
    with pytest.raises(TypeError, match="shared"):
        new_run().named["x"] = "digest"
    with pytest.raises(TypeError, match="shared"):
        new_run().groups["wait"]["x"] = asked().call()
    for change in ("append", "extend", "insert"):
        with pytest.raises(TypeError, match="shared"):
            getattr(new_run().let, change)(None)
    assert (new_run().named, new_run().let) == ({}, [])


def test_a_copy_of_a_run_changes_nothing_of_the_run() -> None:
    run = asked().run
    shared = [field for field in structs.fields(run) if field.default is NONE or field.default is NOTHING_YET]
    filled = [field.name for field in shared if field.name != "limits"]  # which are replaced whole
    assert {"named", "grants", "let"} < set(filled)
    for name in filled:
        owned(run, name).clear()
        setattr(run, name, {"x": 1} if isinstance(getattr(run, name), dict) else [1])
    made = copy_run(run)
    for name in filled:
        assert getattr(made, name) == getattr(run, name)
        owned(made, name).clear()
        assert getattr(run, name), f"{name} of the run is that of its copy"


# ------------------------------------------------------------------------------------------------------------ turns


def test_results_are_read_in_the_models_order() -> None:
    pen = run_all(asked(tool("c0"), tool("c1"), tool("c2")), 2, 0, 1)
    assert outputs(pen.root().items) == ["out 0", "out 1", "out 2"]
    assert pen.root().phase == "model"


def test_the_model_is_not_asked_before_all_are_settled() -> None:
    pen = asked(tool("c0"), tool("c1", "ask"))
    pen.begin()
    pen.end()
    assert (pen.root().phase, pen.does(), outputs(pen.root().items)) == ("calls", [], [])


def test_what_is_settled_is_dropped() -> None:
    pen = run_all(asked(tool("c0"), tool("c1")), 0, 1)
    assert (pen.run.calls, pen.root().calls, any(pen.run.groups.values())) == ({}, [], False)


def test_a_label_that_comes_again_in_a_later_turn_is_another_call() -> None:
    pen = run_all(asked(tool("c0")), 0)
    pen(reply(tool("c0", "ask")))
    assert (list(pen.run.calls), pen.state("r/2.0")) == (["r/2.0"], "asked")


def test_a_reply_of_refused_calls_is_settled_at_once() -> None:
    pen = asked(tool("c0", refused=result("c0", "no")), tool("c1", refused=result("c1", "nor")))
    assert (outputs(pen.root().items), pen.does()) == (["no", "nor"], ["model r"])


def test_a_reply_without_calls_is_judged() -> None:
    pen = Pen()
    pen(start())
    pen(reply(judged=True))
    assert (pen.root().phase, pen.root().judged, pen.root().used_tools) == ("judge", False, False)


def test_results_are_judged_where_the_agent_judges_them() -> None:
    pen = Pen()
    pen(start())
    pen(reply(tool("c0"), tool("c1"), judged=True))
    run_all(pen, 1, 0)
    root = pen.root()
    assert (root.phase, [call.id for call in root.results]) == ("judge", ["r/1.0", "r/1.1"])
    pen(cm.JudgeFrame("r", final=False))
    assert (root.phase, root.judged, root.results, root.used_tools) == ("model", False, [], True)


def test_usage_and_turns_add_up_over_all_agents_and_turns_are_the_roots() -> None:
    pen = nested(tool("c0"))
    assert (pen.run.usage, pen.run.turns, pen.run.frames[CALL].turn) == (Counts(2, 10, 4), 1, 1)


def test_the_provider_is_told_only_what_it_has_not_seen() -> None:
    pen = Pen()
    pen(start())
    pen(reply(tool("c0"), response_id="x1"))
    run_all(pen, 0)
    root = pen.root()
    assert (root.response_id, pen.run.response_id, root.items[root.sent :]) == ("x1", "x1", [result("c0", "out 0")])
    pen(reply())
    assert (root.response_id, pen.run.response_id, root.items[root.sent :]) == ("x1", "x1", [])


def test_what_the_model_was_told_of_tools_is_kept() -> None:
    pen = Pen()
    pen(start())
    pen(reply(tool("c0", "ask"), tools={"t1": {"name": "t"}}))
    assert pen.run.tools == {"t1": {"name": "t"}}


def test_the_public_name_of_a_request_cannot_be_guessed_from_its_call() -> None:
    pen, other = asked(), asked()
    other.run.salt = "another"
    assert request_id(pen.run, CALL) != request_id(other.run, CALL)
    assert request_id(pen.run, CALL) != request_id(pen.run, "r/1.1")
    assert len(request_id(pen.run, CALL)) == 32


# --------------------------------------------------------------------------------------------------- input and tape


def test_a_message_waits_for_the_results_of_open_calls() -> None:
    pen = asked(tool("c0"))
    pen(cm.AddInput("r", [user("wait")]))
    assert user("wait") not in pen.root().items
    run_all(pen, 0)
    assert pen.root().items[-2:] == [result("c0", "out 0"), user("wait")]
    assert pen.root().queued == []


def test_a_message_between_turns_is_read_next() -> None:
    pen = run_all(asked(tool("c0")), 0)
    pen(cm.AddInput("r", [user("more")]))
    assert pen.root().items[-1] == user("more")


def test_a_message_after_an_answer_that_nobody_took_is_answered_first() -> None:
    pen = Pen()
    pen(start())
    pen(reply())
    pen(cm.AddInput("r", [user("wait, no")]))
    assert (pen.does(), pen.root().items[-2:]) == (["model r"], [says("ok"), user("wait, no")])


def test_a_message_does_not_stop_the_judgement_of_results() -> None:
    pen = Pen()
    pen(start())
    pen(reply(tool("c0"), judged=True))
    run_all(pen, 0)
    pen(cm.AddInput("r", [user("and")]))
    assert (pen.does(), pen.root().items[-1]) == (["judge r"], user("and"))


def test_a_message_for_a_nested_agent_is_its_own() -> None:
    pen = nested(tool("c0"))
    pen(cm.AddInput(CALL, [user("psst")]))
    assert (pen.run.frames[CALL].queued, pen.root().queued) == ([user("psst")], [])


def test_the_tape_is_the_conversation_without_its_history() -> None:
    pen = Pen()
    pen(start(prefix="p", items=[0, 1, user("hi")]))
    pen(reply(tool("c0"), tool("c1", "ask")))
    pen(cm.AddInput("r", [user("wait")]))
    pen.begin()
    pen.end()
    root = pen.root()
    assert root.tape == [user("hi"), tool("c0")[0], tool("c1")[0], result("c0")]
    pen.decide("reject", "r/1.1")
    pen.end("r/1.1", "no")
    pen(reply())
    assert root.tape == root.items[2:]
    assert root.items[:2] == [0, 1]


def test_a_session_that_is_given_later_is_to_hold_the_whole_conversation() -> None:
    pen = run_all(asked(tool("c0")), 0)
    pen(cm.AddInput("r", [user("more")]))
    assert pen.root().prefix is None
    assert pen.root().tape == pen.root().items
    assert pen(cm.WroteSession("r", 0, "0:x")) == [ev.SessionWritten("r", 0, "0:x")]
    assert (pen.root().prefix, pen.root().written) == ("0:x", 0)
    pen.refuses(Conflict, cm.WroteSession("r", 0, "0:y"))


def test_what_is_in_the_session_is_known() -> None:
    pen = asked(prefix="p")
    pen(cm.WroteSession("r", 2))
    assert (pen.root().written, len(pen.root().tape)) == (2, 2)


# --------------------------------------------------------------------------------------------------------- handoffs


def test_another_agent_goes_on_in_the_same_frame() -> None:
    pen = asked(tool("c0"))
    pen.begin()
    pen(cm.HandOff(CALL, result("c0", "over"), "b"))
    root = pen.root()
    assert (root.agent, root.phase, root.fresh, root.turn) == ("b", "model", True, 1)
    assert (pen.run.root_agent, pen.run.last_agent) == ("a", "b")
    assert root.items[-1] == result("c0", "over")
    pen(reply(tool("c1", "ask")))
    assert pen.call("r/2.0").agent == "b"


def test_a_handoff_is_not_judged() -> None:
    pen = Pen()
    pen(start())
    pen(reply(tool("c0"), judged=True))
    pen.begin()
    pen(cm.HandOff(CALL, result("c0"), "b"))
    assert (pen.root().phase, pen.root().results, pen.root().judged) == ("model", [], False)


def test_a_nested_handoff_is_nobody_elses() -> None:
    pen = nested(tool("c0"))
    pen.begin("r/1.0/1.0")
    pen(cm.HandOff("r/1.0/1.0", result("c0"), "c"))
    assert (pen.run.frames[CALL].agent, pen.root().agent, pen.run.last_agent) == ("c", "a", "a")


def test_a_view_is_ranges_and_new_items() -> None:
    a, b, c = user("a"), user("b"), user("c")
    assert viewed([a, b, c, 7], [[2, 4], says("x"), [0, 1]]) == [c, 7, says("x"), a]
    assert viewed([a], []) == []


def test_after_a_view_everything_is_new_to_the_provider() -> None:
    pen = asked(tool("c0"))
    pen.begin()
    pen(cm.HandOff(CALL, result("c0"), "b", [[0, 1]]))
    assert (pen.root().sent, pen.root().history) == (0, 1)


# ------------------------------------------------------------------------------------------------------ nested frames


def test_a_frame_that_ends_takes_with_it_what_is_below() -> None:
    pen = asked(tool("outer"), tool("beside", "ask"))
    pen.begin()
    pen(cm.OpenFrame(CALL, "a/b", [], 5))
    pen(reply(tool("deep"), tool("x", "ask"), tool("y", ""), frame=CALL))
    pen.begin("r/1.0/1.0")
    pen(cm.OpenFrame("r/1.0/1.0", "a/b/c", [], 5))
    pen(reply(tool("z", "ask"), frame="r/1.0/1.0"))
    assert len(pen.run.calls) == 6
    pen(cm.CloseFrame(CALL, "Error", result("outer")))
    assert (list(pen.run.frames), list(pen.run.calls)) == (["r"], ["r/1.0", "r/1.1"])
    assert {group: list(calls) for group, calls in pen.run.groups.items() if calls} == {"wait": ["r/1.1"]}


def test_a_frame_that_ends_leaves_its_neighbours_alone() -> None:
    pen = asked(*(tool(f"c{n}") for n in range(11)))
    for call_id in ("r/1.1", "r/1.10"):
        pen.begin(call_id)
        pen(cm.OpenFrame(call_id, "a/b", [], 5))
        pen(reply(tool("x", "ask"), frame=call_id))
    pen(cm.CloseFrame("r/1.1", "Error", result("c1")))
    assert list(pen.run.groups["wait"]) == ["r/1.10/1.0"]


def test_the_end_of_the_root_is_the_end_of_the_run() -> None:
    pen = Pen()
    pen(start())
    pen(reply())
    pen(cm.JudgeFrame("r", final=True, output={"a": 1}))
    assert (pen.run.status, pen.run.output, pen.root().phase) == ("finished", {"a": 1}, "closed")


def test_nothing_waits_in_a_run_that_was_cancelled() -> None:
    pen = asked(tool("c0", "ask"), tool("c1", ""), tool("c2"), tool("c3"))
    pen.begin("r/1.3")
    pen(cm.Cancel())
    assert {group: list(calls) for group, calls in pen.run.groups.items() if calls} == {"started": ["r/1.3"]}


# ------------------------------------------------------------------------------------------------------ small facts


def test_a_vote_that_was_replaced_in_hand_is_no_voice() -> None:
    pen = asked()
    evolve(pen.run, ev.VoteCast(pen.decision("approve", by="ada"), replaced=True))
    assert pen.call().votes == {}


def test_reports_on_a_call_touch_no_frame() -> None:
    pen = asked()
    before = everything(pen.run)
    evolve(pen.run, ev.GuardrailReported(CALL, [ev.Report("g", "tool_input", tripped=True)]))
    assert everything(pen.run) == before


def test_the_first_tripped_report_counts() -> None:
    pen = Pen()
    pen(start(guarded="beside"))
    reports = [ev.Report("a", "input"), ev.Report("b", "input", tripped=True), ev.Report("c", "input", tripped=True)]
    pen(cm.GuardFrame("r", reports))
    assert (pen.root().tripped, pen.root().guarding) == (reports[1], "")


@given(st.permutations(range(4)), st.lists(st.sampled_from(["allow", "ask", ""]), min_size=4, max_size=4))
def test_the_order_of_results_never_shows(order: list[int], gates: list[str]) -> None:
    pen = asked(*(tool(f"c{n}", gate) for n, gate in enumerate(gates)))
    for index in order:
        call_id = f"r/1.{index}"
        if pen.state(call_id) == "proposed":
            pen(cm.Screen(call_id, ASK))
        if pen.state(call_id) == "asked":
            pen.decide("approve", call_id)
        pen.begin(call_id)
        pen.end(call_id, f"out {index}")
    assert outputs(pen.root().items) == [f"out {index}" for index in range(4)]


@pytest.mark.parametrize("turns", [3, 30])
def test_what_is_over_costs_nothing(turns: int) -> None:
    pen = Pen()
    pen(start(max_turns=None))
    for turn in range(1, turns + 1):
        pen(reply(tool("c0")))
        pen.begin(f"r/{turn}.0")
        pen.end(f"r/{turn}.0")
    assert (len(pen.run.calls), sum(map(len, pen.run.groups.values())), pen.run.turns) == (0, 0, turns)
