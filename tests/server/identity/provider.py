"""A provider of OpenID Connect that speaks the protocol over HTTP on 127.0.0.1, and can be told to lie."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT, SECRET = "keyturn", "a secret of the client"
TOKEN_KEYS = RSAKey.generate_key(2048, {"kid": "one", "use": "sig", "alg": "RS256"})
OTHER_KEYS = RSAKey.generate_key(2048, {"kid": "one", "use": "sig", "alg": "RS256"})


def unsigned(claims: dict[str, Any], alg: str = "none") -> str:
    parts = [json.dumps(part).encode() for part in ({"alg": alg, "kid": "one"}, claims)]
    return ".".join([*(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts), ""])


def signed_with_the_public_key(claims: dict[str, Any]) -> str:
    """A token by which an algorithm of secrets is mistaken for one of key pairs."""
    head = unsigned(claims, "HS256").rstrip(".")
    mac = hmac.digest(TOKEN_KEYS.as_pem(private=False), head.encode(), "sha256")
    return f"{head}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"


class LoopbackProvider:
    """Answers as a provider does; `about`, `claims` and `token` change what it says of itself and of people."""

    def __init__(self) -> None:
        self.codes: dict[str, dict[str, str]] = {}
        self.claims: dict[str, Any] = {"sub": "5e1f", "email": "bob@example.com", "email_verified": True}
        self.about: dict[str, Any] = {}
        self.token: Callable[[dict[str, Any]], str] = self.signed
        self.status = 200
        self.back: dict[str, str] = {}
        self.asked: list[str] = []
        self.last: dict[str, str] = {}
        handler = type("Handler", (_Handler,), {"provider": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.issuer = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def signed(self, claims: dict[str, Any], key: Any = TOKEN_KEYS, alg: str = "RS256") -> str:
        return jwt.encode({"alg": alg, "kid": "one"}, claims, key, algorithms=[alg])

    def metadata(self) -> dict[str, Any]:
        made = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/jwks",
            "id_token_signing_alg_values_supported": ["RS256", "none", "HS256"],
        }
        return {**made, **self.about}

    def authorize(self, query: dict[str, str]) -> str:
        """Log somebody in at once, and say where they are sent."""
        assert query["response_type"] == "code"
        self.last = query
        assert query["code_challenge_method"] == "S256"
        code = f"code{len(self.codes)}"
        self.codes[code] = query
        back = {"code": code, "state": query["state"], "iss": self.issuer, **self.back}
        return f"{query['redirect_uri']}?{urlencode(back)}"

    def exchange(self, form: dict[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        asked = self.codes.pop(form.get("code", ""), None)
        basic = base64.b64encode(f"{CLIENT}:{SECRET.replace(' ', '+')}".encode()).decode()
        plain = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        verifier = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(verifier).rstrip(b"=").decode()
        good = asked is not None and asked["code_challenge"] == challenge
        if not good or authorization not in (f"Basic {basic}", f"Basic {plain}") or asked is None:
            return 400, {"error": "invalid_grant"}
        if form["redirect_uri"] != asked["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": asked["nonce"]}
        return 200, {"access_token": "x", "token_type": "Bearer", "id_token": self.token({**claims, **self.claims})}


class _Handler(BaseHTTPRequestHandler):
    provider: LoopbackProvider

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        self.provider.asked.append(parts.path)
        if parts.path == "/authorize":
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            self.send_response(302)
            self.send_header("location", self.provider.authorize(query))
            self.end_headers()
            return
        found = {
            "/.well-known/openid-configuration": self.provider.metadata(),
            "/jwks": {"keys": [TOKEN_KEYS.as_dict(private=False)]},
        }
        self._say(self.provider.status, found.get(parts.path, {}))

    def do_POST(self) -> None:
        self.provider.asked.append(self.path)
        raw = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
        form = {name: values[0] for name, values in parse_qs(raw).items()}
        status, body = self.provider.exchange(form, self.headers.get("authorization", ""))
        self._say(status if self.provider.status == 200 else self.provider.status, body)

    def _say(self, status: int, body: Any) -> None:
        raw = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *words: Any) -> None:
        """Say nothing."""
