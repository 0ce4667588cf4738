"""What Pydantic AI and pydantic-deep have and Keyturn lacks is refused with its remedy, where a program uses it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from keyturn.deep import create_deep_agent
from keyturn.deferred import Agent, DeferredToolResults, ToolReturn
from keyturn.deferred.absent import ABSENT
from keyturn.deferred.prepare import RunArguments
from keyturn.testing import ScriptedModel, function_call
from tests.table import each


def agent() -> Agent[Any, Any]:
    return Agent(ScriptedModel(["hi"]))


def imported(room: str, name: str) -> None:
    exec(f"from keyturn.{room} import {name}", {})


USED: dict[str, tuple[Callable[[], Any], str]] = {
    "retries": (lambda: Agent(ScriptedModel([]), retries=3), "raise ModelRetry"),
    "history_processors": (lambda: Agent(ScriptedModel([]), history_processors=[]), "call_model_input_filter"),
    "a misspelt option": (lambda: Agent(ScriptedModel([]), toolz=[]), "did you mean 'tools'"),
    "an option of a deep agent": (lambda: create_deep_agent(edit_format="x"), "leave it out"),
    "a misspelt one of a deep agent": (lambda: create_deep_agent(include_todos=True), "include_todo"),
    "a misspelt option of a run": (lambda: RunArguments.of("x", {"max_turn": 1}), "did you mean 'max_turns'"),
    "an absent option of a run": (lambda: RunArguments.of("x", {"retries": 1}), "raise ModelRetry"),
    "output_validator": (lambda: agent().output_validator, "output guardrail"),
    "override": (lambda: agent().override(model="x"), "ScriptedModel"),
    "iter": (lambda: agent().iter("x"), "run_stream_events"),
    "a misspelt method": (lambda: agent().run_synk("x"), "did you mean 'run_sync'"),
    "TestModel": (lambda: imported("deferred", "TestModel"), "ScriptedModel"),
    "a path": (lambda: imported("deferred.models.test", "TestModel"), "models stand in keyturn"),
    "LocalBackend": (lambda: imported("deep", "LocalBackend"), "FilesystemBackend"),
    "a name of nobody's": (lambda: imported("deferred", "Nothing"), "coming-from-pydantic-ai.md"),
}


@each("what", USED)
def test_what_is_absent_is_refused_with_its_remedy(what: str) -> None:
    use, remedy = USED[what]
    with pytest.raises((TypeError, AttributeError, ImportError), match=r"has no|unexpected") as refused:
        use()
    assert remedy in str(refused.value)


def test_a_remedy_says_what_to_do() -> None:
    assert not [name for name, remedy in ABSENT.items() if len(remedy.split()) < 4]
    assert not hasattr(agent(), "iter")


@each("content", ["and more", ["and", "more"], [{"type": "text", "text": "more"}]])
async def test_content_of_a_result_reaches_the_model_after_the_value(content: Any) -> None:
    model = ScriptedModel([[function_call("look", {}, call_id="c1"), function_call("ask", {}, call_id="c2")], "done"])
    one = Agent(model)

    @one.tool_plain(requires_approval=True)
    def look() -> ToolReturn:
        return ToolReturn({"rows": 3}, content=content, metadata={"kept": "here"})

    @one.tool_plain
    def ask() -> str:
        return "asked"

    waits = await one.run("go")
    results = DeferredToolResults(approvals={"c1": True})
    assert (await one.run(message_history=waits.all_messages(), deferred_tool_results=results)).output == "done"
    told = [item["output"] for item in model.calls[-1].input if item.get("call_id") == "c1" and "output" in item]
    texts = [part["text"] for part in told[0]]
    assert texts[0] == '{"rows": 3}'
    given = [content] if isinstance(content, str) else content
    assert texts[1:] == [part if isinstance(part, str) else part["text"] for part in given]
    assert "kept" not in str(model.calls[-1].input)
