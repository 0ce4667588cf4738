"""A gated function runs once its call is approved: as approved, once, and never on the word of an error."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import datetime
import os
import pickle
import signal
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Annotated, Any

import pytest

from keyturn import App, Approval, Secret, UserError
from keyturn.gating import (
    CallClaimed,
    CallDenied,
    CallExpired,
    CallFailed,
    CallInDoubt,
    CallWaiting,
    CallWithdrawn,
    Gated,
    GatedFunction,
    decide_all,
)
from keyturn.gating.context import current
from keyturn.journal.rows import RequestRow
from keyturn.policies.rules import Policy, allow
from tests import forked
from tests.server.programs import Port
from tests.waiting import until_now

RAN: list[Any] = []


class Desk:
    """A gate on a journal of this process, and the person who decides there."""

    def __init__(self, place: str, **options: Any) -> None:
        self.gate = Gated(place, **options)

    @property
    def app(self) -> App:
        self.gate._door.open()  # pyright: ignore[reportPrivateUsage]  # the person decides in the process of the gate
        return self.gate._door._opened  # pyright: ignore[reportPrivateUsage]  # as above

    def do(self, made: Any) -> Any:
        return self.gate._door.run(made)  # pyright: ignore[reportPrivateUsage]  # as above

    def pending(self) -> RequestRow:
        """Wait until a call is pending."""
        return until_now(lambda: self.do(self.app.inbox.list()))[0]

    def decided(self, verdict: str = "approve", **words: Any) -> threading.Thread:
        """Decide the next call that is pending, in another thread."""

        def decide() -> None:
            self.do(getattr(self.app.inbox, verdict)(self.pending(), by="ada", **words))

        thread = threading.Thread(target=decide, daemon=True)
        thread.start()
        return thread


@pytest.fixture
def desk() -> Generator[Desk]:
    RAN.clear()
    made = Desk("memory://")
    yield made
    made.gate.close()


def refund_of(desk: Desk, **options: Any) -> GatedFunction[..., Any]:
    @desk.gate(**options)
    def refund(order: str, amount: int = 3, *rest: int, card: Annotated[str, Secret] = "") -> dict[str, Any]:
        """Refund an order."""
        RAN.append((order, amount, rest, card))
        return {"order": order, "amount": amount}

    return refund


def test_a_call_waits_and_runs_with_all_its_arguments(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    refund = refund_of(desk, approval=Approval(expires="4h"), execute_by="10m", risk="high")
    desk.decided()
    assert refund("A1", 5, 7, card="4929") == {"order": "A1", "amount": 5}
    assert RAN == [("A1", 5, (7,), "4929")]
    [row] = desk.do(desk.app.inbox.list(state=None))
    assert (row.tool, row.request.risk) == ("refund", "high")
    assert row.params == {"order": "A1", "amount": 5, "rest": [7], "card": "[redacted]"}
    assert row.request.terms == Approval(expires="4h", execute_by="10m")
    assert refund.__doc__ == "Refund an order."
    assert "4929" not in row.body


def test_times_beside_a_chain_are_those_of_its_steps(desk: Desk) -> None:
    steps = [Approval(role="manager"), Approval(role="finance", expires="4h")]
    refund = refund_of(desk, approval=Approval(steps=steps), expires="1h", execute_by="10m")
    refund.ask("A1")
    terms = desk.pending().request.terms
    assert terms is not None
    assert [(step.expires, step.execute_by) for step in terms.in_turn] == [("1h", None), ("1h", "10m")]


@pytest.mark.parametrize(
    ("verdict", "words", "error"),
    [("reject", {"message": "Too much."}, CallDenied), ("answer", {"output": {"amount": 1}}, None)],
)
def test_a_rejection_raises_and_an_answer_is_the_result(
    desk: Desk, verdict: str, words: dict[str, Any], error: type[Exception] | None
) -> None:
    refund = refund_of(desk)
    desk.decided(verdict, **words)
    if error is None:
        assert refund("A1") == {"amount": 1}
    else:
        with pytest.raises(error, match=r"rejected by ada: Too much\."):
            refund("A1")
    assert RAN == []


def test_an_edit_is_validated_by_the_signature_and_runs(desk: Desk) -> None:
    refund = refund_of(desk)
    desk.decided(edit={"order": "A1", "amount": 2, "rest": [], "card": ""})
    assert refund("A1", 5)["amount"] == 2
    fixed = refund_of(desk, editable=False, name="fixed")
    with desk.gate.context(wait=False), pytest.raises(CallWaiting) as waiting:
        fixed("A1")
    with pytest.raises(UserError):
        desk.do(desk.app.inbox.approve(desk.pending(), by="ada", edit={"order": "A2"}))
    assert fixed.state(waiting.value.id).status == "pending"


def test_what_cannot_be_shown_is_not_asked_for(desk: Desk) -> None:
    refund = refund_of(desk)
    for call in (lambda: refund(object()), lambda: refund("A1", "many"), lambda: refund("A1", float("nan"))):
        with pytest.raises(UserError, match="was not asked for"):
            call()
    with pytest.raises(TypeError):
        refund()

    @desk.gate
    def limit(to: float | None, more: Any = None) -> None:
        RAN.append(to)

    for odd in (float("inf"), float("nan")):  # which JSON would have as null: another call
        for call in (lambda odd=odd: limit(odd), lambda odd=odd: limit(1.0, [{"a": odd}])):
            with pytest.raises(UserError, match="was not asked for"):
                call()
    assert desk.do(desk.app.inbox.list(state=None)) == []
    with pytest.raises(UserError, match="generator"):

        @desk.gate
        def many() -> Any:
            yield 1

    with pytest.raises(UserError, match="is a method"):

        class Shop:
            @desk.gate
            def refund(self, order: str) -> None:
                RAN.append(order)


def test_a_call_that_does_not_wait_is_resumed_once_by_whoever_has_the_function(desk: Desk) -> None:
    refund = refund_of(desk)
    pending = refund.ask("A1", 5)
    with pytest.raises(CallWaiting) as waiting:
        refund.resume(pending)
    assert waiting.value.id == pending.id
    desk.decided().join()
    until_now(lambda: refund.state(pending).status == "approved")
    results: list[Any] = []

    def resume() -> None:
        try:
            results.append(refund.resume(pending.id))
        except CallClaimed as error:
            results.append(error)

    threads = [threading.Thread(target=resume) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert RAN == [("A1", 5, (), "")]
    assert {"order": "A1", "amount": 5} in results
    assert refund.resume(pending) == {"order": "A1", "amount": 5}
    with pytest.raises(UserError, match="is a call of 'refund'"):
        refund_of(desk, name="other").resume(pending)
    assert len(RAN) == 1


def _order(params: dict[str, Any]) -> object:
    return params["order"]


def test_a_run_that_is_repeated_joins_its_requests_and_a_second_call_asks_again(desk: Desk) -> None:
    refund = refund_of(desk)

    def job() -> list[str]:
        made: list[str] = []
        with desk.gate.context(run="job-42", requester="cyd", wait=False):
            for _ in range(2):
                with pytest.raises(CallWaiting) as waiting:
                    refund("A1")
                made.append(waiting.value.id)
        return made

    first = job()
    assert job() == first
    assert len(set(first)) == 2
    assert {row.request.requester for row in desk.do(desk.app.inbox.list())} == {"cyd"}
    by_key = refund_of(desk, key=_order, name="keyed")
    assert by_key.ask("A1").id == by_key.ask("A1").id
    assert by_key.ask("A1").id != by_key.ask("A2").id


@Gated("memory://")
def of_module(order: str) -> None:
    """Stand where functions stand that pools are given."""


def test_a_gated_function_is_pickled_and_copied_as_functions_are() -> None:
    for again in (pickle.loads(pickle.dumps(of_module)), copy.deepcopy(of_module)):
        assert again is of_module


def test_processes_that_were_forked_ask_for_their_own_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool forks after the import: the refund of the same order in its second worker is another call."""
    keys: list[str] = []
    with Gated("memory://").context() as ours:
        keys.append(ours.key("refund"))
        for process in (os.getpid() + 1, os.getpid() + 2):
            monkeypatch.setattr(os, "getpid", lambda process=process: process)
            forked = copy.deepcopy(ours)
            keys += [forked.key("refund"), forked.key("refund")]
    assert len(set(keys)) == 5
    assert current().process not in (None, os.getpid())  # which is what holds without any context
    for wrong in (float("nan"), -1):
        with pytest.raises(UserError, match="wait is True"), Gated("memory://").context(wait=wrong):
            pass
    with Gated("memory://").context(run="job-42") as named:
        monkeypatch.undo()
        assert named.key("refund") == "job-42 refund 1"


