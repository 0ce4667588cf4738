"""Change the arguments of a call from the command line: its tool checks the change, and the person sees it first."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from ...console.editor import editor_of, in_editor, is_plain
from ...console.screen import Terminal
from ...core.errors import UserError
from ...inbox.personal import PersonalInbox
from ...journal.rows import RequestRow
from ...presenting.shown_request import ShownRequest, bare_item
from .asking import said_yes


async def edited(inbox: PersonalInbox, row: RequestRow, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the edit and what its editor was shown, as the inbox takes them; "declined" where they said no."""
    if arguments.app is None and inbox.server is None:
        raise UserError("an edit is checked by its tool: say where it is, --app module:app")
    asks = not arguments.yes
    if asks and (arguments.json or not (sys.stdin.isatty() and sys.stdout.isatty())):
        raise UserError("nobody is at a terminal to look at the difference: say --yes, or edit it at one")
    shown = ShownRequest(bare_item(row))
    if "edit" not in row.request.verdicts or not isinstance(row.params, dict):
        raise UserError(f"nobody can change the arguments of {row.tool!r}; approve or reject the call as it is")
    wanted = shown.wanted(*_wanted(shown, arguments))
    made = await inbox.preview_edit(row, wanted)
    if not made.difference.blocks:
        raise UserError("this changes nothing: approve the call as it is")
    if not arguments.json:
        screen = Terminal.here(width=None if sys.stdout.isatty() else 100)
        screen.draw(made.difference)
        screen.say()
        screen.say("As you changed it:")
        for drawn in screen.rows(made.lines()):
            screen.show(drawn)
        if asks and not said_yes(screen, "Let it run like this? y or n"):
            return {"declined": True}
    return {"edit": wanted, "seen": made.would}


def _wanted(shown: ShownRequest, arguments: argparse.Namespace) -> list[str]:
    """Return the change as it was typed: assignments, all arguments, or what the person's editor returns."""
    if arguments.set:
        return list(arguments.set)
    if arguments.args is not None:
        if not arguments.args.lstrip().startswith("{"):
            raise UserError('--args is a JSON object of all arguments: {"name": "value"}')
        return [arguments.args.lstrip()]
    command = editor_of()
    if command is None:
        raise UserError("say what changes: --set name=value, or --args JSON; or set EDITOR to change it there")
    text = json.dumps(shown.arguments, ensure_ascii=False, indent=2)
    if not is_plain(text.replace("\n", "")):
        text = json.dumps(shown.arguments, indent=2)
    changed = in_editor(text, command)
    if changed is None:
        raise UserError("the editor ended badly, nothing was decided")
    if not changed.strip().startswith("{"):
        raise UserError("what the editor left is no JSON object, nothing was decided")
    return [changed.strip()]
