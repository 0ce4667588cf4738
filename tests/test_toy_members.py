"""A member of each room, made in this one file through the doors that everybody has, and tried by the room's suite.

If one of these needs a change in `src/`, a wall is in the wrong place. The kind of tool has a call of its own on the
wire, which no provider and no file of ours knows: `{"type": "toy_call", "call_id": ..., "word": ...}`.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from keyturn import (
    Agent,
    CallView,
    Conflict,
    InvalidArguments,
    MemorySession,
    Model,
    ModelBehaviorError,
    ModelResponse,
    Preview,
    Runner,
    RunState,
    Text,
    Tool,
    Usage,
    Verdict,
)
from keyturn.core.items import Item
from keyturn.core.nested_agent import NestedAgent
from keyturn.journal.base import Changes, Claim, LostRace
from keyturn.models.base import ModelRequest
from keyturn.models.reply_events import reply_events
from keyturn.testing import (
    JournalSuite,
    ModelStep,
    ModelSuite,
    PolicySuite,
    ScriptedModel,
    ToolSuite,
    drive,
    last_user_text,
    tool_outputs,
)
from keyturn.testing.crash import Effects
from keyturn.testing.suites.tool_case import script
from keyturn.tools.base import Delegate, Handover, Prepared

# ------------------------------------------------------------------------------------------------- a kind of tool


class ToyTool(Tool):
    """Says one word, in a call of its own."""

    kind, call_type, name = "toy", "toy_call", "say"

    def __init__(self, effects: Effects, needs_approval: Any = False, description: str = "Says a word.") -> None:
        self.effects, self.needs_approval, self.description = effects, needs_approval, description

    def spec(self) -> dict[str, Any]:
        return {"kind": self.kind, "name": self.name, "description": self.description}

    def prepare(self, item: Mapping[str, Any]) -> Prepared:
        return self.edit({"word": item.get("word")})

    def edit(self, params: Any) -> Prepared:
        match params:
            case {"word": str(word), **rest} if word and not rest:
                return Prepared(json.dumps(params))
            case _:
                raise InvalidArguments("The call is invalid: it needs one word.")

    async def invoke(self, context: Any, prepared: Prepared) -> str:
        self.effects.record(context, prepared.params["word"])
        return f"said {prepared.params['word']}"

    def output(self, item: Mapping[str, Any], value: Any) -> Item:
        return {"type": "toy_call_output", "call_id": item["call_id"], "output": str(value)}

    def subject(self, params: Any) -> str:
        return params["word"]

    def preview(self, params: Any) -> Preview:
        return Preview((Text(params["word"], label="word"),))


def toy_call(label: str, word: Any) -> Item:
    return {"type": "toy_call", "call_id": label, "word": word}


class TestToyTool(ToolSuite):
    def make_tool(self, effects: Effects, **settings: Any) -> Any:
        return ToyTool(effects, **settings)

    def call(self, label: str, variant: int = 0) -> Item:
        return toy_call(label, f"w{variant}")

    def edited(self) -> dict[str, Any]:
        return {"word": "w1"}

    def refused(self) -> list[Item]:
        return [toy_call("bad", word) for word in ("", None, 3, ["w0"])]


class ToyErrand(ToyTool):
    """The same word, said by an agent that it sends: the answer, or all that follows, is that agent's."""

    name = "send"

    def __init__(self, effects: Effects, needs_approval: Any = False, hands_over: bool = False) -> None:
        super().__init__(effects, needs_approval)
        self.after_siblings = hands_over
        tool = ToyTool(effects)
        self.agent = Agent("errand", model=ScriptedModel(self.errand), tools=[tool])
        self.nested = NestedAgent(self.agent)

    def errand(self, request: ModelRequest) -> Any:
        said = tool_outputs(request).get("t")
        return said or [toy_call("t", last_user_text(request))]

    async def invoke(self, context: Any, prepared: Prepared) -> Any:
        if self.after_siblings:
            return Handover(self.agent, "over to the errand")
        return Delegate(self.agent, prepared.params["word"])

    def output(self, item: Mapping[str, Any], value: Any) -> Item:
        return super().output(item, value.text if isinstance(value, Handover) else value)


class TestToyErrand(TestToyTool):
    """A kind of its own may open a nested frame, and everything that waits inside waits on the one run."""

    def make_tool(self, effects: Effects, **settings: Any) -> Any:
        return ToyErrand(effects, **settings)


