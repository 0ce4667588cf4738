"""The demo's agent, its six tools, of which five wait for a person, its scripted model, and the world file.

The tools get the path of the world, a JSON file, as the run's context, which is saved with the run, so that the next
process finds the same world.
"""

from __future__ import annotations

import json
import os
import secrets
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, LiteralString

from ..agents.agent import Agent
from ..agents.context import RunContextWrapper
from ..core.preview import Json, Preview, Text
from ..models.base import ModelRequest
from ..models.scripted.model import assistant_message, function_call, tool_outputs
from ..tools.function import function_tool

TASK: LiteralString = (
    "The key of the staging API turned up in a log. Rotate it, restart what uses it, clear out old backups, "
    "and tell people."
)
Service = Literal["api", "worker"]
Context = RunContextWrapper[Any]


def demo_agent(model: Any) -> Agent[Any]:
    """Make the agent, the same in every process."""
    return Agent(
        name="ops",
        instructions="You look after a staging environment. Look before you act. Tell people what you did.",
        model=model,
        tools=[read_status, rotate_key, restart_service, delete_backups, send_notice, ask_person],
    )


def _world(context: Context) -> World:
    return World(Path(context.context["world"]))


@function_tool(read_only=True)
def read_status(context: Context) -> str:
    """Read the state of all services and backups."""
    data = _world(context).read()
    services = (f"{name} is {about['status']} with {about['key']}" for name, about in data["services"].items())
    return f"{', '.join(services)}; backups: {', '.join(data['backups'])}"


def _key_preview(given: object) -> Preview:
    return Preview((Json(given),), summary="a new key; the old one stops working at once")


@function_tool(needs_approval=True, preview=_key_preview)
def rotate_key(context: Context, service: Service) -> str:
    """Give a service a new key; the old one stops working at once."""
    key = f"key-{secrets.token_hex(2)}"
    _world(context).change(f"rotate_key {service}", lambda data: data["services"][service].update(key=key))
    return f"rotated: {service} now uses {key}"


@function_tool(needs_approval=True)
def restart_service(context: Context, service: Service) -> str:
    """Restart a service; its requests fail for about a minute."""

    def restart(data: dict[str, Any]) -> None:
        data["services"][service]["restarts"] += 1

    _world(context).change(f"restart_service {service}", restart)
    return f"restarted: {service}"


@function_tool(needs_approval=True, preview=lambda given: Text("\n".join(given["names"]), label="deleted for good"))
def delete_backups(context: Context, names: list[str]) -> str:
    """Delete backups, named one by one."""

    def delete(data: dict[str, Any]) -> None:
        data["backups"] = [name for name in data["backups"] if name not in names]

    _world(context).change(f"delete_backups {' '.join(names)}", delete)
    return f"deleted: {', '.join(names)}"


@function_tool(needs_approval=True, preview=lambda given: Text(given["text"], label=f"for all in {given['channel']}"))
def send_notice(context: Context, channel: str, text: str) -> str:
    """Post a notice for people to read."""
    _world(context).change(f"send_notice {channel}", lambda data: data["notices"].append({"to": channel, "text": text}))
    return f"sent to {channel}"


@function_tool(needs_approval=True, preview=lambda given: Text(given["question"], label="the agent asks you"))
def ask_person(question: str) -> str:
    """Ask the person in charge; what they write is the result."""
    return "The person read the question and did not answer it."


def reply(request: ModelRequest) -> list[Any]:
    """Return the model's next reply from the conversation alone, so that any process can go on with it."""
    done = {label: str(output) for label, output in tool_outputs(request).items()}
    for label, step in _STEPS.items():
        if label not in done:
            return step(done)
    lines = [f"{what}: {_last_line(done[label])}" for label, what in _TOLD.items()]
    return [assistant_message("\n".join(["This is what became of it.", *lines]))]


def _look(done: dict[str, str]) -> list[Any]:
    return [
        assistant_message("I look before I touch anything."),
        function_call("read_status", {}, call_id="look"),
    ]


def _act(done: dict[str, str]) -> list[Any]:
    old = ["api-2026-03-01", "api-2026-07-01", "api-2026-11-01"]
    return [
        assistant_message("The API still runs with the leaked key, and three backups look old."),
        function_call("rotate_key", {"service": "api"}, call_id="rotate"),
        function_call("delete_backups", {"names": old}, call_id="prune"),
        function_call("restart_service", {"service": "api"}, call_id="restart"),
    ]


def _ask(done: dict[str, str]) -> list[Any]:
    restarted = done["restart"].startswith("restarted")
    what = "The API was restarted" if restarted else "The API was not restarted"
    return [function_call("ask_person", {"question": f"{what}. What shall I tell people about it?"}, call_id="ask")]


def _notice(channel: str) -> Any:
    def step(done: dict[str, str]) -> list[Any]:
        text = f"The key of the staging API was replaced. {done['ask']}"
        return [function_call("send_notice", {"channel": f"#{channel}", "text": text}, call_id=f"notice-{channel}")]

    return step


def _last_line(output: str) -> str:
    return output.splitlines()[-1] if output else "nothing"


_TOLD = {"rotate": "the key", "restart": "the restart", "prune": "the backups", "notice-ops": "the notice"}
_STEPS = {
    "look": _look,
    "rotate": _act,
    "ask": _ask,
    "notice-ops": _notice("ops"),
    "notice-dev": _notice("dev"),
}


AT_FIRST: dict[str, Any] = {
    "services": {
        "api": {"status": "running", "key": "key-4f21 (leaked)", "restarts": 0},
        "worker": {"status": "running", "key": "key-90ab", "restarts": 0},
    },
    "backups": ["api-2026-03-01", "api-2026-07-01", "api-2026-11-01", "api-2026-11-20"],
    "notices": [],
    "effects": [],
}


_CHANGING = threading.Lock()


class World:
    """Reads and changes the world of the demo's tools: a JSON file, which outlives a process.

    >>> import tempfile
    >>> world = World(Path(tempfile.mkdtemp()) / "world.json")
    >>> world.change("add a notice", lambda data: data["notices"].append("hello"))
    >>> world.read()["notices"]
    ['hello']
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[str, Any]:
        """Return the world as it is; before anything happened, as it was at first."""
        made: dict[str, Any] = json.loads(self.path.read_text()) if self.path.exists() else AT_FIRST
        return made

    def text(self) -> str:
        """Return the world as a text to read."""
        return json.dumps(self.read(), indent=2) + "\n"

    def change(self, effect: str, how: Callable[[dict[str, Any]], object]) -> None:
        """Change the world, and record which process did it."""
        with _CHANGING:  # calls that were approved together run together, and these tools run in threads
            data = json.loads(json.dumps(self.read()))
            how(data)
            data["effects"].append(f"{effect}, by process {os.getpid()}")
            draft = self.path.with_suffix(".draft")
            draft.write_text(json.dumps(data, indent=2) + "\n")
            os.replace(draft, self.path)
