"""Who reads every line as it becomes durable, and looks at every effect as it happens: was it permitted?

It knows events and not the code that folds them, and it knows what people said because they told it themselves. What
can be seen in a log alone is the checker's affair.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Any

from keyturn.core import events as ev
from keyturn.core.codec import decode
from keyturn.core.digest import canonical
from keyturn.core.predicates.predicate import holds
from keyturn.core.strict import parse

from . import chains, claims
from .knobs import Spec
from .made import journal_time
from .onlooker import Onlooker, process_name
from .plan import Plan
from .seen import Permit, RunSeen, Seen, Word
from .who import BOARD, CHIEFS, LEADS, Register
from .who import NAME as DIRECTORY

_REASONS = {
    "", "MaxTurnsExceeded", "ModelBehaviorError", "ProviderDown", "CancelledError",
    "InputGuardrailTripwireTriggered", "OutputGuardrailTripwireTriggered", "StoreRestored",
    "SystemExit", "Interrupt", "TooDeep", "GeneratorExit", "BaseExceptionGroup", "StopIteration",
    "RuntimeError", "SetAside",
}  # fmt: skip


class Witness(Onlooker):
    """Reads lines, is told words and effects, and tells what is wrong to `wrong`."""

    def __init__(self, plan: Plan, wrong: Callable[[str], None]) -> None:
        super().__init__(plan, wrong)
        self.words: dict[str, list[Word]] = {}
        self.standing: set[tuple[str, str, str, str]] = set()
        self.calls = 0
        self.register = Register()

    def said(self, key: str, word: Word) -> None:
        """A person says something of a call, and it is on its way."""
        self.words.setdefault(key, []).append(word)

    def read(self, run: str, lines: list[bytes]) -> None:
        """Lines that are durable now."""
        if run == DIRECTORY:
            self.register.read(lines)
            return
        seen = self.runs.setdefault(run, RunSeen(run))
        for line in lines:
            step = decode(line)
            seen.now = max(seen.now, step.at)
            for event in step.events:
                hear = _HEARS.get(type(event))
                if hear is not None:
                    hear(self, seen, event)
            self.line_ends()

    def entered(self, run: str, key: str, spec: Spec, params: dict[str, Any], by: str = "") -> Seen | None:
        """A tool is being touched, here or `by` the caller outside that claimed it."""
        call = self.runs[run].by_key.get(key) if run in self.runs else None
        if call is None:
            self._wrong(f"{spec.name} ran for a call that no durable reply holds")
            return None
        text = canonical(params)
        fits = [each for each in reversed(call.permits) if each.args == text]  # a lost start may act late, on its own
        fits = [each for each in fits if each.process == by] if by else fits
        permit = next((each for each in fits if each.process == process_name()), fits[0] if fits else None)
        if permit is None:
            what = "with other arguments than those recorded" if call.permits else "without a recorded start of its own"
            self._wrong(f"{spec.name} of {call.id} ran {what}")
            return call
        call.permits.remove(permit)
        self._licensed(run, call, permit, spec, params)
        return call

    def acted(self, call: Seen, spec: Spec) -> None:
        """A tool has its effect on the world."""
        call.acted += 1
        if spec.recover == "ask" and call.acted > 1 + call.retries:
            self._wrong(f"{spec.name} of {call.id} acted {call.acted} times on {call.retries} words to try again")

    def put_back(self, runs: dict[str, RunSeen]) -> None:
        """Know what an older copy of the store knew: each open call of it may have run since, and takes a new word."""
        self.runs = runs
        for call in (call for run in runs.values() for call in run.calls.values()):
            call.restored, call.permits = True, []

    def not_kept(self, kept: Counter[tuple[str, str]]) -> Iterator[str]:
        """What somebody was told is done to a run, and its log does not say: that it starts, hears, or ends."""
        for (what, run), count in kept.items():
            seen = self.runs.get(run, RunSeen())
            done = {"start": bool(seen.salt), "send": seen.inputs >= count, "cancel": seen.ended == "cancelled"}
            done["withdraw"] = seen.withdrawn >= count
            done |= {f"report {outcome}": outcome in seen.reported for outcome in OUTCOMES}
            done[what] = done.get(what, tuple(what.split()[1:]) in seen.reviews)
            if not done[what]:
                yield f"run {run[:4]}: somebody was told that its {what} is kept, and it is not"

    def _licensed(self, run: str, call: Seen, permit: Permit, spec: Spec, params: dict[str, Any]) -> None:
        """Whether the policy lets it run, and somebody who had to say so did."""
        if call.legitimate == permit.args:
            return
        stated, made = self._stated(spec, params), permit.decision
        limits = [each.tool for each in (self._plan.purse, self._kinds.trips) if each is not None]
        answered = made is not None or permit.licence.startswith("grant:")
        late = self._kinds.late_policy and params["note"].startswith("late")  # where a later policy asks first
        if stated == "deny" and not (answered and (late or spec.name in limits)):  # so does one that is over a limit
            self._wrong(f"{spec.name} of {call.id} ran though the policy denies it")
        if permit.licence.startswith("grant:"):
            self._by_grant(run, call, permit, params)
        elif made is None:
            if stated == "ask" or (stated is None and spec.asks(params)):
                self._wrong(f"{spec.name} of {call.id} asks, and ran though nobody decided it")
            self.unasked(call, permit, spec, stated, params)
        elif not any(word.fits(made) and _says(word, permit.args) for word in self.words.get(call.key, ())):
            self._wrong(f"{spec.name} of {call.id} ran on a decision that nobody made ({made.verdict} by {made.by})")
        elif spec.gate in ("two", "two_led") and stated is None and self._fewer(call, permit):
            self._wrong(f"{spec.name} of {call.id} takes two people, and ran on the word of one")
        elif spec.gate in _ROLES and stated is None and not any(_may(spec, each) for each in _words_for(permit)):
            self._wrong(f"{spec.name} of {call.id} takes a role, and ran on the word of {made.decider}")
        else:
            words = [(each, len(self._agreed(call, each, permit.args))) for each in _words_for(permit)]
            self.recorded_terms(call, words)
        call.legitimate = permit.args

    def _fewer(self, call: Seen, permit: Permit) -> bool:
        """Whether fewer than two said so, of what last let it start."""
        return all(len(self._agreed(call, made, permit.args)) < 2 for made in _words_for(permit))

    def _agreed(self, call: Seen, made: ev.Decision, args: str) -> set[str]:
        """Who said the same of the same asking, to the byte."""
        words = [word for word in self.words.get(call.key, ()) if word.digest == made.digest]
        return {word.by for word in words if word.verdict == made.verdict and _says(word, args)}

    def _stated(self, spec: Spec, params: dict[str, Any]) -> str | None:
        """What the run's policy says of these arguments."""
        rules = [] if self._plan.policy is None else self._plan.policy.rules
        plain = (rule for rule in rules if rule.over is None and rule.when is None and rule.tool == spec.name)
        return next((rule.action for rule in plain if holds(rule.where, params)), None)

    def _by_grant(self, run: str, call: Seen, permit: Permit, params: dict[str, Any]) -> None:
        grant = self.runs[run].grants[permit.licence.removeprefix("grant:")]
        home = self.runs[run].homes.get(grant.id, run)
        given = (home, grant.agent, grant.tool, grant.verdict)
        if home in self.runs and self.runs[home].account != self.runs[run].account:
            self._wrong(f"{call.id} of {self.runs[run].account} ran under a grant for {self.runs[home].account}")
        if given not in self.standing or (grant.agent, grant.tool) != (call.agent, permit.tool):
            self._wrong(f"{call.id} ran under a grant that nobody gave for it")
        if grant.verdict != "approve" or not holds(grant.where, params):
            self._wrong(f"{call.id} ran under a grant that does not cover it")

    # What events say -----------------------------------------------------------------------------------------------

    def frame_opened(self, seen: RunSeen, event: ev.FrameOpened) -> None:
        """An agent begins."""
        seen.agents[event.frame], seen.turns[event.frame] = event.agent, 0
        if event.frame == ev.ROOT:
            self.root_opened(seen)

    def frame_closed(self, seen: RunSeen, event: ev.FrameClosed) -> None:
        """An agent ends."""
        if event.frame == ev.ROOT:
            seen.over, seen.ended = True, "finished"
        self._explained(event.error)

    def run_failed(self, seen: RunSeen, event: ev.RunFailed) -> None:
        """A run stopped."""
        self.set_aside(seen, event)
        self._explained(event.error)

    def _explained(self, error: str) -> None:
        """An agent fails for a reason that this world gives it, and not because the engine tripped over itself."""
        if error.partition(":")[0] not in _REASONS:
            self._wrong(f"an agent failed with {error}")

    def run_cancelled(self, seen: RunSeen, _event: ev.RunCancelled) -> None:
        """Somebody ended a run."""
        seen.over, seen.ended = True, "cancelled"

    def input_added(self, seen: RunSeen, _event: ev.InputAdded) -> None:
        """Somebody said something to a run."""
        seen.inputs += 1

    def handed_off(self, seen: RunSeen, event: ev.HandedOff) -> None:
        """Another agent goes on."""
        seen.agents[event.frame] = event.agent

    def replied(self, seen: RunSeen, event: ev.ReplyRecorded) -> None:
        """Calls are proposed."""
        seen.turns[event.frame] += 1
        for index, made in enumerate(event.proposals):
            name = f"{event.frame}/{seen.turns[event.frame]}.{index}"
            raw = event.output[made.item]
            args = raw.get("arguments", "") if made.args is None else made.args
            call = Seen(name, seen.agents[event.frame], made.tool, args, made.recover)
            call.licence, call.name = "tool" if made.gate == "allow" else "", made.name
            self._looked_at(seen, call, bool(made.gate))
            call.label, call.troubles = str(raw.get("call_id", "")), self.on_record(seen, made.name)
            seen.calls[name], seen.raws[name] = call, raw
            call.key = blake2b(name.encode(), key=seen.salt.encode(), digest_size=16).hexdigest()
            seen.by_key[call.key] = call
            self.calls += 1

    def _looked_at(self, seen: RunSeen, call: Seen, first: bool) -> None:
        """Note which process gives the first verdict on a call, and by which policy."""
        if first:
            call.screened_by = process_name()
            call.ungated = (call.screened_by, seen.id) in self.ungated

    def screened(self, seen: RunSeen, event: ev.CallScreened) -> None:
        """There is a verdict on a call."""
        call = seen.calls[event.call]
        self._looked_at(seen, call, not call.screened_by)
        call.watched = call.watched or bool(event.watched)
        if event.action == "ask" and not call.licence:
            chains.stated(call, event.terms)
        if event.action == "allow" and not call.licence:
            call.licence = event.by or "tool"
            self.let_by_rule(seen, call, event)
        elif event.action == "deny":
            call.licence = ""
        elif event.action == "ask" and not call.licence:
            call.wait = event.terms.expires_ms if event.terms is not None else None
            call.until = None if call.wait is None else event.at + call.wait

    def decided(self, seen: RunSeen, event: ev.CallDecided) -> None:
        """A call is decided."""
        made = event.decision
        seen.decisions.append(made)
        call = seen.calls[made.call]
        call.restored = call.spent = False
        call.let_at = call.let_at if made.by == "probe" else made.at
        self._in_time(call, made)
        self._known(call, made)
        self.glass_broken(seen, made)
        chains.decided(call, made, self._wrong)
        if made.verdict == "reject" and not made.asks_back:
            self.troubled(seen, call)
        if made.verdict == "retry":
            call.retries += made.by != "probe"
            call.retry = call.retry if made.by == "probe" else made
            call.licence, call.doubtful = call.licence or "word", False
            if call.taken_back and made.by != "probe":  # a person's word again, after that on which it ran is gone
                call.decision, call.taken_back = made, False
            return
        if made.verdict == "did_not_run":  # what it was counted for is given back
            call.unasked = False
        if made.args is not None:
            call.args = made.args
        if made.verdict in ("approve", "edit"):
            call.decision, call.retry, call.taken_back = made, None, False
            call.licence = made.by if made.by is not None and made.by.startswith("grant:") else "word"

    def _in_time(self, call: Seen, made: ev.Decision) -> None:
        until, call.until = call.until, None
        if until is not None and made.verdict == "expire" and journal_time() <= until:
            self._wrong(f"{call.id} was let run out {until - journal_time()} ms before its time")
        if until is None or made.by is None or made.by in ("clock", "probe") or made.by.startswith("grant:"):
            return
        said = [word.at for word in self.words.get(call.key, ()) if word.fits(made)]
        if said and min(said) > until:
            self._wrong(f"{call.id} was decided by {made.by} {min(said) - until} ms after it had run out")

    def asked_again(self, seen: RunSeen, event: ev.CallAskedAgain) -> None:
        """A request begins anew, and not before its time was up."""
        call = seen.calls[event.call]
        call.terms = event.terms or call.terms
        if event.why in ("restored", "forked", "terms"):
            chains.begun_again(call, event.terms)
        call.wait = None if call.terms is None else call.terms.expires_ms
        if call.until is not None and event.why not in _AT_ANY_TIME and journal_time() <= call.until:
            self._wrong(f"{call.id} was asked again {call.until - journal_time()} ms before its time")
        opens = event.why == "step" and not call.doubtful
        runs_out = opens or call.until is not None or event.why not in _AT_ANY_TIME  # doubts and questions wait
        call.until = None if opens else call.until
        if call.wait is not None and runs_out:
            call.until = event.at + call.wait

    def voted(self, seen: RunSeen, event: ev.VoteCast) -> None:
        """A voice that decides nothing yet."""
        seen.decisions.append(event.decision)
        self._known(seen.calls[event.decision.call], event.decision)
        chains.voted(seen.calls[event.decision.call], event.decision)
        self.counts["steps met"] += event.decision.confirms

    def vote_withdrawn(self, seen: RunSeen, event: ev.VoteWithdrawn) -> None:
        """A voice is withdrawn."""
        seen.withdrawn += 1
        chains.withdrawn(seen.calls[event.decision.call], event.decision)
        self.counts["votes withdrawn"] += 1

    def _known(self, call: Seen, made: ev.Decision) -> None:
        """Whether somebody who logged in had the roles with which they decided."""
        said = [word.at for word in self.words.get(call.key, ()) if word.fits(made)]
        if made.decider is not None:
            self.counts["in somebody's place"] += bool(made.decider.acting_for)
            self.counts["glass broken"] += made.broke_glass
        if made.decider is not None and made.decider.strength == "authenticated" and said:
            self.register.judge(made.decider, min(said), self._wrong)

    def withdrew(self, seen: RunSeen, event: ev.ApprovalWithdrawn) -> None:
        """An approval is taken back: nothing permits the call any more."""
        call = seen.calls[event.call]
        call.licence, call.decision, call.retry, call.legitimate, call.taken_back = "", None, None, None, True
        seen.withdrawn += 1
        self.counts["approvals taken back"] += 1

    def marked(self, _seen: RunSeen, _event: ev.CallMarked) -> None:
        """Somebody is on a request, or puts it off."""
        self.counts["marks"] += 1

    def voided(self, seen: RunSeen, event: ev.CallVoided) -> None:
        """A call asks anew."""
        call, raw = seen.calls[event.call], seen.raws[event.call]
        call.tool, call.recover = event.proposal.tool, event.proposal.recover
        call.args = raw.get("arguments", "") if event.proposal.args is None else event.proposal.args
        call.licence, call.decision, call.legitimate, call.until = "", None, None, None
        call.retry = None
        call.terms, call.screened_by = None, ""

    def call_started(self, seen: RunSeen, event: ev.CallStarted) -> None:
        """A call is started: one use of its tool is permitted."""
        call = seen.calls[event.call]
        if not seen.copying:
            self._spend(call)
        self.starts(seen, call)
        claims.started(seen, call, event, self._wrong)
        args, process = canonical(parse(call.args or "{}")), process_name() if event.until is None else event.by
        call.permits.append(Permit(args, call.licence, call.decision, call.tool, process, call.retry))
        if not call.licence or call.doubtful:
            self._wrong(f"{call.id} was started with nothing that permits it")
        if call.restored:
            self._wrong(f"{call.id} may have run before the store was put back, and was started without a new word")

    def _spend(self, call: Seen) -> None:
        """What nobody approved stays within the limit that all runs share."""
        purse = self._plan.purse
        call.unasked = purse is not None and call.licence not in ("word", "") and not call.licence.startswith("grant:")
        if purse is None or not call.unasked or call.name != purse.tool:
            return
        counted = [run for run in self.runs.values() if not run.copying]  # what a fork copies ran in its origin
        spent = [each for run in counted for each in run.calls.values() if each.unasked]
        total = sum(parse(each.args)["n"] for each in spent if each.name == purse.tool)
        if total > purse.most:
            self._wrong(f"{call.id} was started unasked: {total} of {purse.most}")

    def lost(self, seen: RunSeen, event: ev.CallLost) -> None:
        """A started call will never report."""
        call = seen.calls[event.call]
        claims.lost(seen, call, event, self._wrong)
        call.doubtful, call.started = not event.again, False
        if not event.again:
            chains.begun_again(call)
        if event.again and call.recover != "retry":
            self._wrong(f"{call.id} may act, was lost, and is started again by itself")

    def grant_given(self, seen: RunSeen, event: ev.GrantGiven) -> None:
        """There is a standing decision, and never in a drill."""
        if seen.drill:
            self._wrong(f"run {seen.id[:4]} is a drill, and keeps a standing decision")
        seen.grants[event.grant.id] = event.grant

    def grant_borrowed(self, seen: RunSeen, event: ev.GrantBorrowed) -> None:
        """A standing decision of another run is good for one call."""
        seen.grants[event.grant.id], seen.homes[event.grant.id] = event.grant, event.home
        self.counts["grants borrowed"] += 1

    def held(self, seen: RunSeen, event: ev.CallHeld) -> None:
        """A claim is prolonged."""
        seen.calls[event.call].held = event.until


