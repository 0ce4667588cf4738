"""Preview changes of files: real diffs against the files as they were read, and the digests they were read as.

A change is never left out and never cut. Of a large file only the changed places are given, each with its line numbers;
what is not text is named, measured and told by its digest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from ...core.preview import Block, Diff, Preview, Text
from ...render.diff import CONTEXT, DiffRow, script
from ..filesystem.problems import NotText
from ..filesystem.staging import Change, decoded, digest_of

WHOLE = 64 << 10  # characters of both texts up to which a diff holds all of them
_NAMED = 5


def preview_of(changes: Sequence[Change]) -> Preview:
    """Make the preview of these changes.

    >>> preview_of([Change("a.txt", None, b"one\\n")]).summary
    "create 'a.txt'"
    """
    blocks = tuple(block for change in changes if not _moved_away(change, changes) for block in _blocks(change))
    basis = {change.path: digest_of(change.before) for change in changes}
    return Preview(blocks, _summary([change for change in changes if not _moved_away(change, changes)]), basis)


def basis_shown(context: object) -> Mapping[str, str] | None:
    """Return what a person was shown of the files, None where nobody was asked.

    One who wrote the arguments anew, because they did not fit, was shown no file and takes it as it is.
    """
    basis: Mapping[str, str] | None = getattr(context, "basis", None)
    approval = getattr(context, "approval", None)
    return basis or (None if approval is not None and approval.args is not None else basis)


def _moved_away(change: Change, changes: Sequence[Change]) -> bool:
    """Return whether a file goes only because it is shown at the place that it goes to."""
    return change.after is None and any(other.source == change.path for other in changes)


def _summary(changes: Sequence[Change]) -> str:
    words = [f"{_verb(change)} {change.path!r}" for change in changes[:_NAMED]]
    more = len(changes) - _NAMED
    return ", ".join(words) + (f" and {more} more" if more > 0 else "")


def _verb(change: Change) -> str:
    if change.after is None:
        return "delete"
    if change.source:
        return f"move {change.source!r} to"
    return "create" if change.before is None else "update"


def _blocks(change: Change) -> Iterator[Block]:
    label = {"delete": "the file is deleted", "create": "a new file", "update": ""}.get(
        _verb(change), f"moved from {change.source}"
    )
    old = change.original
    try:
        before, after = _text(old, change.path), _text(change.after, change.path)
    except NotText:
        yield Text(f"{change.path}: {_binary(old)} becomes {_binary(change.after)}", label)
        return
    if before == after:
        # A diff of nothing shows nothing, but an empty file that comes or goes is a change too.
        yield Text(f"{change.path}: no line of it changes", label)
    elif len(before) + len(after) <= WHOLE:
        yield Diff(before, after, change.path, label)
    else:
        yield from _places(change.path, before, after, label)


def _text(data: bytes | None, path: str) -> str:
    return "" if data is None else decoded(data, path)


def _binary(data: bytes | None) -> str:
    from hashlib import sha256  # only for what is no text

    return "nothing" if data is None else f"{len(data)} bytes with the SHA-256 {sha256(data).hexdigest()}"


def _places(path: str, before: str, after: str, label: str) -> Iterator[Diff]:
    """Return each changed place as a diff of its own, with some unchanged lines around it."""
    lines = before.count("\n") + (not before.endswith("\n") and before != "")
    for start, rows in _regions(before, after):
        old = [row.text for row in rows if row.sign != "+"]
        new = [row.text for row in rows if row.sign != "-"]
        where = f"lines {start + 1} to {start + len(old)} of {lines}" if old else f"after line {start} of {lines}"
        yield Diff("".join(old), "".join(new), path, f"{label}, {where}" if label else where)


def _regions(before: str, after: str) -> Iterator[tuple[int, list[DiffRow]]]:
    """Return the changed rows with their surroundings, and the number of old lines before them."""
    region: list[DiffRow] = []
    start = line = 0
    for same, run in groupby(script(before, after), lambda row: row.sign == " "):
        rows = list(run)
        if not same:
            region += rows
            line += sum(row.sign == "-" for row in rows)
            continue
        if region and len(rows) > 2 * CONTEXT:
            yield start, region + rows[:CONTEXT]
            region = []
        if region:
            region += rows
        else:
            region, start = rows[-CONTEXT:], line + len(rows[:-CONTEXT])
        line += len(rows)
    if any(row.sign != " " for row in region):
        tail = 0
        while tail < len(region) and region[-1 - tail].sign == " ":
            tail += 1
        yield start, region[: len(region) - max(tail - CONTEXT, 0)]