async def test_a_toy_errand_may_hand_over(streamed: bool) -> None:
    effects = Effects()
    tool = ToyErrand(effects, needs_approval=True, hands_over=True)
    agent = Agent("desk", model=script([toy_call("c1", "boo")]), tools=[tool])
    result = await drive(agent, "moo", streamed=streamed, through_text=True)
    assert (result.final_output, result.last_agent) == ("said moo", tool.agent)
    assert [what for _key, what in effects.done] == ["moo"]


async def test_a_toy_call_that_waits_is_superseded_by_the_next_message() -> None:
    """Neither the engine nor a session knows such a call, and no conversation may be left with one open."""
    effects, session = Effects(), MemorySession("toys")
    agent = Agent("desk", model=script([toy_call("c1", "boo")]), tools=[ToyTool(effects, needs_approval=True)])
    paused = await Runner.run(agent, "say boo", session=session)
    assert [item.arguments for item in paused.interruptions] == ['{"word": "boo"}']
    said = {"type": "toy_call_output", "call_id": "c1", "output": "not executed: it still requires a decision"}
    assert paused.to_input_list()[-1] == said
    done = await Runner.run(agent, "never mind", session=session)
    assert done.final_output == "done: c1"
    items = await session.get_items()
    assert items[2] == {
        "type": "toy_call_output",
        "call_id": "c1",
        "output": "no result: the user moved on. If the call still waited for approval, it is not executed.",
    }
    assert effects.done == []


async def test_a_toy_call_means_the_tool_that_it_names() -> None:
    """A call of another tool of the kind is not this one's; without a name it is, where there is no other."""
    effects = Effects()
    tool, other = ToyTool(effects), ToyTool(effects)
    other.name = "shout"
    named = {**toy_call("c1", "boo"), "name": "whisper"}
    for tools, call in (([tool], named), ([tool, other], toy_call("c1", "boo"))):
        with pytest.raises(ModelBehaviorError, match="does not have"):
            await Runner.run(Agent("desk", model=script([call]), tools=tools), "go")
    assert effects.done == []
    await Runner.run(Agent("desk", model=script([{**named, "name": "shout"}]), tools=[tool, other]), "go")
    assert [what for _key, what in effects.done] == ["boo"]


# -------------------------------------------------------------------------------------------------------- a store


