"""What is asked: settings, tools, choices and output types in the words of the Messages API."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, Field

from keyturn.agents.output import AgentOutputSchema
from keyturn.core.errors import UserError
from keyturn.models.anthropic.request import anthropic_question
from keyturn.models.base import ModelRequest, ModelSettings
from tests.models.errand import pay
from tests.table import each

HI = [{"role": "user", "content": "hi"}]


def asked(
    *, schema: Any = None, tools: Any = (pay,), system: str | None = None, kept: Any = None, **settings: Any
) -> Any:
    request = ModelRequest(system, HI, ModelSettings(**settings), list(tools), schema, [], **(kept or {}))
    return anthropic_question("m", 100, request)


def test_settings_that_it_has() -> None:
    metadata = {"user_id": "u", "x": "y"}
    body = asked(temperature=0.5, top_p=0.9, max_tokens=7, metadata=metadata, presence_penalty=1.0).body
    assert (body["temperature"], body["top_p"], body["max_tokens"], body["metadata"]) == (0.5, 0.9, 7, {"user_id": "u"})
    assert "presence_penalty" not in body


@each(
    ("given", "parallel", "sent"),
    [
        (None, None, None),
        ("auto", None, {"type": "auto"}),
        ("required", None, {"type": "any"}),
        ("none", False, {"type": "none"}),
        ("pay", None, {"type": "tool", "name": "pay"}),
        ({"type": "function", "name": "pay"}, None, {"type": "tool", "name": "pay"}),
        ({"type": "function", "function": {"name": "pay"}}, None, {"type": "tool", "name": "pay"}),
        ({"type": "any"}, False, {"type": "any", "disable_parallel_tool_use": True}),
        (None, False, {"type": "auto", "disable_parallel_tool_use": True}),
        (None, True, None),
        ("required", True, {"type": "any", "disable_parallel_tool_use": False}),
    ],
)
def test_tool_choice(given: Any, parallel: bool | None, sent: Any) -> None:
    assert asked(tool_choice=given, parallel_tool_calls=parallel).body.get("tool_choice") == sent
    assert "tool_choice" not in asked(tool_choice=given, parallel_tool_calls=parallel, tools=()).body


@each(
    ("given", "sent"),
    [
        (None, {}),
        ({"type": "enabled", "budget_tokens": 2048}, {"thinking": {"type": "enabled", "budget_tokens": 2048}}),
        ({"budget_tokens": 2048}, {"thinking": {"type": "enabled", "budget_tokens": 2048}}),
        ({"effort": "none"}, {"thinking": {"type": "disabled"}}),
        ({"effort": "minimal"}, {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}),
        ({"effort": "xhigh", "summary": "auto"},
         {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "xhigh"}}),
    ],
)  # fmt: skip
def test_thinking(given: Any, sent: Any) -> None:
    body = asked(reasoning=given).body
    assert {name: body[name] for name in ("thinking", "output_config") if name in body} == sent


def test_thinking_as_an_object_of_another_sdk() -> None:
    class Reasoning:
        effort = "high"
        summary = None

    assert asked(reasoning=Reasoning()).body["output_config"] == {"effort": "high"}


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("in_memory", {"type": "ephemeral"}),
        ("24h", {"type": "ephemeral", "ttl": "1h"}),
        ("5m", {"type": "ephemeral", "ttl": "5m"}),
    ],
)
def test_caching(given: str, sent: Any) -> None:
    assert asked(prompt_cache_retention=given).body["cache_control"] == sent


def test_what_else_it_takes_goes_in_extra_args() -> None:
    search = {"type": "web_search_20250305", "name": "web_search"}
    body = asked(extra_args={"stop_sequences": ["x"], "cache_control": {"type": "ephemeral"}, "tools": [search]}).body
    assert (body["stop_sequences"], body["cache_control"]) == (["x"], {"type": "ephemeral"})
    assert [tool["name"] for tool in body["tools"]] == ["pay", "web_search"]


def test_how_it_is_posted() -> None:
    posed = asked(extra_headers={"a": "b"}, extra_query={"q": 1}, extra_body={"x": 2}, timeout=3.0, retry=4)
    assert posed.options == {"headers": {"a": "b"}, "params": {"q": 1}, "extra_json": {"x": 2}, "timeout": 3.0}
    assert posed.retry == 4


class Answer(BaseModel):
    city: str
    people: int = Field(ge=0)


def test_a_closed_output_type_is_held_by_the_api() -> None:
    body = asked(schema=AgentOutputSchema(Answer), reasoning={"effort": "low"}).body
    form = body["output_config"]["format"]
    assert body["output_config"]["effort"] == "low"
    assert form["type"] == "json_schema"
    assert form["schema"]["additionalProperties"] is False
    assert "minimum" not in form["schema"]["properties"]["people"]
    assert "system" not in body


def test_an_open_output_type_is_asked_for_in_words() -> None:
    body = asked(schema=AgentOutputSchema(dict[str, int], strict_json_schema=False), system="Be brief.").body
    assert "output_config" not in body
    assert body["system"].startswith("Be brief.\n\nAnswer with one JSON object that fits this schema")


@pytest.mark.parametrize("name", ["previous_response_id", "conversation_id", "prompt"])
def test_what_would_lose_the_conversation_is_an_error(name: str) -> None:
    with pytest.raises(UserError, match=name):
        asked(kept={name: "x"})


def test_a_tool_of_a_kind_that_cannot_be_offered() -> None:
    class Other:
        name = "drill"

    with pytest.raises(UserError, match="the tool 'drill' cannot be offered"):
        asked(tools=[Other()])
    with pytest.raises(UserError, match="names no tool"):
        asked(tool_choice={"type": "function"})


def test_a_tool_that_the_provider_runs_says_itself_what_it_is() -> None:
    class Search:
        name = "web_search"

        def provider_tool(self) -> Any:
            return {"type": "web_search_20250305", "name": "web_search"}

    assert asked(tools=[pay, Search()]).body["tools"][1] == {"type": "web_search_20250305", "name": "web_search"}
