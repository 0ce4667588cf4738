"""Servers of clouds on 127.0.0.1, in the wire formats that the official clients write and read. No test is here.

Each is the provider's own server behind another address: the model is in the path, the key in `authorization`, and a
stream of Bedrock comes in Amazon's event stream encoding, which `botocore` decodes.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from binascii import crc32
from dataclasses import replace
from struct import pack
from typing import Any

from keyturn.models.scripted.script import ModelStep
from keyturn.testing.loopback.anthropic import MessagesServer
from keyturn.testing.loopback.google import GeminiServer
from keyturn.testing.loopback.server import HttpReply, HttpRequest, LoopbackServer

PLACE = "/projects/a-project/locations/europe-west4/publishers"


class CloudServer(LoopbackServer):
    """A provider's server that a cloud has at another address."""

    address: re.Pattern[str]
    streams = ""

    def provider_path(self, found: re.Match[str]) -> str:
        """Return the path of the provider's own API."""
        return "/v1/messages"

    def refuse(self, request: HttpRequest) -> tuple[int, str] | None:
        """Refuse what the cloud refuses, and what the provider does."""
        if self.address.fullmatch(request.path) is None:
            return 404, f"{request.path} is not found"
        if not request.headers.get("authorization", "").startswith("Bearer "):
            return 403, "Missing Authentication Token"
        return super().refuse(self.provider_request(request))

    def reply(self, request: HttpRequest, step: ModelStep) -> HttpReply:
        """Answer as the provider does."""
        return super().reply(self.provider_request(request), step)

    def provider_request(self, request: HttpRequest) -> HttpRequest:
        """Return the request as the provider's own API has it."""
        found = self.address.fullmatch(request.path)
        assert found is not None
        body = request.json
        headers = {**request.headers, "x-goog-api-key": "any"}
        if "anthropic_version" in body:
            headers["anthropic-version"] = body.pop("anthropic_version")
            body |= {"model": found[1], "stream": found[2] == self.streams}
        return replace(request, path=self.provider_path(found), headers=headers, body=json.dumps(body).encode())


class BedrockServer(CloudServer, MessagesServer):
    """Claude on Amazon Bedrock."""

    address = re.compile(r"/model/([^/]+)/(invoke|invoke-with-response-stream)")
    streams = "invoke-with-response-stream"

    def error(self, status: int, message: str) -> Any:
        """Return an error of Bedrock."""
        return {"message": message}

    def reply(self, request: HttpRequest, step: ModelStep) -> HttpReply:
        """Answer as Claude does, a stream in frames."""
        reply = super().reply(request, step)
        if reply.parts is None:
            return reply
        events = [part.partition(b"data: ")[2].rstrip() for part in reply.parts]
        headers = {**reply.headers, "content-type": "application/vnd.amazon.eventstream"}
        return HttpReply(reply.status, headers, parts=tuple(chunk(event) for event in events))


class VertexClaudeServer(CloudServer, MessagesServer):
    """Claude on Vertex AI."""

    address = re.compile(f"{PLACE}/anthropic/models/([^/:]+):(rawPredict|streamRawPredict)")
    streams = "streamRawPredict"


class VertexGeminiServer(CloudServer, GeminiServer):
    """Gemini on Vertex AI."""

    address = re.compile(f"/v1(?:beta1)?{PLACE}/google/models/([^/:]+):(generateContent|streamGenerateContent)")

    def provider_path(self, found: re.Match[str]) -> str:
        """Return the path of the Gemini API."""
        return f"/v1/models/{found[1]}:{found[2]}"


def chunk(event: bytes) -> bytes:
    """Return the frame of one event."""
    payload = json.dumps({"bytes": b64encode(event).decode(), "p": "abcd"}).encode()
    return frame({":event-type": "chunk", ":content-type": "application/json", ":message-type": "event"}, payload)


def fault(kind: str, message: str) -> bytes:
    """Return the frame of an exception in a stream."""
    head = {":exception-type": kind, ":content-type": "application/json", ":message-type": "exception"}
    return frame(head, json.dumps({"message": message}).encode())


def frame(headers: dict[str, str], payload: bytes) -> bytes:
    """Encode one message: two lengths and their checksum, headers of strings (7), the payload, a checksum of it all."""
    head = b"".join(_header(name.encode(), value.encode()) for name, value in headers.items())
    prelude = pack("!II", 4 * 4 + len(head) + len(payload), len(head))
    message = prelude + pack("!I", crc32(prelude)) + head + payload
    return message + pack("!I", crc32(message))


def _header(name: bytes, value: bytes) -> bytes:
    return pack("!B", len(name)) + name + pack("!BH", 7, len(value)) + value
