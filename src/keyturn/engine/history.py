"""A run and the session it belongs to: what it takes from it, what it gives back.

The history is never copied into the log: its content address is, and places in it. What a run adds is written once,
in order, at a pause and at the end; a write whose outcome is unknown is found again by its content, not repeated.
"""

from __future__ import annotations

import inspect
from typing import Any, cast

from ..core import commands as cm
from ..core.errors import Conflict, UserError
from ..core.items import Item, message_text, plain_item
from ..core.run import Frame
from ..sessions.history import content_address, drop_leading_orphans, orphan_calls, superseded_output
from .drive import Drive
from .live import Live
from .scope import Scope
from .segments import places

MOVED_ON = "not executed: the user moved on"


async def opening(live: Live, frame_id: str, scope: Scope, new: list[Item]) -> tuple[list[Item | int], str | None]:
    """The items a frame starts with and the address of the history they refer to."""
    session = scope.session
    if session is None:
        return list(new), None
    if scope.managed:
        raise UserError("a session and a conversation kept by the provider exclude each other; pass one of them")
    history = await _history(scope)
    settled = await _supersede(scope, history)
    history += settled
    live.prefixes[frame_id] = history
    callback = scope.config.session_input_callback
    if callback is None:
        return [*range(len(history)), *new], content_address(history)
    chosen: Any = callback(list(history), list(new))
    chosen = await chosen if inspect.isawaitable(chosen) else chosen
    return places(history, [plain_item(item) for item in chosen]), content_address(history)


async def _history(scope: Scope) -> list[Item]:
    settings = scope.config.session_settings
    limit = settings.limit if settings is not None else None
    stored = await scope.session.get_items() if limit is None else await scope.session.get_items(limit)
    return drop_leading_orphans([plain_item(item) for item in stored])


async def _supersede(scope: Scope, history: list[Item]) -> list[Item]:
    """Settle calls that a paused run left open in the session: the user moved on."""
    orphans = orphan_calls(history)
    if not orphans:
        return []
    if scope.config.paused_session == "refuse":
        raise Conflict(
            "a run on this session waits for a decision; decide it first, or let the message supersede it with "
            'RunConfig(paused_session="supersede")'
        )
    settled = [superseded_output(call, MOVED_ON) for call in orphans]
    await scope.session.add_items(settled)
    return settled


async def reopen(live: Live, frame: Frame, scope: Scope) -> None:
    """Find a frame's history again, after a load, and see that nobody wrote to the session since the pause."""
    if frame.prefix is None:
        return
    if scope.session is None:
        if frame.id in live.prefixes:
            return
        raise UserError("this run began with a session; pass the same session= to resume it")
    stored = [plain_item(item) for item in await scope.session.get_items()]
    held = _held(stored, frame.tape, frame.written)
    if held is None:
        raise Conflict("the session went on without this run: its pause was superseded by a newer message")
    if frame.id not in live.prefixes:
        live.prefixes[frame.id] = _prefix(stored[: len(stored) - held], frame)


def _prefix(stored: list[Item], frame: Frame) -> list[Item]:
    for start in range(len(stored) + 1):
        if content_address(stored[start:]) == frame.prefix:
            return stored[start:]
    raise UserError("the session no longer holds the history this run began with; restore it to resume the run")


def _held(stored: list[Item], tape: list[Item], written: int) -> int | None:
    """How much of the tape the session holds at its end; None where something else stands there."""
    marks, tail = [_mark(item) for item in tape], [_mark(item) for item in stored]
    for count in range(len(marks), written - 1, -1):
        if count == 0 or tail[-count:] == marks[:count]:
            return count
    return None


def _mark(item: Item) -> tuple[Any, ...]:
    """What is left of an item in any session, however it rewrites ids and fields."""
    content = item.get("content")
    text = content if isinstance(content, str) else message_text(item) or None
    kind = item.get("type", "message")
    return (kind, item.get("role"), item.get("call_id"), item.get("name"), item.get("arguments"), text)


async def save_session(drive: Drive, frame_id: str) -> None:
    """Write what a frame added since the last time, once."""
    frame, scope = drive.run.frames[frame_id], await drive.enter(frame_id)
    if scope.session is None or frame.prefix is None or frame.written == len(frame.tape):
        return
    start = frame.written
    if frame_id in drive.uncertain:
        stored = [plain_item(item) for item in await scope.session.get_items()]
        held = _held(stored, frame.tape, frame.written)
        start = start if held is None else held
    fresh = frame.tape[start:]
    drive.uncertain.add(frame_id)
    if fresh:
        await scope.session.add_items(cast("list[Any]", [dict(item) for item in fresh]))
    await drive.commit(cm.WroteSession(frame_id, start + len(fresh)))
    drive.uncertain.discard(frame_id)
