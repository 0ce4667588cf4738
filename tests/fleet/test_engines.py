"""The suite of engines, over the journal's own, one of a user's, and engines that are wrong as engines can be."""

from __future__ import annotations

import pytest

from keyturn.fleet import Engine
from keyturn.journal.base import Store
from keyturn.testing import EngineSuite
from keyturn.testing.suites import engine_case
from keyturn.testing.suites.engine_tenants import EngineTenants

from .own_engine import QUEUES, DeafEngine, DoublingEngine, LateEngine, LocalEngine, LyingEngine, SlottedEngine


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


class TestSlottedEngine(EngineTenants):
    def make_engine(self, store: Store) -> Engine | None:
        return SlottedEngine(store)


@pytest.mark.trial
@pytest.mark.timeout(600)
@pytest.mark.parametrize("suite", [TestJournalEngine(), TestLocalEngine()], ids=["journal", "local"])
async def test_ten_thousand_runs_that_are_due_at_once_are_all_moved(
    suite: EngineSuite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EngineSuite, "many", 10_000)
    monkeypatch.setattr(engine_case, "PATIENCE", 500.0)
    await suite.test_many_runs_at_once_are_all_moved()
