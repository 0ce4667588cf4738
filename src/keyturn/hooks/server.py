"""Ask a server over HTTP with the standard library alone: a hook starts for each call, and a policy answers most."""

from __future__ import annotations

import http.client
import json
from typing import Any, cast
from urllib.parse import urlsplit

_TIMEOUT = 40.0


class ServerRefused(Exception):
    """Raised where a server answers an error, or none; `passing` says that it may answer otherwise in a moment."""

    def __init__(self, message: str, *, passing: bool = False) -> None:
        self.passing = passing
        super().__init__(message)


class AskServer:
    """Sends requests of one service account to one server, over one connection."""

    def __init__(self, url: str, token: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ServerRefused(f"the URL of a server is like https://keyturn.example, not {url!r}")
        if parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
            raise ServerRefused(f"the token would be sent unencrypted to {parts.hostname!r}: use an https:// URL")
        if len(token.split()) != 1:
            raise ServerRefused("the token must be one line, kt_...: run keyturn hook install, or set KEYTURN_TOKEN")
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._line = kind(parts.hostname, parts.port, timeout=_TIMEOUT)
        self._path = parts.path.rstrip("/")
        self._headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Send a body, and return the answer."""
        return self._sent("POST", path, json.dumps(body, ensure_ascii=False).encode())

    def get(self, path: str) -> dict[str, Any]:
        """Return what is there."""
        return self._sent("GET", path, None)

    def close(self) -> None:
        """Close the connection."""
        self._line.close()

    def _sent(self, method: str, path: str, body: bytes | None) -> dict[str, Any]:
        try:
            self._line.request(method, f"{self._path}/v1{path}", body, self._headers)
            made = self._line.getresponse()
            text = made.read()
        except BaseException as error:
            self._line.close()  # the next request has a line of its own, also after a signal
            if not isinstance(error, OSError | http.client.HTTPException):
                raise
            raise ServerRefused(f"the server cannot be reached ({type(error).__name__})", passing=True) from error
        try:
            read: Any = json.loads(text)
        except ValueError:
            read = None
        answer = cast("dict[str, Any] | None", read if isinstance(read, dict) else None)
        if made.status != 200 or answer is None:
            words = _words(answer)
            said = f"the server answered {made.status}{words}"
            raise ServerRefused(said, passing=made.status in (429, 502, 503, 504))
        return answer


def _words(answer: dict[str, Any] | None) -> str:
    """Return what a refusal says, after a colon."""
    error: Any = None if answer is None else answer.get("error")
    message: Any = cast("dict[str, Any]", error).get("message") if isinstance(error, dict) else None
    return f": {message}" if message else ""
