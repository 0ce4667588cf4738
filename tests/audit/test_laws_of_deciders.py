"""Who decided, and through what: the checker agrees with the gate on every decider, and a forged one is found."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from keyturn.core import commands as cm
from keyturn.core import events as ev
from keyturn.core.approval import Approval
from keyturn.core.errors import Conflict, KeyturnError
from keyturn.core.people import Decider, Proof
from keyturn.core.policy import Verdict
from tests.audit.forging import (
    CALL,
    Steps,
    Table,
    after,
    asking,
    broken,
    check_found,
    decided,
    decision,
    granted,
    lost,
    of,
    on,
    started,
    voted,
)
from tests.core.samples import ASK, Pen, asked, grant, person, reply, tool
from tests.effort import some

NEXT = "r/2.0"
PROOF = Proof("ssh", "SHA256:5e1f", b"signed")
CLAIMED = Decider("ada")
SIGNED = person("ada", strength="signed")

# What the tables are made of ------------------------------------------------------------------------------------------


def by_ada() -> Pen:
    return started(on(users=("ada",)))


def by_two() -> Pen:
    pen = half("approve")
    pen.decide("approve", by="bob")
    pen.begin()
    return pen


def half(verdict: str, **more: Any) -> Pen:
    """A run whose call takes two people, and one of them has decided."""
    pen = on(quorum=2, deny_quorum=2)
    pen.decide(verdict, by="ada", **more)
    return pen


def probed() -> Pen:
    return started(asked(tool("c0", "ask", recover="probe")))


def edit_of_another_file(pen: Pen) -> ev.CallDecided:
    return decided(pen, "edit", args="{}", basis={"a": "2"}, by="bob")


def covered(*calls: str, terms: Approval | None = None) -> list[ev.AnyEvent]:
    """The events by which a grant lets calls run."""
    return [
        event
        for call in calls
        for event in (ev.CallScreened(call, "allow", by="grant:g", terms=terms), ev.GrantUsed("g", call))
    ]


def by_grant(*calls: Any, at: int = 0, terms: Approval | None = None, **given: Any) -> Steps:
    """A run that lets its calls run by a grant, whatever the grant says."""
    made = calls or (tool("c1", ""),)
    pen = granted(*made, at=at, **given)
    return after(pen, *covered(*(f"r/2.{place}" for place in range(len(made))), terms=terms))


def through(pen: Pen, verdict: str = "approve", call: str = CALL, **more: Any) -> list[ev.AnyEvent]:
    """A decision through a grant, and its count."""
    made = decided(pen, verdict, by=None, via="grant", grant="g", call=call, **more)
    return [made, ev.GrantUsed("g", call)]


def taken_back() -> Steps:
    pen = granted(tool("c1", ""))
    pen(cm.Revoke("g"))
    return after(pen, *covered(NEXT))


def voided(pen: Pen) -> Pen:
    """The same run, where the call that the grant let run is to be asked about again."""
    pen(cm.VoidCall(NEXT, pen.call(NEXT).proposal, "changed"))
    return pen


def asks_inside(pen: Pen) -> Pen:
    """A run whose last call asks for an approval, is approved by its grant, and asks all the same."""
    for _ in range(2):
        pen.begin(NEXT)
        pen(cm.NeedInput(NEXT, {"q": 1}, wants="approval"))
    return pen


def given_with(**terms: Any) -> Steps:
    """A standing decision beside ada's approval of a call."""
    pen = asked()
    return after(pen, decided(pen), ev.GrantGiven(grant(**terms)))


def rejected(*calls: Any) -> Pen:
    return granted(*calls, verdict="reject")


def unseen() -> Steps:
    pen = rejected()
    last = pen.log.steps[-1]
    raw, made = tool("c1", "allow")
    return [*pen.log.steps[:-1], ev.Step(last.at, [ev.ReplyRecorded("r", [raw], [made])])]


