"""The casts: who is there, on which terms they decide, and what can happen. Each is a world small enough to close."""

from __future__ import annotations

from collections.abc import Callable

from keyturn.core.approval import Approval
from keyturn.core.policy import ALLOW, Verdict

from .acts import (
    CALL,
    Act,
    Say,
    ask,
    finish,
    judge,
    look,
    lose,
    pays,
    probe,
    reply,
    review,
    revoke,
    say,
    screen,
    simple,
    start,
    void,
    withdraw,
)
from .casts_beside import breaker, chain, chain_policy, confirm, denial, hosted, queue, reviews, votes
from .changes import copy_store, fork_run, go_on, policy_changes, restore_store, settle_store, time_passes
from .moves import Cast
from .people import ANN, BOB, DEE, EVE, MAL, NED, ZOE
from .start import BEGUN, CANCEL, beginning, worker
from .world import UNIT


def quorum() -> Cast:
    """Two of three sign: distinct people, none of them the requester, in time."""
    terms = Approval(role="pay", quorum=2, not_requester=True, expires="2s", execute_by="2s")
    people = [ANN, BOB, DEE, EVE, MAL, NED]
    acts = [
        *worker((ALLOW,), ((pays("a", terms),),)),
        *(say(who, "approve") for who in people),
        *(say(who, "approve", how=Say(back=1)) for who in (ANN, BOB)),
        say(ANN, "approve", how=Say(late=1)),
        say(BOB, "edit"),
        say(ANN, "edit"),
        say(BOB, "reject"),
        say(EVE, "reject"),
        say(ANN, "reject", how=Say(asks_back=True)),
        withdraw(BOB),
        lose(),
        say(ANN, "retry"),
        say(BOB, "retry"),
        say(BOB, "ran"),
        simple("the run is cancelled", CANCEL),
        time_passes(),
    ]
    return Cast("quorum", "two of a role, not the requester, in time", beginning(), tuple(acts), 3 * UNIT)


def expiry() -> Cast:
    """A request that runs out is asked again, or goes to others; what was said before counts for nothing."""
    terms = Approval(
        users=["bob", "eve"], quorum=2, expires="2s", on_expiry="escalate", escalate_to=["ann", "role:chief"]
    )
    again = Approval(role="pay", expires="1s", on_expiry="ask_again", max_asks=2, execute_by="1s")
    script = ((pays("a", terms), pays("b", again, item=1)),)
    second = "r/1.1"
    acts = [
        *worker((ALLOW,), script, (CALL, second)),
        *(say(who, "approve") for who in (ANN, BOB, EVE, ZOE)),
        say(BOB, "approve", how=Say(back=1)),
        say(ZOE, "reject"),
        say(ANN, "approve", second),
        say(ANN, "approve", second, how=Say(back=1)),
        say(BOB, "answer", second),
        time_passes(),
    ]
    return Cast("expiry", "requests that run out: escalated, asked again, rejected", beginning(), tuple(acts), 3 * UNIT)


def grant() -> Cast:
    """Standing decisions: given, used, used up, run out, revoked; and one that rejects."""
    terms = Approval(role="pay", not_requester=True)
    script = tuple((pays(label, terms),) for label in "abc")
    calls = ("r/1.0", "r/2.0", "r/3.0")
    acts = [*worker((ALLOW,), script, calls), time_passes(), revoke(ANN, "g1"), revoke(BOB, "g3")]
    acts += [revoke(MAL, "g2"), revoke(BOB, "g2")]
    for call in calls[:2]:
        acts += [
            say(ANN, "approve", call, how=Say(grants="g1", uses=1, lasts=2)),
            say(EVE, "approve", call, how=Say(grants="g4")),
            say(BOB, "reject", call, how=Say(grants="g2")),
            say(BOB, "approve", call, how=Say(grants="g3")),
        ]
    acts += [say(BOB, "approve", how=Say(grants="g5", where='{"amount":7}'))]
    for call in calls:
        acts += [say(ANN, "approve", call), say(ANN, "reject", call), withdraw(MAL, call), withdraw(ANN, call)]
    return Cast("grant", "standing decisions over three calls", beginning(), tuple(acts), 3 * UNIT, asks=1)


