"""Start, find, steer and end runs over HTTP."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from fastapi.encoders import jsonable_encoder

from ...core import events as ev
from ...core.errors import Conflict, NotAllowed, UserError
from ...core.people import Decider
from ...directory.state import ADMIN
from ...engine.session.owner import own_session
from ...journal.rows import Query
from ...presenting.stopped import story_of
from ...wire import bodies
from ...wire.agui import THREADS
from ...wire.responses import Done, RunNamed, RunPage, RunResult, RunSeen, RunStory
from ..visible_pages import visible_page
from .once import said_already
from .paging import After, IdPath, Limit, Name, Newest, after_of, key_of, plain
from .routes import ApiContext, Routes, answer, taken
from .waiting import Wait, changes_within

routes = Routes("runs")
State = Literal["queued", "running", "waiting", "finished", "failed", "set_aside", "cancelled", "erased", "damaged"]
_STILL = ("queued", "running")


@routes.add("GET", "/runs", scope="read", gives=RunPage)
async def list_runs(
    here: ApiContext,
    state: State | None = None,
    agent: Name = None,
    limit: Limit = 50,
    after: After = None,
    newest: Newest = False,
) -> Any:
    """List runs, by when they started."""
    plain(agent)
    query = Query(state=state, agent=agent, limit=limit, after=after_of(after), newest=newest)

    rows, more = await visible_page(
        query, here.app.journal.runs, here.visibility.runs, lambda row: (row.started_at, row.run)
    )
    return answer(RunPage([RunSeen.of(row) for row in rows], key_of(*more) if more else None))


@routes.add("POST", "/runs", scope="run", takes=bodies.Start, gives=RunNamed, errors=(404, 409))
async def start_run(here: ApiContext, body: Annotated[bodies.Start, taken(bodies.Start)]) -> Any:
    """Record that a run starts, and return at once.

    The first requester of a session owns it, and for another it is not there. One in which something was said before
    anybody owned it is taken for a requester by an administrator, or by the program.
    """
    visitor = here.visitor
    requester = body.requester or visitor.id
    if requester != visitor.id and visitor.person.kind != "machine":
        raise NotAllowed("a person starts runs for themselves; a machine says for whom")
    if body.session_id is not None and body.session_id.startswith(THREADS):
        raise UserError(f"ids of sessions that begin with {THREADS!r} are of AG-UI threads: continue those over AG-UI")
    if body.agent in here.app.agents:
        session = None if ADMIN in visitor.roles else here.app.session(body.session_id)
        await own_session(here.app.journal, here.app.about_session(body.session_id), requester, session)
    run = await here.app.start(
        body.agent,
        bodies.items_of(body.input),
        context=body.context,
        session_id=body.session_id,
        requester=requester,
        once=here.name,
        priority=body.priority,
        **({} if body.max_turns is msgspec.UNSET else {"max_turns": body.max_turns}),
    )
    return answer(RunNamed(run.id))


@routes.add("GET", "/runs/{run}", scope=("read", "run"), gives=RunSeen, errors=(404,))
async def get_run(here: ApiContext, run: IdPath, wait: Wait = 0) -> Any:
    """Return a run; with `wait`, once it is over or waits for people, or so many seconds have passed."""
    row = await here.visibility.run(run)
    async for _ in changes_within(here, wait, run):
        async with here.look():
            row = await (await here.anew()).visibility.run(run)
        if row.status not in _STILL:
            break
    return answer(RunSeen.of(row))


@routes.add("GET", "/runs/{run}/story", scope="read", gives=RunStory, errors=(404,))
async def get_story(here: ApiContext, run: IdPath) -> Any:
    """Return how a run stands, by its log where its row was altered, and the traceback of what stopped it."""
    story = await story_of(here.app.journal, await here.visibility.run(run))
    return answer(RunStory(RunSeen.of(story.row), story.traceback))


@routes.add("GET", "/runs/{run}/result", scope=("read", "run"), gives=RunResult, errors=(404,))
async def get_result(here: ApiContext, run: IdPath) -> Any:
    """Return what a run came to so far."""
    row = await here.visibility.run(run)
    waiting = [each.id for each in await here.app.journal.requests(Query(run=run, state="open", limit=500))]
    output: Any = None
    if row.status == "finished":
        output = jsonable_encoder((await here.app.result(run, 10)).final_output)
    return answer(RunResult(run, RunSeen.of(row).status, output, row.error, waiting))


@routes.add("POST", "/runs/{run}/send", scope="run", takes=bodies.Message, gives=Done, errors=(404, 409))
async def send_to_run(here: ApiContext, run: IdPath, body: Annotated[bodies.Message, taken(bodies.Message)]) -> Any:
    """Add a message that the model reads at its next turn."""
    await here.visibility.may_control(run)
    await here.app.send(run, bodies.items_of(body.message), once=here.name)
    return answer(Done())


@routes.add("POST", "/runs/{run}/cancel", scope=("run", "decide"), takes=bodies.Why, gives=Done, errors=(404, 409))
async def cancel_run(here: ApiContext, run: IdPath, body: Annotated[bodies.Why, taken(bodies.Why)]) -> Any:
    """Cancel a run; the outcome of a tool at work is unknown."""
    await here.visibility.run(run)
    by = decider_of(here)
    try:
        await here.app.cancel(run, by=by, why=body.why)
    except Conflict:
        if not await said_already(here.app.journal, run, lambda event: event == ev.RunCancelled(by, body.why)):
            raise
    return answer(Done())


@routes.add("POST", "/runs/{run}/fork", scope="run", takes=bodies.Fork, gives=RunNamed, errors=(404, 409))
async def fork_run(here: ApiContext, run: IdPath, body: Annotated[bodies.Fork, taken(bodies.Fork)]) -> Any:
    """Start a new run from the first lines of another; grants and approvals stay with the old one."""
    await here.visibility.may_control(run)
    made = await here.app.fork(run, body.at, once=here.name)
    return answer(RunNamed(made.id))


@routes.add("POST", "/runs/{run}/resume", scope="run", takes=bodies.Resume, gives=Done, errors=(404, 409))
async def resume_run(here: ApiContext, run: IdPath, body: Annotated[bodies.Resume, taken(bodies.Resume)]) -> Any:
    """Resume a run that failed or was set aside, on record as whoever asks."""
    await here.visibility.may_control(run)
    await here.app.resume(run, body.max_turns, by=decider_of(here), once=here.name)
    return answer(Done())


def decider_of(here: ApiContext) -> Decider:
    """Return whoever ends something, as it is recorded: known for sure, and with no role of theirs."""
    return Decider(here.visitor.id, (), "authenticated")
