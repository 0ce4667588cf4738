"""Say what is wrong with a field of an edit form, in words for the person who typed it."""

from __future__ import annotations

import re

from ..core.errors import BadJson
from ..core.values import is_number
from ..render.arguments import shown_name


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
