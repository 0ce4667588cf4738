"""The half of the suite of tools that tests when a tool asks, and what people see of it.

What becomes of a call once somebody has decided is in `tools.py`, where the suite is.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from ...core.digest import canonical
from ...core.preview import Command, Diff, Json, Text
from ...core.strict import parse
from ...render import html, terminal
from ...tools.base import InvalidArguments, Tool, tool_digest
from .tool_case import ToolCase, looked, params_of, spoilt

HOSTILE = "\x1b[2J\r<script>alert(1)</script>\u202e\x00 & \"'"
_TAGS = re.compile(r'</?(?:div|pre|blockquote|bdi)(?: class="[a-z]+")?>')


class ToolAsking(ToolCase):
    """Tests that a tool asks when it should, of what will run, and shows it.

    >>> issubclass(ToolAsking, ToolCase)
    True
    """

    def test_the_tool_and_its_calls_are_fit_to_be_tested(self) -> None:
        tool = self.asking()
        assert isinstance(tool, Tool)
        assert tool.spec() == self.asking().spec(), "two tools that are made alike are one tool"
        assert tool_digest(tool) != tool_digest(self.changed_tool(self.effects)), "changed_tool() is another tool"
        assert self.changed_tool(self.effects).name == tool.name
        done = [self.does(variant) for variant in (0, 1)]
        assert [len(each) for each in done] == [1, 1], "each variant does one thing, and records it"
        assert done[0] != done[1], "the variants differ in what they do"

    def test_what_is_prepared_is_what_will_run(self) -> None:
        tool = self.asking()
        for variant in (0, 1):
            prepared = tool.prepare(self.call("c1", variant))
            canonical(tool.spec())
            assert parse(prepared.text or "{}") == prepared.params
            assert tool.prepare(self.call("c1", variant)).params == prepared.params, "asked again it says the same"

    def test_a_tool_that_never_asks_runs_at_once(self) -> None:
        result = self.run(self.build(self.make_tool(self.effects, needs_approval=False), [self.call("c1")]), "go")
        assert (result.interruptions, result.final_output) == ([], "done: c1")
        assert self.done == self.does(0)

    def test_a_tool_that_asks_waits_until_somebody_decides(self) -> None:
        result = self.paused()
        [item] = result.interruptions
        assert (item.kind, item.call_id, item.name) == ("approval", "c1", self.called())
        assert item.params == self.asking().prepare(self.call("c1")).params
        assert result.final_output is None
        again = self.run(self.agent, result.to_state())
        assert [(one.call_id, one.digest) for one in again.interruptions] == [("c1", item.digest)]
        assert (self.done, len(self.model.calls)) == ([], 1), "a resume without a decision does nothing"

    def test_a_callable_decides_from_what_will_run(self) -> None:
        asked: list[str] = []
        for variant, waiting in ((0, []), (1, ["c1"])):
            other = params_of(self.asking(), self.call("c1", 1))

            async def needs(_context: object, params: object, label: str, other: object = other) -> bool:
                asked.append(label)
                return params == other

            tool = self.make_tool(self.effects, needs_approval=needs)
            result = self.run(self.build(tool, [self.call("c1", variant)]), "go")
            assert [item.call_id for item in result.interruptions] == waiting
            if waiting:
                state = self.saved(result.to_state(), self.agent)
                state.approve(state.get_interruptions()[0])
                self.run(self.agent, state)
        assert asked == ["c1", "c1"], "one verdict for each call: a resume does not ask again"
        assert self.done == [*self.does(0), *self.does(1)]

    @pytest.mark.parametrize("fault", ["raises", "answers None", "answers a text"])
    def test_a_callable_that_fails_asks(self, fault: str) -> None:
        def needs(_context: object, _params: object, _label: str) -> Any:
            if fault == "raises":
                raise LookupError("hunter2")
            return None if fault == "answers None" else "no"

        result = self.run(self.build(self.make_tool(self.effects, needs_approval=needs), [self.call("c1")]), "go")
        [item] = result.interruptions
        assert "needs_approval" in item.reason, "the request says why it asks"
        assert "hunter2" not in item.reason
        assert self.done == []

    def test_arguments_that_do_not_fit_ask_nobody(self) -> None:
        def needs(_context: object, _params: object, _label: str) -> bool:
            raise AssertionError("arguments that were refused reached the callable")

        calls = self.refused()
        assert calls, "name at least one call that the tool refuses"
        for call in calls:
            tool = self.make_tool(self.effects, needs_approval=needs)
            with pytest.raises(InvalidArguments):
                tool.prepare(call)
            result = self.run(self.build(tool, [call]), "go")
            assert (result.interruptions, result.final_output) == ([], "done: bad"), call
            assert "invalid" in self.told("bad"), "the model is told what is wrong, and may try again"
        assert self.done == []

    def test_a_preview_has_four_kinds_of_block(self) -> None:
        tool = self.asking()
        for variant in (0, 1):
            preview = looked(tool, tool.prepare(self.call("c1", variant)).params)
            assert preview.blocks
            assert all(type(block) in (Text, Command, Diff, Json) for block in preview.blocks)
        assert self.paused().interruptions[0].preview == looked(tool, tool.prepare(self.call("c1")).params)

    def test_a_preview_is_escaped_by_every_face(self) -> None:
        tool = self.asking()
        preview = looked(tool, spoilt(tool.prepare(self.call("c1")).params, HOSTILE))
        for shown in (terminal.render(preview, width=40), _TAGS.sub("", html.render(preview))):
            assert all(char == "\n" or char.isprintable() for char in shown)
        assert not set("<>\"'") & set(_TAGS.sub("", html.render(preview))), "every tag in a page is one of ours"
