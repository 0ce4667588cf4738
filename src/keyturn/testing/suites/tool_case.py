"""A tool under test: how it is made and called, how its run is played, and what came of it.

Here is what the suite of tools stands on; what a tool promises is in `tools.py`. Every test is a plain function and
runs twice, plain and streamed; each run and each resume has an event loop of its own, as in another process.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from inspect import isawaitable
from typing import Any, cast

import pytest

from ...agents.agent import Agent
from ...agents.context import RunContextWrapper
from ...core.codec import Log
from ...core.events import CallStarted
from ...core.items import Item
from ...core.preview import Preview
from ...engine.result import RunResult
from ...engine.run.agents import AgentGraph
from ...engine.run.log_cache import forget
from ...engine.run.open_run import OpenRun
from ...engine.run.used_states import UsedStates
from ...engine.runner import Runner
from ...engine.states.state import RunState
from ...engine.views.items import ToolApprovalItem
from ...models.base import ModelRequest
from ...models.scripted.model import ScriptedModel, assistant_message, tool_outputs
from ...tools.base import Tool
from ..crash import Effects

# Texts that no tool takes for its arguments, whatever they say.
UNREADABLE = ("", "{", "[]", "null", '{"a":1,"a":2}', '{"a":NaN}', '{"a":1e999}', '{"a":"\\ud800"}', "[" * 100_000)


class ToolCase:
    """Gives tests of tools the tool, calls of it, runs that make those calls, and what they did.

    >>> ToolCase().edited() is None
    True
    """

    effects: Effects
    streamed: bool
    agent: Agent[Any]
    model: ScriptedModel
    apart: str = ""

    def make_tool(self, effects: Effects, **settings: Any) -> Any:
        """Make a tool that says `effects.record(context, what)` when it acts, once for each call that runs.

        `settings` are the kind's own; the suite gives `needs_approval`, and nothing else.
        """
        raise NotImplementedError("say how a tool is made")

    def call(self, label: str, variant: int = 0) -> Item:
        """Make a call of the tool as the model does; variants 0 and 1 differ in what the tool does."""
        raise NotImplementedError("say how the model calls the tool")

    def edited(self) -> Mapping[str, Any] | str | None:
        """Return the arguments with which variant 0 does what variant 1 does; None for a kind that nobody can edit."""
        return None

    def seen(self, item: ToolApprovalItem, edit: object) -> Preview | None:
        """Return what an editor is shown of the edited call, where the tool looks at the world for it."""
        if not item.tool.looks:
            return None
        made: Any = item.tool.preview(item.tool.edit(edit).params)
        return cast("Preview", asyncio.run(cast("Any", made)) if isawaitable(made) else made)

    def misfits(self) -> list[Any]:
        """Return edits that do not fit; a kind that takes a text, and any text, names its own."""
        return [{"no such argument": [1]}, "no mapping"]

    def called(self) -> str:
        """Return the name that people see of a call, where that is not the tool's."""
        return self.asking().name

    def changed_tool(self, effects: Effects) -> Any:
        """Make a tool of the same name that asks, and of which the model is told something else."""
        made: Any = self.make_tool(effects, needs_approval=True)
        made.description = "Not what it was."
        return made

    def refused(self) -> list[Item]:
        """Return calls whose arguments the tool refuses, all labelled "bad"; a kind without JSON names its own."""
        return [{**self.call("bad"), "arguments": text} for text in UNREADABLE[1:]]

    def instead(self, why: str) -> None:
        """Mark a test whose scenario is impossible for the kind, with the reason.

        >>> case = ToolCase()
        >>> case.instead("nobody can edit it")
        >>> case.apart
        'nobody can edit it'
        """
        self.apart = why

    def make_agent(self, tools: list[Any], model: ScriptedModel) -> Agent[Any]:
        """Make an agent that has these tools, of which the first is the one under test."""
        return Agent("desk", model=model, tools=tools)

    @pytest.fixture(autouse=True, params=["plain", "streamed"])
    def way(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """Run each test plain and streamed, in a world of its own, with no key of the user's."""
        monkeypatch.setenv("KEYTURN_SECRET", "the-secret-of-the-suite-of-tools")
        self.streamed, self.effects = request.param == "streamed", Effects()
        yield
        forget()

    @property
    def done(self) -> list[str]:
        """Return what happened, in order."""
        return [what for _key, what in self.effects.done]

    def does(self, variant: int) -> list[str]:
        """Return what one call does when nobody is asked."""
        effects = Effects()
        agent = self.make_agent([self.make_tool(effects, needs_approval=False)], script([self.call("c1", variant)]))
        assert not self.run(agent, "go").interruptions
        return [what for _key, what in effects.done]

    def build(self, tool: object, *rounds: list[Item], others: tuple[Any, ...] = ()) -> Agent[Any]:
        """Make an agent whose model makes these calls round by round, and then says which results it read."""
        self.model = script(*rounds)
        self.agent = self.make_agent([tool, *others], self.model)
        return self.agent

    def asking(self) -> Any:
        """Make the tool, asking always."""
        return self.make_tool(self.effects, needs_approval=True)

    def paused(self, *rounds: list[Item], others: tuple[Any, ...] = ()) -> RunResult:
        """Make a run that waits at the first round: one call by default."""
        result = self.run(self.build(self.asking(), *(rounds or ([self.call("c1")],)), others=others), "go")
        assert result.interruptions
        assert not self.done, "what asks has done nothing yet"
        return result

    def run(self, agent: Agent[Any], given: Any) -> RunResult:
        """Run or resume, in the way of this test."""
        return asyncio.run(_streamed(agent, given) if self.streamed else Runner.run(agent, given))

    def saved(self, state: RunState[Any], agent: Agent[Any]) -> RunState[Any]:
        """Save the state and load it without memory, for an agent that was built anew."""
        text = state.to_string()
        forget()
        return asyncio.run(RunState.from_string(agent, text))

    def crashed(self, result: RunResult, agent: Agent[Any]) -> RunState[Any]:
        """Return the run as it is found after a crash between the intent and the effect."""
        log = result.to_state().live.log
        count = next(
            place for place, step in enumerate(log.steps, 1) if any(isinstance(one, CallStarted) for one in step.events)
        )
        live = OpenRun(Log.read(log.lines(count)), AgentGraph(agent), RunContextWrapper(None), used=UsedStates())
        return RunState.at(live, count, [])

    def told(self, label: str) -> str:
        """Return the result that the model read last for this call, as JSON."""
        results = [item for item in self.model.calls[-1].input if answered(item) == label]
        assert len(results) == 1, f"the model read {len(results)} results of {label}"
        return json.dumps(results[0], ensure_ascii=False)


def script(*rounds: list[Item]) -> ScriptedModel:
    """Make a model that makes the calls of a round until all have results, and then says which results it read.

    It looks only at what it is asked, so that it may answer in another process.
    """

    def answer(request: ModelRequest) -> Any:
        known = tool_outputs(request)
        left = (calls for calls in rounds if any(label_of(call) not in known for call in calls))
        return next(left, None) or [assistant_message(f"done: {', '.join(sorted(known))}")]

    return ScriptedModel(answer)


def params_of(tool: Tool, call: Item) -> Any:
    """Return what a `needs_approval` callable is given for this call."""
    return tool.subject(tool.prepare(call).params)


def looked(tool: Tool, params: object) -> Preview:
    """Return the preview of these arguments, also where the tool must be awaited."""

    async def look() -> Preview:
        made = tool.preview(params)
        return await made if isawaitable(made) else made

    return asyncio.run(look())


def spoilt(value: object, text: str) -> Any:
    """Return a copy of arguments with `text` at the end of every text in them.

    >>> spoilt({"to": "ada", "tags": ["x", 3]}, "!")
    {'to': 'ada!', 'tags': ['x!', 3]}
    """
    if isinstance(value, str):
        return value + text
    if isinstance(value, list):
        return [spoilt(member, text) for member in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {name: spoilt(member, text) for name, member in cast("dict[str, Any]", value).items()}
    return value


async def _streamed(agent: Agent[Any], given: Any) -> RunResult:
    stream = Runner.run_streamed(agent, given)
    async for _event in stream.stream_events():
        pass
    return stream.run_loop_task.result()


def label_of(call: Item) -> str:
    """Return the provider's id of a call, or of a request."""
    return call.get("call_id") or call["id"]


def answered(item: Item) -> str | None:
    """Return the id of the call that a result answers, None for every other item."""
    results = str(item.get("type")).endswith(("_output", "_response"))
    return (item.get("call_id") or item.get("approval_request_id")) if results else None
