"""What the laws of a decision are tried on: a run whose calls wait, and a tool that writes down what it did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...agents.agent import Agent
from ...core.people import Decider
from ...core.policy import Approval
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
    """One run whose calls wait: its agent, its journal, what its tools did, and the time."""

    agent: Agent[Any]
    journal: MemoryJournal
    done: list[Any]
    time: list[int]
    policy: Any = None
    run: str = ""
    hand: Any = None

    @property
    def inbox(self) -> Inbox:
        """The inbox of the journal."""
        return Inbox(self.journal, {self.agent.name: self.agent})

    async def state(self) -> RunState[Any]:
        """The run in hand, as it stands."""
        return await RunState.load(self.journal, self.run, self.agent)

    async def waiting(self) -> list[ToolApprovalItem]:
        """What waits now."""
        return (await self.state()).get_interruptions()

    async def item(self, label: str = "c1") -> ToolApprovalItem:
        """The waiting call of that label."""
        return next(item for item in await self.waiting() if item.call_id == label)

    async def go_on(self) -> RunResult:
        """Take the run up with what was said in hand, if anything was."""
        given = self.hand if self.hand is not None else await self.state()
        self.hand = None
        return await Runner.run(self.agent, given, policy=self.policy)

    def told(self) -> str:
        """What the model read of its calls, all of it."""
        model: Any = self.agent.model
        return " ".join(str(output) for output in tool_outputs(model.calls[-1]).values())


def as_requester(who: Decider) -> Decider:
    """The same person, of whom the door knows that the run acts for them."""
    return Decider(who.id, who.roles, who.strength, requester=True)


def payment(done: list[Any], description: str = "Pays.", approval: Approval | None = None) -> FunctionTool:
    """A tool that asks, and writes down what it did."""

    async def pay(to: str, amount: int) -> str:
        done.append((to, amount))
        return f"paid {amount} to {to}"

    return function_tool(pay, description_override=description, needs_approval=True, approval=approval)