def doubt() -> Cast:
    """A call whose process died, whose tool may know what became of it, and whose approval goes stale."""
    script = ((pays("a", Approval(role="pay", execute_by="2s"), recover="probe"),),)
    acts = [*worker((ALLOW,), script), time_passes(), simple("the run is cancelled", CANCEL)]
    acts += [lose(), finish(failed=True), say(ANN, "approve"), say(ANN, "edit"), say(ANN, "reject"), say(MAL, "retry")]
    acts += [probe(), probe(found="ran"), withdraw(ANN), say(ANN, "retry"), say(BOB, "retry"), void()]
    acts += [say(ANN, "retry", how=Say(back=1)), say(BOB, "ran"), say(BOB, "did_not_run"), start(tool="t2")]
    return Cast("doubt", "a call that was started and lost", beginning(), tuple(acts), 3 * UNIT, asks=4)


def several() -> Cast:
    """Three calls of one reply: one that asks, one that may repeat, one of which nobody knows what became."""
    script = ((pays("a", Approval(role="pay")), pays("b", gate="allow", recover="retry", item=1),
               pays("c", gate="allow", item=2, last=True)),)  # fmt: skip
    calls = ("r/1.0", "r/1.1", "r/1.2")
    acts = [*worker((ALLOW,), script, calls), simple("the run is cancelled", CANCEL)]
    acts += [act for call in calls for act in (lose(call), finish(call, failed=True))]
    acts += [say(ANN, "approve"), say(ANN, "reject"), probe("r/1.2"), withdraw(ANN)]
    acts += [say(who, verdict, "r/1.2") for who in (ANN, NED) for verdict in ("retry", "ran")]
    return Cast("several", "three calls of one reply, started and lost", beginning(), tuple(acts), UNIT)


def question() -> Cast:
    """A tool that asks: a question, for approval, for a result made elsewhere."""
    script = ((pays("a", Approval(role="pay", execute_by="2s", not_requester=True)),),)
    policies = (ALLOW, Verdict("ask", terms=Approval(role="chief"), by="policy:s"), Verdict("deny", by="policy:d"))
    acts = [*worker(policies, script), time_passes(), policy_changes("a stricter policy"), lose()]
    acts += [ask(), ask(wants="approval"), ask(wants="result"), withdraw(ANN)]
    acts += [say(who, verdict) for who in (ANN, EVE, ZOE) for verdict in ("approve", "answer", "reject")]
    acts += [say(ANN, "answer", how=Say(back=1)), say(ANN, "approve", how=Say(back=1)), say(ANN, "retry"), void()]
    acts += [say(ANN, "ran"), finish(failed=True), start(tool="t2")]
    return Cast(
        "question", "a tool that asks, and a tool that changes", beginning((2, 0, 0, 0)), tuple(acts), 3 * UNIT, asks=3
    )


def policy() -> Cast:
    """A policy that becomes stricter while a call waits, and looser again."""
    easy = Verdict("ask", terms=Approval(role="pay"), by="policy:easy")
    hard = Verdict("ask", terms=Approval(role="pay", quorum=2, not_requester=True), by="policy:hard")
    policies = (easy, hard, Verdict("deny", by="policy:never"), ALLOW)
    acts = [*worker(policies, ((pays("a"),), (pays("b"),)), (CALL, "r/2.0"))]
    acts += [policy_changes("the next policy is in force"), withdraw(ANN), lose(), say(ANN, "retry"), say(BOB, "retry")]
    acts += [screen(policies, old=True)]
    for call in (CALL, "r/2.0"):
        acts += [say(who, "approve", call) for who in (ANN, BOB, EVE)]
        acts += [say(ANN, "approve", call, how=Say(back=1)), say(BOB, "reject", call)]
    acts += [say(ANN, "approve", how=Say(grants="g1")), say(BOB, "reject", how=Say(grants="g2"))]
    return Cast("policy", "a policy that changes while calls wait", beginning((3, 0, 0, 0)), tuple(acts), UNIT, asks=2)


