"""What each of the cast can do: a command for the real core, made of what its maker saw, or a change of the world.

An act asks nobody whether it may be done. Words are given late, twice, by the wrong people and on what was shown
before; the core refuses what must be refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from msgspec.structs import replace

from keyturn.core import commands as cm
from keyturn.core import events as ev
from keyturn.core.approval import Approval
from keyturn.core.gate.reviews import review_digest
from keyturn.core.people import Decider
from keyturn.core.policy import Verdict
from keyturn.core.states import WAITING
from keyturn.core.usage import NOTHING

from .book import Word
from .oracle import Done
from .people import WHO
from .world import UNIT, Shown, World

CALL = "r/1.0"
_VERBS = {
    "approve": "approves",
    "reject": "rejects",
    "edit": "approves another amount",
    "answer": "answers in its place",
    "ran": "says that it ran",
    "did_not_run": "says that it did not run",
    "retry": "says to run it again",
}


class Try(NamedTuple):
    """A command for one of the runs, and what truly happens with it; `then` is recorded in the same step."""

    run: int
    command: cm.RunCommand
    done: Done
    then: cm.RunCommand | None = None


class Act(NamedTuple):
    """Something that may happen: in words, and as a command or as another world."""

    words: str
    command: Callable[[World], Try | None] | None = None
    change: Callable[[World], World | None] | None = None


def _named(call: str, run: int) -> str:
    return (f" of call {call[2:]}" if call != CALL else "") + (" in the fork" if run else "")


class Say(NamedTuple):
    """How a word is given: on which asking, how late, with what."""

    back: int = 0  # on what was shown before that
    late: int = 0  # it was said so long before it is delivered
    source: int | None = None  # on what another run showed
    glass: bool = False
    asks_back: bool = False
    grants: str = ""  # the name of a standing decision that comes along
    uses: int | None = None
    lasts: int | None = None
    where: str = ""  # the only arguments for which it is given
    review: float = 0.0  # the share of its uses that is reviewed
    mute: bool = False  # no reason is given
    undo: int = 0  # the call starts so much later
    replay: bool = False  # it was given before they withdrew it, and comes once more


def say(who: Decider, verdict: str, call: str = CALL, run: int = 0, how: Say = Say()) -> Act:  # noqa: B008
    """Somebody gives their word on a call as it was shown to them."""

    source = run if how.source is None else how.source

    @lru_cache(maxsize=1_024)
    def said(clock: int, shown: Shown, name: str, of: tuple[str, str] | None, after: int) -> Try:
        made = replace(_decision(clock, who, verdict, how, call, shown.digest), withdrawals=after)
        word = Word(who.id, verdict, name, shown.call, shown.asking, made.at, made.args or "", how.glass)
        word = replace(word, replayed=how.replay, undo=how.undo * UNIT)
        grants = [] if of is None else [_grant(clock, who, verdict, *of, how)]
        until = grants[0].expires_at if grants else None
        gives = grants[0].verdict if grants else ""
        done = Done(clock, word, "", None, gives, how.uses, until, how.where, bool(how.review))
        return Try(run, cm.Deliver([made], grants), done)

    def command(world: World) -> Try | None:
        if run >= len(world.runs) or call not in world.books[run].calls:
            return None
        shown = world.now_shown(source, call, how.back)
        if shown is None:
            return None
        found = world.runs[run].calls.get(call)
        of = None if found is None or not how.grants else (found.agent, found.proposal.tool)
        after = 0 if found is None else len(found.withdrawn)
        if how.replay and not after:
            return None
        return said(world.clock, shown, world.runs[source].id, of, 0 if how.replay else after)

    return Act(f"{WHO[who.id]} {_VERBS[verdict]}{_manner(how)}{_named(call, run)}", command)


def _manner(how: Say) -> str:
    words = ", breaking the glass" if how.glass else ""
    words += " without a reason" if how.mute else ""
    words += " and asks back" if how.asks_back else ""
    words += " with a time to undo it" if how.undo else ""
    words += f" where it is {how.where}" if how.where else ""
    words += f", always{f', {how.uses} times' if how.uses else ''}" if how.grants else ""
    words += " as before they withdrew it" if how.replay else ""
    words += " what was shown before" if how.back else ""
    words += " what the other run shows," if how.source is not None else ""
    return words + (", said a second ago" if how.late else "")


def _decision(clock: int, who: Decider, verdict: Any, how: Say, call: str, digest: str) -> ev.Decision:
    at = clock - how.late * UNIT
    args = '{"amount":7}' if verdict == "edit" else None
    message = "what for?" if how.asks_back else None
    output = "paid by hand" if verdict == "answer" else None
    note = "an emergency" if how.glass and not how.mute else None
    more: dict[str, Any] = {
        "undo_ms": how.undo * UNIT,
        "broke_glass": how.glass,
        "asks_back": how.asks_back,
        "message": message,
        "note": note,
    }
    return ev.Decision(call, verdict, digest, at, who, args=args, output=output, **more)


def _grant(clock: int, who: Decider, verdict: str, agent: str, tool: str, how: Say) -> ev.GrantTerms:
    until = None if how.lasts is None else clock + how.lasts * UNIT
    kind: Any = "reject" if verdict == "reject" else "approve"
    where = json.loads(how.where) if how.where else None
    made = ev.GrantTerms(how.grants, agent, tool, kind, where, until, how.uses, decider=who)
    return replace(made, review=how.review)


def probe(call: str = CALL, found: str = "retry") -> Act:
    """The tool's own check says what became of a call."""

    def command(world: World) -> Try | None:
        shown = world.now_shown(0, call)
        verdict: Any = found
        made = None if shown is None else ev.Decision(call, verdict, shown.digest, world.clock, via="probe")
        return None if made is None else Try(0, cm.Deliver([made]), Done(world.clock))

    what = "did not run" if found == "retry" else "ran"
    return Act(f"the tool's own check finds that it {what}", command)


