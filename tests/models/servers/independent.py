"""Servers of model APIs that others wrote, on 127.0.0.1: `@copilotkit/aimock` (npm) and `llmock` (PyPI).

Each is a process that a session of tests starts once, and tells by its own control API what to answer next. What a
server cannot be told is a reason to skip. `make model-servers` installs both; nothing is tested here.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, ClassVar

import httpx2
import pytest

from keyturn.core.items import Item, message_text, refusal_text
from keyturn.models.scripted.script import ModelStep
from keyturn.testing.loopback.anthropic import MessagesServer
from keyturn.testing.loopback.chat import ChatServer
from keyturn.testing.loopback.google import GeminiServer
from keyturn.testing.loopback.responses import ResponsesServer
from keyturn.testing.loopback.server import Fault

INSTALLED = Path(sys.prefix) / "servers"
NOT_THERE = "needs servers that others wrote: make model-servers"


class ToldServer:
    """A server that answers as it is told; what it cannot be told is skipped."""

    #: Where each API is, below the server's address.
    paths: ClassVar[dict[str, str]]
    url: str

    def tell(self, script: list[ModelStep], api: str) -> None:
        """Forget what was told, and answer with these replies in turn."""
        raise NotImplementedError

    def fail(self, api: str, status: int, retry_after: float | None = None) -> None:
        """Answer with this status, and then with "Done."."""
        pytest.skip("it cannot be told to fail so")


class OwnServers(ToldServer):
    """The servers of `keyturn.testing.loopback`, each in a thread of its own."""

    kinds: ClassVar[dict[str, Any]] = {
        "chat": ChatServer, "responses": ResponsesServer, "anthropic": MessagesServer, "google": GeminiServer,
    }  # fmt: skip
    paths: ClassVar = dict.fromkeys(kinds, "")
    _server: Any = None

    def tell(self, script: list[Any], api: str) -> None:
        """Answer with these replies in turn."""
        if self._server is not None:
            self._server.__exit__(None, None, None)
        steps = [Fault(status=400) if isinstance(step, ModelStep) and step.error else step for step in script]
        self._server = self.kinds[api](steps).__enter__()
        self.url = self._server.base_url

    def fail(self, api: str, status: int, retry_after: float | None = None) -> None:
        """Answer with this status, and then with "Done."."""
        headers = {} if retry_after is None else {"retry-after": str(retry_after)}
        self.tell([Fault(status=status, headers=headers), "Done."], api)


class IndependentServer(ToldServer):
    """A process that answers as it is told."""

    #: What starts it, below the folder of what is installed.
    program: ClassVar[str]
    #: What only this server answers.
    health: ClassVar[str]

    def __init__(self) -> None:
        program = INSTALLED / self.program
        if not program.exists():
            pytest.skip(NOT_THERE)
        while not self._start(program):
            pass

    def _start(self, program: Path) -> bool:
        """Start it on a free port; False where something else took the port first."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(self.command(program, port), stdin=quiet, stdout=quiet, stderr=quiet)
        self._client = httpx2.Client(base_url=self.url, trust_env=False)
        while self._process.poll() is None:
            if self._answers():
                return True
            time.sleep(0.05)
        return False

    def command(self, program: Path, port: int) -> list[str]:
        """Return what is run."""
        raise NotImplementedError

    def _answers(self) -> bool:
        try:
            return self._client.get(self.health).is_success
        except httpx2.TransportError:
            return False

    def post(self, path: str, body: Any = None) -> None:
        """Tell the server something."""
        answer = self._client.post(path, json=body)
        assert answer.is_success, answer.text

    def stop(self) -> None:
        """End the process."""
        self._client.close()
        self._process.terminate()
        self._process.wait()


