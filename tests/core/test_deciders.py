"""Every law of a decision, in every state in which a call waits: who may say which word, and how many it takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import pytest

from keyturn.core import commands as cm
from keyturn.core import events as ev
from keyturn.core.approval import Approval
from keyturn.core.codec import Log
from keyturn.core.errors import Conflict, Expired, NotAllowed, NotPending, UserError
from keyturn.core.gate.opening import OPENING
from keyturn.core.people import Decider, Proof, barred, decider, plain_text
from keyturn.core.policy import Verdict
from keyturn.core.records import Word
from keyturn.core.states import MOVES, WAITING
from tests.core.samples import Pen, asked, person, tool

CALL, HOUR = "r/1.0", 3_600_000
KEY = Proof("ssh", "SHA256:5e1f", b"signed")
WORDS: dict[str, dict[str, Any]] = {"edit": {"args": '{"n":2}'}, "answer": {"output": 41}}
EVERYWHERE = [(state, word) for state in WAITING for word in OPENING[state]]


def waiting(state: str, terms: Approval | None = None, requester: str | None = None, **facts: Any) -> Pen:
    """A call that waits in this state on these terms, beside one that keeps its turn open."""
    beside = tool("c1", "ask", tool="t2")
    pen = asked(tool("c0", "", **facts), beside, requester=requester)
    if state == "asked":
        pen(cm.Screen(CALL, Verdict("ask", terms=terms)))
        return pen
    pen(cm.Screen(CALL, Verdict("allow", terms=terms)))
    pen.begin()
    pen(cm.LoseCall(CALL, "the power failed") if state == "in_doubt" else cm.NeedInput(CALL, {"question": "which?"}))
    return pen


def say(pen: Pen, word: str, **more: Any) -> cm.Deliver:
    return cm.Deliver([pen.decision(word, **WORDS.get(word, {}), **more)])


def refused(pen: Pen, error: Any, word: str, **more: Any) -> str:
    """Say a word that is refused with this error; nothing moved."""
    state = pen.state()
    text = str(pen.refuses(error, say(pen, word, **more)))
    assert pen.state() == state
    return text


def test_every_word_is_said_somewhere_and_moves_what_waits() -> None:
    assert {word for _state, word in EVERYWHERE} | {"expire", "withdraw"} == set(get_args(Word))
    for state, word in EVERYWHERE:
        pen = waiting(state)
        pen(say(pen, word))
        assert pen.state() == MOVES[state, word]


def test_no_other_word_is_taken() -> None:
    for state in WAITING:
        for word in {*get_args(Word), "", "allow", "start"} - {*OPENING[state]}:
            pen = waiting(state)
            refused(pen, NotPending, word)


# --------------------------------------------------------------------------------------------------------- who it is

ANN = person("ann", "ops")
BOB = person("bob")
NAME = person("ann", "ops", strength="claimed")
SIGNER = person("ann", "ops", strength="signed")
SELF = person("ann", "ops", requester=True)

Law = tuple[dict[str, Any], Decider | None, dict[str, Any], bool]
LAWS: list[Law] = [
    ({}, None, {}, True),
    ({}, NAME, {}, True),
    ({}, SELF, {}, True),
    ({"role": "ops"}, ANN, {}, True),
    ({"role": "ops"}, SIGNER, {}, True),
    ({"role": "ops"}, BOB, {}, False),
    ({"role": "ops"}, NAME, {}, False),
    ({"role": "ops"}, None, {}, False),
    ({"role": "Ops"}, ANN, {}, False),
    ({"role": "op"}, ANN, {}, False),
    ({"users": ("ann",)}, ANN, {}, True),
    ({"users": ("ann",)}, BOB, {}, False),
    ({"users": ("ann",)}, NAME, {}, False),
    ({"users": ("ops",)}, ANN, {}, False),
    ({"users": ("bob",), "role": "ops"}, ANN, {}, True),
    ({"users": ("bob",), "role": "ops"}, BOB, {}, True),
    ({"users": ("bob",), "role": "ops"}, person("cyd"), {}, False),
    ({"not_requester": True}, ANN, {}, False),
    ({"not_requester": True}, ANN, {"requester": "eve"}, True),
    ({"not_requester": True}, ANN, {"requester": "ann"}, False),
    ({"not_requester": True}, SELF, {}, False),
    ({"not_requester": True}, SELF, {"requester": "eve"}, False),
    ({"not_requester": True}, NAME, {"requester": "eve"}, False),
    ({"not_requester": True}, None, {"requester": "eve"}, False),
    ({"role": "ops", "not_requester": True}, ANN, {"requester": "ann"}, False),
    ({"signed": True}, SIGNER, {"proof": KEY}, True),
    ({"signed": True}, SIGNER, {}, False),
    ({"signed": True}, ANN, {"proof": KEY}, False),
    ({"signed": True}, NAME, {"proof": KEY}, False),
    ({"signed": True}, None, {"proof": KEY}, False),
    ({"step_up": True}, SIGNER, {"proof": KEY}, True),
    ({"step_up": True}, SIGNER, {}, False),
    ({"step_up": True}, ANN, {"proof": KEY}, False),
    ({"signed": True, "users": ("bob",)}, SIGNER, {"proof": KEY}, False),
    ({"quorum": 2}, NAME, {}, False),
    ({"quorum": 2}, None, {}, False),
    ({"deny_quorum": 2}, NAME, {}, False),
]


def test_who_may_say_a_word_is_judged_in_every_state_in_which_a_call_waits() -> None:
    """Redesign 1b: the gate knows who decides, whatever door they came through."""
    for terms, who, more, may in LAWS:
        for state, word in EVERYWHERE:
            pen = waiting(state, Approval(**terms), more.get("requester"))
            words = {"by": who, "proof": more.get("proof")}
            if may:
                pen(say(pen, word, **words))
                assert pen.state() == MOVES[state, word], (terms, who, state, word)
                assert pen.run.decided[CALL].decider == who
            else:
                assert "cannot be decided by" in refused(pen, NotAllowed, word, **words), (terms, who, state, word)


def test_who_is_refused_is_not_a_voice_and_leaves_the_call_to_others() -> None:
    for state, word in EVERYWHERE:
        pen = waiting(state, Approval(role="ops"))
        refused(pen, NotAllowed, word, by=BOB)
        assert pen.call().votes == {}
        pen(say(pen, word, by=ANN))
        assert pen.state() == MOVES[state, word]


def test_a_decider_is_recorded_as_they_were() -> None:
    pen = waiting("asked", Approval(role="ops"))
    pen(say(pen, "approve", by=ANN, proof=KEY))
    made = pen.copy().run.decided[CALL]
    assert (made.decider, made.proof, made.by, made.via) == (ANN, KEY, "ann", "person")


def test_nobody_decides_in_the_name_of_what_is_no_person() -> None:
    for via in ("grant", "clock", "probe"):
        for state, word in EVERYWHERE:
            for terms in (None, Approval(role="ops"), Approval(quorum=2)):
                for who in (None, ANN, SIGNER):
                    pen = waiting(state, terms)
                    refused(pen, NotAllowed, word, via=via, by=who, grant="g" if via == "grant" else None)


def test_a_probe_speaks_for_the_doubt_of_its_own_tool_and_for_nothing_else() -> None:
    for state, word in EVERYWHERE:
        pen = waiting(state, Approval(role="ops", quorum=2), recover="probe")
        if state == "in_doubt":
            pen(say(pen, word, via="probe"))
            assert pen.state() == MOVES[state, word]
        else:
            refused(pen, NotAllowed, word, via="probe")


def test_what_on_approval_says_is_said_by_nobody_who_is_known() -> None:
    for state, word in EVERYWHERE:
        pen = waiting(state)
        pen(say(pen, word, via="on_approval"))
        assert (pen.state(), pen.run.decided[CALL].by) == (MOVES[state, word], "on_approval")
        for terms in (Approval(role="ops"), Approval(not_requester=True), Approval(quorum=2), Approval(signed=True)):
            refused(waiting(state, terms, "eve"), NotAllowed, word, via="on_approval")


# ----------------------------------------------------------------------------------------------------------- how many

TAKES = {
    ("asked", "reject"): 3,
    ("in_doubt", "ran"): 1,
    ("in_doubt", "did_not_run"): 1,
    ("needs", "answer"): 1,
    ("needs", "reject"): 1,
}


def crowd() -> Iterator[Decider]:
    return (person(f"p{number}") for number in range(9))


def test_a_word_takes_as_many_people_as_the_terms_say() -> None:
    for state, word in EVERYWHERE:
        pen = waiting(state, Approval(quorum=2, deny_quorum=3))
        people = [who for who, _ in zip(crowd(), range(TAKES.get((state, word), 2)), strict=False)]
        for who in people[:-1]:
            pen(say(pen, word, by=who))
            pen(say(pen, word, by=who))
            pen(say(pen, word, by=person(who.id, "ops", strength="signed")))
            assert pen.state() == state, (state, word)
        pen(say(pen, word, by=people[-1]))
        assert pen.state() == MOVES[state, word], (state, word)


def test_each_of_several_people_must_be_one_who_may_decide() -> None:
    for state, word in EVERYWHERE:
        pen = waiting(state, Approval(quorum=2, deny_quorum=2, role="ops", not_requester=True), "p0")
        refused(pen, NotAllowed, word, by=person("p0", "ops"))
        refused(pen, NotAllowed, word, by=person("p1"))
        pen(say(pen, word, by=person("p2", "ops")))
        if pen.state() == state:
            refused(pen, NotAllowed, word, by=person("p0", "ops"))
            pen(say(pen, word, by=person("p3", "ops")))
        assert pen.state() == MOVES[state, word]


def test_two_words_of_one_delivery_are_two_words() -> None:
    """Two people whose votes come together are both counted, or the delivery is refused: no word is lost unseen."""
    pen = waiting("asked", Approval(quorum=2))
    made = [pen.decision("approve", by=name) for name in ("ann", "bob")]
    pen(cm.Deliver(made))
    assert pen.state() == "approved"
    pen = waiting("asked", Approval(quorum=3))
    pen(cm.Deliver(made))
    assert sorted(pen.call().votes) == ["ann", "bob"]


def test_of_two_who_say_the_same_at_once_the_first_counts_where_one_is_enough() -> None:
    for state, word in EVERYWHERE:
        pen = waiting(state)
        made = [pen.decision(word, by=name, **WORDS.get(word, {})) for name in ("ann", "bob")]
        pen(cm.Deliver(made))
        assert (pen.state(), pen.run.decided[CALL].by) == (MOVES[state, word], "ann")


def test_two_who_edited_for_two_worlds_are_not_two_who_say_the_same() -> None:
    """M3: an edit is bound to what its editor looked at, and so is a vote for it."""
    pen = waiting("asked", Approval(quorum=2))
    pen(say(pen, "edit", by="ann", basis={"b.txt": "old"}))
    pen(say(pen, "edit", by="bob", basis={"b.txt": "new"}))
    assert pen.state() == "asked"
    pen(say(pen, "edit", by="ann", basis={"b.txt": "new"}))
    assert (pen.state(), pen.run.decided[CALL].basis) == ("edited", {"b.txt": "new"})


# ------------------------------------------------------------------------------------------------------ what it says


def test_a_reason_is_asked_for_where_permission_is_and_not_where_facts_are() -> None:
    for reason, state, word in [(reason, *place) for reason in ("required", "on_reject") for place in EVERYWHERE]:
        wanted = state == "asked" and (reason == "required" or word == "reject")
        for words in ({}, {"note": ""}, {"message": ""}):
            pen = waiting(state, Approval(reason=reason))
            if wanted:
                assert "reason" in refused(pen, UserError, word, **words)
            else:
                pen(say(pen, word, **words))
        for words in ({"note": "so"}, {"message": "so"}):
            pen = waiting(state, Approval(reason=reason))
            pen(say(pen, word, **words))
            assert pen.state() == MOVES[state, word]


def test_what_cannot_be_kept_is_not_said() -> None:
    """L1: half a character or a NUL is refused by a typed error, in every field that is words."""
    for state, word in EVERYWHERE:
        for wrong in ("\ud800", "a\x00", 5):
            for words in ({"note": wrong}, {"message": wrong}):
                refused(waiting(state), UserError, word, **words)
            with pytest.raises(UserError):
                Decider(wrong)  # pyright: ignore[reportArgumentType]  # as a caller without types may pass it


def test_time_is_up_when_a_word_is_delivered_and_not_when_it_was_said() -> None:
    for state, word in EVERYWHERE:
        for said in (0, HOUR, 9 * HOUR):
            pen = waiting(state, Approval(expires="1h"))
            made = say(pen, word, at=said)
            if state == "asked":
                pen.refuses(Expired, made, at=HOUR + 1)
                pen(made, at=HOUR)
            else:
                pen(made, at=5 * HOUR)
            at = min(said or pen.run.now, pen.run.now)  # never of the future
            assert (pen.state(), pen.run.decided[CALL].at) == (MOVES[state, word], at)


def test_what_is_decided_goes_stale_from_when_it_was_said() -> None:
    """A decision that lay about before it was delivered does not let a call run later than one that did not."""
    for said, last in ((0, 3 * HOUR), (HOUR, 2 * HOUR), (9 * HOUR, 3 * HOUR)):
        pen = waiting("asked", Approval(execute_by="1h"))
        pen(say(pen, "approve", at=said), at=2 * HOUR)
        pen(*pen.screened())
        late = pen.copy()
        late.refuses(Conflict, cm.StartCall(CALL, late.call().proposal.tool), at=last + 1)
        assert pen(cm.StartCall(CALL, pen.call().proposal.tool), at=last)


def test_a_call_whose_arguments_are_fixed_is_edited_by_nobody() -> None:
    for terms in (None, Approval(role="ops")):
        pen = waiting("asked", terms, fixed=True)
        refused(pen, UserError, "edit", by=SIGNER)
        pen(say(pen, "approve", by=ANN))
        assert pen.state() == "approved"


def test_a_call_that_runs_elsewhere_is_answered_by_nobody_and_its_question_by_anybody() -> None:
    """Redesign 1c: nobody can answer in the place of what runs at a provider, by whatever door."""
    refused(waiting("asked", elsewhere=True), UserError, "answer", by=SIGNER)
    pen = waiting("needs", elsewhere=True)
    pen(say(pen, "answer"))
    assert pen.state() == "supplied"


# ------------------------------------------------------------------------------------------------ what it is bound to


def test_an_edit_that_was_changed_in_its_log_does_not_run() -> None:
    """H3: the digest of the edited call is in the decision, and a start compares."""
    for before, after in (('{\\"n\\":2}', '{\\"n\\":9}'), ("seen", "SEEN")):
        for again in (False, True):
            pen = waiting("asked")
            pen(say(pen, "edit", basis={"b.txt": "seen"}))
            pen(*pen.screened())
            if again:  # the same holds for what a doubt and a question carry on
                pen.begin()
                pen(cm.LoseCall(CALL, "lost"))
                pen.decide("retry")
                pen(*pen.screened())
            start = cm.StartCall(CALL, "t1")
            forged = Pen(Log.read([line.replace(before.encode(), after.encode()) for line in pen.log.lines()]))
            forged.refuses(Conflict, start)
            assert pen(start) == [ev.CallStarted(CALL)]


def test_an_approval_that_was_changed_in_its_log_does_not_run() -> None:
    pen = waiting("asked")
    pen.decide("approve")
    pen(*pen.screened())
    for before, after in ((b'\\"n\\":1', b'\\"n\\":9'), (b'"tool":"t1"', b'"tool":"t7"')):
        forged = Pen(Log.read([line.replace(before, after) for line in pen.log.lines()]))
        forged.refuses(Conflict, cm.StartCall(CALL, forged.call().proposal.tool))


def test_what_the_sender_says_of_itself_is_not_believed() -> None:
    """The digest of what an edit runs and the time of a decision are the gate's own."""
    pen = waiting("asked")
    pen(cm.Deliver([pen.decision("edit", args='{"n":2}', runs="0" * 64, at=10**15)]), at=7)
    made = pen.run.decided[CALL]
    assert made.runs not in (None, "0" * 64)
    assert made.at == 7
    assert pen.begin()


