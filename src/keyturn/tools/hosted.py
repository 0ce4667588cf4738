"""Tools that the provider runs: only their definitions for the model.

Their calls happen inside the model's answer, so no gate of ours sees them and nobody is asked: an agent is given one of
them, or it is not. The fields are those of the Responses API, the only one that has these tools.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

from ..core.errors import UserError
from ..core.items import Item
from ..core.settable import Rules
from .base import ProviderTool

#: Whose words `provider_tool()` is in; a model of anybody else refuses such a tool.
OPENAI = "openai"


def _set(**fields: Any) -> Item:
    """Return the fields that are set."""
    return {name: value for name, value in fields.items() if value is not None}


def _of_its_type(tool: ProviderTool, _name: str, given: object) -> Any:
    if not isinstance(given, Mapping) or cast("Mapping[str, Any]", given).get("type") != tool.name:
        raise UserError(f'the tool_config of such a tool must be a mapping with "type": {tool.name!r}')
    return given  # type: ignore[reportUnknownVariableType]  # whatever is in it


@dataclass
class WebSearchTool(ProviderTool):
    """Lets the model search the web.

    >>> WebSearchTool(search_context_size="low").provider_tool()
    {'type': 'web_search', 'search_context_size': 'low'}
    """

    user_location: Mapping[str, Any] | None = None
    filters: Any = None
    search_context_size: Literal["low", "medium", "high"] = "medium"
    external_web_access: bool | None = None
    search_content_types: list[Literal["text", "image"]] | None = None
    image_settings: Mapping[str, Any] | None = None

    name: ClassVar[str] = "web_search"
    provider: ClassVar[str] = OPENAI

    @property
    def response_include(self) -> list[str]:
        """What the API is asked to put into its reply: pictures are among the results, and not in the text."""
        return ["web_search_call.results"] if "image" in (self.search_content_types or ()) else []

    def provider_tool(self) -> Item:
        """Return the tool's definition for the Responses API."""
        return _set(
            type="web_search",
            search_context_size=self.search_context_size,
            filters=self.filters,
            user_location=self.user_location,
            external_web_access=self.external_web_access,
            search_content_types=self.search_content_types,
            image_settings=None if self.image_settings is None else dict(self.image_settings),
        )


@dataclass
class FileSearchTool(ProviderTool):
    """Lets the model search the files in vector stores; `include_search_results` keeps the results in the reply.

    >>> FileSearchTool(["vs_1"], max_num_results=3).provider_tool()
    {'type': 'file_search', 'vector_store_ids': ['vs_1'], 'max_num_results': 3}
    """

    vector_store_ids: list[str]
    max_num_results: int | None = None
    include_search_results: bool = False
    ranking_options: Any = None
    filters: Any = None

    name: ClassVar[str] = "file_search"
    provider: ClassVar[str] = OPENAI

    @property
    def response_include(self) -> list[str]:
        """Return what the API is asked to put into its reply."""
        return ["file_search_call.results"] if self.include_search_results else []

    def provider_tool(self) -> Item:
        """Return the tool's definition for the Responses API."""
        return _set(
            type="file_search",
            vector_store_ids=self.vector_store_ids,
            max_num_results=self.max_num_results,
            ranking_options=self.ranking_options,
            filters=self.filters,
        )


@dataclass
class CodeInterpreterTool(ProviderTool):
    """Lets the model run Python in a container of the provider.

    >>> CodeInterpreterTool({"type": "code_interpreter", "container": {"type": "auto"}}).name
    'code_interpreter'
    """

    tool_config: Mapping[str, Any]

    name: ClassVar[str] = "code_interpreter"
    provider: ClassVar[str] = OPENAI

    _rules: ClassVar[Rules] = {"tool_config": _of_its_type}

    def provider_tool(self) -> Item:
        """Return the tool's definition for the Responses API."""
        return dict(self.tool_config)


@dataclass
class ImageGenerationTool(ProviderTool):
    """Lets the model make pictures.

    >>> ImageGenerationTool({"type": "image_generation", "quality": "low"}).provider_tool()
    {'type': 'image_generation', 'quality': 'low'}
    """

    tool_config: Mapping[str, Any]

    name: ClassVar[str] = "image_generation"
    provider: ClassVar[str] = OPENAI

    _rules: ClassVar[Rules] = {"tool_config": _of_its_type}

    def provider_tool(self) -> Item:
        """Return the tool's definition for the Responses API."""
        return dict(self.tool_config)
