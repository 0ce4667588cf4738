"""Record that a run starts: at once, or as one that waits for its turn on its session and begins when that has come."""

from __future__ import annotations

from typing import Any

from ..core import commands as cm
from ..core import events as ev
from ..core.errors import UserError
from ..core.items import Item, input_items
from ..journal.base import Sessions
from .driving.drive import Drive
from .driving.stop import NO_MORE_ROUNDS
from .effects.input_guardrails import guarded, input_guardrails
from .run.about import about_run, secrets_of, session_name
from .run.new_ids import new_id
from .run.open_run import new_salt
from .session.owner import own_given
from .session.sync import opening
from .session.turn import runs_before
from .states.context_data import context_now

QUEUE = "queue"


async def start(drive: Drive, given: dict[str, Any], said: list[Item], limits: dict[str, Any] | None) -> None:
    """Record a new run; `given` is what its caller said, and `said` what was added since."""
    live, scope = drive.live, drive.scope(ev.ROOT)
    agent = live.graph.root
    about = about_run(given, scope, live.session) | secrets_of(
        live.graph.agent_at.values(), [*input_items(given["input"]), *said]
    )
    after = [*([cm.Resume(limits=limits)] if limits else []), *context_now(live)]
    await own_given(live.journal, live.session, given.get("requester"), about)
    if live.session is not None and scope.config.paused_session == QUEUE:
        _check_index(drive, about)
        drive.run.id = drive.run.id or new_id()
        told = [*input_items(given["input"]), *said] if said else given["input"]
        await drive.commit(
            cm.Queue(
                drive.run.id,
                new_salt(drive.run.id),
                told,
                about,
                agent.name,
                given["max_turns"],
                given.get("requester"),
            ),
            *after,
        )
        return
    items, prefix = await opening(drive, ev.ROOT, scope, input_items(given["input"]))
    drive.run.id = drive.run.id or new_id()
    await drive.commit(
        cm.Start(
            drive.run.id,
            new_salt(drive.run.id),
            given["input"],
            about,
            agent.name,
            items,
            given["max_turns"],
            _guarded(drive),
            prefix,
            given["previous_response_id"],
            given.get("requester"),
            barrier=not agent.realtime,
        ),
        *([cm.AddInput(ev.ROOT, said)] if said else []),
        *after,
    )
    if live.session is not None and live.journal is not None and session_name(about):
        await runs_before(drive)  # which ends those that this one superseded


async def begin(drive: Drive) -> list[str]:
    """Begin a run that waited, unless others come before it on its session: return those."""
    scope = drive.scope(ev.ROOT)
    if drive.stops & NO_MORE_ROUNDS:
        return []
    if before := await runs_before(drive):
        return before
    items, prefix = await opening(drive, ev.ROOT, scope, input_items(drive.run.input), in_turn=True)
    before = await runs_before(drive)  # again: a run that failed may have been resumed while the session was read
    if not before:
        await drive.commit(cm.Begin(items, _guarded(drive), prefix))
    return before


def _guarded(drive: Drive) -> ev.Guarded:
    return guarded(input_guardrails(drive.live.graph.root, drive.scope(ev.ROOT)))


def _check_index(drive: Drive, about: dict[str, Any]) -> None:
    """Refuse to queue where nobody could say who comes first."""
    if not isinstance(drive.live.journal, Sessions):
        raise UserError(
            'paused_session="queue" needs a journal that knows which runs are on a session: pass journal= with one of '
            'Keyturn\'s, or choose paused_session="refuse"'
        )
    if not session_name(about):
        raise UserError(
            'paused_session="queue" needs a session that says its session_id; give it one, or App.start(session_id=)'
        )
