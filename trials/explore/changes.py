"""What happens to a world without a command: time passes, policies change, runs are forked, stores are restored."""

from __future__ import annotations

from unittest import mock

from msgspec.structs import replace

from keyturn.core import commands as cm
from keyturn.core.codec import Log
from keyturn.core.errors import KeyturnError
from keyturn.core.run import Run
from keyturn.engine.states import fork

from .acts import Act, Try
from .book import Book, Told, changed
from .oracle import Done
from .world import COPIES, FORKS, PLACES, POLICIES, RESTORES, UNIT, Copy, World, shown_after


def spend(world: World, what: int) -> tuple[int, ...] | None:
    """Return what is left once a thing has happened; None where it may not happen any more."""
    left = list(world.left)
    left[what] -= 1
    return tuple(left) if left[what] >= 0 else None


def time_passes() -> Act:
    """A second passes."""
    return Act("a second passes", change=lambda world: replace(world, clock=world.clock + UNIT))


def policy_changes(words: str) -> Act:
    """Another policy is in force."""

    def change(world: World) -> World | None:
        left = spend(world, POLICIES)
        return None if left is None else replace(world, policy=world.policy + 1, left=left)

    return Act(words, change=change)


def fork_run() -> Act:
    """Somebody forks the run, by the real function, as far as it can be copied."""

    def change(world: World) -> World | None:
        left, last = spend(world, FORKS), world.still[0]
        if left is None or last is None:
            return None
        name = f"fork-{len(world.runs)}"
        with mock.patch.object(fork, "new_id", return_value=name), mock.patch.object(fork, "new_salt", str):
            try:
                made = fork.forked(Log(list(world.logs[0])), None, world.clock)
            except KeyturnError:
                return None
        book = _book_of(made.run, world.books[0])
        steps = tuple(made.steps)
        shown = shown_after(world.shown, len(world.runs), made.run, book)
        grown = replace(world, runs=(*world.runs, made.run), books=(*world.books, book), logs=(*world.logs, steps))
        return replace(grown, still=(*world.still, Copy(made.run, book, steps)), left=left, shown=shown)

    return Act("the run is forked", change=change)


def _book_of(run: Run, origin: Book) -> Book:
    """Return what is known of a fork: its open calls wait, and nobody has said anything to it; rejections stand."""
    calls: dict[str, Told] = {}
    for call in run.calls.values():
        place = PLACES[call.state]
        told = origin.calls.get(call.id, Told())
        calls[call.id] = changed(
            told, place=place, words=(), looks=(), terms=call.terms, asking=told.asking + 1, asked_at=call.asked_at,
            must_ask=bool(call.voided), results=int(place == "done"), let="unasked", cleared=(),
            judged=True, acted=False, truly=False, doubted=False, free=False,
        )  # fmt: skip
    done = {name: told for name, told in origin.calls.items() if name not in calls and told.place == "done"}
    turns = 0 if not run.frames else run.frames["r"].turn
    known = {name: told for name, told in done.items() if int(name[2:].partition(".")[0]) <= turns}
    never = {name: each for name, each in origin.grants.items() if each.verdict == "reject"}
    return Book(run.id, {**known, **calls}, never)


def copy_store() -> Act:
    """The store is copied."""

    def change(world: World) -> World | None:
        left = spend(world, COPIES)
        if left is None or world.unsettled:
            return None
        return replace(world, copy=Copy(world.runs[0], world.books[0], world.logs[0]), left=left)

    return Act("the store is copied", change=change)


def restore_store() -> Act:
    """The store is lost, and brought back from its copy: what was done since is on no record."""

    def change(world: World) -> World | None:
        left, copy = spend(world, RESTORES), world.copy
        if left is None or copy is None or world.unsettled or copy.run is world.runs[0]:
            return None
        book = copy.book
        for name, told in world.books[0].calls.items():
            if told.truly or told.acted:
                book = book.put(name, changed(book.calls.get(name, told), truly=True))
        book = replace(book, calls={name: changed(told, free=False) for name, told in book.calls.items()
                                    if name in copy.book.calls})  # fmt: skip
        shown = tuple(each for each in world.shown if each.call in copy.run.calls)
        logs = (copy.log, *world.logs[1:])
        back = replace(world, runs=(copy.run, *world.runs[1:]), books=(book, *world.books[1:]), logs=logs)
        return replace(back, left=left, shown=shown, unsettled=True)

    return Act("the store is restored from its copy", change=change)


def settle_store() -> Act:
    """The restored store is settled: each of its runs is told."""

    def command(world: World) -> Try | None:
        if not world.unsettled:
            return None
        made = cm.RecordRestore("the store was restored", f"restore {world.left[RESTORES]}")
        return Try(0, made, Done(world.clock))

    return Act("the restored store is settled", command)


def go_on() -> Act:
    """Somebody takes a stopped run up again."""

    def command(world: World) -> Try | None:
        stopped = world.runs[0].status == "failed" and not world.unsettled
        return Try(0, cm.Resume(), Done(world.clock)) if stopped else None

    return Act("the run is taken up again", command)
