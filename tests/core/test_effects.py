"""What is pending in each place a run can be in, and that nothing is pending twice or for nothing."""

from collections.abc import Callable

from keyturn.core import commands as cm
from keyturn.core import events as ev
from keyturn.core.effects import Effect, pending, waiting
from keyturn.core.run import new_run
from tests.core.samples import ASK, DENY, Pen, asked, nested, reply, result, start, tool
from tests.table import each

CALL = "r/1.0"
TRIPPED = [ev.Report("g", "input", tripped=True)]


def begun(**settings: object) -> Pen:
    pen = Pen()
    pen(start(**settings))
    return pen


def after(pen: Pen, *commands: cm.RunCommand) -> Pen:
    for command in commands:
        pen(command)
    return pen


def approved_beside() -> Pen:
    """A call that may run as soon as the guardrails beside the model have reported."""
    return after(begun(guarded="beside"), reply(tool("c0")))


def spent(**settings: object) -> Pen:
    """A frame that has had its one turn and would ask its model again."""
    return after(begun(max_turns=1, **settings), reply(tool("c0", refused=result("c0"))))


PLACES: dict[str, tuple[Callable[[], Pen], list[str]]] = {
    "a new run": (Pen, []),
    "the model is asked": (begun, ["model r"]),
    "guardrails first": (lambda: begun(guarded="before"), ["guard r"]),
    "guardrails beside": (lambda: begun(guarded="beside"), ["guard r", "model r"]),
    "guardrails beside calls": (approved_beside, ["guard r"]),
    "guardrails beside calls to screen": (
        lambda: after(begun(guarded="beside"), reply(tool("c0", ""))),
        ["guard r", "screen r/1.0"],
    ),
    "guardrails beside an answer": (lambda: after(begun(guarded="beside"), reply()), ["guard r"]),
    "guardrails reported": (lambda: after(approved_beside(), cm.GuardFrame("r", [])), ["run r/1.0"]),
    "tripped before": (lambda: after(begun(guarded="before"), cm.GuardFrame("r", TRIPPED)), ["tripped r"]),
    "tripped beside calls": (lambda: after(approved_beside(), cm.GuardFrame("r", TRIPPED)), ["tripped r"]),
    "an answer": (lambda: after(begun(), reply()), ["judge r"]),
    "to screen": (lambda: asked(tool("c0", "")), ["screen r/1.0"]),
    "denied": (lambda: after(asked(tool("c0", "")), cm.Screen(CALL, DENY)), ["settle r/1.0"]),
    "asked": (asked, []),
    "allowed": (lambda: asked(tool("c0")), ["run r/1.0"]),
    "siblings do not wait": (lambda: asked(tool("c0", "ask"), tool("c1")), ["run r/1.1"]),
    "the last waits": (lambda: asked(tool("c0", last=True), tool("c1", "ask")), []),
    "the last after all": (lambda: asked(tool("c0", last=True), tool("c1", refused=result("c1"))), ["run r/1.0"]),
    "two that are last": (lambda: asked(tool("c0", last=True), tool("c1", last=True)), ["run r/1.0", "run r/1.1"]),
    "started": (lambda: after(asked(tool("c0")), cm.StartCall(CALL, "t1")), []),
    "in doubt": (lambda: after(asked(tool("c0")), cm.StartCall(CALL, "t1"), cm.LoseCall(CALL, "x")), []),
    "a nested agent": (nested, ["model r/1.0"]),
    "a nested agent with calls": (lambda: nested(tool("c0")), ["run r/1.0/1.0"]),
    "a nested agent that is guarded": (lambda: nested(guarded="before"), ["guard r/1.0"]),
    "a nested agent that waits": (lambda: nested(tool("c0", "ask")), []),
    "out of turns": (spent, ["exhausted r"]),
    "out of turns and not guarded yet": (lambda: spent(guarded="beside"), ["guard r"]),
    "more turns": (lambda: after(spent(), cm.Resume(2)), ["model r"]),
    "no limit": (lambda: after(spent(), cm.Resume(unlimited=True)), ["model r"]),
    "no turns": (lambda: begun(max_turns=0), ["exhausted r"]),
    "calls of the last turn": (lambda: after(begun(max_turns=1), reply(tool("c0"))), ["run r/1.0"]),
    "an answer in the last turn": (lambda: after(begun(max_turns=1), reply()), ["judge r"]),
    "failed": (lambda: after(begun(), cm.Fail("Error")), []),
    "failed with a call that may run": (lambda: after(asked(tool("c0")), cm.Fail("Error")), []),
    "failed and resumed": (lambda: after(asked(tool("c0")), cm.Fail("Error"), cm.Resume()), ["run r/1.0"]),
    "cancelled": (lambda: after(asked(tool("c0")), cm.Cancel()), []),
    "finished": (lambda: after(begun(), reply(), cm.JudgeFrame("r", final=True, output="x")), []),
}


@each("place", PLACES)
def test_pending(place: str) -> None:
    make, does = PLACES[place]
    pen = make()
    assert pen.does() == does
    assert pen.copy().does() == does if len(pen.log) else pending(new_run()) == []


def test_what_was_decided_is_screened_again_before_it_runs() -> None:
    pen = asked()
    pen.decide("approve")
    assert pending(pen.run) == [Effect("screen", CALL)]
    pen(*pen.screened())
    assert pending(pen.run) == [Effect("run", CALL)]


def test_the_last_waits_for_one_that_is_started() -> None:
    pen = asked(tool("c0", last=True), tool("c1"))
    pen.begin("r/1.1")
    assert pen.does() == []
    pen.end("r/1.1")
    assert pen.does() == ["run r/1.0"]


def test_asking_does_not_change_what_is_asked() -> None:
    pen = asked(tool("c0"), tool("c1", ""))
    assert pending(pen.run) == pending(pen.run)


def test_one_effect_each() -> None:
    pen = asked(tool("c0"), tool("c1", ""), tool("c2", "ask"), tool("c3", ""))
    pen(cm.Screen("r/1.3", DENY))
    assert sorted(pen.does()) == ["run r/1.0", "screen r/1.1", "settle r/1.3"]


WAITS: dict[str, tuple[Callable[[], Pen], bool]] = {
    "asked": (asked, True),
    "in doubt": (PLACES["in doubt"][0], True),
    "the last waits for people": (PLACES["the last waits"][0], True),
    "inside a nested agent": (lambda: nested(tool("c0", "ask")), True),
    "a sibling may run": (PLACES["siblings do not wait"][0], False),
    "nobody is asked": (begun, False),
    "cancelled": (lambda: after(asked(), cm.Cancel()), False),
    "cancelled and in doubt": (
        lambda: after(asked(tool("c0")), cm.StartCall(CALL, "t1"), cm.Cancel(), cm.LoseCall(CALL, "x")),
        False,
    ),
}


@each("place", WAITS)
def test_waiting_for_people(place: str) -> None:
    make, waits = WAITS[place]
    assert waiting(make().run) is waits


def test_nobody_is_waited_for_alone_while_a_tool_is_at_work() -> None:
    pen = asked(tool("c0", "ask"), tool("c1"))
    pen.begin("r/1.1")
    assert not waiting(pen.run)
    pen.end("r/1.1")
    assert waiting(pen.run)


def test_a_call_to_screen_is_not_waited_for() -> None:
    pen = asked(tool("c0", ""))
    assert not waiting(pen.run)
    pen(cm.Screen(CALL, ASK))
    assert waiting(pen.run)