class ToyJournal:
    """Lists in a dict, by run; everybody who watches is woken by every append. All its tenants share one clock."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self.clock = clock
        self.lines: defaultdict[str, list[bytes]] = defaultdict(list)
        self.takers: defaultdict[str, int] = defaultdict(int)
        self.claims: defaultdict[str, list[Claim]] = defaultdict(list)
        self.held: dict[str, Claim] = {}
        self.wanted: dict[str, int] = {}
        self.tenants: defaultdict[str, ToyJournal] = defaultdict(lambda: ToyJournal(clock))
        self.appended = asyncio.Event()

    async def append(
        self,
        run: str,
        expected: int,
        lines: Sequence[bytes],
        claim: Claim | None = None,
        changes: Changes | None = None,
    ) -> None:
        if claim is not None:
            self._check(claim, run)
        if expected != len(self.lines[run]):
            raise LostRace(f"expected {expected} lines, the log has {len(self.lines[run])}")
        self.lines[run] += [bytes(line) for line in lines]
        if lines:
            self.wanted.setdefault(run, self.clock())
            if claim is not None:
                del self.wanted[run]
                self.takers[run] = 0
            self.appended.set()
            self.appended = asyncio.Event()

    async def read(self, run: str, after: int = 0, limit: int | None = None) -> list[bytes]:
        return self.lines[run][after : None if limit is None else after + limit]

    async def head(self, run: str) -> int:
        return len(self.lines[run])

    async def watch(self, run: str, after: int = 0, *, others: bool = False) -> AsyncGenerator[bytes, None]:
        while True:
            while after < len(self.lines[run]):
                after += 1
                yield self.lines[run][after - 1]
            await self.appended.wait()

    async def claim(self, run: str, worker: str, ttl_ms: int) -> Claim:
        holder = self.held.get(run)
        if holder is not None and self.clock() < holder.until:
            raise Conflict(f"{holder.worker} holds this run; wait for it", winner=holder.worker)
        epoch, until = len(self.claims[run]) + 1, self.clock() + ttl_ms
        made = self.held[run] = Claim(run, worker, epoch, until, lost=self.takers[run])
        self.takers[run] += 1
        self.claims[run].append(made)
        self.wanted.pop(run, None)
        return made

    async def renew(self, claim: Claim, ttl_ms: int) -> Claim:
        self._check(claim, claim.run)
        made = self.held[claim.run] = Claim(claim.run, claim.worker, claim.epoch, self.clock() + ttl_ms)
        return made

    async def release(self, claim: Claim, due: int | None = None) -> None:
        if _place(self.held.get(claim.run)) == _place(claim):
            del self.held[claim.run]
            self.takers[claim.run] = 0
            if due is not None:
                self.wanted[claim.run] = min(due, self.wanted.get(claim.run, due))

    async def due(self, limit: int = 100) -> list[str]:
        times = {**self.wanted, **{run: claim.until for run, claim in self.held.items()}}
        runs = [run for run, at in times.items() if at <= self.clock() and self.lines[run]]
        return sorted(runs, key=lambda run: times[run])[:limit]

    def _check(self, claim: Claim, run: str) -> None:
        holder = self.held.get(run)
        if holder is None or _place(holder) != _place(claim):
            winner = holder.worker if holder else None
            raise Conflict(f"this claim is not held any more, {winner} has the run; stop", winner=winner)


def _place(claim: Claim | None) -> Any:
    return claim and (claim.run, claim.worker, claim.epoch)


class TestToyJournal(JournalSuite):
    async def make_journal(self) -> Any:
        return ToyJournal(self.clock)

    def of(self, journal: Any, tenant: str) -> Any:
        return journal.tenants[tenant]


async def test_a_run_lives_in_a_toy_store() -> None:
    """A run that waits is found again by its id alone, decided, and goes on there."""
    journal, effects = ToyJournal(lambda: 1), Effects()
    agent = Agent("desk", model=script([toy_call("c1", "boo")]), tools=[ToyTool(effects, needs_approval=True)])
    paused = await Runner.run(agent, "say boo", journal=journal)
    state = await RunState.load(journal, paused.run_id, agent)
    state.approve(state.get_interruptions()[0])
    assert (await Runner.run(agent, state, journal=journal)).final_output == "done: c1"
    assert [what for _key, what in effects.done] == ["boo"]
    assert len(journal.lines[paused.run_id]) == await journal.head(paused.run_id) > 3


# -------------------------------------------------------------------------------------------------------- a model


class ToyModel(Model):
    """Reads its replies out, one after another; in a stream it is silent and then says all of it at once."""

    def __init__(self, script: list[ModelStep]) -> None:
        self.script = iter(script)

    async def get_response(self, *asked: Any, **kept: Any) -> ModelResponse:
        step = next(self.script)
        if step.error is not None:
            raise step.error
        return ModelResponse(list(step.output), replace(step.usage or Usage(requests=1)), step.response_id)

    async def stream_response(self, *asked: Any, **kept: Any) -> AsyncIterator[Any]:
        step = next(self.script)
        if step.error is not None:
            raise step.error
        usage = replace(step.usage or Usage(requests=1))
        events = reply_events(ModelResponse(list(step.output), usage, step.response_id))
        for event in list(events)[: step.break_after]:
            yield event


class TestToyModel(ModelSuite):
    def make_model(self, script: list[ModelStep]) -> ToyModel:
        return ToyModel(script)


# ------------------------------------------------------------------------------------------------------- a policy


class ToyPolicy:
    """Says the same of every call, by turns of a word of its own."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def __call__(self, call: CallView, context: Any) -> Verdict | None:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer if self.answer in (None, "perhaps") else Verdict(self.answer, reason=f"of {call.tool}")


class TestToyPolicy(PolicySuite):
    def make_policy(self, answer: Any) -> ToyPolicy:
        return ToyPolicy(answer)


# ---------------------------------------------------------------------------------------------------- all of them
async def test_toys_play_together(streamed: bool) -> None:
    """A toy model calls a toy tool under a toy policy, and the run is kept in a toy store."""
    effects, journal = Effects(), ToyJournal(lambda: 1)
    model = ToyModel([ModelStep([toy_call("c1", "boo")]), ModelStep("Boo!")])
    agent = Agent("desk", model=model, tools=[ToyTool(effects)])
    asked: list[str] = []

    def edit(result: Any) -> RunState[Any]:
        state = result.to_state()
        [item] = state.get_interruptions()
        asked.append(item.reason)
        state.approve(item, edit={"word": "moo"})
        return state

    result = await drive(agent, "say boo", decide=edit, streamed=streamed, journal=journal, policy=ToyPolicy("ask"))
    assert (result.final_output, asked) == ("Boo!", ["of say"])
    assert [what for _key, what in effects.done] == ["moo"]
