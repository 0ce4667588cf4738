"""The states of a call, a frame and a run, and the moves between them, as three tables.

Nothing else decides what may follow what. Waiting for a person is a state of any call, so there is no item type for it
and no kind of tool is named here. The manual's diagrams are drawn from these tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

State = Literal[
    "proposed", "allowed", "asked", "approved", "edited", "denied", "rejected", "expired", "answered", "started",
    "needs", "supplied", "in_doubt", "ran", "did_not_run", "finished", "failed",
]  # fmt: skip
Phase = Literal["model", "calls", "judge", "closed"]
Status = Literal["new", "running", "failed", "finished", "cancelled"]

DECIDED = ("approved", "edited")
READY = ("allowed", *DECIDED, "supplied")
TO_SETTLE = ("denied", "rejected", "expired", "answered", "ran", "did_not_run")
WAITING: tuple[State, ...] = ("asked", "in_doubt", "needs")
SETTLED = ("finished", "failed")
OVER = ("finished", "cancelled")

MOVES: dict[tuple[str, str], State] = {
    ("proposed", "refuse"): "failed",
    ("proposed", "allow"): "allowed",
    ("proposed", "ask"): "asked",
    ("proposed", "deny"): "denied",
    ("asked", "approve"): "approved",
    ("asked", "edit"): "edited",
    ("asked", "reject"): "rejected",
    ("asked", "answer"): "answered",
    ("asked", "expire"): "expired",
    **{(state, "ask_again"): state for state in WAITING},
    ("proposed", "void"): "proposed",
    ("asked", "void"): "proposed",
    ("asked", "lose"): "in_doubt",
    **{(state, "start"): "started" for state in READY},
    **{(state, "deny"): "denied" for state in (*DECIDED, "supplied")},
    **{(state, "void"): "proposed" for state in READY},
    **{(state, "fail"): "failed" for state in READY},
    **{(state, "lose"): "in_doubt" for state in READY},
    ("started", "finish"): "finished",
    ("started", "fail"): "failed",
    ("started", "lose"): "in_doubt",
    ("started", "again"): "allowed",
    ("started", "ask"): "asked",
    ("started", "need"): "needs",
    ("needs", "answer"): "supplied",
    ("needs", "reject"): "supplied",
    ("needs", "supply"): "answered",
    ("needs", "withhold"): "rejected",
    ("in_doubt", "ran"): "ran",
    ("in_doubt", "did_not_run"): "did_not_run",
    ("in_doubt", "retry"): "approved",
    **{(state, "finish"): "finished" for state in TO_SETTLE},
}

# What the world owes a call in each state; `pending` walks these groups, never the history.
GROUPS: dict[str, str] = {
    "proposed": "screen",
    **dict.fromkeys(READY, "run"),
    **dict.fromkeys(TO_SETTLE, "settle"),
    **dict.fromkeys(WAITING, "wait"),
    "started": "started",
}

# A frame with a barrier waits in "calls" until all of them have results; one without stays with its model.
FRAME_MOVES: dict[tuple[str, str], Phase] = {
    ("model", "reply"): "judge",
    ("model", "propose"): "calls",
    ("calls", "settle"): "model",
    ("calls", "settle_for_judgement"): "judge",
    ("judge", "continue"): "model",
    **{(phase, "hand_off"): "model" for phase in ("model", "judge")},
    **{(phase, "close"): "closed" for phase in ("model", "calls", "judge")},
}

RUN_MOVES: dict[tuple[str, str], Status] = {
    ("new", "start"): "running",
    ("running", "resume"): "running",
    ("failed", "resume"): "running",
    ("running", "fail"): "failed",
    ("running", "set_aside"): "failed",
    ("failed", "set_aside"): "failed",
    ("running", "restore"): "failed",
    ("failed", "restore"): "failed",
    **{(status, "finish"): "finished" for status in ("running", "failed")},
    **{(status, "cancel"): "cancelled" for status in ("running", "failed")},
}


def diagram(moves: Mapping[tuple[str, str], str] = MOVES, first: str = "proposed") -> str:
    """Draw a table as a Mermaid state diagram, for the manual.

    >>> diagram().splitlines()[0]
    'stateDiagram-v2'
    """
    last = {after for after in moves.values() if not any(state == after for state, _verb in moves)}
    lines = ["stateDiagram-v2", f"    [*] --> {first}"]
    lines += [f"    {state} --> {after}: {verb}" for (state, verb), after in moves.items()]
    lines += [f"    {state} --> [*]" for state in dict.fromkeys(moves.values()) if state in last]
    return "\n".join(lines)
