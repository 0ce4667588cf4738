"""The table of states: every row is a thing that happens, everything else is refused, and nothing is a dead end."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from msgspec.structs import replace

from keyturn.core import commands as cm
from keyturn.core.errors import KeyturnError
from keyturn.core.policy import Approval
from keyturn.core.states import GROUPS, MOVES, READY, SETTLED, TO_SETTLE, WAITING, diagram
from tests.core.samples import ALLOW, ASK, DENY, Pen, asked, result, tool

CALL, HOUR = "r/1.0", 3_600_000
STATES = sorted({state for state, _verb in MOVES} | set(MOVES.values()))
VERBS = sorted({verb for _state, verb in MOVES})


def begun(recover: str) -> Pen:
    """A run with a call that is started, beside one that waits and keeps the turn open."""
    pen = asked(tool("c0", recover=recover), tool("c1", "ask"))
    pen.begin()
    return pen


def waits() -> Pen:
    return asked(tool("c0", "ask", terms=Approval(expires="1h")), tool("c1", "ask"))


def decided(verdict: str, recheck: bool = False, **words: Any) -> Pen:
    pen = waits()
    pen(cm.Deliver([pen.decision(verdict, **words)]))
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


def needing(*verdicts: str, recheck: bool = False) -> Pen:
    """A run with a started call that needs an answer, and then words on it."""
    pen = begun("ask")
    pen(cm.NeedInput(CALL, {"question": "which?"}))
    for verdict in verdicts:
        pen(cm.Deliver([pen.decision(verdict)]))
    return pen


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
    "deny": lambda pen: pen(cm.Screen(CALL, DENY)),
    "edit": lambda pen: pen.decide("edit", args='{"n":3}'),
    "expire": lambda pen: pen(cm.Tick(), at=HOUR + 1),
    "start": lambda pen: pen.begin(),
    "lose": lambda pen: pen(cm.LoseCall(CALL, "the power failed")),
    "again": lambda pen: pen(cm.LoseCall(CALL, "the power failed")),
    "need": lambda pen: pen(cm.NeedInput(CALL, {"question": "and?"})),
    "finish": lambda pen: pen.end(),
    "fail": lambda pen: pen.end(failed=True),
    "void": lambda pen: pen(cm.VoidCall(CALL, replace(pen.call().proposal, gate=""), "it changed")),
    "refuse": lambda pen: pen(cm.VoidCall(CALL, replace(pen.call().proposal, refused=result("c0")), "it is gone")),
    **{
        verdict: lambda pen, verdict=verdict: pen.decide(verdict)
        for verdict in ("approve", "reject", "answer", "ran", "did_not_run", "retry")
    },
}

# How a row is come to where the plain way to its state does not lead to it.
SPECIAL: dict[tuple[str, str], Callable[[], Pen]] = {
    ("started", "again"): lambda: begun("retry"),
    ("approved", "deny"): lambda: decided("approve"),
    ("edited", "deny"): lambda: decided("edit", args='{"n":2}'),
    ("supplied", "deny"): lambda: needing("reject"),
    ("proposed", "refuse"): waits,
}


@pytest.mark.parametrize("state", STATES)
def test_every_state_is_reached(state: str) -> None:
    pen = REACH[state]()
    assert pen.state() == state
    assert [group for group, calls in pen.run.groups.items() if CALL in calls] == (
        [GROUPS[state]] if state in GROUPS else []
    )


@pytest.mark.parametrize(("state", "verb"), MOVES)
def test_every_row_happens(state: str, verb: str) -> None:
    pen = SPECIAL.get((state, verb), REACH[state])()
    assert ACTS[verb](pen)
    assert pen.state() == MOVES[state, verb]
    assert pen.copy().run == pen.run


def elsewhere(state: str, verb: str) -> bool:
    """Whether an act goes by other rows: a failed result finishes what does not run, a refusal voids first."""
    return (verb == "fail" and (state, "finish") in MOVES) or (verb == "refuse" and (state, "void") in MOVES)


NOT_MOVES = [(s, v) for s in STATES for v in VERBS if (s, v) not in MOVES and not elsewhere(s, v)]


@pytest.mark.parametrize(("state", "verb"), NOT_MOVES)
def test_nothing_else_happens(state: str, verb: str) -> None:
    pen = REACH[state]()
    with suppress(KeyturnError):
        assert not ACTS[verb](pen)
    assert pen.state() == state
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


def reached_from(state: str) -> set[str]:
    seen, todo = {state}, [state]
    while todo:
        here = todo.pop()
        fresh = {to for (at, _verb), to in MOVES.items() if at == here} - seen
        seen |= fresh
        todo += fresh
    return seen


@pytest.mark.parametrize("state", STATES)
def test_no_state_is_a_dead_end(state: str) -> None:
    assert reached_from(state) & set(SETTLED)


def test_every_state_can_come_of_a_proposal() -> None:
    assert reached_from("proposed") == set(STATES)


def test_the_diagram_draws_every_row() -> None:
    lines = [line.strip() for line in diagram().splitlines()]
    rows = [f"{state} --> {to}: {verb}" for (state, verb), to in MOVES.items()]
    ends = [f"{state} --> [*]" for state in SETTLED]
    assert lines == ["stateDiagram-v2", "[*] --> proposed", *rows, *ends]
