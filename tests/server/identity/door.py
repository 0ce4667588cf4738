"""A server on a journal in memory with three people, and a browser without a screen that keeps cookies."""

from __future__ import annotations

import re
from typing import Any

import httpx2
from argon2 import PasswordHasher

from keyturn import App, MemoryJournal
from keyturn.server import asgi
from keyturn.server.guard import Guard
from keyturn.server.identity.passwords import Passwords
from keyturn.server.settings import ServerSettings

ORIGIN = "http://localhost:8321"
QUICK = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)
PASSWORD = "four plain words here"


class Door:
    """The server and what is behind it."""

    def __init__(self, *agents: Any, journal: Any = None, **settings: Any) -> None:
        self.app = App(list(agents), journal or MemoryJournal(), worker=bool(agents))
        self.settings = ServerSettings(**settings)
        self.face = asgi.face(self.app, self.settings)
        self.sign_in = self.face.state.sign_in
        self.sign_in.passwords = Passwords(QUICK)
        self.served = Guard(asgi.limited(self.face), self.settings)
        self.people = self.app.people

    async def peopled(self) -> Door:
        await self.people.start("ada", "Ada L.")
        await self.people.add("bob", by="ada", roles=["ops"])
        await self.people.add("robot", by="ada", kind="machine")
        for name in ("ada", "bob"):
            await self.people.set_password(name, QUICK.hash(PASSWORD), by=name)
        return self

    def browser(self, address: str = "192.0.2.7", base: str = ORIGIN, **headers: str) -> Browser:
        return Browser(self, address, base, headers)


class Browser:
    """Keeps cookies, sends an Origin with what it posts, and fills forms."""

    def __init__(self, door: Door, address: str, base: str, headers: dict[str, str]) -> None:
        transport = httpx2.ASGITransport(door.served, client=(address, 5))
        self.base = base
        self.client = httpx2.AsyncClient(transport=transport, base_url=base, headers=headers)

    @property
    def cookies(self) -> Any:
        return self.client.cookies

    async def get(self, path: str, **words: Any) -> httpx2.Response:
        return await self.client.get(path, **words)

    async def post(self, path: str, data: Any = None, **words: Any) -> httpx2.Response:
        headers = {"origin": self.base, **words.pop("headers", {})}
        return await self.client.post(path, data=data, headers=headers, **words)

    async def mark(self) -> str:
        """The mark of this session's forms."""
        found = re.search(r'name="csrf_token" value="(\w+)"', (await self.get("/account")).text)
        return found[1] if found else ""

    async def send(self, path: str, **data: Any) -> httpx2.Response:
        """Post a form of this session."""
        return await self.post(path, {"csrf_token": await self.mark(), **data})

    async def log_in(self, name: str = "bob", password: str = PASSWORD, **more: str) -> httpx2.Response:
        return await self.post("/login", {"name": name, "password": password, **more})

    @property
    def token(self) -> str:
        return next((cookie.value for cookie in self.client.cookies.jar if "session" in cookie.name), "")
