"""`python -m trials.audit --n 1000`: a real export altered in every way, and whether each alteration is located.

Located means that verification fails, and that what it finds first names the run or the row at which it was done. Who
alters has the file and no key; a checkpoint that was kept elsewhere is at hand, as the manual says it should be. A case
is its seed and its number, and nothing else: `--case` plays one again and tells it.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import logging
import random
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from keyturn import MemoryJournal
from keyturn.audit.evidence.report import VerifyReport
from keyturn.audit.evidence.signing import Signer
from keyturn.audit.service import Audit
from keyturn.testing.crash import play
from tests.scenarios import CATALOGUE

from .audit_kinds import KINDS, Altered, Evidence
from .table import Tally


async def made(folder: Path) -> Evidence:
    """Play the catalogue into a store, export it twice with a run in between, and another tenant's once."""
    journal = MemoryJournal()
    other = journal.of("another")
    audit = Audit(journal, key=folder / "key")
    for scenario in CATALOGUE[:12]:
        for store in (journal, other):
            await play(replace(scenario, options={**scenario.options, "journal": store}))
    await audit.export(folder / "older.jsonl", secrets=True)
    for scenario in CATALOGUE[12:]:
        await play(replace(scenario, options={**scenario.options, "journal": journal}))
    await Audit(other, key=folder / "key").export(folder / "foreign.jsonl", secrets=True)
    await audit.export(folder / "export.jsonl", secrets=True)
    await audit.checkpoint(folder / "checkpoint.jsonl")
    public = folder / "public"
    public.write_text(Signer.existing(folder / "key").public.text)
    rows = {name: (folder / f"{name}.jsonl").read_bytes().split(b"\n")[:-1] for name in ("export", "older", "foreign")}
    return Evidence(rows["export"], rows["older"], rows["foreign"], folder / "checkpoint.jsonl", public)


def verified(evidence: Evidence, rows: list[bytes]) -> VerifyReport:
    """Verify altered rows as an auditor would: the file, the public keys, a checkpoint kept elsewhere."""
    stream = io.BytesIO(b"".join(row + b"\n" for row in rows))
    return Audit.verify_file(stream, public=evidence.public, heads=evidence.checkpoint)


def located(report: VerifyReport, done: Altered) -> bool:
    """Whether what was found first names the place."""
    if report.ok:
        return False
    first = report.faults[0]
    return first.run in done.runs or (first.row is not None and first.row in done.at)


def tried(evidence: Evidence, seed: int, number: int) -> tuple[str, Altered, VerifyReport]:
    """Alter once, and verify."""
    names = list(KINDS)
    kind = names[number % len(names)]
    dice = random.Random(f"{seed} {number}")
    done = KINDS[kind](evidence, dice)
    while done.rows == evidence.rows:  # what happens to alter nothing is no alteration
        done = KINDS[kind](evidence, dice)
    return kind, done, verified(evidence, done.rows)


def series(n: int, seed: int) -> Tally:
    """Alter so many times; what came of it."""
    tally = Tally(f"Alterations of an export, seed {seed}")
    with tempfile.TemporaryDirectory() as folder:
        evidence = asyncio.run(made(Path(folder)))
        clean = verified(evidence, evidence.rows)
        assert clean.complete, str(clean)
        for number in range(n):
            kind, done, report = tried(evidence, seed, number)
            found = located(report, done)
            first = report.faults[0] if report.faults else None
            broken = [] if found else [f"not located: {first}"]
            tally.add(kind, {"located": int(found)}, broken, f"--seed {seed} --case {number}")
    return tally


def again(seed: int, number: int) -> None:
    """Play one case again and tell it."""
    with tempfile.TemporaryDirectory() as folder:
        kind, done, report = tried(asyncio.run(made(Path(folder))), seed, number)
        print(kind, f"rows {sorted(done.at)}", f"runs {sorted(done.runs)[:3]}", report, sep="\n")


def main(argv: list[str]) -> int:
    """Alter, print the table, and fail if an alteration was not located."""
    parser = argparse.ArgumentParser(prog="python -m trials.audit", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--n", type=int, default=1_000, metavar="N", help="alterations (default %(default)s)")
    parser.add_argument("--seed", type=int, default=None, metavar="N", help="default: another each time")
    parser.add_argument("--case", type=int, metavar="N", help="play this one again and tell it")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the counts there too")
    args = parser.parse_args(argv)
    logging.disable(logging.CRITICAL)
    seed = random.randrange(1_000_000) if args.seed is None else args.seed
    if args.case is not None:
        again(seed, args.case)
        return 0
    begun = time.monotonic()
    tally = series(args.n, seed)
    print(tally.text(f"{tally.tried:,} alterations in {time.monotonic() - begun:.0f} s."))
    if args.json:
        tally.save(args.json)
    return 1 if tally.violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
