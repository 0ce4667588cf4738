"""Each command: what it does where it may, and what refuses it where it may not. A refusal changes nothing."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from keyturn.core import commands as cm
from keyturn.core import decide as module
from keyturn.core import events as ev
from keyturn.core.approval import Approval
from keyturn.core.errors import BadJson, Conflict, KeyturnError, ModelBehaviorError, NotPending, UserError
from keyturn.core.gate.claiming import HoldCall
from keyturn.core.gate.opening import Still
from keyturn.core.usage import NOTHING, Counts
from tests.core.samples import (
    ALLOW,
    USED,
    Pen,
    asked,
    everything,
    grant,
    nested,
    person,
    reply,
    result,
    says,
    start,
    tool,
    user,
)
from tests.table import each

CALL = "r/1.0"
PROPOSAL = tool("c0")[1]
TRIPPED = [ev.Report("g", "input", tripped=True)]
CLEAR = [ev.Report("g", "input")]

# One of each command that needs a run, as it might come in the middle of one.
COMMANDS: list[cm.RunCommand] = [
    cm.OpenFrame(CALL, "a/b", [], 5),
    cm.Resume(),
    cm.Resume(5),
    cm.SaveContext({"a": 1}),
    cm.AddInput("r", [user("more")]),
    reply(tool("c9")),
    cm.RefuseReply("r", USED, "m"),
    cm.Screen(CALL, ALLOW),
    cm.Deliver([ev.Decision(CALL, "approve", "x", 1)]),
    cm.Revoke("g"),
    Still(CALL, 0, None),
    cm.StartCall(CALL, "t1"),
    HoldCall(CALL, "ci", 9),
    cm.VoidCall(CALL, PROPOSAL, "changed"),
    cm.NeedInput(CALL, {"question": "which?"}),
    cm.FinishCall(CALL, result("c0")),
    cm.LoseCall(CALL, "lost"),
    cm.HandOff(CALL, result("c0"), "b"),
    cm.SwitchAgent("r", "b"),
    cm.CompactHistory("r", [[0, 1]], 1, NOTHING),
    cm.GuardFrame("r", TRIPPED),
    cm.JudgeFrame("r", final=True, output="x"),
    cm.CloseFrame(CALL, "Error", result("c0")),
    cm.CloseRun("x", []),
    cm.WroteSession("r", 1),
    cm.Fail("Error"),
    cm.Cancel(),
    cm.RecordRestore("the store was restored"),
    cm.Fork("run", "origin", 2),
    cm.LendGrant("g", ["here"], "other", "r/1.0"),
    cm.BorrowGrant(grant("g@r/1.0", reach="here", call="r/1.0", uses=1), "home"),
    cm.MarkCall("r/1.0", "5e1f", "claim", person("ada"), 9),
    cm.RecordLook("r/1.0", "5e1f", person("ada")),
    cm.GiveReview("r/1.0", "5e1f", "right", person("ada")),
    cm.Withdraw("r/1.0", person("ada")),
    cm.TakeQuota("other", "r/1.0", "args", "5"),
    cm.ReturnQuota("other", "r/1.0", "args"),
    cm.CloseQuota(),
    cm.Tick(),
]
OF_A_RUN_THAT_IS_OVER = (cm.SaveContext, cm.WroteSession)


def running() -> Pen:
    """A call that is started, and a reply that is open."""
    pen = asked(tool("c0"))
    pen.begin()
    return pen


def finished() -> Pen:
    pen = asked(tool("c0"))
    pen.begin()
    pen.end()
    pen(reply())
    pen(cm.JudgeFrame("r", final=True, output="ok"))
    return pen


def cancelled(pen: Pen | None = None) -> Pen:
    pen = pen or asked()
    pen(cm.Cancel(person("ada"), "enough"))
    return pen


def quiet(pen: Pen, command: cm.RunCommand) -> list[ev.AnyEvent]:
    """The events of a command, none where it is refused; a refusal is a typed one and changes nothing."""
    before = everything(pen.run)
    try:
        return pen(command)
    except KeyturnError:
        assert everything(pen.run) == before
        return []


def test_every_command_is_in_the_table_and_here() -> None:
    every = {kind for kind in vars(cm).values() if isinstance(kind, type) and issubclass(kind, cm.RunCommand)}
    every = every - {cm.RunCommand} | {Still, HoldCall}
    assert set(module._DECIDE) == every  # pyright: ignore[reportPrivateUsage]  # the table is what is tested
    assert {type(command) for command in COMMANDS} | {cm.Start, cm.Queue, cm.Begin} == every


# -------------------------------------------------------------------------------------------------- the run as such


@each("command", COMMANDS, ids=lambda command: type(command).__name__)
def test_nothing_can_be_asked_of_a_run_that_has_not_started(command: cm.RunCommand) -> None:
    Pen().refuses(Conflict, command)


def test_a_run_starts_once() -> None:
    pen = Pen()
    events = pen(start(guarded="before", prefix="p", response_id="x"))
    assert events == [
        ev.RunStarted("run", "salt", "hi", {}),
        ev.FrameOpened("r", "a", [user("hi")], 10, "before", "p", 0, "x"),
    ]
    assert (pen.run.id, pen.run.status, pen.run.last_agent, pen.run.max_turns) == ("run", "running", "a", 10)
    assert pen.refuses(Conflict, start()).winner == "run"


@each("over", [finished, cancelled], ids=["finished", "cancelled"])
@each("command", COMMANDS, ids=lambda command: type(command).__name__)
def test_nothing_happens_in_a_run_that_is_over(over: Callable[[], Pen], command: cm.RunCommand) -> None:
    pen = over()
    status = pen.run.status
    events = quiet(pen, command)
    assert not events or type(command) in OF_A_RUN_THAT_IS_OVER
    assert (pen.run.status, pen.does()) == (status, [])


@pytest.mark.parametrize("over", [finished, cancelled], ids=["finished", "cancelled"])
def test_a_run_that_is_over_says_so(over: Callable[[], Pen]) -> None:
    pen = over()
    error = pen.refuses(Conflict, cm.Deliver([ev.Decision(CALL, "approve", "x", 1)]))
    assert error.winner == pen.run.status
    assert pen.run.status in str(error)


def test_cancelled_says_why() -> None:
    assert "enough" in str(cancelled().refuses(Conflict, cm.Resume()))


def test_what_was_approved_and_not_begun_does_not_run_after_the_end() -> None:
    pen = asked()
    pen.decide("approve")
    cancelled(pen).refuses(Conflict, cm.StartCall(CALL, "t1"))


def test_what_had_begun_is_still_told_after_the_end() -> None:
    pen = cancelled(running())
    assert [type(event) for event in pen(cm.LoseCall(CALL, "it was cancelled"))] == [ev.CallLost]
    pen = cancelled(running())
    assert pen.end()
    pen.refuses(Conflict, cm.FinishCall(CALL, result("c0")))


def test_a_failed_run_goes_on_where_it_stood() -> None:
    pen = running()
    pen(cm.Fail("TimeoutError"))
    assert (pen.run.status, pen.run.error, pen(cm.Fail("Other"))) == ("failed", "TimeoutError", [])
    assert pen(cm.Resume()) == [ev.RunResumed(None)]
    assert (pen.run.status, pen.run.error, pen.state()) == ("running", "", "started")


def test_a_limit_is_changed_or_taken_away_at_a_resume() -> None:
    for given, limit in ((cm.Resume(3), 3), (cm.Resume(0), 0), (cm.Resume(unlimited=True), None)):
        pen = asked()
        pen(given)
        assert (pen.run.max_turns, pen.root().max_turns) == (limit, limit)
        assert pen(cm.Resume()) == []
        assert pen.copy().run == pen.run


def test_a_run_that_failed_and_finished_failed_no_more() -> None:
    pen = asked(tool("c0", refused=result("c0")))
    pen(reply(), cm.Fail("Error"))
    pen(cm.JudgeFrame("r", final=True, output="ok"))
    assert (pen.run.status, pen.run.error) == ("finished", "")


def test_the_context_is_saved_where_it_changed() -> None:
    pen = asked()
    assert pen(cm.SaveContext({"a": [1]})) == [ev.ContextSaved({"a": [1]})]
    assert pen(cm.SaveContext({"a": [1]})) == []


def test_a_command_that_does_nothing_does_not_move_time() -> None:
    pen = asked()
    assert pen(cm.Tick(), at=99) == []
    assert pen.run.now == 0


def test_a_grant_that_was_never_given_cannot_be_taken_back() -> None:
    asked().refuses(NotPending, cm.Revoke("g"))


# ------------------------------------------------------------------------------------------------------------ input


@pytest.mark.parametrize("frame", ["", "r/1.0", "x"])
def test_input_is_for_an_agent_at_work(frame: str) -> None:
    asked().refuses(Conflict, cm.AddInput(frame, [user("x")]))


def test_a_session_is_written_for_an_agent_at_work() -> None:
    pen = asked(prefix="p")
    assert pen(cm.WroteSession("r", 2)) == [ev.SessionWritten("r", 2)]
    assert pen(cm.WroteSession("r", 2)) == []
    pen.refuses(Conflict, cm.WroteSession("r/1.0", 2))


# ---------------------------------------------------------------------------------------------------------- replies


def test_a_reply_answers_a_question() -> None:
    pen = asked()
    pen.refuses(Conflict, reply())
    pen.refuses(Conflict, reply(frame="r/1.0"))
    pen.decide("reject")
    pen.end()
    pen(reply())
    pen.refuses(Conflict, reply())


def test_no_reply_before_the_guardrails_where_they_come_first() -> None:
    pen = Pen()
    pen(start(guarded="before"))
    pen.refuses(Conflict, reply())
    pen(cm.GuardFrame("r", CLEAR))
    assert pen(reply())


@pytest.mark.parametrize("labels", [("c0", "c0"), ("c0", "")])
def test_every_call_has_a_label_of_its_own(labels: tuple[str, str]) -> None:
    pen = Pen()
    pen(start())
    pen.refuses(ModelBehaviorError, reply(*(tool(label) for label in labels)))
    assert pen.run.turns == 0


def test_usage_only_grows_and_stays_a_number_that_a_log_can_hold() -> None:
    wrong: list[Any] = [Counts(-1), Counts(1, -5), Counts(1, 2**54), Counts(1, 1.5), Counts(True)]
    for usage in wrong:
        pen = Pen()
        pen(start())
        pen.refuses(ModelBehaviorError, replace(reply(), usage=usage))
        pen.refuses(ModelBehaviorError, cm.RefuseReply("r", usage))


def test_a_reply_is_for_the_turn_in_which_its_model_was_asked() -> None:
    """Who asked before somebody else took the run a turn further has asked about another conversation."""
    pen = asked(tool("c0"))
    pen.begin()
    pen.end()
    pen.refuses(Conflict, reply(turn=0))
    pen(reply(turn=1))
    assert pen.run.turns == 2


@pytest.mark.parametrize("item", [-1, 1, 99])
def test_every_call_has_its_item(item: int) -> None:
    pen = Pen()
    pen(start())
    raw, proposal = tool("c0")
    pen.refuses(ModelBehaviorError, cm.RecordReply("r", [raw], [replace(proposal, item=item)], NOTHING))


@each("arguments", ["{", '{"a":1,"a":2}', "NaN", '"\\ud800"'])
@each("gate", ["allow", "ask", ""])
def test_what_might_run_is_strict_json(arguments: str, gate: str) -> None:
    pen = Pen()
    pen(start())
    pen.refuses(BadJson, reply(tool("c0", gate, arguments)))
    pen.refuses(BadJson, reply(tool("c0", gate, args=arguments)))


def test_what_might_run_is_a_text() -> None:
    pen = Pen()
    pen(start())
    raw, proposal = tool("c0")
    pen.refuses(UserError, cm.RecordReply("r", [{**raw, "arguments": None}], [proposal], NOTHING))
    pen.refuses(UserError, cm.RecordReply("r", [{"type": "other"}], [proposal], NOTHING))


def test_what_is_refused_need_not_be_json() -> None:
    pen = Pen()
    pen(start())
    assert pen(reply(tool("c0", "ask", "{", refused=result("c0", "no"))))
    assert pen.root().items[-1] == result("c0", "no")


def test_a_call_that_takes_nothing_may_say_nothing() -> None:
    assert asked(tool("c0", "ask", "")).call().params == {}


# ------------------------------------------------------------------------------------------------------------ calls


def test_a_start_names_the_tool_that_was_shown() -> None:
    pen = asked(tool("c0"))
    pen.refuses(Conflict, cm.StartCall(CALL, "t2"))
    assert pen(cm.StartCall(CALL, "t1")) == [ev.CallStarted(CALL)]
    pen.refuses(Conflict, cm.StartCall(CALL, "t1"))


def test_guardrails_on_a_call_report_with_it() -> None:
    pen = asked(tool("c0"))
    assert pen(cm.StartCall(CALL, "t1", CLEAR)) == [ev.GuardrailReported(CALL, CLEAR), ev.CallStarted(CALL)]
    events = pen(cm.FinishCall(CALL, result("c0"), reports=TRIPPED))
    assert events == [ev.GuardrailReported(CALL, TRIPPED), ev.CallFinished(CALL, result("c0"))]
    assert pen.root().tripped is None


def test_no_tool_starts_before_the_guardrails_report() -> None:
    pen = Pen()
    pen(start(guarded="beside"))
    pen(reply(tool("c0")))
    pen.refuses(Conflict, cm.StartCall(CALL, "t1"))
    pen(cm.GuardFrame("r", CLEAR))
    assert pen.begin()


def test_no_tool_starts_where_a_guardrail_tripped() -> None:
    pen = Pen()
    pen(start(guarded="beside"))
    pen(reply(tool("c0")), cm.GuardFrame("r", TRIPPED))
    pen.refuses(Conflict, cm.StartCall(CALL, "t1"))


def test_the_last_starts_last() -> None:
    pen = asked(tool("c0", last=True), tool("c1"), tool("c2", "ask"))
    pen.refuses(Conflict, cm.StartCall(CALL, "t1"))
    pen.begin("r/1.1")
    pen.end("r/1.1")
    pen.decide("reject", "r/1.2")
    pen.refuses(Conflict, cm.StartCall(CALL, "t1"))
    pen.end("r/1.2")
    assert pen.begin()


def test_a_call_has_one_result() -> None:
    pen = asked(tool("c0"), tool("c1"))
    pen.refuses(Conflict, cm.FinishCall(CALL, result("c0")))
    pen.begin()
    assert pen(cm.FinishCall(CALL, result("c0"), value=1)) == [ev.CallFinished(CALL, result("c0"), 1)]
    pen.refuses(Conflict, cm.FinishCall(CALL, result("c0", "other")))
    pen.refuses(Conflict, cm.FinishCall("r/1.9", result("c0")))


def test_a_call_that_waits_has_no_result_yet() -> None:
    asked().refuses(Conflict, cm.FinishCall(CALL, result("c0"), failed=True))


def test_a_guardrail_can_refuse_a_call_that_is_ready() -> None:
    pen = asked(tool("c0"))
    pen(cm.FinishCall(CALL, result("c0", "no"), failed=True, reports=TRIPPED))
    assert pen.root().items[-1] == result("c0", "no")


@pytest.mark.parametrize(("recover", "state"), [("ask", "in_doubt"), ("probe", "in_doubt"), ("retry", "allowed")])
def test_what_a_lost_call_becomes(recover: str, state: str) -> None:
    pen = asked(tool("c0", recover=recover))
    pen.refuses(Conflict, cm.LoseCall(CALL, "x"))
    pen.begin()
    pen(cm.LoseCall(CALL, "the power failed"))
    assert (pen.state(), pen.call().reason) == (state, "the power failed")
    pen.refuses(Conflict, cm.LoseCall(CALL, "x"))


@pytest.mark.parametrize("state", ["proposed", "started", "in_doubt", "settled"])
def test_what_is_not_shown_or_ready_is_not_voided(state: str) -> None:
    pen = asked(tool("c0", "" if state == "proposed" else "allow"))
    if state != "proposed":
        pen.begin()
    if state == "in_doubt":
        pen(cm.LoseCall(CALL, "lost"))
    if state == "settled":
        pen.end()
    pen.refuses(Conflict, cm.VoidCall(CALL, PROPOSAL, "changed"))


def test_a_call_is_proposed_anew_as_the_same_call() -> None:
    pen = asked()
    pen.refuses(UserError, cm.VoidCall(CALL, replace(PROPOSAL, label="other"), "changed"))
    pen.refuses(BadJson, cm.VoidCall(CALL, replace(PROPOSAL, args="{"), "changed"))
    events = pen(cm.VoidCall(CALL, replace(PROPOSAL, args='{"n":5}', tool="t2"), "changed", {"t2": {"name": "t"}}))
    assert [type(event) for event in events] == [ev.CallVoided, ev.CallScreened]
    assert (pen.call().params, pen.run.tools) == ({"n": 5}, {"t2": {"name": "t"}})


def test_a_hand_over_finishes_its_call() -> None:
    pen = running()
    events = pen(cm.HandOff(CALL, result("c0", "{}"), "b", [[0, 1], says("new")]))
    assert events == [
        ev.CallFinished(CALL, result("c0", "{}")),
        ev.HandedOff("r", "b", [[0, 1], says("new")]),
    ]
    root = pen.root()
    assert (root.agent, root.phase, root.items, pen.run.last_agent) == ("b", "model", [user("hi"), says("new")], "b")


def test_nobody_is_handed_a_frame_with_open_calls() -> None:
    pen = asked(tool("c0"), tool("c1", "ask"))
    pen.begin()
    pen.refuses(Conflict, cm.HandOff(CALL, result("c0"), "b"))
    asked().refuses(Conflict, cm.HandOff(CALL, result("c0"), "b"))


def test_a_view_keeps_the_message_that_nobody_had_seen() -> None:
    pen = running()
    pen(cm.AddInput("r", [user("wait")]))
    pen(cm.HandOff(CALL, result("c0"), "b", [[0, 1]]))
    assert pen.root().items == [user("hi"), user("wait")]


# ------------------------------------------------------------------------------------------------------------- frames


def test_a_nested_agent_answers_a_started_call() -> None:
    pen = asked(tool("c0"))
    pen.refuses(Conflict, cm.OpenFrame(CALL, "a/b", [], 5))
    pen.begin()
    events = pen(cm.OpenFrame(CALL, "a/b", [user("in")], 5, "beside", "p", "x"))
    assert events == [ev.FrameOpened(CALL, "a/b", [user("in")], 5, "beside", "p", 0, "x")]
    pen.refuses(Conflict, cm.OpenFrame(CALL, "a/b", [], 5))


@pytest.mark.parametrize(
    "command", [cm.FinishCall(CALL, result("outer")), cm.HandOff(CALL, result("outer"), "b")], ids=["finish", "hand"]
)
def test_only_its_agent_answers_a_call_that_an_agent_answers(command: cm.RunCommand) -> None:
    nested().refuses(Conflict, command)


def test_a_call_that_an_agent_answers_is_not_lost() -> None:
    pen = nested()
    assert pen(cm.LoseCall(CALL, "the power failed")) == []


def test_a_nested_answer_is_the_result_of_its_call() -> None:
    pen = nested()
    pen(reply(frame=CALL))
    pen.refuses(UserError, cm.JudgeFrame(CALL, final=True, output="ok"))
    events = pen(cm.JudgeFrame(CALL, final=True, output={"a": 1}, item=result("outer", "ok")))
    assert events == [ev.FrameClosed(CALL, {"a": 1}), ev.CallFinished(CALL, result("outer", "ok"), {"a": 1})]
    assert (list(pen.run.frames), pen.root().phase, pen.run.last_agent) == (["r"], "model", "a")


def test_the_roots_answer_is_no_result_of_a_call() -> None:
    pen = asked(tool("c0", refused=result("c0")))
    pen(reply())
    pen.refuses(UserError, cm.JudgeFrame("r", final=True, output="ok", item=result("c0")))


@pytest.mark.parametrize("frame", ["r", "r/1.0", "r/9.9"])
def test_only_what_waits_for_judgement_is_judged(frame: str) -> None:
    nested().refuses(Conflict, cm.JudgeFrame(frame, final=True, output="x", item=None if frame == "r" else result("x")))


def test_not_final_asks_the_model_again() -> None:
    pen = asked(tool("c0", refused=result("c0")))
    pen(reply())
    assert pen(cm.JudgeFrame("r", final=False)) == [ev.ToolsJudged("r")]
    assert pen.does() == ["model r"]


@pytest.mark.parametrize("final", [True, False])
def test_a_tripped_answer_is_withheld_for_good(final: bool) -> None:
    pen = asked(tool("c0", refused=result("c0")))
    pen(reply())
    trip = [ev.Report("g", "output"), ev.Report("h", "output", tripped=True)]
    assert pen(cm.JudgeFrame("r", final=final, output="x", reports=trip)) == [ev.GuardrailReported("r", trip)]
    assert pen.does() == ["tripped r"]
    pen.refuses(Conflict, cm.JudgeFrame("r", final=True, output="x"))
    pen.refuses(Conflict, cm.JudgeFrame("r", final=True, output="x", reports=[ev.Report("h", "output")]))
    assert pen(cm.GuardFrame("r", CLEAR)) == []


def test_guardrails_report_once() -> None:
    pen = Pen()
    pen(start(guarded="before"))
    assert pen(cm.GuardFrame("r", TRIPPED)) == [ev.GuardrailReported("r", TRIPPED)]
    assert pen(cm.GuardFrame("r", CLEAR)) == []
    assert pen(cm.GuardFrame("r/1.0", CLEAR)) == []
    assert pen.root().tripped == TRIPPED[0]


def test_an_answer_waits_for_the_guardrails_beside_it() -> None:
    pen = Pen()
    pen(start(guarded="beside"))
    pen(reply())
    pen.refuses(Conflict, cm.JudgeFrame("r", final=True, output="x"))


def test_a_nested_agent_that_fails_is_an_error_of_its_call_alone() -> None:
    pen = nested(tool("c0", "ask"), tool("c1"))
    events = pen(cm.CloseFrame(CALL, "ValueError", result("outer", "sorry")))
    assert events == [
        ev.FrameClosed(CALL, error="ValueError"),
        ev.CallFinished(CALL, result("outer", "sorry"), failed=True),
    ]
    assert (list(pen.run.frames), list(pen.run.calls)) == (["r"], [])
    assert not any(pen.run.groups.values())
    pen.refuses(Conflict, cm.FinishCall("r/1.0/1.1", result("c1")))
    assert pen(cm.CloseFrame(CALL, "ValueError", result("outer"))) == []


@pytest.mark.parametrize("lost", [False, True])
def test_a_nested_agent_is_not_closed_over_what_began_and_nobody_knows(lost: bool) -> None:
    """I6: dropped with its frame, a call in doubt would never be asked about. What is nested ends with it."""
    pen, closing = nested(tool("c0"), tool("c1", "ask")), cm.CloseFrame(CALL, "ValueError", result("outer"))
    deep = "r/1.0/1.0/1.0"
    pen.begin("r/1.0/1.0")
    pen(cm.OpenFrame("r/1.0/1.0", "a/b/c", [], 5))
    pen(reply(tool("deep"), frame="r/1.0/1.0"))
    pen.begin(deep)
    if lost:
        pen(cm.LoseCall(deep, "its process ended"))
    pen.refuses(Conflict, closing)
    pen.refuses(Conflict, cm.CloseFrame("r/1.0/1.0", "ValueError", result("c0")))
    if lost:
        pen.decide("ran", deep, output="done")
    else:
        pen.end(deep)
    assert [type(event) for event in pen(closing)] == [ev.FrameClosed, ev.CallFinished]
    assert list(pen.run.frames) == ["r"]


def test_the_root_is_not_closed_like_a_nested_agent() -> None:
    assert asked()(cm.CloseFrame("r", "Error", result("x"))) == []


def test_a_run_is_closed_where_its_model_would_be_asked() -> None:
    pen = asked()
    pen.refuses(Conflict, cm.CloseRun("sorry", []))
    pen.decide("reject")
    pen.end()
    events = pen(cm.CloseRun("sorry", [says("sorry")]))
    assert events == [ev.InputAdded("r", [says("sorry")]), ev.FrameClosed("r", "sorry")]
    assert (pen.run.status, pen.run.output, pen.root().items[-1]) == ("finished", "sorry", says("sorry"))


@pytest.mark.parametrize("reports", [None, TRIPPED])
def test_a_run_is_not_closed_past_its_guardrails(reports: list[ev.Report] | None) -> None:
    pen = Pen()
    pen(start(guarded="beside", max_turns=0))
    if reports:
        pen(cm.GuardFrame("r", reports))
    pen.refuses(Conflict, cm.CloseRun("sorry", []))


# ------------------------------------------------------------------------------------------------------- everywhere


def places() -> dict[str, Callable[[], Pen]]:
    return {
        "started": running,
        "waits": asked,
        "beside": lambda: nested(tool("c0", "ask")),
        "asks the model": lambda: asked(tool("c0", refused=result("c0"))),
        "runs out": lambda: asked(tool("c0", "ask", terms=Approval(expires="1s"))),
    }


@each("place", places())
@each("command", COMMANDS, ids=lambda command: type(command).__name__)
def test_a_refusal_changes_nothing_and_an_acceptance_is_the_log(place: str, command: cm.RunCommand) -> None:
    pen: Any = places()[place]()
    quiet(pen, command)
    assert everything(pen.run) == everything(pen.copy().run)
