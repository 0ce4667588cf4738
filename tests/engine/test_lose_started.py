"""What was at work when a run is left is lost, except what has ended while that was being recorded."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from keyturn.core import commands as cm
from keyturn.core.errors import Conflict
from keyturn.engine.effects.recover import lose_started


class Driven:
    """A run with calls at work; `ends` are those whose results come in while the loss of all is recorded."""

    def __init__(self, ends: list[str]) -> None:
        started = {
            name: SimpleNamespace(id=name, proposal=SimpleNamespace(claimed=False)) for name in ("r/1.0", "r/2.0")
        }
        self.run = SimpleNamespace(groups={"started": started}, frames={})
        self.ends, self.lost = ends, list[str]()

    async def commit(self, *commands: cm.LoseCall) -> None:
        for name in self.ends:
            self.run.groups["started"].pop(name, None)
        if any(command.call not in self.run.groups["started"] for command in commands):
            raise Conflict("this needs a call that is started; it is settled")
        self.lost += [command.call for command in commands]


@pytest.mark.each
@pytest.mark.parametrize("ends", [[], ["r/1.0"], ["r/1.0", "r/2.0"]])
async def test_a_call_that_ended_meanwhile_is_not_lost_and_the_others_are(ends: list[str]) -> None:
    drive: Any = Driven(ends)
    left = [name for name in ("r/1.0", "r/2.0") if name not in ends]
    assert [call.id for call in await lose_started(drive, "it was cancelled")] == left
    assert drive.lost == left


async def test_whoever_holds_the_run_no_more_is_told_so() -> None:
    drive: Any = Driven([])

    async def refuse(*_commands: Any) -> None:
        raise Conflict("the run is held by somebody else")

    drive.commit = refuse
    with pytest.raises(Conflict, match="somebody else"):
        await lose_started(drive, "it was cancelled")
