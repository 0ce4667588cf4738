"""In which order tenants are served: a small model says what turns are, and the rounds of a worker keep to it."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyturn.engine.tenant_rounds import TenantRounds
from keyturn.journal.optional import TenantDue

NAMES = [f"t{number}" for number in range(8)]
ROUNDS = st.lists(st.tuples(st.sets(st.sampled_from(NAMES)), st.integers(1, 4)), min_size=4, max_size=30)


class Served:
    """Movers with so many free slots, which note what each tenant was given."""

    free = 1

    def full(self) -> set[str]:
        return set()


@pytest.mark.trial
@settings(max_examples=100)
@given(ROUNDS)
def test_between_two_of_its_turns_a_tenant_waits_for_one_turn_of_each_other(rounds: list[tuple[set[str], int]]) -> None:
    """Whoever is due is served before any other is served twice."""

    async def play() -> None:
        movers = Served()
        turns = TenantRounds(cast("Any", None), cast("Any", movers))
        passed = dict[str, list[str]]()  # who was served while a tenant was due
        for due, movers.free in rounds:
            served = turns.in_turn([TenantDue(name, 0) for name in sorted(due)])
            assert len(served) == min(movers.free, len(due))
            passed = {name: [*passed.get(name, ()), *served] for name in due - {*served}}
            for name, others in passed.items():
                assert len(others) == len({*others}), f"{name} waited while {others} were served"

    asyncio.run(play())
