"""What the attacks on deciding are tried on."""

from __future__ import annotations

from typing import Any

from keyturn import Agent, App, MemoryJournal, Runner, RunState
from keyturn.inbox.desk import Inbox
from keyturn.testing import ScriptedModel, function_call
from keyturn.tools.base import NeedsInput, Prepared, Tool
from tests.waiting import until


def clerk(tool: Any, *rounds: Any) -> Agent[Any]:
    """An agent whose model makes these calls of a tool, one reply a round."""
    replies = [[function_call(tool.name, arguments) for arguments in made] for made in rounds]
    return Agent("clerk", model=ScriptedModel([*replies, "done", "done again", "and again"]), tools=[tool])


def told(result: Any) -> list[Any]:
    """What the model was told of its calls."""
    return [item.output for item in result.new_items if item.type == "tool_call_output_item"]


class Desk:
    """A journal with a clock that is set by hand, and its inbox."""

    def __init__(self, agent: Agent[Any], policy: Any = None) -> None:
        self.time = [1_000_000]
        self.journal = MemoryJournal(lambda: self.time[0])
        self.agent = agent
        self.policy = policy
        self.inbox = Inbox(self.journal, {agent.name: agent})
        self.run = ""

    async def start(self) -> Any:
        """Start a run."""
        state: RunState[Any] = RunState(None, "go", self.agent)
        result = await Runner.run(self.agent, state, journal=self.journal, policy=self.policy)
        self.run = result.run_id
        return result

    async def go_on(self) -> Any:
        """Take the run up."""
        state = await RunState.load(self.journal, self.run, self.agent)
        return await Runner.run(self.agent, state, policy=self.policy)

    async def row(self) -> Any:
        """The one request that waits."""
        (row,) = await self.inbox.list()
        return row


async def looks_of_an_idle_worker(journal: Any, agent: Agent[Any]) -> int:
    """Count how often a worker asks what is due while somebody else reads the store three hundred times."""
    looked, name = 0, "claim_due" if hasattr(journal, "claim_due") else "due"
    asks = getattr(journal, name)

    async def counted(*given: Any) -> Any:
        nonlocal looked
        looked += 1
        return await asks(*given)

    setattr(journal, name, counted)
    async with App([agent], journal):
        await until(lambda: looked)
        for _ in range(300):
            await journal.head("nobody's")
    return looked


class Charge(Tool):
    """Charges a card, asks a question, and does the rest."""

    kind, name, needs_approval = "charge", "charge", True

    def __init__(self, done: list[str], approval: Any = None, about: str = "Charges.") -> None:
        self.done = done
        self.approval = approval
        self.about = {"name": self.name, "description": about}

    def spec(self) -> dict[str, Any]:
        return self.about

    def prepare(self, item: Any) -> Prepared:
        return Prepared(item["arguments"])

    async def invoke(self, context: Any, prepared: Prepared) -> Any:
        if context.resumed is None:
            self.done.append("charged")
            return NeedsInput({"question": "Which account?"}, "state")
        self.done.append("booked")
        return "booked"

    def output(self, item: Any, value: Any) -> Any:
        return {"type": "function_call_output", "call_id": item["call_id"], "output": value}
