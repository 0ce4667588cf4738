"""How tools with calls of their own are offered: in the words of the Responses API there, as a function elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import UserError
from keyturn.models.anthropic.request import tool_param
from keyturn.models.base import ModelRequest, ModelSettings
from keyturn.models.google.request import google_question
from keyturn.models.openai.tools import offered, offered_in_chat
from keyturn.models.request_parts import function_of, own_words, words_for

SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}}
OWN = {"type": "drill"}


class Drill:
    """A kind with calls of its own that can be a function as well."""

    name, description, call_type = "drill", "Drills.", "drill_call"
    also_function = True
    params_json_schema = SCHEMA

    def provider_tool(self) -> Any:
        return OWN


class OnlyDrill(Drill):
    also_function = False


class Configured:
    """One that is a configuration and nothing else."""

    name, tool_config = "files", {"type": "mcp"}


def test_it_is_offered_in_its_own_words_where_those_are_understood() -> None:
    assert offered([Drill(), OnlyDrill(), Configured()], []) == [OWN, OWN, Configured.tool_config]


@pytest.mark.parametrize("openais", [True, False])
def test_elsewhere_it_is_a_function(openais: bool) -> None:
    function = {"name": "drill", "description": "Drills.", "parameters": SCHEMA}
    assert offered_in_chat([Drill()], [], openais=openais) == [{"type": "function", **function, "strict": False}]
    assert tool_param(Drill()) == {"name": "drill", "description": "Drills.", "input_schema": SCHEMA}
    asked = ModelRequest(None, [{"role": "user", "content": "hi"}], ModelSettings(), [Drill()], None, [])
    declared = {"name": "drill", "description": "Drills.", "parameters_json_schema": SCHEMA}
    assert google_question("gemini-3-flash", asked).config["tools"] == [{"function_declarations": [declared]}]


@pytest.mark.parametrize("tool", [OnlyDrill(), Configured()])
def test_what_can_be_no_function_is_an_error(tool: Any) -> None:
    with pytest.raises(
        UserError, match=f"'{tool.name}'.*cannot be offered to a Claude model: use OpenAIResponsesModel"
    ):
        tool_param(tool)
    assert own_words(tool) == words_for_openai(tool)


def words_for_openai(tool: Any) -> Any:
    return offered([tool], [])[0]


def test_words_of_another_provider_pass() -> None:
    tool = type("Search", (), {"name": "search", "provider_tool": lambda self: {"google_search": {}}})()
    assert words_for(tool, "a Gemini model") == {"google_search": {}}
    with pytest.raises(UserError, match="neither a params_json_schema nor a provider_tool"):
        function_of(object(), "a Gemini model")
