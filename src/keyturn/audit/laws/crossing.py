"""Check that nothing open crosses into another run, by a fork or by a store that was restored from a copy.

The lines that a fork copied are held to the run from which they are: a decision in them is bound to that run, and only
one that comes after them to this. What they leave open must ask anew.
"""

from __future__ import annotations

from typing import Any

from ...core import events as ev
from ..calls import WAITING, AuditedCall, need
from ..run import AuditedRun
from . import quotas
from .grants import GRANT


def restored(audited: AuditedRun, event: ev.RunRestored) -> None:
    """Check that after a restore nothing that may have run goes on without a new decision."""
    audited.restoring = False
    audited.failed = True
    for call in audited.calls.values():
        left = call.place in ("ready", "running") and not audited.framed(call.id)
        need(not left, "I2", f"call {call.id} may have run before the store was restored, and was not put in doubt")
        heard = call.place in WAITING and call.renewed_in != audited.line
        need(not heard, "I1", f"call {call.id} was not asked about anew when the store was restored")
        named = call.place not in WAITING or not event.nonce or call.renewed == event.nonce
        need(named, "I1", f"call {call.id} was asked about anew for another restore than the run was told of")
        unseen = call.place == "new" and not call.must_ask
        need(not unseen, "I2", f"call {call.id} may have run before the store was restored, and could run unasked")
        call.revoked = True
    for grant in audited.grants.values():  # how often it was used since is not in the copy
        need(grant.verdict != "approve", "I1", f"grant {grant.id} stands though the store was restored")


def forked(audited: AuditedRun, event: ev.RunForked) -> None:
    """Check that a fork begins where its copied lines end, and that nothing of them is open in it as it was."""
    audited.forking = False
    need(event.at == audited.line - 1, "I8", f"the fork {event.run} says that it copied other lines than it did")
    need(audited.bound_to not in ("", event.run), "I8", f"the fork {event.run} begins, and nothing was copied")
    for call in audited.calls.values():
        _may_be_copied(audited, call)
    for grant in audited.grants.values():
        need(grant.verdict != "approve", "I1", f"grant {grant.id} stands in a fork, and was given in another run")
    need(audited.freed_in != audited.line, "I1", "a standing rejection ended because the run was forked")
    audited.bound_to = event.run
    audited.forked_in = audited.line
    audited.reviews = {name: review for name, review in audited.reviews.items() if review.said is not None}
    quotas.tells_nothing(audited)


def _may_be_copied(audited: AuditedRun, call: AuditedCall) -> None:
    asked = call.place == "asked" and call.renewed_in == audited.line
    need(asked or call.place not in WAITING, "I1", f"call {call.id} waits in a fork as it did in another run")
    unasked = call.decision is None and not call.allowed_by.startswith(GRANT)
    at_work = call.place == "running" and audited.framed(call.id) and unasked
    over = call.place in ("new", "dead", "settled")
    need(asked or at_work or over, "I1", f"call {call.id} was allowed in another run, and goes on in a fork")


def own_lines(audited: AuditedRun) -> None:
    """Check, before the first line that a fork did not copy and at the end, that it carries nobody's voice."""
    origin: Any = audited.about.get("forked_from") or {"at": -1}
    if audited.bound_to != audited.run or audited.forked_in or origin["at"] != audited.line - 1:
        return
    for call in audited.calls.values():  # as earlier versions forked, which bound the votes they copied to the fork
        kept = call.votes or call.met or call.looks or call.confirmed or call.claim or call.snoozes
        carried = call.place in WAITING and kept
        need(not carried, "I1", f"what was said of call {call.id} in another run was carried over into a fork")
