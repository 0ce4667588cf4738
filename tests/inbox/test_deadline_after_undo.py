"""An approval that is withdrawn leaves the request the time that it had left: no deadline begins anew by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from keyturn import Agent, Approval, Inbox, MemoryJournal, Runner, RunState, function_tool
from keyturn.audit.checker import check
from keyturn.core.encodable import in_milliseconds
from keyturn.core.errors import Expired
from keyturn.core.people import Decider
from keyturn.journal.rows import RequestRow
from keyturn.models.scripted.model import ScriptedModel, function_call
from tests.inbox.paying import ANN, BOB, paid, paying
from tests.playing import HOUR, Clock

MINUTE = HOUR // 60
CEO = Decider("ceo", strength="authenticated")
QUORUM = {"role": "ops", "quorum": 2, "expires": "1h"}
ESCALATES = {"role": "ops", "expires": "1h", "on_expiry": "escalate", "escalate_to": ("ceo",)}


class Asked:
    """A call that asks, in a run that goes on when a test says so, by the clock of the test."""

    def __init__(self, tool: Any, **arguments: Any) -> None:
        paid.clear()
        self.clock = Clock()
        model = ScriptedModel([[function_call(tool.name, arguments)], "done"])
        self.agent = Agent("clerk", model=model, tools=[tool])
        self.journal = MemoryJournal(self.clock)
        self.inbox = Inbox(self.journal, {"clerk": self.agent})

    async def row(self) -> RequestRow:
        if not await self.journal.runs():
            await Runner.run(self.agent, "go", journal=self.journal)
        [row] = await self.inbox.list()
        return row

    async def goes_on(self) -> None:
        [run] = await self.journal.runs()
        await Runner.run(self.agent, await RunState.load(self.journal, run.run, self.agent))

    async def left(self) -> int:
        """How many minutes the request has left."""
        expires = (await self.row()).request.expires_at
        assert expires is not None
        return round((in_milliseconds(expires) - self.clock.now) / MINUTE)


@pytest.mark.parametrize(("terms", "people"), [({"expires": "1h"}, [ANN]), (QUORUM, [ANN, BOB])])
async def test_an_undo_gives_back_the_time_that_was_left(terms: dict[str, Any], people: list[Decider]) -> None:
    asked = Asked(paying(**terms), amount=5)
    for left in (35, 10):  # a second undo gives no more either
        row = await asked.row()
        asked.clock.pass_ms(25 * MINUTE)
        for person in people:
            row = await asked.inbox.approve(row, by=person)
        asked.clock.pass_ms(24 * HOUR)
        await asked.inbox.withdraw(row, by=people[-1])
        assert await asked.left() == left
    assert (await check(asked.journal)).violations == []
    asked.clock.pass_ms(11 * MINUTE)
    with pytest.raises(Expired):
        await asked.inbox.approve(await asked.row(), by=ANN)
    assert paid == []


async def test_a_request_that_escalated_has_the_time_that_its_escalation_had_left() -> None:
    asked = Asked(paying(**ESCALATES), amount=5)
    await asked.row()
    asked.clock.pass_ms(61 * MINUTE)
    await asked.goes_on()
    asked.clock.pass_ms(20 * MINUTE)
    row = await asked.inbox.approve(await asked.row(), by=CEO)
    asked.clock.pass_ms(MINUTE)
    row = await asked.inbox.withdraw(row, by=CEO)
    assert (await asked.left(), row.request.terms and row.request.terms.users) == (40, ("ceo",))
    assert (await check(asked.journal)).violations == []


async def test_a_call_that_is_looked_at_again_first_has_the_time_that_was_left(tmp_path: Path) -> None:
    @function_tool(needs_approval=True, files=("path",), approval=Approval(expires="1h"))
    def deploy(path: str) -> str:
        """Run a script."""
        return f"ran {path}"

    (tmp_path / "script").write_text("echo")
    asked = Asked(deploy, path=str(tmp_path / "script"))
    row = await asked.row()
    asked.clock.pass_ms(50 * MINUTE)
    row = await asked.inbox.approve(row, by=ANN)
    asked.clock.pass_ms(HOUR)
    await asked.inbox.withdraw(row, by=ANN)
    asked.clock.pass_ms(2 * MINUTE)  # nobody could decide it meanwhile
    await asked.goes_on()
    assert await asked.left() == 10
    assert (await check(asked.journal)).violations == []
