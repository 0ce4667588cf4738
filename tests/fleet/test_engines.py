"""The suite of engines, over the journal's own, one of a user's, and engines that are wrong as engines can be."""

from __future__ import annotations

from keyturn.fleet import Engine
from keyturn.journal.base import Store
from keyturn.testing import EngineSuite

from .own_engine import QUEUES, DeafEngine, DoublingEngine, LateEngine, LocalEngine, LyingEngine


class TestJournalEngine(EngineSuite):
    orders = True

    def make_engine(self, store: Store) -> Engine | None:
        return None


class TestLocalEngine(EngineSuite):
    def make_engine(self, store: Store) -> Engine | None:
        return LocalEngine(store)

    async def lose_state(self, store: Store) -> None:
        QUEUES.pop(store)


class TestDeafEngine(EngineSuite):
    mute = True

    def make_engine(self, store: Store) -> Engine | None:
        return DeafEngine(store)


class TestDoublingEngine(EngineSuite):
    def make_engine(self, store: Store) -> Engine | None:
        return DoublingEngine(store)


class TestLateEngine(EngineSuite):
    def make_engine(self, store: Store) -> Engine | None:
        return LateEngine(store)


class TestLyingEngine(EngineSuite):
    mute = True

    def make_engine(self, store: Store) -> Engine | None:
        return LyingEngine(store)
