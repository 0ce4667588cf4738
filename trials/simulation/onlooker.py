"""Who watches the kinds that came later: forks, drills, reviews, breakers, queued runs, and callbacks that raise.

As the witness it knows events and not the code that folds them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from keyturn.core import events as ev
from keyturn.core.approval import Approval
from keyturn.core.strict import parse

from . import claims
from .kinds import DRILLS_EVERY
from .knobs import Spec
from .loop import PROCESS
from .plan import Plan
from .seen import Permit, RunSeen, Seen


class Onlooker:
    """Hears events of the later kinds. `cleared` are the answers by which callbacks let a call run unasked.

    `ungated` are processes with runs that they drive under a policy from before a gate was set.
    """

    def __init__(self, plan: Plan, wrong: Callable[[str], None]) -> None:
        self._plan, self._wrong, self._kinds = plan, wrong, plan.kinds
        self.runs: dict[str, RunSeen] = {}
        self.counts = Counter[str]()
        self.cleared: set[tuple[str, str, Any]] = set()
        self.sessions: dict[str, list[str]] = {}
        self.began: list[str] = []
        self.ungated: set[tuple[str, str]] = set()
        self.reports: claims.Reports = set()
        self._owed: dict[str, tuple[str, ...]] = {}

    # What a line says ------------------------------------------------------------------------------------------------

    def run_started(self, seen: RunSeen, event: ev.RunStarted) -> None:
        """A run begins."""
        seen.salt, seen.drill, seen.copying = event.salt, event.drill is not None, bool(event.copied_from)
        seen.session = str(event.about.get("session", ""))
        seen.input, seen.opened, seen.account = str(event.input), seen.now, claims.account_of(event)
        seen.counts = event.about.get("per_ms") is not None  # in this world breakers alone count within a time
        if seen.drill and not seen.copying:
            self._drill_opened(seen)

    def run_queued(self, seen: RunSeen, _event: ev.RunQueued) -> None:
        """A run waits for its turn on its session."""
        seen.queued = True
        self.sessions.setdefault(seen.session, []).append(seen.id)
        self.counts["runs queued"] += 1

    def root_opened(self, seen: RunSeen) -> None:
        """A run begins that may have waited: once, and after all that came to its session before it."""
        if not seen.queued or seen.copying:
            return
        if seen.id in self.began:
            self._wrong(f"run {seen.id[:4]} waited for its turn, and began twice")
        self.began.append(seen.id)
        before = self.sessions[seen.session]
        for other in (self.runs[run] for run in before[: before.index(seen.id)]):
            if not other.over and not other.failed:  # one that failed may be resumed in that moment
                self._wrong(f"run {seen.id[:4]} began before {other.id[:4]}, which was on its session first, was over")

    def run_forked(self, seen: RunSeen, event: ev.RunForked) -> None:
        """A run goes on as a copy of another, which may be a copy itself: nothing that was said or let run crosses."""
        seen.copying, seen.inputs, seen.withdrawn = event.run != seen.id, 0, 0
        seen.retells = "r" in seen.agents and not seen.told_session
        seen.to_tell, seen.reviews = set(), set()
        for call in seen.calls.values():
            call.licence, call.decision, call.retry, call.legitimate, call.permits = "", None, None, None, []
            call.unasked = call.restored = False
            call.acted = call.retries = 0
            call.spent, call.claimed_by = False, ""
        self.counts["runs forked"] += not seen.copying

    def session_written(self, seen: RunSeen, event: ev.SessionWritten) -> None:
        """A session has so many items of a run."""
        seen.told_session = seen.told_session or (event.frame == ev.ROOT and event.count > 0)

    def drill_ended(self, seen: RunSeen, event: ev.DrillEnded) -> None:
        """Somebody answered a drill, or its time is up."""
        seen.over, seen.ended = True, "finished"
        self.counts["drills answered"] += event.decision.via != "clock"
        if not seen.drill:
            self._wrong(f"run {seen.id[:4]} is no drill, and ended as one")

    def _drill_opened(self, seen: RunSeen) -> None:
        """A drill begins: one in each period, however many processes there are."""
        self.counts["drills opened"] += 1
        others = [run for run in self.runs.values() if run.drill and run is not seen and not run.copying]
        if any(run.opened // DRILLS_EVERY == seen.now // DRILLS_EVERY for run in others):
            self._wrong(f"run {seen.id[:4]} is the second drill of its period")

    def let_by_rule(self, seen: RunSeen, call: Seen, event: ev.CallScreened) -> None:
        """A rule lets a call run: of a share others are asked, and a breaker of all runs is told how it ends."""
        kinds, number = self._kinds, parse(call.args or "{}").get("n", 99)
        if kinds.sampled == call.name and kinds.sample == 1.0 and event.by.startswith("policy") and number < 30:
            self._owed[f"{seen.id}/{event.call}"] = ()
        shared = kinds.trips is not None and kinds.trips.shared and kinds.trips.tool == call.name
        if shared and not event.watched:
            self._wrong(f"{event.call} runs unasked, and its breaker would not be told of it")

    def review_asked(self, seen: RunSeen, event: ev.ReviewAsked) -> None:
        """Others are asked of a call, those aside on whose word it runs."""
        call = seen.calls[event.call]
        call.review_without = event.deciders
        call.review_role = (call.terms.role or "") if call.terms is not None and event.why == "glass" else ""
        if not set(self._owed.pop(f"{seen.id}/{event.call}", ())) <= set(event.deciders):
            self._wrong(f"those on whose word {event.call} runs are asked to review it")
        self.counts[f"reviews asked: {event.why}"] += 1

    def review_given(self, seen: RunSeen, event: ev.ReviewGiven) -> None:
        """Somebody says of a call whether it was rightly let run: one who had no part in it, once."""
        call, who = seen.calls[event.call], event.decider
        if call.review_without is None:
            self._wrong(f"{event.call} was reviewed, and nobody was asked")
        elif {who.id, who.acting_for} & set(call.review_without):
            self._wrong(f"{event.call} was reviewed by {who.id}, on whose word it ran")
        if who.strength == "claimed" or (call.review_role and call.review_role not in who.roles):
            self._wrong(f"{event.call} was reviewed by {who}, and takes the role {call.review_role!r}")
        call.review_without = None
        seen.reviews.add((event.call, event.verdict, who.id))
        self.counts["reviews given"] += 1

    def glass_broken(self, seen: RunSeen, made: ev.Decision) -> None:
        """Others are to be asked of it in the same line."""
        if made.broke_glass and made.decider is not None:
            names = (made.decider.id, made.decider.acting_for)
            self._owed[f"{seen.id}/{made.call}"] = tuple(filter(None, names))

    def set_aside(self, seen: RunSeen, event: ev.RunFailed) -> None:
        """A run stopped, perhaps because it ended those who took it up."""
        seen.failed, seen.aside = True, bool(event.lost)
        self.counts["set aside"] += seen.aside

    def resumed(self, seen: RunSeen, event: ev.RunResumed) -> None:
        """Somebody takes a run up again: by name, where it was set aside."""
        if seen.aside and event.decider is None:
            self._wrong(f"run {seen.id[:4]} was set aside, and went on though no person resumed it")
        seen.aside = False

    def line_ends(self) -> None:
        """Look at what one line has to hold as a whole."""
        for call in self._owed:
            self._wrong(f"{call} was let run, others are to be asked about it, and nobody is")
        self._owed.clear()

    # Breakers --------------------------------------------------------------------------------------------------------

    def troubled(self, seen: RunSeen, call: Seen) -> None:
        """A call was rejected, or failed."""
        seen.troubles.setdefault(call.name, []).append(seen.now)
        if call.watched:
            seen.to_tell.add(call.id)

    def on_record(self, seen: RunSeen, name: str) -> list[int]:
        """When calls of a tool were in trouble, as far as whoever asks now can know."""
        trips = self._kinds.trips
        if trips is None or not trips.shared or trips.tool != name:
            return [*seen.troubles.get(name, ())]
        return [at for run in self.runs.values() if run.counts for at in run.told]

    def counted(self, seen: RunSeen, event: ev.QuotaTaken) -> None:
        """A call counts for a limit that runs share, or was in trouble."""
        if not seen.counts:
            self.counts["counted for all runs"] += 1
            return
        self.counts["troubles told to all runs"] += 1
        if (event.run, event.call) in seen.told_of:
            return  # it was in trouble with other arguments
        seen.told_of.add((event.run, event.call))
        seen.told.append(seen.now)

    def not_told(self) -> Iterator[str]:
        """Which troubles no breaker was told of, of runs that are over."""
        told = {place for run in self.runs.values() for place in run.told_of}
        for run in self.runs.values():
            for call in sorted(run.to_tell) if run.over else ():
                if (run.id, call) not in told:
                    yield f"run {run.id[:4]}: {call} was in trouble, and its breaker was never told"

    def finished(self, seen: RunSeen, event: ev.CallFinished) -> None:
        """A call has a result."""
        call = seen.calls[event.call]
        claims.finished(seen, call, event, self.reports, self._wrong)
        if event.failed and call.started:
            self.troubled(seen, call)
        call.started = False

    def needs(self, seen: RunSeen, event: ev.CallNeeds) -> None:
        """A call that was started cannot go on without an answer: what ends it before its next start is no failure."""
        seen.calls[event.call].started = False

    def _held_back(self, seen: RunSeen, call: Seen) -> None:
        """What starts unasked has no breaker open that was open when it was proposed."""
        trips = self._kinds.trips
        if trips is None or trips.tool != call.name or call.licence in ("word", "") or "grant:" in call.licence:
            return
        recent = [at for at in call.troubles if at > seen.now - 1_000 * trips.seconds]
        self.counts["starts beside a breaker"] += 1
        if len(recent) >= trips.most:
            self._wrong(f"{call.id} was started unasked after {len(recent)} troubles: its breaker was open")

    def starts(self, seen: RunSeen, call: Seen) -> None:
        """A call is started."""
        call.started = True
        if seen.aside:
            self._wrong(f"{call.id} was started in a run that is set aside")
        if seen.drill:
            self._wrong(f"{call.id} of a drill was started")
        if not seen.copying:
            self._held_back(seen, call)

    # Effects ---------------------------------------------------------------------------------------------------------

    def unasked(self, call: Seen, permit: Permit, spec: Spec, stated: str | None, params: dict[str, Any]) -> None:
        """A tool is touched that nobody decided: what lets it run said so, and what was assigned was heard."""
        kinds, asked = self._kinds, (call.label, params["n"])
        if spec.gate == "asks_if" and permit.licence == "tool" and (spec.name, *asked) not in self.cleared:
            self._wrong(f"{spec.name} of {call.id} ran unasked, and its needs_approval never said so")
        if kinds.doubted == spec.name and ("when", *asked) not in self.cleared:
            self._wrong(f"{spec.name} of {call.id} ran unasked, and the condition of a rule never said so")
        by_policy = kinds.late_policy or stated is None
        if params["note"] == f"late {call.screened_by}" and by_policy and not call.ungated:
            self._wrong(f"{spec.name} of {call.id} ran unasked by {call.screened_by}, which had been told to ask")
        self.counts["late, and unasked elsewhere"] += params["note"].startswith("late")

    def recorded_terms(self, call: Seen, words: list[tuple[ev.Decision, int]]) -> None:
        """The terms on which a call asked hold for its start, whatever its tool states by now.

        `words` are the approval and the last word to try it again, with how many people each is of: on newer terms, on
        which a call in doubt was asked again, the second is enough. Of a chain they are those of its last step:
        `chains` knows the words of the others.
        """
        terms = call.steps[-1] if call.steps else call.terms
        if terms is None:
            return
        if not any(_meets(terms, made, agreed) for made, agreed in words):
            self._wrong(f"{call.id} was asked on {terms}, and ran on the words {words}")


def _meets(terms: Approval, made: ev.Decision, agreed: int) -> bool:
    if made.broke_glass or made.verdict not in ("approve", "edit", "retry"):
        return True
    roles = () if made.decider is None else made.decider.roles
    return terms.quorum <= agreed and (terms.role is None or bool(terms.users) or terms.role in roles)


def process_name() -> str:
    """The process that says this."""
    return PROCESS.get().name
