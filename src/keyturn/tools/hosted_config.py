"""The configurations of tools that the provider runs, as types."""

from __future__ import annotations

from typing import Any, Literal, Required, TypedDict


class ImageGenerationToolConfig(TypedDict, total=False):
    """What `ImageGenerationTool` is made of, in the words of the Responses API.

    >>> from keyturn import ImageGenerationTool
    >>> ImageGenerationTool(ImageGenerationToolConfig(type="image_generation", quality="low")).name
    'image_generation'
    """

    type: Required[Literal["image_generation"]]
    action: Literal["generate", "edit", "auto"]
    background: Literal["transparent", "opaque", "auto"]
    input_fidelity: Literal["high", "low"] | None
    input_image_mask: dict[str, Any]
    model: str
    moderation: Literal["auto", "low"]
    output_compression: int
    output_format: str
    partial_images: int
    quality: str
    size: str


class WebSearchToolImageSettings(TypedDict, total=False):
    """How many pictures a web search brings, and whether each has a caption: for `WebSearchTool(image_settings=...)`.

    >>> from keyturn import WebSearchTool
    >>> WebSearchTool(image_settings=WebSearchToolImageSettings(max_results=3)).provider_tool()["image_settings"]
    {'max_results': 3}
    """

    max_results: int
    caption: bool
