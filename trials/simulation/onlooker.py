"""Who watches the kinds that came later: forks, drills, reviews, breakers, queued runs, and callbacks that raise.

As the witness it knows events and not the code that folds them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from keyturn.core import events as ev

from .knobs import Spec
from .loop import PROCESS
from .plan import Plan
from .seen import Permit, RunSeen, Seen


class Onlooker:
    """Hears events of the later kinds. `cleared` are the answers by which callbacks let a call run unasked."""

    def __init__(self, plan: Plan, wrong: Callable[[str], None]) -> None:
        self._plan, self._wrong, self._kinds = plan, wrong, plan.kinds
        self.runs: dict[str, RunSeen] = {}
        self.counts = Counter[str]()
        self.cleared: set[tuple[str, str, Any]] = set()
        self.sessions: dict[str, list[str]] = {}
        self.began: list[str] = []
        self._owed: set[str] = set()

    # What a line says ------------------------------------------------------------------------------------------------

    def run_started(self, seen: RunSeen, event: ev.RunStarted) -> None:
        """A run begins."""
        seen.salt, seen.drill, seen.copying = event.salt, event.drill is not None, bool(event.copied_from)
        seen.session = str(event.about.get("session", ""))
        seen.input = str(event.input)
        self.counts["drills opened"] += seen.drill

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

    def run_forked(self, seen: RunSeen, _event: ev.RunForked) -> None:
        """A run goes on as a copy of another: nothing that was said or let run crosses."""
        seen.copying, seen.inputs, seen.withdrawn = False, 0, 0
        for call in seen.calls.values():
            call.licence, call.decision, call.legitimate, call.permits = "", None, None, []
            call.unasked = call.restored = False
            call.acted = call.retries = 0
        self.counts["runs forked"] += 1

    def drill_ended(self, seen: RunSeen, event: ev.DrillEnded) -> None:
        """Somebody answered a drill, or its time is up."""
        seen.over, seen.ended = True, "finished"
        self.counts["drills answered"] += event.decision.via != "clock"
        if not seen.drill:
            self._wrong(f"run {seen.id[:4]} is no drill, and ended as one")

    def review_asked(self, seen: RunSeen, event: ev.ReviewAsked) -> None:
        """Others are asked of a call."""
        call = seen.calls[event.call]
        call.review_without = event.deciders
        self._owed.discard(f"{seen.id}/{event.call}")
        self.counts[f"reviews asked: {event.why}"] += 1

    def review_given(self, seen: RunSeen, event: ev.ReviewGiven) -> None:
        """Somebody says of a call whether it was rightly let run: one who had no part in it, once."""
        call, who = seen.calls[event.call], event.decider
        if call.review_without is None:
            self._wrong(f"{event.call} was reviewed, and nobody was asked")
        elif {who.id, who.acting_for} & set(call.review_without):
            self._wrong(f"{event.call} was reviewed by {who.id}, on whose word it ran")
        call.review_without = None
        self.counts["reviews given"] += 1

    def glass_broken(self, seen: RunSeen, made: ev.Decision) -> None:
        """Others are to be asked of it in the same line."""
        if made.broke_glass:
            self._owed.add(f"{seen.id}/{made.call}")

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
            self._wrong(f"{call} was let run in an emergency, and nobody is asked to review it")
        self._owed.clear()

    # Breakers --------------------------------------------------------------------------------------------------------

    def troubled(self, seen: RunSeen, call: Seen) -> None:
        """A call was rejected, or failed."""
        seen.troubles.setdefault(call.name, []).append(seen.now)

    def finished(self, seen: RunSeen, event: ev.CallFinished) -> None:
        """A call has a result."""
        call = seen.calls[event.call]
        if event.failed and call.started:
            self.troubled(seen, call)
        call.started = False

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
        if params["note"] == f"late {call.screened_by}" and by_policy:
            self._wrong(f"{spec.name} of {call.id} ran unasked by {call.screened_by}, which had been told to ask")
        self.counts["late, and unasked elsewhere"] += params["note"].startswith("late")

    def recorded_terms(self, call: Seen, made: ev.Decision, agreed: int) -> None:
        """The terms on which a call asked hold for its start, whatever its tool states by now."""
        terms, who = call.terms, made.decider
        if terms is None or made.broke_glass or made.verdict not in ("approve", "edit"):
            return
        if terms.quorum > agreed:
            self._wrong(f"{call.id} was asked for {terms.quorum} people, and ran on the word of {agreed}")
        if terms.role is not None and not terms.users and (who is None or terms.role not in who.roles):
            self._wrong(f"{call.id} was asked for the role {terms.role}, and ran on the word of {who}")


def process_name() -> str:
    """The process that says this."""
    return PROCESS.get().name
