"""Check the laws of limits that several runs share: a log that counts holds its sums, and forgets nobody's part."""

from __future__ import annotations

from fractions import Fraction

from ...core import events as ev
from ...core.policy import Trouble
from ..calls import AuditedCall, Broken, need
from ..run import AuditedRun


def taken(audited: AuditedRun, event: ev.QuotaTaken) -> None:
    """Check that a call is counted once, while the log counts, and that the sum is at most what it was held to."""
    place = (event.run, event.call, event.of)
    need(not audited.closed, "I1", f"call {event.call} of run {event.run} was counted after the log was closed")
    before = audited.parts.pop(place, None)
    twice = before is not None and before[1] >= event.epoch
    need(not twice, "I1", f"call {event.call} of run {event.run} was counted twice under one claim")
    amount, beside = _number(event.amount), _number(event.beside)
    need(amount >= 0 and beside >= 0, "I1", f"call {event.call} of run {event.run} was counted as less than nothing")
    audited.parts[place] = amount, event.epoch
    audited.sum += amount - (0 if before is None else before[0])
    audited.ever_taken.add((event.run, event.call))
    held = event.most is None or audited.sum + beside <= _number(event.most)
    need(held, "I1", f"with call {event.call} of run {event.run} the limit had been passed")


def returned(audited: AuditedRun, event: ev.QuotaReturned) -> None:
    """Check that a call that did not run is counted no more, in the log that counted it."""
    if event.run not in (audited.run, audited.bound_to):
        gone = audited.parts.pop((event.run, event.call, event.of), None)
        if gone is None:
            raise Broken("I8", f"call {event.call} of run {event.run} was not counted, and is no more")
        amount, epoch = gone
        need(epoch <= event.epoch, "I1", f"call {event.call} of run {event.run} was taken under a later claim")
        audited.sum -= amount
        return
    told = audited.to_tell.pop(event.call, ())
    if event.run == audited.run:  # what a fork copied is looked for in the run in which it was
        audited.breakers_notified += [(watch, event.call, audited.line) for watch in told]


def troubled(audited: AuditedRun, call: AuditedCall, trouble: Trouble) -> None:
    """Note that counts are to be told of a call that did not go well."""
    told = [watch for watch in call.watched if trouble in watch.after]
    audited.to_tell.setdefault(call.id, []).extend(told)


def tells_nothing(audited: AuditedRun) -> None:
    """Forget which counts were to be told of calls: what a fork copied is told by the run in which it was."""
    audited.to_tell = {}


def closed_for_new(audited: AuditedRun, _event: ev.QuotaClosed) -> None:
    """Record that no new calls are counted here."""
    audited.closed = True


def _number(text: str) -> Fraction:
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise Broken("I8", "an amount is no number") from None
