"""Runs that wait for their turn on a session, and the session: it is kept beside the store, and outlives processes."""

from __future__ import annotations

import re
from collections import Counter
from copy import deepcopy
from typing import Any

from keyturn.sessions.base import SessionSettings

from .cast import ProviderDown
from .made import Made
from .world import World

SESSION = "a conversation"
_SILENT = 25.0


class Shelf:
    """One process's hands on the session."""

    session_id = SESSION

    def __init__(self, world: World) -> None:
        self._world = world
        self.session_settings = SessionSettings()

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """All items, or the newest of them."""
        await self._world.pause(self._world.queue_dice)
        items = self._world.session
        return deepcopy(items if limit is None else items[len(items) - min(limit, len(items)) :])

    async def add_items(self, items: list[Any]) -> None:
        """All of them at once; the process may die before and after.

        No session knows of leases: one that took what a process wrote after it stood still would hold it twice. This
        one closes a connection that was silent for so long.
        """
        world, dice, began = self._world, self._world.queue_dice, Made.loop.now
        await world.pause(dice)
        if Made.loop.now - began > _SILENT:
            world.count("session: connection closed")
            raise ProviderDown("the session closed a connection that was silent")
        dies = dice.random() if world.plan.death_rate and not world.calm else 1.0
        if dies < 0.03:
            await world.die()
        world.session += deepcopy(items)
        world.note(f"the session has {len(world.session)} items")
        if dies > 0.97 and dies < 1.0:
            await world.die()

    async def pop_item(self) -> Any:
        """The newest, which is taken off."""
        return self._world.session.pop() if self._world.session else None

    async def clear_session(self) -> None:
        """Nothing is left."""
        self._world.session.clear()


def check_session(world: World) -> None:
    """What a run that finished was asked is in the session once, in the order of turns; of another, once at most.

    A fork of a run that had begun, and of which nothing was in the session, may say it once more, at any time.
    """
    runs = [world.witness.runs[run] for run in world.witness.began]
    asked = {run.input for run in runs}
    heard = [
        text for item in world.session if item.get("role") == "user" and (text := str(item.get("content"))) in asked
    ]
    turns = "".join(f"({re.escape(run.input)}\n){'' if run.ended == 'finished' else '?'}" for run in runs)
    again = Counter(run.input for run in world.witness.runs.values() if run.retells and run.session)
    if not _in_order(turns, heard, again):
        ended = [(run.input, run.ended) for run in runs]
        world.wrong(f"the session has {heard} of the runs that began as {ended}")


def _in_order(turns: str, heard: list[str], again: Counter[str]) -> bool:
    """Whether what is in the session is in the order of turns, beside what forks said again."""
    if re.fullmatch(turns, "".join(f"{text}\n" for text in heard)) is not None:
        return True
    left = ((place, text) for place, text in enumerate(heard) if again[text])
    return any(_in_order(turns, [*heard[:place], *heard[place + 1 :]], again - Counter([text])) for place, text in left)
