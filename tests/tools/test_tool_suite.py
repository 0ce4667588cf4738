"""The kinds of tools keep the room's promises, and the suite finds tools that do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from keyturn import Agent, FunctionTool, Preview, ToolContext, function_tool, handoff
from keyturn.core.items import Item
from keyturn.engine.run.new_ids import new_id
from keyturn.models.base import ModelRequest
from keyturn.models.scripted.model import ScriptedModel, function_call, last_user_text, tool_outputs
from keyturn.testing import ToolSuite
from keyturn.testing.crash import Effects
from keyturn.tools.base import Prepared


class TestAsyncFunctionTool(ToolSuite):
    def make_tool(self, effects: Effects, **settings: Any) -> Any:
        async def post(context: ToolContext[Any], word: str, times: int = 1) -> str:
            effects.record(context, word * times)
            return f"posted {word}"

        return function_tool(post, **settings)

    def call(self, label: str, variant: int = 0) -> Item:
        return function_call("post", {"word": f"w{variant}"}, call_id=label)

    def edited(self) -> dict[str, Any]:
        return {"word": "w1"}


class TestSyncFunctionTool(TestAsyncFunctionTool):
    def make_tool(self, effects: Effects, **settings: Any) -> Any:
        def post(context: ToolContext[Any], word: str, times: int = 1) -> dict[str, str]:
            effects.record(context, word * times)
            return {"posted": word}

        return function_tool(post, **settings)


class TestIdempotentFunctionTool(TestAsyncFunctionTool):
    def make_tool(self, effects: Effects, **settings: Any) -> Any:
        return super().make_tool(effects, idempotent=True, **settings)


class TestHandMadeFunctionTool(TestAsyncFunctionTool):
    def make_tool(self, effects: Effects, **settings: Any) -> Any:
        async def post(context: ToolContext[Any], arguments: str) -> str:
            effects.record(context, arguments)
            return "posted"

        schema = {"type": "object", "properties": {"word": {"type": "string"}}}
        return FunctionTool("post", "Posts a word.", schema, post, **settings)

    def misfits(self) -> list[Any]:
        """It validates its arguments itself, when it runs: any object fits until then."""
        return ["no mapping"]


class TestAgentTool(ToolSuite):
    """What happens is done by a tool of the nested agent, in its own frame, with an intent of its own."""

    def make_tool(self, effects: Effects, **settings: Any) -> Any:
        async def work(context: ToolContext[Any], word: str) -> str:
            effects.record(context, word)
            return word

        def answer(request: ModelRequest) -> Any:
            known = tool_outputs(request)
            return known.get("w") or [function_call("work", {"word": last_user_text(request)}, call_id="w")]

        expert = Agent("expert", model=ScriptedModel(answer), tools=[function_tool(work)])
        return expert.as_tool("ask_expert", "Asks the expert.", **settings)

    def call(self, label: str, variant: int = 0) -> Item:
        return function_call("ask_expert", {"input": f"w{variant}"}, call_id=label)

    def edited(self) -> dict[str, Any]:
        return {"input": "w1"}


class Reason(BaseModel):
    why: str


class TestHandoff(ToolSuite):
    """The next agent goes on with the same conversation, has the same model, and can hand over again."""

    def make_tool(self, effects: Effects, needs_approval: Any = False) -> Any:
        async def tell(context: Any, reason: Reason) -> None:
            effects.record(context, reason.why)

        made = handoff(Agent("billing"), on_handoff=tell, input_type=Reason)
        made.needs_approval = needs_approval
        return made

    def changed_tool(self, effects: Effects) -> Any:
        made = self.make_tool(effects, needs_approval=True)
        made.tool_description = "Not what it was."
        return made

    def make_agent(self, tools: list[Any], model: ScriptedModel) -> Agent[Any]:
        handoffs = [tool for tool in tools if tool.kind == "handoff"]
        others = [tool for tool in tools if tool.kind != "handoff"]
        for tool in handoffs:
            tool.agent.model, tool.agent.handoffs, tool.agent.tools = model, handoffs, others
        return Agent("desk", model=model, handoffs=handoffs, tools=others)

    def call(self, label: str, variant: int = 0) -> Item:
        return function_call("transfer_to_billing", {"why": f"w{variant}"}, call_id=label)

    def edited(self) -> dict[str, Any]:
        return {"why": "w1"}

    def test_a_grant_covers_the_next_call(self) -> None:
        """The next call is the next agent's own, and a grant never covers another agent."""
        state = self.paused([self.call("c1")], [self.call("c2", 1)]).to_state()
        state.approve(state.get_interruptions()[0], always_approve=True)
        result = self.run(self.agent, state)
        assert [(item.call_id, item.agent.name) for item in result.interruptions] == [("c2", "billing")]
        assert self.done == self.does(0)

    def test_calls_of_one_reply_are_decided_one_by_one(self) -> None:
        """A conversation goes to one agent: the second handoff of a reply is refused and asks nobody."""
        result = self.paused([self.call("c1"), self.call("c2", 1)])
        assert [item.call_id for item in result.interruptions] == ["c1"]
        state = result.to_state()
        state.approve(state.get_interruptions()[0])
        assert self.run(self.agent, state).final_output == "done: c1, c2"
        assert "Multiple handoffs" in self.told("c2")
        assert self.done == self.does(0)


