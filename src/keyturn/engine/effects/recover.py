"""Recover started calls that have no result when a run is taken up again: in doubt, started anew, or probed.

Only whoever holds the run may say so. A tool that declares a `check` is asked whether the effect happened before a
person is.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from ...core import commands as cm
from ...core.effects import at_work
from ...core.errors import Conflict, NotAllowed
from ...core.request import request_of
from ...core.run import Call
from ...support.user_code import answer_of
from ...tools.known_digests import is_tool
from ..driving.drive import Drive
from ..driving.home import lives_elsewhere
from ..facts import decisions
from ..facts.values import said_output
from ..logger import error_words, logger

_WHY = "the process that ran it ended before its result was recorded"


async def recover(drive: Drive, decided: Container[str]) -> None:
    """Settle what was started and never finished, as far as that can be done without a person.

    A call in `decided` has a person's word already, which no probe overrules.
    """
    await _check_open_elsewhere(drive, decided)
    await lose_started(drive, _WHY)
    for call in list(drive.run.groups["wait"].values()):
        if call.state == "in_doubt" and call.proposal.recover == "probe" and call.id not in decided:
            await _probe(drive, call)


async def _check_open_elsewhere(drive: Drive, decided: Container[str]) -> None:
    """Refuse to go on with an answered call that stands open in another process; a worker leaves it to that one."""
    for call in [] if drive.patient else list(drive.run.calls.values()):
        answered = call.need is not None and (call.supplied is not None or call.id in decided)
        if answered and await lives_elsewhere(drive.journal, drive.home, call):
            raise Conflict(
                f"the call of {call.proposal.name!r} is open in another process, a worker of this journal: answer it "
                f"in an inbox, and that worker continues it"
            )


async def _probe(drive: Drive, call: Call) -> None:
    """Ask the tool's `check`: True or an output says it ran, False that it did not; anything else leaves the doubt."""
    tool = await drive.find_tool(call)
    if tool is None or tool.check is None or not is_tool(tool, call.raw, call.proposal.tool):
        return  # what another tool, or a changed one, finds says nothing of what this call touched
    try:
        answer = await answer_of(tool.check, drive.tool_context(call, tool))
        said = _said(drive, call, answer)
    except Exception as error:  # it cannot tell, or not in words that a log can hold
        logger.warning(
            "the check of %r was inconclusive, a person must resolve the call: %s", tool.name, error_words(error)
        )
        return
    if said is not None:
        try:
            await drive.commit(cm.Deliver([said.decision]))
        except NotAllowed as error:  # that it did not run lets it run only as before, and that may be over
            logger.info(
                "the check of %r returned no valid answer, a person must resolve the call: %s",
                tool.name,
                error_words(error),
            )


def _said(drive: Drive, call: Call, answer: Any) -> decisions.MadeDecision | None:
    if answer is None:
        return None
    ran = answer is not False
    output = None if answer is True or not ran else said_output(answer, "what a check found")
    now = drive.live.clock()
    return decisions.resolve(request_of(drive.run, call), now, "ran" if ran else "retry", output, via="probe")


async def lose_started(drive: Drive, why: str) -> list[Call]:
    """Record that every started call is lost; only the holder of the lease may."""
    while lost := _at_work(drive):
        try:
            await drive.commit(*(cm.LoseCall(call, why) for call in lost))
        except Conflict:
            if _at_work(drive).keys() == lost.keys():
                raise
            continue  # one of them has ended: its result was being recorded meanwhile
        break
    return [*lost.values()]


def _at_work(drive: Drive) -> dict[str, Call]:
    return {call.id: call for call in at_work(drive.run)}
