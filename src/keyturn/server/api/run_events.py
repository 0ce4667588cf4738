"""Stream a run's log as it grows, each line once: the id of an event is the place of its line."""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncGenerator
from typing import Annotated, Any

import msgspec
from fastapi import Header, Query

from ...core.codec import Log
from ...core.errors import UserError
from ...engine.run.open_run import chain_of
from ...journal.base import Store
from ...journal.rows import ENDED
from ...presenting.event_words import Teller
from ...wire.responses import RunLine
from ..streams import EventStream, event
from .paging import IdPath
from .refusing import Refusal
from .routes import ApiContext, Routes
from .run_lines import shown_line

routes = Routes("events")
_PLACE = re.compile(r"[0-9]{1,9}")

Words = Annotated[bool, Query(description="Each event has its `words`, rows for people.")]
Follow = Annotated[bool, Query(description="False: the stream ends after the lines that are there now.")]
LastId = Annotated[str | None, Header(alias="last-event-id", max_length=64)]


@routes.add("GET", "/runs/{run}/events", scope="read", gives=RunLine, errors=(404,), media="text/event-stream")
async def stream_run(
    here: ApiContext, run: IdPath, last_event_id: LastId = None, words: Words = False, follow: Follow = True
) -> Any:
    """Stream the lines of a run, those after `Last-Event-ID` or all, until it is over.

    Each event is one line; its id is the line's place, its data what became true, with secrets redacted.
    """
    after = _after(last_event_id)
    row = await here.visibility.run(run)
    await here.visibility.reads_log(run)
    places = here.request.app.state.places
    places.check(here.visitor.id)
    teller = Teller() if words else None
    lines = nothing() if row.status == "erased" else run_lines(here.app.journal, run, after, teller, follow=follow)

    async def still() -> None:
        await (await here.anew()).visibility.run(run)

    return EventStream(
        lines, ended=here.live.ended, places=places, person=here.visitor.id, still=still, refusals=(Refusal,)
    )


def _after(given: str | None) -> int:
    if given is None:
        return -1
    if not _PLACE.fullmatch(given):
        raise UserError("last-event-id is the id of the last event that came, the place of a line")
    return int(given)


async def nothing() -> AsyncGenerator[bytes]:
    """Yield nothing: what an erased run said is gone."""
    for body in ():
        yield body


async def run_lines(
    journal: Store, run: str, after: int, teller: Teller | None = None, *, follow: bool = True
) -> AsyncGenerator[bytes]:
    """Yield the lines after a place as events; each line is verified, those before it too.

    With a teller, each event of a line has its words for people.
    """
    log = Log(chain=chain_of(journal, run))
    last = None if follow else len(await journal.read(run)) - 1
    async with contextlib.aclosing(journal.watch(run)) as lines:
        async for line in lines:
            [step] = log.extend([line])
            place = len(log) - 1
            told = None if teller is None else [list(teller.rows(log.run, each)) for each in step.events]
            if place > after:
                yield event(msgspec.json.encode(shown_line(place, log.run, step, told)), id=str(place))
            if place == last or (log.run.status in ENDED and await journal.head(run) == len(log)):
                return  # what failed and was resumed has more lines
