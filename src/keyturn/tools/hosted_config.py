"""The configuration of a tool that the provider runs, as a type."""

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
