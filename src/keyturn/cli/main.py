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

#: The commands by group, in the order of `keyturn --help`: a summary, and after a colon an example.
GROUPS: dict[str, dict[str, str]] = {
    "Decide": {
        "inbox": "open the terminal inbox: keyturn inbox --journal URL --as USER",
        "requests": "list pending requests: keyturn requests --mine",
        "show": "show a request in full: keyturn show REQUEST",
        "approve": "approve a request, or every identical one with --alike: keyturn approve REQUEST",
        "reject": "reject a request: keyturn reject REQUEST --message TEXT",
        "edit": "approve a request with edited arguments: keyturn edit REQUEST --set name=value --app module:app",
        "answer": "answer an agent's question: keyturn answer REQUEST TEXT",
        "ask": "ask the agent about a request before you decide: keyturn ask REQUEST QUESTION",
        "resolve": "resolve a call whose outcome is unknown: keyturn resolve REQUEST ran",
        "review": "review a call that ran without approval: keyturn review REQUEST wrong --note TEXT",
        "withdraw": "withdraw your vote, or an approval before the call starts: keyturn withdraw REQUEST",
        "claim": "claim a request, so that other approvers leave it to you: keyturn claim REQUEST",
        "release": "release a request that you claimed: keyturn release REQUEST",
        "snooze": "hide a request from your own list for a while: keyturn snooze REQUEST --lasts 2h",
        "unsnooze": "show a snoozed request again: keyturn unsnooze REQUEST",
        "grant": "approve a request and similar future calls: keyturn grant REQUEST --uses 10",
        "grants": "list grants (standing approvals): keyturn grants --all",
        "revoke": "revoke a grant: keyturn revoke GRANT",
    },
    "Run": {
        "run": "start a run: keyturn run module:app AGENT INPUT",
        "runs": "list runs, or show why one stopped: keyturn runs sqlite:///keyturn.db [RUN]",
        "tail": "show a run's events; --follow keeps watching: keyturn tail RUN --follow",
        "send": "send a message to a run, for the model's next turn: keyturn send RUN TEXT",
        "cancel": "cancel a run: keyturn cancel RUN --why TEXT",
        "resume": "resume a run that failed or was set aside: keyturn resume RUN",
        "fork": "start a new run from the first lines of another: keyturn fork RUN --at N --app module:app",
        "worker": "run a worker, which executes an app's runs: keyturn worker module:app",
        "serve": "run the server (web inbox, API and a worker): keyturn serve module:app",
        "chat": "chat with an assistant in the terminal, and approve its calls",
        "demo": "run a demo: a server with example agents and pending requests",
    },
    "Administer": {
        "init": "create a journal and its first administrator: keyturn init --journal URL",
        "users": "manage users, roles, groups, tokens and keys: keyturn users add bob --role finance",
        "policy": "check an approval policy, and test it on past calls: keyturn policy test FILE --journal URL",
        "keys": "list and rotate the keys that sign and encrypt the journal: keyturn keys rotate",
        "audit": "verify, search and export the audit log: keyturn audit verify URL",
        "insights": "show how approvers decide, and suggest rules: keyturn insights --journal URL [--suggest]",
        "notifications": "list and resend failed notifications, preview one: keyturn notifications list sqlite:///keyturn.db",
        "completion": "print a shell completion script: keyturn completion bash",
    },
    "Journal": {
        "check": "verify a journal's integrity: keyturn check sqlite:///keyturn.db",
        "copy": "copy a journal to another store: keyturn copy sqlite:///keyturn.db postgresql://...",
        "erase": "erase the content of old runs: keyturn erase sqlite:///keyturn.db --older-than 90d",
        "restored": "after restoring a backup, mark unfinished calls as in doubt: keyturn restored URL",
        "fleet": "show workers, due runs and the engine: keyturn fleet postgresql://db/keyturn",
        "engine": "check and tidy the engine that hands runs to workers: keyturn engine check --engine dbos",
        "doctor": "diagnose a journal and this machine: keyturn doctor --app module:app",
    },
    "Connect": {
        "acp": "have permissions of an ACP agent decided in the inbox: keyturn acp -- gemini --acp",
        "gate": "have calls of an MCP server's tools wait for approval: keyturn gate -- npx some-server",
        "hook": "let a coding agent's calls wait for approval: keyturn hook install claude-code --server URL",
    },
    "Migrate": {
        "migrate": "rewrite imports of openai-agents, and list what differs: keyturn migrate PATH",
        "takeover": "import a paused run that openai-agents saved: keyturn takeover FILE",
    },
}
COMMANDS: dict[str, str] = {name: what for group in GROUPS.values() for name, what in group.items()}
_DECIDING = ("answer", "approve", "ask", "edit", "grant", "reject", "resolve", "review")
_MARKING = ("claim", "release", "snooze", "unsnooze", "withdraw")


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
    if given.command not in COMMANDS:
        _parser().error(_unknown(given.command))
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
    parser = argparse.ArgumentParser(
        prog="keyturn",
        usage="keyturn COMMAND ...",
        description="Human-in-the-loop approvals for AI agents.",
        epilog=f"{_listed()}\n\nUse `keyturn COMMAND --help` for the options of a command.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"keyturn {__version__}")
    parser.add_argument("command", nargs="?", help=argparse.SUPPRESS)
    parser.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def _listed() -> str:
    """Return the commands by group, each with its summary."""
    width = max(map(len, COMMANDS))
    blocks = (
        "\n".join([f"{title}:", *(f"  {name:{width}}  {what.partition(':')[0]}" for name, what in group.items())])
        for title, group in GROUPS.items()
    )
    return "\n\n".join(blocks)


def _unknown(name: str) -> str:
    """Return the error for a command that does not exist, with the one that is spelled most like it."""
    from difflib import get_close_matches  # only an error needs it

    close = get_close_matches(name, COMMANDS, n=1)
    hint = f"did you mean {close[0]}?" if close else "keyturn --help lists the commands"
    return f"unknown command {name!r}: {hint}"


if __name__ == "__main__":
    sys.exit(main())