WHO: Table = {
    "a stranger": ("I1", lambda: after(pen := on(users=("bob",)), decided(pen))),
    "another role": ("I1", lambda: after(pen := on(role="ops"), decided(pen, by=person("ada", "finance")))),
    "nobody where the role is named": ("I1", lambda: after(pen := on(role="ops"), decided(pen, by=None))),
    "a claimed name": ("I1", lambda: after(pen := on(users=("ada",)), decided(pen, by=CLAIMED))),
    "a claimed role": ("I1", lambda: after(pen := on(role="ops"), decided(pen, by=Decider("ada", ("ops",))))),
    "the requester": ("I1", lambda: after(pen := of("ada", not_requester=True), decided(pen))),
    "the requester by another id": (
        "I1",
        lambda: after(pen := of("eve", not_requester=True), decided(pen, by=person("ada", requester=True))),
    ),
    "an unknown requester": ("I1", lambda: after(pen := of(None, not_requester=True), decided(pen))),
    "not signed": ("I1", lambda: after(pen := on(signed=True), decided(pen, proof=PROOF))),
    "signed and no proof": ("I1", lambda: after(pen := on(signed=True), decided(pen, by=SIGNED))),
    "not stepped up": ("I1", lambda: after(pen := on(step_up=True), decided(pen))),
    "a stranger rejects": ("I1", lambda: after(pen := on(users=("bob",)), decided(pen, "reject"))),
    "a stranger answers": ("I1", lambda: after(pen := on(users=("bob",)), decided(pen, "answer"))),
    "a stranger edits": ("I1", lambda: after(pen := on(users=("bob",)), decided(pen, "edit", args="{}"))),
    "a stranger votes": ("I1", lambda: after(pen := on(users=("bob", "cyd"), quorum=2), voted(pen))),
    "a stranger retries": ("I1", lambda: after(pen := lost(by_ada()), decided(pen, "retry", by="eve"))),
    "a stranger says that it ran": ("I1", lambda: after(pen := lost(by_ada()), decided(pen, "ran", by="eve"))),
    "a stranger answers its tool": ("I1", lambda: after(pen := asking(by_ada()), decided(pen, "answer", by="eve"))),
    "without its reason": ("I1", lambda: after(pen := on(reason="required"), decided(pen))),
    "rejected without its reason": ("I1", lambda: after(pen := on(reason="on_reject"), decided(pen, "reject"))),
}

HOW_MANY: Table = {
    "one of two approves": ("I1", lambda: after(pen := on(quorum=2), decided(pen))),
    "one of two rejects": ("I1", lambda: after(pen := on(deny_quorum=2), decided(pen, "reject"))),
    "one of two answers": ("I1", lambda: after(pen := on(quorum=2), decided(pen, "answer", output=1))),
    "one of two retries": ("I1", lambda: after(pen := lost(by_two()), decided(pen, "retry"))),
    "one twice": ("I1", lambda: after(pen := half("approve"), decided(pen))),
    "two who say different things": ("I1", lambda: after(pen := half("reject"), decided(pen, by="bob"))),
    "two who edit differently": (
        "I1",
        lambda: after(pen := half("edit", args='{"n":2}'), decided(pen, "edit", args='{"n":3}', by="bob")),
    ),
    "two who looked at different files": (
        "I1",
        lambda: after(pen := half("edit", args="{}", basis={"a": "1"}), edit_of_another_file(pen)),
    ),
    "two who answer differently": (
        "I1",
        lambda: after(pen := half("answer", output=1), decided(pen, "answer", output=True, by="bob")),
    ),
    "enough and still waiting": ("I6", lambda: after(pen := half("approve"), voted(pen, by="bob"))),
    "one word too many": ("I6", lambda: after(pen := asked(), voted(pen))),
    "a vote on a question": ("I3", lambda: after(pen := asking(), voted(pen, "answer"))),
    "a vote of no person": ("I3", lambda: after(pen := on(quorum=2), voted(pen, by=None, via="probe"))),
}

THROUGH: Table = {
    "a person lets it expire": ("I1", lambda: after(pen := on(expires="50ms"), decided(pen, "expire", at=60), at=60)),
    "a person lets it expire that never does": ("I1", lambda: after(pen := asked(), decided(pen, "expire"))),
    "the clock approves": ("I1", lambda: after(pen := asked(), decided(pen, by=None, via="clock"))),
    "the clock, in a person's name": ("I1", lambda: after(pen := asked(), decided(pen, via="clock"))),
    "a probe where nothing is in doubt": ("I1", lambda: after(pen := asked(), decided(pen, by=None, via="probe"))),
    "a probe of a tool without one": ("I1", lambda: after(pen := lost(), decided(pen, "ran", by=None, via="probe"))),
    "a probe in a person's name": ("I1", lambda: after(pen := lost(probed()), decided(pen, "ran", via="probe"))),
    "a tool's own answer where people are named": (
        "I1",
        lambda: after(pen := on(users=("ada",)), decided(pen, by=None, via="on_approval")),
    ),
    "a tool's own answer in a person's name": ("I1", lambda: after(pen := asked(), decided(pen, via="on_approval"))),
    "a tool's own answer in doubt": (
        "I1",
        lambda: after(pen := lost(by_ada()), decided(pen, "ran", by=None, via="on_approval")),
    ),
    "nothing known": ("I7", lambda: after(pen := asked(), decided(pen, by=None, via="magic"))),
    "a person names a grant": ("I1", lambda: after(pen := asked(), decided(pen, grant="g"))),
    "a grant in doubt": ("I1", lambda: after(pen := lost(), *through(pen, "retry"))),
    "a grant that edits": ("I1", lambda: after(pen := asked(), *through(pen, "edit", args="{}"))),
    "an older grant on what waits": ("I1", lambda: after(pen := granted(where={"n": 2}), *through(pen, call=NEXT))),
    "an older grant on what was approved and asks from inside": (
        "I1",
        lambda: after(pen := asks_inside(granted()), *through(pen, call=NEXT)),
    ),
    "an older grant on what was voided": ("I1", lambda: after(pen := voided(granted()), *through(pen, call=NEXT))),
}

