"""A store that writes down what it acknowledged, in a file that outlives the process; and what must be true of that.

It adds nothing to what the store does. Whoever reads the file later knows what somebody was told, and by what.
"""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from keyturn.audit.checker import Told
from keyturn.channels.base import RESOLVED
from keyturn.core.codec import decode
from keyturn.core.events import CallDecided
from keyturn.core.seal import parted
from keyturn.journal.base import RESERVED, Claim, Lease
from keyturn.journal.optional import DueClaims
from keyturn.journal.rows import Changes, Notice

FILE = "acknowledged"


class Witness:
    """A store, and the file in which stands what it acknowledged; `count` is how much that is."""

    def __init__(self, store: Any, folder: Path) -> None:
        self._store = store
        self.count = 0
        self._place = os.open(folder / FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        return partial(self._claim_due, found) if name == "claim_due" else found

    async def append(
        self,
        run: str,
        expected: int,
        lines: Sequence[bytes],
        claim: Claim | None = None,
        changes: Changes | None = None,
        lease: Lease | None = None,
    ) -> Claim | None:
        """Append, then say so, and which decisions are kept by it."""
        taken = await self._store.append(run, expected, lines, claim, changes, lease)
        read = [] if run.startswith(RESERVED) else [decode(line) for line in lines]
        decided = [event.decision for step in read for event in step.events if isinstance(event, CallDecided)]
        self.say(
            run=run,
            at=expected,
            digests=[parted(line)[0] for line in lines],
            told=[[each.call, each.verdict, each.by] for each in decided],
            notices=[] if changes is None else [" ".join(named(notice)) for notice in changes.notices],
            **({} if taken is None else {"epoch": taken.epoch}),
        )
        return taken

    async def claim(self, run: str, worker: str, ttl_ms: int) -> Claim:
        """Claim, then say so."""
        made = await self._store.claim(run, worker, ttl_ms)
        self.say(run=run, epoch=made.epoch)
        return made

    async def _claim_due(self, claimed: Callable[..., Awaitable[DueClaims]], *asked: Any) -> DueClaims:
        """Claim what is due, where the store can, then say so."""
        made = await claimed(*asked)
        for claim in made.claims:
            self.say(run=claim.run, epoch=claim.epoch)
        return made

    def say(self, **what: Any) -> None:
        """Write it down."""
        self.count += 1
        os.write(self._place, json.dumps(what).encode() + b"\n")


def told(folder: Path) -> list[Told]:
    """The decisions of which somebody was told that they are kept."""
    return [Told(said["run"], *each) for said in _said(folder) for each in said.get("told", [])]


def noticed(folder: Path) -> set[str]:
    """The notices that are kept, as their channel writes them down."""
    return {notice for said in _said(folder) for notice in said.get("notices", [])}


def named(notice: Notice) -> tuple[str, str, str]:
    """A notice as it stands in books of what was told; callers outside know their run alone."""
    request = "" if notice.topic == RESOLVED else str(notice.about.get("request", ""))
    return notice.topic, notice.run, request


async def lost(store: Any, folder: Path, *, claims: bool) -> list[str]:
    """What was acknowledged and is not there; `claims` says that no epoch may be given twice."""
    found, epochs = list[str](), dict[str, int]()
    for said in _said(folder):
        run = said["run"]
        digests, epoch = said.get("digests", []), said.get("epoch")
        if digests:
            links = await store.hashes(run)
            if [digest for digest, _ in links[said["at"] : said["at"] + len(digests)]] != digests:
                found.append(f"an acknowledged line is gone: {run[:6]} at {said['at']}")
        if epoch is not None:
            if claims and epoch <= epochs.get(run, 0):
                found.append(f"epoch {epoch} of {run[:6]} was given twice")
            epochs[run] = epoch
    return found


def _said(folder: Path) -> list[dict[str, Any]]:
    path = folder / FILE
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