def steps() -> Cast:
    """The requester confirms, another who looked long enough approves; or the chief breaks the glass."""
    terms = Approval(role="pay", confirm=True, min_look="1s", execute_by="2s", break_glass="chief", expires="3s")
    acts = [*worker((ALLOW,), ((pays("a", terms),),)), time_passes()]
    acts += [look(who) for who in (ANN, EVE, ZOE)]
    acts += [say(who, "approve") for who in (ANN, BOB, EVE, ZOE)]
    acts += [say(ANN, "approve", how=Say(back=1)), say(EVE, "approve", how=Say(back=1))]
    acts += [say(ANN, "approve", how=Say(late=1)), say(EVE, "reject"), say(ANN, "reject"), say(ANN, "edit")]
    acts += [say(ZOE, "approve", how=Say(glass=True)), say(ANN, "approve", how=Say(glass=True)), withdraw(BOB)]
    acts += [say(ZOE, "approve", how=Say(glass=True, mute=True)), review(BOB, back=1)]
    acts += [review(who) for who in (ANN, BOB, ZOE)]
    return Cast("steps", "confirmed, looked at, or behind the glass", beginning(), tuple(acts), 4 * UNIT, asks=1)


def restore() -> Cast:
    """A store that is copied, lost and brought back, twice; what ran after the copy is on no record."""
    terms = Approval(role="pay", quorum=2, execute_by="3s")
    script = ((pays("a", terms, recover="probe"),), (pays("b", Approval(role="pay")),))
    calls = ("r/1.0", "r/2.0")
    acts = [*worker((ALLOW,), script, calls), copy_store(), restore_store(), settle_store(), go_on()]
    acts += [say(who, "approve", call) for who in (ANN, BOB) for call in calls]
    acts += [say(ANN, "approve", how=Say(back=1)), say(BOB, "reject"), lose()]
    acts += [say(who, "retry") for who in (ANN, BOB)]
    acts += [say(ANN, "did_not_run"), say(BOB, "ran"), probe()]
    acts += [say(ANN, "approve", "r/1.0", how=Say(grants="g1")), say(ANN, "approve", "r/2.0", how=Say(grants="g2"))]
    left = (0, 0, 2, 2)
    return Cast("restore", "a store brought back from its copy", beginning(left), tuple(acts), UNIT, asks=3)


def drill() -> Cast:
    """A drill: whatever is said of it, nothing runs."""
    terms = Approval(role="pay", expires="3s", min_look="1s")
    acts = [*worker((ALLOW,), ((pays("a", terms),),)), time_passes(), look(ANN), look(BOB), lose(), void(), ask()]
    acts += [say(who, verdict) for who in (ANN, BOB, EVE, MAL) for verdict in ("approve", "reject", "edit", "answer")]
    acts += [say(ANN, "approve", how=Say(grants="g1")), withdraw(ANN), simple("the run is cancelled", CANCEL)]
    acts += [copy_store(), restore_store(), settle_store(), go_on()]
    return Cast(
        "drill", "a drill, of which nothing runs", beginning((0, 0, 1, 1), BEGUN + 4 * UNIT), tuple(acts), 5 * UNIT
    )


def fork() -> Cast:
    """A run that is forked, and decided on both sides."""
    return _forked("fork", "a quorum of a run and of its fork", Approval(role="pay", quorum=2), ())


def fork_steps() -> Cast:
    """A run that is forked after it was confirmed or looked at."""
    terms = Approval(role="pay", confirm=True, min_look="1s")
    acts = [act for run in (0, 1) for act in (look(ANN, run=run), look(EVE, run=run), say(EVE, "approve", run=run))]
    return _forked("fork_steps", "a confirmation and looks, of a run and of its fork", terms, (*acts, time_passes()))


def _forked(name: str, what: str, terms: Approval, more: tuple[Act, ...]) -> Cast:
    script = ((pays("a", terms),), (pays("b", terms),))
    calls = (CALL, "r/2.0")
    acts = [*worker((ALLOW,), script, calls), fork_run(), reply(script, 1), judge(1), *more]
    for call in calls:
        acts += [screen((ALLOW,), call, 1), start(call, 1), finish(call, 1)]
        acts += [say(who, "approve", call, run) for run in (0, 1) for who in (ANN, BOB)]
        acts += [say(ANN, "approve", call, 1, Say(source=0)), say(BOB, "approve", call, 0, Say(source=1))]
    acts += [say(ANN, "reject", how=Say(grants="g1")), say(BOB, "reject", run=1)]
    return Cast(name, what, beginning((0, 1, 0, 0)), tuple(acts), 2 * UNIT, forks=True)


CASTS: dict[str, Callable[[], Cast]] = {
    made.__name__: made
    for made in (
        quorum, votes, expiry, grant, doubt, several, question, policy, steps, restore, drill, fork, fork_steps,
        confirm, denial, reviews, breaker, chain, chain_policy, queue, hosted,
    )
}  # fmt: skip
