"""Prompts and resources of a server: for a program's own code, in the protocol's own objects."""

from __future__ import annotations

from typing import Any

import pytest
from mcp.server import MCPServer as Server

from keyturn import MCPServerError
from keyturn.mcp.listing import all_prompts
from tests.mcp.conftest import Inside
from tests.mcp.test_servers import Fake

library = Server("library", log_level="CRITICAL")


@library.prompt()
def review(focus: str = "style") -> str:
    """How to review."""
    return f"Review with an eye on {focus}."


@library.resource("shelf://first")
def shelf() -> str:
    """What stands on the first shelf."""
    return "two books"


@library.resource("shelf://{number}/title")
def title(number: str) -> str:
    """What a shelf is called."""
    return f"shelf {number}"


async def test_prompts_are_listed_and_filled_in() -> None:
    async with Inside(library) as server:
        [listed] = (await server.list_prompts()).prompts
        assert (listed.name, listed.description) == ("review", "How to review.")
        [message] = (await server.get_prompt("review", {"focus": 7})).messages
        assert message.content.text == "Review with an eye on 7."
        [message] = (await server.get_prompt("review")).messages
        assert message.content.text == "Review with an eye on style."


async def test_resources_are_listed_and_read() -> None:
    async with Inside(library) as server:
        [listed] = (await server.list_resources()).resources
        [template] = (await server.list_resource_templates()).resource_templates
        assert (str(listed.uri), template.uri_template) == ("shelf://first", "shelf://{number}/title")
        [content] = (await server.read_resource("shelf://3/title")).contents
        assert content.text == "shelf 3"


async def test_what_is_not_there_is_said_with_the_name_of_the_server() -> None:
    async with Inside(library) as server:
        with pytest.raises(MCPServerError, match="MCP server 'shop': a prompt could not be read"):
            await server.get_prompt("none")
        with pytest.raises(MCPServerError, match="MCP server 'shop': a resource could not be read"):
            await server.read_resource("shelf://nowhere/at/all")
    with pytest.raises(MCPServerError, match="it is not connected"):
        await server.list_prompts()


async def test_a_listing_of_prompts_that_does_not_end_is_an_error() -> None:
    class Page:
        prompts = ()
        next_cursor = "again"

        def model_copy(self, **_given: Any) -> Page:
            return self

        def model_dump_json(self) -> str:
            return "{}"

    class Line:
        async def read(self, _what: str, **_given: Any) -> Page:
            return Page()

    with pytest.raises(MCPServerError, match="did not end after 3 pages"):
        await all_prompts("shop", Line(), 3)


async def test_a_server_of_ones_own_says_that_it_offers_none() -> None:
    server = Fake("files")
    for asked in (server.list_prompts(), server.get_prompt("x"), server.list_resources(), server.read_resource("x")):
        with pytest.raises(NotImplementedError, match="Fake is a server without"):
            await asked
