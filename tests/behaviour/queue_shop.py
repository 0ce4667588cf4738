"""A shop whose users' messages wait for their turn on their sessions. No test is here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keyturn import Agent, App, MemorySession, RunConfig, function_tool
from keyturn.models.scripted.model import ScriptedModel, function_call, last_user_text
from keyturn.sessions.history import orphan_calls

QUEUE = RunConfig(paused_session="queue")
Sessions = Callable[[str], MemorySession]


class Shop:
    """An agent that pays on "pay NAME" after a person said so, and echoes all else; the sessions of its users."""

    def __init__(self) -> None:
        self.paid: list[str] = []
        self.kept: dict[str, MemorySession] = {}

    def session(self, name: str) -> MemorySession:
        return self.kept.setdefault(name, MemorySession(name))

    def agent(self) -> Agent[Any]:
        @function_tool(needs_approval=True)
        def pay(to: str) -> str:
            """Pay somebody."""
            self.paid.append(to)
            return f"paid {to}"

        def reply(request: Any) -> Any:
            said = last_user_text(request) or ""
            last = request.input[-1]
            if said.startswith("pay ") and last.get("role") == "user":
                return [function_call("pay", {"to": said[4:]})]
            return f"heard {said}"

        return Agent("shop", model=ScriptedModel(reply), tools=[pay])

    def app(self, store: Any, **options: Any) -> App:
        return App([self.agent()], store, run_config=QUEUE, sessions=self.session, **options)

    async def told(self, name: str = "ann") -> list[str]:
        """What stands in a session, in a few words."""
        items = await self.session(name).get_items()
        assert not orphan_calls(items)
        words = [str(item.get("content") or item.get("output") or item.get("name")) for item in items]
        return [word if "text" not in word else word.split("'text': '")[1].split("'")[0] for word in words]


def inputs(told: list[str]) -> list[str]:
    return [word for word in told if word.startswith(("pay ", "m")) and word != "pay"]
