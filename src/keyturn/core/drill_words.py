"""The words of a drill that ended: for the record, and for the person who answered it."""

from __future__ import annotations

from . import events as ev

#: What whoever answered a drill is told, by whether they passed it.
SAID = {
    True: "This was a drill, and you saw it: it was not to be approved. Nothing of it would have run. Thank you.",
    False: "This was a drill: it was not to be approved. Nothing ran and no standing decision was kept, so no harm is "
    "done; take a moment more with the next one.",
}


def word_of(event: ev.DrillEnded) -> str:
    """Return in one word how a drill ended; of one that nobody answered it is what any request that ran out has.

    >>> from keyturn.core.records import Decision
    >>> word_of(ev.DrillEnded(Decision("r/1.0", "reject", "d1"), passed=True))
    'drill_passed'
    """
    return {True: "drill_passed", False: "drill_failed", None: "expire"}[event.passed]


def drill_outcome(state: str) -> str:
    """Return the sentence for whoever answered a request that ended so, where it was a drill; "" where it was none.

    >>> drill_outcome("approve")
    ''
    >>> drill_outcome("drill_failed").split(":")[0]
    'This was a drill'
    """
    return {"drill_passed": SAID[True], "drill_failed": SAID[False]}.get(state, "")