def look(who: Decider, call: str = CALL, run: int = 0) -> Act:
    """Somebody has a request on the screen."""

    def command(world: World) -> Try | None:
        shown = world.now_shown(run, call)
        return None if shown is None else Try(run, cm.RecordLook(call, shown.digest, who), Done(world.clock))

    return Act(f"{WHO[who.id]} looks at it{_named(call, run)}", command)


def withdraw(who: Decider, call: str = CALL, vote: str = "") -> Act:
    """Somebody takes an approval back, or withdraws their vote, which they do once for each asking."""

    def command(world: World) -> Try | None:
        found = world.runs[0].calls.get(call)
        if call not in world.books[0].calls or (found is not None and found.state in WAITING and not vote):
            return None
        if found is not None and found.withdrawn and found.state in WAITING:
            return None
        done = Done(world.clock, withdraws=who.id, rejects=vote == "reject")
        return Try(0, cm.Withdraw(call, who, vote=vote), done)

    what = f"the vote to {vote}" if vote else "the approval"
    return Act(f"{WHO[who.id]} takes {what} back{_named(call, 0)}", command)


def revoke(who: Decider, grant: str) -> Act:
    """Somebody revokes a standing decision."""

    def command(world: World) -> Try | None:
        known = grant in world.books[0].grants
        return Try(0, cm.Revoke(grant, who), Done(world.clock)) if known else None

    return Act(f"{WHO[who.id]} revokes the standing decision", command)


def review(who: Decider, call: str = CALL, back: int = 0) -> Act:
    """Somebody reviews what ran, or what ran before that."""

    def command(world: World) -> Try | None:
        asked = world.runs[0].reviews.get(call)
        if asked is None or asked.revision <= back:
            return None
        number = asked.revision - back
        made = cm.GiveReview(call, review_digest(world.runs[0], replace(asked, revision=number)), "right", who)
        return Try(0, made, Done(world.clock, review=number))

    return Act(f"{WHO[who.id]} reviews it{_named(call, 0)}{' as it ran before' if back else ''}", command)


def both(who: Decider, call: str = CALL) -> Act:
    """Somebody approves and rejects a call in one delivery, which says nothing."""

    def command(world: World) -> Try | None:
        shown = world.now_shown(0, call)
        if shown is None:
            return None
        said = [_decision(world.clock, who, verdict, Say(), call, shown.digest) for verdict in ("approve", "reject")]
        return Try(0, cm.Deliver(said), Done(world.clock))

    return Act(f"{WHO[who.id]} approves and rejects{_named(call, 0)} in one delivery", command)


