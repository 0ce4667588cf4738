"""Serve the demo's pages: two people come in by links and decide, until the server is told to end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import socket
import sys
import webbrowser
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

from ...application.app import App
from ...core.errors import UserError
from ...server.asgi import serve
from ...server.running import ListeningAddress, Running
from ...server.settings import ServerSettings
from ..demo_player import Player
from ..demo_voice import DemoVoice
from ..printing import command
from .app import journal_url
from .people import Seated
from .playing import Stay, play_at

_PORT = 8321


def play(directory: Path | None, player: Player, *, once: bool) -> int:
    """Play the demo with a server; return the exit code."""
    return play_at(_served, directory, player, once=once)


@contextlib.asynccontextmanager
async def _served(app: App, voice: DemoVoice) -> AsyncGenerator[Stay]:
    with _listening() as listening:
        address = ListeningAddress(port=listening.getsockname()[1])
        voice.tell("server", f"{address.url}/ in process {os.getpid()}")
        server = Running(serve(app, ServerSettings(hosts=address.known_hosts)), address, grace=2.0, told=_ending)
        serving = asyncio.ensure_future(server.serve([listening]))

        async def stay(seated: Sequence[Seated]) -> None:
            _invite(voice, address, seated)
            await asyncio.wait({serving})

        try:
            yield stay
        finally:
            server.stop()
            await serving


def _listening() -> socket.socket:
    try:
        return ListeningAddress(port=_PORT).bound()
    except UserError:  # another one is there: any port that is free will do
        return ListeningAddress(port=0).bound()


def _ending() -> None:
    """Say nothing: the demo says itself that it ends."""


def _invite(voice: DemoVoice, address: ListeningAddress, seated: Sequence[Seated]) -> None:
    """Say how people come in."""
    there = sys.stdin.isatty() and sys.stdout.isatty()
    links = [f"{address.url}/enter#{each.link}" for each in seated]
    voice.say()
    voice.screen.stress("Sign in as one of two approvers. Each link works once.")
    for each, link in zip(seated, links, strict=True):
        voice.say()
        voice.tell(each.id if each.id in ("ada", "ben") else "person", each.roles)
        voice.screen.show(f"  {link}")
    voice.say()
    voice.say("Or in a second terminal:")
    voice.screen.show(f"  {command()} inbox --journal {shlex.quote(journal_url())} --token-file {seated[0].token}")
    voice.say()
    voice.say("Refunds require both of them. New requests follow. Press Ctrl-C to stop.")
    sys.stdout.flush()
    if there and _has_browser():
        with contextlib.suppress(webbrowser.Error):
            webbrowser.open(links[0])


def _has_browser() -> bool:
    return sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
