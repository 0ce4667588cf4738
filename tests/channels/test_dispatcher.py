"""People are told of what waits, in order, at least once, whatever a channel does."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from keyturn import App, Approval, Conflict, MemoryJournal, UserError
from keyturn.channels import plan
from keyturn.channels.base import ChannelBusy, ChannelRefused, Message, Recipient
from keyturn.channels.dispatcher import LEASE, Dispatcher
from keyturn.channels.plan import Attempts, ChannelPlan
from keyturn.core import commands as cm
from keyturn.inbox.desk import Inbox
from keyturn.journal import open_journal
from keyturn.journal.base import Store
from keyturn.journal.rows import Delivery, DeliveryQuery, Dispatch, Notice
from tests.channels.telling import Ledger, Recorder, asked, clocked, desk, dispatching, settled, to, wake
from tests.waiting import turns_of_the_loop, until

HOUR = 3_600_000


async def test_a_request_is_told_in_the_append_that_opens_it(store: Store) -> None:
    row = (await asked(store))[0]
    assert [(notice.topic, notice.about["request"]) for notice in await store.outbox()] == [("request.created", row.id)]
    mail = Recorder()
    async with dispatching(store, mail):
        await until(lambda: mail.told)
        await until(lambda: settled(store))
    message = mail.told[0]
    assert (message.request, message.revision, message.digest) == (row.id, 1, row.digest)
    assert message.title == "desk asks to run pay"
    assert "ada" in message.text
    assert row.digest in message.text
    assert message.verdicts[:2] == ("approve", "edit")


async def test_an_app_tells_and_a_worker_elsewhere_does_too(store: Store) -> None:
    mail = Recorder()
    async with App([desk()], store, channels=[mail]) as app:
        run = await app.start("desk", "go")
        await until(lambda: mail.told)
        row = (await app.inbox.list())[0]
        await app.inbox.reject(row, by="bob")
        await run.result(20)
        await until(lambda: len(mail.told) == 2)
    assert mail.topics == ["created", "decided"]
    assert mail.told[1].title == "rejected by bob: desk asks to run pay"


async def test_what_was_decided_before_anybody_was_told_is_no_news() -> None:
    journal, mail, books = MemoryJournal(), Recorder(), Ledger("books")
    row = (await asked(journal))[0]
    await Inbox(journal).reject(row, by="bob")
    async with dispatching(journal, mail, books):
        await until(lambda: settled(journal))
    assert (mail.topics, books.topics) == (["decided"], ["created", "decided"])


async def test_expiry_escalation_and_revocation_are_told() -> None:
    journal, clock = clocked()
    terms = Approval(expires="1h", warn_before="10m", on_expiry="escalate", escalate_to=["boss"])
    row = (await asked(journal, terms=terms))[0]
    mail, inbox = Recorder(), Inbox(journal)
    async with dispatching(journal, mail):
        clock.now += HOUR - 500_000
        await inbox.tell(row.run, cm.Tick())
        await until(lambda: len(mail.told) == 2)
        clock.now += HOUR
        await inbox.tell(row.run, cm.Tick())
        await until(lambda: len(mail.told) == 3)
    assert mail.topics == ["created", "expiring", "escalated"]
    assert mail.told[1].title == "expires soon: desk asks to run pay"
    assert "expires: 2026-" in mail.told[1].text


async def test_a_channel_that_fails_is_asked_again_and_holds_up_no_other() -> None:
    journal, failures = MemoryJournal(), [OSError("no line"), ChannelBusy("later", seconds=0.01)]

    def fail(_message: Message) -> None:
        if failures:
            raise failures.pop()

    bad, good = Recorder("bad", fail), Recorder("good")
    await asked(journal, "ada", "bob")
    async with dispatching(journal, bad, good):
        await until(lambda: len(good.told) == 2)
        await until(lambda: len(bad.told) == 2)
        await until(lambda: settled(journal))
    assert len(bad.tried) == 4
    assert len({message.id for message in bad.tried}) == 2


async def test_a_refusal_is_kept_and_sent_again_on_demand(store: Store) -> None:
    refuse = [True]

    def answer(_message: Message) -> None:
        if refuse:
            raise ChannelRefused("the address is gone")

    mail = Recorder(answers=answer)
    await asked(store)
    async with dispatching(store, mail):
        await until(lambda: store.deliveries(DeliveryQuery(state="dead")))
        dead = await store.deliveries(DeliveryQuery(state="dead"))
        assert [(row.attempts, row.error) for row in dead] == [(1, "ChannelRefused: the address is gone")]
        refuse.clear()
        assert await store.send_again([dead[0].number]) == 1
        await until(lambda: mail.told)
        await until(lambda: settled(store))
    assert await store.deliveries(DeliveryQuery()) == []


async def test_after_so_many_attempts_it_is_kept_and_the_next_goes_on() -> None:
    journal = MemoryJournal()
    first = (await asked(journal))[0]

    def answer(message: Message) -> None:
        if message.request == first.id:
            raise SystemExit("a library that wants to end the process")

    mail = Recorder(answers=answer)
    await asked(journal, "eve")
    async with dispatching(journal, mail):
        await until(lambda: mail.told)
        await until(lambda: settled(journal))
    dead = await journal.deliveries(DeliveryQuery())
    assert [(row.subject, row.state, row.attempts, row.error) for row in dead] == [(first.id, "dead", 3, "SystemExit")]


async def test_who_hangs_is_cut_off_and_others_are_told_meanwhile() -> None:
    journal = MemoryJournal()

    def hang(message: Message) -> Any:
        return asyncio.Event().wait() if message.to.person == "ada" else None

    mail = Recorder(answers=hang, timeout=1.0)
    await asked(journal)
    async with dispatching(journal, mail, recipients=lambda _request: [to("ada"), to("bob"), to("eve")]):
        await until(lambda: len(mail.told) == 2)
        await until(lambda: settled(journal))
    assert [message.to.person for message in mail.told] == ["bob", "eve"]
    assert [row.error for row in await journal.deliveries(DeliveryQuery())] == ["TimeoutError"]


async def test_many_messages_for_one_person_hold_up_no_other() -> None:
    journal, held = MemoryJournal(), asyncio.Event()

    def hang(message: Message) -> Any:
        return held.wait() if message.to.person == "ada" else None

    mail = Recorder(answers=hang)
    await asked(journal, *map(str, range(21)))
    await asked(journal, "for bob")

    def who(request: Any) -> list[Recipient]:
        return [to("bob" if request.params["to"] == "for bob" else "ada")]

    async with dispatching(journal, mail, recipients=who):
        await until(lambda: mail.told)
        assert [message.to.person for message in mail.told] == ["bob"]
        held.set()
        await until(lambda: settled(journal))


async def test_a_message_that_is_never_taken_holds_up_no_other_for_long() -> None:
    """How long somebody is left alone goes by how many of their messages failed, and not by how often one did."""
    journal, clock = clocked()

    def spoiled(message: Message) -> None:
        if "spoiled" in message.text:
            raise OSError("500")

    mail = Recorder(answers=spoiled)
    async with dispatching(journal, mail, attempts=Attempts()):
        await asked(journal, "spoiled")
        for tried in range(1, 8):
            await until(lambda tried=tried: _failed(journal, tried))
            clock.now += 200_000
            await wake(journal)
        await until(lambda: _failed(journal, 8))
        await asked(journal, "good")
        clock.now += 3_001  # once and a half of the first pause
        await wake(journal)
        await until(lambda: mail.told)
        await until(lambda: journal.deliveries(DeliveryQuery(state="waiting")))


async def _failed(journal: MemoryJournal, attempts: int) -> bool:
    rows = await journal.deliveries(DeliveryQuery(state="waiting"))
    return [row.attempts for row in rows] == [attempts]


async def test_who_is_told_is_asked_again_where_the_answer_does_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "_NAMING", 0.01)
    journal, mail, asked_for = MemoryJournal(), Recorder(), list[object]()

    async def hangs_once(request: object) -> list[Recipient]:
        asked_for.append(request)
        if len(asked_for) == 1:
            await asyncio.Event().wait()
        return [to()]

    await asked(journal)
    async with dispatching(journal, mail, recipients=hangs_once):
        await until(lambda: mail.told)


async def test_a_second_address_of_one_person_is_missed_aloud(caplog: pytest.LogCaptureFixture) -> None:
    rooms = [to("", address="C1"), to("", address="C2")]
    made = ChannelPlan([Recorder()], recipients=lambda _request: rooms)
    for _ in range(2):
        assert [each.address for each in (await made.who(None)).values()] == ["C1"]
    assert caplog.text.count("at two addresses of the channel 'mail'") == 1


async def test_a_channel_that_is_busy_for_no_time_says_so() -> None:
    for seconds in (None, "30", float("nan"), -1, True):
        with pytest.raises(UserError, match="seconds="):
            ChannelBusy("later", seconds=seconds)  # type: ignore[arg-type]  # as a channel of the user's own may


async def test_a_decision_that_is_told_late_cannot_be_taken_for_the_next_asking() -> None:
    """What asks anew by then is not shown in it, and no button of it approves that."""
    journal, down = MemoryJournal(), list[str]()
    row, inbox = (await asked(journal))[0], Inbox(journal)

    def answer(_message: Message) -> None:
        if down:
            raise OSError(down[0])

    mail = Recorder(answers=answer)
    async with dispatching(journal, mail):
        await until(lambda: mail.told)
        down.append("no line")
        await inbox.approve(row, by="bob")
        await until(lambda: len(mail.tried) > 1)
        await inbox.withdraw(row, by="bob")
        down.clear()
        await until(lambda: len(mail.told) > 1)
    late = mail.told[1]
    assert (late.topic, late.revision) == ("request.decided", 2)
    assert (late.verdicts, late.whole) == ((), False)


async def test_the_order_per_request_holds_where_the_first_one_fails() -> None:
    journal, failures = MemoryJournal(), [OSError(), OSError()]

    def fail(_message: Message) -> None:
        if failures:
            raise failures.pop()

    books = Ledger("books", fail)
    row = (await asked(journal))[0]
    await Inbox(journal).reject(row, by="bob")
    async with dispatching(journal, books):
        await until(lambda: settled(journal))
    assert books.topics == ["created", "decided"]


async def test_two_dispatchers_do_not_both_send(store: Store) -> None:
    one, two = Recorder(), Recorder()
    async with dispatching(store, one), dispatching(store, two):
        await asked(store, "ada", "bob", "eve")
        await until(lambda: len(one.told) + len(two.told) == 3)
        await until(lambda: settled(store))
    assert sorted((len(one.told), len(two.told))) == [0, 3]


async def test_what_was_being_sent_as_a_process_ended_is_tried_alone(store: Store) -> None:
    """A message that ends its process each time is counted, and takes no other with it."""
    await asked(store, "ada", "bob", "eve")
    claim = await store.claim(LEASE, "killed", 60_000)
    at = await store.now()
    rows = [Delivery("mail", "", "request.created", row.run, row.id, {"at": at}) for row in await store.requests()]
    await store.dispatch(claim, Dispatch([notice.number for notice in await store.outbox()], rows))
    left = await store.deliveries(DeliveryQuery())
    sending = [
        Delivery(**{**_fields(row), "state": "sending", "attempts": 3 if place == 0 else 1})
        for place, row in enumerate(left[:2])
    ]
    await store.dispatch(claim, Dispatch(changed=sending))
    await store.release(claim)
    beside = list[int]()
    at_work = set[str]()

    async def look(message: Message) -> None:
        at_work.add(message.id)
        beside.append(len(at_work))
        await turns_of_the_loop(20)
        at_work.discard(message.id)

    mail = Recorder(answers=look)
    async with dispatching(store, mail):
        await until(lambda: len(mail.told) == 2)
        await until(lambda: settled(store))
    dead = await store.deliveries(DeliveryQuery())
    assert [(row.subject, row.state) for row in dead] == [(left[0].subject, "dead")]
    assert beside == [1, 1]


def _fields(row: Delivery) -> dict[str, Any]:
    return {name: getattr(row, name) for name in row.__struct_fields__}


async def test_recipients_that_cannot_be_named_are_asked_for_again(store: Store) -> None:
    failures = [ValueError("the directory is away"), ValueError("still")]

    def who(_request: Any) -> list[Any]:
        if failures:
            raise failures.pop()
        return [to("ada")]

    mail = Recorder()
    await asked(store)
    async with dispatching(store, mail, recipients=who):
        await until(lambda: mail.told)
        await until(lambda: settled(store))
    assert await store.deliveries(DeliveryQuery()) == []


async def test_what_could_not_be_addressed_before_it_was_decided_stands_in_the_books_all_the_same(store: Store) -> None:
    """Found by the simulator: a store that failed for a moment took the first notice from who is told of everything."""
    failures = [ValueError("the directory is away")]

    def who(_request: Any) -> list[Any]:
        if failures:
            raise failures.pop()
        return [to("", "books"), to("ada")]

    books, mail = Ledger("books"), Recorder()
    row = (await asked(store))[0]
    await Inbox(store).reject(row, by="bob")
    async with dispatching(store, books, mail, recipients=who):
        await until(lambda: len(books.told) == 2)
        await until(lambda: settled(store))
    assert sorted(books.topics) == ["created", "decided"]
    assert mail.topics == ["decided"]


async def test_a_poisoned_notice_stops_nothing(store: Store) -> None:
    """Notices that were altered, or say nothing that anybody understands."""
    strange = [{}, {"request": 5}, {"request": "x" * 9_000}, {"at": "soon", "grant": "g\u202e\x1b[2J"}, {"at": 2**62}]
    strange += [{"request": "q\0"}, {"grant": "\0"}, {"grant": "g", "by": "\0\x1b[2J"}, {"grant": "g", "at": -5}]
    topics = ("request.created", "request.decided", "grant.revoked", "drill", "request.looked", "\x1b]0;x\x07")
    mail = Recorder()
    async with dispatching(store, mail):
        await store.tell([Notice(topic, "run", about) for topic in topics for about in strange])
        await asked(store)
        await until(lambda: "created" in mail.topics)
        await until(lambda: settled(store))
    assert all(message.topic in ("request.created", "grant.revoked") for message in mail.told)
    assert all("\x1b" not in message.title + message.text for message in mail.told)


async def test_a_recipient_that_no_store_can_keep_stops_nothing(store: Store) -> None:
    bad: list[dict[str, Any]] = [{"person": "a\0"}, {"person": "\ud800"}, {"person": "a", "after": 1e300}]
    bad += [{"person": "a", "muted_until": 2**80}, {"person": "a", "after": float("nan")}]
    mail, asks = Recorder(), list[int]()

    def who(_request: Any) -> list[Any]:
        asks.append(1)
        return [to(**bad[len(asks) - 1])] if len(asks) <= len(bad) else [to("ada")]

    async with dispatching(store, mail, recipients=who, attempts=Attempts(most=9, first=0.01, longest=0.01)):
        await asked(store)
        await until(lambda: mail.told)
    assert [message.to.person for message in mail.told] == ["ada"]


async def test_old_news_is_told_to_nobody_but_what_waits_is() -> None:
    journal, clock = clocked()
    row, *_ = await asked(journal)
    late = (await asked(journal, "bob"))[0]
    await Inbox(journal).reject(row, by="bob")
    clock.now += 48 * HOUR
    books = Ledger("books")
    async with dispatching(journal, books):
        await until(lambda: settled(journal))
    assert [message.request for message in books.told] == [late.id]


async def test_a_store_that_fails_is_tried_again() -> None:
    journal, mail = MemoryJournal(), Recorder()
    real, failures = journal.outbox, [OSError("away")]

    async def outbox(limit: int = 100, done: int | None = None) -> list[Notice]:
        if failures:
            raise failures.pop()
        return await real(limit, done)

    setattr(journal, "outbox", outbox)  # noqa: B010  # a store that fails once
    await asked(journal)
    async with dispatching(journal, mail):
        await until(lambda: mail.told)


async def test_a_dispatcher_ends_with_its_journal(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It logged a traceback each few seconds for as long as its process lived."""
    journal = open_journal(f"sqlite:///{tmp_path}/runs.db")
    await journal.close()
    async with asyncio.timeout(30):
        await Dispatcher(journal, ChannelPlan([Recorder()])).run()
    assert not caplog.records


