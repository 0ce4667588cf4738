"""Decide the demo's calls in this terminal: its inbox, as one of the two people, until you leave it."""

from __future__ import annotations

import shlex
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from ...application.app import App
from ...directory.login import Login
from ...inbox_screen.reading import InboxSeat
from ...inbox_screen.screen import InboxApp
from ..demo_player import Player
from ..demo_voice import DemoVoice
from ..printing import command
from .app import journal_url
from .people import Seated
from .playing import Stay, play_at


def play(directory: Path | None, player: Player, *, once: bool) -> int:
    """Play the demo in the terminal; return the exit code."""
    return play_at(_here, directory, player, once=once)


@asynccontextmanager
async def _here(app: App, voice: DemoVoice) -> AsyncGenerator[Stay]:
    async def stay(seated: Sequence[Seated]) -> None:
        ada, ben = seated[:2]
        voice.say()
        voice.say(
            "The inbox opens as Ada. A refund requires both approvers. Open the inbox of the other one in a "
            "second terminal:"
        )
        voice.screen.show(f"  {command()} inbox --journal {shlex.quote(journal_url())} --token-file {ben.token}")
        await InboxApp(InboxSeat(app.inbox.as_person(Login(ada.id)), ada.id)).run_async()

    yield stay
