"""The casts of what stands beside a decision: confirmations, rejections by several, reviews, breakers, queued runs."""

from __future__ import annotations

from keyturn.core.approval import Approval
from keyturn.core.policy import ALLOW, Verdict

from .acts import (
    CALL,
    Say,
    begin,
    both,
    finish,
    forged,
    lose,
    mark,
    pays,
    probe,
    refuse,
    replies_to,
    review,
    revoke,
    say,
    screen,
    screen_counting,
    simple,
    start,
    tell,
    void,
    withdraw,
)
from .changes import copy_store, go_on, policy_changes, restore_store, settle_store, time_passes
from .moves import Cast
from .people import ANN, BOB, DEE, EVE, FAY, MAL, NED, ZOE
from .start import CANCEL, beginning, in_a_queue, worker
from .world import UNIT


def confirm() -> Cast:
    """Only the person for whom the run acts says yes, and in time."""
    terms = Approval(confirm=True, expires="2s", execute_by="1s")
    acts = [
        *worker((ALLOW,), ((pays("a", terms),),)),
        time_passes(),
        lose(),
        void(),
        simple("the run is cancelled", CANCEL),
    ]
    acts += [say(who, verdict) for who in (ANN, EVE, FAY, NED) for verdict in ("approve", "edit", "retry")]
    acts += [say(EVE, "approve", how=Say(back=1)), say(EVE, "approve", how=Say(late=1)), say(EVE, "reject")]
    acts += [say(FAY, "reject"), withdraw(EVE), withdraw(FAY), withdraw(ANN), say(EVE, "ran")]
    acts += [withdraw(EVE, vote="approve"), say(EVE, "approve", how=Say(replay=True))]
    return Cast("confirm", "the requester alone confirms", beginning(), tuple(acts), 3 * UNIT)


def denial() -> Cast:
    """A rejection takes two; one delivery says one thing; a claim restricts nobody; a grant is for one tool."""
    terms = Approval(role="pay", deny_quorum=2)
    script = ((pays("a", terms),), (pays("b", terms, tool="t3"),))
    acts = [*worker((ALLOW,), script, (CALL, "r/2.0")), both(ANN), forged(), lose(), probe(), finish(failed=True)]
    acts += [say(ANN, "approve", how=Say(grants="g1")), say(ANN, "approve", "r/2.0"), say(DEE, "reject", "r/2.0")]
    acts += [say(who, "reject") for who in (ANN, BOB, DEE, MAL)]
    acts += [say(who, "approve") for who in (ANN, BOB, MAL, NED)]
    acts += [say(ANN, "reject", how=Say(back=1)), say(ANN, "edit"), say(BOB, "retry"), say(MAL, "did_not_run")]
    acts += [mark(ANN), mark(BOB), mark(MAL), withdraw(BOB), withdraw(MAL), say(BOB, "did_not_run")]
    return Cast("denial", "a rejection takes two people", beginning(), tuple(acts), UNIT, asks=3)


def votes() -> Cast:
    """Two approve and two reject, and whoever voted may withdraw it; a vote of before counts no second time."""
    terms = Approval(role="pay", quorum=2, deny_quorum=2, expires="2s")
    acts = [*worker((ALLOW,), ((pays("a", terms),),)), time_passes()]
    acts += [say(who, verdict) for who in (ANN, BOB) for verdict in ("approve", "reject")]
    acts += [
        say(DEE, "approve"),
        say(DEE, "approve", how=Say(undo=1)),
        say(ANN, "retry"),
        say(BOB, "retry"),
        lose(),
        withdraw(ANN),
    ]
    acts += [withdraw(ANN, vote="approve"), withdraw(ANN, vote="reject"), withdraw(MAL, vote="approve")]
    acts += [say(ANN, "approve", how=Say(replay=True)), say(ANN, "reject", how=Say(replay=True))]
    return Cast("votes", "votes that are withdrawn while others vote", beginning(), tuple(acts), 3 * UNIT)


def reviews() -> Cast:
    """What no person decides is reviewed: what the policy allows, and each use of a standing decision."""
    easy = Verdict("ask", terms=Approval(role="pay"), by="policy:easy")
    chief = Verdict("ask", terms=Approval(role="chief"), by="policy:chief")
    allows = Verdict("allow", by="policy:sample", review=1.0)
    calls = (CALL, "r/2.0")
    acts = [
        *worker((easy, chief, allows), ((pays("a"),), (pays("b"),)), calls),
        policy_changes("the next policy is in force"),
    ]
    acts += [say(who, "approve", how=Say(grants=name, review=1.0)) for who, name in ((ANN, "g1"), (DEE, "g2"))]
    acts += [revoke(BOB, "g1"), void("r/2.0"), withdraw(ANN, "r/2.0"), say(ZOE, "approve", "r/2.0")]
    acts += [say(ANN, "approve", "r/2.0")]
    acts += [review(who, call) for who in (ANN, BOB, EVE, MAL, NED) for call in calls]
    acts += [review(BOB, "r/2.0", back=1)]
    return Cast("reviews", "reviews of what no person decided", beginning((2, 0, 0, 0)), tuple(acts), UNIT)


