"""`python -m benchmarks.doors`: what a request costs that comes from outside, each beside a floor of the same moment.

A request until another session's list has it, a claim once it is decided, a hook that a policy allows, and a call
through the MCP gate that is not gated. A floor is the same road without that work: a small request to the same
server, an interpreter that starts and ends, the call without the gate. Floor and figure are taken in turns, so that a
busy machine slows both: the ratio stands, and the times are those of the machine as it was. Counts depend on nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from keyturn import App, ExternalAgent
from keyturn.asks.ask import Ask
from keyturn.client.client import AsyncClient
from keyturn.policies.rules import Policy, allow
from keyturn.server.asgi import serve
from keyturn.server.running import ListeningAddress, Running
from keyturn.server.settings import ServerSettings

from .table import grid

#: What the issue asks for, in milliseconds; each at the 99th percentile, or as the median of processor time.
TARGETS = {
    "request visible in another session": 100.0,
    "claim after a decision": 50.0,
    "hook allowed by policy (processor time)": 150.0,
    "ungated MCP call through the gate": 5.0,
    "ungated MCP call (processor time)": 5.0,
}
SHOP = """
from mcp.server import MCPServer
shop = MCPServer("shop", log_level="ERROR")
@shop.tool()
def read_price(item: str) -> int:
    "Tell a price."
    return 3
shop.run("stdio")
"""
HOOK = {
    "hook_event_name": "PreToolUse", "session_id": "s1", "cwd": "/srv", "tool_name": "Read",
    "tool_input": {"path": "a"},
}  # fmt: skip
Timed = list[tuple[float, float]]


def served(path: str) -> None:
    """Serve an inbox with one approver and one account until nobody holds the other end of our input."""

    async def begun() -> None:
        app = App([ExternalAgent()], f"sqlite:///{path}", Policy(allow(tool="Read")))
        address = ListeningAddress(port=0)
        listening = address.bound()
        server = Running(serve(app, ServerSettings()), address, grace=1.0, told=lambda: None)
        serving = asyncio.ensure_future(server.serve([listening]))
        while not server.started:
            await asyncio.sleep(0.01)
        await app.people.start("ada")
        await app.people.add("laptop", kind="machine", by="ada")
        scopes = {"ada": ["decide", "read"], "laptop": ["ask"]}
        tokens = [await app.people.issue_token(who, given, by="ada") for who, given in scopes.items()]
        print(json.dumps([f"http://localhost:{listening.getsockname()[1]}", *tokens]), flush=True)
        await asyncio.to_thread(sys.stdin.read)
        server.stop()
        await serving

    asyncio.run(begun())


@contextlib.contextmanager
def serving(folder: Path) -> Any:
    """Serve in a process of its own, and return its URL and both tokens."""
    command = [sys.executable, "-m", "benchmarks.doors", "--serve", str(folder / "journal.db")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            yield json.loads(server.stdout.readline())
        finally:
            server.stdin.close()


async def spent(work: Callable[[], Awaitable[Any]]) -> float:
    """Return how many milliseconds some work takes."""
    begun = time.perf_counter()
    await work()
    return (time.perf_counter() - begun) * 1_000


async def requests(url: str, ada: str, laptop: str, many: int) -> tuple[Timed, Timed]:
    """Time requests until a stream of another user has them, and claims from their decision on; each with its floor."""
    visible, claimed = Timed(), Timed()
    seen: dict[str, float] = {}
    async with AsyncClient(url, ada) as person, AsyncClient(url, laptop) as caller:
        pages = person.inbox.pages(limit=500)
        arrived = asyncio.Condition()

        async def listen() -> None:
            async for page in pages:
                now = time.perf_counter()
                async with arrived:
                    for row in page:
                        seen.setdefault(row.run, now)
                    arrived.notify_all()

        async def shown(run: str) -> None:
            async with arrived:
                await arrived.wait_for(lambda: run in seen)

        listening = asyncio.ensure_future(listen())
        for number in range(many):
            floor = await spent(caller.people.me)
            begun = time.perf_counter()
            state = await caller.asks.ask(Ask(key=f"k{number}", tool="pay", arguments='{"order": 1}'))
            await shown(state.id)
            visible.append(((seen[state.id] - begun) * 1_000, floor))
            waiting = asyncio.ensure_future(caller.asks.wait(state.id, 60))
            await asyncio.sleep(0.02)  # until the long poll waits at the server
            await person.inbox.approve(await person.inbox.get((await caller.asks.get(state.id)).request))
            decided = time.perf_counter()
            state = await waiting
            state = await caller.asks.claim(state.id, state.digest, "bench")
            claimed.append(((time.perf_counter() - decided) * 1_000, floor))
            await caller.asks.report(state.id, "bench", "succeeded")
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
        await pages.aclose()
    return visible, claimed


def processor(command: list[str], text: str, environment: dict[str, str]) -> float:
    """Return how many milliseconds of processor time a program uses."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    made = subprocess.run(command, input=text, env=environment, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert not text or '"allow"' in made.stdout, made
    return (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime) * 1_000