def test_errors_of_the_function_are_raised_and_recorded_without_their_words(desk: Desk) -> None:
    @desk.gate
    def fails(kind: str) -> None:
        RAN.append(kind)
        raise {"value": ValueError("card 4929"), "interrupt": KeyboardInterrupt()}[kind]

    for kind, raised, then in (("value", ValueError, CallFailed), ("interrupt", KeyboardInterrupt, CallInDoubt)):
        pending = fails.ask(kind)
        desk.decided().join()
        until_now(lambda pending=pending: fails.state(pending).status == "approved")
        with pytest.raises(raised):
            fails.resume(pending)
        with pytest.raises(then) as again:
            fails.resume(pending)
        assert "4929" not in str(again.value)
    assert RAN == ["value", "interrupt"]


def test_a_result_that_is_no_json_is_returned_and_not_recorded(desk: Desk) -> None:
    @desk.gate
    def opened(name: str) -> Any:
        return object() if name else None

    pending = opened.ask("x")
    desk.decided().join()
    until_now(lambda: opened.state(pending).status == "approved")
    assert type(opened.resume(pending)) is object
    with pytest.raises(CallClaimed):
        opened.resume(pending)


def test_what_ran_is_returned_though_it_cannot_be_recorded(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    @desk.gate
    def refund(order: str) -> str:
        runs = [desk.do(desk.app.asks.get(row.run)) for row in desk.do(desk.app.runs())]
        [state] = [each for each in runs if each.status == "claimed"]
        desk.do(desk.app.asks.report(state.id, state.claimed_by.removeprefix("external "), "unknown"))
        if order == "B2":
            raise LookupError(order)
        return order

    desk.decided()
    assert refund("A1") == "A1"
    assert "was not recorded" in caplog.text
    desk.do(desk.app.inbox.resolve(desk.pending(), "did_not_run", by="ada"))
    desk.decided()
    with pytest.raises(LookupError):
        refund("B2")


def test_expired_and_withdrawn(desk: Desk) -> None:
    refund = refund_of(desk, expires=0.05)
    with pytest.raises(CallExpired):
        refund("A1")
    later = refund_of(desk, name="later")
    pending = later.ask("A2")
    desk.do(desk.app.asks.withdraw(pending.id))
    with pytest.raises(CallWithdrawn):
        later.resume(pending)


async def test_in_a_loop_a_call_is_awaited_and_a_cancelled_one_is_withdrawn(desk: Desk) -> None:
    refund = refund_of(desk)
    with pytest.raises(UserError, match=r"use `await refund\.aio"):
        refund("A1")
    waiting = asyncio.ensure_future(refund.aio("A1", 4))
    desk.decided()
    assert (await waiting)["amount"] == 4

    @desk.gate
    async def send(to: str) -> str:
        return f"sent to {to}"

    sending: Any = asyncio.ensure_future(send("ann"))
    desk.decided()
    assert await sending == "sent to ann"
    gone: Any = asyncio.ensure_future(refund.aio("A9"))
    row = await asyncio.to_thread(desk.pending)
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    assert (await asyncio.to_thread(desk.do, desk.app.get(row.run))).status == "cancelled"
    with decide_all("reject"), pytest.raises(CallDenied):
        await refund.aio("A1")


def test_a_call_that_is_interrupted_is_withdrawn(desk: Desk) -> None:
    row: list[RequestRow] = []

    def interrupt() -> None:
        row.append(desk.pending())
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        refund_of(desk)("A1")
    assert desk.do(desk.app.get(row[0].run)).status == "cancelled"


def test_a_policy_lets_a_call_run_unasked() -> None:
    desk = Desk("memory://", policy=Policy(allow(tool="refund")))
    try:
        with desk.gate.context(wait=10.0):
            assert refund_of(desk)("A1")["order"] == "A1"
    finally:
        desk.gate.close()


def test_at_a_server_by_its_url(monkeypatch: pytest.MonkeyPatch) -> None:
    from keyturn import ExternalAgent

    with Port(more=[ExternalAgent()]) as port:
        token = port.tokens["asking"] = port.does(port.app.people.issue_token("bot", ["ask"], by="ada"))
        monkeypatch.setenv("KEYTURN_SERVER", port.url)
        monkeypatch.delenv("KEYTURN_TOKEN", raising=False)
        gate = Gated()

        @gate
        def refund(order: str) -> str:
            return order

        with pytest.raises(UserError, match="KEYTURN_TOKEN"):
            refund.ask("A1")
        monkeypatch.setenv("KEYTURN_TOKEN", token)
        pending = refund.ask("A1")
        row = until_now(lambda: port.does(port.app.inbox.list()))[0]
        port.does(port.app.inbox.approve(row, by="ada"))
        until_now(lambda: refund.state(pending).status == "approved")
        assert refund.resume(pending) == "A1"
        gate.close()
    monkeypatch.delenv("KEYTURN_SERVER")
    with pytest.raises(UserError, match="a place to ask"):
        refund.ask("A1")


SCRIPT = """
import sys, time
from keyturn.gating import Gated
gate = Gated(sys.argv[1])
@gate
def wipe(disk: str) -> str:
    print("running", flush=True)
    time.sleep(60 if sys.argv[2] == "dies" else 0)
    return disk
with gate.context(run="night"):
    print(wipe("sda"), flush=True)
"""


def test_a_process_that_dies_in_the_call_leaves_it_in_doubt_and_runs_it_no_second_time(tmp_path: Path) -> None:
    place = f"sqlite:///{tmp_path}/gate.db"
    program = ["-c", SCRIPT, place]
    first = forked.Program([*program, "dies"], stdout=forked.PIPE, stderr=forked.DEVNULL, text=True)
    desk = Desk(place)
    try:
        desk.do(desk.app.inbox.approve(desk.pending(), by="ada"))
        assert first.stdout is not None
        assert first.stdout.readline() == "running\n"
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        again = forked.run([*program, "lives"], capture_output=True, text=True, timeout=120, check=False)
        assert "running" not in again.stdout
        assert "is run, or was run, by another process" in again.stderr
    finally:
        first.kill()
        desk.gate.close()


def test_what_would_run_only_after_its_claim_is_refused_and_never_recorded_as_run(desk: Desk) -> None:
    async def inner(order: str) -> str:
        RAN.append(order)
        return "done"

    @desk.gate
    def wrapped(order: str) -> Any:
        return inner(order)

    @desk.gate
    def lazy(order: str) -> Any:
        return (RAN.append(each) for each in [order])

    for function in (wrapped, lazy):
        pending = function.ask("A1")
        desk.decided().join()
        with pytest.raises(UserError, match=r"returned a (coroutine|generator)"):
            until_now(lambda f=function, p=pending: _once_decided(f, p))
        assert (RAN, function.state(pending).status) == ([], "failed")
    desk.decided()
    assert (asyncio.run(wrapped.aio("A2")), RAN) == ("done", ["A2"])


def _once_decided(function: GatedFunction[..., Any], pending: Any) -> Any:
    with contextlib.suppress(CallWaiting):
        return function.resume(pending)


def test_a_function_that_returned_nothing_returned_none_and_one_that_returned_a_word_that_word(desk: Desk) -> None:
    @desk.gate
    def echo(word: str | None) -> str | None:
        return word

    for word in (None, "null", ""):
        pending = echo.ask(word)
        thread = desk.decided()
        until_now(lambda p=pending: echo.state(p).status == "approved")
        thread.join()
        assert (echo.resume(pending), echo.resume(pending)) == (word, word)


@pytest.mark.parametrize(
    "moment", ["ask", "asked", "wait", "decided", "claim", "claimed", "handed over", "handed over claimed"]
)
async def test_a_task_that_is_cancelled_before_its_function_begins_leaves_nothing_that_could_run(
    desk: Desk, moment: str
) -> None:
    """Whether the cancellation comes before what is asked of the inbox, with its answer, or after it."""
    door = desk.gate._door  # pyright: ignore[reportPrivateUsage]  # where the gate asks
    asks, loop = await asyncio.to_thread(door.open), asyncio.get_running_loop()
    came, stopped = threading.Event(), threading.Event()

    def cancelled_at(name: str, before: str, after: str) -> None:
        real = getattr(asks, name)

        async def spied(*args: Any, **words: Any) -> Any:
            await cancel(before)
            made = await real(*args, **words)
            await cancel(after)
            return made

        setattr(asks, name, spied)

    async def cancel(here: str) -> None:
        if here == moment and not came.is_set():
            came.set()
            loop.call_soon_threadsafe(lambda: (calling.cancel(), stopped.set()))
            await asyncio.to_thread(stopped.wait)

    for place in (("ask", "ask", "asked"), ("wait", "wait", "decided"), ("claim", "claim", "claimed")):
        cancelled_at(*place)
    aio, handed = door.aio, list[str]()

    async def late(made: Any) -> Any:
        """Return what came of it to a task that was cancelled meanwhile."""
        answer = await aio(made)
        handed.append("handed over" + " claimed" * len(handed))
        if moment == handed[-1]:
            came.set()
            raise asyncio.CancelledError
        return answer

    setattr(door, "aio", late)  # noqa: B010  # as above
    refund = refund_of(desk, key=lambda given: given["order"])
    calling = asyncio.ensure_future(refund.aio("A1"))
    if moment not in ("ask", "asked", "wait"):
        await asyncio.to_thread(desk.decided().join)
    with pytest.raises(asyncio.CancelledError):
        await calling
    [run] = await asyncio.to_thread(lambda: desk.do(desk.app.runs()))
    state = await asyncio.to_thread(lambda: desk.do(asks.get(run.run)))
    assert (came.is_set(), RAN, state.ended, state.status in ("withdrawn", "failed")) == (True, [], True, True), state
    with pytest.raises(CallWithdrawn):
        await refund.aio("A1")


def test_an_approved_call_whose_run_others_hold_is_run_once_they_let_go(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    refund = refund_of(desk)
    pending = refund.ask("A1")
    desk.decided().join()
    until_now(lambda: refund.state(pending).status == "approved")
    monkeypatch.setattr("keyturn.asks.service._TRIES", 1)
    held = desk.do(desk.app.journal.claim(pending.id, "a process that died", 60_000))
    running = threading.Timer(0.5, lambda: desk.do(desk.app.journal.release(held)))
    running.start()
    assert refund.resume(pending) == {"order": "A1", "amount": 3}
    running.join()


def test_a_gate_that_is_closed_leaves_no_thread_waiting(desk: Desk) -> None:
    refund = refund_of(desk)
    told: list[Exception] = []

    def call() -> None:
        try:
            refund("A1")
        except UserError as error:
            told.append(error)

    calling = threading.Thread(target=call, daemon=True)
    calling.start()
    desk.pending()
    desk.gate.close()
    calling.join(30)
    assert (calling.is_alive(), len(told), RAN) == (False, 1, [])


def test_edited_arguments_run_as_they_were_edited_or_not_at_all(desk: Desk) -> None:
    @desk.gate
    def pay(order: str, amount: float = 100, day: datetime.date | None = None) -> None:
        RAN.append((order, amount, day))

    whole = {"order": "A1", "amount": 5, "day": None}
    for wrong in ({"order": "A1"}, whole | {"amount": "7"}, whole | {"more": 1}):  # a default that none saw, as well
        pay.ask("A1", 2.0)
        row = desk.pending()
        with pytest.raises(UserError, match="do not fit"):
            desk.do(desk.app.inbox.approve(row, by="ben", edit=wrong))
        desk.do(desk.app.inbox.reject(row, by="ben"))
    for edit, ran in ((whole, True), (whole | {"day": "2026-05-01T00:00:00"}, False)):
        asked = pay.ask("A1", 2.0)
        desk.decided(edit=edit).join()
        until_now(lambda asked=asked: pay.state(asked).status == "approved")
        with contextlib.nullcontext() if ran else pytest.raises(UserError, match="was not run"):
            pay.resume(asked)
        assert pay.state(asked).attempts == int(ran)
    assert RAN == [("A1", 5.0, None)]


def test_a_function_that_was_changed_since_runs_nothing_that_was_not_shown(desk: Desk) -> None:
    @desk.gate
    def refund(order: str) -> None:
        raise AssertionError("the version of before")

    pending = refund.ask("A1")
    desk.decided().join()
    until_now(lambda: refund.state(pending).status == "approved")
    changed = refund_of(desk)  # it has an amount now, which is 3 where none is given
    with pytest.raises(UserError, match="other parameters"):
        changed.resume(pending)
    assert (RAN, changed.state(pending).attempts) == ([], 0)