def forged(call: str = CALL) -> Act:
    """A decision comes in the name of the clock."""

    def command(world: World) -> Try | None:
        shown = world.now_shown(0, call)
        made = None if shown is None else ev.Decision(call, "approve", shown.digest, world.clock, via="clock")
        return None if made is None else Try(0, cm.Deliver([made]), Done(world.clock))

    return Act("an approval comes in the name of the clock", command)


def mark(who: Decider, call: str = CALL) -> Act:
    """Somebody is on a request."""

    def command(world: World) -> Try | None:
        shown = world.now_shown(0, call)
        made = None if shown is None else cm.MarkCall(call, shown.digest, "claim", who, world.clock + UNIT)
        return None if made is None else Try(0, made, Done(world.clock))

    return Act(f"{WHO[who.id]} claims it{_named(call, 0)}", command)


def tell() -> Act:
    """The counts of several runs are told what became of a call."""

    def command(world: World) -> Try | None:
        run = world.runs[0]
        owed = next(iter(run.owed.values()), None)
        return None if owed is None else Try(0, cm.ReturnQuota(run.id, owed.call, owed.of), Done(world.clock))

    return Act("the shared count is told", command)


def _worker(words: str, make: Callable[[], cm.RunCommand], call: str, run: int = 0) -> Act:
    made = make()

    def command(world: World) -> Try | None:
        if run >= len(world.runs) or call not in world.runs[run].calls or world.unsettled:
            return None
        return Try(run, made, Done(world.clock))

    return Act(words, command)


def start(call: str = CALL, run: int = 0, tool: str = "t1") -> Act:
    """The worker starts a tool."""
    how = "" if tool == "t1" else " as it was changed"
    return _worker(f"the tool{_named(call, run)} starts{how}", lambda: cm.StartCall(call, tool), call, run)


def finish(call: str = CALL, run: int = 0, *, failed: bool = False) -> Act:
    """The worker records a call's result."""

    def command(world: World) -> Try | None:
        found = world.runs[run].calls.get(call) if run < len(world.runs) else None
        if found is None or world.unsettled:
            return None
        item: dict[str, Any] = {"type": "function_call_output", "call_id": found.proposal.label, "output": "ok"}
        return Try(run, cm.FinishCall(call, item, failed=failed), Done(world.clock))

    return Act(f"the call{_named(call, run)} {'fails' if failed else 'has its result'}", command)


def refuse(call: str = CALL) -> Act:
    """The provider refuses the question that holds an approval: it ran nothing."""
    made = cm.LoseCall(call, "the question was refused", again=False, unsent=True)

    def command(world: World) -> Try | None:
        known = call in world.runs[0].calls and not world.unsettled
        return Try(0, made, Done(world.clock, refused=True)) if known else None

    return Act(f"the question{_named(call, 0)} is refused", command)


def lose(call: str = CALL, run: int = 0) -> Act:
    """The process dies, and the next worker finds a call that was started."""
    return _worker(f"the worker dies; the next one finds the call{_named(call, run)}",
                   lambda: cm.LoseCall(call, "its process died"), call, run)  # fmt: skip


def ask(call: str = CALL, wants: Any = "answer") -> Act:
    """A started tool asks."""
    what = {"answer": "a question", "approval": "for approval, having done nothing", "result": "for a result"}[wants]
    return _worker(f"its tool asks {what}", lambda: cm.NeedInput(call, ["sure?"], wants=wants), call)


def void(call: str = CALL) -> Act:
    """The tool is another one now."""

    def command(world: World) -> Try | None:
        found = world.runs[0].calls.get(call)
        if found is None or found.proposal.tool != "t1" or world.unsettled:
            return None
        made = replace(found.proposal, tool="t2")
        return Try(0, cm.VoidCall(call, made, "the tool was changed"), Done(world.clock))

    return Act("the worker finds that the tool was changed", command)


def screen(policies: tuple[Verdict, ...], call: str = CALL, run: int = 0, *, old: bool = False) -> Act:
    """The worker asks the newest policy about a call, or about the decision on it; `old` hears the one before it."""

    def command(world: World) -> Try | None:
        found = world.runs[run].calls.get(call) if run < len(world.runs) else None
        if found is None or world.unsettled or found.state not in _JUDGED or (old and not world.policy):
            return None
        verdict = policies[world.policy - old]
        made = cm.Screen(call, verdict, on_decision=found.recheck)
        sampled = bool(verdict.review) and not found.recheck
        return Try(run, made, Done(world.clock, action=verdict.action, terms=verdict.terms, sampled=sampled))

    which = "the policy before the newest" if old else "the policy"
    return Act(f"{which} is asked{_named(call, run)}", command)


