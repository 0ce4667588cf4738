"""Say whether what would run is too long to be seen at a glance, and take a word on it only where all of it was seen.

One guard for every page on which a call is let run. What is counted is the whole call as a phone draws it; the form
carries a token of what was drawn, which is sent only where its box was ticked, and the server compares it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ...core.errors import UserError
from ...core.request import Request
from ...render.length import ROWS
from .blocks import Block, blocks_of, drawn_rows

#: The verdicts that let a call run, or speak for it.
GUARDED = ("approve", "edit", "retry", "answer")


class Payload(NamedTuple):
    """Holds what would run as it is drawn, how many rows that takes on a phone, and a token of it."""

    blocks: list[Block]
    rows: int
    token: str

    @property
    def long(self) -> bool:
        """Return whether somebody says that they saw all of it."""
        return self.rows > ROWS or any(block.hidden for block in self.blocks)

    @property
    def lines(self) -> int:
        """Return how many lines it has."""
        return sum(block.length for block in self.blocks)


def payload_of(request: Request) -> Payload:
    """Return the payload of a request as its pages draw it."""
    given: Any = request.requests if request.kind == "external" else request.params
    return drawn_payload(blocks_of(request.preview, given))


def drawn_payload(blocks: list[Block]) -> Payload:
    """Return blocks that are drawn, as one payload."""
    texts = "\n".join(text for block in blocks for text in _texts(block))
    token = hashlib.sha256(texts.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return Payload(blocks, sum(map(drawn_rows, blocks)), token)


def check_seen(payload: Payload, form: Mapping[str, Any]) -> None:
    """Refuse a word that lets a long call run where the form does not say that all of it was seen."""
    if payload.long and form.get("seen") != payload.token:
        raise UserError(
            f"what would run takes {payload.rows} rows, and the form does not say that all of them were seen: open all "
            "of it, look at it, and tick the box"
        )


def _texts(block: Block) -> Iterator[str]:
    yield from (block.kind, str(block.label), str(block.where))
    yield from (f"{row.style} {row.lead} {row.text}" for row in block.rows)
    for pair in block.pairs:
        for side in (pair.before, pair.after):
            yield "" if side is None else f"{side.sign} {''.join(str(text) for _, text in side.pieces)}"