def breaker() -> Cast:
    """A breaker counts what was rejected, denied or failed, and no question; a count of several runs is told."""
    usual = Verdict("ask", terms=Approval(role="pay"), by="policy:pay")
    script = tuple((pays(label),) for label in "abc")
    calls = (CALL, "r/2.0", "r/3.0")
    denies = Verdict("deny", by="policy:never")
    acts = [*worker((denies,), script, calls), time_passes(), tell(), lose(), say(ANN, "retry")]
    for call in calls:
        acts += [screen_counting(usual, 2 * UNIT, 2, call), finish(call, failed=True), withdraw(ANN, call)]
        acts += [say(ANN, "approve", call), say(ANN, "reject", call), say(ANN, "reject", call, how=Say(asks_back=True))]
    return Cast(
        "breaker", "a policy that counts what does not go well", beginning(counts=True), tuple(acts), 2 * UNIT, asks=1
    )


def chain() -> Cast:
    """Two steps, whose approvers differ: in turn, withdrawn, late, in an emergency, lost and run again."""
    glass = "chief"
    first = Approval(role="pay", expires="2s", on_expiry="ask_again", max_asks=2, break_glass=glass)
    last = Approval(role="pay", not_requester=True, execute_by="1s", break_glass=glass)
    script = ((pays("a", Approval(steps=[first, last]), recover="probe"),),)
    acts = [*worker((ALLOW,), script), time_passes(), lose(), probe(), void()]
    acts += [say(who, "approve") for who in (ANN, BOB, DEE, EVE, MAL)]
    acts += [say(who, "approve", how=Say(back=1)) for who in (ANN, BOB)]
    acts += [say(ANN, "edit"), say(BOB, "answer"), say(EVE, "reject"), say(ANN, "retry"), say(BOB, "retry")]
    acts += [say(ZOE, "approve", how=Say(glass=True)), say(BOB, "ran"), withdraw(ANN)]
    acts += [withdraw(who, vote="approve") for who in (ANN, BOB)]
    return Cast("chain", "an approval chain of two steps", beginning(), tuple(acts), 3 * UNIT, asks=4)


def chain_policy() -> Cast:
    """A policy states a chain, then another one, then one approver; a standing approval covers none of the chains."""
    pay, two = Approval(role="pay"), Approval(role="pay", quorum=2)
    policies = tuple(
        Verdict("ask", terms=terms, by=f"policy:{number}")
        for number, terms in enumerate([Approval(steps=[pay, two]), Approval(steps=[two, pay]), pay])
    )
    acts = [*worker(policies, ((pays("a"),), (pays("b"),)), (CALL, "r/2.0")), lose()]
    acts += [policy_changes("the next policy is in force"), withdraw(ANN), say(BOB, "reject", "r/2.0")]
    for call in (CALL, "r/2.0"):
        acts += [say(who, "approve", call) for who in (ANN, BOB, ZOE)]
    acts += [say(ANN, "approve", how=Say(grants="g1")), say(EVE, "approve"), say(ANN, "retry"), say(BOB, "retry")]
    return Cast("chain_policy", "a policy that states other chains", beginning((2, 0, 0, 0)), tuple(acts), UNIT, asks=3)


def queue() -> Cast:
    """A run that waits for its turn on a session, begins once, and is brought back from a copy of before that."""
    script = ((pays("a", Approval(role="pay", quorum=2)),),)
    acts = [*worker((ALLOW,), script), begin(), simple("the run is cancelled", CANCEL), lose()]
    acts += [say(who, verdict) for who in (ANN, BOB) for verdict in ("approve", "retry")]
    acts += [say(ANN, "reject"), say(BOB, "ran"), withdraw(ANN), copy_store(), restore_store(), settle_store(), go_on()]
    return Cast("queue", "a run that waits for its turn", in_a_queue((0, 0, 1, 1)), tuple(acts), UNIT)


def hosted() -> Cast:
    """A call that its provider runs while it answers a question, beside one that runs here."""
    script = ((pays("a", Approval(role="pay", execute_by="2s"), by_provider=True),
               pays("b", Approval(role="pay"), item=1)),)  # fmt: skip
    calls = (CALL, "r/1.1")
    acts = [*worker((ALLOW,), script, calls[1:]), screen((ALLOW,)), start(), replies_to(CALL), void()]
    acts += [time_passes(), simple("the run is cancelled", CANCEL), finish(calls[1], failed=True)]
    acts += [act for call in calls for act in (lose(call), refuse(call))]
    acts += [say(who, verdict, call) for who in (ANN, NED) for verdict in ("approve", "retry") for call in calls]
    acts += [say(ANN, "reject"), say(ANN, "edit"), say(BOB, "ran"), say(BOB, "did_not_run", "r/1.1"), withdraw(ANN)]
    return Cast(
        "hosted", "a call that its provider runs, beside one that runs here", beginning(), tuple(acts), 3 * UNIT
    )
