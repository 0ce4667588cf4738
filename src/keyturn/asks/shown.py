"""Show what an external caller would do by the shape of its arguments: a command, a change of a file, a new file.

The preview is made of the arguments alone, and shows all of them: nothing of it is the caller's word.
"""

from __future__ import annotations

from typing import Any, cast

from ..core.preview import Block, Command, Diff, Json, Preview, Text, redact
from ..presenting.source import SOURCE


def preview_of(params: Any, secrets: tuple[str, ...], source: str = "") -> Preview:
    """Return what people are shown of arguments, and last where the caller says that the request comes from.

    >>> preview_of({"command": "make", "timeout": 5}, ()).blocks
    (Command(command='make', cwd='', label=''), Json(value={'timeout': 5}, label=''))
    >>> preview_of({"file_path": "a.py", "old_string": "x", "new_string": "y"}, ()).blocks
    (Diff(before='x', after='y', path='a.py', label=''),)
    >>> preview_of([1], ()).blocks
    (Json(value=[1], label=''),)
    """
    blocks = _blocks(redact(params, secrets))
    return Preview((*blocks, Text(source, label=SOURCE)) if source else blocks)


def _blocks(shown: Any) -> tuple[Block, ...]:
    if not isinstance(shown, dict):
        return (Json(shown),)
    rest = cast("dict[str, Any]", shown)
    for names, make in _SHAPES:
        if all(isinstance(rest.get(name), str) for name in names):
            others = {name: value for name, value in rest.items() if name not in names}
            made: Block = make(*(rest[name] for name in names))
            return (made, Json(others)) if others else (made,)
    return (Json(rest),)


def _change(path: str, before: str, after: str) -> Block:
    return Diff(before, after, path)


def _file(path: str, content: str) -> Block:
    return Diff("", content, path, label="the whole file")


_SHAPES: list[tuple[tuple[str, ...], Any]] = [
    (("command",), Command),
    (("file_path", "old_string", "new_string"), _change),
    (("file_path", "content"), _file),
    (("tool", "before", "after"), _change),
]
