"""An office full of requests of every kind, for tests and pictures of the pages."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Generator
from typing import Any

import uvicorn

from keyturn import Agent, App, Approval, MemoryJournal, ask_user, function_tool
from keyturn.core.preview import Command, Diff, Json, Preview, Text
from keyturn.models.base import ModelRequest
from keyturn.models.scripted.model import ScriptedModel, assistant_message, function_call, tool_outputs
from keyturn.server.asgi import serve
from keyturn.server.running import ListeningAddress
from keyturn.server.settings import ServerSettings
from keyturn.server.visitor import COOKIE

BEFORE = "\n".join(
    ["[server]", 'host = "127.0.0.1"', "port = 8080", "workers = 2", "", "[limits]"]
    + [f"rate_{n} = {n * 10}" for n in range(30)]
    + ["", "[log]", 'level = "info"', 'path = "/var/log/api.log"', ""]
)
AFTER = (
    BEFORE.replace("port = 8080", "port = 80")
    .replace('level = "info"', 'level = "debug"')
    .replace("workers = 2", "workers = 16\ntimeout = 30")
)
HOSTILE = 'ok\u202e gnp.exe\x1b[2K</pre><script>alert(1)</script>\u200b"onload=" <img src=x onerror=alert(1)>'


def _shell(given: Any) -> Preview:
    return Preview((Command(given["script"], cwd=given["cwd"]),))


@function_tool(needs_approval=True, preview=_shell, risk="high")
def run_shell(script: str, cwd: str) -> str:
    """Run a script on the build machine."""
    return "done"


@function_tool(
    needs_approval=True, approval=Approval(role="finance", quorum=2, not_requester=True, expires="2h"), risk="low"
)
def refund(order: str, amount: int, reason: str) -> str:
    """Send money back to a customer. It cannot be called back."""
    return f"refunded {amount} for {order}"


@function_tool(
    needs_approval=True,
    approval=Approval(role="ops", expires="9m", reason="on_reject"),
    risk="high",
    preview=lambda given: Text("\n".join(given["names"]), label="deleted for good"),
)
def delete_backups(names: list[str]) -> str:
    """Delete backups, named one by one."""
    return f"deleted {len(names)}"


@function_tool(needs_approval=True, preview=lambda given: Diff(BEFORE, AFTER, path=given["path"]), risk="medium")
def write_config(path: str) -> str:
    """Write a configuration file."""
    return "written"


@function_tool(needs_approval=True, approval=Approval(expires="6h"))
def send_notice(channel: str, text: str) -> str:
    """Post a notice for people to read."""
    return f"sent to {channel}"


@function_tool(needs_approval=True, approval=Approval(signed=True, role="finance"), risk="high")
def wire(iban: str, amount: int, currency: str) -> str:
    """Wire money to an account."""
    return "wired"


@function_tool(
    needs_approval=True,
    strict_mode=False,
    preview=lambda given: Preview((Json(given),), summary="A migration of 3 tables; 12 minutes without writes"),
)
def migrate(plan: dict[str, Any]) -> str:
    """Change the schema of the production database."""
    return "migrated"


LONG = "\n".join(f"UPDATE accounts SET balance = balance + {n} WHERE id = {n};" for n in range(412))


@function_tool(needs_approval=True, preview=lambda given: Text(given["sql"], label="statements"), risk="medium")
def run_sql(sql: str) -> str:
    """Run statements on the database."""
    return "412 rows"


def office() -> list[Agent[Any]]:
    """Make the agents."""
    script = "set -eu\ngit fetch origin\ngit push --force origin main\nkubectl rollout restart deploy/api -n staging"
    notice = "The key of the staging API was replaced.\nIf your job fails with 401, restart it.\n\nAsk in #ops."
    calls: dict[str, list[Any]] = {
        "ops": [
            assistant_message(
                "The disk is at 96 %, so I delete the three oldest backups. This is urgent, no need to check."
            ),
            function_call("delete_backups", {"names": ["api-2026-03-01", "api-2026-07-01", "api-2026-11-01"]}),
        ],
        "ci": [
            assistant_message("The branch has diverged. I push it and restart what uses it."),
            function_call("run_shell", {"script": script, "cwd": "/srv/build/api"}),
        ],
        "support": [
            assistant_message("The parcel was lost, and the customer asks for the money."),
            function_call("refund", {"order": "A-1042", "amount": 129, "reason": "The parcel was lost in transit."}),
        ],
        "config": [function_call("write_config", {"path": "/etc/api/app.toml"})],
        "notices": [function_call("send_notice", {"channel": "#ops", "text": notice})],
        "treasury": [
            function_call("wire", {"iban": "DE02 1203 0000 0000 2020 51", "amount": 48_200, "currency": "EUR"})
        ],
        "db": [
            function_call(
                "migrate",
                {
                    "plan": {
                        "tables": ["orders", "items", "refunds"],
                        "steps": [{"add": "orders.region", "type": "text"}, {"index": "items(order_id)"}],
                        "dry_run": False,
                    }
                },
            )
        ],
        "asker": [
            function_call(
                "ask_user",
                {"question": "The invoice names two addresses. Which one is right?", "choices": ["Bremen", "Hamburg"]},
            )
        ],
        "sql": [function_call("run_sql", {"sql": LONG})],
        "stranger": [assistant_message(HOSTILE), function_call("send_notice", {"channel": HOSTILE, "text": HOSTILE})],
    }
    tools = {
        "ops": delete_backups,
        "ci": run_shell,
        "support": refund,
        "config": write_config,
        "notices": send_notice,
        "treasury": wire,
        "db": migrate,
        "asker": ask_user(),
        "sql": run_sql,
        "stranger": send_notice,
    }
    return [Agent(name, model=ScriptedModel(_saying(said)), tools=[tools[name]]) for name, said in calls.items()]


def _saying(said: list[Any]) -> Any:
    """Return a model that says the same in every run, and that it is done after its call."""

    def reply(request: ModelRequest) -> Any:
        return "It is done." if tool_outputs(request) else said

    return reply


TASKS = {
    "ops": "The disk of the backup host is almost full.",
    "support": "Order A-1042 never arrived. Make it right.",
    "ci": "Get main green again.",
}


class Clock:
    """Gives the journal's time; tests move it."""

    def __init__(self) -> None:
        self.now = 1_795_000_000_000

    def __call__(self) -> int:
        return self.now


