"""Synchronise a run with its session: what it reads from it, and what it writes back.

The history is never copied into the log: its content address is, and places in it. What a run adds is written once,
in order, at a pause and at the end; a write whose outcome is unknown is found again by its content, not repeated.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from ...agents.guardrail import OutputGuardrailBlockedMessageArgs
from ...core import commands as cm
from ...core.empties import owned
from ...core.errors import Conflict, UserError
from ...core.events import ROOT
from ...core.items import Item, own_copy, plain_item
from ...core.run import Frame, Run
from ...sessions.base import SessionSettings, called
from ...sessions.history import drop_leading_orphans, history_address, orphan_calls, orphan_outputs, superseded_output
from ...support.user_code import answer_of, run_callback
from ..driving.drive import Drive
from ..driving.lease import still_held
from ..logger import error_words, logger
from ..run.about import session_name
from ..run.frame_settings import FrameSettings
from .matching import holds, overlaps
from .owner import own_given
from .segments import places

MOVED_ON = "no result: the user moved on. If the call still waited for approval, it is not executed."
WENT_ON = "the session went on without this run: its pause was superseded by a newer message"
NOT_HERE = (
    "the session holds nothing of what this run wrote to it: it was emptied, or it is kept elsewhere. Resume the run "
    "where its session is, or cancel it"
)
# A limit that no conversation reaches, and that a database takes as a number of rows.
_EVERYTHING = 2**31 - 1
WITHHELD = "Output withheld by an output guardrail."


class Superseded(Conflict):
    """Raised where a session went on without its run, which can never be resumed then."""


async def opening(
    drive: Drive, frame_id: str, scope: FrameSettings, new: list[Item], *, in_turn: bool = False
) -> tuple[list[Item | int], str | None]:
    """Return the items a frame starts with and the address of the history they refer to.

    `in_turn` says that nobody comes before the run on its session: what it finds open there nobody will go on with.
    """
    session = scope.session
    if session is None:
        return list(new), None
    scope.check_session()
    history = await _history(scope)
    if await _supersede(drive, scope, history, in_turn=in_turn):
        history = await _history(scope)  # others may have written between what was read and what was settled
    owned(drive.live, "prefixes")[frame_id] = history
    callback = scope.config.session_input_callback
    if callback is None:
        return [*range(len(history)), *new], history_address(history)
    chosen = await answer_of(callback, own_copy(history), own_copy(new))
    return places(history, [plain_item(item) for item in chosen]), history_address(history)


async def _history(scope: FrameSettings) -> list[Item]:
    return drop_leading_orphans(await _read(scope, _limit(scope)))


def _limit(scope: FrameSettings) -> int | None:
    """Return how much of its session a run reads: by its own settings, and else by the session's."""
    for settings in (scope.config.session_settings, getattr(scope.session, "session_settings", None)):
        limit = getattr(settings, "limit", None)
        if limit is not None:
            return SessionSettings(limit).limit
    return None


async def _read(scope: FrameSettings, limit: int | None) -> list[Item]:
    """Return the newest items of a frame's session, as copies; None is all that it gives."""
    newest = {} if limit is None else {"limit": limit}
    stored = await answer_of(called, scope.session.get_items, scope.context, **newest)
    return [own_copy(plain_item(item)) for item in stored]


async def _write(drive: Drive, scope: FrameSettings, items: list[Item]) -> None:
    """Append copies of these items to a frame's session.

    One that is cut off may still arrive: a lease runs out by itself then, and the next run of the session waits for it.
    """
    drive.stops.add("unanswered")
    answered = True
    try:
        await answer_of(called, scope.session.add_items, scope.context, items=[own_copy(item) for item in items])
    except asyncio.CancelledError:
        answered = drive.claim is None  # nobody may ever take the run up: what it said is written once more
        raise
    finally:
        if answered:
            drive.stops.discard("unanswered")


async def _stored(scope: FrameSettings) -> list[Item]:
    """Return all that a session holds, beyond the limit of its own settings."""
    limited = getattr(getattr(scope.session, "session_settings", None), "limit", None) is not None
    return await _read(scope, _EVERYTHING if limited else None)


