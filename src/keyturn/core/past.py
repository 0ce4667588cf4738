"""The past of a run as policies may see it: read from what the run recorded, never from memory of the process.

The run keeps one entry for each call that was let run, in the order in which that was settled, and one more, with the
opposite sign, where it turns out that it did not run. So a sum over all of them costs what is new in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

from .policy import CallView
from .run import Let, Run
from .strict import parse

# For each thing that is counted: what it is, how many entries were counted, the last of them, and what they came to.
Totals = dict[int, tuple[object, int, Let | None, Fraction | int]]


class RunPast:
    """What was recorded before a call. `totals` keeps sums from one call to the next; it can be lost at any time.

    >>> from .run import new_run
    >>> list(RunPast(new_run(), "r/1.0", str.title).ran())
    []
    """

    def __init__(self, run: Run, call: str, name_of: Callable[[str], str], totals: Totals | None = None) -> None:
        self._run = run
        self._call = call
        self._name_of = name_of
        self._totals: Totals = {} if totals is None else totals

    def ran(self, since: int | None = None) -> Iterator[CallView]:
        """The other calls that were let run, the latest first."""
        back: dict[str, int] = {}
        for let in reversed(self._run.let):
            if let.sign < 0:
                back[let.call] = back.get(let.call, 0) + 1
            elif since is not None and let.at < since:
                return  # they are in the order of time
            elif back.get(let.call):
                back[let.call] -= 1
            elif let.call != self._call:
                yield self._view(let)

    def rejected(self) -> Iterator[CallView]:
        """The calls that were rejected, the latest first."""
        return (self._view(let) for let in reversed(self._run.rejected) if let.call != self._call)

    def total(self, of: object, measure: Callable[[CallView], Fraction | int]) -> Fraction | int:
        """The sum of a measure over `ran()`; what was measured for `of` before is not measured again."""
        lets = self._run.let
        _of, count, last, total = self._totals.get(id(of), (of, 0, None, 0))
        if _of is not of or count > len(lets) or (count and lets[count - 1] is not last):
            count, total = 0, 0  # the run was folded anew
        for place in range(count, len(lets)):
            total += lets[place].sign * measure(self._view(lets[place]))
        self._totals[id(of)] = (of, len(lets), lets[-1] if lets else None, total)
        own = self._run.calls.get(self._call)
        return total - measure(self._view(own.let)) if own is not None and own.let is not None else total

    def _view(self, let: Let) -> CallView:
        made = let.proposal
        return CallView(
            made.name,
            made.kind,
            self._name_of(let.agent),
            parse(let.text or "{}"),
            digest="",
            call_id=made.label,
            risk=made.risk,
            run_id=self._run.id,
            path=let.agent,
            at=let.at,
        )
