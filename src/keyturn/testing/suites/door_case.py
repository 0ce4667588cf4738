"""The case under test of the suite of doors: a run whose calls wait, and a tool that records what it did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...agents.agent import Agent
from ...core.approval import Approval
from ...core.people import Decider
from ...engine.result import RunResult
from ...engine.runner import Runner
from ...engine.states.state import RunState
from ...engine.views.items import ToolApprovalItem
from ...inbox.desk import Inbox
from ...journal.memory import MemoryJournal
from ...models.scripted.model import tool_outputs
from ...tools.function import FunctionTool, function_tool

ANN = Decider("ann", roles=("ops",), strength="authenticated")
BOB = Decider("bob", roles=("ops",), strength="authenticated")
EVE = Decider("eve", roles=("sales",), strength="authenticated")


@dataclass
class Case:
    """Holds one run whose calls wait: its agent, its journal, what its tools did, and the time."""

    agent: Agent[Any]
    journal: MemoryJournal
    done: list[Any]
    time: list[int]
    policy: Any = None
    run: str = ""
    hand: Any = None

    @property
    def inbox(self) -> Inbox:
        """Return the inbox of the journal."""
        return Inbox(self.journal, {self.agent.name: self.agent})

    async def state(self) -> RunState[Any]:
        """Return the state of the run, as it stands."""
        return await RunState.load(self.journal, self.run, self.agent)

    async def waiting(self) -> list[ToolApprovalItem]:
        """Return what waits now."""
        return (await self.state()).get_interruptions()

    async def item(self, label: str = "c1") -> ToolApprovalItem:
        """Return the waiting call of that label."""
        return next(item for item in await self.waiting() if item.call_id == label)

    async def go_on(self) -> RunResult:
        """Resume the run with the decisions on its state, if there are any."""
        given = self.hand if self.hand is not None else await self.state()
        self.hand = None
        return await Runner.run(self.agent, given, policy=self.policy)

    def told(self) -> str:
        """Return what the model read of its calls, all of it."""
        model: Any = self.agent.model
        return " ".join(str(output) for output in tool_outputs(model.calls[-1]).values())


def as_requester(who: Decider) -> Decider:
    """Return the same person, of whom the door knows that the run acts for them."""
    return Decider(who.id, who.roles, who.strength, requester=True)


def payment(done: list[Any], description: str = "Pays.", approval: Approval | None = None) -> FunctionTool:
    """Make a tool that asks, and records what it did."""

    async def pay(to: str, amount: int) -> str:
        done.append((to, amount))
        return f"paid {amount} to {to}"

    return function_tool(pay, description_override=description, needs_approval=True, approval=approval)
