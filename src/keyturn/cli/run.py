"""The command `keyturn run module:app AGENT INPUT` starts a run, and with `--wait` goes on with it until it stops.

Without `--wait` a worker goes on with it. Exit codes with `--wait`: 0 where it finished, 3 where it waits for people or
was not there yet in time, 1 where it failed or was cancelled.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any

from ..app import App
from ..core.errors import UserError
from ..core.policy import milliseconds
from ..journal.rows import Query, RequestRow, RunRow
from ..render.escape import escape, quote
from ..run_handle import RunHandle
from .finding import SHORT
from .with_journal import Told, describe_json, run_with_app

_WAITS = 3


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("app", metavar="MODULE:NAME", help="where the App is")
    parser.add_argument("agent", metavar="AGENT", help="the name of the agent")
    parser.add_argument("input", metavar="INPUT", help="what it is asked")
    parser.add_argument("--wait", action="store_true", help="go on until it is over or waits for people")
    parser.add_argument("--timeout", metavar="DURATION", help="how long to wait: 90s, 5m (default: till it stops)")
    parser.add_argument("--requester", metavar="PERSON", help="for whom it runs")
    parser.add_argument("--session", metavar="ID", help="the session that it goes on with")
    describe_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Start a run, and tell how it stands."""

    async def work(app: App) -> Told:
        seconds = None if arguments.timeout is None else milliseconds(arguments.timeout) / 1000
        if not arguments.wait:
            app.embedded = False
            begun = await _begun(app, arguments)
            row = await begun.get()
            said = [f"run {row.run} is started: keyturn worker {escape(arguments.app)} moves it"]
            return Told(said, {"run": row.run, "status": row.status})
        async with app:
            return await _waited(app, await _begun(app, arguments), seconds)

    return run_with_app(arguments, "run", work)


async def _begun(app: App, arguments: argparse.Namespace) -> RunHandle:
    options: dict[str, Any] = {"requester": arguments.requester, "session_id": arguments.session}
    return await app.start(arguments.agent, arguments.input, **options)


async def _waited(app: App, begun: RunHandle, seconds: float | None) -> Told:
    try:
        row = await begun.wait(seconds)
    except TimeoutError:
        row = await begun.get()
        return Told([f"run {row.run} {row.status}, and goes on"], {"run": row.run, "status": row.status}, _WAITS)
    output: Any = (await begun.result()).final_output if row.status == "finished" else None
    waiting = await app.inbox.list(Query(run=row.run, state="open"))
    codes = {"finished": 0, "waiting": _WAITS}
    data = {"run": row.run, "status": row.status, "error": row.error, "requests": [each.id for each in waiting]}
    rows = list(_rows(row, output, list(waiting)))
    return Told(rows, data | {"output": _plain(output)}, codes.get(row.status, 1))


def _rows(row: RunRow, output: Any, waiting: list[RequestRow]) -> Iterator[str]:
    yield f"run {row.run} {row.status}"
    if row.error:
        yield f"because {escape(row.error, keep='')}"
    for each in waiting:
        yield f"request {each.id[:SHORT]} for {escape(each.tool, keep='')} of {quote(each.agent)}"
    if output is not None:
        for line in _text(output).split("\n"):
            yield f"| {escape(line, keep='')}"


def _text(output: Any) -> str:
    return output if isinstance(output, str) else json.dumps(_plain(output), ensure_ascii=False)


def _plain(output: Any) -> Any:
    """Return a final answer as plain data; what is none is its own text."""
    try:
        return json.loads(json.dumps(output, default=_dumped))
    except (TypeError, ValueError, UserError):
        return str(output)


def _dumped(value: Any) -> Any:
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else str(value)
