"""Verify the chains of a store with its own keys, and hold them against checkpoints that were kept elsewhere.

This says whether the lines are those that were written. Whether what they say is lawful, and whether the rows say the
same, is `keyturn.audit.checker`.
"""

from __future__ import annotations

from collections.abc import Collection

from ...core.errors import LogDamaged
from ...core.seal import body_of
from ...engine.run.open_run import chain_of
from ...journal.base import Store
from ..checker import stored_length
from .chain import PublicChain
from .marks import Marks
from .report import EvidenceFault, FaultKind, VerifyReport
from .runs import Marked
from .signatures import Signatures
from .write import names_of


async def verify_store(store: Store, marks: Marks | None = None, trusted: Collection[str] = ()) -> VerifyReport:
    """Verify every run of a store; `trusted` are the ids of people's keys that somebody outside vouches for.

    >>> import asyncio
    >>> from keyturn import MemoryJournal
    >>> asyncio.run(verify_store(MemoryJournal())).ok
    True
    """
    known = marks or Marks([])
    report = VerifyReport("store", getattr(store, "tenant", "default"))
    signatures = Signatures(report, trusted)
    for run in await names_of(store):
        _gone(known.before(run), report)
        await _verify_run(store, run, known, report)
        await _read_signed(store, run, signatures)
    signatures.end()
    _gone(known.rest(), report)
    report.store = getattr(store, "identity", "")
    report.notes += known.notes(report.tenant, report.store)
    return report


def _gone(runs: list[str], report: VerifyReport) -> None:
    for run in runs:
        report.add(EvidenceFault("missing", run, None, None, "the run was signed in a checkpoint, and is not there"))


async def _verify_run(store: Store, run: str, marks: Marks, report: VerifyReport) -> None:
    head = await stored_length(store, run)
    links = await store.hashes(run)
    if not links and not head:
        marked = Marked(run, marks.of(run), report.add)  # somebody held its name, and it has no lines
        marked.look(0, PublicChain(report.tenant, run).head.hex(), None)
        marked.end(0, None)
        return
    report.runs += 1
    report.lines += len(links)
    sealed = chain_of(store, run)
    chain = PublicChain(report.tenant, run)
    marked = Marked(run, marks.of(run), report.add)
    marked.look(0, chain.head.hex(), None)
    bad: int | None = None
    for place, (digest, seal) in enumerate(links):
        if not sealed.passes(digest, seal):
            bad = place
            break
        chain.add(bytes.fromhex(digest), seal)
        if chain.count == marked.next:
            marked.look(chain.count, chain.head.hex(), None)
    if bad is not None:
        kind, what = _what(head, len(links))
        report.add(EvidenceFault(kind, run, bad, None, what))
        marked.skip(len(links))
    elif head is not None and len(links) < head:
        report.add(EvidenceFault("cut", run, len(links), None, f"the store counts {head} lines, and has {len(links)}"))
    marked.end(len(links), None)
    report.proved(run, marked.proven, len(links))


async def _read_signed(store: Store, run: str, signatures: Signatures) -> None:
    """Read what people signed in a run, in those lines that can be read: what is wrong with others was reported."""
    try:
        lines = await store.read(run)
    except LogDamaged:
        return
    for place, line in enumerate(lines):
        body = body_of(line)
        try:
            signatures.line(run, place, body.decode(), None)
        except UnicodeDecodeError:
            signatures.line(run, place, None, None)


def _what(head: int | None, has: int) -> tuple[FaultKind, str]:
    """Say what was done to a run whose lines do not follow each other."""
    if head is not None and has < head:
        return "missing", f"it is not the line that was written there: {head - has} of {head} lines are missing"
    if head is not None and has > head:
        return "added", f"it is not the line that was written there: {has - head} lines are there that were not counted"
    return "changed", "it is not the line that was written there"
