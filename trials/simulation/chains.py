"""Who watches chains of approvals: each step is met in its turn, by people of its own who have its role."""

from __future__ import annotations

from collections.abc import Callable

from keyturn.core import events as ev
from keyturn.core.approval import Approval

from .seen import Seen

_LETS_RUN = ("approve", "edit", "retry")


def stated(call: Seen, terms: Approval | None) -> None:
    """A call is asked about on these terms, from the first step on."""
    call.terms = terms
    steps = list[Approval]()
    while terms is not None:
        steps.append(terms)
        terms = terms.then
    call.steps, call.met = tuple(steps), []


def begun_again(call: Seen, terms: Approval | None = None) -> None:
    """A call is asked about from the first step on, on these terms where they are others."""
    stated(call, terms or (call.steps[0] if call.steps else None))


def voted(call: Seen, made: ev.Decision) -> None:
    """A word that meets a step, and there is another one."""
    if made.confirms and len(call.met) + 1 < len(call.steps):
        call.met.append(made)


def withdrawn(call: Seen, made: ev.Decision) -> None:
    """Whoever withdraws such a word takes those after it along."""
    by = [each.by for each in call.met]
    call.met = call.met[: by.index(made.by)] if made.by in by else call.met


def decided(call: Seen, made: ev.Decision, wrong: Callable[[str], None]) -> None:
    """A person lets a call of a chain run: in the last step, after different people in each before it."""
    if len(call.steps) < 2 or made.broke_glass or made.decider is None or made.verdict not in _LETS_RUN:
        return
    words = [*call.met, made]
    names = [{each.decider.id, each.decider.acting_for} - {""} for each in words if each.decider is not None]
    if len(words) != len(call.steps):
        wrong(f"{call.id} was let run in step {len(words)} of {len(call.steps)}")
    elif sum(map(len, names)) != len(set[str]().union(*names)):
        wrong(f"{call.id} was let run, and one person met two of its steps")
    elif not all(_has_role(step, each) for step, each in zip(call.steps, words, strict=True)):
        wrong(f"{call.id} was let run, and a step was met without its role")


def _has_role(step: Approval, made: ev.Decision) -> bool:
    return made.decider is not None and (step.role is None or step.role in made.decider.roles)


def lasts(call: Seen) -> int | None:
    """How long what lets a call run is good."""
    return call.steps[-1].execute_by_ms if call.steps else None