def hooks(url: str, laptop: str, many: int) -> tuple[Timed, int]:
    """Return what hooks cost that a policy allows, each with its floor, and how many modules one imports."""
    environment = {**os.environ, "KEYTURN_SERVER": url, "KEYTURN_TOKEN": laptop}
    hook = [sys.executable, "-m", "keyturn", "hook", "claude-code", "--wait", "60"]
    made = Timed()
    for number in range(many + 1):
        sent = json.dumps({**HOOK, "tool_use_id": f"t{number}"})
        floor = processor([sys.executable, "-c", ""], "", environment)
        made.append((processor(hook, sent, environment), floor))
    counting = [sys.executable, "-X", "importtime", *hook[1:]]
    sent = json.dumps({**HOOK, "tool_use_id": "counted"})
    told = subprocess.run(counting, input=sent, env=environment, capture_output=True, text=True, check=True).stderr
    modules = [line.rpartition("|")[2].strip() for line in told.splitlines() if line.startswith("import time:")]
    engine = [name for name in modules if name.startswith(("keyturn.engine", "keyturn.core"))]
    assert not engine, engine
    return made[1:], len(modules)  # the first one may have compiled what it imports


@contextlib.asynccontextmanager
async def shopping(folder: Path, before: Iterable[str], environment: dict[str, str]) -> AsyncGenerator[Client]:
    """Connect to a small MCP server, directly or behind a gate."""
    script = folder / "shop.py"
    script.write_text(SHOP)
    command = [sys.executable, *before, *([sys.executable] if before else []), str(script)]
    at = StdioServerParameters(command=command[0], args=command[1:], env=environment)
    async with Client(stdio_client(at)) as client:
        yield client


async def calls(folder: Path, url: str, laptop: str, many: int) -> Timed:
    """Time calls that the gate passes unasked, each beside the same call without a gate."""
    environment = {**os.environ, "KEYTURN_SERVER": url, "KEYTURN_TOKEN": laptop, "KEYTURN_HOME": str(folder)}
    gate = ["-m", "keyturn", "gate", "--ungated", "read_*", "--"]
    made = Timed()
    async with shopping(folder, [], environment) as plain, shopping(folder, gate, environment) as gated:
        for number in range(many + 5):
            floor = await spent(lambda: plain.call_tool("read_price", {"item": "tea"}))
            through = await spent(lambda: gated.call_tool("read_price", {"item": "tea"}))
            if number >= 5:
                made.append((through, floor))
    return made


def worked(folder: Path, url: str, laptop: str, many: int) -> tuple[float, float]:
    """Return the processor time of one call at the server and the gate before it, and at the server alone.

    What sessions of few calls use is taken from that of many: what is done once falls out.
    """
    environment = {**os.environ, "KEYTURN_SERVER": url, "KEYTURN_TOKEN": laptop, "KEYTURN_HOME": str(folder)}

    async def session(before: list[str], number: int) -> None:
        async with shopping(folder, before, environment) as client:
            for _ in range(number):
                await client.call_tool("read_price", {"item": "tea"})

    def used(before: list[str], number: int) -> float:
        begun = resource.getrusage(resource.RUSAGE_CHILDREN)
        asyncio.run(session(before, number))
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        return (ended.ru_utime - begun.ru_utime + ended.ru_stime - begun.ru_stime) * 1_000

    few = 10
    gate, none = (
        (used(before, few + many) - used(before, few)) / many
        for before in (["-m", "keyturn", "gate", "--ungated", "read_*", "--"], [])
    )
    return gate, none


def at(values: Iterable[float], share: float) -> float:
    """Return a quantile: the value that this share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def line(name: str, made: Timed, *, added: bool = False, middle: bool = False) -> list[str]:
    """Return one row of the table; `added` judges what is added to the floor, `middle` the median."""
    figures = [figure - floor if added else figure for figure, floor in made]
    judged = at(figures, 0.5) if added or middle else at(figures, 0.99)
    ratio = at((figure for figure, _ in made), 0.5) / at((floor for _, floor in made), 0.5)
    target = TARGETS[name]
    cells = [f"{at(figures, 0.5):.1f}", f"{at(figures, 0.99):.1f}", f"{at((floor for _, floor in made), 0.5):.1f}"]
    return [name, *cells, f"{ratio:.1f}", f"{target:.0f}", "kept" if judged < target else "missed"]


def main(argv: list[str]) -> int:
    """Measure and print; a missed target is shown, not enforced."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.doors", description=__doc__)
    parser.add_argument("--serve", metavar="PATH", help=argparse.SUPPRESS)
    parser.add_argument("--many", type=int, default=100, metavar="N", help="samples of each (default 100)")
    args = parser.parse_args(argv)
    if args.serve:
        served(args.serve)
        return 0
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as (url, ada, laptop):
        visible, claimed = asyncio.run(requests(url, ada, laptop, args.many))
        hooked, modules = hooks(url, laptop, max(args.many // 5, 5))
        through = asyncio.run(calls(Path(folder), url, laptop, args.many * 2))
        work = worked(Path(folder), url, laptop, args.many * 5)
    names = list(TARGETS)
    rows = [
        line(names[0], visible), line(names[1], claimed), line(names[2], hooked, middle=True),
        line(names[3], through, added=True), line(names[4], [work], added=True),
    ]  # fmt: skip
    print(grid(["ms", "median", "p99", "floor", "ratio", "target", ""], rows))
    print(f"\na hook imports {modules} modules, none of them the engine or the core")
    print(f"{os.cpu_count()} processors, load {before:.1f} before and {os.getloadavg()[0]:.1f} after")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
