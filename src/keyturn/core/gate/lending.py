"""Lend a standing decision of one run to a call of another.

A grant that reaches beyond its run is kept in the log of the run in which it was given, its home. Another run borrows
it for one call at a time. Each use is recorded at home first, where expiry, uses and revocation are judged for all
runs together; the borrower then records its own copy, which is good for that one call and for nothing else.
"""

from __future__ import annotations

from msgspec.structs import replace

from .. import commands as cm
from .. import events as ev
from ..empties import owned
from ..errors import NotAllowed, NotPending, UserError
from ..people import kept_out
from ..run import Run, used_by
from .opening import Events, open_run


def lend(run: Run, c: cm.LendGrant) -> Events:
    """Record that a call of another run uses a grant of this one.

    One call uses it once: a process that died before the loan was taken over asks again, and nothing is counted. What
    was revoked or has run out meanwhile is not lent again.
    """
    grant = run.grants.get(c.grant)
    user = used_by(c.run, c.call)
    if grant is None or grant.call is not None or not grant.reach or grant.reach not in c.reaches or c.run == run.id:
        raise NotPending("this run has no such grant for that one; it was already revoked or never given")
    if grant.expires_at is not None and run.now >= grant.expires_at:
        raise NotPending("that grant has expired")
    if run.lent.get(user) == c.grant:
        return
    if user in run.lent:
        raise NotPending("that call was lent another grant of this run")
    if grant.uses is not None and run.grant_uses[grant.id] >= grant.uses:
        raise NotPending("that grant has no uses left")
    yield ev.GrantLent(c.grant, c.run, c.call)


def borrowed(grant: ev.GrantTerms, call_id: str) -> ev.GrantTerms:
    """Return the terms on which a call of another run borrows a grant: for itself alone, and once.

    >>> own = borrowed(ev.GrantTerms("g1", "desk", "t1", uses=9, reach="agent"), "r/1.0")
    >>> own.id, own.call, own.uses
    ('g1@r/1.0', 'r/1.0', 1)
    """
    return replace(grant, id=f"{grant.id}@{call_id}", uses=1, call=call_id)


def borrow(run: Run, c: cm.BorrowGrant) -> Events:
    """Record a grant that another run lent to one call of this one; a run that failed meanwhile borrows nothing."""
    open_run(run)
    grant = c.grant
    if grant.id in run.grant_uses or run.status == "failed":  # borrowed before, and its call is decided or about to be
        return
    if not (grant.call and grant.reach and grant.uses == 1 and grant.verdict == "approve") or c.home in ("", run.id):
        raise UserError("a run borrows an approval of another run, for one call of its own")
    yield ev.GrantBorrowed(grant, c.home)


def revoke(run: Run, c: cm.Revoke) -> Events:
    """Revoke a standing decision: an approval for anybody, a rejection for those who may decide such a call."""
    grant = run.grants.get(c.grant)
    if grant is None:
        raise NotPending("this run has no such grant; it was already revoked or never given")
    why = kept_out(grant.terms, c.decider, run.requester) if grant.verdict == "reject" else ""
    if why:  # the next call that it covers may run unasked
        who = c.decider.id if c.decider is not None else "an unnamed approver"
        raise NotAllowed(f"this standing rejection cannot be revoked by {who}: {why}")
    yield ev.GrantRevoked(c.grant, c.decider)


# What is folded -----------------------------------------------------------------------------------------------------


def lent(run: Run, event: ev.GrantLent) -> None:
    """Fold a use of a grant by a call of another run."""
    run.grant_uses[event.grant] += 1
    owned(run, "lent")[used_by(event.run, event.call)] = event.grant


def taken_over(run: Run, event: ev.GrantBorrowed) -> None:
    """Fold a grant that another run lent."""
    owned(run, "grants")[event.grant.id] = event.grant
    owned(run, "grant_uses")[event.grant.id] = 0


def given(run: Run, event: ev.GrantGiven) -> None:
    """Fold a standing decision."""
    grant = event.grant
    owned(run, "grants")[grant.id] = grant
    owned(run, "grant_uses")[grant.id] = 0
    if grant.verdict == "reject":
        about = (call.proposal for call in run.calls.values() if is_about(run, grant, call.agent, call.proposal))
        for made in about:
            owned(run, "never")[grant.id] = made.name, made.kind, made.server


def is_about(run: Run, grant: ev.GrantTerms, agent: str, made: ev.Proposal) -> bool:
    """Return whether a standing decision is about a tool of an agent.

    An approval is for the tool that was shown. A rejection is for what has its name, whatever is said of it by now, and
    for the one server that offers it; where an earlier version recorded none, for that of any.
    """
    return agent == grant.agent and (made.tool == grant.tool or _is_named(run, grant, made))


def _is_named(run: Run, grant: ev.GrantTerms, made: ev.Proposal) -> bool:
    *named, server = run.never.get(grant.id, ("", "", ""))
    return named == [made.name, made.kind] and server in ("", made.server)


def used(run: Run, event: ev.GrantUsed) -> None:
    """Fold a use of a standing decision; what was borrowed is for one call."""
    run.grant_uses[event.grant] += 1
    grant = run.grants[event.grant]
    call = run.calls.get(event.call)
    if call is not None and grant.verdict == "approve":
        call.giver = grant.decider
    if grant.call is not None:
        del run.grants[event.grant]


def revoked(run: Run, event: ev.GrantRevoked) -> None:
    """Fold the end of a standing decision."""
    run.grants.pop(event.grant, None)
    run.never.pop(event.grant, None)
