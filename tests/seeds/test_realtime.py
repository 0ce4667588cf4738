"""A realtime session tells that a call waits, and the user's own manager approves or rejects it by its id."""

from __future__ import annotations

from typing import Any

from keyturn import function_tool
from keyturn.realtime import RealtimeAgent, RealtimeRunner, RealtimeSession
from keyturn.testing.loopback.realtime import Call, RealtimeServer
from tests.waiting import until


class Manager:
    """Keeps sessions by name, as a web server does, and decides what a browser was shown."""

    def __init__(self) -> None:
        self.sessions: dict[str, RealtimeSession] = {}

    async def approve(self, name: str, call_id: str, *, always: bool = False) -> None:
        if (session := self.sessions.get(name)) is not None:
            await session.approve_tool_call(call_id, always=always)

    async def reject(self, name: str, call_id: str, *, always: bool = False) -> None:
        if (session := self.sessions.get(name)) is not None:
            await session.reject_tool_call(call_id, always=always)


async def test_a_session_tells_what_waits() -> None:
    """The event names the call; one is approved for good, one of another tool rejected for good."""
    done: list[str] = []

    @function_tool(needs_approval=True)
    def lock(door: str) -> str:
        done.append(door)
        return f"locked {door}"

    @function_tool(needs_approval=True)
    def open_safe() -> str:
        done.append("safe")
        return "opened"

    manager, asked = Manager(), list[Any]()
    rounds = [
        [Call("lock", {"door": "a"}, "c1"), Call("open_safe", {}, "c2")],
        [Call("lock", {"door": "b"}, "c3"), Call("open_safe", {}, "c4")],
    ]

    def plays(line: Any) -> Any:
        """Call when the user asks for it, and talk otherwise."""
        said = [message["item"] for message in line.messages if message["type"] == "conversation.item.create"]
        wanted = sum(item.get("role") == "user" for item in said)
        return rounds.pop(0) if rounds and wanted > 2 - len(rounds) else "As you say."

    async with RealtimeServer(plays) as server:
        runner = RealtimeRunner(RealtimeAgent("guard", tools=[lock, open_safe]))
        session = await runner.run(model_config={"api_key": "k", "url": server.url})
        async with session:
            manager.sessions["s"] = session
            await session.send_message("Lock up.")
            async for event in session:
                if event.type == "tool_approval_required":
                    asked.append(event.call_id)
                    verb = manager.approve if event.tool.name == "lock" else manager.reject
                    await verb("s", event.call_id, always=True)
                if len(asked) == 2:
                    break
            await until(lambda: len(server.outputs) == 2)
            await session.send_message("Once more.")
            await until(lambda: len(server.outputs) == 4)
        assert (asked, done) == (["c1", "c2"], ["a", "b"])
        assert "not approved" in server.outputs["c4"][0]