def screen_counting(usual: Verdict, per: int, most: int, call: str) -> Act:
    """The worker asks a policy with a breaker, which counts what did not go well with this run's calls."""
    watched = (ev.Watch("count", per, ("rejected", "failed")),)

    def command(world: World) -> Try | None:
        found, troubles = world.runs[0].calls.get(call), world.books[0].troubles or ()
        if found is None or found.state not in _JUDGED:
            return None
        opened = sum(world.clock - at < per for _call, _kind, at in troubles) >= most and not found.recheck
        verdict = Verdict("deny", by="policy:pay:breaker") if opened else usual
        made = cm.Screen(call, verdict, on_decision=found.recheck, watched=watched)
        return Try(0, made, Done(world.clock, action=verdict.action, terms=verdict.terms))

    return Act(f"the policy is asked, which has a breaker,{_named(call, 0)}", command)


_JUDGED = ("proposed", "allowed", "approved", "edited", "supplied")


def reply(script: tuple[tuple[ev.Proposal, ...], ...], run: int = 0) -> Act:
    """The model replies: with the next calls of the script, or with its answer after the last of them."""

    def command(world: World) -> Try | None:
        frame = world.runs[run].frames.get("r") if run < len(world.runs) else None
        if frame is None or frame.phase != "model" or world.unsettled:
            return None
        made = list(script[frame.turn]) if frame.turn < len(script) else []
        items: list[dict[str, Any]] = [_item(proposal) for proposal in made] or [{"type": "message", "content": "done"}]
        return Try(run, cm.RecordReply("r", items, made, NOTHING, turn=frame.turn), Done(world.clock))

    return Act(f"the model replies{_named(CALL, run)}", command)


def replies_to(call: str) -> Act:
    """The model replies to the question that held an approval, whose call is over with that."""

    def command(world: World) -> Try | None:
        frame, found = world.runs[0].frames.get("r"), world.runs[0].calls.get(call)
        if frame is None or found is None or world.unsettled:
            return None
        item: dict[str, Any] = {"type": "function_call_output", "call_id": found.proposal.label, "output": "sent"}
        answer: list[dict[str, Any]] = [{"type": "message", "content": "done"}]
        reply = cm.RecordReply("r", answer, [], NOTHING, turn=frame.turn)
        return Try(0, cm.FinishCall(call, item), Done(world.clock), reply)

    return Act(f"the model replies to the question with the approval{_named(call, 0)}", command)


def _item(made: ev.Proposal) -> dict[str, Any]:
    return {"type": "function_call", "name": made.name, "call_id": made.label, "arguments": '{"amount":5}'}


def judge(run: int = 0) -> Act:
    """The answer is judged final."""

    def command(world: World) -> Try | None:
        frame = world.runs[run].frames.get("r") if run < len(world.runs) else None
        if frame is None or frame.phase != "judge" or world.unsettled:
            return None
        return Try(run, cm.JudgeFrame("r", True, "done"), Done(world.clock))

    return Act(f"the answer is final{_named(CALL, run)}", command)


def begin() -> Act:
    """The run's turn on its session has come."""
    return simple("the run has its turn", cm.Begin([{"role": "user", "content": "Pay."}]))


def simple(words: str, made: cm.RunCommand, run: int = 0) -> Act:
    """A command that depends on nothing: a tick, a cancellation."""

    def command(world: World) -> Try | None:
        known = run < len(world.runs) and not (world.unsettled and isinstance(made, cm.Tick))
        return Try(run, made, Done(world.clock)) if known else None

    return Act(words + _named(CALL, run), command)


def pays(label: str, terms: Approval | None = None, **more: Any) -> ev.Proposal:
    """A call of the tool "pay", which asks on these terms."""
    gate: Any = more.pop("gate", "ask" if terms is not None else "")
    return ev.Proposal(
        "function", "pay", label, more.pop("item", 0), tool=more.pop("tool", "t1"), gate=gate, terms=terms, **more
    )
