"""One remote tool: what is sent, what the model reads, and what it is called."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Image
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import AudioContent, CallToolResult, EmbeddedResource, ResourceLink, TextContent, TextResourceContents

from keyturn import MCPToolMetaContext, ToolGuardrailFunctionOutput, tool_input_guardrail
from keyturn.mcp.tool import offered_name
from keyturn.testing import approve_all
from tests.mcp.conftest import Inside, calling
from tests.playing import play

shop = MCPServer("shop", log_level="CRITICAL")
seen: list[Any] = []


@shop.tool()
async def echo(ctx: Context[Any, Any], text: str | None = "default", number: int = 0) -> str:
    """Says it again."""
    seen.append(dict(ctx.request_context.meta or {}))
    return f"{text} {number}"


@shop.tool()
async def sums(a: int, b: int) -> dict[str, int]:
    """Adds."""
    return {"sum": a + b}


@shop.tool()
async def broken() -> str:
    """Fails."""
    raise ToolError("the shop is closed")


@shop.tool(structured_output=False)
async def drawn() -> list[Any]:
    """Draws."""
    return ["look:", Image(data=b"\x89PNG", format="png")]


@shop.tool()
async def mixed() -> CallToolResult:
    """Gives a bit of everything."""
    return CallToolResult(
        content=[
            TextContent(type="text", text="hi"),
            AudioContent(type="audio", data="AAAA", mime_type="audio/wav"),
            ResourceLink(type="resource_link", name="notes", uri="file:///notes.txt"),
            EmbeddedResource(
                type="resource",
                resource=TextResourceContents(uri="file:///a.txt", text="in a file", mime_type="text/plain"),
            ),
        ]
    )


@shop.tool()
async def nothing() -> CallToolResult:
    """Gives nothing."""
    return CallToolResult(content=[])


@shop.tool(name="odd name/é")
async def odd() -> str:
    """Has a name that no provider takes."""
    return "odd"


async def output_of(name: str, arguments: Any, *, streamed: bool = False, **options: Any) -> Any:
    async with Inside(shop, **options) as server:
        agent = calling(server, calls=(name, arguments))
        result = await play(agent, streamed=streamed)
        return next(item["output"] for item in result.to_input_list() if "output" in item)


@pytest.mark.parametrize(
    ("name", "arguments", "read"),
    [
        ("echo", {"text": "a", "number": 3}, "a 3"),
        ("echo", {}, "default 0"),
        ("echo", {"text": None}, "None 0"),
        ("nothing", {}, "The tool gave no output."),
        ("broken", {}, "Error executing tool broken: the shop is closed"),
    ],
)
async def test_a_text_is_what_the_model_reads(streamed: bool, name: str, arguments: Any, read: str) -> None:
    assert await output_of(name, arguments, streamed=streamed) == read


async def test_structured_content_is_read_where_it_is_wanted() -> None:
    assert json.loads(await output_of("sums", {"a": 1, "b": 2}, use_structured_content=True)) == {"sum": 3}
    assert json.loads(await output_of("sums", {"a": 1, "b": 2})) == {"sum": 3}


async def test_images_are_parts_and_what_cannot_be_read_is_named() -> None:
    assert await output_of("drawn", {}) == [
        {"type": "input_text", "text": "look:"},
        {"type": "input_image", "image_url": "data:image/png;base64,iVBORw=="},
    ]
    assert [part["text"] for part in await output_of("mixed", {})] == [
        "hi",
        "[audio of type 'audio/wav' left out: 3 bytes]",
        "[resource file:///notes.txt: notes]",
        "[resource file:///a.txt]\nin a file",
    ]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [({"a": 1}, "'b' is missing"), ({"a": 1, "b": "2"}, "'b' must be of type integer"), ([], "must be a JSON object")],
)
async def test_arguments_that_do_not_fit_are_never_sent(arguments: Any, problem: str) -> None:
    said = await output_of("sums", arguments, require_approval="always")
    assert "The arguments of sums are invalid" in said
    assert problem in said


async def test_a_failure_function_speaks_of_our_errors_and_not_of_the_servers() -> None:
    def told(_context: Any, error: Exception) -> str:
        return f"sorry: {type(error).__name__}"

    assert (await output_of("broken", {}, failure_error_function=told)).endswith("the shop is closed")
    gone = MCPServer("gone")

    @gone.tool()
    async def say() -> str:
        raise AssertionError

    async with Inside(
        gone, require_approval=lambda *_: False, failure_error_function=told, cache_tools_list=True
    ) as it:
        agent = calling(it, calls=("say", {}))
        await it.list_tools()
        gone.remove_tool("say")
        assert (await play(agent)).final_output == "sorry: ToolProblem"
    async with Inside(shop, failure_error_function=None) as it:
        assert (await play(calling(it, calls=("broken", {})))).final_output.endswith("the shop is closed")


async def test_a_call_takes_a_key_along_and_what_the_resolver_says() -> None:
    asked: list[MCPToolMetaContext] = []

    def resolver(context: MCPToolMetaContext) -> dict[str, Any]:
        asked.append(context)
        return {"tenant": "acme"}

    seen.clear()
    await output_of("echo", {"text": "a"}, tool_meta_resolver=resolver)
    assert (asked[0].server_name, asked[0].tool_name, asked[0].arguments) == ("shop", "echo", {"text": "a"})
    [meta] = seen
    assert meta["tenant"] == "acme"
    assert meta["keyturn/idempotency-key"] != asked[0].run_context.idempotency_key, "that one lets people decide"


async def test_guardrails_of_a_server_are_asked() -> None:
    @tool_input_guardrail
    def no_secrets(data: Any) -> ToolGuardrailFunctionOutput:
        return ToolGuardrailFunctionOutput.reject_content("not that")

    assert await output_of("echo", {"text": "a"}, tool_input_guardrails=[no_secrets]) == "not that"


async def test_people_see_server_tool_arguments_and_the_servers_words_as_such(streamed: bool) -> None:
    async with Inside(shop, name="files", require_approval="always") as server:
        result = await play(calling(server, calls=("echo", {"text": "\u202e"})), streamed=streamed)
        [item] = result.interruptions
        assert [(block.label, getattr(block, "text", None)) for block in item.preview.blocks] == [
            ("calls", "echo on MCP server files"),
            ("arguments", None),
            ("the server's description of this tool", "Says it again."),
        ]
        assert item.preview.blocks[1].value == {"text": "\u202e"}


async def test_a_callable_gets_context_agent_and_tool() -> None:
    asked: list[Any] = []

    async def policy(context: Any, agent: Any, tool: Any) -> bool:
        asked.append((type(context).__name__, agent.name, tool.name))
        return tool.name == "echo"

    async with Inside(shop, require_approval=policy) as server:
        agent = calling(server, calls=[("echo", {}), ("sums", {"a": 1, "b": 1})])
        result = await play(agent)
        assert [item.name for item in result.interruptions] == ["echo"]
        assert asked == [("RunContextWrapper", "desk", "echo"), ("RunContextWrapper", "desk", "sums")]
        assert (await play(agent, approve_all(result))).final_output.startswith("default 0")


@pytest.mark.parametrize("answer", [None, "no", 0])
async def test_a_callable_without_a_clear_no_asks(answer: Any) -> None:
    async with Inside(shop, require_approval=lambda *_: answer) as server:
        assert len((await play(calling(server, calls=("echo", {})))).interruptions) == 1


async def test_names_are_such_that_every_provider_takes_them() -> None:
    name = offered_name("shop", "odd name/é", prefixed=False)
    assert (name.isascii(), name[:9]) == (True, "odd_name_")
    assert await output_of(name, {}) == "odd"
    assert offered_name("s", "a b", prefixed=False) != offered_name("s", "a.b", prefixed=False)
    assert len(offered_name("s", "x" * 300, prefixed=True)) == 64
    assert offered_name("s", "x" * 300, prefixed=True) != offered_name("s", "x" * 301, prefixed=True)


async def test_strict_schemas_are_told_where_they_can_be() -> None:
    async with Inside(shop) as server:
        agent = calling(server, calls=("sums", {"a": 1, "b": 2}), mcp_config={"convert_schemas_to_strict": True})
        tools = {tool.name: tool for tool in await server.tools_for(None, agent)}
        assert tools["sums"].strict_json_schema
        assert tools["sums"].params_json_schema["additionalProperties"] is False
        assert "additionalProperties" not in tools["sums"].spec()["schema"], "what is approved is what the server says"


async def test_a_tool_stays_the_same_object_while_it_stays_the_same() -> None:
    async with Inside(shop) as server:
        agent, other = calling(server, calls=[]), calling(server, calls=[])
        first, again = await server.tools_for(None, agent), await server.tools_for(None, agent)
        assert [id(tool) for tool in first] == [id(tool) for tool in again]
        assert first[0] is not (await server.tools_for(None, other))[0]


async def test_annotations_count_only_where_they_are_trusted() -> None:
    calm = MCPServer("calm")

    @calm.tool(annotations={"readOnlyHint": True, "idempotentHint": True})  # type: ignore[arg-type]  # the dict is validated
    async def look() -> str:
        return "seen"

    for trusted in (False, True):
        async with Inside(calm, trust_annotations=trusted) as server:
            [tool] = await server.tools_for(None, None)
            assert (tool.read_only, tool.idempotent) == (trusted, trusted)
            assert tool.needs_approval is False