class AimockServer(IndependentServer):
    """`@copilotkit/aimock`, told by fixtures."""

    program = "node_modules/.bin/llmock"
    health = "/__aimock/health"
    paths: ClassVar = {"chat": "/v1", "responses": "/v1", "anthropic": "", "google": ""}

    def command(self, program: Path, port: int) -> list[str]:
        """Return what is run; a folder of fixtures must be named."""
        fixtures = program.resolve().parents[1] / "fixtures" / "example-greeting.json"
        return ["node", str(program), "-p", str(port), "--log-level", "silent", "--strict", "-f", str(fixtures)]

    def tell(self, script: list[ModelStep], api: str) -> None:
        """Answer with these replies in turn.

        A call of Gemini ends with STOP: aimock's FUNCTION_CALL is no finish reason of Google's own types, and a reply
        that ends for a reason that nobody knows is refused.
        """
        fixtures = [self._fixture(step, place) for place, step in enumerate(script)]
        for fixture in fixtures if api == "google" else ():
            if "toolCalls" in fixture["response"]:
                fixture["response"]["finishReason"] = "stop"
        self.fixtures(fixtures)

    def fixtures(self, fixtures: list[Item]) -> None:
        """Answer by these alone."""
        self.post("/__aimock/reset")
        self.post("/__aimock/fixtures", {"fixtures": fixtures})

    def _fixture(self, step: ModelStep, place: int) -> Item:
        fixture: Item = {"match": {"sequenceIndex": place}, "response": self._response(step), "chunkSize": 5}
        if step.break_after is not None:
            fixture["truncateAfterChunks"] = step.break_after
        return fixture

    def _response(self, step: ModelStep) -> Item:
        if step.error is not None:
            return {"error": {"message": "bad", "type": "invalid_request_error"}, "status": 400}
        text, calls = said(step)
        response: Item = {}
        if text or not calls:
            response["content"] = text
        if calls:
            response["toolCalls"] = [
                {"name": call["name"], "arguments": call["arguments"], "id": call["call_id"]} for call in calls
            ]
        if step.usage is not None:
            sent, received, total = step.usage.input_tokens, step.usage.output_tokens, step.usage.total_tokens
            response["usage"] = {
                "prompt_tokens": sent, "completion_tokens": received, "total_tokens": total,
                "input_tokens": sent, "output_tokens": received,
                "promptTokenCount": sent, "candidatesTokenCount": received, "totalTokenCount": total,
            }  # fmt: skip
        return response


class LlmockServer(IndependentServer):
    """`llmock`, told by scenarios."""

    program = "bin/llmock"
    health = "/_llmock/scenario"
    paths: ClassVar = {"chat": "/v1", "responses": "/v1", "anthropic": "/anthropic", "google": "/gemini"}

    def command(self, program: Path, port: int) -> list[str]:
        """Return what is run."""
        return [str(program), "serve", "--host", "127.0.0.1", "--port", str(port)]

    def tell(self, script: list[ModelStep], api: str) -> None:
        """Answer with these replies in turn."""
        self.scenario([behavior for step in script for behavior in self._behaviors(step)])

    def fail(self, api: str, status: int, retry_after: float | None = None) -> None:
        """Answer with this status, and then with "Done."."""
        fault: Item = {"type": "fail", "status": status}
        if retry_after is not None:
            fault["retry_after"] = retry_after
        self.scenario([fault, {"type": "reply", "text": "Done."}])

    def scenario(self, behaviors: list[Item]) -> None:
        """Do this in turn, each once."""
        self.post("/_llmock/reset")
        self.post("/_llmock/scenario", {"behaviors": behaviors})

    def _behaviors(self, step: ModelStep) -> list[Item]:
        if step.usage is not None:
            pytest.skip("llmock counts tokens by itself")
        if step.error is not None:
            return [{"type": "fail", "status": 400}]
        text, calls = said(step)
        told = [{"name": call["name"], "arguments": json.loads(call["arguments"])} for call in calls]
        made: list[Item] = [{"type": "reply", "text": text or None, "tool_calls": told}]
        if step.break_after is not None:
            made.append({"type": "stream_fault", "kind": "truncate", "after_chunks": step.break_after})
        return made


def said(step: ModelStep) -> tuple[str, list[Item]]:
    """Return the text and the calls of a step."""
    if any(refusal_text(item) for item in step.output):
        pytest.skip("neither server can be told to refuse")
    text = "".join(message_text(item) for item in step.output if item.get("type", "message") == "message")
    return text, [item for item in step.output if item.get("type") == "function_call"]
