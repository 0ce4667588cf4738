"""Claim calls that run here, keep the claims, report what came of them, and give back claims of which nothing ran."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from ..asks.ask import AskState, Outcome
from ..core.errors import Conflict
from ..engine.run.new_ids import new_id
from ..support.user_code import class_name
from .door import AskPlace
from .errors import NOT_RUN, error_of
from .giving_up import unless_given_up

_log = logging.getLogger("keyturn.gating")
_RENEWED = 180.0
# For how many seconds a claim is tried again while others move its run: longer than the lease of a process that died.
_HELD, _AGAIN = 90.0, 0.2


class Attempt:
    """Knows how far a call has come: its request, where one is withdrawn with it, and its claim."""

    def __init__(self) -> None:
        self.name = new_id()
        self.asked: AskState | None = None
        self.claim: AskState | None = None

    async def decided(
        self, asks: AskPlace, asked: Awaitable[AskState], waited: Callable[[AskState], Awaitable[AskState]]
    ) -> AskState:
        """Ask, and return the request once it was waited for; a caller that stops waiting withdraws it."""
        self.asked = await unless_given_up(asked, waited, lambda state: _withdrawn(asks, state))
        return self.asked

    async def claimed(self, asks: AskPlace, state: AskState) -> AskState:
        """Claim an approved call as it was shown, or raise why it cannot be run."""
        self.claim = await claimed(asks, state, self.name)
        return self.claim

    async def given_up(self, asks: AskPlace) -> None:
        """Leave nothing behind that could run, or that looks as if it had: the caller stopped before the call began."""
        with contextlib.suppress(Exception):
            if self.claim is not None:
                await given_back(asks, self.claim, self.name)
            elif self.asked is not None:
                await _withdrawn(asks, self.asked)


async def claimed(asks: AskPlace, state: AskState, name: str) -> AskState:
    """Claim an approved call as it was shown, or raise why it cannot be run."""
    digest, ends = state.digest, time.monotonic() + _HELD
    while state.status == "approved" and state.digest == digest:
        try:
            return await claimed_once(asks, state, name)
        except Conflict:  # a process that died may hold its run for a while, and none has claimed the call
            state = await asks.get(state.id)
        if time.monotonic() >= ends:
            break
        await asyncio.sleep(_AGAIN)
    raise error_of(state)


async def claimed_once(asks: AskPlace, state: AskState, name: str) -> AskState:
    """Claim a call; where this is cancelled, a claim that is on its way is given back."""

    async def kept(claim: AskState) -> AskState:
        return claim

    claiming = asks.claim(state.id, state.digest, name)
    return await unless_given_up(claiming, kept, lambda claim: given_back(asks, claim, name))


async def _withdrawn(asks: AskPlace, state: AskState) -> None:
    await asks.withdraw(state.id, why="the caller stopped waiting")


async def given_back(asks: AskPlace, claim: AskState, name: str) -> None:
    """Report that a call that was claimed did not run: its caller stopped before it began."""
    await asks.report(claim.id, name, "failed", NOT_RUN)


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
