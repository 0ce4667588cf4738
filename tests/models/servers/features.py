"""What is tried of each API over our own servers and those that others wrote; a table of the manual is drawn from it.

`python -m tests.models.servers.features` tries everything, plain and streamed, and writes the table of docs/models.md
anew. A server that cannot be told to do something has nothing in its cell. No test is here.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from keyturn import Agent, ModelSettings, RunState, Usage, function_tool
from keyturn.models.anthropic.model import AnthropicModel
from keyturn.models.base import Model
from keyturn.models.google.model import GoogleModel
from keyturn.models.openai.chat import OpenAIChatCompletionsModel
from keyturn.models.openai.responses import OpenAIResponsesModel
from keyturn.models.scripted.items import assistant_message, function_call, reasoning, refusal
from keyturn.models.scripted.script import ModelStep
from tests.models.servers.independent import AimockServer, LlmockServer, OwnServers, ToldServer
from tests.playing import approved, play

PAGE = Path(__file__).resolve().parents[3] / "docs" / "models.md"
BEGIN, END = "<!-- servers: begin -->", "<!-- servers: end -->"

MODELS: dict[str, Any] = {
    "chat": OpenAIChatCompletionsModel,
    "responses": OpenAIResponsesModel,
    "anthropic": AnthropicModel,
    "google": GoogleModel,
}
TITLES = {"chat": "Chat Completions", "responses": "Responses", "anthropic": "Anthropic", "google": "Google"}
NAMES = {"chat": "gpt-4o", "responses": "gpt-4o", "anthropic": "claude-sonnet-4-5", "google": "gemini-2.5-flash"}
#: Both servers have Gemini's API below v1beta alone, where Google's client 3 asks v1 unless it is told so.
OLDER_PATHS = {"GOOGLE_GENAI_API_VERSION": "beta"}
CLIENTS = ("openai", "anthropic", "google.genai", "httpx2")


def asks(server: ToldServer, api: str) -> Model:
    """A model that asks a server by one of its APIs."""
    return MODELS[api](NAMES[api], api_key="any", base_url=server.url + server.paths[api])


@function_tool(needs_approval=True)
def pay(to: str) -> str:
    """Pay somebody."""
    return f"paid {to}"


@function_tool
def look(what: str) -> str:
    """Look at something."""
    return f"{what} seen"


@dataclass
class Case:
    """One feature of one API of one server, plain or streamed."""

    server: ToldServer
    api: str
    streamed: bool

    def told(self, *script: Any) -> None:
        """Tell the server what to answer."""
        self.server.tell([step if isinstance(step, ModelStep) else ModelStep(step) for step in script], self.api)

    async def run(self, retry: int = 0) -> Any:
        """Ask it, and go on after a pause through the saved state; return the result or what the model raised."""
        model = asks(self.server, self.api)
        agent = Agent("a", model=model, tools=[pay, look], model_settings=ModelSettings(retry=retry))
        try:
            result = await play(agent, "go", self.streamed)
            if result.interruptions:
                result = await play(agent, await approved(result, agent, saved=True), self.streamed)
            return result
        except Exception as error:
            return error
        finally:
            await model.close()

    async def recovers(self, error: Any) -> None:
        """The run went no further, and its saved state does."""
        agent = Agent("a", model=asks(self.server, self.api), tools=[pay, look])
        state = await RunState.from_string(agent, error.run_data.to_state().to_string())
        assert (await play(agent, state, self.streamed)).final_output == "Done."
        await agent.model.close()


def kinds(result: Any) -> list[str]:
    """The kinds of the new items."""
    return [item.get("type", "message") for item in result.to_input_list()[1:]]


def seen(what: str, label: str) -> Any:
    return function_call("look", f'{{"what":"{what}"}}', call_id=label)


async def text(case: Case) -> None:
    case.told("Hello.")
    assert (await case.run()).final_output == "Hello."


async def a_call(case: Case) -> None:
    case.told([seen("sky", "c1")], "Done.")
    result = await case.run()
    assert (kinds(result), result.final_output) == (["function_call", "function_call_output", "message"], "Done.")


async def several_calls(case: Case) -> None:
    case.told([seen("sky", "c1"), seen("sea", "c2")], "Done.")
    assert kinds(await case.run()).count("function_call_output") == 2


async def a_call_beside_a_text(case: Case) -> None:
    case.told([assistant_message("Wait."), seen("sky", "c1")], "Done.")
    assert sorted(kinds(await case.run())) == ["function_call", "function_call_output", "message", "message"]


async def a_pause(case: Case) -> None:
    case.told([function_call("pay", '{"to":"ada"}', call_id="c1")], "Done.")
    result = await case.run()
    assert result.final_output == "Done."
    assert "paid ada" in str(result.to_input_list())


async def thoughts(case: Case) -> None:
    case.told([reasoning("Hm."), seen("sky", "c1")], "Done.")
    result = await case.run()
    if "reasoning" not in kinds(result):
        pytest.skip("its models do not think")
    assert result.final_output == "Done."


async def a_refusal(case: Case) -> None:
    case.told([refusal("No.")])
    assert "No." in str((await case.run()).to_input_list())


async def usage(case: Case) -> None:
    case.told(ModelStep("Hello.", usage=Usage(1, 7, output_tokens=3, total_tokens=10)))
    assert (await case.run()).context_wrapper.usage.total_tokens == 10


async def an_error(case: Case) -> None:
    case.told(ModelStep(error=ValueError("bad")), "Done.")
    error = await case.run()
    assert type(error).__module__.startswith(CLIENTS), error
    await case.recovers(error)


async def a_rate_limit(case: Case) -> None:
    case.server.fail(case.api, 429, retry_after=0.01)
    assert (await case.run(retry=1)).final_output == "Done."


async def a_rejected_key(case: Case) -> None:
    case.server.fail(case.api, 401)
    error = await case.run(retry=1)
    assert "401" in str(error), error
    await case.recovers(error)


async def a_stream_cut(case: Case) -> None:
    if not case.streamed:
        return
    case.told(ModelStep("one two three four five six seven eight", break_after=4), "Done.")
    error = await case.run()
    assert isinstance(error, Exception), "a reply was made of half a stream"
    await case.recovers(error)


FEATURES: dict[str, Callable[[Case], Awaitable[None]]] = {
    "a text": text,
    "a call": a_call,
    "several calls in one reply": several_calls,
    "a call beside a text": a_call_beside_a_text,
    "a call that pauses for approval, saved, resumed": a_pause,
    "thoughts, which go back with their signatures": thoughts,
    "a refusal": a_refusal,
    "usage": usage,
    "an error status, as the client's own error; the run is resumed": an_error,
    "a rate limit with a time to wait": a_rate_limit,
    "a rejected key; the run is resumed": a_rejected_key,
    "a stream that ends early; the run is resumed": a_stream_cut,
}


async def holds(feature: Callable[[Case], Awaitable[None]], server: ToldServer, api: str) -> bool:
    """Try a feature plain and streamed; False where the server cannot be told."""
    try:
        for streamed in (False, True):
            await feature(Case(server, api, streamed))
    except pytest.skip.Exception:
        return False
    except AssertionError as error:
        error.add_note(f"{type(server).__name__}, {api}")
        raise
    return True


async def table(servers: dict[str, ToldServer]) -> str:
    """Each feature over each server: by all four APIs, by some, or by none."""
    rows = [f"| plain and streamed; yes is by all four APIs | {' | '.join(servers)} |", f"|---{'|---' * len(servers)}|"]
    for name, feature in FEATURES.items():
        cells = []
        for server in servers.values():
            kept = [TITLES[api] for api in MODELS if await holds(feature, server, api)]
            cells.append("yes" if len(kept) == len(MODELS) else ", ".join(kept))
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return f"{BEGIN}\n\n" + "\n".join(rows) + f"\n\n{END}"


def columns(aimock: ToldServer, llmock: ToldServer) -> dict[str, ToldServer]:
    """The servers by their titles."""
    return {"own servers": OwnServers(), "aimock 1.43": aimock, "llmock 0.2": llmock}


if __name__ == "__main__":
    os.environ.update(OLDER_PATHS)
    both = AimockServer(), LlmockServer()
    drawn = asyncio.run(table(columns(*both)))
    for each in both:
        each.stop()
    written = re.sub(f"(?s){BEGIN}.*{END}", lambda _found: drawn, PAGE.read_text(encoding="utf-8"))
    PAGE.write_text(written, encoding="utf-8")
