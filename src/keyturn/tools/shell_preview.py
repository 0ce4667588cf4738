"""What people see of shell commands: the commands themselves, then what a shell reads in them, then where they run.

Nothing here is the model's word: every fact is read off the command that will run, or said by the executor.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from ..core.preview import Command, Json, Preview, Text
from .command_programs import STEERING, runs_others
from .command_reading import Reading, hidden, read_command

_LISTED = 40
NOT_UNDERSTOOD = "not understood"


def command_preview(commands: Sequence[str], limits: Mapping[str, Any], about: Mapping[str, Any]) -> Preview:
    """Commands for a shell.

    >>> preview = command_preview(["ls | xargs rm"], {}, {})
    >>> preview.blocks[0].command, preview.blocks[1].value["can run other programs"]
    ('ls | xargs rm', ['xargs'])
    """
    cwd = str(about.get("in", ""))
    several = len(commands) > 1
    blocks = [
        Command(command, cwd=cwd, label=f"command {number} of {len(commands)}" if several else "")
        for number, command in enumerate(commands, 1)
    ]
    readings = [read_command(command) for command in commands]
    facts = [facts_of(reading) for reading in readings]
    unclear = [str(number) for number, reading in enumerate(readings, 1) if reading.unclear]
    read = {f"command {number}": each for number, each in enumerate(facts, 1)} if several else facts[0]
    return Preview(
        (*blocks, *_warning(unclear, several), Json(read, label="what a shell reads"), *_where(limits, about))
    )


def program_preview(words: Sequence[str], around: Mapping[str, Any], about: Mapping[str, Any]) -> Preview:
    """One program with its arguments, which no shell reads: each of them is shown as it is."""
    reading = Reading()
    for text in (*words, *map(str, around.values())):
        hidden(text, reading)
    program = words[0] if words else ""
    facts = {"program": program, "arguments": list(words[1:]), **_bounded(reading.others)}
    if runs_others(program):
        facts["can run other programs"] = [program]
    cwd = str(around.get("working_directory") or about.get("in", ""))
    return Preview((Command(shlex.join(words), cwd=cwd), Json(facts, label="word by word"), *_where(around, about)))


def facts_of(reading: Reading) -> dict[str, Any]:
    """What was read of one command, in words.

    >>> facts_of(read_command("PAGER=x git log > log.txt"))["environment"]
    ['PAGER=x']
    """
    first = [each.words[0] for each in reading.commands if each.words]
    names = [word.text for word in first if word.text is not None]
    facts: dict[str, list[str]] = {
        "programs": [name or '""' for name in names],
        "programs that the shell computes": [word.raw for word in first if word.text is None],
        "can run other programs": [name for name in names if runs_others(name)],
        "can change what the rest means": [name for name in names if name in STEERING],
        "environment": [setting for each in reading.commands for setting in each.settings],
        "joined by": reading.joined,
        **reading.others,
    }
    found: dict[str, Any] = _bounded({what: texts for what, texts in facts.items() if texts or what == "programs"})
    if reading.unclear:
        found[NOT_UNDERSTOOD] = reading.unclear
    return found


def _bounded(facts: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for what, texts in facts.items():
        left = len(texts) - _LISTED
        shown[what] = [*texts[:_LISTED], *([f"... and {left} more"] if left > 0 else [])]
    return shown


def _warning(unclear: Sequence[str], several: bool) -> list[Text]:
    if not unclear:
        return []
    which = f"Commands {', '.join(unclear)} are" if several else "This command is"
    return [Text(f"{which} not fully understood: what is listed below is not all of it. Read it yourself.")]


def _where(limits: Mapping[str, Any], about: Mapping[str, Any]) -> list[Json]:
    facts = {**about, **{name: value for name, value in limits.items() if value not in (None, {}, "")}}
    return [Json(facts, label="how it runs")] if facts else []
