"""Whoever reads a journal and believes nothing: were the promises kept? It knows events, not the code that folds them.

Each rule is one assertion with its law's words. What a call may do is a licence: an allow-verdict, a grant or a
decision for exactly the bytes that would run, of as many people as the terms name, looked at by the newest policy.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from keyturn.core import events as ev
from keyturn.core.approval import Approval
from keyturn.core.digest import canonical, digest
from keyturn.core.items import Item
from keyturn.core.people import Decider
from keyturn.core.strict import parse
from keyturn.core.usage import NOTHING
from tests.core.reference_rules import chain, fits, glass, steps, twofold

_WORDS = re.compile("(?<!^)(?=[A-Z])")
NEVER = ("reject", "expire", "answer", "ran", "did_not_run")


@dataclass
class Audited:
    """A call: who made it, what it would run with, and what allows it to. It is open, running, in doubt, asking (its
    tool needs an answer), dead (it will not run) or settled (it has its result)."""

    id: str
    frame: str
    agent: str
    raw: Item
    proposal: ev.Proposal
    args: str = ""
    licence: str | None = None
    must_decide: bool = False
    place: str = "open"
    item: Item | None = None
    basis: dict[str, str] = field(default_factory=dict[str, str])
    question: list[Any] = field(default_factory=list[Any])
    asked: int = 0
    again: int = 0
    unchecked: bool = False
    terms: Approval | None = None
    since: int = 0
    asking: bool = False
    voices: dict[str, ev.Decision] = field(default_factory=dict[str, ev.Decision])
    sure: int | None = None
    said: int | None = None
    let: int | None = None
    revoked: bool = False
    acted: bool = False
    supplied: bool = False
    wants: str = ""
    doubted: bool = False
    approved: bool = False
    surely: str = ""
    met: list[tuple[Approval, set[str]]] = field(default_factory=list[tuple[Approval, set[str]]])
    due: Approval | None = None

    def digest(self, run: str) -> str:
        seen = [canonical(more) for more in (self.basis, self.again, self.question) if more]
        return digest(run, self.id, self.agent, self.proposal.tool, canonical(parse(self.args or "{}")), *seen)

    def begin_anew(self) -> None:
        """A chain begins at its first step."""
        self.terms, self.met = self.met[0][0] if self.met else self.terms, []

    def propose(self, proposal: ev.Proposal) -> None:
        self.begin_anew()
        self.proposal, self.licence, self.item = proposal, None, proposal.refused
        self.args = self.raw.get("arguments", "") if proposal.args is None else proposal.args
        self.place, self.basis, self.question = "open" if self.item is None else "settled", {}, []
        self.unchecked, self.asking, self.voices, self.said = False, False, {}, None
        self.let, self.revoked, self.approved = None, False, False
        self.sure = None

    def ask_again(self, now: int) -> None:
        """What was said before counts no more."""
        self.revoked = True
        self.again, self.since, self.voices = self.again + 1, now, {}
        self.sure = None


@dataclass
class Desk:
    """A frame: its conversation, and the calls of its last reply."""

    agent: str
    items: list[Any]
    guarded: str
    calls: list[str] = field(default_factory=list[str])
    queued: list[Item] = field(default_factory=list[Item])
    turn: int = 0
    tripped: bool = False
    barrier: bool = True


class Auditor:
    """Reads a journal step by step."""

    def __init__(self) -> None:
        self.run, self.now, self.over = "", 0, False
        self.desks: dict[str, Desk] = {}
        self.calls: dict[str, Audited] = {}
        self.grants: dict[str, ev.GrantTerms] = {}
        self.given: set[str] = set()
        self.lent: set[tuple[str, str]] = set()
        self.uses: dict[str, int] = {}
        self.used: set[object] = set()
        self.usage = NOTHING
        self.requester: str | None = None

    def read(self, steps: Iterable[ev.Step]) -> Auditor:
        for step in steps:
            self.now = max(self.now, step.at)
            for event in step.events:
                if self.over:
                    allowed = ev.CallFinished | ev.CallLost | ev.SessionWritten | ev.ContextSaved
                    allowed |= ev.ReviewGiven
                    allowed |= ev.GrantRevoked | ev.GrantLent | ev.QuotaTaken | ev.QuotaReturned | ev.QuotaClosed
                    assert isinstance(event, allowed), f"a run that is over goes on: {type(event).__name__}"
                getattr(self, _WORDS.sub("_", type(event).__name__).lower(), self.other)(event)
        return self

    def other(self, _event: ev.AnyEvent) -> None:
        """What no law is about."""

    def open(self, frame: str) -> list[Audited]:
        return [self.calls[name] for name in self.desks[frame].calls if self.calls[name].place != "settled"]

    # The run and its frames ----------------------------------------------------------------------------------------

    def run_started(self, event: ev.RunStarted) -> None:
        assert not self.run, "a run starts once"
        self.run, self.requester = event.run, event.requester

    def run_cancelled(self, event: ev.RunCancelled) -> None:
        self.over = True

    def frame_opened(self, event: ev.FrameOpened) -> None:
        assert event.frame not in self.desks, "a call is answered by one agent"
        assert event.frame == ev.ROOT or self.calls[event.frame].place == "running", (
            "an agent answers a call that has started"
        )
        self.desks[event.frame] = Desk(event.agent, list(event.items), event.guarded, barrier=event.barrier)

    def frame_closed(self, event: ev.FrameClosed) -> None:
        assert event.error or not self.open(event.frame), "no answer while calls are open"
        below = [call for name, call in self.calls.items() if name.startswith(event.frame + "/")]
        lost = [call.id for call in below if call.place in ("running", "doubt") and call.id not in self.desks]
        assert not lost, "nothing that has begun is dropped with nobody knowing what became of it"
        below = event.frame + "/"
        self.desks = {name: desk for name, desk in self.desks.items() if not name.startswith(below)}
        self.calls = {name: call for name, call in self.calls.items() if not name.startswith(below)}
        if event.frame == ev.ROOT:
            self.over = True
        else:
            del self.desks[event.frame]

    def guardrail_reported(self, event: ev.GuardrailReported) -> None:
        desk = self.desks.get(event.on)
        if desk is not None:
            assert not desk.tripped, "a tripwire is not taken back"
            desk.guarded, desk.tripped = "", any(report.tripped for report in event.reports)

    def input_added(self, event: ev.InputAdded) -> None:
        desk = self.desks[event.frame]
        (desk.queued if desk.barrier and self.open(event.frame) else desk.items).extend(event.items)

    def handed_off(self, event: ev.HandedOff) -> None:
        desk = self.desks[event.frame]
        assert not desk.barrier or not self.open(event.frame), "no handoff while calls are open"
        desk.agent = event.agent
        if event.view is not None:
            parts = [desk.items[part[0] : part[1]] if isinstance(part, list) else [part] for part in event.view]
            desk.items = [item for part in parts for item in part]

    def history_compacted(self, event: ev.HistoryCompacted) -> None:
        desk = self.desks[event.frame]
        assert not self.open(event.frame), "no conversation is compacted while calls are open"
        parts = [desk.items[part[0] : part[1]] if isinstance(part, list) else [part] for part in event.view]
        desk.items = [item for part in parts for item in part]
        self.usage += event.usage

    def reply_recorded(self, event: ev.ReplyRecorded) -> None:
        desk = self.desks[event.frame]
        assert not desk.barrier or not self.open(event.frame), "no model is asked while calls of its frame are open"
        assert desk.guarded != "before", "the guardrails come first"
        desk.turn += 1
        self.usage += event.usage
        desk.items.extend(event.output)
        names = [f"{event.frame}/{desk.turn}.{place}" for place in range(len(event.proposals))]
        desk.calls += names
        for name, proposal in zip(names, event.proposals, strict=True):
            assert name not in self.calls, "a call has a name of its own"
            call = self.calls[name] = Audited(name, event.frame, desk.agent, event.output[proposal.item], proposal)
            call.propose(proposal)
            call.licence = call.args if proposal.gate == "allow" else None
        self.settled(desk, event.frame)

    def reply_refused(self, event: ev.ReplyRefused) -> None:
        self.usage += event.usage

    # Calls ---------------------------------------------------------------------------------------------------------

    def call_screened(self, event: ev.CallScreened) -> None:
        call = self.calls[event.call]
        assert call.place == "open", "a verdict is on what has not run"
        assert event.preview is None or event.action == "ask", "only who is asked is shown what would change"
        if call.licence is None and event.preview is not None:
            call.basis = event.preview.basis
        if call.licence is None:
            call.terms, call.since, call.asking = event.terms, event.at, event.action == "ask"
            call.met = []
        call.unchecked = False
        if event.action == "deny":
            assert call.supplied or not call.acted, "what was started is never forgotten"
            call.licence, call.place = None, "dead"
        elif event.action == "allow" and call.licence is None:
            assert not call.must_decide, "what was voided asks again"
            call.licence = call.args
            call.said = call.let = self.now if event.by.startswith("grant:") else None

    def vote_cast(self, event: ev.VoteCast) -> None:
        made = event.decision
        if not event.replaced:
            call = self.calls[made.call]
            assert made.digest == call.digest(self.run), "a voice is for exactly the bytes that were shown"
            self.may(call, made)
            assert made.decider is not None, "a voice is somebody's"
            if made.confirms and not twofold(call.terms):
                assert call.terms is not None, "a step has terms"
                assert call.terms.then is not None, "a step is met before another"
                assert self.enough(call, made), "a step takes all its people"
                assert (made.verdict in ("approve", "retry"), made.broke_glass) == (True, False), "an approval meets it"
                voices = {**call.voices, made.decider.id: made}
                step = {by for by, each in voices.items() if each.verdict == made.verdict}
                call.met, call.due = [*call.met, (call.terms, step)], call.terms.then
                return
            if made.confirms:
                assert twofold(call.terms), "only what others decide then is confirmed first"
                call.sure, call.surely = made.at, made.decider.id
                return
            call.voices[made.decider.id] = made

    def vote_withdrawn(self, event: ev.VoteWithdrawn) -> None:
        made = event.decision
        call = self.calls[made.call]
        who = "" if made.decider is None else made.decider.id
        met = [place for place, (_, voters) in enumerate(call.met) if who in voters and call.place != "asking"]
        if met:
            call.due, call.met = call.met[met[0]][0], call.met[: met[0]]
        elif call.sure is not None and call.surely == who:
            call.sure, call.voices = None, {}
        else:
            assert call.voices.pop(who, None) is not None, "a vote is withdrawn by its voter"

    def may(self, call: Audited, made: ev.Decision) -> None:
        """Whether whoever decided is one whom the terms of the call let decide, and not in the future."""
        assert made.at <= self.now, "nothing is said before its time"
        assert call.due is None, "a step is asked for as soon as it is due"
        person = made.decider is not None and call.place != "asking"
        assert not person or not any(made.by in voters for _, voters in call.met), "one person counts in one step"
        several = call.place == "open" and (call.met or (call.terms is not None and call.terms.then is not None))
        assert not several or made.verdict != "edit", "what a step approved is not edited"
        if made.via == "probe":
            own = call.place == "doubt" and call.proposal.recover == "probe"
            assert own, "a probe speaks for the doubt of its own tool"
            assert made.verdict != "retry" or not call.revoked, "a probe lets nothing run anew"
            return
        if made.via == "clock":
            assert made.verdict == "expire", "the clock approves nothing"
            return
        proof = made.proof is not None
        who, grant = made.decider, self.grants.get(made.grant or "")
        if made.via == "grant":
            assert grant is not None, "a grant that was revoked decides nothing"
            who, proof = grant.decider, False
        assert made.verdict != "edit" or not call.proposal.fixed, "what is fixed is not edited"
        answered = made.verdict == "answer" and call.place == "open"
        assert not answered or not call.proposal.elsewhere, "what runs elsewhere is not answered"
        if call.place == "open" and call.terms is not None and call.terms.expires_ms is not None:
            assert self.now <= call.since + call.terms.expires_ms, "nobody decides after the time"
        terms = call.terms
        if terms is not None and made.broke_glass:
            assert terms.break_glass, "glass is broken where there is some"
            assert (made.verdict, bool(made.note)) == ("approve", True), "who breaks it lets a call run, and says why"
            terms = glass(terms)
        elif twofold(terms):
            first = call.place == "open" and not self.confirmed(call)
            assert not first or made.confirms or made.verdict == "reject", "the requester confirms first"
            terms = steps(terms)[not first]
        assert terms is None or self.fits(terms, who, proof), f"{who} may not decide on {call.terms}"

    def confirmed(self, call: Audited) -> bool:
        """Whether the requester's word is there and not stale."""
        within = call.terms.execute_by_ms if call.terms is not None else None
        return call.sure is not None and (within is None or self.now <= call.sure + within)

    def fits(self, terms: Approval, who: Decider | None, proof: bool) -> bool:
        named = terms.role is not None or bool(terms.users)
        signed = terms.signed or terms.step_up
        several = max(terms.quorum, terms.deny_quorum) > 1
        if not (named or signed or terms.not_requester or terms.confirm or several):
            return True
        known = who is not None and who.strength != "claimed"
        if who is None or not known or (named and terms.role not in who.roles and who.id not in terms.users):
            return False
        if terms.confirm:
            theirs = who.requester or (who.id == self.requester and not who.acting_for)
            return theirs and (not signed or (proof and who.strength == "signed"))
        own = who.requester or self.requester is None or who.id == self.requester
        return not (terms.not_requester and own) and (not signed or (proof and who.strength == "signed"))

    def enough(self, call: Audited, made: ev.Decision) -> bool:
        """Whether as many different people as the terms want said the same."""
        fact = made.verdict in ("ran", "did_not_run", "expire") or call.place == "asking"
        if call.terms is None or fact or made.via == "probe" or made.broke_glass:
            return True
        if made.verdict == "reject" and twofold(call.terms) and not self.confirmed(call) and made.via == "person":
            return True
        most = call.terms.deny_quorum if made.verdict == "reject" else call.terms.quorum
        alike = {
            by for by, voice in call.voices.items()
            if voice.verdict == made.verdict and (voice.args or made.args) == made.args
        }  # fmt: skip
        return len(alike | {made.by}) >= most and (made.via != "grant" or most == 1)

    def call_decided(self, event: ev.CallDecided) -> None:
        made = event.decision
        call, stamp = self.calls[made.call], (made.call, made.verdict, made.digest, made.at, made.by)
        self.may(call, made)
        assert self.enough(call, made), "several people are several people"
        lets = made.verdict in ("approve", "edit", "retry", "answer") and call.place != "asking"
        alone = made.via == "probe" or made.broke_glass
        left = call.terms is not None and call.terms.then is not None
        assert not (lets and left) or alone, "a call runs when every step is met"
        assert made.via != "grant" or made.verdict == "reject" or not call.met, "no grant meets a step"
        assert made.via in ("person", "on_approval", "probe") or made.at == self.now, "what is no person decides now"
        assert made.digest == call.digest(self.run), "a decision is for exactly the bytes that were shown"
        assert stamp not in self.used, "a decision is used once"
        assert call.place in ("open", "doubt", "asking"), "what was decided is decided"
        assert call.licence is None, "what may run already is not decided"
        self.used.add(stamp)
        if made.via != "probe":
            call.said = made.at
        elif made.verdict == "retry":
            call.said, call.acted, call.doubted = call.let, False, False
        if made.verdict in ("approve", "edit", "retry") and made.via != "probe":
            call.let, call.revoked = made.at, False
        if made.args is not None:
            assert made.verdict == "edit" or made.args == call.args, "only an edit changes what runs"
            call.args = made.args
            runs = digest(
                self.run, call.id, call.agent, call.proposal.tool, call.again, canonical(parse(made.args)), made.basis
            )
            assert made.runs == runs, "an edit is bound to what it lets run"
        assert made.via != "grant" or not call.approved, "what was approved and asks all the same, asks a person"
        call.approved |= made.verdict in ("approve", "edit")
        call.supplied = call.place == "asking" and call.wants == "answer"
        if call.place == "asking":
            assert made.verdict in ("answer", "reject"), "a question is answered or refused"
            assert made.via != "grant", "no standing decision answers a question"
            call.place = "open" if call.supplied else "dead"
        else:
            call.place = "dead" if made.verdict in NEVER else "open"
        call.must_decide = False
        call.licence = call.args if call.place == "open" else None
        call.unchecked = call.place == "open"
        call.asking, call.voices = False, {}

    def call_asked_again(self, event: ev.CallAskedAgain) -> None:
        call = self.calls[event.call]
        assert call.licence is None, "what may run is not asked again, it is voided"
        asking = call.asking if call.place == "open" else call.place in ("doubt", "asking")
        assert asking, "only what waits is asked again"
        if event.why == "terms":
            assert call.place == "doubt", "other terms without an escalation are of what was let run before"
        elif event.why == "forked":
            assert call.place == "open", "only a request is asked about in a fork"
        elif event.why == "step":
            assert call.due is not None, "no step is asked for that is not due"
            assert event.terms == call.due, "the step that is due is asked for"
        elif event.why != "restored":
            assert call.place == "open", "only a request runs out"
            assert call.terms is not None, "only what has terms runs out"
            assert call.terms.on_expiry == event.why, "what becomes of a request is what its terms say"
            assert self.now > call.since + (call.terms.expires_ms or 0), "a request runs out at its time"
        others = event.why in ("escalate", "terms", "step")
        if event.why in ("restored", "forked", "terms"):
            call.begin_anew()
        assert (event.terms is not None) == others, "who else is asked is said where others are"
        call.terms, call.due = event.terms or call.terms, None
        call.ask_again(event.at)

    def call_voided(self, event: ev.CallVoided) -> None:
        call = self.calls[event.call]
        assert call.place == "open", "only what waits or is ready is voided"
        assert not call.acted, "what was started is never forgotten"
        call.propose(event.proposal)
        call.must_decide, call.again = True, call.again + 1
        self.settled(self.desks[call.frame], call.frame)

    def call_started(self, event: ev.CallStarted) -> None:
        call, desk = self.calls[event.call], self.desks[self.calls[event.call].frame]
        assert call.place == "open", "a call is started once, and never after a rejection, a denial or an expiry"
        assert call.licence is not None, "no start without a verdict, a grant or a decision"
        assert call.licence == call.args, "a licence is for exactly the bytes that run"
        assert not call.unchecked, "the newest policy looks at each decision before anything runs"
        within = call.terms.execute_by_ms if call.terms is not None else None
        stale = within is not None and call.said is not None and self.now > call.said + within
        assert not stale, "a decision goes stale from when it was said"
        assert not desk.guarded, "no tool before the guardrails have reported"
        assert not desk.tripped, "no tool after a tripwire"
        others = [other.proposal for other in self.open(call.frame) if desk.barrier]
        early = not all(other.last or other.by_provider for other in others)
        assert not call.proposal.last or call.proposal.by_provider or not early, "the last run last"
        alone = all(other.by_provider for other in others)
        assert not call.proposal.by_provider or alone, "what the provider runs is sent when all else has its result"
        call.place, call.acted = "running", call.acted or call.proposal.recover != "retry"

    def call_needs(self, event: ev.CallNeeds) -> None:
        call = self.calls[event.call]
        assert call.place == "running", "only what was started asks for more"
        assert event.call not in self.desks, "what an agent answers asks nothing itself"
        call.licence, call.voices, call.wants = None, {}, event.wants
        if event.wants == "approval":
            self.asks_inside(call, event)
            return
        call.question, call.asked = [event.requests, event.state, call.asked + 1], call.asked + 1
        call.place = "asking"

    def asks_inside(self, call: Audited, event: ev.CallNeeds) -> None:
        """Its tool says that it has done nothing: no word of before lets it start again."""
        call.place, call.asking, call.must_decide, call.question = "open", True, True, []
        call.basis, call.sure = {} if event.preview is None else event.preview.basis, None
        call.begin_anew()
        call.terms = call.proposal.terms if call.terms is None else call.terms
        call.again, call.since, call.said, call.let = call.again + 1, event.at, None, None
        call.acted = call.doubted and call.proposal.recover != "retry"

    def call_lost(self, event: ev.CallLost) -> None:
        call = self.calls[event.call]
        ready = call.place == "open" and call.licence is not None
        known = ready or (call.place == "open" and call.acted)
        assert call.place == "running" or (known and not event.again), "only what was started or may start is lost"
        assert event.call not in self.desks, "what an agent answers is not lost"
        again = call.proposal.recover == "retry" or call.proposal.by_provider
        assert not event.again or again, "what has effects is not started again by itself, unless it was not sent"
        call.acted = call.doubted if event.again and call.proposal.by_provider else call.acted
        call.revoked |= call.place == "open"
        call.basis = call.basis if event.preview is None else event.preview.basis
        call.place, call.again = "open" if event.again else "doubt", call.again + (not event.again)
        call.unchecked, call.voices = False, {}
        call.doubted |= not event.again
        if not event.again:
            call.begin_anew()
        call.licence = call.args if event.again else None

    def call_finished(self, event: ev.CallFinished) -> None:
        call = self.calls[event.call]
        assert event.call not in self.desks, "what an agent answers has that agent's result"
        refused = (
            call.place == "open" and event.failed and call.licence is not None and (call.supplied or not call.acted)
        )
        assert call.place in ("running", "dead") or refused, "a call has one result, and it comes of something"
        call.item, call.place = event.item, "settled"
        self.settled(self.desks[call.frame], call.frame)

    def run_restored(self, event: ev.RunRestored) -> None:
        may_start = [call.id for call in self.calls.values() if call.place == "open" and call.licence is not None]
        assert not may_start, "after a restore nothing starts that nobody was asked about"
        for call in self.calls.values():
            call.revoked = True
        unseen = [call.id for call in self.calls.values() if call.place == "open" and not call.asking]
        assert all(self.calls[name].must_decide for name in unseen), "what was not judged yet must be asked about"

    def settled(self, desk: Desk, frame: str) -> None:
        if not desk.barrier:
            done = [name for name in desk.calls if self.calls[name].place == "settled"]
            desk.items.extend(self.calls.pop(name).item for name in done)
            desk.calls = [name for name in desk.calls if name not in done]
            return
        if desk.calls and not self.open(frame):
            desk.items.extend(self.calls.pop(name).item for name in desk.calls)
            desk.items.extend(desk.queued)
            desk.calls, desk.queued = [], []

    # Grants --------------------------------------------------------------------------------------------------------

    def grant_given(self, event: ev.GrantGiven) -> None:
        assert event.grant.id not in self.given, "a grant is given once"
        self.given.add(event.grant.id)
        self.grants[event.grant.id], self.uses[event.grant.id] = event.grant, 0

    def grant_lent(self, event: ev.GrantLent) -> None:
        grant = self.grants[event.grant]
        assert grant.reach, "a grant is lent where it reaches beyond its run"
        assert event.run != self.run, "a run lends to another"
        assert (event.run, event.call) not in self.lent, "a call is lent one grant, once"
        self.lent.add((event.run, event.call))
        self.uses[grant.id] += 1
        assert grant.uses is None or self.uses[grant.id] <= grant.uses, "a grant is used as often as it says"
        assert grant.expires_at is None or self.now < grant.expires_at, "a grant ends at its time"

    def grant_borrowed(self, event: ev.GrantBorrowed) -> None:
        grant = event.grant
        assert grant.id not in self.given, "a grant is borrowed once"
        assert event.home not in ("", self.run), "a run borrows of another"
        assert (grant.uses, grant.verdict, bool(grant.call), bool(grant.reach)) == (1, "approve", True, True)
        self.given.add(grant.id)
        self.grants[grant.id], self.uses[grant.id] = grant, 0

    def grant_revoked(self, event: ev.GrantRevoked) -> None:
        grant = self.grants.pop(event.grant)
        if grant.verdict == "reject" and grant.terms is not None:
            bare = replace(grant.terms, signed=False, step_up=False)
            may = any(fits(step, event.decider, None, self.requester) for step in steps(bare))
            assert may, "a rejection is revoked by those who may decide the call that it was given with"

    def grant_used(self, event: ev.GrantUsed) -> None:
        assert event.grant in self.grants, "a grant that was revoked covers nothing"
        grant, call = self.grants[event.grant], self.calls[event.call]
        assert call.place != "asking", "a grant answers no question"
        self.uses[grant.id] += 1
        assert grant.call in (None, call.id), "what was borrowed covers one call"
        assert grant.uses is None or self.uses[grant.id] <= grant.uses, "a grant is used as often as it says"
        assert grant.expires_at is None or self.now < grant.expires_at, "a grant ends at its time"
        assert (grant.agent, grant.tool) == (call.agent, call.proposal.tool), "a grant covers nothing else"
        every = chain(call.terms)
        assert not every or any(self.fits(each, grant.decider, False) for each in every), (
            "a grant covers what its giver may"
        )
