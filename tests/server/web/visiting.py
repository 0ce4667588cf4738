"""A visitor without a browser: what a page says, and what its forms do. No test is here."""

from __future__ import annotations

import asyncio
import html
import re
from typing import Any

import httpx2

from keyturn import App
from keyturn.server.asgi import Opening, face, limited
from keyturn.server.guard import Guard
from keyturn.server.settings import ServerSettings
from keyturn.server.visitor import COOKIE
from tests.waiting import until

_FIELD = re.compile(r'<input type="hidden" name="([^"]+)" value="([^"]*)">')


class Visiting:
    """Visits the pages of an app as one person, with a session's cookie, or as a program with a token."""

    def __init__(self, app: App, token: str, *, program: bool = False, **settings: Any) -> None:
        made = ServerSettings(**{"undo": None} | settings)
        self.face = face(app, made)
        self.served = Guard(Opening(limited(self.face), app), made, end=self.face.state.live.end)
        self.sent = b""
        transport = httpx2.ASGITransport(app=self._noted)
        shown: Any = {"headers": {"authorization": f"Bearer {token}"}} if program else {"cookies": {COOKIE: token}}
        self.client = httpx2.AsyncClient(transport=transport, base_url="http://localhost", **shown)

    async def _noted(self, scope: Any, receive: Any, send: Any) -> None:
        async def noting(message: Any) -> None:
            self.sent += message.get("body", b"")
            await send(message)

        await self.served(scope, receive, noting)

    async def see(self, path: str, **headers: str) -> httpx2.Response:
        """Return a page."""
        return await self.client.get(path, headers=headers)

    async def listened(self, count: int = 1) -> None:
        """Wait until so many pages listen."""

        async def all_of_them() -> bool:
            return self.face.state.live.listeners == count

        await until(all_of_them)

    async def first_event(self, path: str) -> str:
        """Return a stream that its server ends once one event was sent."""

        async def is_sent() -> bool:
            return b"data:" in self.sent[before:]

        before = len(self.sent)
        listening = asyncio.ensure_future(self.see(path))
        await until(is_sent)
        self.served.end()
        return (await listening).text

    async def fields(self, path: str) -> dict[str, str]:
        """Return the hidden fields of a page's forms."""
        text = (await self.see(path)).text
        return {name: html.unescape(value) for name, value in _FIELD.findall(text)}

    async def send(self, path: str, form: dict[str, str], **headers: str) -> httpx2.Response:
        """Send a form, as a browser does from a page of ours."""
        return await self.client.post(path, data=form, headers={"origin": "http://localhost", **headers})

    async def decide(self, request: str, verdict: str, **words: str) -> httpx2.Response:
        """Load the page of a request, and press a button on it."""
        form = await self.fields(f"/requests/{request}")
        return await self.send(f"/requests/{request}/decide", {**form, "verdict": verdict, **words})
