"""Play the demo: a journal in a folder of its own, a worker process, two people, and agents that keep asking.

Where people decide is its caller's: on pages (`serving`) or in the terminal (`in_terminal`). It stays for as long as
they do. With nobody there it decides by itself, shows what came of it, and ends (`once`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from ...agents.agent import Agent
from ...application.app import App
from ...console.screen import Terminal
from ...core.errors import KeyturnError, UserError
from ...engine.runner import Runner
from ...journal.rows import Query
from ..demo_player import Player
from ..demo_voice import DemoVoice
from . import agents, tools
from .app import MODEL, journal_url, made
from .once import decide_once
from .people import Seated, seat_people
from .processes import WorkerProcess

_ENOUGH = 7  # that wait: more come up only when there are fewer
_EVERY = 20.0  # seconds
_PATIENCE = 60.0

#: Returns once people are done with deciding.
Stay = Callable[[Sequence[Seated]], Awaitable[None]]
#: Opens where people decide, after it has said where that is.
Place = Callable[[App, DemoVoice], AbstractAsyncContextManager[Stay]]


def play_at(place: Place, directory: Path | None, player: Player, *, once: bool) -> int:
    """Play the demo in a folder of its own; return the exit code."""
    player.model()  # what is missing is said before anything is made
    home = Path(tempfile.mkdtemp(prefix="keyturn-demo-")) if directory is None else directory
    home.mkdir(parents=True, exist_ok=True)
    if any(home.iterdir()):
        raise UserError(f"{shlex.quote(str(home))} is not empty: name a new directory for the demo's files")
    os.environ |= {tools.HOME: str(home.resolve()), MODEL: player.name}
    (home / tools.CONFIG).write_text(tools.AT_FIRST, encoding="utf-8")
    try:
        asyncio.run(_play(place, home.resolve(), player, once=once))
        return 0
    finally:
        if directory is None:
            shutil.rmtree(home, ignore_errors=True)


async def _play(place: Place, home: Path, player: Player, *, once: bool) -> None:
    voice = DemoVoice(Terminal.here())
    await _answers(player)
    app, worker = made(worker=False), WorkerProcess(home)
    seated = await seat_people(app, home)
    voice.screen.say()
    voice.screen.stress("Keyturn: the model turns one key, a person turns the other.")
    voice.say()
    voice.tell("model", player.sentence())
    voice.tell("journal", journal_url())
    async with place(app, voice) as stay:
        try:
            await worker.start()
            voice.note("worker", "process {}", worker.number)
            await _begin(app, worker, voice)
            if once:
                await decide_once(app, worker, voice, [each.id for each in seated])
                return
            await _stay(app, asyncio.ensure_future(stay(seated)))
        finally:
            await worker.stop()


async def _answers(player: Player) -> None:
    """Ask a provider's model one thing: a wrong key is said at once, and not by each run that fails."""
    if not player.is_real:
        return
    try:
        await Runner.run(Agent("demo", model=player.model()), "Say: ready.", max_turns=1)
    except KeyturnError:
        raise
    except Exception as error:
        told = player.trouble(error)
        if told is None:
            raise
        raise UserError(told) from error


async def _begin(app: App, worker: WorkerProcess, voice: DemoVoice) -> None:
    """Start what is to wait; of one call nobody will know whether it happened."""
    cut = asyncio.ensure_future(app.wait(await _ask(app, agents.CUT_SHORT), _PATIENCE))
    marked = tools.home() / tools.CHARGING
    while not marked.exists() and not cut.done():  # a provider's model may do something else
        await asyncio.sleep(0.05)
    cut.cancel()
    if marked.exists():
        await worker.cut_short()
        await worker.start()
        voice.note("worker", "was stopped while it charged a card; process {} continues", worker.number)
    runs = [await _ask(app, story) for story in agents.STORIES]
    for run in runs:
        await app.wait(run, _PATIENCE)
    waiting = await app.inbox.list()
    voice.note("waiting", "{} calls, of {} agents", len(waiting), len({row.run for row in waiting}))


async def _ask(app: App, story: agents.OfficeStory) -> str:
    return (await app.start(story.agent, story.task, requester=story.requester)).id


async def _stay(app: App, staying: asyncio.Future[None]) -> None:
    """Have more come up as long as somebody is there."""
    stories = agents.later_stories()
    while not staying.done():
        await asyncio.wait({staying}, timeout=_EVERY)
        with contextlib.suppress(KeyturnError):
            if not staying.done() and len(await app.inbox.list(Query(state="open", limit=_ENOUGH))) < _ENOUGH:
                await _ask(app, next(stories))
    await staying
