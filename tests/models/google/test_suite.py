"""GoogleModel keeps the room's promises, and its loopback server says what the official SDK's types say."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from google.genai import errors, types

from keyturn.models.base import ModelSettings
from keyturn.models.google.model import GoogleModel
from keyturn.models.scripted.items import assistant_message, function_call, reasoning, refusal
from keyturn.models.scripted.script import ModelStep
from keyturn.testing.loopback.gemini_rules import signature
from keyturn.testing.loopback.google import GeminiServer, chunks
from keyturn.testing.suites.models import ModelSuite
from tests.table import each


class Served(GoogleModel):
    """A model with a server of its own."""

    def __init__(self, server: GeminiServer) -> None:
        super().__init__("gemini-3-test", api_key="k", base_url=server.base_url)
        self.server = server

    async def close(self) -> None:
        await super().close()
        await self.server.close()


class TestGoogleModel(ModelSuite):
    async def make_model(self, script: list[ModelStep]) -> Served:
        return Served(await GeminiServer(script).start())

    def make_error(self) -> Exception:
        error = errors.ClientError(400, {"error": {"message": "bad"}})
        error.status_code = 400
        return error


STEPS: dict[str, Any] = {
    "text": ["Hello there."],
    "calls": [[reasoning("Hm."), assistant_message("Wait."), *(function_call("f", {"n": n}) for n in range(2))]],
    "nameless": [[function_call("f", {"n": n}, call_id="") for n in range(2)]],
    "refused": [[assistant_message("Well"), refusal("No.")]],
    "code": [
        [
            {"type": "executableCode", "executableCode": {"code": "1+1", "language": "PYTHON"}},
            {"type": "codeExecutionResult", "codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}},
            assistant_message("Two."),
        ]
    ],
}


async def post(server: GeminiServer, body: Any, model: str = "gemini-3-test", key: bool = True) -> Any:
    async with httpx2.AsyncClient() as client:
        headers = {"x-goog-api-key": "k"} if key else {}
        return await client.post(f"{server.url}/v1/models/{model}:generateContent", headers=headers, json=body)


@pytest.mark.parametrize("name", STEPS)
async def test_what_the_server_says_fits_the_sdks_types(name: str) -> None:
    """The SDK's types know no extra fields."""
    async with GeminiServer(STEPS[name]) as server:
        reply = await post(server, {"contents": [{"role": "user", "parts": [{"text": "q"}]}]})
    whole = reply.json()
    types.GenerateContentResponse.model_validate(whole)
    for chunk in chunks(whole):
        types.GenerateContentResponse.model_validate(chunk)


@pytest.mark.parametrize("name", STEPS)
async def test_plain_and_streamed_are_one_reply(name: str) -> None:
    async with GeminiServer([*STEPS[name], *STEPS[name]]) as server:
        model = GoogleModel("gemini-2.5-test", api_key="k", base_url=server.base_url)
        asked = (None, "q", ModelSettings(), [], None, [], None)
        whole = await model.get_response(*asked)
        *_, last = [event async for event in model.stream_response(*asked)]
        await model.close()
    assert last.response.output == whole.output
    assert (whole.response_id, last.response.id) == ("resp_1", "resp_2")
    assert last.response.usage.total_tokens == whole.usage.total_tokens == 15


CALL = {"functionCall": {"name": "f", "args": {}}}
SIGNED = {**CALL, "thoughtSignature": signature(CALL, "n")}
ANSWER = {"functionResponse": {"name": "f", "response": {"output": "x"}}}
Q = {"role": "user", "parts": [{"text": "q"}]}

CONFIGS: list[tuple[dict[str, Any], str]] = [
    ({"tools": [{"functionDeclarations": [{"name": "f"}, {"name": "f"}]}]}, "Duplicate function declaration"),
    ({"generationConfig": {"responseJsonSchema": {}}}, "needs response_mime_type"),
    ({"toolConfig": {"functionCallingConfig": {"mode": "AUTO", "allowedFunctionNames": ["f"]}}}, "mode is ANY"),
    ({"toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}}}, "subset"),
]


@pytest.mark.each
@pytest.mark.parametrize(("config", "why"), CONFIGS)
async def test_configurations_that_it_refuses(config: dict[str, Any], why: str) -> None:
    async with GeminiServer(["never"]) as server:
        reply = await post(server, {"contents": [Q], **config})
    assert reply.status_code == 400
    assert why in reply.json()["error"]["message"]


REFUSED: dict[str, tuple[list[Any], str]] = {
    "nothing": ([], "contents is not specified"),
    "no part": ([{"role": "user", "parts": []}], "must not be empty"),
    "another role": ([{"role": "assistant", "parts": [{"text": "q"}]}], "valid role"),
    "no result": ([Q, {"role": "model", "parts": [SIGNED]}], "number of function response parts is equal"),
    "one result for two": (
        [Q, {"role": "model", "parts": [SIGNED, CALL]}, {"role": "user", "parts": [ANSWER]}],
        "number of function response parts is equal",
    ),
    "a result of nothing": ([Q, {"role": "user", "parts": [ANSWER]}], "immediately after a function call turn"),
    "a call out of nothing": ([{"role": "model", "parts": [SIGNED]}], "immediately after a user turn"),
    "no signature": (
        [Q, {"role": "model", "parts": [CALL]}, {"role": "user", "parts": [ANSWER]}],
        "missing a thought_signature",
    ),
    "a signature on another part": (
        [Q, {"role": "model", "parts": [{"text": "a", "thoughtSignature": SIGNED["thoughtSignature"]}]}],
        "Corrupted thought signature",
    ),
}


@each("name", REFUSED)
async def test_the_server_is_as_strict_as_the_real_one(name: str) -> None:
    contents, why = REFUSED[name]
    async with GeminiServer(["never"]) as server:
        reply = await post(server, {"contents": contents})
        unknown = await post(server, {"contents": contents}, key=False)
    assert reply.status_code == 400
    assert reply.json()["error"]["status"] == "INVALID_ARGUMENT"
    assert why in reply.json()["error"]["message"]
    assert unknown.status_code == 403


async def test_older_models_want_no_signatures_and_no_schema_beside_functions() -> None:
    body = {"contents": [Q, {"role": "model", "parts": [CALL]}, {"role": "user", "parts": [ANSWER]}]}
    tools = [{"functionDeclarations": [{"name": "f"}]}]
    async with GeminiServer(["ok"]) as server:
        fine = await post(server, body, "gemini-2.5-flash")
        config = {"responseMimeType": "application/json"}
        refused = await post(server, {**body, "tools": tools, "generationConfig": config}, "gemini-2.5-flash")
    assert fine.status_code == 200
    assert "is unsupported" in refused.json()["error"]["message"]
