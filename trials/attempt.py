"""One crash trial: a first life that meets its fault, perhaps a second that meets one too, and one that checks.

What faults there are, and what each counts, stands in `KINDS`. A trial can be written as a line of text and tried again
from it.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any

from .after_life import AfterLife
from .faulty_files import DiskFault, install
from .faulty_wire import Wire, WireFault
from .first_life import FirstLife
from .forks import Child, Ended
from .lives import LATER_MS, Place
from .places import Places
from .world import World


@dataclass(frozen=True)
class Kind:
    """A way of failing: where, how, at what it counts, its share of all trials. Where it `kills`, nobody lives on."""

    store: str
    how: str
    counts: str
    share: float
    kills: bool = True
    told: tuple[str, ...] = ()


# Where the disk failed a lease may not have been given back, and until it expires its run is held.
HELD = ("Conflict", "RunHeld")

#: By name. `counts` is what a life reports and K counts; `told` are the errors that a caller may be given.
KINDS: dict[str, Kind] = {
    "sqlite: kill before a write": Kind("sqlite", "before", "write", 18),
    "sqlite: kill after a write": Kind("sqlite", "after", "write", 10),
    "sqlite: kill in half a write": Kind("sqlite", "torn", "write", 12),
    "sqlite: kill before a sync": Kind("sqlite", "before", "sync", 6),
    "sqlite: kill after a sync": Kind("sqlite", "after", "sync", 6),
    "sqlite: power lost": Kind("sqlite", "power", "both", 12),
    "sqlite: kill before an effect": Kind("sqlite", "effect before", "effects", 3),
    "sqlite: kill after an effect": Kind("sqlite", "effect after", "effects", 3),
    "postgresql: kill before a message": Kind("postgresql", "kill before", "messages", 14),
    "postgresql: kill after a message": Kind("postgresql", "kill after", "messages", 12),
    "postgresql: kill before an effect": Kind("postgresql", "effect before", "effects", 2),
    "postgresql: kill after an effect": Kind("postgresql", "effect after", "effects", 2),
    "sqlite: disk full": Kind("sqlite", "full", "write", 8, kills=False, told=("StorageFull", *HELD)),
    "sqlite: a write fails (EIO)": Kind("sqlite", "eio", "write", 5, kills=False, told=("StorageError", *HELD)),
    "sqlite: a sync fails (EIO)": Kind("sqlite", "eio", "sync", 4, kills=False, told=("StorageError", *HELD)),
    "postgresql: cut before a message": Kind("postgresql", "cut before", "messages", 4, kills=False),
    "postgresql: cut after a message": Kind("postgresql", "cut after", "messages", 4, kills=False),
    "postgresql: answer to COMMIT lost": Kind("postgresql", "reply lost", "commits", 4, kills=False),
    "postgresql: COMMIT comes late": Kind("postgresql", "late", "commits", 2, kills=False),
}
# The chapter that begins without a store. Of one that is being opened nothing can be repeated: whoever opens it is
# told, and opens it again.
FRESH = "opening"
AT_OPENING = ("opening: StorageError", "opening: StorageFull")


@dataclass(frozen=True)
class Trial:
    """One trial. `again` is where the second life is ended as well, 0 where it is not."""

    kind: str
    chapter: str
    way: str
    at: int
    again: int = 0
    seed: int = 0

    def __str__(self) -> str:
        return f"{self.kind}/{self.chapter}/{self.way}/{self.at}/{self.again}/{self.seed}"

    @classmethod
    def read(cls, text: str) -> Trial:
        """The trial that such a line names."""
        kind, chapter, way, at, again, seed = text.split("/")
        return cls(kind, chapter, way, int(at), int(again), int(seed))


@dataclass
class Found:
    """What came of a trial: whether its fault came about, what was met, and what was broken."""

    struck: bool = False
    met: dict[str, int] = field(default_factory=dict[str, int])
    broken: list[str] = field(default_factory=list[str])
    seen: dict[str, int] = field(default_factory=dict[str, int])


Play = Callable[[Place, World, DiskFault], Coroutine[Any, Any, dict[str, Any]]]


def attempt(trial: Trial, ours: Places, known: dict[str, Any]) -> Found:
    """Try a trial from its first life to its last."""
    place = ours.new(KINDS[trial.kind].store, fresh=trial.chapter == FRESH)
    found = Found()

    def first(there: Place, world: World, disk: DiskFault) -> Coroutine[Any, Any, dict[str, Any]]:
        return FirstLife(there, trial.way, world, (lambda: disk.struck, disk.mend)).play(trial.chapter)

    def after(there: Place, world: World, _disk: DiskFault) -> Coroutine[Any, Any, dict[str, Any]]:
        life = AfterLife(there, trial.way, world, known)
        life.claims = KINDS[trial.kind].how != "power"  # a claim need not outlive the machine
        return life.play()

    ended = _lived(trial, ours, place, first, trial.at)
    said = ended.said or {}
    found.struck = ended.killed if KINDS[trial.kind].kills else bool(said.get("struck"))
    found.seen = {"effects": said.get("effects", 0), **said.get("seen", {})}
    found.broken += _first_broken(trial, ended)
    place = replace(place, ahead=LATER_MS * 10)
    twice = found.struck and trial.again > 0 and _lived(trial, ours, place, after, trial.again).killed
    place = replace(place, ahead=LATER_MS * 20)
    last = Child(lambda: asyncio.run(after(place, World(place.folder / "effects"), DiskFault()))).wait()
    if last.said is None or "error" in last.said:
        found.broken.append(f"the last life: {last.said['error'] if last.said else 'stands still'}")
    else:
        found.broken += last.said["broken"]
        doubts = last.said["doubts"] + said.get("doubts", 0)
        found.met = {"runs": last.said["runs"], "doubts": doubts, "killed again": int(twice)}
    ours.clear(place)
    return found


def _lived(trial: Trial, ours: Places, place: Place, play: Play, at: int) -> Ended:
    """Have a process live until its fault, or until it is done; what it said, and what was counted."""
    kind = KINDS[trial.kind]
    word, _, when = kind.how.partition(" ")
    inside = word == "effect"
    world = World(place.folder / "effects", (when, at) if inside else None)
    if kind.store == "sqlite":
        disk = DiskFault("never" if inside else kind.how, kind.counts, at, trial.seed)
        return Child(lambda: _on_disk(disk, play, place, world)).wait()
    assert ours.socket is not None
    wire = Wire(ours.socket, WireFault("never" if inside else kind.how, at))
    wired = ours.wired(place, wire)
    ended = wire.serve(Child(lambda: asyncio.run(play(wired, world, DiskFault()))))
    if ended.said is not None:
        fault = wire.fault
        ended.said["struck"] = fault.struck
        ended.said["seen"] = {"messages": fault.messages, "commits": fault.commits}
    return ended


def _on_disk(disk: DiskFault, play: Play, place: Place, world: World) -> dict[str, Any]:
    """A life on a disk that fails."""
    sys.unraisablehook = lambda _told: None  # what a disk's failure is to SQLite is no news to anybody
    files = install(disk)
    said = asyncio.run(play(place, world, disk))
    files.unregister()
    return {**said, "struck": disk.struck, "seen": disk.seen}


def _first_broken(trial: Trial, ended: Ended) -> list[str]:
    """What the first life must not have done: end otherwise than meant, or be told of what nobody may be told."""
    kind, said = KINDS[trial.kind], ended.said or {}
    if ended.late:
        return ["the first life stands still"]
    if ended.signal is not None and not (ended.killed and kind.kills):
        return [f"the first life was ended by signal {ended.signal}"]
    if "error" in said:
        return [f"the first life: {said['error']}"]
    allowed = (*kind.told, *(() if kind.kills else AT_OPENING))
    return [f"told {name} {count} times" for name, count in said.get("trouble", {}).items() if name not in allowed]
