"""A model that is talked to, with no wire: `n` pieces of its voice to the consumer, and `n` calls to their results.

The seam has the same names in every library that has one, so the model is written once.
"""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import Any

from ..sampling import median_seconds, seconds
from ..script import require
from ..subjects import Subject

_PIECE = bytes(4_800)


def _model(room: Any) -> Any:
    """Make a model of that library that says what it is told to."""

    class Scripted(room.RealtimeModel):
        def __init__(self) -> None:
            self.listeners: list[Any] = []
            self.results = 0
            self.answered = asyncio.Event()

        async def connect(self, options: Any) -> None:
            pass

        def add_listener(self, listener: Any) -> None:
            self.listeners.append(listener)

        def remove_listener(self, listener: Any) -> None:
            self.listeners.remove(listener)

        async def send_event(self, event: Any) -> None:
            if isinstance(event, room.RealtimeModelSendToolOutput):
                self.results += 1
                self.answered.set()

        async def send_event_if(self, event: Any, send_if: Any) -> bool:
            if send_if():
                await self.send_event(event)
                return True
            return False

        async def close(self) -> None:
            pass

        async def tell(self, event: Any) -> None:
            for listener in list(self.listeners):
                await listener.on_event(event)

    return Scripted()


async def _audio(room: Any, session: Any, model: Any, n: int) -> None:
    async def speak() -> None:
        for _ in range(n):
            await model.tell(room.RealtimeModelAudioEvent(_PIECE, "r1", "i1", 0))
            await asyncio.sleep(0)

    speaking = asyncio.ensure_future(speak())
    heard = 0
    async for event in session:
        heard += event.type == "audio"
        if heard == n:
            break
    await speaking


async def _calls(room: Any, session: Any, model: Any, n: int) -> None:
    before = model.results
    for number in range(n):
        model.answered.clear()
        await model.tell(room.RealtimeModelToolCallEvent("noop", f"c{before + number}", '{"x": 1}'))
        await model.answered.wait()
    require(model.results - before == n, f"{model.results - before} results of {n}")


def measure(subject: Subject, n: int) -> dict[str, float]:
    """Microseconds a piece of audio, and a call; nothing for a subject that has no realtime agents."""
    driver = subject.driver()
    named = getattr(driver, "REALTIME", None)
    if named is None:
        return {}
    room, library = import_module(named), import_module(named.partition(".")[0])

    @library.function_tool
    async def noop(x: int) -> str:
        return "ok"

    async def measured(work: Any) -> float:
        agent = room.RealtimeAgent(name="bench", instructions="Talk.", tools=[noop])
        model = _model(room)
        runner = room.RealtimeRunner(agent, model=model, config={"tracing_disabled": True})
        session = await runner.run()
        async with session:
            await work(room, session, model, 20)
            return await seconds(asyncio.ensure_future(work(room, session, model, n)))

    async def main() -> dict[str, float]:
        audio = await median_seconds(lambda: measured(_audio))
        calls = await median_seconds(lambda: measured(_calls))
        return {"audio_us": audio / n * 1e6, "call_us": calls / n * 1e6}

    return asyncio.run(main())
