"""A run that waits for its turn has an input and nothing else, begins once, and can be ended before."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn.core import commands as cm
from keyturn.core import events as ev
from keyturn.core.decide import step
from keyturn.core.effects import pending, waiting, wakes_at
from keyturn.core.errors import Conflict
from keyturn.core.run import Run, new_run

QUEUE = cm.Queue("run", "salt", "hi", {"session": "ann"}, "desk", 7, "ada")


def queued() -> Run:
    run = new_run()
    assert [type(event) for event in step(run, QUEUE, 5)] == [ev.RunStarted, ev.RunQueued]
    return run


def test_a_queued_run_waits_for_nobody_and_owes_nothing() -> None:
    run = queued()
    assert (run.status, run.queued, run.root_agent, run.max_turns, run.requester) == ("running", True, "desk", 7, "ada")
    assert (pending(run), waiting(run), wakes_at(run), run.frames) == ([], False, None, {})


def test_it_begins_once_with_what_it_reads_then() -> None:
    run = queued()
    [opened] = step(run, cm.Begin([0, {"role": "user", "content": "hi"}], "", "1:abc"), 9)
    assert isinstance(opened, ev.FrameOpened)
    assert (opened.agent, opened.max_turns, opened.prefix) == ("desk", 7, "1:abc")
    assert not run.queued
    assert pending(run)
    for again in (cm.Begin([]), QUEUE):
        with pytest.raises(Conflict):
            step(run, again, 10)


@pytest.mark.each
@pytest.mark.parametrize(
    ("command", "status"),
    [(cm.Cancel(), "cancelled"), (cm.Fail("gone"), "failed"), (cm.RecordRestore("put back", "n1"), "failed")],
)
def test_it_is_ended_before_it_began(command: Any, status: str) -> None:
    run = queued()
    step(run, command, 9)
    assert run.status == status
    if status == "cancelled":
        with pytest.raises(Conflict):
            step(run, cm.Begin([]), 10)
    else:
        step(run, cm.Resume(max_turns=3), 10)
        assert (run.status, run.queued, run.max_turns) == ("running", True, 3)
        [opened] = step(run, cm.Begin([]), 11)
        assert isinstance(opened, ev.FrameOpened)
        assert opened.max_turns == 3


def test_it_takes_no_messages_and_nothing_else_before_it_began() -> None:
    for command in (cm.AddInput("r", []), cm.OpenFrame("r/1.0", "desk", [], None), cm.WroteSession("r", 1)):
        with pytest.raises(Conflict):
            step(queued(), command, 9)


def test_no_answer_is_given_to_a_run_that_has_not_begun() -> None:
    with pytest.raises(Conflict):
        step(queued(), cm.CloseRun("done", []), 9)
