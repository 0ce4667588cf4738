"""The past of a run as policies may see it, read from what the run recorded.

The run keeps one entry for each call that was let run, in the order in which that was settled, and one more, with the
opposite sign, where it turns out that it did not run. Each entry is parsed and measured once: what is counted again
costs only what is new.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType

from .counted import CountedCall
from .policy import CallView, Share, Trouble
from .predicates.predicate import without_secrets
from .run import Run
from .strict import parse

# Arguments that are kept parsed while one call is screened, in characters of their text: for rules that count alike.
_KEPT = 1 << 20


class _Sums:
    """Sums what the entries of `run.let` measure, from a moment on that moves forward with the calls.

    An entry that takes one back has the time of that one, so that both are inside a stretch of time or both outside.
    """

    def __init__(self, of: object) -> None:
        self.of = of
        self.read = 0
        self.last: CountedCall | None = None
        self.sum: Fraction | int = 0
        self._times: list[int] = []
        self._amounts: list[Fraction | int] = []
        self._place: dict[str, int] = {}
        self._first = 0

    def add(self, let: CountedCall, measure: Callable[[CountedCall], Fraction | int]) -> None:
        if let.sign < 0:
            place = self._place.pop(let.call)
            self.sum -= self._amounts[place] if place >= self._first else 0
            self._amounts[place] = 0
        else:
            amount = measure(let)  # it may raise: then the entry is not counted as read
            self._place[let.call] = len(self._times)
            self._times.append(let.at)
            self._amounts.append(amount)
            self.sum += amount
        self.read += 1
        self.last = let

    def begin(self, since: int | None) -> None:
        """Leave out what was earlier; a clock that was set back moves the begin back as well."""
        while since is not None and self._first < len(self._times) and self._times[self._first] < since:
            self.sum -= self._amounts[self._first]
            self._first += 1
        while self._first and (since is None or self._times[self._first - 1] >= since):
            self._first -= 1
            self.sum += self._amounts[self._first]

    def without(self, call: str) -> Fraction | int:
        """Return the sum over all calls but one."""
        place = self._place.get(call, -1)
        return self.sum - self._amounts[place] if place >= self._first else self.sum


class _Keys:
    """Counts how many entries of `run.rejected` have each key, and which keys a call had each time."""

    def __init__(self, of: object) -> None:
        self.of = of
        self.read = 0
        self.last: CountedCall | None = None
        self.count = Counter[Hashable]()
        self._of_call: dict[str, list[Hashable]] = {}

    def add(self, let: CountedCall, key: Hashable) -> None:
        self.read += 1
        self.last = let
        self.count[key] += 1
        self._of_call.setdefault(let.call, []).append(key)

    def without(self, call: str, key: Hashable) -> int:
        """Return how many calls but one have a key."""
        return self.count[key] - self._of_call.get(call, []).count(key)


# What was counted before, by the identity of what it was counted for: each keeps that object, so that none is reused.
Totals = dict[tuple[str, int], "_Sums | _Keys"]


class RunPast:
    """Holds what was recorded before a call.

    `totals` caches sums from one call to the next; it can be lost at any time. `shared` is what was counted for limits
    that several runs share, and `times` when something became of their calls. With `hides`, nothing can be told of
    what is secret in earlier calls.

    >>> from .run import new_run
    >>> list(RunPast(new_run(), "r/1.0", str.title).ran())
    []
    """

    def __init__(
        self,
        run: Run,
        call: str,
        name_of: Callable[[str], str],
        totals: Totals | None = None,
        shared: Mapping[tuple[str, str, int | None], Fraction] = MappingProxyType({}),
        times: Mapping[tuple[str, str, int | None], list[int]] = MappingProxyType({}),
        *,
        hides: bool = False,
    ) -> None:
        self._hides = hides
        self._shared = shared
        self._times = times
        self._run = run
        self._call = call
        self._name_of = name_of
        self._totals: Totals = {} if totals is None else totals
        self._views: dict[int, tuple[CountedCall, CallView]] = {}
        self._room = _KEPT

    def ran(self, since: int | None = None) -> Iterator[CallView]:
        """Yield the other calls that were let run, the latest first."""
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
        """Return the calls that were rejected, the latest first."""
        return (self._view(let) for let in reversed(self._run.rejected) if let.call != self._call)

    def total(
        self, of: object, measure: Callable[[CallView], Fraction | int], since: int | None = None
    ) -> Fraction | int:
        """Return the sum of a measure over `ran(since)`, cached for `of`."""
        lets = self._run.let
        sums = self._totals.get(("ran", id(of)))
        if not isinstance(sums, _Sums) or _anew(sums, of, lets):
            sums = self._totals["ran", id(of)] = _Sums(of)
        for place in range(sums.read, len(lets)):
            sums.add(lets[place], lambda let: measure(self._view(let)))
        sums.begin(since)
        return sums.without(self._call)

    def rejections(self, of: object, key: Callable[[CallView], Hashable], wanted: Hashable) -> int:
        """Return how many calls of `rejected()` have a key, cached for `of`."""
        lets = self._run.rejected
        keys = self._totals.get(("rejected", id(of)))
        if not isinstance(keys, _Keys) or _anew(keys, of, lets):
            keys = self._totals["rejected", id(of)] = _Keys(of)
        for place in range(keys.read, len(lets)):
            keys.add(lets[place], key(self._view(lets[place])))
        return keys.without(self._call, wanted)

    def shared(self, share: Share) -> Fraction | None:
        """Return what other calls are counted for of a limit that several runs share; None where nobody knows."""
        return self._shared.get(share.key)

    def troubled(self, after: Sequence[Trouble], since: int) -> Iterator[CallView]:
        """Yield the calls of which one of these things became since a time, each with the time of that."""
        run = self._run
        counted = {"rejected": run.rejected, "denied": run.denied, "failed": run.failed}
        for what in after:
            for let in reversed(counted[what]):
                if let.at < since:
                    break  # they are in the order of time
                yield self._view(let)

    def shared_times(self, share: Share) -> list[int] | None:
        """Return when such things became of calls of all runs that share a count; None where nobody knows."""
        return self._times.get(share.key)

    def _view(self, let: CountedCall) -> CallView:
        """Return an entry as a policy sees it, parsed once for all rules that look at it in this screening."""
        seen = self._views.get(id(let))
        if seen is not None and seen[0] is let:
            return seen[1]
        made = let.proposal
        view = CallView(
            made.name,
            made.kind,
            self._name_of(let.agent),
            without_secrets(parse(let.text or "{}"), made.secrets if self._hides else ()),
            digest="",
            call_id=made.label,
            risk=made.risk,
            run_id=self._run.id,
            path=let.agent,
            at=let.at,
            read_only=made.reads,
        )
        self._room -= len(let.text)
        if self._room >= 0:
            self._views[id(let)] = (let, view)
        return view


def _anew(kept: _Sums | _Keys, of: object, lets: list[CountedCall]) -> bool:
    """Return whether the cache is of something else, or of a run that was folded anew."""
    return kept.of is not of or kept.read > len(lets) or (kept.read > 0 and lets[kept.read - 1] is not kept.last)
