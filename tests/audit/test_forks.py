"""What the checker says of forks: an honest one is left alone, and a voice that came from another run is found."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from keyturn.audit.calls import Broken
from keyturn.audit.log import end_log, read_step
from keyturn.audit.run import AuditedRun
from keyturn.core import commands as cm
from keyturn.core import events as ev
from keyturn.core.approval import Approval
from keyturn.core.codec import Log
from keyturn.core.errors import Conflict
from keyturn.core.policy import Verdict
from keyturn.core.run import call_digest
from keyturn.engine.states.fork import forked
from tests.audit.forging import CALL, Steps, decided, on, voted
from tests.core.samples import Pen, asked, grant, nested, person, reply, tool

ANN, BOB, EVE = person("ann", "ops"), person("bob", "ops"), person("eve")
Change = Callable[[list[ev.AnyEvent]], Iterable[ev.AnyEvent]]


def fault(steps: Steps, name: str) -> str:
    """The promise that a log breaks; "" where it keeps them all."""
    automaton = AuditedRun(name)
    try:
        for step in steps:
            read_step(automaton, step)
        end_log(automaton)
    except Broken as broken:
        return broken.invariant
    return ""


def copied(pen: Pen, at: int | None = None) -> Pen:
    """A fork of a run, in which something is done next."""
    return Pen(forked(pen.log, at, pen.now + 1))


def changed(pen: Pen, line: int, change: Change) -> str:
    """What is found wrong with a log of which one line was forged."""
    steps = list(pen.log.steps)
    steps[line] = replace(steps[line], events=list(change(steps[line].events)))
    return fault(steps, pen.run.id)


def without(*kinds: type[Any]) -> Change:
    return lambda events: [event for event in events if not isinstance(event, kinds)]


def bound_to(digest: str) -> Change:
    """As a fork once was: with the votes that it copied bound to itself."""

    def change(events: list[ev.AnyEvent]) -> Iterable[ev.AnyEvent]:
        for event in events:
            is_vote = isinstance(event, ev.VoteCast)
            yield replace(event, decision=replace(event.decision, digest=digest)) if is_vote else event

    return change


def renamed(pen: Pen) -> ev.Step:
    """The first line of a log, as a fork of it would copy it."""
    began, *more = pen.log.steps[0].events
    assert isinstance(began, ev.RunStarted)
    return ev.Step(0, [replace(began, run="fork", copied_from="run"), *more])


def half() -> Pen:
    """A call that takes two people, of whom one has voted."""
    pen = on(quorum=2)
    pen.decide("approve", by=ANN)
    return pen


def test_a_log_that_was_copied_is_held_to_the_run_that_it_was_copied_from() -> None:
    pen = half()
    first = copied(pen)
    second = copied(first)
    older = copied(second, 2)
    for fork in (first, second, older):
        assert fault(fork.log.steps, fork.run.id) == ""
        assert fork.log.steps[1:2] == pen.log.steps[1:2], "what is copied is copied as it was written"
        assert fork.call().votes == {}
        assert fork.decide("approve", by=BOB) != []
        assert fork.state() == "asked"
        fork.decide("approve", by=ANN)
        fork.begin()
        fork.end()
        assert fault(fork.log.steps, fork.run.id) == ""
        assert fault(Log.read(list(fork.log.lines())).steps, fork.run.id) == ""
    assert fault(pen.log.steps, pen.run.id) == ""


def test_a_vote_of_another_run_is_found_wherever_it_stands() -> None:
    pen = half()
    vote = pen.log.steps[-1].events[0]
    assert isinstance(vote, ev.VoteCast)
    fork = copied(pen)
    anew = call_digest(fork.run, fork.call())
    assert changed(fork, 2, bound_to(anew)) == "I1", "bound to the fork, in a line that it copied"
    now = fork.now
    for late in (vote, ev.VoteCast(replace(vote.decision, at=now, decider=BOB))):
        assert fault([*fork.log.steps, ev.Step(now, [late])], fork.run.id) == "I1"
    own = decided(fork, by="bob")
    assert fault([*fork.log.steps, ev.Step(now, [own])], fork.run.id) == "I1", "one of two"
    began = fork.log.steps[0].events[0]
    assert isinstance(began, ev.RunStarted)
    rebound = [replace(began, copied_from=""), *fork.log.steps[0].events[1:]]
    former = Pen(Log([replace(fork.log.steps[0], events=rebound), fork.log.steps[1]]))
    mine = call_digest(former.run, former.call())
    steps = [*former.log.steps, replace(pen.log.steps[2], events=list(bound_to(mine)(pen.log.steps[2].events)))]
    assert fault(steps, fork.run.id) == "I1", "as earlier versions forked"


def test_what_waits_in_a_fork_asks_anew_and_what_was_let_run_is_not_in_it() -> None:
    fork = copied(half())
    last = len(fork.log) - 1
    assert changed(fork, last, without(ev.CallAskedAgain)) == "I1"
    assert changed(fork, last, without(ev.RunForked)) == "I8"
    assert fault(fork.log.steps[:-1], fork.run.id) == "I8"

    def elsewhere(events: list[ev.AnyEvent]) -> Iterable[ev.AnyEvent]:
        return [replace(event, at=1) if isinstance(event, ev.RunForked) else event for event in events]

    assert changed(fork, last, elsewhere) == "I8"
    approved = asked(tool("c0", "ask"), tool("c1", "ask"))
    approved.decide("approve")
    for pen in (approved, half()):
        forged = [renamed(pen), *pen.log.steps[1:], ev.Step(1, [ev.RunForked("fork", "run", len(pen.log))])]
        assert fault(forged, "fork") == "I1"


def test_a_look_or_a_mark_of_another_asking_is_found() -> None:
    pen = on(min_look="5s")
    shown = call_digest(pen.run, pen.call())
    pen(cm.RecordLook(CALL, shown, ANN), cm.MarkCall(CALL, shown, "claim", ANN, pen.now + 9_000))
    fork = copied(pen)
    assert (fork.call().looks, fork.call().claim) == ({}, None)
    for event in pen.log.steps[-1].events:
        assert fault([*fork.log.steps, ev.Step(fork.now, [event])], fork.run.id) == "I1"
        foreign = Pen(Log([*fork.log.steps, ev.Step(fork.now, [event])]))
        assert (foreign.call().looks, foreign.call().claim) == ({}, None), "and nothing is made of it"
    former = [ev.CallLooked(CALL, ANN), ev.CallMarked(CALL, "claim", ANN, fork.now + 9)]
    assert fault([*fork.log.steps, ev.Step(fork.now, former)], fork.run.id) == "", "as earlier versions wrote them"


def test_a_vote_or_confirmation_of_other_bytes_is_none() -> None:
    pen = on(quorum=2)
    foreign = voted(pen, by=ANN, digest="0" * 64)
    assert Pen(Log([*pen.log.steps, ev.Step(0, [foreign])])).call().votes == {}
    sure = replace(voted(pen, by=EVE, digest="0" * 64).decision, confirms=True)
    assert Pen(Log([*pen.log.steps, ev.Step(0, [ev.VoteCast(sure)])])).call().confirmed is None


def test_approvals_end_at_a_fork_and_rejections_do_not() -> None:
    pen = asked(tool("c0", "ask"), tool("c1", "ask", tool="t2"), tool("c2", "ask", tool="t3"))
    pen(
        cm.Deliver([pen.decision("reject", by=ANN)], [grant("no", by=ANN, verdict="reject")]),
        cm.Deliver([pen.decision("approve", "r/1.1", by=ANN)], [grant("yes", by=ANN, tool="t2")]),
    )
    pen.begin("r/1.1")
    pen.end("r/1.1")
    fork = copied(pen)
    assert list(fork.run.grants) == ["no"]
    last = len(fork.log) - 1
    assert changed(fork, last, without(ev.GrantRevoked)) == "I1"
    freed = [*fork.log.steps[last].events[:-1], ev.GrantRevoked("no"), fork.log.steps[last].events[-1]]
    assert changed(fork, last, lambda _: freed) == "I1"
    fork.decide("reject", "r/1.2")
    fork.end("r/1.0")
    fork.end("r/1.2")
    fork(reply(tool("c3", "")))
    fork(cm.Screen("r/2.0", Verdict("allow")))
    assert fork.state("r/2.0") == "rejected", "though its policy lets it run now"
    fork(cm.Revoke("no", ANN))
    assert fault(fork.log.steps, fork.run.id) == ""


def test_an_agent_that_began_on_an_approval_begins_on_it_once() -> None:
    """What was let run by people is let run once, the calls of an agent that they let begin included."""
    pen = asked(tool("outer", "ask", terms=Approval(quorum=2)))
    for who in (ANN, BOB):
        pen.decide("approve", by=who)
    pen.begin()
    pen(cm.OpenFrame(CALL, "a/b", [], 5))
    pen(reply(tool("c0", "ask"), frame=CALL))
    fork = copied(pen)
    assert (fork.state(), list(fork.run.calls)) == ("asked", [CALL])
    inner = f"{CALL}/1.0"
    tail = ev.Step(0, [ev.CallAskedAgain(inner, "forked", 0), ev.RunForked("fork", "run", len(pen.log))])
    assert fault([renamed(pen), *pen.log.steps[1:], tail], "fork") == "I1"
    unasked = copied(nested(tool("c0", "ask")))
    assert unasked.state(inner) == "asked"
    assert fault(unasked.log.steps, unasked.run.id) == ""


def test_what_a_fork_copied_is_reviewed_where_it_ran() -> None:
    """The sample of another run cannot be drawn again, and what it asked for is not asked for a second time."""
    for share in (0.5, 1.0):
        pen = asked(*(tool(f"c{each}", "") for each in range(8)), tool("c9", "ask"))
        for each in range(8):
            pen(cm.Screen(f"r/1.{each}", Verdict("allow", review=share)))
        for each in range(8):
            pen.begin(f"r/1.{each}")
            pen.end(f"r/1.{each}")
        assert fault(pen.log.steps, "run") == ""
        fork = copied(pen)
        assert fork.run.reviews == {}
        assert fault(fork.log.steps, fork.run.id) == ""


def test_a_fork_begins_once_where_lines_were_copied() -> None:
    pen = half()
    pen.refuses(Conflict, cm.Fork("run", "run", 3))
    fork = copied(pen)
    fork.refuses(Conflict, cm.Fork(fork.run.id, "run", len(fork.log)))


def test_a_restore_and_a_fork_ask_anew_by_one_rule() -> None:
    pen = half()
    pen(cm.RecordRestore("a copy", "n1"))
    here = pen.call()
    fork = copied(half()).call()
    for call in (here, fork):
        assert (call.votes, call.confirmed, call.looks, call.asks, call.revoked) == ({}, None, {}, 1, True)


def test_counts_of_several_runs_are_told_once_of_what_a_fork_copied() -> None:
    watch = ev.Watch("5e1f", 1_000, ("rejected",))
    pen = asked(tool("c0", ""), tool("c1", "ask"))
    pen(cm.Screen(CALL, Verdict("ask"), watched=(watch,)))
    pen.decide("reject", by=ANN)
    assert len(pen.run.owed) == 1
    fork = copied(pen)
    assert fork.run.owed == {}
    assert fault(fork.log.steps, fork.run.id) == ""
    for owed in list(pen.run.owed.values()):
        pen(cm.ReturnQuota(pen.run.id, owed.call, owed.of))
    told = copied(pen)  # the copied line that says so is the other run's
    assert (told.run.owed, fault(told.log.steps, told.run.id)) == ({}, "")


def test_a_drill_and_a_call_of_a_model_that_talks_on_are_forked_by_the_same_rule() -> None:
    for more in ({"drill": 9_000_000}, {"barrier": False}):
        pen = asked(tool("c0", "ask", terms=Approval(role="ops", min_look="5s")), **more)
        shown = call_digest(pen.run, pen.call())
        pen(cm.RecordLook(CALL, shown, ANN), cm.MarkCall(CALL, shown, "snooze", BOB, pen.now + 9_000))
        fork = copied(pen)
        assert (fork.call().looks, fork.call().snoozes, fork.call().asks) == ({}, {}, 1)
        assert fault(fork.log.steps, fork.run.id) == ""


def test_a_former_fork_can_be_forked() -> None:
    """Earlier versions bound what they copied to the fork, which was right for what is over."""
    pen = asked(tool("c0", "ask"), tool("c1", "ask"))
    pen.decide("reject", by=ANN)
    began = pen.log.steps[0].events[0]
    assert isinstance(began, ev.RunStarted)
    first = replace(began, run="5e1f", about={"forked_from": {"run": "run", "at": 3}})
    former = Pen(Log([ev.Step(0, [first, *pen.log.steps[0].events[1:]]), pen.log.steps[1]]))
    former.decide("reject", by=ANN)
    former.end()
    assert fault(former.log.steps, "5e1f") == ""
    fork = copied(former)
    assert (fork.run.about["forked_from"], fork.call("r/1.1").asks) == ({"run": "5e1f", "at": 4}, 1)
    assert fault(fork.log.steps, fork.run.id) == ""
