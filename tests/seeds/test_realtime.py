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

    calls = [Call("lock", {"door": "a"}, "c1"), Call("open_safe", {}, "c2")]
    again = [Call("lock", {"door": "b"}, "c3"), Call("open_safe", {}, "c4")]
    manager, asked = Manager(), list[Any]()
    async with RealtimeServer([calls, "One moment.", "And again.", "Well.", again, "Done.", "Done."]) as server:
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
                if len(asked) == 2 and len(server.outputs) == 2:
                    break
            for _ in range(4):
                await session.send_message("Once more.")
                await until(lambda: "response" not in str(session.history[-1]))
            await until(lambda: len(server.outputs) == 4)
        assert (asked, done) == (["c1", "c2"], ["a", "b"])
        assert "not approved" in server.outputs["c4"][0]
