"""Dry run: replay past calls of a journal against another policy, and list what one in shadow mode said.

Runs are read one by one, verified, and folded: each call is judged as it stood when it was first judged, with the past
of its run as it was then. Nothing is written. What cannot be known is said to be so, and counted as no change. The
policy is its caller's, who may not be shown what is secret: it compares no secret, of this call or of earlier ones.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from typing import Any

from ..core import events as ev
from ..core.call_ids import call_id
from ..core.errors import LogDamaged
from ..core.evolve import evolve
from ..core.past import RunPast
from ..core.policy import CallView, Verdict
from ..core.predicates.predicate import compared_secret, without_secrets
from ..core.preview import redact
from ..core.quota import LIMIT
from ..core.records import BY_GRANT, path_of_caller
from ..core.run import Call, Run, new_run
from ..engine.run.log_cache import log_in
from ..journal.base import Store
from ..journal.rows import Query, RunRow
from ..policies.limits import Budget, Rejections
from ..policies.rule import Rule
from ..policies.rules import Policy
from .replayed import Replayed, Said, Unread


async def replay(store: Store, policy: Policy | None, since: int = 0) -> AsyncGenerator[Replayed | Unread, None]:
    """Yield the calls of a store that were judged since a time, as a policy would judge them.

    Without a policy, those of which one in shadow mode said something, as it said it.

    >>> import asyncio
    >>> from keyturn import MemoryJournal
    >>> async def all_of(journal):
    ...     return [each async for each in replay(journal, Policy(default="ask"))]
    >>> asyncio.run(all_of(MemoryJournal()))
    []
    """
    query = Query(limit=100)
    while page := await store.runs(query):
        for row in page:
            steps = await _read(store, row, since)
            if isinstance(steps, Unread):
                yield steps
                continue
            for each in _of_run(steps, policy, since):
                yield each
        query = Query(limit=100, after=(page[-1].started_at, page[-1].run))


async def _read(store: Store, row: RunRow, since: int) -> list[ev.Step] | Unread:
    if row.status == "erased":
        return Unread(row.run, "it was erased")
    if row.updated_at < since:
        return []
    try:
        log = await log_in(store, row.run)
    except LogDamaged as error:
        return Unread(row.run, str(error))
    return [] if LIMIT in log.run.about else log.steps


def _of_run(steps: list[ev.Step], policy: Policy | None, since: int) -> Iterator[Replayed]:
    run = new_run()
    first: Any = steps[0].events[0] if steps else None
    copied = 0 if first is None else int(first.about.get("forked_from", {}).get("at", 0))
    for number, step in enumerate(steps):
        run.now = max(run.now, step.at)
        told = number >= copied and step.at >= since
        for event in step.events:
            if told:
                yield from _screened(run, event, policy)
            evolve(run, event)
            if told and policy is not None and isinstance(event, ev.ReplyRecorded):
                yield from _let_by_their_tools(run, event, policy)
        run.seq += 1


def _let_by_their_tools(run: Run, event: ev.ReplyRecorded, policy: Policy) -> Iterator[Replayed]:
    """Yield the calls of a reply that ran without being screened."""
    turn = run.frames[event.frame].turn  # calls of earlier replies may be open
    names = (call_id(event.frame, turn, place) for place in range(len(event.proposals)))
    let = [run.calls[name] for name in names if name in run.calls]
    yield from (_judged(run, call, "allow", policy) for call in let if call.proposal.gate == "allow")


def _screened(run: Run, event: ev.AnyEvent, policy: Policy | None) -> Iterator[Replayed]:
    call = run.calls.get(event.call) if isinstance(event, ev.CallScreened) else None
    if not isinstance(event, ev.CallScreened) or call is None or call.state != "proposed" or call.voided:
        return
    if policy is not None:
        # What a grant allowed, the policy required a decision for, and the grant would be one again.
        was: Said = "ask" if event.by.startswith(BY_GRANT) else event.action
        yield _judged(run, call, was, policy, event.by)
    elif event.shadow is not None:
        yield _told(run, call, event.action, event.shadow.action, event.shadow.reason)


def _judged(run: Run, call: Call, was: Said, policy: Policy, by: str = "") -> Replayed:
    view = CallView(
        call.proposal.name,
        call.proposal.kind,
        call.agent.rpartition("/")[2],
        without_secrets(call.params, call.proposal.secrets),
        "",
        call.proposal.label,
        call.proposal.risk,
        run.id,
        path_of_caller(call.agent, call.proposal),
        run.now,
        past=RunPast(run, call.id, lambda path: path.rpartition("/")[2], hides=True),
        read_only=call.proposal.reads,
        offered=call.proposal.server,
        terms=call.proposal.terms,
    )
    would, reason = _would(policy, view, call.proposal.secrets, own=_own(call, was, by))
    return _told(run, call, was, would, reason)


def _own(call: Call, was: Said, by: str) -> Said:
    """Return what the tool's own setting says of a call, as far as its log tells."""
    if call.proposal.gate:
        return "ask" if call.proposal.gate == "ask" else "allow"
    if call.proposal.terms is not None:
        return "ask"
    return was if by == "tool" or not by else "unknown"


def _would(policy: Policy, view: CallView, secrets: tuple[str, ...], own: Said) -> tuple[Said, str]:
    """Return what a policy would say; unknown where that hangs on other runs, on a live context, or on a secret."""
    maybe = dict[str, None]()
    stated: list[tuple[Rule, Verdict]] = []
    settled = False
    for number, rule in enumerate(policy.rules, 1):
        hidden = _compares(rule, secrets)
        if rule.shared is not None or rule.when is not None or hidden:
            if rule.may_fit(view) if hidden else rule.fits(view):
                maybe[rule.action] = None
            continue
        verdict, settled = rule.judged(view, None, f"policy:{number}")
        stated += [(rule, verdict)] if verdict is not None else []
        if settled:
            break
    verdict = policy.strictest(stated, view, settled=settled)
    return _settled(maybe, own if verdict is None else verdict.action, verdict)


def _compares(rule: Rule, secrets: tuple[str, ...]) -> bool:
    """Return whether what a rule says of a call hangs on one of its secrets."""
    counted = [rule.over.argument] if isinstance(rule.over, Budget) else []
    same = isinstance(rule.over, Rejections) and rule.over.same == "call"
    return bool(secrets) and (same or compared_secret([*(rule.where or {}), *counted], secrets) is not None)


def _settled(maybe: dict[str, None], said: Said, verdict: Verdict | None) -> tuple[Said, str]:
    if set(maybe) <= {said}:
        reason = "" if verdict is None else verdict.reason or verdict.by
        return said, "the tool's own setting" if verdict is None else reason
    words = " or ".join([*maybe, said])
    return "unknown", f"{words}: it hangs on other runs, on the run's context, or on a secret argument"


def _told(run: Run, call: Call, was: Said, would: Said, reason: str) -> Replayed:
    shown = redact(call.params, call.proposal.secrets)
    agent = call.agent.rpartition("/")[2]
    return Replayed(run.id, call.id, run.now, call.proposal.name, agent, shown, was, would, reason)
