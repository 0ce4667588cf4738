"""Lay a preview out for pages: blocks of rows, and of a diff both sides with the words that changed.

Words of ours and data are kept apart here as everywhere (`render/layout.py`); each row of data is escaped text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from typing import Any, NamedTuple, TypeAlias, cast

from ...core.preview import Diff, Json, Preview
from ...render import diff
from ...render.arguments import argument_lines, is_arguments
from ...render.escape import escape, reorders
from ...render.layout import LayoutLine, block_lines
from ...render.length import FIRST, phone_rows
from .shown import VisibleHtml, ready

_WORDS = 400  # characters of a line up to which changed words are marked
_BUDGET = 20_000_000  # steps of the inner loop of difflib at worst, in all lines of a diff: less than half a second
_TURNED = "some letters run from right to left: rows that hold them may be drawn out of order"


_Pieces: TypeAlias = tuple[tuple[bool, VisibleHtml], ...]
_Step: TypeAlias = tuple[str, int, int, int, int]


class Row(NamedTuple):
    """Holds one row of a block: its style, our lead, and data."""

    style: str
    lead: str
    text: VisibleHtml


class Side(NamedTuple):
    """Holds one line of one side of a diff, in pieces of which some changed."""

    number: int | None
    sign: str
    pieces: _Pieces


class Pair(NamedTuple):
    """Holds a line before and after; of lines that are not shown, how many."""

    before: Side | None
    after: Side | None
    hidden: int = 0


class Block(NamedTuple):
    """Holds one block of what would run."""

    kind: str
    label: VisibleHtml
    where: VisibleHtml
    rows: tuple[Row, ...] = ()
    pairs: tuple[Pair, ...] = ()
    note: str = ""

    @property
    def length(self) -> int:
        """Return how many rows it has."""
        return len(self.rows) or len(self.pairs)

    @property
    def hidden(self) -> int:
        """Return how many rows are shown only when somebody asks; of few but long lines, as a phone draws them."""
        return max(0, self.length - FIRST) or max(0, drawn_rows(self) - 2 * FIRST)


def drawn_rows(block: Block) -> int:
    """Return how many rows a phone takes for a block, where a line that is too long goes on in the next row."""
    texts = [f"{row.lead} {row.text}" for row in block.rows]
    for pair in block.pairs:
        sides = [pair.before] if pair.before is not None and pair.before.sign == "same" else [pair.before, pair.after]
        texts += ["".join(str(text) for _, text in side.pieces) for side in sides if side is not None]
        texts += [""] if pair.hidden else []
    return sum(map(phone_rows, texts))


def blocks_of(preview: Preview, arguments: object) -> list[Block]:
    """Return the blocks of a call: its preview, with its arguments made for reading.

    >>> from keyturn.core.preview import Command
    >>> [made] = blocks_of(Preview((Command("ls\\nrm x", cwd="/srv"),)), {})
    >>> made.kind, str(made.where), [str(row.text) for row in made.rows]
    ('command', '/srv', ['ls', 'rm x'])
    """
    return list(_blocks(preview, arguments))


def _blocks(preview: Preview, arguments: object) -> Iterator[Block]:
    for block in preview.blocks:
        if isinstance(block, Diff):
            yield _diff_block(block)
        elif is_arguments(block, arguments):
            yield from _arguments(block.value)
        else:
            kind = type(block).__name__.lower()
            where = escape(getattr(block, "cwd", ""), keep="")
            lines = [line for line in block_lines(block) if line.style != "heading"]
            yield _block(kind, block.label, where, lines)


def _arguments(given: object) -> Iterator[Block]:
    if not isinstance(given, dict):
        yield _block("json", "", "", list(block_lines(Json(given)))[1:])
        return
    for lines in argument_lines(cast("dict[str, Any]", given)):
        head, *rest = lines
        kind = "argument" if head.text else "arguments"
        made = _block(kind, "", "", rest)
        yield made._replace(label=ready(head.text))


def _block(kind: str, label: str, where: str, lines: list[LayoutLine]) -> Block:
    rows = tuple(Row(line.style, line.lead, ready(line.text)) for line in lines)
    note = _TURNED if any(reorders(line.text) for line in lines) else ""
    return Block(kind, ready(escape(label, keep="")), ready(where), rows, note=note)


def _diff_block(block: Diff) -> Block:
    pairs = tuple(_pairs(block.before, block.after))
    label, where = ready(escape(block.label, keep="")), ready(escape(block.path, keep=""))
    note = "" if pairs else "nothing changes"
    if reorders(block.before) or reorders(block.after):
        note = _TURNED
    return Block("diff", label, where, pairs=pairs, note=note)


def _pairs(before: str, after: str) -> Iterator[Pair]:
    """Yield the lines of both sides beside each other."""
    old = new = 1
    words = _Words()
    gone = list[str]()
    come = list[str]()
    for sign, text in [*diff.rows(before, after), diff.DiffRow(" ", "\x00")]:
        if sign == "-":
            gone.append(text)
            continue
        if sign == "+":
            come.append(text)
            continue
        yield from _changed(words, gone, come, old, new)
        old, new = old + len(gone), new + len(come)
        gone, come = [], []
        if text == "\x00":
            return
        if sign == "@":
            hidden = int(text.split()[0])
            yield Pair(None, None, hidden)
            old, new = old + hidden, new + hidden
        elif sign == "\\":
            note = ((False, ready("no newline at the end")),)
            yield Pair(Side(None, "note", note), Side(None, "note", note))
        else:
            line = ((False, ready(escape(text, keep=""))),)
            yield Pair(Side(old, "same", line), Side(new, "same", line))
            old, new = old + 1, new + 1


def _changed(words: _Words, gone: list[str], come: list[str], old: int, new: int) -> Iterator[Pair]:
    for place in range(max(len(gone), len(come))):
        left = gone[place] if place < len(gone) else None
        right = come[place] if place < len(come) else None
        marked = words.marked(left, right) if left is not None and right is not None else None
        before = after = None
        if left is not None:
            before = Side(old + place, "removed", marked[0] if marked else ((False, ready(escape(left, keep=""))),))
        if right is not None:
            after = Side(new + place, "added", marked[1] if marked else ((False, ready(escape(right, keep=""))),))
        yield Pair(before, after)


class _Words:
    """Marks the words that changed in the lines of one diff, while what it takes to compare them lasts."""

    def __init__(self) -> None:
        self._budget = _BUDGET

    def marked(self, left: str, right: str) -> tuple[_Pieces, _Pieces] | None:
        """Return both lines in pieces, of which those changed that differ; None where that says nothing."""
        if len(left) > _WORDS or len(right) > _WORDS:
            return None
        old, new = re.findall(r"\w+|\s+|[^\w\s]", left), re.findall(r"\w+|\s+|[^\w\s]", right)
        counts = Counter(new)
        cost = sum(counts[word] for word in old) * min(len(old), len(new))
        if cost > self._budget:
            return None
        self._budget -= cost
        matcher = SequenceMatcher(None, old, new, autojunk=False)
        if matcher.ratio() < 0.4:
            return None
        before = list[tuple[bool, VisibleHtml]]()
        after = list[tuple[bool, VisibleHtml]]()
        for tag, i, j, k, m in _moved(matcher.get_opcodes(), old, new):
            for side, text in ((before, "".join(old[i:j])), (after, "".join(new[k:m]))):
                if text:
                    side.append((tag != "equal", ready(escape(text, keep=""))))
        return tuple(before), tuple(after)


def _moved(steps: Iterable[_Step], old: list[str], new: list[str]) -> list[_Step]:
    """Return the steps from one line to another; where only one run of words came or went, it begins with a word.

    >>> old, new = re.findall(r"\\w+|\\W", "to ann@x, ben@x, cy@x"), re.findall(r"\\w+|\\W", "to ann@x, cy@x")
    >>> _, (_, i, j, _, _), _ = _moved(SequenceMatcher(None, old, new).get_opcodes(), old, new)
    >>> "".join(old[i:j])
    'ben@x, '
    """
    found = list(steps)
    changed = [step for step in found if step[0] != "equal"]
    if len(changed) != 1 or changed[0][0] == "replace":
        return found
    tag, i, j, k, m = changed[0]
    words, start, length = (old, i, j - i) if tag == "delete" else (new, k, m - k)
    first = last = start
    while first and words[first - 1] == words[first - 1 + length]:
        first -= 1
    while last + length < len(words) and words[last] == words[last + length]:
        last += 1
    begins = (place for place in range(first, last + 1) if words[place + length - 1].isspace())
    at = next((place for place in begins if not place or words[place - 1].isspace()), start)
    rest = len(words) - at - length
    ends = len(old) - rest, len(old), len(new) - rest, len(new)
    return [("equal", 0, at, 0, at), (tag, at, ends[0], at, ends[2]), ("equal", *ends)]
