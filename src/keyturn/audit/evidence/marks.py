"""The heads of checkpoints that were kept elsewhere, run by run, beside what is being verified.

A checkpoint is verified whole before one of its heads is believed, and read a second time while runs are compared with
it, so that a checkpoint of a million runs takes no memory.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from pathlib import Path

from .records import FileRows, RunHead, read_row
from .report import VerifyReport
from .runs import CheckpointMark


class Checkpoint:
    """Reads the heads of one verified checkpoint, in the order of the runs."""

    def __init__(self, path: Path, report: VerifyReport) -> None:
        self.path = path
        self.report = report
        self._rows = self._read()
        self._head: RunHead | None = next(self._rows, None)

    def _read(self) -> Generator[RunHead, None, None]:
        with self.path.open("rb") as stream:
            rows = FileRows(stream)
            while (raw := rows.read()) is not None:
                row = read_row(raw)
                if isinstance(row, RunHead):
                    yield row

    def before(self, run: str) -> Iterator[str]:
        """Return the runs that come before this one and were not asked for."""
        while self._head is not None and self._head.run < run:
            yield self._head.run
            self._head = next(self._rows, None)

    def of(self, run: str) -> CheckpointMark | None:
        """Return the mark of a run, and go on past it."""
        head = self._head
        if head is None or head.run != run:
            return None
        self._head = next(self._rows, None)
        return CheckpointMark(head.lines, head.head, self.report.at or 0)

    def rest(self) -> Iterator[str]:
        """Return the runs that are left."""
        while self._head is not None:
            yield self._head.run
            self._head = next(self._rows, None)


class Marks:
    """Holds several checkpoints.

    >>> list(Marks([]).rest())
    []
    """

    def __init__(self, checkpoints: Sequence[Checkpoint]) -> None:
        self._checkpoints = checkpoints

    @property
    def given(self) -> bool:
        """Return whether there is any checkpoint."""
        return bool(self._checkpoints)

    def before(self, run: str) -> list[str]:
        """Return the runs of any checkpoint that come before this one and were not there."""
        return sorted({gone for each in self._checkpoints for gone in each.before(run)})

    def of(self, run: str) -> list[CheckpointMark]:
        """Return what the checkpoints say of a run."""
        return [mark for each in self._checkpoints if (mark := each.of(run)) is not None]

    def rest(self) -> list[str]:
        """Return the runs of any checkpoint that come after all others and were not there."""
        return sorted({gone for each in self._checkpoints for gone in each.rest()})

    def notes(self, tenant: str, store: str) -> list[str]:
        """Return what somebody should know who compares: that a checkpoint is of another place."""
        told: list[str] = []
        for each in self._checkpoints:
            if each.report.tenant != tenant:
                told.append(f"the checkpoint {each.path.name!r} is of another tenant, {each.report.tenant!r}")
            elif each.report.store != store:
                told.append(f"the checkpoint {each.path.name!r} is of a store with another id: restored, or copied?")
        return told
