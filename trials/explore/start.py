"""How a small world begins, and what its worker does with any run."""

from __future__ import annotations

from typing import Any

from keyturn.core import commands as cm
from keyturn.core.decide import step
from keyturn.core.events import Step
from keyturn.core.policy import Verdict
from keyturn.core.run import new_run

from .acts import CALL, Act, finish, judge, reply, screen, simple, start
from .book import Book
from .people import REQUESTER
from .world import Copy, World

BEGUN = 1_000_000
NONE = (0, 0, 0, 0)
TICK = cm.Tick()
CANCEL = cm.Cancel()


def beginning(left: tuple[int, ...] = NONE, drill: int | None = None, *, counts: bool = False) -> World:
    """Return a run that has just started."""
    made = cm.Start(
        "run-1", "salt", "Pay.", {}, "desk", [{"role": "user", "content": "Pay."}], None, requester=REQUESTER,
        drill=drill,
    )  # fmt: skip
    return _begun(made, left, Book("run-1", drill=drill is not None, troubles=() if counts else None))


def in_a_queue(left: tuple[int, ...]) -> World:
    """Return a run that waits for its turn on its session."""
    made = cm.Queue("run-1", "salt", "Pay.", {}, "desk", None, requester=REQUESTER)
    return _begun(made, left, Book("run-1", queued=True))


def _begun(made: cm.RunCommand, left: tuple[int, ...], book: Book) -> World:
    run = new_run()
    log = (Step(BEGUN, step(run, made, BEGUN)),)
    return World((run,), (book,), (log,), BEGUN, 0, left, still=(Copy(run, book, log),))


def worker(policies: tuple[Verdict, ...], script: tuple[Any, ...], calls: tuple[str, ...] = (CALL,)) -> tuple[Act, ...]:
    """Return what a worker does with any run: its model, its policy, its tools, its clock."""
    tools = {f"r/{turn}.{made.item}": made.tool for turn, made_of in enumerate(script, 1) for made in made_of}
    acts = [reply(script), judge(), simple("the worker looks at the clock", TICK)]
    for call in calls:
        acts += [screen(policies, call), start(call, tool=tools[call]), finish(call)]
    return tuple(acts)
