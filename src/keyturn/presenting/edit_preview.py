"""Hold what a change of a call comes to: what would run, how it is drawn, what differs, what a field cannot take."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, LiteralString, cast

import msgspec
from msgspec.structs import replace

from ..core.errors import BadJson
from ..core.preview import Block, Diff, Preview, Text
from ..core.values import is_number
from ..render.arguments import is_text, request_lines, shown_name
from ..render.layout import LayoutLine


class WrongField(ValueError):
    """Raised where a field of an edit form cannot be taken: which one, and what it takes."""

    def __init__(self, name: str, problem: str) -> None:
        self.name, self.problem = name, problem
        super().__init__(f"{shown_name(name)}: {problem}")


_PREFIX = re.compile(r"^The arguments of .*? are invalid: [^:]*: ")
_TAKES = re.compile(r" takes (.*?): write it as that$")


def field_problem(value: object, error: Exception) -> str:
    """Say what is wrong with a field, in words for whoever typed it.

    >>> field_problem(3, BadJson("not strict JSON")), field_problem([1], BadJson("not strict JSON"))
    ('enter a number.', 'enter one number on each line.')
    """
    if isinstance(error, BadJson):
        if isinstance(value, bool):
            return "choose true or false."
        if is_number(value):
            return "enter a number."
        return "enter one number on each line." if isinstance(value, list) else f"enter valid JSON ({error.reason})."
    text = str(error)
    takes = _TAKES.search(text)
    if takes is not None:
        return f"must be {takes[1]}."
    text = _PREFIX.sub("", text).replace("Input should be", "must be")
    return text if text.endswith(".") else f"{text}."


def changed_arguments(asked: Any, approved: Any, label: LiteralString = "change") -> list[Block]:
    """Return the arguments that were changed, before and after; a text line by line.

    >>> [made] = changed_arguments({"to": "ann", "amount": 50}, {"to": "ann", "amount": 5})
    >>> made.before, made.after
    ('amount: 50\\n', 'amount: 5\\n')
    """
    before, after = _by_name(asked), _by_name(approved)
    changed = [name for name in {**before, **after} if _one(before, name) != _one(after, name)]
    texts = [name for name in changed if is_text(before.get(name)) or is_text(after.get(name))]
    old, new = ("".join(_one(side, name) for name in changed if name not in texts) for side in (before, after))
    blocks: list[Block] = [Diff(old, new, label=label)] if old != new else []
    for name in texts:
        sides = [_text(side.get(name)) for side in (before, after)]
        if not any(side.endswith("\n") for side in sides):  # that neither ends in a newline is no difference
            sides = [f"{side}\n" if side else "" for side in sides]
        blocks.append(Diff(*sides, label=f"{label} to {shown_name(name)}"))
    return blocks


def _by_name(arguments: Any) -> dict[str, Any]:
    """Return arguments by name; a tool that takes one text has it as its input."""
    return cast("dict[str, Any]", arguments) if isinstance(arguments, dict) else {"input": arguments}


def _one(side: dict[str, Any], name: str) -> str:
    """Return one argument as a line, "" if it is missing."""
    return f"{shown_name(name)}: {json.dumps(side[name], ensure_ascii=False)}\n" if name in side else ""


def _text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)


class EditPreview(msgspec.Struct, frozen=True):
    """Describes a changed call, which its tool has checked.

    `arguments` are what would run, secrets redacted, and `would` is what is drawn of them: whoever approves the change
    says so with `seen=would`. `difference` is from what was proposed. `mark` names the drawing, and `runs` is the
    digest that the call has with these arguments; "" where a secret was typed: whether it is the same is not shown.
    """

    request: str
    digest: str
    arguments: Any
    would: Preview
    difference: Preview
    mark: str
    runs: str = ""

    def lines(self) -> Iterator[list[LayoutLine]]:
        """Yield what people are shown of it, line by line."""
        return lines_of(self.would, self.arguments)


def lines_of(preview: Preview, arguments: object, word: LiteralString = "argument") -> Iterator[list[LayoutLine]]:
    """Yield a preview line by line, its arguments made for reading.

    A summary that a block repeats under its own heading, which says whose words those are, is not shown twice.
    """
    if any(isinstance(block, Text) and block.text == preview.summary for block in preview.blocks):
        preview = replace(preview, summary="")
    return request_lines(preview, arguments, word)
