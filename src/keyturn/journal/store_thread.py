"""One thread that owns one connection and does its jobs in order, many jobs in one commit (group commit).

A commit costs far more than a row, so whatever waits when one begins goes along with it. A job refuses before it writes
anything, so that a lost race undoes nothing; one that does so later has its whole batch done again, each by itself. An
answer is given after the commit, never before. What the jobs do, and in which dialect, is not known here.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Protocol

from ..core.errors import StorageError, UserError

MOST_AT_ONCE = 64
# Reads are answered together as well: waking a loop costs more than most of them, and none should wait for many.
MOST_READS = 16
# How long a batch is tried again, in seconds, where a member does not say.
PATIENCE = 20.0


class StoreConnection(Protocol):
    """What a store thread needs of a member's connection; errors of the database come out as they are.

    What would wait for another process raises at once unless it `waits`. `begin` is told whether the transaction must
    be on disk when it was committed, and which runs it is about. `commit` is given the results of what was done, of
    which a database may tell others in the same transaction. `told` counts what `tell` was given. `known` is the row of
    a run in the table of runs, held for this transaction. `now` is the time; `said` is what the database said of it
    along with something else, where it has a clock. `place` says which server, timeline and database this is, where a
    database can say so; `check_place` raises `StorageError` where what the connection has open is not what is there any
    more; `reached` is a number that only grows, 0 where it has none, None where it is not what was written. `damage`
    says what the database finds wrong with itself.
    """

    told: int
    waits: bool

    def execute(self, sql: str, *values: Any) -> list[Any]:
        """Run one statement and return all its rows."""
        ...

    def tell(self, sql: str, *values: Any) -> None:
        """Run one statement that gives no rows; an error may surface only at the next question."""
        ...

    def begin(self, firm: bool, runs: list[tuple[str, str]]) -> None:
        """Begin a transaction."""
        ...

    def known(self, tenant: str, run: str) -> list[Any]:
        """Return the row of a run, locked for this transaction."""
        ...

    def commit(self, results: list[Any]) -> None:
        """Commit, given the results of what was done."""
        ...

    def rollback(self) -> None:
        """Roll the transaction back."""
        ...

    def now(self, said: int | None = None) -> int:
        """Return the time."""
        ...

    def place(self) -> str | None:
        """Return which server, timeline and database this is."""
        ...

    def check_place(self) -> None:
        """Raise `StorageError` where something else stands in the place of what is open."""
        ...

    def reached(self) -> int | None:
        """Return the number that only grows."""
        ...

    def damage(self) -> list[str]:
        """Return what the database finds wrong with itself."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class BatchFailed(Exception):
    """Raised where a batch failed: `again` says that none of it happened, `unknown` that nobody can tell yet.

    `drop` says that the connection is not used again: what was wrong with it may stay so after the database is mended.
    """

    def __init__(self, error: BaseException, *, again: bool = False, unknown: bool = False, drop: bool = False) -> None:
        super().__init__(str(error))
        self.error = error
        self.again = again
        self.unknown = unknown
        self.drop = drop


@dataclass(slots=True)
class Job:
    """Holds a function to run with the connection.

    `done` finds out afterwards whether it took effect, where that is unknown. What is not `firm` need not outlive the
    machine: it is on disk once something firm that came later is.
    """

    do: Callable[[StoreConnection], Any]
    done: Callable[[StoreConnection], tuple[bool, Any]] | None
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    firm: bool = True
    run: tuple[str, str] | None = None
    result: Any = None
    error: BaseException | None = None

    def answer(self) -> None:
        """Give the result to whoever asked, in their own event loop."""
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


NOT_NOW: Any = object()
_RUN = attrgetter("run")
_FIRM = attrgetter("firm")
_LOOP = attrgetter("loop")


