"""Preview shell commands: each command itself, what a shell reads in it, and at last where they run.

Nothing here is the model's word: every fact is read off the command that will run, or said by the executor. A fact is
one row that no text in it can leave, so that a command cannot write facts about itself.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, cast

from ..core.preview import Command, Preview, Text
from .commands.reading import CommandReading, hidden, read_command
from .commands.runners import STEERING, runs_others, steers

_LISTED = 40
NOT_UNDERSTOOD = "not understood"


def command_preview(commands: Sequence[str], limits: Mapping[str, Any], about: Mapping[str, Any]) -> Preview:
    """Show commands for a shell, each with what a shell reads in it.

    >>> command, read = command_preview(["ls | xargs rm"], {}, {}).blocks
    >>> print(read.text)
    programs: ls, xargs
    can run other programs: xargs
    joined by: |
    """
    cwd = str(about.get("in", ""))
    blocks: list[Command | Text] = []
    for number, command in enumerate(commands, 1):
        which = f"{number} of {len(commands)}" if len(commands) > 1 else ""
        blocks.append(Command(command, cwd=cwd, label=which))
        blocks.append(_told("parts of this command", facts_of(read_command(command))))
    return Preview((*blocks, *_where(limits, about)))


def program_preview(words: Sequence[str], around: Mapping[str, Any], about: Mapping[str, Any]) -> Preview:
    """Show one program with its arguments, each as it is, since no shell reads them."""
    reading = CommandReading()
    for text in (*words, *map(str, around.values())):
        hidden(text, reading)
    program = words[0] if words else ""
    facts: dict[str, Any] = {"program": program, "arguments": list(words[1:])}
    if runs_others(program):
        facts["can run other programs"] = [program]
    cwd = str(around.get("working_directory") or about.get("in", ""))
    told = _told("word by word", {**facts, **reading.others})
    return Preview((Command(shlex.join(words), cwd=cwd), told, *_where(around, about)))


def facts_of(reading: CommandReading) -> dict[str, list[str]]:
    """Describe what was parsed of one command; where parsing stopped comes first.

    >>> facts_of(read_command("PAGER=x git log > log.txt"))["environment"]
    ['PAGER=x']
    """
    first = [each.words[0] for each in reading.commands if each.words]
    names = [word.text for word in first if word.text is not None]
    settings = [setting for each in reading.commands for setting in each.settings]
    facts: dict[str, list[str]] = {
        NOT_UNDERSTOOD: [f"{reading.unclear}; what follows is not all of it"] if reading.unclear else [],
        "programs": names,
        "programs that the shell computes": [word.raw for word in first if word.text is None],
        "can run other programs": [name for name in names if runs_others(name)],
        "can change what the rest means": [
            *(name for name in names if name in STEERING),
            *(setting.partition("=")[0] for setting in settings if steers(setting)),
        ],
        "environment": settings,
        "joined by": reading.joined,
        **reading.others,
    }
    return {what: texts for what, texts in facts.items() if texts or what == "programs"}


def _told(label: str, facts: Mapping[str, Any]) -> Text:
    return Text("\n".join(f"{what}: {_row(told)}" for what, told in facts.items()), label=label)


def _row(told: object) -> str:
    """Return one fact in one row: a text as it is if it cannot be taken for more than one, else in quotes."""
    if isinstance(told, list):
        texts = cast("list[Any]", told)
        left = len(texts) - _LISTED
        return ", ".join([*map(_row, texts[:_LISTED]), *([f"... and {left} more"] if left > 0 else [])]) or "none"
    if isinstance(told, bool):
        return "yes" if told else "no"
    if not isinstance(told, str):
        return json.dumps(told, ensure_ascii=False)
    plain = told and told == told.strip() and not told.startswith(('"', "...")) and not re.search("\n|, ", told)
    return told if plain else json.dumps(told, ensure_ascii=False)


def _where(limits: Mapping[str, Any], about: Mapping[str, Any]) -> list[Text]:
    facts = {**about, **{name: value for name, value in limits.items() if value not in (None, {}, "")}}
    return [_told("how it runs", facts)] if facts else []
