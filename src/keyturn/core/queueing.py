"""Record a run that waits for its turn on a session, and begin it later.

Whose turn it is says the store's index of sessions; here is only that a run which waits has an input and no agent at
work. It begins once, and what it reads of its session it reads then.
"""

from __future__ import annotations

from . import commands as cm
from . import events as ev
from .errors import Conflict
from .gate.opening import Events, open_run
from .items import own_copy
from .run import Run

#: What says in the log of a session's owner of which session it is.
OWNED = "owned_session"


def queue(run: Run, c: cm.Queue) -> Events:
    """Start a run that begins later."""
    if run.status != "new":
        raise Conflict("this run has already started", winner=run.id)
    yield ev.RunStarted(c.run, c.salt, own_copy(c.input), own_copy(c.about), c.requester)
    yield ev.RunQueued(c.agent, c.max_turns)


def begin(run: Run, c: cm.Begin) -> Events:
    """Open the first frame of a run that waited for its turn."""
    open_run(run)
    if not run.queued:
        raise Conflict("this run has begun already", winner=run.id)
    yield ev.FrameOpened(ev.ROOT, run.root_agent, own_copy(c.items), run.max_turns, c.guarded, c.prefix)


def queued(run: Run, event: ev.RunQueued) -> None:
    """Fold that a run waits for its turn."""
    run.queued = True
    run.root_agent = run.last_agent = event.agent
    run.max_turns = event.max_turns
