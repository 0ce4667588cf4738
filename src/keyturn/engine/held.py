"""How much of what a run wrote its session holds, though the session may have rewritten it.

A store may number items, spell texts out as parts, and leave out what only its maker can read. What is left of an item
in any of them is its mark. Pure functions over items; the history before them is checked elsewhere.
"""

from __future__ import annotations

from typing import Any, cast

from ..core.items import Item

# Of what carries a provider's own data, these say the same to everybody and are kept by every store.
_FOR_ALL = ("message", "function_call", "custom_tool_call")


def held(stored: list[Item], tape: list[Item], least: int) -> list[tuple[int, int]]:
    """What a session may hold of a run's tape at its end: how many items of the tape, and in how many of its own.

    What explains the most of the session comes first. `least` is what the run knows to be written. Thoughts may be
    missing; where that leaves open whether the last ones were written, they count as not written: a store that keeps
    none can be given them again, and from one that does they would be lost.

    >>> said, thought = {"role": "user", "content": "hi"}, {"type": "reasoning", "summary": []}
    >>> held([said], [said, thought], 0)
    [(1, 1), (0, 0)]
    """
    marks, there = [_mark(item) for item in tape], [_mark(item) for item in stored]
    optional = [_may_be_missing(item) for item in tape]
    ways: dict[int, int] = {}
    for count in range(len(tape), least - 1, -1):
        starts = {len(there)}
        for place in range(count - 1, -1, -1):
            found = {start - 1 for start in starts if start and there[start - 1] == marks[place]}
            starts = found | starts if optional[place] else found
            if not starts:
                break
        ways |= {len(there) - start: count for start in starts}
    return [(ways[taken], taken) for taken in sorted(ways, reverse=True)]


def _mark(item: Item) -> tuple[Any, ...]:
    """What is left of an item in any session, however it rewrites ids, fields and the form of texts."""
    kind = item.get("type", "message")
    return (kind, *(item.get(name) for name in ("role", "call_id", "name", "arguments")), _text(item.get("content")))


def _text(content: Any) -> bytes:
    """The text of a content, one text or in parts, half characters as the question marks that a line makes of them."""
    parts = cast("list[Any]", content) if isinstance(content, list) else [{"text": content}]
    texts = [cast("Item", part).get("text") for part in parts if isinstance(part, dict)]
    return "".join(text for text in texts if isinstance(text, str)).encode("utf-8", "replace")


def _may_be_missing(item: Item) -> bool:
    """Whether a store of one provider may leave it out: what another provider's model thought, or ran there."""
    kind = item.get("type", "message")
    return kind == "reasoning" or ("provider_data" in item and kind not in _FOR_ALL)