GRANTS: Table = {
    "used too often": ("I1", lambda: by_grant(tool("c1", ""), tool("c2", ""), uses=1)),
    "used and not counted": ("I1", lambda: [*by_grant()[:-1], ev.Step(0, by_grant()[-1].events[:1])]),
    "counted and not used": ("I1", lambda: [*by_grant()[:-1], ev.Step(0, by_grant()[-1].events[1:])]),
    "over": ("I1", lambda: by_grant(expires_at=5, at=5)),
    "for other arguments": ("I1", lambda: by_grant(where={"n": 7})),
    "for another tool": ("I1", lambda: by_grant(tool("c1", "", tool="t2"))),
    "that rejects": ("I1", lambda: by_grant(verdict="reject")),
    "that was taken back": ("I1", taken_back),
    "that nobody gave": ("I1", lambda: after(asked(tool("c0", "")), *covered(CALL))),
    "on what takes several people": ("I1", lambda: by_grant(terms=Approval(quorum=2))),
    "on what its giver could not decide": ("I1", lambda: by_grant(terms=Approval(role="ops"))),
    "of a claimed name where people are named": ("I1", lambda: by_grant(by=CLAIMED, terms=Approval(users=("ada",)))),
    "where a signature is asked for": ("I1", lambda: by_grant(by=SIGNED, terms=Approval(signed=True))),
    "given twice": ("I3", lambda: after(granted(), ev.GrantGiven(grant()))),
    "given and neither way": ("I7", lambda: given_with(verdict="maybe")),
    "given with no decision": ("I1", lambda: after(asked(), ev.GrantGiven(grant()))),
    "given by another": ("I1", lambda: given_with(by="bob")),
    "given by a better known self": ("I1", lambda: given_with(by=person("ada", "ops"))),
    "given for another tool": ("I1", lambda: given_with(tool="t2")),
    "given for another agent": ("I1", lambda: given_with(agent="b")),
    "given in the other sense": ("I1", lambda: given_with(verdict="reject")),
    "given by one voice of two": (
        "I1",
        lambda: after(pen := on(quorum=2), voted(pen), ev.GrantGiven(grant())),
    ),
    "taken back and never given": ("I8", lambda: after(asked(), ev.GrantRevoked("g"))),
    "a rejection passed by": ("I1", lambda: after(rejected(tool("c1", "")), ev.CallScreened(NEXT, "allow"))),
    "a rejection passed by unseen": ("I7", unseen),
}


# The tables -----------------------------------------------------------------------------------------------------------


def test_somebody_who_may_not_decide_is_found() -> None:
    check_found(WHO)


def test_too_few_people_are_found() -> None:
    check_found(HOW_MANY)


def test_what_decides_and_is_no_person_is_held_to_its_place() -> None:
    check_found(THROUGH)


def test_a_grant_that_goes_beyond_what_its_giver_could_is_found() -> None:
    check_found(GRANTS)


def test_a_call_that_a_grant_let_run_keeps_its_terms() -> None:
    """A call in doubt is settled by those who could have approved it, also where a grant had approved it."""
    by_role = person("ada", "ops")
    pen = granted(tool("c1", ""), by=by_role)
    pen(cm.Screen(NEXT, Verdict("ask", terms=Approval(role="ops"))))
    pen.begin(NEXT)
    pen(cm.LoseCall(NEXT, "gone"))
    assert broken(pen.log.steps) is None
    with pytest.raises(KeyturnError, match="role 'ops'"):
        pen.decide("retry", NEXT, by="eve")
    pen.decide("retry", NEXT, by=by_role)
    assert broken(pen.log.steps) is None


# The gate and the checker ---------------------------------------------------------------------------------------------

