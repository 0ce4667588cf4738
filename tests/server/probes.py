"""What a stranger on the network tries first, each with the answer that it must get: one table for test and manual.

    python -m tests.server.probes          # runs them, and writes docs/probes.md

Every probe is bytes on a socket of a server as `keyturn serve` runs it. No test is here.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from keyturn.journal.rows import Query
from keyturn.server import running
from keyturn.server.settings import ServerSettings
from keyturn.server.visitor import COOKIE
from tests.server.programs import Port

PAGE = Path(__file__).resolve().parents[2] / "docs" / "probes.md"
_NEXT = b"GET /v1/me HTTP/1.1\r\nhost: localhost\r\n\r\n"
ODD_LINES: dict[str, bytes] = {
    "a version of HTTP that is none": b"GET /v1/me HTTP/9.9\r\n\r\n",
    "a whole address of another host": b"GET http://evil.example/v1/me HTTP/1.1\r\nhost: evil.example\r\n\r\n",
    "the first bytes of TLS": b"\x16\x03\x01\x02\x00",
    "CONNECT, as to a proxy": b"CONNECT evil.example:80 HTTP/1.1\r\nhost: evil.example\r\n\r\n",
}
SMUGGLED: dict[str, bytes] = {
    "two lengths": b"content-length: 2\r\ncontent-length: 40\r\n\r\n{}",
    "a length and chunks": b"content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n" + _NEXT,
    "chunks said oddly": b"transfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
    "chunks said twice": b"transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n0\r\n\r\n",
    "a negative length": b"content-length: -1\r\n\r\n",
    "a length in hex": b"content-length: 0x2\r\n\r\n{}",
    "a length with a sign": b"content-length: +2\r\n\r\n{}",
    "a space before the colon": b"content-length : 2\r\n\r\n{}",
    "a folded header": b"x-a: b\r\n content-length: 40\r\n\r\n",
    "a bare line feed in a header": b"x-a: b\ncontent-length: 40\r\n\r\n",
    "two hosts": b"host: evil.example\r\ncontent-length: 2\r\n\r\n{}",
    "a NUL": b"x-a: \x00\r\n\r\n",
    "a chunk too long": b"transfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
}


class Answer(NamedTuple):
    """Holds what came back: the status, 0 where the line was closed without one, its headers, and all of it as text."""

    status: int
    headers: dict[str, str]
    text: str

    @classmethod
    def of(cls, raw: bytes) -> Answer:
        head, _, _ = raw.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        found = re.match(r"HTTP/1\.1 (\d{3})", lines[0])
        pairs = (line.partition(":") for line in lines[1:])
        return cls(int(found[1]) if found else 0, {k.lower(): v.strip() for k, _, v in pairs}, raw.decode("latin-1"))

    @property
    def said(self) -> str:
        """Return the status in words."""
        return str(self.status) if self.status else "closed without an answer"


class Probe(NamedTuple):
    """Holds one probe: of which group, what is sent in words and in bytes, which statuses are right, what else must be.

    `has` are headers and what stands in each; `lacks` stands nowhere in the answer.
    """

    group: str
    what: str
    raw: bytes
    right: tuple[int, ...]
    has: tuple[tuple[str, str], ...] = ()
    lacks: str = ""

    def tried(self, answer: Answer) -> tuple[bool, str]:
        """Return whether an answer is right, and what came back in words."""
        seen = [
            f"`{name}: {part if part in answer.headers.get(name, '') else answer.headers.get(name, 'nothing')[:60]}`"
            for name, part in self.has
        ]
        good = answer.status in self.right and all(part in answer.headers.get(name, "") for name, part in self.has)
        good = good and not (self.lacks and self.lacks.lower() in answer.text.lower())
        return good, "; ".join([answer.said, *seen])


class Stand:
    """A server with a request that waits, and two people: `ada` with a token and a session, `ben` with a token."""

    def __init__(self, port: Port) -> None:
        self.port = port
        run = port.does(port.app.start("desk", "Pay.", requester="cyd")).id
        port.does(port.app.wait(run, 30))
        [self.row] = port.does(port.app.inbox.list())
        self.session = port.does(port.app.people.begin_session("ada", "password", lasts="1d"))

    @property
    def state(self) -> object:
        """Return what no probe may change."""
        port = self.port
        people = [person.id for person in port.does(port.app.people.list())]
        return people, port.does(port.app.inbox.get(self.row.id)).state, len(port.does(port.app.runs(Query())))

    def ask(self, line: str, *headers: str, body: bytes = b"", host: str = "localhost") -> bytes:
        """Return the bytes of a request that ends its line."""
        length = [f"content-length: {len(body)}"] if body else []
        head = [f"{line} HTTP/1.1", f"host: {host}", "connection: close", *headers, *length]
        return "\r\n".join(head).encode("latin-1") + b"\r\n\r\n" + body

    @property
    def token(self) -> str:
        return f"authorization: Bearer {self.port.tokens['ada']}"

    @property
    def cookie(self) -> str:
        return f"cookie: {COOKIE}={self.session}"


_FORM = "content-type: application/x-www-form-urlencoded"
_JSON = "content-type: application/json"
_KEPT_OUT = (("cache-control", "no-store"), ("x-content-type-options", "nosniff"))
_FRAMED = (("x-frame-options", "DENY"), ("content-security-policy", "frame-ancestors 'none'"))


def probes(at: Stand) -> Iterator[Probe]:
    """Yield every probe."""
    yield from _sites(at)
    yield from _pages(at)
    yield from _hosts(at)
    yield from _paths(at)
    yield from _methods(at)
    yield from _cookies(at)
    yield from _shapes(at)


def _sites(at: Stand) -> Iterator[Probe]:
    decide, add = f"POST /requests/{at.row.id}/decide", "POST /v1/people/add"
    words = f"verdict=approve&digest={at.row.digest}&revision=1".encode()
    group = "Requests forged by other sites"
    for origin in ("http://evil.example", "null", "https://localhost", "http://localhost.evil.example"):
        sent = at.ask(decide, f"origin: {origin}", at.cookie, _FORM, body=words)
        yield Probe(group, f"an approval from a page of `{origin}`, with the cookie", sent, (403,))
    yield Probe(
        group, "an approval with the cookie and no origin", at.ask(decide, at.cookie, _FORM, body=words), (403,)
    )
    own = f"origin: http://localhost:{at.port.port}"
    own_host = f"localhost:{at.port.port}"
    sent = at.ask(decide, own, at.cookie, _FORM, body=words, host=own_host)
    yield Probe(group, "an approval from our own origin, without the mark of the session's form", sent, (403,))
    sent = at.ask(add, "sec-fetch-site: cross-site", at.cookie, _JSON, body=b'{"person": "eve"}')
    yield Probe(group, "JSON to the API with the cookie, marked cross-site by the browser", sent, (403,))
    sent = at.ask(add, "origin: http://evil.example", at.cookie, "content-type: text/plain", body=b'{"person": "eve"}')
    yield Probe(group, "JSON dressed as plain text, which needs no leave of a browser", sent, (403,))
    sent = at.ask("OPTIONS /v1/people", "origin: http://evil.example", "access-control-request-method: GET", at.cookie)
    yield Probe(group, "asking leave to read across sites (CORS)", sent, (405,), lacks="access-control-allow-origin")


def _pages(at: Stand) -> Iterator[Probe]:
    request = f"GET /requests/{at.row.id}"
    yield Probe("Frames", "the page of a request", at.ask(request, at.cookie), (200,), _FRAMED)
    yield Probe("Frames", "the login", at.ask("GET /login"), (200,), _FRAMED)
    for name, line in (
        ("the page of a request", request),
        ("who I am", "GET /v1/me"),
        ("a page that is not", "GET /x"),
    ):
        yield Probe("Caches and sniffing", name, at.ask(line, at.cookie, at.token), (200, 401, 404), _KEPT_OUT)
    policy = (("content-security-policy", "default-src 'none'"),)
    yield Probe("What a page may load", "the inbox", at.ask("GET /", at.cookie), (200,), policy, lacks="unsafe-inline")
    yield Probe(
        "What a page may load",
        "the inbox, by whom it may be read",
        at.ask("GET /", at.cookie),
        (200,),
        (("cross-origin-resource-policy", "same-origin"), ("cross-origin-opener-policy", "same-origin")),
    )
    yield Probe("What a page may load", "the inbox, what it tells other sites", at.ask("GET /", at.cookie), (200,),
                (("referrer-policy", "same-origin"),))  # fmt: skip
    group = "Open redirects"
    for to in ("//evil.example", "https://evil.example", "/\\evil.example", "/%09/evil.example", "javascript:alert(1)"):
        yield Probe(group, f"`/login?next={to}`", at.ask(f"GET /login?next={to}"), (200,), lacks='value="' + to)
        yield Probe(group, f"the same as somebody who is in: `{to}`", at.ask(f"GET /login?next={to}", at.cookie),
                    (200, 303), lacks="location: " + to)  # fmt: skip


def _hosts(at: Stand) -> Iterator[Probe]:
    for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "localhost:80@evil.example"):
        yield Probe(
            "Other hosts", f"`Host: {host}`, as after DNS rebinding", at.ask("GET /", at.cookie, host=host), (421,)
        )
    sent = at.ask(
        "GET /login", "x-forwarded-host: evil.example", "x-forwarded-proto: https", "forwarded: host=evil.example"
    )
    yield Probe("Other hosts", "headers of a proxy, from nobody's proxy", sent, (200,), lacks="evil.example")
    sent = at.ask("GET /", "x-original-url: /settings", "x-rewrite-url: /settings")
    yield Probe("Other hosts", "headers that name another path", sent, (303,), lacks="Settings")


def _paths(at: Stand) -> Iterator[Probe]:
    group = "Paths out of their folder"
    for path in (
        "/static/../../../../etc/passwd",
        "/static/..%2f..%2f..%2fetc/passwd",
        "/static/%2e%2e/%2e%2e/etc/passwd",
        "/..%5c..%5cwindows/win.ini",
        "//etc/passwd",
        "/requests/..%2f..%2fetc%2fpasswd",
        "/static/%00/../keyturn.css",
    ):
        sent = at.ask(f"GET {path}", at.cookie)
        yield Probe(group, f"`{path}`", sent, (404, 400, 303), lacks="root:")
    for path in ("/.git/config", "/.env", "/docs", "/redoc", "/openapi.json", "/_components", "/metrics", "/debug"):
        yield Probe("What is not to be there", f"`{path}`", at.ask(f"GET {path}", at.cookie), (404, 403))


def _methods(at: Stand) -> Iterator[Probe]:
    group, page = "Other methods", f"/requests/{at.row.id}/decide"
    for method in ("GET", "HEAD", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND"):
        own = f"origin: http://localhost:{at.port.port}"
        sent = at.ask(f"{method} {page}?verdict=approve", at.cookie, own, host=f"localhost:{at.port.port}")
        yield Probe(group, f"`{method}` where a decision is posted", sent, (405, 403, 400))
    sent = at.ask("GET /v1/people/add", "x-http-method-override: POST", "x-method-override: POST", at.token)
    yield Probe(group, "GET with headers that call it a POST", sent, (404, 405))
    sent = at.ask("GET /v1/people/add?_method=POST&person=eve", at.token)
    yield Probe(group, "GET with a parameter that calls it a POST", sent, (404, 405))
    sent = at.ask("GET /v1/requests/stream", "upgrade: websocket", "sec-websocket-version: 13",
                  "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==", "connection: upgrade")  # fmt: skip
    yield Probe(group, "an upgrade to a web socket", sent, (400, 401))


def _cookies(at: Stand) -> Iterator[Probe]:
    group = "Who somebody is"
    for name, header in (
        ("nothing", "x-a: b"),
        ("a token of no shape", "authorization: Bearer x"),
        ("the scheme Basic", f"authorization: Basic {at.port.tokens['ada']}"),
        ("two tokens in one header", f"authorization: Bearer {at.port.tokens['ada']} {at.port.tokens['ben']}"),
    ):
        yield Probe(group, f"the API with {name}", at.ask("GET /v1/me", header), (401,))
    yield Probe(group, "a token in the address", at.ask(f"GET /v1/me?token={at.port.tokens['ada']}"), (401,))
    yield Probe(group, "a session as a token", at.ask("GET /v1/me", f"authorization: Bearer {at.session}"), (401,))
    sent = at.ask("GET /", f"cookie: {COOKIE}={at.port.tokens['ada']}")
    yield Probe(group, "a token as a session", sent, (303,), (("location", "/login"),))
    sent = at.ask("GET /", f"cookie: {COOKIE}={'A' * 4_000}")
    yield Probe(group, "a session that somebody made up", sent, (303,), (("location", "/login"),))


def _shapes(at: Stand) -> Iterator[Probe]:
    start = at.ask("POST /v1/people/add", _JSON, at.token)[:-2]
    for name, rest in SMUGGLED.items():
        yield Probe("Requests that two servers read differently", name, start + rest, (0, 400, 403, 408, 413, 421, 422))
    for name, raw in ODD_LINES.items():
        yield Probe("Requests that two servers read differently", name, raw, (0, 400, 404, 421))
    group = "Large and odd bodies"
    yield Probe(
        group, "a header of 100,000 bytes", at.ask("GET /v1/me", "x-a: " + "a" * 100_000, at.token), (0, 400, 431)
    )
    many = [f"x-{n}: a" for n in range(10_000)]
    yield Probe(group, "10,000 headers", at.ask("GET /v1/me", at.token, *many), (0, 400, 431))
    sent = at.ask("POST /v1/people/add", _JSON, at.token, "content-length: 1000000000")
    yield Probe(group, "a body that says it has 1 GB", sent, (413,))
    for name, body in (
        ("a key twice", b'{"person": "eve", "person": "mallory"}'),
        ("NaN", b'{"person": "eve", "name": NaN}'),
        ("a thousand brackets", b"[" * 1_000),
        ("what is not UTF-8", b'{"person": "\xff"}'),
        ("an unknown field", b'{"person": "eve", "admin": true}'),
    ):
        yield Probe(group, f"JSON with {name}", at.ask("POST /v1/people/add", _JSON, at.token, body=body), (400, 422))


class Tried(NamedTuple):
    """Holds what came of one probe."""

    group: str
    what: str
    came: str
    good: bool


def tried(port: Port) -> list[Tried]:
    """Send every probe, and those that take many lines; return what came back."""
    at = Stand(port)
    before = at.state
    found = list[Tried]()
    for probe in probes(at):
        good, came = probe.tried(Answer.of(port.said(probe.raw, 3)))
        found.append(Tried(probe.group, probe.what, came, good))
    found += _slow(at)
    found += _streams(at)
    found.append(Tried("After all of them", "people, the request and the runs", "as before", at.state == before))
    return found


def _slow(at: Stand) -> Iterator[Tried]:
    with ExitStack() as lines:
        slow = [lines.enter_context(socket.create_connection(("127.0.0.1", at.port.port))) for _ in range(60)]
        for line in slow:
            line.settimeout(20)
            line.sendall(b"GET /v1/me HT")
        begun = time.monotonic()
        well = Answer.of(at.port.said(at.ask("GET /v1/health/live")))
        quick = time.monotonic() - begun < 2
        yield Tried("Slow senders", "60 lines that never end their first", f"another is served: {well.said}", quick)
        yield Tried("Slow senders", "the same 60", "closed", {line.recv(1) for line in slow} == {b""})
    body = at.ask("POST /v1/people/add", _JSON, at.token, "content-length: 20") + b"{"
    late = Answer.of(at.port.said(body))
    yield Tried("Slow senders", "a body that stops after its first byte", late.said, late.status == 408)


def _streams(at: Stand) -> Iterator[Tried]:
    ask = (
        f"GET /v1/requests/stream HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {at.port.tokens['ben']}\r\n\r\n"
    )
    with ExitStack() as lines:
        codes = list[bytes]()
        for _ in range(21):
            line = lines.enter_context(socket.create_connection(("127.0.0.1", at.port.port)))
            line.settimeout(20)
            line.sendall(ask.encode())
            codes.append(line.recv(64)[9:12])
        good = codes == [b"200"] * 20 + [b"429"]
        yield Tried("Many streams", "21 streams of one person", "20 are open, the next is refused: 429", good)


def page() -> tuple[str, list[Tried]]:
    """Run the probes, and return the page and what came of each."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(running, "_HEADERS_WITHIN", 1.0)
        with Port(settings=ServerSettings(body_seconds=0.5, hosts=("localhost",))) as port:
            found = tried(port)
    bad = [each for each in found if not each.good]
    rows = list[str]()
    group = ""
    for each in found:
        if each.group != group:
            group = each.group
            rows += ["", f"## {group}", "", "| what was sent | what came back | |", "|---|---|---|"]
        cells = (each.what, each.came, "pass" if each.good else "**fail**")
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    head = f"""# Security probes of the server

Penetration tests: what an attacker on the network, or a page of another site in a user's browser, tries first.
{len(found)} probes, {len(bad)} failed. This page is written by `make probes`, which sends each
as bytes to a server as `keyturn serve` runs it, and a test fails where a run gives another page. The larger
corpora (1,000 payloads of script in every field of every page) stand in `tests/server`. A list of our own is no
audit by others: there was none yet.
"""
    return head + "\n".join(rows) + "\n", found


if __name__ == "__main__":
    made, results = page()
    PAGE.write_text(made, encoding="utf-8")
    for each in results:
        if not each.good:
            print("failed:", each)
