"""The shared suite of the tools room: what every kind of tool promises, whoever wrote it.

Subclass `ToolSuite`, say how a tool is made and called, and pytest runs the rest; nothing but pytest is needed. What
only one kind can promise (its schema, its own output) is tested beside that kind. Where a scenario is
impossible for a kind, its test says what happens there in place of it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any, cast

import pytest

from ...core.errors import NotPending, ToolMissing, UserError
from ...core.events import ReplyRecorded
from ...engine.result import RunResult
from ...tools.base import OutcomeUnknown, Prepared
from ...tools.function import function_tool
from ..crash import Answer, Effects, Scenario, sweep
from .tool_asking import ToolAsking
from .tool_case import answered, script

SAYS = "said a person"
NO_EDIT = "nobody can change what it was asked"


class ToolSuite(ToolAsking):
    """Tests a kind of tool: subclass it in a test module, name the class `Test...`, implement `make_tool` and `call`.

    >>> from keyturn import ToolContext
    >>> from keyturn.testing import function_call
    >>> class TestFunctionTool(ToolSuite):
    ...     def make_tool(self, effects, **settings):
    ...         def post(context: ToolContext, word: str) -> None:
    ...             effects.record(context, word)
    ...         return function_tool(post, **settings)
    ...     def call(self, label, variant=0):
    ...         return function_call("post", {"word": str(variant)}, call_id=label)
    ...     def edited(self):
    ...         return {"word": "1"}
    >>> hasattr(TestFunctionTool, "test_an_approved_call_runs_once")
    True
    """

    def test_an_approved_call_runs_once(self) -> None:
        state = self.paused().to_state()
        state.approve(state.get_interruptions()[0])
        assert self.done == [], "a decision in hand runs nothing yet"
        assert self.run(self.agent, state).final_output == "done: c1"
        assert self.run(self.agent, state).final_output == "done: c1", "a finished run gives its result again"
        assert self.done == self.does(0)

    @pytest.mark.parametrize("words", [None, "not on a Friday"])
    def test_a_rejected_call_does_not_run(self, words: str | None) -> None:
        state = self.paused().to_state()
        state.reject(state.get_interruptions()[0], rejection_message=words)
        assert self.run(self.agent, state).final_output == "done: c1", "the run goes on"
        assert (words or "Tool execution was not approved.") in self.told("c1")
        assert self.done == []

    def test_an_edited_call_runs_as_it_was_edited(self) -> None:
        state, edit = self.paused().to_state(), self.edited()
        [item] = state.get_interruptions()
        if edit is None:
            self.instead(NO_EDIT)
            with pytest.raises(UserError):
                state.approve(item, edit=item.params)
            return
        state.approve(item, edit=edit, seen=self.seen(item, edit))
        assert self.run(self.agent, state).final_output == "done: c1"
        assert self.done == self.does(1)
        assert "A person changed the arguments" in self.told("c1"), "the model is told"
        ran = json.dumps(self.asking().edit(edit).text, ensure_ascii=False)[1:-1]
        assert ran in self.told("c1"), "and to what"

    def test_an_edit_survives_a_change_of_the_tool(self) -> None:
        state, edit = self.paused().to_state(), self.edited()
        if edit is None:
            self.instead(NO_EDIT)
            return
        state.approve(state.get_interruptions()[0], edit=edit)
        again = self.run(self.build(self.changed_tool(self.effects), [self.call("c1")]), state)
        [item] = again.interruptions
        state = again.to_state()
        state.approve(item)
        self.run(self.agent, state)
        assert self.done == self.does(1), "it is proposed anew as the person had edited it"

    def test_an_edit_that_does_not_fit_decides_nothing(self) -> None:
        state = self.paused().to_state()
        for edit in self.misfits():
            with pytest.raises(UserError):
                state.approve(state.get_interruptions()[0], edit=edit)
        assert [item.call_id for item in self.run(self.agent, state).interruptions] == ["c1"]
        assert self.done == []

    def test_an_answered_call_does_not_run(self) -> None:
        state = self.paused().to_state()
        if not self.asking().answerable:
            self.instead("nobody here can give its result")
            with pytest.raises(UserError, match="cannot be answered"):
                state.answer(state.get_interruptions()[0], True)
            assert [item.call_id for item in self.run(self.agent, state).interruptions] == ["c1"]
            return
        state.answer(state.get_interruptions()[0], SAYS)
        assert self.run(self.agent, state).final_output == "done: c1"
        assert SAYS in self.told("c1")
        assert self.done == []

    def test_a_grant_covers_the_next_call(self) -> None:
        rounds = [[self.call("c1")], [self.call("c2", 1)]]
        state = self.paused(*rounds).to_state()
        state.approve(state.get_interruptions()[0], always_approve=True)
        state = self.saved(state, self.build(self.asking(), *rounds))
        assert self.run(self.agent, state).final_output == "done: c1, c2"
        assert self.done == [*self.does(0), *self.does(1)]

    def test_a_grant_covers_no_other_tool(self) -> None:
        other = self.bystander()
        result = self.paused([self.call("c1")], [_to_bystander("c2")], others=(other,))
        state = result.to_state()
        state.approve(state.get_interruptions()[0], always_approve=True)
        result = self.run(self.agent, state)
        assert [item.call_id for item in result.interruptions] == ["c2"]
        assert self.done == self.does(0)

    def test_calls_of_one_reply_are_decided_one_by_one(self) -> None:
        calls = [self.call("c1"), self.call("c2", 1)]
        state = self.paused(calls).to_state()
        first, second = state.get_interruptions()
        assert (first.call_id, second.call_id) == ("c1", "c2")
        state.approve(second)
        result = self.run(self.agent, state)
        assert [item.call_id for item in result.interruptions] == ["c1"]
        assert len(self.model.calls) == 1, "the model waits for all results"
        at_once = getattr(self.agent.tools[0], "answerable", True)
        assert self.done == (self.does(1) if at_once else []), "what the provider carries out is sent with all results"
        state = result.to_state()
        with pytest.raises(NotPending):
            state.approve(second)
        state.reject(state.get_interruptions()[0])
        assert self.run(self.agent, state).final_output == "done: c1, c2"
        read = [label for item in self.model.calls[-1].input if (label := answered(item))]
        assert read == ["c1", "c2"], "the results come in the order of the calls"
        assert self.done == self.does(1)

    def test_a_saved_state_goes_on_elsewhere(self) -> None:
        result = self.paused()
        agent = self.build(self.asking(), [self.call("c1")])
        state = self.saved(result.to_state(), agent)
        [here], [there] = result.interruptions, state.get_interruptions()
        assert (there.params, there.preview, there.digest) == (here.params, here.preview, here.digest)
        state.approve(there)
        state = self.saved(state, self.build(self.asking(), [self.call("c1")]))
        assert self.run(self.agent, state).final_output == "done: c1"
        assert self.done == self.does(0)

    def test_a_tool_that_changed_asks_again(self) -> None:
        state = self.paused().to_state()
        state.approve(state.get_interruptions()[0])
        state = self.saved(state, self.build(self.changed_tool(self.effects), [self.call("c1")]))
        result = self.run(self.agent, state)
        [item] = result.interruptions
        assert (item.call_id, self.done) == ("c1", []), "the approval was for another tool"
        assert item.reason
        assert item.difference["before"] != item.difference["after"]
        state = result.to_state()
        state.approve(item)
        assert self.run(self.agent, state).final_output == "done: c1"
        assert self.done == self.does(0)

    def test_a_tool_that_is_gone_is_missed_and_nothing_is_lost(self) -> None:
        state = self.paused().to_state()
        state.approve(state.get_interruptions()[0])
        calls, agent = [self.call("c1")], self.agent
        without = self.build(self.bystander(), calls)
        with pytest.raises(ToolMissing, match=self.called()):
            self.run(without, state)
        assert (self.done, len(self.model.calls)) == ([], 0)
        self.model = cast("Any", agent.model)
        assert self.run(agent, state).final_output == "done: c1", "the decision stands when the tool is back"
        assert self.done == self.does(0)

    @pytest.mark.parametrize("word", ["ran", "did_not_run", "retry"])
    def test_a_started_call_that_was_lost_is_in_doubt(self, word: Any) -> None:
        state = self.paused().to_state()
        state.approve(state.get_interruptions()[0])
        whole = self.run(self.agent, state)
        first, self.effects = self.effects, Effects()
        state = self.crashed(whole, self.build(self.asking(), [self.call("c1")]))
        result = self.run(self.agent, state)
        if next(iter(_recoveries(whole))) == "retry":
            assert (result.final_output, self.done) == ("done: c1", self.does(0)), "it says that it can be done again"
            return
        [item] = result.interruptions
        assert (item.kind, item.call_id, self.done) == ("in_doubt", "c1", []), "it is never silently run again"
        state = result.to_state()
        state.resolve(item, word, output=SAYS if word == "ran" else None)
        assert self.run(self.agent, state).final_output == "done: c1"
        assert self.done == (self.does(0) if word == "retry" else [])
        assert {"ran": SAYS, "did_not_run": "did not run", "retry": ""}[word] in self.told("c1")
        assert word != "retry" or self.effects.done == first.done, "a retry has the key of the first try"

    def test_a_call_of_which_nobody_knows_the_end_is_in_doubt(self) -> None:
        tool, tries = self.asking(), list[str]()

        async def unknown(context: Any, _prepared: Prepared) -> Any:
            tries.append(context.idempotency_key)
            raise OutcomeUnknown("nobody knows")

        tool.invoke = unknown
        state = self.run(self.build(tool, [self.call("c1")]), "go").to_state()
        state.approve(state.get_interruptions()[0])
        for verdict in ("retry", "did_not_run"):
            result = self.run(self.agent, state)
            [item] = result.interruptions
            assert (item.kind, item.reason) == ("in_doubt", "nobody knows")
            state = result.to_state()
            state.resolve(item, verdict)
        assert self.run(self.agent, state).final_output == "done: c1"
        assert tries == [item.request_id] * 2, "it is tried again when a person says so, however harmless that is"

    @pytest.mark.parametrize("how", ["approve", "reject", "edit", "answer", "two at once", "never asks"])
    def test_no_crash_loses_or_doubles_an_effect(self, how: str) -> None:
        answer = Answer(SAYS) if self.asking().answerable else True
        decisions: dict[str, Any] = {"reject": False, "edit": self.edited() or True, "answer": answer}
        rounds = [[self.call("c1"), self.call("c2", 1)]] if how == "two at once" else [[self.call("c1")]]

        def build(effects: Effects) -> Any:
            tool = self.make_tool(effects, needs_approval=how != "never asks")
            return self.make_agent([tool], script(*rounds, [self.call("c3", 1)]))

        scenario = Scenario(how, build, decide=lambda _item: decisions.get(how, True))
        report = asyncio.run(sweep(scenario, streamed=self.streamed))
        assert report.cuts
        assert not report.violations, "\n".join(report.violations)

    def bystander(self) -> Any:
        """Make a tool of another name that asks, to stand beside the one under test."""

        async def bystander() -> str:
            return "stood by"

        return function_tool(bystander, needs_approval=True)


def _to_bystander(label: str) -> dict[str, Any]:
    return {"type": "function_call", "call_id": label, "name": "bystander", "arguments": "{}"}


def _recoveries(result: RunResult) -> Iterator[str]:
    """Return how each call of a run recovers."""
    for step in result.to_state().live.log.steps:
        for event in step.events:
            if isinstance(event, ReplyRecorded):
                yield from (proposal.recover for proposal in event.proposals)
