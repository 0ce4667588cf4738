"""An app for programs, and clients of its API: in this process, or over a real port. No test is here."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any

import httpx2
import uvicorn

from keyturn import Agent, App, Approval, Secret, function_tool
from keyturn.channels.base import Channel
from keyturn.models.base import ModelRequest
from keyturn.models.scripted.model import ScriptedModel, function_call
from keyturn.server.running import ListeningAddress, PatientProtocol
from keyturn.server.settings import ServerSettings

HOST = "http://localhost"
PAID: list[str] = []


@function_tool(needs_approval=True)
def pay(to: str, amount: int, card: Annotated[str, Secret]) -> str:
    """Pay somebody."""
    PAID.append(to)
    return f"paid {amount} to {to}"


@function_tool(needs_approval=True, approval=Approval(role="finance", quorum=2))
def wire(to: str, amount: int) -> str:
    """Wire money."""
    return f"wired {amount} to {to}"


@function_tool(needs_approval=True, approval=Approval(role="ops"))
def restart(host: str) -> str:
    """Restart a machine."""
    return f"restarted {host}"


def agents() -> list[Agent[Any]]:
    """Make the agents: each asks once for its tool, then is done, as often as it is started."""
    calls = {
        "desk": (pay, function_call("pay", {"to": "ann", "amount": 5, "card": "4929-4929-SECRET"})),
        "bank": (wire, function_call("wire", {"to": "ann", "amount": 5})),
        "ops": (restart, function_call("restart", {"host": "db1"})),
    }
    return [Agent(name, model=ScriptedModel(_says(call)), tools=[tool]) for name, (tool, call) in calls.items()]


def _says(call: Any) -> Any:
    def step(request: ModelRequest) -> Any:
        over = any(item.get("type") == "function_call_output" for item in request.input)
        return "Done." if over else [call]

    return step


class Program:
    """Asks the API of an app as several people."""

    def __init__(self, app: App, http: httpx2.AsyncClient, tokens: dict[str, str]) -> None:
        self.app, self.http, self.tokens = app, http, tokens

    async def ask(self, method: str, path: str, who: str = "ada", **more: Any) -> httpx2.Response:
        """Send one request as somebody; "" for nobody."""
        headers = dict(more.pop("headers", {}))
        if who:
            headers.setdefault("authorization", f"Bearer {self.tokens[who]}")
        return await self.http.request(method, f"/v1{path}", headers=headers, **more)

    async def get(self, path: str, who: str = "ada", **more: Any) -> Any:
        """Read something that is there."""
        made = await self.ask("GET", path, who, **more)
        assert made.status_code == 200, made.text
        return made.json()

    async def post(self, path: str, body: Any, who: str = "ada", **more: Any) -> Any:
        """Change something that can be changed."""
        made = await self.ask("POST", path, who, json=body, **more)
        assert made.status_code == 200, made.text
        return made.json()

    async def waiting(self, agent: str = "desk", requester: str = "cyd") -> dict[str, Any]:
        """Start a run, and return the request that it comes to."""
        run = (await self.post("/runs", {"agent": agent, "input": "Go.", "requester": requester}, "bot"))["run"]
        await self.app.wait(run, 30)
        [found] = (await self.get(f"/requests?run={run}"))["requests"]
        return found


PEOPLE = {"ada": ["admin"], "ben": ["finance"], "bea": ["finance"], "cyd": [], "dan": ["ops"]}


async def peopled(app: App) -> dict[str, str]:
    """Add people and a machine; return a token of each, and tokens that are good for one thing only."""
    people = app.people
    await people.start("ada")
    for person, roles in PEOPLE.items():
        if person != "ada":
            await people.add(person, roles=roles, by="ada")
    await people.add("bot", kind="machine", by="ada")
    tokens = {name: await people.issue_token(name, ["decide", "read", "people"], by="ada") for name in PEOPLE}
    tokens["bot"] = await people.issue_token("bot", ["run", "read"], by="ada")
    for scope in ("read", "decide", "people", "run", "ask"):
        tokens[f"only {scope}"] = await people.issue_token("ada", [scope], by="ada")
    return tokens


@asynccontextmanager
async def program(
    journal: Any = "memory://", settings: ServerSettings | None = None, more: Sequence[Agent[Any]] = ()
) -> AsyncGenerator[Program]:
    """Serve an app to programs of this process."""
    app = App([*agents(), *more], journal)
    async with app:
        tokens = await peopled(app)
        transport = httpx2.ASGITransport(app=app.asgi(settings))
        async with httpx2.AsyncClient(transport=transport, base_url=HOST, timeout=60) as http:
            yield Program(app, http, tokens)


class Port:
    """Serves an app on a port of its own, in a thread with a loop of its own, as `keyturn serve` does."""

    def __init__(
        self,
        journal: Any = "memory://",
        settings: ServerSettings | None = None,
        port: int = 0,
        more: Sequence[Agent[Any]] = (),
        channels: Sequence[Channel] = (),
    ) -> None:
        self.app = App([*agents(), *more], journal, channels=channels)
        self._socket = ListeningAddress(port=port).bound()
        self.port = int(self._socket.getsockname()[1])
        self.url = f"http://localhost:{self.port}"
        self.served: Any = self.app.asgi(settings)
        config = uvicorn.Config(
            self.served, http=PatientProtocol, ws="none", log_config=None, lifespan="on", timeout_graceful_shutdown=2
        )
        self._server = uvicorn.Server(config)
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.tokens: dict[str, str] = {}

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:  # it closes the loop, and its sockets
            runner.run(self._server.serve([self._socket]))

    def does(self, coroutine: Any) -> Any:
        """Run a coroutine in the server's loop, and return what it returns."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(60)

    def __enter__(self) -> Port:
        self._thread.start()
        while not self._server.started:
            threading.Event().wait(0.01)
        if not self.does(self.app.people.directory()).place:
            self.tokens = self.does(peopled(self.app))
        return self

    def __exit__(self, *_raised: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the server, its streams first."""
        self.loop.call_soon_threadsafe(self.served.end)
        self._server.should_exit = True
        self._thread.join(20)
        assert not self._thread.is_alive(), "the server waits for somebody"
        self._socket.close()

    def said(self, raw: bytes, seconds: float = 15.0) -> bytes:
        """Send bytes as they are, and return all that comes back until the server closes, or nothing comes."""
        with socket.create_connection(("127.0.0.1", self.port)) as line:
            line.settimeout(seconds)
            line.sendall(raw)
            found = b""
            with contextlib.suppress(TimeoutError, ConnectionResetError):
                while chunk := line.recv(65_536):
                    found += chunk
            return found
