"""The floor: the bare minimum of the same job, written by hand with asyncio and msgspec.

No validation beyond the argument types, no log, no grants, no tracing: what is left when nothing can be left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import msgspec

from ..script import FINAL, PROMPT, Script


class Message(msgspec.Struct, tag="message"):
    role: str
    text: str


class Called(msgspec.Struct, tag="call"):
    id: str
    tool: str
    arguments: str


class Output(msgspec.Struct, tag="output"):
    id: str
    text: str


class Delta(msgspec.Struct, tag="delta"):
    text: str


class Run(msgspec.Struct):
    items: list[Message | Called | Output]
    waiting: list[Called] = []


class Arguments(msgspec.Struct):
    x: int


class Event(msgspec.Struct):
    type: str
    delta: str = ""


ENCODER = msgspec.json.Encoder()
DECODER = msgspec.json.Decoder(Run)
ARGUMENTS = msgspec.json.Decoder(Arguments)
EVENT = msgspec.json.Decoder(Event)


class Driver:
    """A loop over a list of items."""

    SDK = False
    APIS = ("responses",)

    def __init__(self, script: Script) -> None:
        self.script = script
        noop, gated = script.tools()
        self.tools = {"noop": (noop, False), "gated": (gated, True)}

    async def model(self, items: list[Message | Called | Output]) -> list[Called]:
        return [Called(*call) for call in self.script.reply()]

    async def start(self) -> Run:
        return await self.run(Run([Message("user", PROMPT)]))

    async def run(self, run: Run) -> Run:
        while calls := await self.model(run.items):
            run.items += calls
            run.waiting = [call for call in calls if self.tools[call.tool][1]]
            await self.perform(run, [call for call in calls if not self.tools[call.tool][1]])
            if run.waiting:
                return run
        run.items.append(Message("assistant", FINAL))
        return run

    async def perform(self, run: Run, calls: list[Called]) -> None:
        if len(calls) > 1:  # the calls of one reply run side by side
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self.call(call)) for call in calls]
            run.items += [task.result() for task in tasks]
        elif calls:
            run.items.append(await self.call(calls[0]))

    async def call(self, call: Called) -> Output:
        result = self.tools[call.tool][0](ARGUMENTS.decode(call.arguments).x)
        return Output(call.id, result if isinstance(result, str) else await result)

    def pending(self, run: Run) -> int:
        return len(run.waiting)

    def save(self, run: Run) -> str:
        return ENCODER.encode(run).decode()

    async def load(self, text: str) -> Run:
        return DECODER.decode(text)

    async def approve(self, run: Run) -> Run:
        calls, run.waiting = run.waiting, []
        await self.perform(run, calls)
        return await self.run(run)

    async def stream(self) -> list[str]:
        queue: asyncio.Queue[Delta | None] = asyncio.Queue()
        task = asyncio.create_task(self.produce(queue))
        deltas = []
        while (delta := await queue.get()) is not None:
            deltas.append(delta.text)
        await task
        return deltas

    async def produce(self, queue: asyncio.Queue[Delta | None]) -> None:
        self.script.reply()
        async for delta in self.deltas():
            queue.put_nowait(Delta(delta))
        queue.put_nowait(None)

    async def deltas(self) -> AsyncIterator[str]:
        for delta in self.script.deltas:
            if self.script.suspend:
                await asyncio.sleep(0)
            yield delta

    async def over_wire(self, api: str, url: str) -> list[str]:
        address = urlsplit(url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        body = ENCODER.encode({"model": "m", "input": PROMPT, "stream": True})
        head = f"POST {address.path}/responses HTTP/1.1\r\nhost: floor\r\nauthorization: Bearer k\r\n"
        writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        await reader.readuntil(b"\r\n\r\n")
        deltas, rest = [], b""
        while size := int(await reader.readline(), 16):
            *events, rest = (rest + (await reader.readexactly(size + 2))[:-2]).split(b"\n\n")
            for event in events:
                told = EVENT.decode(event[event.index(b"data: ") + 6 :])
                if told.type == "response.output_text.delta":
                    deltas.append(told.delta)
        writer.close()
        return deltas
