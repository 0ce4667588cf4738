"""Walk a small world breadth first: every act in every state that is new, layer by layer.

A state is kept as five bytes, its parent and the act that led to it, and as a digest. The worlds themselves are made
again along the path from the beginning; since the states of a layer come in the order in which they were found, one
path shares most of its worlds with the one before.
"""

from __future__ import annotations

import time
from array import array
from dataclasses import dataclass, field

from keyturn.audit.calls import Broken as Unaudited
from keyturn.audit.log import read_step
from keyturn.audit.run import AuditedRun
from keyturn.core.codec import decode, encode
from keyturn.core.evolve import fold
from keyturn.core.run import Run, new_run

from . import canon
from .book import Broken
from .moves import Cast, Spares, happen
from .seen import Seen
from .world import World

SAMPLE = 64  # one state in so many is read back from its log
FAR = 1 << 40


@dataclass
class Walked:
    """What came of a walk: how far it went, and the shortest trace that breaks a promise, if there is one."""

    name: str
    states: int = 0
    transitions: int = 0
    refused: int = 0
    beyond: int = 0
    depth: int = 0
    closed: bool = False
    seconds: float = 0.0
    broke: str = ""
    trace: list[str] = field(default_factory=list[str])


class Path:
    """The worlds from the beginning to one state, made again where they are not those of the state before."""

    def __init__(self, cast: Cast, parents: array[int], acts: array[int]) -> None:
        self._cast, self._parents, self._acts = cast, parents, acts
        self._numbers, self._worlds = [0], [cast.start]

    def numbers(self, state: int) -> list[int]:
        """Return the states on the way to one, the beginning first."""
        way = [state]
        while way[-1]:
            way.append(self._parents[way[-1]])
        return way[::-1]

    def world(self, state: int) -> World:
        """Return the world of a state."""
        way = self.numbers(state)
        same = 0
        while same < min(len(way), len(self._numbers)) and way[same] == self._numbers[same]:
            same += 1
        del self._numbers[same:], self._worlds[same:]
        for number in way[same:]:
            before = self._worlds[-1]
            world = happen(self._cast, before, self._cast.acts[self._acts[number]], Spares(before))
            assert world is not None
            self._numbers.append(number)
            self._worlds.append(world)
        return self._worlds[-1]


class Walk:
    """One walk of one world."""

    def __init__(self, cast: Cast) -> None:
        self.cast = cast
        self.walked = Walked(cast.name)
        self.parents: array[int] = array("I", [0])
        self.acts: array[int] = array("B", [0])
        self.seen = Seen()
        self.seen.add(canon.of_world(cast.start, cast.horizon))
        self.path = Path(cast, self.parents, self.acts)

    def go(self, states: int, depth: int) -> Walked:
        """Walk to so many states and so deep at most, or until a promise is broken."""
        walked, begun = self.walked, time.process_time()
        first, last = 0, 1
        while first < last and walked.depth < depth and len(self.seen) < states and not walked.broke:
            for state in range(first, last):
                self._expand(state)
                if walked.broke or len(self.seen) >= states:
                    break
            else:
                first, last = last, len(self.parents)
                walked.depth += first < last
        walked.closed = first == last
        walked.states, walked.seconds = len(self.seen), time.process_time() - begun
        return walked

    def _expand(self, state: int) -> None:
        """Try every act in a state."""
        cast, walked = self.cast, self.walked
        world = self.path.world(state)
        spares = Spares(world)
        for place in range(len(cast.acts)):
            # Each begins elsewhere, so that every act is among those after which nothing may have changed.
            number = (state + place) % len(cast.acts)
            act = cast.acts[number]
            try:
                after = happen(cast, world, act, spares)
            except Broken as broken:
                self._broke(state, act.words, broken)
                return
            if after is not None:
                self._reached(state, number, after)
        walked.refused += spares.refused
        for place, spare in enumerate(spares.runs):
            if spare is not None and self._differs(world, place, spare):
                broken = Broken("I8", "a command that was refused, or said nothing, changed the run")
                self._broke(state, self._who_changed(world, place), broken)

    def _reached(self, state: int, number: int, after: World) -> None:
        walked = self.walked
        walked.transitions += 1
        if any(call.asks > self.cast.asks for run in after.runs for call in run.calls.values()):
            walked.beyond += 1
            return
        if self.seen.add(canon.of_world(after, self.cast.horizon)):
            self.parents.append(state)
            self.acts.append(number)
            if len(self.seen) % SAMPLE == 0:
                self._read_back(state, number, after)

    def _read_back(self, state: int, number: int, after: World) -> None:
        """Read a state back from its log, and have the log audited."""
        words = self.cast.acts[number].words
        if not replays(after):
            self._broke(state, words, Broken("I5", "the log read back is another run"))
        for run, log in zip(after.runs, after.logs, strict=True):
            audit = AuditedRun(run.id)
            try:
                for step in log:
                    read_step(audit, step)
            except Unaudited as fault:
                self._broke(state, words, Broken("I8", f"keyturn check says of it: {fault}"))

    def _differs(self, world: World, place: int, run: Run) -> bool:
        horizon = self.cast.horizon
        return canon.of_run(run, world.clock, horizon) != canon.of_run(world.runs[place], world.clock, horizon)

    def _who_changed(self, world: World, place: int) -> str:
        for act in self.cast.acts:
            spares = Spares(world)
            if act.command is not None and happen(self.cast, world, act, spares) is None:
                run = spares.runs[place]
                if run is not None and self._differs(world, place, run):
                    return act.words
        return "one of the commands"

    def _broke(self, state: int, words: str, broken: Broken) -> None:
        self.walked.broke = self.walked.broke or str(broken)
        self.walked.trace = [self.cast.acts[self.acts[number]].words for number in self.path.numbers(state)[1:]]
        self.walked.trace.append(words)


def replays(world: World) -> bool:
    """Whether each log, written down and read back, folds to the run that it is of."""
    for run, log in zip(world.runs, world.logs, strict=True):
        again = fold(new_run(), [decode(encode(step)) for step in log])
        if canon.of_run(again, world.clock, FAR) != canon.of_run(run, world.clock, FAR):
            return False
    return True
