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
        raise UserError("an edit is validated by its tool: pass --app module:app")
    asks = not arguments.yes
    if asks and (arguments.json or not (sys.stdin.isatty() and sys.stdout.isatty())):
        raise UserError("this is no interactive terminal: pass --yes to confirm the difference")
    shown = ShownRequest(bare_item(row))
    if "edit" not in row.request.verdicts or not isinstance(row.params, dict):
        raise UserError(f"the arguments of {row.tool!r} cannot be edited; approve or reject the call as it is")
    wanted = shown.wanted(*_wanted(shown, arguments))
    made = await inbox.preview_edit(row, wanted)
    if not made.difference.blocks:
        raise UserError("the edit changes nothing: approve the call as it is")
    if not arguments.json:
        screen = Terminal.here(width=None if sys.stdout.isatty() else 100)
        screen.draw(made.difference)
        screen.say()
        screen.say("With your edit:")
        for drawn in screen.rows(made.lines()):
            screen.show(drawn)
        if asks and not said_yes(screen, "Approve it with this edit? y or n"):
            return {"declined": True}
    return {"edit": wanted, "seen": made.would}


def _wanted(shown: ShownRequest, arguments: argparse.Namespace) -> list[str]:
    """Return the change as it was typed: assignments, all arguments, or what the person's editor returns."""
    if arguments.set:
        return list(arguments.set)
    if arguments.args is not None:
        if not arguments.args.lstrip().startswith("{"):
            raise UserError('--args must be a JSON object of all arguments: {"name": "value"}')
        return [arguments.args.lstrip()]
    command = editor_of()
    if command is None:
        raise UserError("no edit was given: pass --set name=value or --args JSON, or set EDITOR")
    text = json.dumps(shown.arguments, ensure_ascii=False, indent=2)
    if not is_plain(text.replace("\n", "")):
        text = json.dumps(shown.arguments, indent=2)
    changed = in_editor(text, command)
    if changed is None:
        raise UserError("the editor failed, nothing was decided")
    if not changed.strip().startswith("{"):
        raise UserError("the edited text is not a JSON object, nothing was decided")
    return [changed.strip()]
