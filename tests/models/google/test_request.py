"""What is asked: settings, tools, choices and output types in the words of Gemini."""

from __future__ import annotations

from typing import Any

import pytest
from google.genai.types import GenerateContentConfig
from pydantic import BaseModel

from keyturn.agents.output import AgentOutputSchema
from keyturn.core.errors import UserError
from keyturn.models.base import ModelRequest, ModelSettings
from keyturn.models.google.request import google_question
from tests.models.errand import PAY, pay
from tests.table import each

HI = [{"role": "user", "content": "hi"}]
OLD, NEW = "gemini-2.5-flash", "models/gemini-3-pro-preview"


def asked(
    *,
    model: str = NEW,
    schema: Any = None,
    tools: Any = (pay,),
    system: str | None = None,
    kept: Any = None,
    **settings: Any,
) -> Any:
    request = ModelRequest(system, HI, ModelSettings(**settings), list(tools), schema, [], **(kept or {}))
    config = google_question(model, request).config
    GenerateContentConfig.model_validate(config)  # it knows no extra fields
    return config


def test_settings_that_it_has() -> None:
    config = asked(temperature=0.5, top_p=0.9, max_tokens=7, presence_penalty=1.0, top_logprobs=3, store=True)
    assert config | {"temperature": 0.5, "top_p": 0.9, "max_output_tokens": 7, "presence_penalty": 1.0} == config
    assert (config["response_logprobs"], config["logprobs"]) == (True, 3)


def test_nothing_is_called_behind_the_runs_back() -> None:
    assert asked()["automatic_function_calling"] == {"disable": True}


def test_tools_are_declared_with_their_json_schema() -> None:
    [tool] = asked()["tools"]
    declared = {"name": "pay", "description": "Pay somebody.", "parameters_json_schema": PAY}
    assert tool == {"function_declarations": [declared]}


@each(
    ("given", "sent"),
    [
        ("auto", {"mode": "AUTO"}),
        ("required", {"mode": "ANY"}),
        ("none", {"mode": "NONE"}),
        ("pay", {"mode": "ANY", "allowed_function_names": ["pay"]}),
        ({"type": "function", "name": "pay"}, {"mode": "ANY", "allowed_function_names": ["pay"]}),
        ({"type": "function", "function": {"name": "pay"}}, {"mode": "ANY", "allowed_function_names": ["pay"]}),
        ({"mode": "VALIDATED"}, {"mode": "VALIDATED"}),
    ],
)
def test_tool_choice(given: Any, sent: Any) -> None:
    assert asked(tool_choice=given)["tool_config"] == {"function_calling_config": sent}
    assert "tool_config" not in asked(tool_choice=given, tools=())


@each(
    ("model", "given", "sent"),
    [
        (NEW, {"effort": "low"}, {"thinking_level": "LOW"}),
        (NEW, {"effort": "high", "summary": "auto"}, {"thinking_level": "HIGH", "include_thoughts": True}),
        (NEW, {"effort": "none"}, {"thinking_budget": 0}),
        (OLD, {"effort": "low"}, {"thinking_budget": 1024}),
        (OLD, {"effort": "high"}, {"thinking_budget": 24576}),
        (OLD, {"thinking_budget": 5, "include_thoughts": True}, {"thinking_budget": 5, "include_thoughts": True}),
        (NEW, {}, None),
        (NEW, None, None),
    ],
)
def test_thinking(model: str, given: Any, sent: Any) -> None:
    assert asked(model=model, reasoning=given).get("thinking_config") == sent


def test_thinking_as_an_object_of_another_sdk() -> None:
    class Reasoning:
        effort = "medium"
        summary = None

    assert asked(reasoning=Reasoning())["thinking_config"] == {"thinking_level": "MEDIUM"}


class Answer(BaseModel):
    city: str


def test_a_closed_output_type_is_held_by_gemini() -> None:
    config = asked(schema=AgentOutputSchema(Answer))
    assert config["response_mime_type"] == "application/json"
    assert config["response_json_schema"]["properties"]["city"]["type"] == "string"
    assert "system_instruction" not in config


def test_older_models_hold_no_answer_to_a_schema_beside_functions() -> None:
    config = asked(model=OLD, schema=AgentOutputSchema(Answer), system="Be brief.")
    assert "response_json_schema" not in config
    assert config["system_instruction"].startswith("Be brief.\n\nAnswer with one JSON object that fits this schema")
    assert "response_json_schema" in asked(model=OLD, schema=AgentOutputSchema(Answer), tools=())


def test_an_open_output_type_is_asked_for_in_words() -> None:
    config = asked(schema=AgentOutputSchema(dict[str, int], strict_json_schema=False))
    assert "response_json_schema" not in config
    assert "fits this schema" in config["system_instruction"]


def test_what_else_it_takes_goes_in_extra_args() -> None:
    config = asked(extra_args={"stop_sequences": ["x"], "tools": [{"google_search": {}}]})
    assert config["stop_sequences"] == ["x"]
    assert [next(iter(tool)) for tool in config["tools"]] == ["function_declarations", "google_search"]


def test_how_it_is_sent() -> None:
    options = asked(extra_headers={"a": "b"}, extra_body={"x": 2}, timeout=1.5)["http_options"]
    assert options == {"headers": {"a": "b"}, "extra_body": {"x": 2}, "timeout": 1500}


@pytest.mark.parametrize("name", ["previous_response_id", "conversation_id", "prompt"])
def test_what_would_lose_the_conversation_is_an_error(name: str) -> None:
    with pytest.raises(UserError, match=name):
        asked(kept={name: "x"})


def test_what_cannot_be_sent_is_an_error() -> None:
    class Other:
        name = "drill"

    with pytest.raises(UserError, match="the tool 'drill' cannot be offered"):
        asked(tools=[Other()])
    with pytest.raises(UserError, match="names no tool"):
        asked(tool_choice={"type": "function"})
    with pytest.raises(UserError, match="extra_query"):
        asked(extra_query={"a": "b"})


def test_a_tool_that_the_provider_runs_says_itself_what_it_is() -> None:
    class Search:
        name = "web_search"

        def provider_tool(self) -> Any:
            return {"google_search": {}}

    assert asked(tools=[pay, Search()])["tools"][1] == {"google_search": {}}