async def test_a_plan_that_cannot_be_is_refused() -> None:
    with pytest.raises(Exception, match="same name"):
        ChannelPlan([Recorder("mail"), Recorder("mail")])
    with pytest.raises(Exception, match="list of channels"):
        ChannelPlan.of(Recorder())  # type: ignore[arg-type]  # a caller's mistake
    with pytest.raises(Exception, match="attempts"):
        Attempts(most=0)
    with pytest.raises(Exception, match="link="):
        ChannelPlan([], link="javascript:alert(1)")


async def test_a_message_with_an_unknown_channel_waits_and_hurts_nobody() -> None:
    journal, mail = MemoryJournal(), Recorder()
    await asked(journal)
    claim = await journal.claim(LEASE, "x", 1)
    await journal.dispatch(claim, Dispatch(added=[Delivery("fax", "ada", "request.created", "run", "q")]))
    await journal.release(claim)
    async with dispatching(journal, mail):
        await until(lambda: mail.told)
        await wake(journal)
    assert [row.channel for row in await journal.deliveries(DeliveryQuery())] == ["fax"]


async def test_the_lease_of_a_dispatcher_that_died_is_no_run_for_a_worker(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """A lease that ran out makes its name due: a worker gives it back, and has nothing to do for it."""
    dead = await store.claim(LEASE, "died", 1)

    async def given_back() -> bool:
        try:
            claim = await store.claim(LEASE, "next", 60_000)
        except Conflict:
            return False
        await store.release(claim)
        return claim.epoch > dead.epoch + 1

    async with App([], store):
        await until(given_back)
        assert await store.due() == []
    assert [record.message for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []
