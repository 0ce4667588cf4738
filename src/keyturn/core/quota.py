"""Count calls of many runs against one quota, in a log that they share.

As with a grant that is lent (`lending.py`), a use is recorded at home first, here in the log of the quota, and then in
the run whose call it is. Two calls that want the last room race for one log, and one of them loses. What a run recorded
as taken it owes back once its call is known not to have run; what it took and never recorded stays taken, which is the
safe side, and the same call with the same arguments takes it once. A holder of the run who lost it, and wakes up, can
return only what was taken under its own claim or an earlier one: the next holder takes over what it relies on.

A limit in a window of time has one log for each stretch as long as its window, so that none grows for ever. A new one
counts only once the one before it is closed: then that one's sum can only get smaller.
"""

from __future__ import annotations

from fractions import Fraction
from hashlib import blake2b

from . import commands as cm
from . import events as ev
from .counted import CountedCall, OwedReturn, QuotaUse
from .empties import owned
from .errors import Conflict, NotPending, UserError
from .gate.opening import Events
from .policy import Trouble
from .run import Call, Run, used_by

#: What a log says of itself that counts calls of other runs: `{"limit": NAME, "per_ms": NUMBER or None}`.
LIMIT = "quota"
#: What wins against a call that would be counted where nothing new is.
CLOSED = "closed"


def take(run: Run, c: cm.TakeQuota) -> Events:
    """Count a call, once for the same arguments; refuse it where that would be more than the limit."""
    _check_quota(run, c.run)
    amount = Fraction(c.amount)
    if amount < 0 or Fraction(c.beside) < 0:
        raise UserError("a call takes no less than nothing of a limit")
    known = run.taken.get(_place(c.run, c.call, c.of))
    if known is not None and known.epoch >= c.epoch:
        return
    if run.closed:
        raise Conflict("this log counts no new calls; take it of the next one", winner=CLOSED)
    others = run.spent - (0 if known is None else known.amount)
    if c.most is not None and others + Fraction(c.beside) + amount > Fraction(c.most):
        raise NotPending("the limit has no room left for this call")
    yield ev.QuotaTaken(c.run, c.call, c.of, c.amount, c.most, c.beside, c.epoch)


def give_back(run: Run, c: cm.ReturnQuota) -> Events:
    """Count a call no more; asked for a second time, this does nothing."""
    if c.run == run.id:
        if owed_as(c.call, c.of) in run.owed:
            yield ev.QuotaReturned(c.run, c.call, c.of)
        return
    known = run.taken.get(_place(c.run, c.call, c.of))
    if known is not None and known.epoch <= c.epoch:
        yield ev.QuotaReturned(c.run, c.call, c.of, c.epoch)


def close(run: Run, _c: cm.CloseQuota) -> Events:
    """Count no new calls from now on."""
    _check_quota(run, "")
    if not run.closed:
        yield ev.QuotaClosed()


def _check_quota(run: Run, taker: str) -> None:
    if LIMIT not in run.about or run.id == taker:
        raise UserError("this is the log of a run, which counts nothing for other runs")


def spent_since(run: Run, since: int | None) -> Fraction:
    """Return what is counted here, from a time on."""
    if since is None or not run.taken:
        return run.spent
    total = run.spent
    for taken in run.taken.values():  # in the order of time
        if taken.at >= since:
            break
        total -= taken.amount
    return total


def counted_for(run: Run, taker: str, call: str, of: str) -> QuotaUse | None:
    """Return what a call is counted for here; None where it is not."""
    return run.taken.get(_place(taker, call, of))


def arguments_key(run: Run, call: Call, text: str) -> str:
    """Return a name for a call's arguments, by which it is counted once; without its key it tells nothing."""
    key = (call.proposal.key or run.salt).encode()[:64]
    return blake2b(text.encode("utf-8", "surrogatepass"), key=key, digest_size=16).hexdigest()


def _place(run: str, call: str, of: str) -> str:
    return f"{used_by(run, call)} {of}"


# What is folded -----------------------------------------------------------------------------------------------------


def taken(run: Run, event: ev.QuotaTaken) -> None:
    """Fold a call that is counted, once: what an earlier holder of its run took is replaced."""
    made = QuotaUse(run.now, Fraction(event.amount), event.epoch)
    place = _place(event.run, event.call, event.of)
    before = run.taken.pop(place, None)  # so that what is counted stays in the order of time
    owned(run, "taken")[place] = made
    run.spent += made.amount - (0 if before is None else before.amount)


def returned(run: Run, event: ev.QuotaReturned) -> None:
    """Fold a call that is counted no more."""
    if event.run == run.id:
        run.owed.pop(owed_as(event.call, event.of), None)
        return
    gone = run.taken.pop(_place(event.run, event.call, event.of), None)
    run.spent -= gone.amount if gone is not None else 0


def closed(run: Run, _event: object) -> None:
    """Fold the end of a stretch of time."""
    run.closed = True


def owed_as(call: str, of: str) -> str:
    """Return the key of what is owed for a call."""
    return f"{call} {of}"


def owe(run: Run, call: Call, let: CountedCall | None) -> None:
    """Owe back what a call took that does not run."""
    if call.quotas:
        of = arguments_key(run, call, call.text if let is None else let.text)
        _owe(run, OwedReturn(call.id, of, quotas=call.quotas))
        call.quotas = ()


def _owe(run: Run, more: OwedReturn) -> None:
    """Owe what is to be said of a call, and what was owed of it before."""
    known = run.owed.get(owed_as(more.call, more.of))
    if known is not None:
        watched = tuple(dict.fromkeys((*known.watched, *more.watched)))
        more = OwedReturn(more.call, more.of, (*known.quotas, *more.quotas), watched)
    owned(run, "owed")[owed_as(more.call, more.of)] = more


def tell_of(run: Run, call: Call, trouble: Trouble) -> None:
    """Owe it to the counts that watch a call to tell them what became of it."""
    told = tuple(watch for watch in call.watched if trouble in watch.after)
    if told:
        _owe(run, OwedReturn(call.id, arguments_key(run, call, call.text), watched=told))


def owe_unless_let(run: Run, call: Call) -> None:
    """Owe back what a call took that was counted as one that runs, and is not let run."""
    if call.let is None:
        owe(run, call, None)


def owe_unused(run: Run) -> None:
    """Owe back what was taken for calls that never began, in a run that is cancelled."""
    for call in run.groups["run"].values():
        if not call.begun:
            owe(run, call, call.let)
