"""Serve the demo: a journal in a folder of its own, a worker process, two people, and agents that keep asking.

It stays until it is told to stop. With nobody there it decides by itself, shows what came of it, and ends (`once`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import shutil
import socket
import sys
import tempfile
import webbrowser
from collections.abc import Sequence
from pathlib import Path

from ...application.app import App
from ...console.screen import Terminal
from ...core.errors import KeyturnError, UserError
from ...journal.rows import Query
from ...server.asgi import serve
from ...server.identity.first_run import drawn
from ...server.running import ListeningAddress, Running
from ...server.settings import ServerSettings
from ..demo_player import Player
from ..demo_voice import DemoVoice
from ..printing import command
from . import agents, tools
from .app import MODEL, journal_url, made
from .once import decide_once
from .people import Seated, seat_people
from .processes import WorkerProcess

_PORT = 8321
_ENOUGH = 7  # that wait: more come up only when there are fewer
_EVERY = 20.0  # seconds
_PATIENCE = 60.0


def play(directory: Path | None, player: Player, *, once: bool) -> int:
    """Play the demo in a folder of its own; return the exit code."""
    player.model()  # what is missing is said before anything is made
    home = Path(tempfile.mkdtemp(prefix="keyturn-demo-")) if directory is None else directory
    home.mkdir(parents=True, exist_ok=True)
    if any(home.iterdir()):
        raise UserError(f"{shlex.quote(str(home))} is not empty: name a new directory for the demo's files")
    os.environ |= {tools.HOME: str(home.resolve()), MODEL: player.name}
    (home / tools.CONFIG).write_text(tools.AT_FIRST, encoding="utf-8")
    try:
        return asyncio.run(_play(home.resolve(), player, once=once))
    finally:
        if directory is None:
            shutil.rmtree(home, ignore_errors=True)


async def _play(home: Path, player: Player, *, once: bool) -> int:
    voice = DemoVoice(Terminal.here())
    app, worker = made(worker=False), WorkerProcess(home)
    seated = await seat_people(app, home)
    with _listening() as listening:
        address = ListeningAddress(port=listening.getsockname()[1])
        _introduce(voice, player, address)
        server = Running(serve(app, ServerSettings(hosts=address.known_hosts)), address, grace=2.0, told=_ending)
        serving = asyncio.ensure_future(server.serve([listening]))
        try:
            await worker.start()
            voice.note("worker", "process {}", worker.number)
            await _begin(app, worker, voice)
            if once:
                await decide_once(app, worker, voice, [each.id for each in seated])
                return 0
            _invite(voice, address, seated)
            return await _stay(app, serving)
        finally:
            server.stop()
            await worker.stop()
            await serving


@contextlib.contextmanager
def _listening():
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind(("127.0.0.1", _PORT))
    except OSError:  # another one is there: any port that is free will do
        made.bind(("127.0.0.1", 0))
    with made:
        yield made


def _ending() -> None:
    """Say nothing: the demo says itself that it ends."""


def _introduce(voice: DemoVoice, player: Player, address: ListeningAddress) -> None:
    voice.screen.say()
    voice.screen.stress("Keyturn: the model turns one key, a person turns the other.")
    voice.say()
    voice.tell("model", player.sentence())
    voice.tell("journal", journal_url())
    voice.tell("server", f"{address.url}/ in process {os.getpid()}")


async def _begin(app: App, worker: WorkerProcess, voice: DemoVoice) -> None:
    """Start what is to wait; of one call nobody will know whether it happened."""
    await _ask(app, agents.CUT_SHORT)
    marked = tools.home() / tools.CHARGING
    async with asyncio.timeout(_PATIENCE):
        while not marked.exists():
            await asyncio.sleep(0.05)
    await worker.cut_short()
    await worker.start()
    voice.note("worker", "was stopped while it charged a card; process {} goes on", worker.number)
    runs = [await _ask(app, story) for story in agents.STORIES]
    for run in runs:
        await app.wait(run, _PATIENCE)
    waiting = await app.inbox.list()
    voice.note("waiting", "{} calls, of {} agents", len(waiting), len({row.run for row in waiting}))


async def _ask(app: App, story: agents.OfficeStory) -> str:
    return (await app.start(story.agent, story.task, requester=story.requester)).id


def _invite(voice: DemoVoice, address: ListeningAddress, seated: Sequence[Seated]) -> None:
    """Say how people come in."""
    there = sys.stdin.isatty() and sys.stdout.isatty()
    links = [f"{address.url}/enter#{each.link}" for each in seated]
    voice.say()
    voice.screen.stress("Come in as one of two people. Each link works once.")
    for each, link in zip(seated, links, strict=True):
        voice.say()
        voice.tell(each.id if each.id in ("ada", "ben") else "person", each.roles)
        voice.screen.show(f"  {link}")
    if there:
        voice.screen.show(drawn(links[0]))
    voice.say()
    voice.say("Or in a second terminal:")
    voice.screen.show(f"  {command()} inbox --journal {shlex.quote(journal_url())} --token-file {seated[0].token}")
    voice.say()
    voice.say("Refunds take both of them. More calls come up as you decide. Ctrl-C ends it.")
    sys.stdout.flush()
    if there and _has_browser():
        with contextlib.suppress(webbrowser.Error):
            webbrowser.open(links[0])


def _has_browser() -> bool:
    return sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


async def _stay(app: App, serving: asyncio.Task[None]) -> int:
    """Have more come up as long as somebody is there, until the server is told to end."""
    stories = agents.later_stories()
    while not serving.done():
        await asyncio.wait({serving}, timeout=_EVERY)
        with contextlib.suppress(KeyturnError):
            if not serving.done() and len(await app.inbox.list(Query(state="open", limit=_ENOUGH))) < _ENOUGH:
                await _ask(app, next(stories))
    return 0