class StoreThread:
    """Runs jobs in a thread of its own; `connect` opens the connection in it, `judge` reads a database's error.

    With `here`, what is short is read by whoever asks, as long as the thread is idle.
    """

    def __init__(
        self,
        name: str,
        connect: Callable[[], StoreConnection],
        judge: Callable[[BaseException], BatchFailed],
        after: Callable[[list[Any]], None] | None = None,
        *,
        writes: bool = True,
        patience: float = PATIENCE,
        here: bool = False,
    ) -> None:
        self._name = name
        self._connect = connect
        self._judge = judge
        self._after = after
        self._writes, self._here = writes, here
        self._patience = patience
        self._jobs: deque[Job] = deque()
        self._ready = threading.Condition()
        self._connection: StoreConnection | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        self._busy = False
        self._process = 0

    @property
    def closed(self) -> bool:
        """Return whether nothing more can be asked of it."""
        return self._closed or self._forked

    @property
    def _forked(self) -> bool:
        """Return whether its thread stayed behind in the process that this one was forked from."""
        return self._thread is not None and self._process != os.getpid()

    async def ask(
        self,
        do: Callable[[StoreConnection], Any],
        done: Callable[[StoreConnection], tuple[bool, Any]] | None = None,
        *,
        firm: bool = True,
        run: tuple[str, str] | None = None,
    ) -> Any:
        """Run a job; return its result once that is durable.

        `run` is the tenant and the run that it is about. Somebody who stops waiting does not stop it: what was asked is
        done or refused whole.
        """
        if self._forked:
            raise UserError("this journal was used before the process was forked; open it in each process, afterwards")
        loop = asyncio.get_running_loop()
        job = Job(do, done, loop, loop.create_future(), firm, run)
        with self._ready:
            if self._closed:
                raise UserError("this journal was closed; open it again")
            if self._thread is None:
                thread = threading.Thread(target=self._work, name=self._name, daemon=True)
                try:
                    thread.start()
                except RuntimeError as error:  # a process short of memory
                    raise StorageError(
                        f"the journal's thread cannot be started, nothing was written: {error}"
                    ) from error
                self._process = os.getpid()  # first: `_forked` is asked without the lock
                self._thread = thread
            self._jobs.append(job)
            self._ready.notify()
        return await job.future

    async def short(self, do: Callable[[StoreConnection], Any]) -> Any:
        """Read something short."""
        return await self.ask(do) if (found := self.at_once(do)) is NOT_NOW else found

    def at_once(self, do: Callable[[StoreConnection], Any]) -> Any:
        """Read something short here and now; `NOT_NOW` where the thread is at work, or that waits or fails."""
        if not self._here or self._forked:
            return NOT_NOW
        with self._ready:
            connection = self._connection
            if connection is None or self._busy or self._jobs or self._closed:
                return NOT_NOW
            connection.waits = False
            try:
                connection.check_place()
                return do(connection)
            except Exception as error:
                if self._judge(error).error is error and not isinstance(error, StorageError):
                    raise  # no trouble of the database
                return NOT_NOW
            finally:
                connection.waits = True

    def stop(self) -> None:
        """Finish what was asked and end, without waiting for that."""
        if self._forked:  # whose lock may have been held when the process was forked
            return
        with self._ready:
            self._closed = True
            self._ready.notify()

    def close(self) -> None:
        """Finish what was asked, then close the connection."""
        self.stop()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread() and not self._forked:
            thread.join()

    def _work(self) -> None:
        while self._wait():
            self._round()  # apart, so that nothing of what was asked is held while nothing is asked
        self._drop()

    def _wait(self) -> bool:
        """Wait for jobs; return False once it is closed and all is done."""
        with self._ready:
            while not self._jobs and not self._closed:
                self._ready.wait()
            self._busy = True
            return bool(self._jobs)

    def _round(self) -> None:
        batch = self._next()
        try:
            self._do(batch)
        except BaseException as error:
            for job in batch:
                job.error = job.error or error
        self._busy = False  # first: who has an answer asks on
        self._wake(batch)

    def _wake(self, batch: list[Job]) -> None:
        """Give the answers; what wakes others comes first, since who has an answer may end this process."""
        told = [job.result for job in batch if job.error is None]
        if self._after is not None and told:
            try:
                self._after(told)
            except Exception:  # who could not be woken looks again by itself
                told.clear()
        loops = set(map(_LOOP, batch))  # waking a loop costs more than an answer
        for loop in loops:
            jobs = batch if len(loops) == 1 else [job for job in batch if job.loop is loop]
            try:
                loop.call_soon_threadsafe(_answer, jobs)
            except RuntimeError:  # the loop is closed: nobody waits there any more
                continue

    def _next(self) -> list[Job]:
        with self._ready:
            count = min(len(self._jobs), MOST_AT_ONCE if self._writes else MOST_READS)
            return [self._jobs.popleft() for _ in range(count)]

    def _do(self, batch: list[Job], *, again: bool = False) -> None:
        tries, until = 0, time.monotonic() + self._patience
        while (outcome := self._try(batch, again=again or tries > 0)) is not None:
            tries += 1
            if (outcome.again or outcome.unknown) and time.monotonic() < until and self._patient(tries):
                continue
            if len(batch) > 1 and self._connection is not None:  # one that is refused takes nobody else with it
                for job in batch:
                    self._do([job], again=True)
                return
            for job in batch:
                job.error = None if self._is_there(job) else job.error or outcome.error
            return

    def _try(self, batch: list[Job], *, again: bool) -> BatchFailed | None:
        """Run the batch; return how it failed, if it did; what was done is taken out of the batch."""
        try:
            connection = self._open()
            todo = [job for job in batch if not self._was_done(connection, job)] if again else batch
            if todo:
                self._together(connection, todo)
        except BaseException as error:
            outcome = self._judge(error)
            self._abandon(outcome)
            return outcome
        return None

    def _patient(self, tries: int) -> bool:
        """Wait a little before a retry; return False once it was retried often enough."""
        with self._ready:
            if tries > 40 or (self._closed and tries > 5):
                return False
        threading.Event().wait(min(0.005 * 2**tries, 0.5))
        return True

    def _together(self, connection: StoreConnection, batch: list[Job]) -> None:
        """Run a batch as one transaction, each job all or nothing."""
        if not self._writes:
            for job in batch:
                self._one(connection, job)
            return
        runs: set[tuple[str, str] | None] = set(map(_RUN, batch))
        connection.begin(any(map(_FIRM, batch)), sorted(filter(None, runs)))
        for job in batch:
            before = connection.told
            self._one(connection, job)
            if job.error is not None and connection.told != before:  # what it wrote goes, and all before it
                connection.rollback()
                for each in batch if len(batch) > 1 else []:
                    self._do([each])
                return
        connection.commit([job.result for job in batch if job.error is None])

    def _one(self, connection: StoreConnection, job: Job) -> None:
        job.error = None
        try:
            job.result = job.do(connection)
        except BaseException as error:
            outcome = self._judge(error)
            if outcome.again or outcome.unknown or outcome.error is not error:
                raise  # the database's own trouble concerns the whole batch
            job.error = error

    def _was_done(self, connection: StoreConnection, job: Job) -> bool:
        done, result = (False, None) if job.done is None else job.done(connection)
        if done:
            job.result, job.error = result, None
        return done

    def _is_there(self, job: Job) -> bool:
        """Return whether a job was done although its commit failed, where the connection can still say so."""
        with suppress(Exception):
            return self._connection is not None and self._was_done(self._connection, job)
        return False

    def _open(self) -> StoreConnection:
        if self._connection is None:
            self._connection = self._connect()
        else:
            self._connection.check_place()
        return self._connection

    def _abandon(self, outcome: BatchFailed) -> None:
        """Roll back; where the connection may be broken, close that, too."""
        if self._connection is None:
            return
        if not (outcome.unknown or outcome.drop):
            with suppress(BaseException):
                self._connection.rollback()
                return
        self._drop()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(BaseException):
                connection.close()


def _answer(jobs: list[Job]) -> None:
    for job in jobs:
        job.answer()
