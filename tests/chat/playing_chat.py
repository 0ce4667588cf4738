"""Play the terminal assistant: a screen that nobody sees, a model that says what it is told, and keys that are pressed.

No test is here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textual.events import Paste
from textual.pilot import Pilot

from keyturn import LocalExecutor
from keyturn.chat.archive import Talk
from keyturn.chat.assistant import assistant_agent
from keyturn.chat.conversation import Assistant
from keyturn.chat.screen import ChatApp
from keyturn.deep import FilesystemBackend
from keyturn.journal import open_journal
from keyturn.screens.drawing import ours
from keyturn.sessions.sqlite import SQLiteSession
from keyturn.testing import ScriptedModel, function_call
from tests.screens import drawn
from tests.waiting import until


@dataclass
class Chat:
    """One screen, and who presses its keys."""

    app: ChatApp
    pilot: Pilot[Any]
    model: ScriptedModel
    root: Path

    @property
    def talk(self) -> Any:
        return self.app.conversation

    async def press(self, *keys: str) -> None:
        await until(lambda: drawn(self.app.screen))
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def type(self, text: str) -> None:
        """Enter a text: all but its last letter at once, as a terminal pastes it."""
        if text[:-1]:
            self.app.post_message(Paste(text[:-1]))
            await self.pilot.pause()
        await self.pilot.press(text[-1])

    async def say(self, text: str) -> None:
        await self.type(text)
        await self.press("enter")
        await self.rest()

    async def until(self, reached: Callable[[], Any]) -> None:
        try:
            await until(reached, every=0.02)  # to read a screen takes a while
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.text()}") from None
        await self.pilot.pause()

    async def rest(self) -> None:
        """Wait until nothing goes on by itself."""
        await self.pilot.pause(0.1)
        await self.until(lambda: self.asks or not (self.talk.at_work or len(self.app.workers)))
        self.app.draw()
        await self.pilot.pause(0.05)

    @property
    def asks(self) -> bool:
        """Whether a dialog stands over the conversation."""
        return len(self.app.screen_stack) > 1

    async def decide(self, *keys: str) -> None:
        """See all of the call, and press keys."""
        await self.seen()
        await self.press(*keys)
        await self.rest()

    async def seen(self) -> None:
        """Look at all of the call that waits."""
        view: Any = self.app.query_one("#request")
        view.take_focus()
        for _ in range(60):
            await self.pilot.pause()
            if view.request is None or view.request.seen_whole:
                return
            await self.pilot.press("s")

    def rows(self) -> list[str]:
        strips = self.app.screen._compositor.render_strips()
        return ["".join(segment.text for segment in strip) for strip in strips]

    def text(self) -> str:
        return "\n".join(row.rstrip() for row in self.rows())


@asynccontextmanager
async def chat(
    root: Path,
    *steps: Any,
    size: tuple[int, int] = (100, 50),
    url: str = "",
    talk: Talk | None = None,
    model: ScriptedModel | None = None,
) -> AsyncIterator[Chat]:
    """Open the assistant on a folder; its model says these things."""
    made = model or ScriptedModel(list(steps))
    store: Any = open_journal(url or f"sqlite:///{root.parent / 'journal.db'}")
    try:
        app = ChatApp(assistant(made, store, root), lambda width: ours("quiet", "for tests", width), talk)
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            yield Chat(app, pilot, made, root)
    finally:
        if hasattr(store, "close"):
            await store.close()


def assistant(model: Any, store: Any, root: Path) -> Assistant:
    backend = FilesystemBackend(root, shell=LocalExecutor(str(root)))
    sessions = root.parent / "sessions.db"
    return Assistant(
        assistant_agent(model, backend),
        store,
        lambda talk: SQLiteSession(talk, sessions),
        "ada",
        trouble=lambda error: None,
    )


def writes(path: str, content: str = "x\n") -> Any:
    return function_call("write_file", {"path": path, "content": content})


def runs(command: str) -> Any:
    return function_call("execute", {"command": command})


def told(model: ScriptedModel) -> list[str]:
    """What the last request told of results."""
    return [str(item["output"]) for item in model.calls[-1].input if "output" in item]
