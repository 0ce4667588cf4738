"""Hold what a change of a call comes to: what would run, how it is drawn, and what differs; nothing is decided."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, LiteralString

import msgspec
from msgspec.structs import replace

from ..core.preview import Preview, Text
from ..render.arguments import request_lines
from ..render.layout import LayoutLine


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
