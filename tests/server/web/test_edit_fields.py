"""A field of the edit form that is left alone changes nothing."""

from typing import Any

import mcp_types as types
import pytest

from keyturn import Agent, Runner
from keyturn.core.errors import BadJson
from keyturn.presenting.shown_request import ShownRequest
from keyturn.server.web.changing import (
    _field,  # pyright: ignore[reportPrivateUsage]  # what a browser sends of it is told by its kind
    fields_of,
)
from keyturn.testing import ScriptedModel, function_call
from tests.mcp.test_own_servers import Desk


@pytest.mark.parametrize("schema", [{"enum": ["slow", "fast"]}, {"type": "boolean"}, {"type": "integer"}, {}])
def test_a_secret_is_never_a_choice_of_which_a_browser_would_send_the_first(schema: dict[str, Any]) -> None:
    made = _field("mode", "[redacted]", "", schema, secret=True)
    assert (made.kind, made.value, made.choices) == ("line", "", ())


SCHEMAS: list[Any] = [
    {},
    {"properties": 5},
    {"properties": []},
    {"properties": {"a": True}},
    {"properties": {"a": 5}},
    {"properties": {"a": {"enum": 5, "description": ["x"]}}},
    {"properties": {"a": {"anyOf": 5, "type": 5}}},
    {"properties": {"a": {"anyOf": [5, {"type": ["string", 5]}]}}},
]


class Odd(Desk):
    """A server that declares its one tool by a schema of any form."""

    def __init__(self, schema: Any) -> None:
        super().__init__(require_approval="always")
        self.schema = schema

    async def list_tools(self, run_context: Any = None, agent: Any = None) -> Any:
        return [types.Tool(name="pay", description="Pays.", input_schema=self.schema)]


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
async def test_the_arguments_of_a_call_can_be_edited_whatever_its_schema_is(schema: Any, strict: bool) -> None:
    model = ScriptedModel([function_call("pay", {"a": "x", "b": 1}), "done"])
    agent = Agent("a", model=model, mcp_servers=[Odd(schema)], mcp_config={"convert_schemas_to_strict": strict})
    [item] = (await Runner.run(agent, "go")).interruptions
    shown = ShownRequest(item)
    assert [(field.name, field.value) for field in fields_of(shown)] == [("a", "x"), ("b", "1")]
    assert not shown.complete
    with pytest.raises(BadJson):
        shown.put("b", "half a number")
