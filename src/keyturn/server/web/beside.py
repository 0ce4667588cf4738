"""Look up what stands beside a call on its page: the same call before, its bare arguments, an edit from both sides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ...core import events as ev
from ...core.durations import milliseconds
from ...core.preview import Preview
from ...core.strict import parse
from ...inbox.marking import CLAIM
from ...journal.rows import Query, RequestRow
from ...presenting.asking import guidance_of, shows_arguments
from ...presenting.call_history import edited_in
from ...presenting.clock import span
from ...presenting.edit_preview import changed_arguments
from ...presenting.identical import IdenticalRequest, identical_to
from ...tools.base import plain_preview
from .blocks import Block, blocks_of
from .pages import PageContext

_OPEN = 20
_LATELY = 50


async def beside(at: PageContext, row: RequestRow) -> dict[str, Any]:
    """Return what helps to decide: how to find out what is in doubt, the same call before, how long a claim lasts."""
    lasts = span(milliseconds(CLAIM))
    given: Any = row.request.params
    whole = [] if not given or shows_arguments(row.request) else blocks_of(plain_preview(given), given)
    return {
        "identical": await _identical(at, row),
        "guidance": guidance_of(row),
        "claim_lasts": lasts,
        "arguments": whole,
    }


async def _identical(at: PageContext, row: RequestRow) -> list[IdenticalRequest]:
    """Return the requests of the same call that the visitor sees: open ones, and those rejected lately."""
    if row.state != "open" or row.kind != "approval" or not row.shape:
        return []
    same = await at.app.journal.requests(Query(state="open", shape=row.shape, limit=_OPEN))
    lately = await at.app.journal.requests(Query(newest=True, limit=_LATELY))
    return identical_to(row, [each for each in [*same, *lately] if at.visibility.sees(each)])


class DrawnEdit(NamedTuple):
    """Holds the arguments with which an edited call was approved, what changed in them, and by whom; drawn."""

    approved: list[Block]
    changed: list[Block]
    by: str


def edit_of(steps: Sequence[ev.Step], call: str) -> DrawnEdit | None:
    """Return what an approver changed in the arguments of a call; None where none did."""
    edited = edited_in(steps, call)
    if edited is None:
        return None
    asked, approved = (parse(text or "{}") for text in (edited.before, edited.after))
    changed = Preview(tuple(changed_arguments(asked, approved)))
    return DrawnEdit(blocks_of(plain_preview(approved), approved), blocks_of(changed, {}), edited.by)
