"""Let a model object be used by one session at a time: it has one connection, and all its listeners hear the same."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from weakref import WeakValueDictionary

from ..core.errors import UserError
from .model import RealtimeModel

# The session of each model, by the model's identity; a session holds its model for as long as it is there itself.
_sessions: WeakValueDictionary[int, object] = WeakValueDictionary()


@contextmanager
def taken(model: RealtimeModel, session: object) -> Generator[None]:
    """Note that a session uses a model, unless an error is raised; refuse one that another session uses."""
    if _sessions.setdefault(id(model), session) is not session:
        raise UserError(
            f"another session uses this {type(model).__name__}, which has one connection: pass RealtimeRunner(model=) "
            "the class, or a function that makes one, and each session has its own"
        )
    try:
        yield
    except BaseException:
        let_go(model, session)
        raise


def let_go(model: RealtimeModel, session: object) -> None:
    """Let other sessions use a model, where this one does."""
    if _sessions.get(id(model)) is session:
        del _sessions[id(model)]
