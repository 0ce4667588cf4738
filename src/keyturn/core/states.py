"""The states of a call and the moves between them, as one table.

Nothing else decides what may follow what. Waiting for a person is a state of any call, so there is
no item type for it and no kind of tool is named here. The manual's diagram is drawn from `MOVES`.
"""

from __future__ import annotations

DECIDED = ("approved", "edited")
READY = ("allowed", *DECIDED, "supplied")
TO_SETTLE = ("denied", "rejected", "expired", "answered", "ran", "did_not_run")
WAITING = ("asked", "in_doubt", "needs")
SETTLED = ("finished", "failed")

MOVES: dict[tuple[str, str], str] = {
    ("proposed", "refuse"): "failed",
    ("proposed", "allow"): "allowed",
    ("proposed", "ask"): "asked",
    ("proposed", "deny"): "denied",
    ("asked", "approve"): "approved",
    ("asked", "edit"): "edited",
    ("asked", "reject"): "rejected",
    ("asked", "answer"): "answered",
    ("asked", "expire"): "expired",
    ("asked", "void"): "proposed",
    **{(state, "start"): "started" for state in READY},
    **{(state, "deny"): "denied" for state in (*DECIDED, "supplied")},
    **{(state, "void"): "proposed" for state in READY},
    **{(state, "fail"): "failed" for state in READY},
    **{(state, "lose"): "in_doubt" for state in READY},
    ("started", "finish"): "finished",
    ("started", "fail"): "failed",
    ("started", "lose"): "in_doubt",
    ("started", "again"): "allowed",
    ("started", "need"): "needs",
    ("needs", "answer"): "supplied",
    ("needs", "reject"): "supplied",
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


def diagram() -> str:
    """The table as a Mermaid state diagram, for the manual.

    >>> diagram().splitlines()[0]
    'stateDiagram-v2'
    """
    lines = ["stateDiagram-v2", "    [*] --> proposed"]
    lines += [f"    {state} --> {after}: {verb}" for (state, verb), after in MOVES.items()]
    lines += [f"    {state} --> [*]" for state in SETTLED]
    return "\n".join(lines)
