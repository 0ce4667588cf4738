"""Compare a store with what is known elsewhere: effects, acknowledged decisions, heads of logs.

A store alone cannot show what was taken out of it together with every trace, nor what happened in the world.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from ..core import events as ev
from .calls import need, request_name
from .deciders import agreeing, objection
from .evidence.chain import head_of
from .laws.steps import asked_now
from .report import CheckReport, Head, Told
from .roles import Roles, deciders_in
from .run import AuditedRun


class Outside:
    """Holds what somebody else saw, and what of it was not found yet.

    >>> report = CheckReport()
    >>> Outside(None, [("run", "r/1.0", "approve")], None).left(report)
    >>> report.violations[0].invariant
    'I5'
    """

    def __init__(
        self,
        effects: Mapping[str, int] | None = None,
        acknowledged: Iterable[Told | tuple[str, str, str]] = (),
        heads: Mapping[str, Head | tuple[int, str]] | None = None,
        tenant: str = "default",
    ) -> None:
        self._tenant = tenant
        self._effects: Mapping[str, int] = effects or {}
        self._heads: Mapping[str, Head | tuple[int, str]] = heads or {}
        self._unmet = {key for key, seen in self._effects.items() if seen}
        self._runs = set(self._heads)
        self._told: defaultdict[str, list[Told]] = defaultdict(list)
        for each in acknowledged:
            told = each if isinstance(each, Told) else Told(*each)
            self._told[told.run].append(told)
        self._whole = True
        #: Who held which role, where there is a directory that can be read.
        self.roles: Roles | None = None

    def compare_head(
        self, run: str, links: Sequence[tuple[str, str]], report: CheckReport, bad: int | None = None
    ) -> None:
        """Check that a log goes on from where it was seen; what begins at a bad line is known to be wrong."""
        self._runs.discard(run)
        lines, hash_ = self._heads.get(run, (0, ""))
        report.unproven += max(0, len(links) - lines)
        if len(links) < lines:
            report.add("I5", run, len(links), f"the log was cut: {lines} lines of it were seen")
        elif lines and (bad is None or bad >= lines) and head_of(self._tenant, run, links[:lines]) != hash_:
            report.add("I8", run, None, f"the first {lines} lines are not those that were seen")

    def compare_effects(self, audited: AuditedRun, report: CheckReport) -> None:
        """Check that each effect the world saw was started, each time."""
        if not self._effects:
            return
        for call, starts in audited.starts.items():
            key = request_name(audited.salt, call)
            self._unmet.discard(key)
            if self._effects.get(key, 0) > starts:
                what = f"the world saw the effect of call {call} {self._effects[key]} times, of {starts} starts"
                report.add("I2", audited.name, None, what)

    def heard(self, audited: AuditedRun, event: ev.AnyEvent) -> None:
        """Check off a decision that somebody was told of."""
        waiting = self._told.get(audited.name)
        if waiting and isinstance(event, ev.CallDecided | ev.VoteCast | ev.VoteWithdrawn | ev.DrillEnded):
            made = event.decision
            names = (made.call, request_name(audited.salt, made.call))
            self._told[audited.name] = [
                told
                for told in waiting
                if told.call not in names or told.verdict != made.verdict or told.by not in (None, made.by)
            ]

    def check_deciders(self, event: ev.AnyEvent, at: int) -> None:
        """Check that the directory says of who decided what the event says of them."""
        if self.roles is None:
            return
        for who, when in deciders_in(event, at):
            what = self.roles.fault(who, when)
            need(not what, "I1", what)

    def check_votes(self, audited: AuditedRun) -> None:
        """Check of calls that were decided that everybody who is counted could have decided them then."""
        for call in audited.decided_now:
            made = call.decision
            place = None if made is None or made.decider is None else made.decider.place
            if self.roles is None or made is None or place is None:
                continue
            for vote in agreeing(call.terms, call.votes, made, audited.now).values():
                who = None if vote.decider is None else self.roles.later(vote.decider, place, made.at)
                why = "" if who is None else objection(asked_now(audited, call), who, audited.requester, vote.proof)
                need(not why, "I1", f"a vote of {vote.by!r} on call {call.id} counted, which they could not cast then")

    def unread(self, run: str) -> None:
        """Skip a log that could not be read to its end: what was not found may stand there."""
        self._told.pop(run, None)
        self._whole = False

    def left(self, report: CheckReport) -> None:
        """Report what was found nowhere."""
        for run in sorted(self._runs):
            report.add("I5", run, None, "the run was seen and is gone")
        for told in (told for run in self._told.values() for told in run):
            what = f"the decision {told.verdict!r} of call {told.call} was acknowledged and is not there"
            report.add("I5", told.run, None, what)
        for key in sorted(self._unmet) if self._whole else ():
            report.add("I1", "", None, f"the world saw the effect {key}, which no call has started")
