"""What the battery's trials stand on: a world that remembers, agents that act in it, runs written by the core alone."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from keyturn import Agent, MemoryJournal, Runner, ToolContext, function_tool
from keyturn.audit.checker import check
from keyturn.audit.log import read_step
from keyturn.audit.run import AuditedRun
from keyturn.core import commands as cm
from keyturn.core import events as ev
from keyturn.core.codec import Log
from keyturn.core.decide import step
from keyturn.core.errors import KeyturnError
from keyturn.core.people import Decider
from keyturn.core.policy import Verdict
from keyturn.core.run import call_digest
from keyturn.core.usage import Counts
from keyturn.journal.sqlite import SQLiteJournal
from keyturn.testing import ScriptedModel, assistant_message, function_call

Trial = Callable[["Bench"], Awaitable[None]]


class Bench:
    """One trial's world: what was done in it, and the stores that the checker reads at the end."""

    def __init__(self) -> None:
        self.done: list[tuple[str, str]] = []
        self.stores: list[Any] = []
        self.pens: list[Pen] = []

    def journal(self, *arguments: Any) -> MemoryJournal:
        """A store that is checked when the trial is over."""
        made = MemoryJournal(*arguments)
        self.stores.append(made)
        return made

    @asynccontextmanager
    async def file(self) -> AsyncGenerator[SQLiteJournal]:
        """A store in a file for as long as the block lasts."""
        with tempfile.TemporaryDirectory(prefix="keyturn-mutants-") as folder:
            store = SQLiteJournal(Path(folder) / "runs.db")
            try:
                yield store
            finally:
                await store.close()

    def tool(self, name: str = "pay", **options: Any) -> Any:
        """A tool that acts in this world."""

        async def act(context: ToolContext[Any], x: int = 0) -> str:
            self.done.append((context.idempotency_key, f"{name}({x})"))
            return f"{name}({x})"

        return function_tool(act, **{"name_override": name, "needs_approval": True, **options})

    def agent(self, *rounds: Any, tools: list[Any] | None = None) -> Agent[Any]:
        """An agent whose model makes these calls, a round each, and ends."""
        made = [list(each) if isinstance(each, list) else [each] for each in rounds]
        model = ScriptedModel([*made, assistant_message("done")])
        return Agent("desk", model=model, tools=tools or [self.tool()])

    async def paused(self, *calls: Any, journal: Any = None, **options: Any) -> Any:
        """The state of a run that waits for a word on its first calls."""
        agent = self.agent(*(calls or (call("pay", 1),)))
        result = await Runner.run(agent, "go", journal=journal, **options)
        assert result.interruptions, "what needs a word did not ask for one"
        return agent, result.to_state()

    async def faults(self) -> list[str]:
        """Which invariants the checker finds broken in what this trial left."""
        found: set[str] = set()
        for pen in self.pens:
            found |= pen.faults()
        for store in self.stores:
            report = await check(store, effects=Counter(key for key, _ in self.done))
            found |= {violation.invariant for violation in report.violations}
        return sorted(found)

    def pen(self) -> Pen:
        """A run that is written by commands alone."""
        self.pens.append(Pen())
        return self.pens[-1]


class Pen:
    """A run and its log, moved by commands; `now` is its clock."""

    def __init__(self) -> None:
        self.log, self.now = Log(), 1_000

    def __call__(self, *commands: cm.RunCommand) -> None:
        """Decide commands as one step."""
        events = [event for command in commands for event in step(self.log.run, command, self.now)]
        if events:
            self.log.append(ev.Step(self.now, events))

    def asks(self, guarded: str = "", count: int = 1, **proposal: Any) -> Pen:
        """Begin a run whose calls ask, under these terms; the gate has still to be asked of all but the first."""
        raws = [
            {"type": "function_call", "call_id": f"c{n}", "name": "pay", "arguments": f'{{"x":{n + 1}}}'}
            for n in range(count)
        ]
        made = [
            ev.Proposal("function", "pay", f"c{n}", n, tool="t1", **({"gate": "ask", **proposal} if not n else {}))
            for n in range(count)
        ]
        self(
            cm.Start("run", "salt", "go", {}, "desk", [{"role": "user", "content": "go"}], 10, guarded, requester="req")
        )
        self(cm.RecordReply("r", raws, made, Counts(1, 1, 1)))
        return self

    def word(self, verdict: str = "approve", **more: Any) -> ev.Decision:
        """A decision of the call as it is shown now."""
        shown = call_digest(self.log.run, self.log.run.calls["r/1.0"])
        name, facts = more.pop("by", "ada"), (more.pop("roles", ()), more.pop("strength", "authenticated"))
        who = Decider(name, *facts) if name else None
        settings: dict[str, Any] = {"digest": shown, "at": self.now, "decider": who, **more}
        return ev.Decision("r/1.0", verdict, **settings)

    def decide(self, *decisions: ev.Decision) -> None:
        """Deliver decisions in one step."""
        self(cm.Deliver(list(decisions)))

    def passes(self) -> None:
        """Say that no policy stands against the decision."""
        self(cm.Screen("r/1.0", Verdict("allow"), on_decision=True))

    def start(self) -> None:
        """Start the call, once no policy has stood against the decision."""
        self.passes()
        self(cm.StartCall("r/1.0", "t1"))

    def finish(self) -> None:
        """Give the call its result."""
        self(cm.FinishCall("r/1.0", {"type": "function_call_output", "call_id": "c0", "output": "done"}))

    @property
    def state(self) -> str:
        """How the first call stands."""
        return self.stands("r/1.0")

    def stands(self, name: str) -> str:
        """How a call stands."""
        return self.log.run.calls[name].state

    def refuses(self, error: type[KeyturnError], *commands: cm.RunCommand) -> None:
        """See commands refused with this error."""
        with pytest.raises(error):
            self(*commands)

    def faults(self) -> set[str]:
        """What the automaton finds in the log."""
        automaton = AuditedRun(self.log.run.id or "run")
        try:
            for each in self.log.steps:
                read_step(automaton, each)
        except Exception as broken:
            return {getattr(broken, "invariant", "I8")}
        return set()


def call(name: str, x: int = 0) -> Any:
    """A call with one number."""
    return function_call(name, {"x": x}, call_id=f"{name}_{x}")


async def tried(function: Trial) -> str:
    """What a trial found: "" where all is well, else by whom it was caught."""
    bench = Bench()
    said = ""
    try:
        async with asyncio.timeout(10):
            await function(bench)
    except (AssertionError, pytest.fail.Exception):
        said = "assertion"
    except Exception as error:
        said = type(error).__name__
    faults = await bench.faults()
    return ", ".join([*([said] if said else []), *(f"checker {name}" for name in faults)])
