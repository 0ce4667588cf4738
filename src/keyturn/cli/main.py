"""The command `keyturn`: a table of subcommands, each imported when it is used.

A command's file has `describe(parser)`, which adds its arguments, and `run(arguments)`, which returns an exit code.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from .._version import __version__

COMMANDS: dict[str, str] = {
    "audit": "sign checkpoints, verify, search and export the record: keyturn audit verify URL",
    "chat": "talk with an assistant in the terminal, whose calls wait for you",
    "check": "read a journal and say whether it kept the promises",
    "copy": "copy a journal: keyturn copy sqlite:///keyturn.db postgresql://...",
    "demo": "watch an agent wait for you, die, and go on in a new process",
    "erase": "forget what old runs said: keyturn erase sqlite:///keyturn.db --older-than 90d",
    "init": "make a journal with its first person, who administers it: keyturn init --journal URL",
    "keys": "list the keys that sign and seal, add a new one, retire an old one: keyturn keys rotate",
    "migrate": "rewrite imports of openai-agents, and list what differs: keyturn migrate PATH",
    "people": "list and change who may decide what: keyturn people add bob --role finance",
    "outbox": "list messages that could not be delivered, and send them again: keyturn outbox sqlite:///keyturn.db",
    "policy": "check a policy, try it on past calls: keyturn policy test FILE --journal URL",
    "restored": "put in doubt what a store lets run that was brought back from a copy: keyturn restored URL",
    "runs": "list runs, and say why one stopped: keyturn runs sqlite:///keyturn.db [RUN]",
    "takeover": "take over a paused state that openai-agents saved",
    "worker": "move an app's runs: keyturn worker module:app",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code."""
    given = _parser().parse_args(argv)
    if given.command is None:
        _parser().print_help()
        return 0
    command = import_module(f".{given.command}", __package__)
    parser = argparse.ArgumentParser(prog=f"keyturn {given.command}", description=COMMANDS[given.command])
    command.describe(parser)
    arguments = parser.parse_args(given.rest)
    try:
        code = int(command.run(arguments))
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