async def _supersede(drive: Drive, scope: FrameSettings, history: list[Item], *, in_turn: bool = False) -> bool:
    """Settle calls that a paused run left open in the session, and return whether there were any: the user moved on.

    What became of them is not in the session: one may be in doubt, or approved and running right now.
    """
    orphans = orphan_calls(history)
    if not orphans:
        return False
    if scope.config.paused_session != "supersede" and not in_turn:
        raise Conflict(
            "a run on this session requires a decision; decide it first, add the message to its state with "
            'add_input(), or let the message supersede it with RunConfig(paused_session="supersede")'
        )
    settled = [superseded_output(call, MOVED_ON) for call in orphans]
    await still_held(drive)
    await _write(drive, scope, settled)
    return True


async def superseded(scope: FrameSettings, run: Run) -> bool:
    """Return whether a session went on without a run that began on it, which can never be resumed then."""
    stored, frame = await _stored(scope), run.frames[ROOT]
    ways = list(overlaps(stored, frame.tape, frame.written))
    if not ways:
        return holds(stored, frame.tape[: frame.written])
    return in_turn(scope, run) and _overtaken(stored, frame, ways, _limit(scope))


def in_turn(scope: FrameSettings, run: Run) -> bool:
    """Return whether a run had its session to itself from its begin on."""
    return scope.config.paused_session == "queue" and bool(session_name(run.about))


def _overtaken(stored: list[Item], frame: Frame, ways: list[tuple[int, int]], limit: int | None) -> bool:
    """Return whether a session of which a run held the end, and wrote nothing to it, holds more by now."""
    address = frame.prefix or ""
    if any(taken for _count, taken in ways):
        return False
    if not _length(address):  # a limit may have hidden what was there
        return limit is None and bool(drop_leading_orphans(stored))
    return _prefix(stored, address) is None and _earlier(stored, address) is not None


async def reopen(drive: Drive, frame: Frame, scope: FrameSettings) -> list[cm.RunCommand]:
    """Find a frame's history again after a load, and check that nobody wrote to the session since the pause.

    What is returned is to be recorded with the resume: that a run without a session has one from now on.
    """
    live, known = drive.live, drive.live.prefixes.get(frame.id)
    if frame.prefix is None:
        return await _taken(drive, scope) if scope.session is not None and frame.id == ROOT else []
    if scope.session is None:
        if known is not None:
            return []
        raise UserError("this run has a session; pass the same session= to resume it")
    stored = await _stored(scope)
    ways = _ways(stored, frame)
    if frame.id == ROOT and in_turn(scope, drive.log.run) and _overtaken(stored, frame, ways, _limit(scope)):
        raise Superseded(WENT_ON)
    held, prefix = _found(stored, frame, ways, known)
    owned(live, "prefixes")[frame.id] = prefix
    if held != frame.written:  # a write that seemed to fail had not
        await drive.commit(cm.WroteSession(frame.id, held))
    return []


async def _taken(drive: Drive, scope: FrameSettings) -> list[cm.RunCommand]:
    """Give a run its first session, in which the whole of it will stand, after what is there already."""
    await own_given(drive.live.journal, scope.session, drive.log.run.requester, drive.log.run.about)
    await _supersede(drive, scope, await _history(scope))
    owned(drive.live, "prefixes")[ROOT] = []
    return [cm.WroteSession(ROOT, 0, history_address([]))]


def _ways(stored: list[Item], frame: Frame) -> list[tuple[int, int]]:
    ways = list(overlaps(stored, frame.tape, frame.written))
    if not ways and holds(stored, frame.tape[: frame.written]):
        raise Superseded(WENT_ON)
    if not ways:
        raise UserError(NOT_HERE)
    return ways


