"""The command `keyturn`: a table of subcommands, each imported when it is used.

A command's file has `describe(parser)`, which adds its arguments, and `run(arguments)`, which returns an exit code.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Protocol, cast

from .._version import __version__

COMMANDS: dict[str, str] = {
    "answer": "give what a tool asks for: keyturn answer REQUEST TEXT",
    "approve": "let a call run, exactly as it was shown, or all like it with --alike: keyturn approve REQUEST",
    "ask-back": "ask the agent about a call, which does not run: keyturn ask-back REQUEST QUESTION",
    "audit": "sign checkpoints, verify, search and export the record: keyturn audit verify URL",
    "cancel": "cancel a run: keyturn cancel RUN --why TEXT",
    "chat": "talk with an assistant in the terminal, whose calls wait for you",
    "check": "read a journal and say whether it kept the promises",
    "completion": "print a script that completes these words in a shell: keyturn completion bash",
    "copy": "copy a journal: keyturn copy sqlite:///keyturn.db postgresql://...",
    "demo": "serve an office whose agents wait for you, or decide its calls in the terminal",
    "doctor": "look for what is wrong with a journal and this machine, with the remedy of each",
    "edit": "let a call run with other arguments: keyturn edit REQUEST --set name=value --app module:app",
    "erase": "forget what old runs said: keyturn erase sqlite:///keyturn.db --older-than 90d",
    "fork": "start a new run from the first lines of another: keyturn fork RUN --at N --app module:app",
    "grant": "let a call run, and later ones like it: keyturn grant REQUEST --uses 10",
    "grants": "list standing decisions",
    "inbox": "decide what waits, in the terminal: keyturn inbox --journal URL --as PERSON",
    "init": "make a journal with its first person, who administers it: keyturn init --journal URL",
    "insights": "tell how people decide, and suggest rules: keyturn insights --journal URL [--suggest]",
    "keys": "list the keys that sign and seal, add a new one, retire an old one: keyturn keys rotate",
    "let-go": "say that you are not on a request any more: keyturn let-go REQUEST",
    "migrate": "rewrite imports of openai-agents, and list what differs: keyturn migrate PATH",
    "outbox": "list messages that could not be delivered, and send them again: keyturn outbox sqlite:///keyturn.db",
    "people": "list and change who may decide what: keyturn people add bob --role finance",
    "policy": "check a policy, try it on past calls: keyturn policy test FILE --journal URL",
    "reject": "reject a call: keyturn reject REQUEST --message TEXT",
    "requests": "list what waits for people",
    "resolve": "say what became of a call in doubt: keyturn resolve REQUEST ran",
    "resume": "resume a run that failed or was set aside: keyturn resume RUN",
    "restored": "put in doubt what a store lets run that was brought back from a copy: keyturn restored URL",
    "review": "say of a call that was let run whether that was right: keyturn review REQUEST wrong --note TEXT",
    "revoke": "revoke a standing decision: keyturn revoke GRANT",
    "run": "start a run: keyturn run module:app AGENT INPUT",
    "runs": "list runs, and say why one stopped: keyturn runs sqlite:///keyturn.db [RUN]",
    "send": "tell a run something, which its model reads at its next turn: keyturn send RUN TEXT",
    "serve": "serve the pages and the API of an app, and move its runs: keyturn serve module:app",
    "show": "show a request whole: keyturn show REQUEST",
    "snooze": "put a request off, for yourself alone: keyturn snooze REQUEST --lasts 2h",
    "tail": "tell what happened in a run, and what happens: keyturn tail RUN --follow",
    "take": "say that you are on a request, so that others leave it to you: keyturn take REQUEST",
    "takeover": "take over a paused state that openai-agents saved",
    "wake": "have a request back that you put off: keyturn wake REQUEST",
    "withdraw": "take an approval back before its call is started: keyturn withdraw REQUEST",
    "worker": "move an app's runs: keyturn worker module:app",
}
_DECIDING = ("answer", "approve", "ask-back", "edit", "grant", "reject", "resolve", "review")
_MARKING = ("let-go", "snooze", "take", "wake", "withdraw")


class CommandModule(Protocol):
    """Describes what a command's file has."""

    def describe(self, parser: argparse.ArgumentParser, /) -> None:
        """Add the arguments of this command."""
        ...

    def run(self, arguments: argparse.Namespace, /) -> int:
        """Do it, and return the exit code."""
        ...


def command_named(name: str) -> CommandModule:
    """Import a command: a file of its own, or a row of a table: of those that decide, and of those that mark."""
    if name in _DECIDING:
        return import_module(".deciding.verbs", __package__).DECIDING[name]
    if name in _MARKING:
        return import_module(".deciding.marking", __package__).MARKING[name]
    return cast("CommandModule", import_module(f".{name}", __package__))


def parser_of(name: str) -> argparse.ArgumentParser:
    """Return the parser of a command."""
    parser = argparse.ArgumentParser(prog=f"keyturn {name}", description=COMMANDS[name])
    command_named(name).describe(parser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code."""
    given = _parser().parse_args(argv)
    if given.command is None:
        _parser().print_help()
        return 0
    arguments = parser_of(given.command).parse_args(given.rest)
    try:
        code = int(command_named(given.command).run(arguments))
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Whoever read our output is gone (`| head`): nothing is left to say, not even at exit, where Python flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _parser() -> argparse.ArgumentParser:
    width = max(map(len, COMMANDS))
    listed = "\n".join(f"  {name:{width}}  {what}" for name, what in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="keyturn",
        usage="keyturn COMMAND ...",
        description="Agents whose tool calls wait for people.",
        epilog=f"commands:\n{listed}\n\n`keyturn COMMAND --help` says more about one.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"keyturn {__version__}")
    parser.add_argument("command", nargs="?", choices=list(COMMANDS), help=argparse.SUPPRESS)
    parser.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
