"""Decide what waits in the demo where nobody is there, kill its worker in the middle, and show what came of it."""

from __future__ import annotations

import asyncio
from typing import Any, LiteralString

from ...application.app import App
from ...core.errors import Conflict, NotAllowed
from ...directory.login import Login
from ...journal.rows import RequestRow
from ...presenting.asking import MARKS, STATES, agent_words, mark_of
from ...presenting.clock import span
from ...presenting.list_row import LINE, row_text
from ..demo_voice import DemoVoice
from . import tools
from .processes import WorkerProcess

# A worker that is killed while it holds a run keeps it from others for a minute; so it first has time to let go.
_PATIENCE = 100.0
_REST = 1.0
_OVER = ("finished", "failed", "cancelled")


async def decide_once(app: App, worker: WorkerProcess, voice: DemoVoice, people: list[str]) -> None:
    """Decide, kill the worker, decide on, and show what came of each call."""
    ada, ben = (Login(person) for person in people[:2])
    rows = {row.tool: row for row in await app.inbox.list()}
    _show(voice, list(rows.values()), await app.inbox.now())
    voice.rule("decisions, made by the demo itself")
    await asyncio.sleep(_REST)
    killed = await worker.kill()
    voice.note("killed", "kill -9 {}, the worker: no run is executed now, and requests can still be decided", killed)
    voice.say()
    await _decide(app, voice, rows, ada, ben)
    await worker.start()
    voice.say()
    voice.note("worker", "process {} continues the runs", worker.number)
    voice.rule("outcomes")
    await _outcomes(app, voice, rows)
    voice.rule("effects")
    for line in (tools.home() / tools.EFFECTS).read_text(encoding="utf-8").splitlines():
        voice.tell("effect", line)
    await _verify(voice)


def _show(voice: DemoVoice, rows: list[RequestRow], now: int) -> None:
    voice.rule("pending requests")
    for row in rows:
        left = "" if row.expires_at is None else f", {span(row.expires_at - now)} left"
        voice.tell("pending", f"{MARKS[mark_of(row)][0]} {agent_words(row.request.path, row.agent)}: {row.tool}{left}")
        voice.tell("", row_text(row.request).within(LINE))


async def _decide(app: App, voice: DemoVoice, rows: dict[str, RequestRow], ada: Login, ben: Login) -> None:
    inbox = app.inbox
    said = await inbox.approve(rows["refund"], by=ada)
    voice.tell("ada", f"approves refund: {len(said.request.votes)} of 2")
    await inbox.approve(rows["refund"], by=ben)
    voice.tell("ben", "approves refund: 2 of 2")
    await inbox.reject(rows["run_shell"], by=ada, message="Never force main. Open a pull request.")
    voice.tell("ada", "rejects run_shell: Never force main. Open a pull request.")
    await _refused(voice, "ben", "approves run_shell", lambda: inbox.approve(rows["run_shell"], by=ben))
    await _refused(voice, "ben", "approves migrate", lambda: inbox.approve(rows["migrate"], by=ben))
    edit = {"file": tools.CONFIG, "old": "workers = 2", "new": "workers = 4"}
    await inbox.approve(rows["apply_patch"], by=ada, edit=edit)
    voice.tell("ada", "approves apply_patch, with 4 workers")
    await inbox.approve(rows["export_customers"], by=ben)
    voice.tell("ben", "approves export_customers, requested by a nested agent")
    await inbox.answer(rows["ask_user"], "Hamburg", by=ada)
    voice.tell("ada", "answers ask_user: Hamburg")
    await inbox.resolve(rows["charge_card"], "ran", "the card was charged once; the bank says so", by=ada)
    voice.tell("ada", "resolves charge_card: it ran")
    await _refused(voice, "ada", "approves wire_money unsigned", lambda: inbox.approve(rows["wire_money"], by=ada))


async def _refused(voice: DemoVoice, who: LiteralString, what: LiteralString, tries: Any) -> None:
    try:
        await tries()
    except (Conflict, NotAllowed) as error:
        voice.tell(who, what)
        voice.tell("refused", error.message)


async def _outcomes(app: App, voice: DemoVoice, rows: dict[str, RequestRow]) -> None:
    decided = ("refund", "run_shell", "apply_patch", "export_customers", "ask_user", "charge_card")
    async with asyncio.timeout(_PATIENCE):
        for tool in decided:
            row = rows[tool]
            run = await app.wait(row.run)
            while run.status not in _OVER:
                await asyncio.sleep(0.05)
                run = await app.wait(row.run)
            now = await app.inbox.get(row.id)
            voice.tell("over", f"{row.agent.rsplit('/', 1)[-1]}: {tool} was {STATES.get(now.state, now.state)}")
            voice.tell("", str((await app.run(row.run).result()).final_output))
    left = await app.inbox.list()
    voice.tell("pending", ", ".join(row.tool for row in left))


async def _verify(voice: DemoVoice) -> None:
    rows = (tools.home() / tools.EFFECTS).read_text(encoding="utf-8").splitlines()
    effects = [row.partition(",")[0] for row in rows]
    voice.say()
    if len(set(effects)) == len(effects):
        voice.note("finished", "{} effects, each of them once", len(effects))
    else:
        voice.note("finished", "an effect happened twice: this is a bug")
        raise SystemExit(1)
