"""The three tables: every row is a thing that happens, everything else is refused, and nothing is a dead end."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, get_args

import pytest
from msgspec.structs import replace

from keyturn.core import commands as cm
from keyturn.core.approval import Approval
from keyturn.core.errors import KeyturnError
from keyturn.core.run import Frame
from keyturn.core.states import (
    FRAME_MOVES,
    GROUPS,
    MOVES,
    OVER,
    READY,
    RUN_MOVES,
    SETTLED,
    TO_SETTLE,
    WAITING,
    Phase,
    State,
    Status,
    diagram,
)
from tests.core.samples import ALLOW, ASK, DENY, Pen, asked, nested, reply, result, start, tool
from tests.table import each

CALL, HOUR = "r/1.0", 3_600_000
RESTORED = cm.RecordRestore("a copy")
STATES = sorted({state for state, _verb in MOVES} | set(MOVES.values()))
VERBS = sorted({verb for _state, verb in MOVES})


def begun(recover: str) -> Pen:
    """A run with a call that is started, beside one that waits and keeps the turn open."""
    pen = asked(tool("c0", recover=recover), tool("c1", "ask"))
    pen.begin()
    return pen


def waits() -> Pen:
    return asked(tool("c0", "ask", terms=Approval(expires="1h")), tool("c1", "ask"))


def decided(verdict: str, **words: Any) -> Pen:
    pen = waits()
    pen.decide(verdict, **words)
    return pen


def doubted(*verdicts: str) -> Pen:
    pen = begun("ask")
    pen(cm.LoseCall(CALL, "the power failed"))
    for verdict in verdicts:
        pen.decide(verdict)
    return pen


def after(pen: Pen, act: Callable[[Pen], Any]) -> Pen:
    act(pen)
    return pen


def needing(*verdicts: str, recover: str = "ask") -> Pen:
    """A run with a started call that needs an answer, and then words on it."""
    pen = begun(recover)
    pen(cm.NeedInput(CALL, {"question": "which?"}))
    for verdict in verdicts:
        pen.decide(verdict)
    return pen


def wanting(wants: Any) -> Pen:
    """A run with a started call that waits for more than an answer to its tool."""
    pen = begun("ask")
    pen(cm.NeedInput(CALL, {"job": 1}, wants=wants))
    return pen


def outside(pen: Pen, verdict: str) -> Any:
    """Give the result of a call that is carried out elsewhere, or refuse it."""
    need = pen.call().need
    return pen.decide(verdict) if need is not None and need.wants == "result" else None


def asks_once_more(pen: Pen) -> None:
    """Start a call again of which nobody knows what its first start did, and let its tool ask for approval."""
    pen.begin()
    pen(cm.NeedInput(CALL, {"limit": 1}, wants="approval"))


def propose(gate: str) -> Pen:
    return asked(tool("c0", gate), tool("c1", "ask"))


REACH: dict[str, Callable[[], Pen]] = {
    "proposed": lambda: propose(""),
    "asked": waits,
    "allowed": lambda: propose("allow"),
    "approved": lambda: decided("approve"),
    "edited": lambda: decided("edit", args='{"n":2}'),
    "rejected": lambda: decided("reject"),
    "answered": lambda: decided("answer", output="41"),
    "expired": lambda: after(waits(), lambda pen: ACTS["expire"](pen)),
    "denied": lambda: after(propose(""), lambda pen: pen(cm.Screen(CALL, DENY))),
    "started": lambda: begun("ask"),
    "needs": needing,
    "supplied": lambda: needing("answer"),
    "in_doubt": doubted,
    "ran": lambda: doubted("ran"),
    "did_not_run": lambda: doubted("did_not_run"),
    "finished": lambda: after(begun("ask"), Pen.end),
    "failed": lambda: asked(tool("c0", refused=result("c0", "no such thing")), tool("c1", "ask")),
}

ACTS: dict[str, Callable[[Pen], Any]] = {
    "allow": lambda pen: pen(cm.Screen(CALL, ALLOW)),
    "ask": lambda pen: pen(cm.Screen(CALL, ASK)),
    "deny": lambda pen: pen(*(pen.screened(verdict=DENY) or [cm.Screen(CALL, DENY)])),
    "edit": lambda pen: pen.decide("edit", args='{"n":3}'),
    "expire": lambda pen: pen(cm.Tick(), at=HOUR + 1),
    "ask_again": lambda pen: pen(RESTORED),
    "start": lambda pen: pen.begin(),
    "lose": lambda pen: pen(
        cm.RecordRestore("it was restored") if pen.state() in READY else cm.LoseCall(CALL, "the power failed")
    ),
    "again": lambda pen: pen(cm.LoseCall(CALL, "the power failed")),
    "need": lambda pen: pen(cm.NeedInput(CALL, {"question": "and?"})),
    "finish": lambda pen: pen.end(),
    "supply": lambda pen: outside(pen, "answer"),
    "withhold": lambda pen: outside(pen, "reject"),
    "fail": lambda pen: pen.end(failed=True),
    "void": lambda pen: pen(cm.VoidCall(CALL, replace(pen.call().proposal, gate=""), "it changed")),
    "refuse": lambda pen: pen(cm.VoidCall(CALL, replace(pen.call().proposal, refused=result("c0")), "it is gone")),
    **{
        verdict: lambda pen, verdict=verdict: pen.decide(verdict)
        for verdict in ("approve", "reject", "answer", "ran", "did_not_run", "retry")
    },
}

# How a row is come to where the plain way to its state does not lead to it, or its plain act.
SPECIAL: dict[tuple[str, str], Callable[[], Pen]] = {
    ("started", "again"): lambda: begun("retry"),
    **{("needs", verb): lambda: wanting("result") for verb in ("supply", "withhold")},
    ("proposed", "refuse"): waits,
    ("supplied", "void"): lambda: needing("answer", recover="retry"),
    ("asked", "lose"): lambda: after(doubted("retry"), asks_once_more),
}
OTHERWISE: dict[tuple[str, str], Callable[[Pen], Any]] = {
    ("proposed", "void"): lambda pen: pen(RESTORED),
    ("started", "ask"): lambda pen: pen(cm.NeedInput(CALL, {"limit": 1}, wants="approval")),
    **{(state, "lose"): lambda pen: pen(RESTORED) for state in READY},
    ("asked", "lose"): lambda pen: ACTS["void"](pen),
}


def test_the_words_of_the_tables_are_those_of_their_types() -> None:
    for moves, words in ((MOVES, State), (FRAME_MOVES, Phase), (RUN_MOVES, Status)):
        assert {state for state, _verb in moves} | set(moves.values()) == set(get_args(words))


@each("state", STATES)
def test_every_state_is_reached(state: str) -> None:
    pen = REACH[state]()
    assert pen.state() == state
    assert [group for group, calls in pen.run.groups.items() if CALL in calls] == (
        [GROUPS[state]] if state in GROUPS else []
    )


def test_every_row_happens() -> None:
    for state, verb in MOVES:
        pen = SPECIAL.get((state, verb), REACH[state])()
        assert OTHERWISE.get((state, verb), ACTS[verb])(pen), (state, verb)
        assert pen.state() == MOVES[state, verb], (state, verb)
        assert pen.copy().run == pen.run


def elsewhere(state: str, verb: str) -> bool:
    """Whether an act goes by other rows: a failed result finishes what does not run, a refusal voids first, and a
    restored store moves whatever is open."""
    failed = verb == "fail" and (state, "finish") in MOVES
    return failed or (verb == "refuse" and (state, "void") in MOVES) or verb == "ask_again"


@each("state", STATES)
def test_nothing_else_happens(state: str) -> None:
    for verb in VERBS:
        if (state, verb) not in MOVES and not elsewhere(state, verb):
            pen = REACH[state]()
            if state in READY:  # what the newest policy says of a decision is no move, but for a denial
                pen(*pen.screened())
            with suppress(KeyturnError):
                assert not ACTS[verb](pen), verb
            assert pen.state() == state, verb
            assert pen.copy().run == pen.run


def test_a_failed_result_of_a_call_that_does_not_run_finishes_it() -> None:
    pen = REACH["rejected"]()
    pen.end(failed=True)
    assert pen.state() == "finished"


def test_the_groups_are_the_states() -> None:
    assert set(STATES) == set(GROUPS) | set(SETTLED)
    assert not set(GROUPS) & set(SETTLED)
    assert {*READY, *TO_SETTLE, *WAITING, "proposed", "started"} == set(GROUPS)


def test_the_settled_are_settled() -> None:
    assert not [row for row in MOVES if row[0] in SETTLED]


def test_only_a_start_starts_and_only_what_is_ready() -> None:
    assert {row for row, after in MOVES.items() if after == "started"} == {(state, "start") for state in READY}


# ------------------------------------------------------------------------------------------------------ frames, runs


def opened(*commands: cm.RunCommand, **settings: Any) -> Pen:
    pen = Pen()
    pen(start(**settings))
    for command in commands:
        pen(command)
    return pen


def handing() -> Pen:
    """A call that is started and will hand its frame over."""
    pen = asked(tool("c0"))
    pen.begin()
    return pen


CLOSE = cm.CloseFrame(CALL, "Error", result("outer"))
HAND = cm.HandOff(CALL, result("c0"), "b")

# Of each row a run that stands in its phase, the frame that does, and the command that makes the move.
FRAMES: dict[tuple[str, str], tuple[Callable[[], Pen], str, cm.RunCommand]] = {
    ("model", "reply"): (opened, "r", reply()),
    ("model", "propose"): (opened, "r", reply(tool("c0", "ask"))),
    ("calls", "settle"): (handing, "r", cm.FinishCall(CALL, result("c0"))),
    ("calls", "settle_for_judgement"): (
        lambda: after(opened(reply(tool("c0"), judged=True)), Pen.begin),
        "r",
        cm.FinishCall(CALL, result("c0")),
    ),
    ("judge", "continue"): (lambda: opened(reply()), "r", cm.JudgeFrame("r", final=False)),
    ("model", "close"): (opened, "r", cm.CloseRun("bye", [])),
    ("judge", "close"): (lambda: opened(reply()), "r", cm.JudgeFrame("r", final=True, output="x")),
    ("calls", "close"): (lambda: nested(tool("c0", "ask")), CALL, CLOSE),
    # A handoff's own result settles its frame first, so that it is handed over from where it stands then.
    ("model", "hand_off"): (handing, "r", HAND),
    ("judge", "hand_off"): (lambda: after(opened(reply(tool("c0"), judged=True)), Pen.begin), "r", HAND),
}


def moves_of(
    monkeypatch: pytest.MonkeyPatch, thing: type[Any], pen: Pen, name: str, command: cm.RunCommand
) -> list[Any]:
    """The moves that a command makes of a frame or a run, as (where it stood, verb)."""
    made: list[Any] = []
    plain = thing.move

    def seen(self: Any, verb: str) -> None:
        if getattr(self, "id", "") == name:
            made.append((self.phase if thing is Frame else self.status, verb))
        plain(self, verb)

    with monkeypatch.context() as patch:
        patch.setattr(thing, "move", seen)
        pen(command)
    return made


def test_every_row_of_a_frame_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(FRAMES) == set(FRAME_MOVES)
    for row, (make, name, command) in FRAMES.items():
        pen = make()
        frame = pen.run.frames[name]
        made = moves_of(monkeypatch, Frame, pen, name, command)
        assert made[-1] == row
        assert frame.phase == FRAME_MOVES[row]
        assert pen.copy().run == pen.run


def test_a_frame_without_a_barrier_stays_with_its_model(monkeypatch: pytest.MonkeyPatch) -> None:
    pen = opened(barrier=False)
    assert moves_of(monkeypatch, Frame, pen, "r", reply(tool("c0", "ask"))) == []
    assert moves_of(monkeypatch, Frame, pen, "r", reply()) == []
    pen.decide("reject")
    assert moves_of(monkeypatch, Frame, pen, "r", cm.FinishCall(CALL, result("c0"))) == []
    assert moves_of(monkeypatch, Frame, pen, "r", cm.CloseRun("bye", [])) == [("model", "close")]


def finished() -> Pen:
    return opened(reply(), cm.JudgeFrame("r", final=True, output="x"))


STATUSES: dict[str, Callable[[], Pen]] = {
    "new": Pen,
    "running": asked,
    "failed": lambda: after(opened(reply()), lambda pen: pen(cm.Fail("Error"))),
    "finished": finished,
    "cancelled": lambda: opened(cm.Cancel()),
}
RUNS: dict[str, cm.RunCommand] = {
    "start": start(),
    "resume": cm.Resume(7),
    "fail": cm.Fail("Error"),
    "set_aside": cm.Fail("Error", lost=3),
    "restore": RESTORED,
    "finish": cm.JudgeFrame("r", final=True, output="x"),
    "cancel": cm.Cancel(),
}


def test_every_row_of_a_run_happens_and_nothing_else() -> None:
    verbs = {verb for _status, verb in RUN_MOVES}
    assert (set(RUNS), set(STATUSES)) == (verbs, set(get_args(Status)))
    for status, make in STATUSES.items():
        for verb, command in RUNS.items():
            pen = opened(reply()) if (status, verb) == ("running", "finish") else make()
            assert pen.run.status == status
            with suppress(KeyturnError):
                pen(command)
            assert pen.run.status == RUN_MOVES.get((status, verb), status), (status, verb)
            assert len(pen.log) == 0 or pen.copy().run == pen.run


def test_what_is_over_is_over() -> None:
    assert not [row for row in RUN_MOVES if row[0] in OVER]
    assert not [row for row in FRAME_MOVES if row[0] == "closed"]


# -------------------------------------------------------------------------------------------------------- the picture


def reached_from(state: str, moves: Mapping[tuple[str, str], str] = MOVES) -> set[str]:
    seen, todo = {state}, [state]
    while todo:
        here = todo.pop()
        fresh = {to for (at, _verb), to in moves.items() if at == here} - seen
        seen |= fresh
        todo += fresh
    return seen


def test_no_state_is_a_dead_end() -> None:
    for moves, ends in ((MOVES, set(SETTLED)), (FRAME_MOVES, {"closed"}), (RUN_MOVES, set(OVER))):
        for state in {state for state, _verb in moves}:
            assert reached_from(state, moves) & ends


def test_every_state_can_come_of_the_first() -> None:
    for moves, first in ((MOVES, "proposed"), (FRAME_MOVES, "model"), (RUN_MOVES, "new")):
        assert reached_from(first, moves) == {state for state, _verb in moves} | set(moves.values())


def test_a_diagram_draws_every_row() -> None:
    for moves, first, ends in (
        (MOVES, "proposed", {*SETTLED}),
        (FRAME_MOVES, "model", {"closed"}),
        (RUN_MOVES, "new", {*OVER}),
    ):
        lines = [line.strip() for line in diagram(moves, first).splitlines()]
        rows = [f"{state} --> {to}: {verb}" for (state, verb), to in moves.items()]
        assert lines[: len(rows) + 2] == ["stateDiagram-v2", f"[*] --> {first}", *rows]
        assert set(lines[len(rows) + 2 :]) == {f"{state} --> [*]" for state in ends}
