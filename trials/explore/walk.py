"""Walk a small world breadth first: every act in every state that is new, layer by layer.

A state is kept as five bytes, its parent and the act that led to it, and as a digest. The worlds themselves are made
again along the path from the beginning; since the states of a layer come in the order in which they were found, one
path shares most of its worlds with the one before.
"""

from __future__ import annotations

import time
from array import array
from dataclasses import dataclass, field
from random import Random

from keyturn.audit.calls import Broken as Unaudited
from keyturn.audit.log import read_step
from keyturn.audit.run import AuditedRun
from keyturn.core.codec import decode, encode
from keyturn.core.folding import fold
from keyturn.core.run import Run, new_run

from . import canon
from .acts import Act
from .book import Broken
from .moves import Cast, Spares, happen
from .seen import Seen
from .world import World

SAMPLE = 64  # one state in so many is read back from its log
FOLDS = 512  # one in so many that were taken for a known state is walked beside it
AHEAD = 8  # for so many acts
KEPT = 250_000  # so many worlds that are still to be expanded are kept whole; others are made again
FAR = 1 << 40


@dataclass
class Walked:
    """What came of a walk: how far it went, and the shortest trace that breaks a promise, if there is one."""

    name: str
    states: int = 0
    transitions: int = 0
    refused: int = 0
    beyond: int = 0
    folded: int = 0
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
        self.seen.place(canon.of_world(cast.start, cast.horizon))
        self.kept: dict[int, World] = {}
        self.path, self.aside = (Path(cast, self.parents, self.acts) for _ in range(2))

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
        world = self.kept.pop(state, None) or self.path.world(state)
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
        place = self.seen.place(canon.of_world(after, self.cast.horizon))
        if place < len(self.parents):
            walked.folded += 1
            if walked.folded % FOLDS == 0:
                self._alike(state, number, after, place)
        else:
            self.parents.append(state)
            self.acts.append(number)
            if len(self.kept) < KEPT:
                self.kept[len(self.parents) - 1] = after
            if len(self.seen) % SAMPLE == 0:
                self._read_back(state, number, after)

    def _alike(self, state: int, number: int, after: World, place: int) -> None:
        """Check that a world and the known state that it was taken for have the same future, for some acts on."""
        cast, chance = self.cast, Random(state)
        pair, way = (after, self.aside.world(place)), [cast.acts[number].words]
        for _ in range(AHEAD):
            outcomes = [[self._next(world, act) for act in cast.acts] for world in pair]
            differ = [act.words for act, one, other in zip(cast.acts, *outcomes, strict=True) if one[1] != other[1]]
            if differ:
                known = [cast.acts[self.acts[each]].words for each in self.path.numbers(place)[1:]]
                self._broke(state, way[0], Broken("fold", f"taken for what comes of: {', '.join(known)}"))
                self.walked.trace += [*way[1:], f"{differ[0]}: here it leads elsewhere"]
                return
            both = zip(cast.acts, *outcomes, strict=True)
            further = [(act.words, one[0], other[0]) for act, one, other in both if one[0] and other[0]]
            if not further:
                return
            words, *pair = chance.choice(further)
            way.append(words)

    def _next(self, world: World, act: Act) -> tuple[World | None, bytes | str]:
        """Return what comes of an act, and its digest, or what it breaks."""
        try:
            after = happen(self.cast, world, act, Spares(world))
        except Broken as broken:
            return None, broken.promise
        return after, "" if after is None else canon.of_world(after, self.cast.horizon)

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
