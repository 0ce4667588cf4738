"""The laws of the gate, said a second time: which event a call may meet where, and what a standing decision covers.

An automaton of its own over the events of a log. It asks the code that folds and decides nothing, and raises `Broken`
at the first event that no honest gate would have written.
"""

from __future__ import annotations

from ..core import events as ev
from ..core.policy import Approval
from ..core.predicate import holds
from .calls import WAITING, Broken, Call, canonical_text, need, value_of

_MAY = {
    "asked": {"approve": "ready", "edit": "ready", "reject": "dead", "answer": "dead", "expire": "dead"},
    "doubt": {"ran": "dead", "did_not_run": "dead", "retry": "ready"},
    "asking": {"answer": "ready", "reject": "ready"},
}
_SCREENED = {"allow": "ready", "ask": "asked", "deny": "dead"}
_NO_START = {
    "new": ("I1", "without a verdict or a decision"),
    "asked": ("I1", "while it was still being asked about"),
    "asking": ("I1", "before its question was answered"),
    "dead": ("I7", "though it was refused or settled"),
    "running": ("I2", "twice"),
    "doubt": ("I2", "again while it is in doubt"),
    "settled": ("I2", "again after its result"),
}
_GRANT = "grant:"


class Gate:
    """The calls and the standing decisions of one run; `now` is its time, the latest of its steps."""

    def __init__(self) -> None:
        self.run, self.now, self.over = "", 0, False
        self.calls: dict[str, Call] = {}
        self.starts: dict[str, int] = {}
        self.grants: dict[str, ev.GrantTerms] = {}
        self.uses: dict[str, int] = {}
        self.revoked: set[str] = set()
        self.owed: tuple[str, str] | None = None
        # Whether this step says that the store was restored.
        self.restored = False

    def at(self, name: str) -> Call:
        """A call that is open, or `Broken`."""
        call = self.calls.get(name)
        if call is None:
            ran = name in self.starts
            raise Broken("I2" if ran else "I8", f"something happened to call {name}, which is not open")
        return call

    def framed(self, call: str) -> bool:
        """Whether a nested agent answers a call."""
        raise NotImplementedError

    def may_run(self, call: Call) -> str:
        """Why a call may not start now because of what is around it; "" where it may."""
        raise NotImplementedError

    def settled(self, call: Call) -> None:
        """A call has its result."""
        raise NotImplementedError

    # Verdicts ------------------------------------------------------------------------------------------------------

    def screened(self, event: ev.CallScreened) -> None:
        call = self.at(event.call)
        need(event.action in _SCREENED, "I7", f"call {call.id} has a verdict that is none")
        if call.place == "ready" and call.recheck:
            call.recheck = False
            call.place = "dead" if event.action == "deny" else "ready"
            return
        need(call.place == "new", "I3", f"call {call.id} was screened again while it is {call.place}")
        if event.action == "allow":
            need(not call.must_ask, "I4", f"call {call.id} was voided and runs without being asked about again")
            need(event.preview is None, "I4", f"call {call.id} is allowed and shows somebody a preview")
            self._owe(event.by, call)
        call.place, call.terms, call.asked_at = _SCREENED[event.action], event.terms, event.at
        call.reason, call.basis = event.reason, event.preview.basis if event.preview is not None else {}

    def voted(self, event: ev.VoteCast) -> None:
        made = event.decision
        call = self.at(made.call)
        need(call.place in WAITING, "I3", f"somebody decides call {call.id}, which does not wait")
        if event.replaced:
            return
        need(call.place == "asked", "I3", f"somebody votes on call {call.id}, which is {call.place}")
        need(made.digest == call.digest(self.run), "I4", f"a vote on call {call.id} is for other bytes")
        self._in_time(call, made)
        call.votes[made.by or ""] = made

    # Decisions -----------------------------------------------------------------------------------------------------

    def decided(self, event: ev.CallDecided) -> None:
        made = event.decision
        call = self.at(made.call)
        need(call.place in _MAY, "I3", f"call {call.id} is decided while it is {call.place}")
        need(made.verdict in _MAY[call.place], "I7", f"call {call.id} is {call.place} and decided in another way")
        need(made.digest == call.digest(self.run), "I4", f"the decision of call {call.id} is for other bytes")
        if call.place == "asked":
            self._on_terms(call, made)
        self._edited(call, made)
        self._owe(made.by or "", call)
        call.place = _MAY[call.place][made.verdict]
        call.decision, call.recheck, call.must_ask = made, call.place == "ready", False

    def _on_terms(self, call: Call, made: ev.Decision) -> None:
        terms = call.terms or Approval()
        if made.verdict == "expire":
            early = call.expires_at is None or self.now <= call.expires_at
            need(not early, "I6", f"call {call.id} was let expire before its time")
            return
        self._in_time(call, made)
        if (made.by or "").startswith(_GRANT):
            return
        told = made.note or made.message
        lacks = terms.reason == "required" or (terms.reason == "on_reject" and made.verdict == "reject")
        need(told or not lacks, "I1", f"call {call.id} is decided without the reason that its terms ask for")
        people = {*terms.users, *terms.escalate_to}
        stranger = bool(terms.users) and terms.role is None and made.by not in people
        need(not stranger, "I1", f"call {call.id} is decided by somebody whom its terms do not name")
        wanted = terms.deny_quorum if made.verdict == "reject" else terms.quorum
        voices = {by for by, vote in call.votes.items() if _agree(vote, made)} | {made.by or ""}
        need(len(voices) >= wanted, "I1", f"call {call.id} takes {wanted} people and was decided by {len(voices)}")

    def _in_time(self, call: Call, made: ev.Decision) -> None:
        late = call.expires_at is not None and made.at > call.expires_at
        need(not late, "I1", f"the decision of call {call.id} came after its time was up")

    def _edited(self, call: Call, made: ev.Decision) -> None:
        if made.args is None:
            need(made.verdict != "edit", "I4", f"call {call.id} was edited and nothing says to what")
            return
        kept = call.place != "asked" and made.args == call.args
        need(made.verdict == "edit" or kept, "I4", f"call {call.id} runs with other arguments and nobody edited it")
        value_of(made.args)
        call.args = made.args

    def voided(self, event: ev.CallVoided) -> None:
        call = self.at(event.call)
        need(call.place in ("asked", "ready"), "I8", f"call {call.id} is voided while it is {call.place}")
        same = event.proposal.label == call.proposal.label
        need(same, "I4", f"call {call.id} is proposed anew under another name than its model gave it")
        call.propose(event.proposal)
        call.must_ask, call.terms, call.reason, call.again = True, None, "", call.again + 1
        if call.place == "settled":
            self.settled(call)

    # The effect ----------------------------------------------------------------------------------------------------

    def started(self, event: ev.CallStarted) -> None:
        call = self.at(event.call)
        if call.place != "ready":
            invariant, how = _NO_START[call.place]
            raise Broken(invariant, f"call {call.id} started {how}")
        need(not call.recheck, "I7", f"call {call.id} started before the policy was asked about its decision")
        why = self.may_run(call)
        need(not why, "I7", f"call {call.id} started {why}")
        within = call.terms.execute_by_ms if call.terms is not None else None
        stale = within is not None and call.decision is not None and self.now > call.decision.at + within
        need(not stale, "I1", f"call {call.id} started after its approval had gone stale")
        call.place = "running"
        self.starts[call.id] = self.starts.get(call.id, 0) + 1

    def needed(self, event: ev.CallNeeds) -> None:
        call = self._running(event.call, "asks for an answer")
        call.place, call.rounds, call.asked_at, call.reason = "asking", call.rounds + 1, event.at, ""
        call.question = [event.requests, event.state, call.rounds]

    def lost(self, event: ev.CallLost) -> None:
        unknown = self.restored and self.at(event.call).place == "ready"  # it may have run after the copy was made
        call = self.at(event.call) if unknown else self._running(event.call, "is lost")
        again = event.again
        alone = f"call {call.id} may start again by itself, and its tool never said that it may"
        need(not again or call.proposal.recover == "retry", "I2", alone)
        call.place, call.reason, call.again = "ready" if again else "doubt", event.why, call.again + (not again)

    def _running(self, name: str, what: str) -> Call:
        call = self.at(name)
        need(call.place == "running", "I2", f"call {call.id} {what} while it is {call.place}")
        need(not self.framed(call.id), "I2", f"call {call.id} {what} while a nested agent answers it")
        return call

    def finished(self, event: ev.CallFinished) -> None:
        call = self.at(event.call)
        need(call.place != "settled", "I2", f"call {call.id} has a second result")
        refused = call.place == "ready" and event.failed
        comes = call.place == "running" or (not self.over and (call.place == "dead" or refused))
        need(comes, "I2", f"call {call.id} has a result while it is {call.place}")
        need(not self.framed(call.id), "I2", f"call {call.id} has a result before its nested agent has ended")
        label = event.item.get("call_id")
        need(label in (None, call.proposal.label), "I4", f"call {call.id} has the result of another call")
        call.place = "settled"
        self.settled(call)

    # Standing decisions --------------------------------------------------------------------------------------------

    def given(self, event: ev.GrantGiven) -> None:
        grant = event.grant
        need(grant.id not in self.uses, "I3", f"grant {grant.id} is given twice")
        need(grant.verdict in ("approve", "reject"), "I7", f"grant {grant.id} neither approves nor rejects")
        self.grants[grant.id], self.uses[grant.id] = grant, 0

    def taken_back(self, event: ev.GrantRevoked) -> None:
        need(event.grant in self.grants, "I8", f"grant {event.grant} is revoked and does not stand")
        del self.grants[event.grant]
        self.revoked.add(event.grant)

    def used(self, event: ev.GrantUsed) -> None:
        owed, self.owed = self.owed, None
        need(owed == (event.grant, event.call), "I1", f"grant {event.grant} is used for nothing that it decided")
        grant, call = self.grants.get(event.grant), self.at(event.call)
        if grant is None:
            raise Broken("I1", f"grant {event.grant} decides call {call.id} and does not stand")
        self.uses[grant.id] += 1
        spent = grant.uses is not None and self.uses[grant.id] > grant.uses
        need(not spent, "I1", f"grant {grant.id} is used more often than it says")
        over = grant.expires_at is not None and self.now >= grant.expires_at
        need(not over, "I1", f"grant {grant.id} is used after its time")
        mine = (grant.agent, grant.tool) == (call.agent, call.proposal.tool)
        need(mine and holds(grant.where, value_of(call.args)), "I1", f"grant {grant.id} does not cover call {call.id}")
        self._by_one(grant, call)

    def _by_one(self, grant: ev.GrantTerms, call: Call) -> None:
        verdict = call.decision.verdict if call.decision is not None else "approve"
        need(verdict == grant.verdict, "I1", f"grant {grant.id} decides call {call.id} in another way than it says")
        terms = call.terms or Approval()
        wanted = terms.deny_quorum if grant.verdict == "reject" else terms.quorum
        need(wanted <= 1, "I1", f"call {call.id} takes {wanted} people and grant {grant.id} is of one")

    def _owe(self, by: str, call: Call) -> None:
        """What a standing decision did must be counted at once."""
        if by.startswith(_GRANT):
            asks = call.place in ("new", "asked")
            need(asks, "I1", f"a grant decides call {call.id}, which waits for more than an approval")
            self.owed = (by.removeprefix(_GRANT), call.id)


def _agree(vote: ev.Decision, made: ev.Decision) -> bool:
    """Whether two people said the same, to the byte."""
    if "reject" in (vote.verdict, made.verdict):
        return vote.verdict == made.verdict
    alike = (vote.verdict, vote.args) == (made.verdict, made.args)
    return alike and canonical_text(vote.output) == canonical_text(made.output)
