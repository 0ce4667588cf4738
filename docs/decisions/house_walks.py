"""Walk the house: `python docs/decisions/house_walks.py [CHECKOUT]` counts what one thing calls, for the table in 0022.

Of each walk: how many of our files have a function that is called, and the most of our frames on one stack. What is
imported, set up and served before the walk begins is not counted. The walk of `approve --server` is a row of
`house_counts.py`.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(sys.argv[1] if sys.argv[1:] else ".").resolve()
OURS = f"{ROOT / 'src' / 'keyturn'}{os.sep}"


class Walk:
    """Notes which files are entered while it listens, and how deep."""

    def __init__(self) -> None:
        self.files = set[str]()
        self.deepest = 0

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Note every call, of this thread and of those that begin meanwhile."""
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _note(self, frame: FrameType, event: str, _argument: object) -> None:
        if event != "call" or not frame.f_code.co_filename.startswith(OURS):
            return
        self.files.add(frame.f_code.co_filename)
        depth, each = 0, frame
        while each is not None:
            depth += each.f_code.co_filename.startswith(OURS)
            each = each.f_back
        self.deepest = max(self.deepest, depth)


def desk() -> Any:
    """Make an agent that pays once, and asks before."""
    from keyturn import Agent, function_tool
    from keyturn.testing import ScriptedModel, function_call

    @function_tool(needs_approval=True)
    def pay(to: str, amount: int) -> str:
        """Pay."""
        return f"paid {amount} to {to}"

    return Agent(
        "desk", model=ScriptedModel([[function_call("pay", {"to": "ann", "amount": 5})], "Done."]), tools=[pay]
    )


async def page(walk: Walk) -> None:
    """Show the page of one request to somebody who is signed in."""
    import httpx2

    from keyturn import App
    from keyturn.server.visitor import COOKIE

    async with App([desk()], "memory://") as app:
        await app.people.start("ada")
        token = await app.people.begin_session("ada", "password", lasts="1d")
        await app.wait((await app.start("desk", "Pay Ann 5.")).id, 10)
        (row,) = await app.inbox.list()
        transport, cookies = httpx2.ASGITransport(app=app.asgi()), {COOKIE: token}
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost", cookies=cookies) as http:
            assert (await http.get(f"/requests/{row.id}")).status_code == 200
            with walk.listening():
                await http.get(f"/requests/{row.id}")


async def decided(walk: Walk) -> None:
    """Approve a request in an inbox, and let the worker end its run."""
    from keyturn import App

    async with App([desk()], "memory://") as app:
        run = await app.start("desk", "Pay Ann 5.")
        await app.wait(run.id, 10)
        (row,) = await app.inbox.list()
        with walk.listening():
            await app.inbox.approve(row, by="ada")
            assert (await app.run(run.id).result()).final_output == "Done."


async def deep(walk: Walk) -> None:
    """Run a deep agent that writes a file."""
    from keyturn.deep import create_deep_agent
    from keyturn.testing import ScriptedModel, function_call

    model = ScriptedModel([[function_call("write_file", {"path": "/a.txt", "content": "a"})], "Done."])
    agent = create_deep_agent(model=model)
    with walk.listening():
        await agent.run("Write a file.")


async def realtime(walk: Walk) -> None:
    """Approve a call of a session, until the model has read its result."""
    from keyturn.realtime import RealtimeRunner
    from tests.realtime.desk import support
    from tests.realtime.own_model import TalkingModel
    from tests.waiting import until

    model = TalkingModel()
    async with await RealtimeRunner(support(), model=model).run() as session:
        with walk.listening():
            await model.calls("refund", {"order": "A-1"})
            await until(lambda: len(session.pending_approvals) == 1)
            await session.approve_tool_call("c1")
            await until(lambda: bool(model.outputs()))


WALKS: dict[str, Callable[[Walk], Awaitable[None]]] = {
    "a page of one request": page,
    "a decision, until its run has ended": decided,
    "a deep agent writes a file": deep,
    "a call of a realtime session, approved": realtime,
}


def main() -> None:
    """Print a row for each walk."""
    sys.path[:0] = [str(ROOT / "src"), str(ROOT)]
    with tempfile.TemporaryDirectory() as home:
        os.environ |= {"KEYTURN_HOME": home, "KEYTURN_SECRET": "walked-through-the-house"}
        for name, walked in WALKS.items():
            walk = Walk()
            asyncio.run(walked(walk))
            print(f"| {name} | {len(walk.files)} | {walk.deepest} |")


if __name__ == "__main__":
    main()
