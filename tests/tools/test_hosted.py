"""Tools that the provider runs: offered in its words, their items carried through, refused where nobody runs them."""

from __future__ import annotations

from typing import Any

import pytest
from openai.types.responses.response_create_params import ResponseCreateParams
from pydantic import TypeAdapter

from keyturn import (
    Agent,
    AnthropicModel,
    CodeInterpreterTool,
    FileSearchTool,
    GoogleModel,
    HostedMCPTool,
    ImageGenerationTool,
    ModelSettings,
    Runner,
    UserError,
    WebSearchTool,
    function_tool,
)
from keyturn.testing import ScriptedModel, assistant_message, function_call
from keyturn.testing.loopback.chat import ChatServer
from keyturn.testing.loopback.responses import ResponsesServer
from tests.models.openai.items import KNOWN
from tests.models.openai.serving import served
from tests.tools.wire import bodies, decided

pytestmark = pytest.mark.usefixtures("own_key")

CHECK: TypeAdapter[Any] = TypeAdapter(ResponseCreateParams)
CONTAINER = {"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["file_1"]}}
WIKI = {"type": "mcp", "server_label": "wiki", "server_url": "https://example.com/mcp"}
TOOLS = [
    WebSearchTool(user_location={"type": "approximate", "city": "Linz"}, filters={"allowed_domains": ["example.com"]}),
    FileSearchTool(["vs_1"], max_num_results=3, include_search_results=True),
    CodeInterpreterTool(CONTAINER),
    ImageGenerationTool({"type": "image_generation", "quality": "low"}),
]
OFFERED = [
    {
        "type": "web_search",
        "search_context_size": "medium",
        "filters": {"allowed_domains": ["example.com"]},
        "user_location": {"type": "approximate", "city": "Linz"},
    },
    {"type": "file_search", "vector_store_ids": ["vs_1"], "max_num_results": 3},
    CONTAINER,
    {"type": "image_generation", "quality": "low"},
]
MADE = [
    item
    for item in KNOWN
    if item["type"] in ("web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call")
]


@function_tool(needs_approval=True)
def pay(to: str) -> str:
    """Pay somebody."""
    return f"paid {to}"


async def test_they_are_offered_and_their_items_are_carried_through(streamed: bool) -> None:
    script = [[*MADE, function_call("pay", {"to": "ada"}, call_id="c1")], [assistant_message("done")]]
    async with served(server := ResponsesServer(script)) as model:
        agent = Agent("a", model=model, tools=[*TOOLS, pay])
        result = await decided(agent, streamed, lambda state, item: state.approve(item))
    assert result.final_output == "done"
    first, second = bodies(server)
    CHECK.validate_python(first)
    assert first["tools"][:-1] == OFFERED
    assert first["include"] == ["file_search_call.results"]
    assert second["input"][1 : 1 + len(MADE)] == MADE
    assert [item.type for item in result.new_items[: len(MADE)]] == ["tool_call_item"] * len(MADE)


async def test_one_can_be_chosen_by_name() -> None:
    async with served(server := ResponsesServer(["done"])) as model:
        settings = ModelSettings(tool_choice="web_search", response_include=["file_search_call.results"])
        await Runner.run(Agent("a", model=model, tools=TOOLS, model_settings=settings), "go")
    [body] = bodies(server)
    assert body["tool_choice"] == {"type": "web_search"}
    assert body["include"] == ["file_search_call.results"], "named once, though it is wanted twice"


async def test_an_agent_has_them_among_its_tools() -> None:
    agent = Agent("a", model=ScriptedModel(["done"]), tools=[*TOOLS, pay])
    result = await Runner.run(agent, "go")
    assert await agent.get_all_tools(result.context_wrapper) == [*TOOLS, pay]
    assert result.final_output == "done"


@pytest.mark.parametrize("tool", [*TOOLS, HostedMCPTool(WIKI)], ids=lambda tool: tool.name)
async def test_no_other_api_runs_them(tool: Any) -> None:
    kind = tool.provider_tool()["type"]
    async with served(ChatServer([])) as model:
        with pytest.raises(UserError, match=f"no tool of type '{kind}'.*use OpenAIResponsesModel"):
            await Runner.run(Agent("a", model=model, tools=[tool]), "go")
    for model, whose in ((AnthropicModel("m", api_key="k"), "Claude"), (GoogleModel("m", api_key="k"), "Gemini")):
        told = f"'{tool.name}'.*cannot be offered to a {whose} model: use OpenAIResponsesModel"
        with pytest.raises(UserError, match=told):
            await Runner.run(Agent("a", model=model, tools=[tool]), "go")


@pytest.mark.parametrize("kind", [CodeInterpreterTool, ImageGenerationTool])
def test_a_configuration_of_another_tool_is_refused(kind: Any) -> None:
    for config in ({"type": "web_search"}, {}, "code_interpreter"):
        with pytest.raises(UserError, match='"type"'):
            kind(config)


def test_a_web_search_brings_pictures_where_it_is_asked_for_them() -> None:
    tool = WebSearchTool(search_content_types=["text", "image"], image_settings={"max_results": 3})
    assert tool.provider_tool()["search_content_types"] == ["text", "image"]
    assert tool.provider_tool()["image_settings"] == {"max_results": 3}
    assert (tool.response_include, WebSearchTool().response_include) == (["web_search_call.results"], [])