def acts_twice(tool: Any) -> None:
    invoke = tool.invoke

    async def twice(context: Any, prepared: Any) -> Any:
        await invoke(context, prepared)
        return await invoke(context, prepared)

    tool.invoke = twice


def runs_what_it_was_first_asked(tool: Any) -> None:
    tool.edit = lambda _params: tool.prepare({"arguments": '{"word": "w0"}'})


def takes_anything(tool: Any) -> None:
    tool.prepare = lambda _item: Prepared("{}")


def always_looks_the_same(tool: Any) -> None:
    tool.spec = lambda: {"name": "post"}


def shows_plain_text(tool: Any) -> None:
    tool.preview = lambda params: Preview((params["word"],))


def forgets_what_it_was_called_with(tool: Any) -> None:
    tool.output = lambda item, _value: {"type": "function_call_output", "call_id": item["call_id"], "output": "ok"}


def says_that_it_may_be_repeated(tool: Any) -> None:
    tool.idempotent, invoke = True, tool.invoke

    async def forgetful(context: Any, prepared: Any) -> Any:
        context.idempotency_key = new_id()
        return await invoke(context, prepared)

    tool.invoke = forgetful


FAULTS: list[tuple[Callable[[Any], None], str, tuple[Any, ...]]] = [
    (acts_twice, "test_the_tool_and_its_calls_are_fit_to_be_tested", ()),
    (runs_what_it_was_first_asked, "test_an_edited_call_runs_as_it_was_edited", ()),
    (runs_what_it_was_first_asked, "test_an_edit_that_does_not_fit_decides_nothing", ()),
    (takes_anything, "test_a_callable_decides_from_what_will_run", ()),
    (takes_anything, "test_arguments_that_do_not_fit_ask_nobody", ()),
    (always_looks_the_same, "test_a_tool_that_changed_asks_again", ()),
    (shows_plain_text, "test_a_preview_has_four_kinds_of_block", ()),
    (shows_plain_text, "test_a_preview_is_escaped_by_every_face", ()),
    (forgets_what_it_was_called_with, "test_an_answered_call_does_not_run", ()),
    (says_that_it_may_be_repeated, "test_no_crash_loses_or_doubles_an_effect", ("approve",)),
]


@pytest.mark.each
@pytest.mark.parametrize(("fault", "test", "given"), FAULTS, ids=lambda part: getattr(part, "__name__", None))
def test_the_suite_finds_a_fault(
    fault: Callable[[Any], None], test: str, given: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Faulty(TestAsyncFunctionTool):
        def make_tool(self, effects: Effects, **settings: Any) -> Any:
            made = super().make_tool(effects, **settings)
            fault(made)
            return made

    monkeypatch.setenv("KEYTURN_SECRET", "the-secret-of-this-test")
    suite = Faulty()
    suite.streamed, suite.effects = False, Effects()
    with pytest.raises((AssertionError, pytest.fail.Exception, AttributeError, KeyError, ValueError)):
        getattr(suite, test)(*given)
