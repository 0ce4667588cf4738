"""Count a call against limits that several runs share: before it is let run, and back where it did not run.

What others were counted for is read before a policy is asked, and the call is counted before its verdict is recorded.
If somebody else took the last room in between, the policy is asked again. What cannot be counted is over every limit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from ...core import commands as cm
from ...core.digest import digest
from ...core.errors import Conflict, LogDamaged, NotPending
from ...core.lookalikes import looks_as
from ...core.policy import CallView, Share
from ...core.quota import arguments_key
from ...core.records import Watch
from ...core.run import Call, Run
from ...core.states import OVER
from ..driving.drive import Drive
from ..driving.quota_logs import Taker, give_back, quota_count
from ..facts.reaches import common_of
from ..logger import error_words, logger

Key = tuple[str, str, int | None]
_LAST = (1 << 62) - 1


class NoRoom(Exception):
    """Raised where a call was within a limit when it was judged, and others took the room since."""


@dataclass
class _Wanted:
    """Holds what a call takes of one count, and the limits that share it: those of policies that decide."""

    key: Key
    count: str
    spent: Fraction
    own: str
    amount: Fraction = Fraction(0)
    limits: list[Share] = field(default_factory=list[Share])

    def add(self, share: Share, *, shadow: bool) -> None:
        """Count the call once for all that share the count; one in shadow mode holds nothing, and adds nothing."""
        if shadow and self.limits:
            return
        self.amount = share.amount if not shadow and not self.limits else max(self.amount, share.amount)
        self.limits += [] if shadow else [share]

    @property
    def most(self) -> Fraction | None:
        """Return what the sum is held to: by each limit that the call was not over, since it is let run all the same.

        None where it was over all of them.
        """
        rooms = [each.most - each.amount for each in self.limits if self.spent + each.amount <= each.most]
        return min(rooms) + self.amount if rooms else None


class Quotas:
    """Holds the limits that a call is counted against, and what others were counted for when it was judged."""

    def __init__(self, drive: Drive, call: Call) -> None:
        self._drive = drive
        self._taker = Taker(drive.run.id, call.id, arguments_key(drive.run, call, call.text), _epoch(drive))
        self._agent = call.agent
        self._wanted: dict[Key, _Wanted] = {}
        self._watching: dict[Key, tuple[Watch, list[int]]] = {}
        self._before = set(call.quotas)
        self._lost = set[Key]()

    @property
    def spent(self) -> dict[Key, Fraction]:
        """Return what others were counted for, by limit."""
        return {key: wanted.spent for key, wanted in self._wanted.items()}

    @property
    def times(self) -> dict[Key, list[int]]:
        """Return when calls did not go well of those that share a breaker."""
        return {key: times for key, (_, times) in self._watching.items()}

    @property
    def watched(self) -> tuple[Watch, ...]:
        """Return the counts that are to be told what becomes of the call."""
        return tuple(watch for watch, _ in self._watching.values())

    async def look(self, policies: tuple[Any, ...], view: CallView) -> None:
        """Read what others were counted for, of each limit that the call is about."""
        self._wanted, self._watching = {}, {}
        for owed in [
            key for key, made in self._drive.run.owed.items() if made.watched or made.call == self._taker.call
        ]:
            await _return(self._drive, owed)  # else it would be taken out after it was counted anew, or told too late
        for policy in policies:
            if getattr(policy, "counts_for_several_runs", False) is True:
                for share in policy.shares(view):
                    await self._look(share, getattr(policy, "shadow", False) is True)

    async def _look(self, share: Share, shadow: bool) -> None:
        drive, known = self._drive, self._wanted.get(share.key)
        if known is not None:
            known.add(share, shadow=shadow)
            return
        name = count_of(drive.run, self._agent, share)
        if name is None or drive.journal is None or share.key in self._lost:
            return
        try:
            count = quota_count(drive.journal, name, share.per_ms)
            if share.after and share.per_ms is not None:
                times = await count.times(drive.journal, drive.clock)
                self._watching[share.key] = Watch(name, share.per_ms, share.after), times
                return
            spent, own = await count.spent(drive.journal, self._taker, drive.clock)
        except (LogDamaged, Conflict) as error:
            self._unknown(share.key, error)
            return
        self._wanted[share.key] = _Wanted(share.key, name, spent, own)
        self._wanted[share.key].add(share, shadow=shadow)

    async def take(self) -> tuple[str, ...]:
        """Count the call, and return the logs that do; `NoRoom` where it would be over a limit now."""
        taken = list[str]()
        for wanted in sorted(self._wanted.values(), key=lambda each: each.count):  # in one order, for all who count
            try:
                log = await self._take(wanted)
            except NotPending:
                await self.back(taken)
                raise NoRoom from None
            taken += [] if log is None else [log]
        return tuple(taken)

    async def _take(self, wanted: _Wanted) -> str | None:
        """Count the call against one limit; None where nobody can, and it is let run all the same."""
        journal = self._drive.journal
        assert journal is not None
        count = quota_count(journal, wanted.count, wanted.key[2])
        try:
            return await count.take(journal, self._taker, self._drive.clock, wanted.amount, wanted.most)
        except (LogDamaged, Conflict) as error:
            self._unknown(wanted.key, error)
            if wanted.most is not None:
                raise NotPending("this limit can no longer be counted") from None
            return None

    def _unknown(self, key: Key, error: Exception) -> None:
        """Take every call as over a limit that nobody can count."""
        logger.warning("a limit cannot be counted, every call is over it: %s", error_words(error))
        self._lost.add(key)

    async def back_unused(self) -> None:
        """Count the call no more where an earlier holder of its run counted it, and it is not let run."""
        await self.back([wanted.own for wanted in self._wanted.values() if wanted.own])

    async def back(self, taken: list[str] | tuple[str, ...]) -> None:
        """Count the call no more where it was counted now, and not before."""
        for log in taken:
            if log not in self._before and self._drive.journal is not None:
                await give_back(self._drive.journal, self._taker, log, self._drive.clock)


def count_of(run: Run, agent: str, share: Share) -> str | None:
    """Name the count of those that share a limit; None where the run does not say whose it is.

    >>> from keyturn.core.run import new_run
    >>> count_of(new_run(), "desk", Share("5e1f", "requester", None, Fraction(1), Fraction(9))) is None
    True
    """
    if share.of in ("agent", "tenant"):
        return digest(share.name, share.of, agent if share.of == "agent" else "")
    common: dict[Any, list[Any]] = {**common_of(run)}
    shared = common.get(share.of)
    if shared is None:
        return None
    return digest(share.name, share.of, *shared[:-1], None if shared[-1] is None else looks_as(shared[-1]))


async def return_all(drive: Drive) -> None:
    """Tell other logs what is still to be told of a run that is over."""
    for owed in list(drive.run.owed) if drive.run.status in OVER else ():
        await return_owed(drive, owed)


async def return_owed(drive: Drive, owed: str) -> None:
    """Tell other logs what became of a call: it is counted no more, or counts for a breaker; and record that."""
    async with drive.screening:
        await _return(drive, owed)


async def _return(drive: Drive, owed: str) -> None:
    made = drive.run.owed.get(owed)
    if made is None:
        return
    over = drive.run.status in OVER  # no holder goes on with it, whatever its claim
    taker = Taker(drive.run.id, made.call, made.of, _LAST if over else _epoch(drive))
    journal = drive.journal
    for log in made.quotas if journal is not None else ():
        assert journal is not None
        try:
            await give_back(journal, taker, log, drive.clock)
        except (LogDamaged, Conflict) as error:  # it stays counted, which is the safe side
            logger.warning("a call that did not run stays counted in %s: %s", log, error_words(error))
    for watch in made.watched if journal is not None else ():
        assert journal is not None
        try:
            await quota_count(journal, watch.count, watch.per_ms).tell(journal, taker, drive.clock)
        except (LogDamaged, Conflict) as error:  # whoever cannot read it takes its breaker for open
            logger.warning("a call is not counted for a circuit breaker: %s", error_words(error))
    await drive.commit(cm.ReturnQuota(*taker))


def _epoch(drive: Drive) -> int:
    """Return the epoch of the claim under which a run is held."""
    return 0 if drive.claim is None else drive.claim.epoch
