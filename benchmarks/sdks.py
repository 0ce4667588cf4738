"""A provider's SDK alone, asked by hand: what a delta costs before any runtime has seen it.

One function is one wire format: asked with its name and the server's address, it returns the text deltas.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from .script import PROMPT

MODEL = "gemini-3-bench"  # a name that every loopback server takes


@cache
def openai_at(url: str) -> Any:
    """One client, as a program would have."""
    from openai import AsyncOpenAI

    return AsyncOpenAI(api_key="k", base_url=url, max_retries=0)


async def responses(_api: str, url: str) -> list[str]:
    """OpenAI's Responses API."""
    stream = await openai_at(url).responses.create(model=MODEL, input=PROMPT, stream=True)
    return [event.delta async for event in stream if event.type == "response.output_text.delta"]


async def chat(_api: str, url: str) -> list[str]:
    """Chat Completions."""
    asked: Any = [{"role": "user", "content": PROMPT}]
    stream = await openai_at(url).chat.completions.create(model=MODEL, messages=asked, stream=True)
    return [part async for chunk in stream for choice in chunk.choices if (part := choice.delta.content)]


@cache
def anthropic_at(url: str) -> Any:
    """One client, as a program would have."""
    from anthropic import AsyncAnthropic

    return AsyncAnthropic(api_key="k", base_url=url, max_retries=0)


async def anthropic(_api: str, url: str) -> list[str]:
    """Anthropic's Messages API."""
    asked: Any = [{"role": "user", "content": PROMPT}]
    stream = await anthropic_at(url).messages.create(model=MODEL, max_tokens=9, messages=asked, stream=True)
    return [event.delta.text async for event in stream if event.type == "content_block_delta"]


@cache
def google_at(url: str) -> Any:
    """One client, as a program would have."""
    from google.genai import Client
    from google.genai.types import HttpOptions

    return Client(api_key="k", http_options=HttpOptions(base_url=url))


async def google(_api: str, url: str) -> list[str]:
    """Gemini."""
    stream = await google_at(url).aio.models.generate_content_stream(model=MODEL, contents=PROMPT)
    return [text async for chunk in stream if (text := chunk.candidates[0].content.parts[0].text)]


ALONE = {"responses": responses, "chat": chat, "anthropic": anthropic, "google": google}