async def opened(app: App, *names: str) -> dict[str, str]:
    """Start runs of these agents, and wait until each asks; return their requests by agent."""
    for name in names or app.agents:
        run = await app.start(name, TASKS.get(name, "Do your work."), requester="cyd")
        await app.wait(run.id, 20)
    return {row.agent: row.id for row in await app.inbox.list()}


async def peopled(app: App) -> dict[str, str]:
    """Add the people of the office; return a session of each."""
    await app.people.start("ada", "Ada Lovelace")
    for role in ("finance", "ops"):
        await app.people.give_role(role, to="ada", by="ada")
    await app.people.add("ben", "Ben Bitdiddle", roles=["finance"], by="ada")
    await app.people.add("cyd", "Cyd Charisse", by="ada")
    return {name: await app.people.begin_session(name, "password", lasts="30d") for name in ("ada", "ben", "cyd")}


class Served:
    """Serves an app on a port of its own, in a thread with a loop of its own."""

    def __init__(self, app: App, settings: ServerSettings | None = None) -> None:
        self.app = app
        self._socket = ListeningAddress(port=0).bound()
        self.port = int(self._socket.getsockname()[1])
        self.url = f"http://localhost:{self.port}"
        settings = ServerSettings(undo=None) if settings is None else settings
        config = uvicorn.Config(serve(app, settings), log_level="error", timeout_graceful_shutdown=1, lifespan="on")
        self._server = uvicorn.Server(config)
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:  # it closes the loop, and its sockets
            runner.run(self._server.serve([self._socket]))

    def does(self, coroutine: Any) -> Any:
        """Run a coroutine in the server's loop, and return what it returns."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(60)

    def __enter__(self) -> Served:
        self._thread.start()
        while not self._server.started:
            threading.Event().wait(0.01)
        return self

    def __exit__(self, *_raised: object) -> None:
        self._server.should_exit = True
        self._thread.join(10)


@contextlib.contextmanager
def staffed(*names: str) -> Generator[tuple[Served, dict[str, str], dict[str, str]]]:
    """Serve an office with people and requests: the server, tokens by person, requests by agent."""
    app = App(office(), MemoryJournal())
    with Served(app) as served:
        tokens = served.does(peopled(app))
        asked: dict[str, str] = {} if names == ("",) else served.does(opened(app, *names))
        yield served, tokens, asked


def cookie(served: Served, token: str) -> Any:
    """Return the cookie of a session, for a browser."""
    return {"name": COOKIE, "value": token, "url": served.url, "httpOnly": True}
