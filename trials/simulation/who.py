"""Who reads the directory's lines as they become durable: which roles somebody had at a place, and what that permits.

It knows the entries and not the code that folds them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from keyturn.core.people import Decider
from keyturn.core.seal import body_of
from keyturn.directory import events as ev
from keyturn.directory.events import read_entry

from .made import journal_time

NAME = "@directory"
ROOT = "root"
# Those who take part in the weather, and those who decide what is left when it is over.
CROWD = ("ada", "bob", "cyd")
LAST = ("eve", "fay")
LEADS, CHIEFS, BOARD = "leads", "chiefs", "board"
Lent = tuple[str, str, int, frozenset[str]]


def everybody() -> dict[str, list[str]]:
    """Everybody with their roles, as the directory begins: of the crowd one may break the glass, and none is board."""
    made = {name: [LEADS] for each in CROWD for name in (each, friend_of(each))}
    made |= {CROWD[0]: [LEADS, CHIEFS], "caller": [], "system": []}
    return made | {name: [LEADS, CHIEFS, BOARD] for name in LAST}


def friend_of(name: str) -> str:
    """A friend's name."""
    return f"{name}-friend"


@dataclass
class Register:
    """The directory as its lines tell it; `history` has for each place who had which roles, and what was lent."""

    roles: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    lent: dict[str, Lent] = field(default_factory=dict[str, Lent])
    history: list[tuple[int, dict[str, frozenset[str]], dict[str, Lent]]] = field(
        default_factory=list[tuple[int, dict[str, frozenset[str]], dict[str, Lent]]]
    )

    def read(self, lines: list[bytes]) -> None:
        """Read lines that are durable now."""
        for line in lines:
            for event in read_entry(body_of(line)).events:
                self._hear(event)
            self.history.append((journal_time(), dict(self.roles), dict(self.lent)))

    def _hear(self, event: ev.AnyDirectoryEvent) -> None:
        match event:
            case ev.RoleGiven():
                self.roles[event.person] = self.roles.get(event.person, frozenset()) | {event.role}
            case ev.RoleTaken():
                self.roles[event.person] = self.roles.get(event.person, frozenset()) - {event.role}
            case ev.Delegated():
                self.lent[event.delegation] = (event.giver, event.receiver, event.until, frozenset(event.roles))
            case ev.DelegationEnded():
                self.lent.pop(event.delegation, None)
            case _:
                pass

    def place_at(self, time: int) -> int:
        """How many entries were durable before a time."""
        return sum(at < time for at, _, _ in self.history)

    def judge(self, who: Decider, said: int, wrong: Callable[[str], None]) -> None:
        """Whether somebody who spoke at a time had what is recorded of them, by a place no older than their word."""
        if who.place is None or not 0 < who.place <= len(self.history):
            wrong(f"{who.id} decided by place {who.place} of a directory of {len(self.history)}")
            return
        if who.place < self.place_at(said):
            wrong(f"{who.id} decided by place {who.place}, which was older than their word")
        _, roles, lent = self.history[who.place - 1]
        own = roles.get(who.id, frozenset[str]())
        if who.acting_for:
            between = (who.acting_for, who.id)
            holds = [each for each in lent.values() if each[:2] == between and each[2] > said]
            given = roles.get(who.acting_for, frozenset[str]())
            own = frozenset[str]().union(*(given & some if some else given for _, _, _, some in holds))
        if not set(who.roles) <= own:
            wrong(f"{who.id} decided as {who.roles}, and had {sorted(own)} at place {who.place}")
