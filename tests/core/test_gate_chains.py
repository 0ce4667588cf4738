"""Approval chains: a step is met by people of its own, in its turn, and the call runs when all of them are met."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from keyturn.audit.log import read_step
from keyturn.audit.run import AuditedRun
from keyturn.core import commands as cm
from keyturn.core import events as ev
from keyturn.core.approval import Approval
from keyturn.core.codec import decode, encode
from keyturn.core.errors import Conflict, KeyturnError, NotAllowed, NotPending, UserError
from keyturn.core.gate.combined_terms import combined
from keyturn.core.people import Proof
from keyturn.core.policy import Verdict
from keyturn.core.request import request_of
from keyturn.core.run import call_digest
from tests.core.samples import Pen, asked, grant, person, tool
from tests.table import each

CALL = "r/1.0"
HOUR = 3_600_000
MANAGER, FINANCE = Approval(role="manager"), Approval(role="finance", quorum=2)
MIA, GUS, HANA = person("mia", "manager"), person("gus", "finance"), person("hana", "finance")
BOTH = person("ivo", "manager", "finance")


def chain(*steps: Approval) -> Pen:
    return asked(tool("c0", "ask", terms=Approval(steps=steps or (MANAGER, FINANCE))), requester="eve")


def audited(pen: Pen) -> None:
    """The auditor, which shares no code with the gate, finds nothing to object to."""
    run = AuditedRun("run")
    for line in pen.log.steps:
        read_step(run, line)


def objected(lines: list[ev.Step]) -> str:
    """What the auditor has against a log."""
    run = AuditedRun("run")
    try:
        for line in lines:
            read_step(run, line)
    except Exception as error:
        return str(error)
    return ""


def test_a_call_runs_when_each_step_is_met_in_its_turn() -> None:
    pen = chain()
    pen.refuses(NotAllowed, cm.Deliver([pen.decision("approve", by=GUS)]))
    shown = call_digest(pen.run, pen.call())
    met = pen.decide("approve", by=MIA)
    assert [type(event) for event in met] == [ev.VoteCast, ev.CallAskedAgain]
    assert pen.decide("approve", by=MIA, digest=shown) == [], "the same word a second time is harmless"
    request = request_of(pen.run, pen.call())
    assert (request.step, request.steps, request.terms, request.revision) == (2, 2, FINANCE, 2)
    assert ([vote.by for vote in request.met[0].votes], request.not_for) == (["mia"], ("mia",))
    assert request.verdicts == ("approve", "reject", "answer")
    pen.decide("approve", by=GUS)
    pen.decide("approve", by=HANA)
    assert pen.state() == "approved"
    pen.begin()
    pen.end()
    audited(pen)
    assert [decode(encode(line)) for line in pen.log.steps] == pen.log.steps


def test_a_vote_is_of_the_step_that_its_voter_was_shown() -> None:
    pen = chain()
    early = pen.decision("approve", by=BOTH)
    pen.decide("approve", by=MIA)
    pen.refuses(Conflict, cm.Deliver([early]))
    together = chain()
    votes = [together.decision("approve", by=who) for who in (MIA, BOTH)]
    together(cm.Deliver(votes))
    assert (together.state(), together.call().votes) == ("asked", {}), "what one delivery holds is of one step"
    audited(together)


def test_one_person_is_heard_in_one_step() -> None:
    pen = chain(MANAGER, Approval(role="finance"))
    pen.decide("approve", by=BOTH)
    lent = replace(GUS, id="kim", acting_for="ivo")
    for again in (BOTH, replace(BOTH, id="Ivo"), lent):
        for verdict in ("approve", "reject"):
            pen.refuses(NotAllowed, cm.Deliver([pen.decision(verdict, by=again)]))
    pen.decide("approve", by=GUS)
    assert pen.state() == "approved"


def test_a_rejection_in_any_step_ends_the_request() -> None:
    for before in ([], [MIA], [MIA, GUS]):
        pen = chain()
        for who in before:
            pen.decide("approve", by=who)
        pen.decide("reject", by=MIA if not before else HANA)
        assert pen.state() == "rejected"
        audited(pen)


def test_whoever_withdraws_a_vote_takes_the_chain_back_to_its_step() -> None:
    pen = chain(MANAGER, FINANCE, Approval(role="chief"))
    pen.decide("approve", by=MIA)
    old = pen.decision("approve", by=GUS)
    for who in (GUS, HANA):
        pen.decide("approve", by=who)
    assert [len(step.votes) for step in pen.call().met] == [1, 2]
    pen(cm.Withdraw(CALL, HANA))
    assert (pen.call().terms, len(pen.call().met)) == (Approval(steps=[FINANCE, Approval(role="chief")]), 1)
    pen.refuses(Conflict, cm.Deliver([old]))
    pen(cm.Withdraw(CALL, MIA))
    assert (pen.call().terms, pen.call().met) == (pen.call().proposal.terms, ())
    pen.refuses(NotPending, cm.Withdraw(CALL, MIA))
    audited(pen)


def test_each_step_has_a_clock_of_its_own() -> None:
    first = Approval(role="manager", expires="1h", on_expiry="ask_again", max_asks=2)
    last = Approval(role="finance", expires="2h", on_expiry="escalate", escalate_to=("role:chief",))
    pen = chain(first, last)
    pen(cm.Tick(), at=HOUR + 1)
    assert pen.state() == "asked"
    pen.decide("approve", by=MIA)
    assert pen.call().expires_at == 3 * HOUR + 1
    pen(cm.Tick(), at=3 * HOUR + 2)
    escalated = pen.call()
    assert (escalated.terms and escalated.terms.role, len(escalated.met)) == ("chief", 1), "what was approved stays"
    pen(cm.Withdraw(CALL, MIA))
    pen(cm.Tick(), at=4 * HOUR + 3)
    assert pen.state() == "asked", "a step that is due anew is asked as often as its terms say"
    pen(cm.Tick(), at=5 * HOUR + 4)
    assert pen.state() == "expired"
    audited(pen)


def test_nobody_edits_and_only_the_last_step_answers() -> None:
    pen = chain(MANAGER, Approval(role="finance"))
    edit = {"args": '{"n":2}'}
    pen.refuses(UserError, cm.Deliver([pen.decision("edit", by=MIA, **edit)]))
    pen.refuses(UserError, cm.Deliver([pen.decision("answer", by=MIA, output="x")]))
    pen.decide("approve", by=MIA)
    pen.refuses(UserError, cm.Deliver([pen.decision("edit", by=GUS, **edit)]))
    pen.decide("answer", by=GUS, output="x")
    assert pen.state() == "answered"
    audited(pen)


def test_no_standing_approval_comes_from_a_chain_or_covers_one() -> None:
    pen = chain(MANAGER, Approval(role="finance"))
    for who in (MIA, GUS):
        given = cm.Deliver([pen.decision("approve", by=who)], [grant(by=who)])
        assert "several approvers" in str(pen.refuses(NotAllowed, given))
        pen.decide("approve", by=who)
    never = chain()
    never(cm.Deliver([never.decision("reject", by=MIA)], [grant(by=MIA, verdict="reject")]))
    assert never.state() == "rejected"
    audited(never)


def test_in_an_emergency_one_person_overrides_the_whole_chain() -> None:
    glass: dict[str, Any] = {"break_glass": "chief"}
    pen = chain(Approval(role="manager", **glass), Approval(role="finance", signed=True, **glass))
    chief = person("cyd", "chief", strength="signed")
    pen.refuses(NotAllowed, cm.Deliver([pen.decision("approve", by=chief, broke_glass=True, note="fire")]))
    pen.decide("approve", by=chief, broke_glass=True, note="fire", proof=Proof("ssh", "k", b"x"))
    assert (pen.state(), [review.why for review in pen.run.reviews.values()]) == ("approved", ["glass"])
    audited(pen)


def test_an_emergency_overrides_a_chain_on_the_terms_of_all_its_steps() -> None:
    glass: dict[str, Any] = {"break_glass": "chief"}
    pen = chain(Approval(role="manager", not_requester=True, min_look="1s", **glass), Approval(role="finance", **glass))
    pen(cm.RecordLook(CALL, call_digest(pen.run, pen.call()), MIA))
    pen.now += 1_000
    pen.decide("approve", by=MIA)
    for name in ("eve", "cyd"):  # the requester, and one who has not looked at it
        alone = pen.decision("approve", by=person(name, "chief"), broke_glass=True, note="fire")
        pen.refuses(NotAllowed, cm.Deliver([alone]))
    assert request_of(pen.run, pen.call()).behind_glass == pen.call().proposal.terms.behind_glass()
    audited(pen)


def test_a_chain_in_doubt_is_retried_on_the_word_of_every_step() -> None:
    pen = chain(MANAGER, Approval(role="finance"))
    for who in (MIA, GUS):
        pen.decide("approve", by=who)
    pen.begin()
    pen(cm.LoseCall(CALL, "gone"))
    pen.refuses(NotAllowed, cm.Deliver([pen.decision("retry", by=GUS)]))
    pen.decide("retry", by=MIA)
    pen.decide("retry", by=GUS)
    assert pen.state() == "approved"
    audited(pen)


def test_what_was_let_run_and_is_asked_anew_begins_at_the_first_step() -> None:
    def approved() -> Pen:
        pen = chain(MANAGER, Approval(role="finance", execute_by="1h"))
        pen.decide("approve", by=MIA)
        pen.decide("approve", by=GUS)
        return pen

    withdrawn, stale, stricter = approved(), approved(), approved()
    withdrawn(cm.Withdraw(CALL, MIA))
    stale(cm.Tick(), at=HOUR + 1)
    stricter(cm.Screen(CALL, Verdict("ask", terms=Approval(role="chief")), on_decision=True))
    for pen in (withdrawn, stale):
        assert (pen.state(), pen.call().met, pen.call().terms) == ("asked", (), pen.call().proposal.terms)
        audited(pen)
    assert (stricter.state(), stricter.call().terms) == ("asked", Approval(role="chief"))


def test_an_approval_of_a_chain_is_valid_for_as_long_as_its_last_step_says() -> None:
    """However it came to it: in an emergency, and where its tool finds that a lost start did not run."""
    glass: dict[str, Any] = {"break_glass": "chief"}
    steps = Approval(role="manager", **glass), Approval(role="finance", execute_by="1h", **glass)

    def alone(pen: Pen) -> None:
        pen.decide("approve", by=person("cyd", "chief"), broke_glass=True, note="fire")

    def probed(pen: Pen) -> None:
        for who in (MIA, GUS):
            pen.decide("approve", by=who)
        pen.begin()
        pen(cm.LoseCall(CALL, "gone"))
        pen.decide("retry", via="probe")

    for how in (alone, probed):
        made = tool("c0", "ask", terms=Approval(steps=steps), recover="probe")
        in_time, late = asked(made, requester="eve"), asked(made, requester="eve")
        for pen in (in_time, late):
            how(pen)
            pen(*pen.screened())
        [start] = in_time.begin()
        late.now += HOUR + 1
        late.refuses(Conflict, cm.StartCall(CALL, late.call().proposal.tool))
        late(cm.Tick())
        assert (in_time.state(), late.state()) == ("started", "asked")
        audited(in_time)
        audited(late)
        assert "gone stale" in objected([*late.log.steps[:-1], ev.Step(late.now, [start])])


@each(
    ("terms", "met"),
    [
        (MANAGER, True),
        (Approval(role="finance"), True),
        (FINANCE, True),
        (Approval(role="manager", quorum=2), False),
        (Approval(role="chief"), False),
        (Approval(steps=[MANAGER, Approval(users=("gus", "hana"))]), True),
        (Approval(steps=[FINANCE, MANAGER]), False),
        (Approval(steps=[MANAGER, FINANCE, Approval(role="chief")]), False),
        (Approval(steps=[MANAGER, Approval(role="manager")]), False),
    ],
)
def test_other_terms_are_met_by_the_steps_that_meet_them_in_order(terms: Approval, met: bool) -> None:
    pen = chain()
    for who in (MIA, GUS, HANA):
        pen.decide("approve", by=who)
    pen(cm.Screen(CALL, Verdict("ask", terms=terms), on_decision=True))
    assert pen.state() == ("approved" if met else "asked")


def test_a_chain_and_other_terms_are_met_together() -> None:
    both = Approval(steps=[MANAGER, Approval(role="finance", execute_by="2h")])
    roles = {
        Approval(expires="1h"): [("manager", 1, "1h"), ("finance", 1, "1h")],
        Approval(role="finance", quorum=2): [("manager", 1, None), ("finance", 2, None)],
        Approval(role="security"): [("manager", 1, None), ("finance", 1, None), ("security", 1, None)],
        both: [("manager", 1, None), ("finance", 1, None)],
    }
    for other, expected in roles.items():
        for made in (combined(both, other), combined(other, both)):
            assert made is not None
            assert [(step.role, step.quorum, step.expires) for step in made.in_turn] == expected
            assert [step.execute_by for step in made.in_turn][-1] == "2h"
    assert combined(both, Approval(confirm=True, role="ops")) is None


@each(
    ("terms", "remedy"),
    [
        ({"steps": []}, "two or more"),
        ({"steps": ()}, "two or more"),
        ({"steps": [MANAGER]}, "without it"),
        ({"steps": "ab"}, "two or more"),
        ({"steps": [MANAGER, "finance"]}, "two or more"),
        ({"steps": [MANAGER, FINANCE], "role": "ops"}, r"steps=\[Approval\(role=\.\.\.\)"),
        ({"steps": [MANAGER, FINANCE], "execute_by": "1h"}, "goes into the step"),
        ({"steps": [Approval(steps=[MANAGER, FINANCE]), MANAGER]}, "one list"),
        ({"steps": [MANAGER, Approval(expires="4h")]}, "names its approvers"),
        ({"steps": [Approval(confirm=True, role="ops"), MANAGER]}, "a step by itself"),
        ({"steps": [Approval(role="ops", execute_by="1h"), MANAGER]}, "in the last step"),
        ({"steps": [Approval(role="ops", break_glass="chief"), MANAGER]}, "each of its steps"),
        ({"steps": [Approval(users=["ann"]), MANAGER, Approval(users=["ann"])]}, "one step"),
        ({"steps": [Approval(users=["ann", "bob"], quorum=2), Approval(users=["bob", "cyd"], quorum=2)]}, "one step"),
        ({"steps": [MANAGER] * 51}, "at most 50 steps"),
    ],
)
def test_a_chain_that_says_too_little_or_two_things_is_refused(terms: Any, remedy: str) -> None:
    with pytest.raises(UserError, match=remedy):
        Approval(**terms)


def test_a_chain_names_as_many_people_as_its_steps_require() -> None:
    one, two = Approval(users=["ann"]), Approval(users=["ann", "bob"])
    assert len(Approval(steps=[two, one]).in_turn) == 2
    late = Approval(users=["ann"], expires="1h", on_expiry="escalate", escalate_to=["bob"])
    assert len(Approval(steps=[one, late]).in_turn) == 2, "others may decide it then"
    many = Approval(users=[f"user {number}" for number in range(3_000)], quorum=1_500)
    assert len(Approval(steps=[many, many]).in_turn) == 2, "and not so many that it would take minutes to tell"
    again = Approval(steps=[one, Approval(role="ops")])
    assert combined(again, Approval(steps=[Approval(role="ops"), one])) is None


def test_the_auditor_finds_a_step_that_was_left_out() -> None:
    def forged(change: Any) -> str:
        pen = chain(MANAGER, Approval(role="finance"))
        pen.decide("approve", by=BOTH)
        pen.decide("approve", by=GUS)
        lines = list(pen.log.steps)
        change(lines)
        return objected(lines)

    def by(line: ev.Step, who: Any) -> ev.Step:
        made: Any = line.events[0]
        return replace(line, events=[replace(made, decision=replace(made.decision, decider=who)), *line.events[1:]])

    def early(lines: list[ev.Step]) -> None:
        vote: Any = lines[2].events[0]
        lines[2:] = [replace(lines[2], events=[ev.CallDecided(replace(vote.decision, confirms=False))])]

    def unopened(lines: list[ev.Step]) -> None:
        lines[2:] = [replace(lines[2], events=lines[2].events[:1])]

    def others(lines: list[ev.Step]) -> None:
        again: Any = lines[2].events[1]
        lines[2:] = [replace(lines[2], events=[lines[2].events[0], replace(again, terms=Approval(role="ops"))])]

    assert "a step of its chain was not met" in forged(early)
    assert "was not asked for" in forged(unopened) or "no other was asked for" in forged(unopened)
    assert "was not asked for" in forged(others)
    assert "of an earlier step" in forged(lambda lines: lines.__setitem__(3, by(lines[3], BOTH)))
    assert "do not name" in forged(lambda lines: lines.__setitem__(3, by(lines[3], person("kim", "ops"))))
    assert not forged(lambda lines: None)


def test_a_store_that_is_restored_and_a_fork_begin_at_the_first_step() -> None:
    pen = chain()
    pen.decide("approve", by=MIA)
    pen(cm.RecordRestore("it was restored"))
    assert (pen.call().met, pen.call().terms) == ((), pen.call().proposal.terms)
    with pytest.raises(KeyturnError):
        pen.decide("approve", by=GUS)
    audited(pen)
