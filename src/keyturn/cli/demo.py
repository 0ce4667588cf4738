"""The command `keyturn demo` serves an office whose agents wait for people; or, in the terminal, plays one that dies.

What is served is in `office/`. Of the other one this file starts the two processes; what happens in them is in
`demo_stages`, and with `--stage` this command is one of them.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ..console.screen import Terminal
from ..core.errors import KeyturnError, UserError
from ..tools.base import Tool
from .demo_agent import demo_agent
from .demo_player import Player
from .demo_stages import LEFT, Stage
from .demo_voice import DemoVoice
from .printing import command, print_labelled


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("--terminal", action="store_true", help="no server: one agent and you, in this terminal")
    parser.add_argument(
        "--once", action="store_true", help="decide by itself, show what came of it, and end (DEMO_ONCE=1)"
    )
    parser.add_argument(
        "--resume", metavar="PATH", type=Path, help="in the terminal: go on with a run that you left, from its file"
    )
    parser.add_argument("--dir", metavar="DIR", type=Path, help="keep the demo's files in this directory")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--model", metavar="NAME", help="let this model play, such as anthropic:claude-sonnet-5")
    which.add_argument("--scripted", action="store_true", help="let the scripted model play, whatever keys are set")
    parser.add_argument("--play", action="store_true", help="in the terminal: let a fixed script decide")
    parser.add_argument("--stage", choices=("first", "second"), help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    """Play the demo; return the exit code."""
    played = arguments.play or not sys.stdin.isatty()
    player = Player.chosen(arguments.model, scripted=arguments.scripted)
    try:
        if not (arguments.terminal or arguments.resume or arguments.stage or arguments.play):
            return _served(arguments, player)
        if arguments.stage == "first":
            return asyncio.run(Stage.at(arguments.resume, player, played=played).first())
        if arguments.resume is not None:
            named = player if arguments.model or arguments.scripted else None
            code = _resume(arguments.resume, named, played=played)
            return code if arguments.stage else _left_is_well(code)
        return _supervise(arguments.dir, player, played=played)
    except KeyturnError as error:
        print_labelled("keyturn demo", str(error))
        return 1


def _served(arguments: argparse.Namespace, player: Player) -> int:
    try:
        from .office.serving import play
    except ImportError as error:
        raise UserError(
            f"the demo serves pages, which need packages of their own ({error.name}): pip install 'keyturn[server]', "
            f"or see the one in the terminal: {command()} demo --terminal"
        ) from None
    once = arguments.once or bool(os.environ.get("DEMO_ONCE")) or not sys.stdin.isatty()
    return play(arguments.dir, player, once=once)


def _supervise(directory: Path | None, player: Player, *, played: bool) -> int:
    player.model()  # what is missing is said before anything is made
    voice = DemoVoice(Terminal.here())
    home = Path(tempfile.mkdtemp(prefix="keyturn-demo-")) if directory is None else directory
    home.mkdir(parents=True, exist_ok=True)
    if any(home.iterdir()):
        raise UserError(f"{shlex.quote(str(home))} is not empty: name a new directory for the demo's files")
    state_file = home.resolve() / "run.json"
    _introduce(voice, state_file, player, played)
    # A Ctrl-C in the terminal reaches the stage as well, and the stage is the one to answer it.
    signal.signal(signal.SIGINT, lambda _signal, _frame: None)
    code = _stage("first", state_file, played, player.flags)
    if code >= 0:
        if directory is None and code != LEFT:
            shutil.rmtree(home)
        return _left_is_well(code)
    voice.note("", "The process is gone, by signal {}. The file is all that is left of the run.", -code)
    code = _stage("second", state_file, played)
    if code == 0 and directory is None:
        shutil.rmtree(home)
    return _left_is_well(code)


def _introduce(voice: DemoVoice, state_file: Path, player: Player, played: bool) -> None:
    agent = demo_agent(player.model())
    asking = [tool.name for tool in agent.tools if isinstance(tool, Tool) and tool.needs_approval]
    voice.screen.say()
    voice.screen.stress("Keyturn: the model turns one key, a person turns the other.")
    voice.say()
    voice.tell("agent", f"{agent.name}, with {len(agent.tools)} tools; these wait for a person: {', '.join(asking)}")
    voice.tell("model", player.sentence())
    voice.tell("world", str(state_file.with_name("world.json")))
    if played:
        voice.note("person", "a fixed script types; in a terminal, you do")


def _stage(name: str, state_file: Path, played: bool, flags: Sequence[str] = ()) -> int:
    """Run one process of the demo; return its exit code, or minus the signal that ended it."""
    sys.stdout.flush()
    # -P: what lies in the working directory is not to be imported.
    stage = [sys.executable, "-P", "-m", "keyturn.cli.main", "demo", "--resume", str(state_file), "--stage", name]
    return subprocess.run([*stage, *flags, *(["--play"] if played else [])], check=False).returncode


def _resume(state_file: Path, player: Player | None, *, played: bool) -> int:
    if not state_file.is_file():
        raise UserError(f"there is no run in {shlex.quote(str(state_file))}: give the file that the demo named")
    return asyncio.run(Stage.at(state_file.resolve(), player, played=played).second())


def _left_is_well(code: int) -> int:
    """Return 0 where the person left: that is no failure."""
    return 0 if code == LEFT else code
