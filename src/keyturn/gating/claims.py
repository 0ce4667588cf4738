"""Claim calls that run here, keep the claims, and report what came of them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import Any

from ..asks.ask import AskState, Outcome
from ..core.errors import Conflict
from ..support.user_code import class_name
from .door import AskPlace
from .errors import error_of

_log = logging.getLogger("keyturn.gating")
_RENEWED = 180.0
# For how many seconds a claim is tried again while others move its run: longer than the lease of a process that died.
_HELD, _AGAIN = 90.0, 0.2


async def claimed(asks: AskPlace, state: AskState, name: str) -> AskState:
    """Claim an approved call as it was shown, or raise why it cannot be run."""
    digest, ends = state.digest, time.monotonic() + _HELD
    while state.status == "approved" and state.digest == digest:
        try:
            return await asks.claim(state.id, digest, name)
        except Conflict:  # a process that died may hold its run for a while, and none has claimed the call
            state = await asks.get(state.id)
        if time.monotonic() >= ends:
            break
        await asyncio.sleep(_AGAIN)
    raise error_of(state)


async def renewed(asks: AskPlace, id: str, name: str) -> None:
    """Prolong a claim until this is cancelled."""
    while True:
        await asyncio.sleep(_RENEWED)
        with contextlib.suppress(Exception):  # it is tried again, and without it the call is in doubt in the end
            await asks.hold(id, name)


async def reported(asks: AskPlace, state: AskState, name: str, outcome: Outcome, result: Any) -> None:
    """Report what came of a call; unrecorded it is in doubt there, and the outcome all the same."""
    try:
        await asks.report(state.id, name, outcome, result)
    except Exception as error:
        _log.warning("the outcome of %s (%s) was not recorded: %s", state.tool, state.id, error)


def outcome_of(error: BaseException) -> tuple[Outcome, str]:
    """Return how an error of what ran is reported; one that came from outside leaves open what was done.

    >>> outcome_of(ValueError("no such order"))
    ('failed', 'ValueError')
    """
    return ("failed" if isinstance(error, Exception) else "unknown"), class_name(error)
