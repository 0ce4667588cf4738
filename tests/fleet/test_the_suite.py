"""The suite of engines notices what it is for: a build whose reconciler or whose line does nothing fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from keyturn.engine.engine_line import EngineLine
from keyturn.engine.reconciler import Looks, Reconciler
from keyturn.engine.tenant_rounds import TenantMovers
from keyturn.testing.suites import engine_case, engines
from tests.table import each

from .own_engine import DeafEngine, ForgetfulEngine, LocalEngine, SlottedEngine


async def _nothing(*_given: Any) -> None:
    """Stand in the place of what a broken build does not do."""


class _Deaf(engines.EngineSuite):
    def make_engine(self, store: Any) -> Any:
        return DeafEngine(store)


class _Local(engines.EngineSuite):
    def make_engine(self, store: Any) -> Any:
        return LocalEngine(store)


class _Slotted(engines.EngineSuite):
    def make_engine(self, store: Any) -> Any:
        return SlottedEngine(store)


class _Forgetful(engines.EngineSuite):
    def make_engine(self, store: Any) -> Any:
        return ForgetfulEngine(store)


@each(
    "owner, name, test",
    [
        (Reconciler, "_move", lambda: _Deaf().test_a_wake_moves_a_run()),
        (Looks, "look", lambda: _Deaf().test_a_wake_of_what_is_not_due_moves_nothing()),
        (EngineLine, "wake", lambda: _Local().test_a_wake_moves_a_run()),
        (TenantMovers, "move", lambda: _Local().test_one_worker_moves_the_runs_of_several_tenants()),
        (ForgetfulEngine, "_", lambda: _Forgetful().test_one_worker_moves_the_runs_of_several_tenants()),
        (TenantMovers, "_pull", lambda: _Slotted().test_a_tenant_with_many_due_runs_delays_no_other()),
        (TenantMovers, "_pull", lambda: _Slotted().test_a_tenant_whose_slots_are_in_use_leaves_those_of_others()),
        (LocalEngine, "forget", lambda: _Local().test_an_erased_run_leaves_nothing_in_the_engine()),
    ],
)
async def test_a_build_that_does_less_is_noticed(owner: type, name: str, test: Callable[[], Any]) -> None:
    """With the reconciler's own times, so that it makes good nothing before the test gives up."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, _nothing, raising=name != "_")
        patch.setattr(engine_case, "PATIENCE", 0.5)
        with pytest.raises((TimeoutError, AssertionError)):
            await test()