names = st.sampled_from(["ada", "bob", "cyd"])
people = st.none() | st.builds(
    Decider,
    names,
    roles=st.sampled_from([(), ("ops",), ("finance",)]),
    strength=st.sampled_from(["claimed", "authenticated", "authenticated", "signed"]),
    requester=st.booleans(),
)
several = st.sampled_from([1, 1, 2])
terms_ = st.builds(
    Approval,
    role=st.sampled_from([None, None, "ops"]),
    users=st.sampled_from([(), (), ("ada", "bob")]),
    quorum=several,
    deny_quorum=several,
    not_requester=st.booleans(),
    signed=st.sampled_from([False, False, True]),
    reason=st.sampled_from(["optional", "required", "on_reject"]),
    expires=st.sampled_from([None, "50ms"]),
)
words = st.fixed_dictionaries(
    {
        # What nobody can deliver, "expire", has its own table.
        "verdict": st.sampled_from(["approve", "edit", "reject", "answer", "ran", "did_not_run", "retry"]),
        "decider": people,
        "via": st.sampled_from(["person", "person", "person", "on_approval", "probe", "clock", "grant"]),
        "note": st.sampled_from([None, "so"]),
        "output": st.sampled_from([None, 1]),
        "proof": st.sampled_from([None, PROOF]),
    }
)
PLACES = ["asked", "asked", "in_doubt", "needs"]


def waiting(place: str, requester: str | None, terms: Approval, facts: dict[str, Any]) -> Pen:
    """A run whose call waits in some way, on these terms."""
    pen = Pen()
    pen(cm.Start("run", "salt", "hi", {}, "a", [], 9, requester=requester))
    made = {"recover": "probe", "terms": terms} | facts
    pen(reply(tool("c0", "allow" if place != "asked" else "ask", **made)))
    if place != "asked":  # let run by a policy that stated terms
        pen = Pen()
        pen(cm.Start("run", "salt", "hi", {}, "a", [], 9, requester=requester))
        pen(reply(tool("c0", "", **made)), cm.Screen(CALL, Verdict("allow", terms=terms)))
        pen.begin()
        pen(cm.LoseCall(CALL, "gone") if place == "in_doubt" else cm.NeedInput(CALL, {"q": 1}))
    return pen


@settings(max_examples=some(300))
@given(
    place=st.sampled_from(PLACES),
    requester=st.sampled_from([None, "ada", "eve"]),
    terms=terms_,
    facts=st.fixed_dictionaries({"fixed": st.booleans(), "elsewhere": st.booleans()}),
    said=st.lists(st.tuples(words, st.sampled_from([0, 0, 60])), min_size=1, max_size=3),
)
def test_the_checker_takes_what_the_gate_takes_and_nothing_else(
    place: str, requester: str | None, terms: Approval, facts: dict[str, Any], said: list[Any]
) -> None:
    """Whatever the gate refuses is found where it is recorded all the same, and what it records is not."""
    pen = waiting(place, requester, terms, facts)
    for word, later in said:
        more = {"args": '{"n":2}'} if word["verdict"] == "edit" else {}
        made = decision(pen, **more, **word)
        pen.now += later
        forged = ev.CallDecided(replace(made, at=pen.now))
        try:
            events = pen(cm.Deliver([made]))
        except KeyturnError:
            assert broken(after(pen, forged)) is not None, "the gate refused it"
            continue
        assert broken(pen.log.steps) is None
        if any(isinstance(event, ev.VoteCast) for event in events):
            assert broken([*pen.log.steps[:-1], ev.Step(pen.now, [forged])]) is not None, "it was one voice of several"
            continue
        return


def test_who_only_repeats_a_decision_gives_no_grant_with_it() -> None:
    """The first decision stands, so the second person has decided nothing that a grant could come with."""
    pen = asked(tool("c0", "ask"), tool("c1", "ask"))
    pen.decide("approve", by="ada")
    theirs = cm.Deliver([pen.decision("approve", by="bob")], [grant(by="bob")])
    assert pen.refuses(Conflict, theirs).winner == "ada"
    pen(cm.Deliver([pen.decision("approve", by="ada")], [grant(by="ada")]))
    assert pen.state("r/1.1") == "approved"
    assert broken(pen.log.steps) is None


def test_screening_by_a_grant_is_taken() -> None:
    pen = granted(tool("c1", ""), tool("c2", "ask"), uses=2)
    pen(cm.Screen(NEXT, ASK))
    assert pen.run.grant_uses == {"g": 2}
    assert broken(pen.log.steps) is None
