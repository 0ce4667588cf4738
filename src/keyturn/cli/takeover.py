"""The command `keyturn takeover FILE` takes a paused state of openai-agents over, into an app or as a state of ours."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from ..agents.agent import Agent
from ..application.app import App
from ..core.errors import KeyturnError, UserError
from ..engine.states.state import RunState
from ..journal.sql_journal import SQLJournal
from .loading import found
from .printing import print_labelled

_NAME = "keyturn takeover"


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("file", type=Path, metavar="FILE", help="the state as openai-agents saved it, as JSON")
    parser.add_argument("--agent", required=True, metavar="AGENT", help="module:agent, or with --app the agent's name")
    parser.add_argument("--app", metavar="APP", help="module:app, whose journal is to keep the run")
    parser.add_argument("--session", metavar="ID", help="with --app, the id of the run's session")
    parser.add_argument("--requester", metavar="USER", help="with --app, the user that the run is for")
    parser.add_argument("--output", type=Path, metavar="FILE", help="the file for the state (default: stdout)")
    parser.add_argument("--trust", action="store_true", help="trust the file to be as your program saved it")


def run(arguments: argparse.Namespace) -> int:
    """Take a state over; print the run's id, or the state."""
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            text = asyncio.run(_taken(arguments))
    except (KeyturnError, OSError, UnicodeDecodeError) as error:
        print_labelled(_NAME, f"{arguments.file}: {error}")
        return 1
    for warning in told:
        print_labelled(_NAME, str(warning.message))
    if arguments.output is not None and arguments.app is None:
        _save(arguments.output, text)
    else:
        print(text)
    return 0


async def _taken(arguments: argparse.Namespace) -> str:
    data = arguments.file.read_text(encoding="utf-8")
    if arguments.app is not None:
        return await _kept(found(arguments.app), data, arguments)
    state = await RunState.from_openai_agents(_agent(arguments.agent), data, trust=arguments.trust)
    return state.to_string()


async def _kept(app: App, data: str, arguments: argparse.Namespace) -> str:
    """Take a state over into an app's journal; its workers go on with the run, and not this command."""
    app = App([*app.agents.values()], app.journal, worker=False)
    try:
        run = await app.take_over(
            arguments.agent,
            data,
            trust=arguments.trust,
            session_id=arguments.session,
            requester=arguments.requester,
        )
    finally:
        if isinstance(app.journal, SQLJournal):
            await app.journal.close()
    return run.id


def _agent(where: str) -> Agent[Any]:
    module, _, name = where.partition(":")
    sys.path.insert(0, str(Path.cwd()))  # as `python -m` does: the module is the user's own
    try:
        agent: Any = getattr(import_module(module), name or "agent")
    except (ImportError, AttributeError, ValueError) as error:
        raise UserError(f"there is no agent at {where!r}: {error}") from None
    if not isinstance(agent, Agent):
        raise UserError(f"{where!r} is a {type(agent).__name__}; name a keyturn.Agent")
    return cast("Agent[Any]", agent)


def _save(path: Path, text: str) -> None:
    """Write a state, which holds what a run said, for its owner to read."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