# ------------------------------------------------------------------------------------------------------- the people


def test_a_decider_is_somebody() -> None:
    wrong: list[dict[str, Any]] = [
        {"id": ""},
        {"id": None},
        {"id": "a\x00"},
        {"id": "ann", "roles": "ops"},
        {"id": "ann", "roles": [1]},
        {"id": "ann", "roles": {"ops"}},
        {"id": "ann", "strength": "certain"},
        {"id": "ann", "requester": "no"},
    ]
    for given in wrong:
        with pytest.raises(UserError):
            Decider(**given)
    assert Decider("ann", ["ops"]).roles == ("ops",)  # pyright: ignore[reportArgumentType]  # lists pass


def test_a_name_alone_is_a_claim() -> None:
    assert (decider("ann"), decider(None), decider(ANN)) == (Decider("ann"), None, ANN)
    for wrong in (5, "", "\ud800", b"ann"):
        with pytest.raises(UserError):
            decider(wrong)  # pyright: ignore[reportArgumentType]  # as a caller without types may pass it
    with pytest.raises(UserError):
        plain_text(None, "by")


def test_terms_that_limit_nobody_bar_nobody() -> None:
    assert barred(None, None, None) == ""
    for terms in (Approval(), Approval(expires="1h", reason="required", execute_by="1h")):
        assert barred(terms, None, None) == ""