def _found(
    stored: list[Item], frame: Frame, ways: list[tuple[int, int]], known: list[Item] | None
) -> tuple[int, list[Item]]:
    """Return how much of the tape the session holds at its end, and the history that the run began with.

    The parts of runs that were at work at the same time may stand between them.
    """
    if known is not None and all(count == frame.written for count, _taken in ways):
        return frame.written, known
    for find in (_prefix, _earlier):
        for count, taken in ways:
            prefix = find(stored[: len(stored) - taken], frame.prefix or "")
            if prefix is not None:
                return count, prefix
    raise UserError("the session no longer holds the history this run began with; restore it to resume the run")


def _prefix(stored: list[Item], address: str) -> list[Item] | None:
    """Return the history of that address at the end of what is stored, None where it is not there."""
    length = _length(address)
    for start in range(len(stored) - length, -1, -1):
        window = drop_leading_orphans(stored[start:])
        if len(window) > length:
            return None
        if len(window) == length and history_address(window) == address:
            return window
    return None


def _earlier(stored: list[Item], address: str) -> list[Item] | None:
    """Return the history of that address from further up, None where it is not there."""
    ends = range(len(stored) - 1, _length(address) - 1, -1)
    return next((found for end in ends if (found := _prefix(stored[:end], address)) is not None), None)


def _length(address: str) -> int:
    return int(address.partition(":")[0])


async def save_session(drive: Drive, frame_id: str, *, stopped: bool = False) -> None:
    """Write what a frame added since the last time, once; no unjudged answer of a stopped run."""
    frame, scope = drive.log.run.frames[frame_id], await drive.enter(frame_id)
    if scope.session is None or frame.prefix is None or frame.written == len(frame.tape):
        return
    start, tape = frame.written, _tellable(drive, frame, scope, stopped)
    if frame_id in drive.uncertain:
        stored = await _stored(scope)
        start = _found(stored, frame, _ways(stored, frame), None)[0]
    fresh = await _in_time(frame, scope, tape[start:])
    await still_held(drive)
    drive.uncertain.add(frame_id)
    if fresh:
        await _write(drive, scope, fresh)
    await drive.commit(cm.WroteSession(frame_id, start + len(fresh)))
    drive.uncertain.discard(frame_id)


async def _in_time(frame: Frame, scope: FrameSettings, fresh: list[Item]) -> list[Item]:
    """Return what a run adds to its session; results of calls that were settled there meanwhile are told in words.

    A conversation with two results of one call is refused by providers, and the first one says that there is none.
    """
    late = orphan_outputs(fresh)
    if not late or list(overlaps(await _stored(scope), frame.tape, frame.written)):
        return fresh
    return [_told_late(item) if any(item is one for one in late) else item for item in fresh]


def _told_late(item: Item) -> Item:
    output = item.get("output", item)
    text = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
    return {
        "role": "assistant",
        "content": f"The result of call {item.get('call_id')} came after the user moved on: {text}",
    }


def _tellable(drive: Drive, frame: Frame, scope: FrameSettings, stopped: bool) -> list[Item]:
    """Return the tape without what is withheld: an answer, its tool's result, or whatever followed an input."""
    tape, report = frame.tape, frame.tripped
    answer = len(tape) - (len(frame.items) - frame.sent) - frame.replied
    if report is None:
        return tape[:answer] if stopped and frame.phase == "judge" and not frame.results else tape
    if report.stage == "input":
        return tape[: sum(isinstance(item, dict) for item in frame.items[: frame.history])]
    if not frame.results:
        return tape[:answer]
    words = _withheld(scope, report.name, drive.graph.agent_at[frame.agent])
    hidden = {id(call.item): superseded_output(call.raw, words) for call in frame.results}
    return [hidden.get(id(item), item) for item in tape]


def _withheld(scope: FrameSettings, guardrail: str, agent: object) -> str:
    """Return what a session holds in place of a result that an output guardrail withheld."""
    words: Any = scope.config.output_guardrail_blocked_message
    if callable(words):
        try:
            words = run_callback(words, OutputGuardrailBlockedMessageArgs(WITHHELD, guardrail, agent, scope.context))
        except Exception as error:  # it must be withheld, with whatever words
            logger.warning("output_guardrail_blocked_message raised, our words stand: %s", error_words(error))
            words = None
    return words if isinstance(words, str) and words else WITHHELD