OUTCOMES = ("succeeded", "failed", "unknown")
_AT_ANY_TIME = ("restored", "forked", "terms", "step")
_ROLES = {"led": LEADS, "two_led": LEADS, "glass": BOARD}


def _may(spec: Spec, made: ev.Decision) -> bool:
    roles = () if made.decider is None else made.decider.roles
    return _ROLES[spec.gate] in roles or (spec.gate == "glass" and made.broke_glass and CHIEFS in roles)


def _words_for(permit: Permit) -> list[ev.Decision]:
    """The decision that let a call run, and a person's last word to try it again: on newer terms that is enough."""
    return [each for each in (permit.decision, permit.retry) if each is not None]


def _says(word: Word, args: str) -> bool:
    return word.args is None or canonical(parse(word.args)) == args


_HEARS: dict[type[Any], Callable[[Witness, RunSeen, Any], None]] = {
    ev.RunStarted: Witness.run_started,
    ev.FrameOpened: Witness.frame_opened,
    ev.FrameClosed: Witness.frame_closed,
    ev.RunCancelled: Witness.run_cancelled,
    ev.InputAdded: Witness.input_added,
    ev.RunFailed: Witness.run_failed,
    ev.HandedOff: Witness.handed_off,
    ev.ReplyRecorded: Witness.replied,
    ev.CallScreened: Witness.screened,
    ev.CallDecided: Witness.decided,
    ev.VoteCast: Witness.voted,
    ev.VoteWithdrawn: Witness.vote_withdrawn,
    ev.CallAskedAgain: Witness.asked_again,
    ev.CallVoided: Witness.voided,
    ev.CallStarted: Witness.call_started,
    ev.CallLost: Witness.lost,
    ev.GrantGiven: Witness.grant_given,
    ev.GrantBorrowed: Witness.grant_borrowed,
    ev.CallHeld: Witness.held,
    ev.ApprovalWithdrawn: Witness.withdrew,
    ev.CallMarked: Witness.marked,
    ev.QuotaTaken: Witness.counted,
    ev.CallFinished: Witness.finished,
    ev.CallNeeds: Witness.needs,
    ev.SessionWritten: Witness.session_written,
    ev.RunQueued: Witness.run_queued,
    ev.RunResumed: Witness.resumed,
    ev.RunForked: Witness.run_forked,
    ev.DrillEnded: Witness.drill_ended,
    ev.ReviewAsked: Witness.review_asked,
    ev.ReviewGiven: Witness.review_given,
}
