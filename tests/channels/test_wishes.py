"""People are told when they want to be: quiet hours by their own clocks, digests, rates, one way after another."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from keyturn import Approval, MemoryJournal, UserError
from keyturn.channels.base import ChannelRefused, Message, QuietHours, Recipient
from keyturn.core import commands as cm
from keyturn.directory.people import People
from keyturn.directory.recipients import DirectoryRecipients
from keyturn.inbox.desk import Inbox
from keyturn.journal.rows import DeliveryQuery
from tests.channels.telling import Ledger, Recorder, asked, clocked, dispatching, settled, to, wake
from tests.waiting import turns_of_the_loop, until

HOUR, MINUTE = 3_600_000, 60_000
EVENING = int(datetime(2026, 7, 1, 20, 30, tzinfo=UTC).timestamp() * 1_000)  # 22:30 in Berlin
NIGHT = QuietHours("22:00", "07:00", "Europe/Berlin")


async def at_rest(journal: MemoryJournal) -> None:
    """Wait until the dispatcher has looked at everything and waits."""
    await until(lambda: _addressed(journal))
    await turns_of_the_loop(50)


async def _addressed(journal: MemoryJournal) -> bool:
    return not await journal.outbox() and all(
        row.state == "waiting" for row in await journal.deliveries(DeliveryQuery())
    )


async def test_quiet_hours_end_and_then_one_message_says_how_many_wait() -> None:
    journal, clock = clocked()
    clock.now, mail = EVENING, Recorder()
    async with dispatching(journal, mail, recipients=lambda _r: [to(quiet=NIGHT)], link="https://x.example/{request}"):
        await asked(journal, "ada", "bob", "eve")
        await until(lambda: _put_off(journal, 3, EVENING))
        assert mail.tried == []
        clock.now = EVENING + 9 * HOUR
        await wake(journal)
        await until(lambda: mail.told)
        await until(lambda: settled(journal))
    assert [(message.title, message.count) for message in mail.told] == [("3 pending requests", 3)]
    assert mail.told[0].text.count("asks to run pay") == 3


async def _put_off(journal: MemoryJournal, count: int, now: int) -> bool:
    rows = await journal.deliveries(DeliveryQuery(state="waiting"))
    return len(rows) == count and all(row.due_at > now and row.attempts == 0 for row in rows)


async def test_a_digest_gathers_what_comes_within_its_time() -> None:
    journal, clock = clocked()
    mail = Recorder()
    async with dispatching(journal, mail, recipients=lambda _r: [to(digest=300)]):
        await asked(journal, "ada")
        await asked(journal, "bob", "eve")
        await until(lambda: _put_off(journal, 3, clock.now))
        clock.now += 5 * MINUTE
        await wake(journal)
        await until(lambda: settled(journal))
    assert [message.count for message in mail.told] == [3]


async def test_a_digest_that_failed_is_no_flood_of_single_messages() -> None:
    """Somebody who could not be reached is told one thing, and then the rest together."""
    journal, clock = clocked()
    failures = [OSError("500")]

    def answer(_message: Message) -> None:
        if failures:
            raise failures.pop()

    mail = Recorder(answers=answer)
    async with dispatching(journal, mail, recipients=lambda _r: [to(digest=300)]):
        await asked(journal, "one", "two", "three", "four", "five")
        await until(lambda: _put_off(journal, 5, clock.now))
        clock.now += 5 * MINUTE
        await wake(journal)
        await until(lambda: len(mail.tried) == 1)
        await until(lambda: _addressed(journal))
        clock.now += MINUTE
        await wake(journal)
        await until(lambda: settled(journal))
    assert [message.count for message in mail.tried] == [5, 1, 4]


@pytest.mark.parametrize("error", [ChannelRefused("too long"), OSError("500")], ids=["refused", "failed"])
async def test_what_spoils_a_digest_takes_no_other_message_along(error: Exception) -> None:
    """All that a digest told of was given up with it, where its receiver refused it once, or took it never."""
    journal, clock = clocked()

    def answer(message: Message) -> None:
        if message.count > 1:
            raise error

    async def told() -> bool:
        if await settled(journal):
            return True
        clock.now += MINUTE
        await wake(journal)
        return False

    mail = Recorder(answers=answer)
    async with dispatching(journal, mail, recipients=lambda _r: [to(digest=300)]):
        await asked(journal, *"abcd")
        await until(lambda: _put_off(journal, 4, clock.now))
        clock.now += 5 * MINUTE
        await until(told)
    assert [message.count for message in mail.told] == [1] * 4
    assert len(mail.tried) > 4


async def test_a_digest_names_only_requests_that_its_reader_may_decide_when_it_is_sent() -> None:
    journal, clock = clocked()
    people, mail = People(journal), Recorder()
    await people.start("ada")
    await people.add("bob", roles=["ops", "finance"], by="ada")
    await people.set_address("bob", "mail", "bob@example.org", by="ada")
    await people.set("digest", 300, person="bob", by="bob")
    async with dispatching(journal, mail, recipients=DirectoryRecipients(people)):
        [of_ops] = await asked(journal, terms=Approval(role="ops"))
        await asked(journal, terms=Approval(role="finance"))
        await until(lambda: _put_off(journal, 2, clock.now))
        await people.take_role("finance", of="bob", by="ada")
        clock.now += 5 * MINUTE
        await wake(journal)
        await until(lambda: settled(journal))
    assert [(message.count, message.request) for message in mail.told] == [(1, of_ops.id)]


async def test_no_more_than_so_many_an_hour_and_then_together() -> None:
    journal, clock = clocked()
    mail = Recorder()
    async with dispatching(journal, mail, recipients=lambda _r: [to(rate=2)]):
        for name in ("one", "two"):
            count = len(mail.told)
            await asked(journal, name)
            await until(lambda count=count: len(mail.told) > count)
        await asked(journal, "three", "four")
        await until(lambda: _put_off(journal, 2, clock.now))
        clock.now += HOUR
        await wake(journal)
        await until(lambda: settled(journal))
    assert [message.count for message in mail.told] == [1, 1, 2]


async def test_who_is_muted_is_told_afterwards_and_who_is_no_recipient_any_more_is_not() -> None:
    journal, clock = clocked()
    muted: list[Recipient] = [to("ada", muted_until=clock.now + HOUR), to("bob", muted_until=clock.now + HOUR)]
    mail = Recorder()
    async with dispatching(journal, mail, recipients=lambda _r: muted):
        await asked(journal)
        await until(lambda: _put_off(journal, 2, clock.now))
        del muted[1]
        clock.now += HOUR
        await wake(journal)
        await until(lambda: settled(journal))
    assert [message.to.person for message in mail.told] == ["ada"]


async def test_who_mutes_no_more_is_told_within_a_quarter_of_an_hour() -> None:
    journal, clock = clocked()
    wishes, mail = [to(muted_until=clock.now + 30 * 24 * HOUR)], Recorder()
    async with dispatching(journal, mail, recipients=lambda _r: wishes):
        await asked(journal)
        await until(lambda: _put_off(journal, 1, clock.now))
        wishes[0] = to()
        clock.now += 15 * MINUTE
        await wake(journal)
        await until(lambda: settled(journal))
    assert mail.topics == ["created"]


async def test_of_what_was_asked_again_meanwhile_one_message_is_enough() -> None:
    journal, clock = clocked()
    [row] = await asked(journal, terms=Approval(expires="1h", on_expiry="ask_again", max_asks=3))
    mail, books, inbox = Recorder(), Ledger("books"), Inbox(journal)
    ways = [to(muted_until=clock.now + 3 * HOUR), to(channel="books")]
    async with dispatching(journal, mail, books, recipients=lambda _r: ways):
        for _ in range(2):
            clock.now += HOUR + 1_000
            await inbox.tell(row.run, cm.Tick())
        await until(lambda: books.topics == ["created"] * 3)
        clock.now += HOUR
        await wake(journal)
        await until(lambda: settled(journal))
    assert [(message.topic, message.revision, message.count) for message in mail.told] == [("request.created", 3, 1)]


async def test_a_warning_before_expiry_waits_for_no_other_way() -> None:
    journal, clock = clocked()
    row = (await asked(journal, terms=Approval(expires="1h", warn_before="10m")))[0]
    mail, inbox = Recorder(), Inbox(journal)
    async with dispatching(journal, mail, recipients=lambda _r: [to(after=900)]):
        await until(lambda: _put_off(journal, 1, clock.now))
        clock.now += HOUR - 9 * MINUTE
        await wake(journal)
        await until(lambda: mail.topics == ["created"])
        await inbox.tell(row.run, cm.Tick())
        await until(lambda: mail.topics == ["created", "expiring"])


@pytest.mark.parametrize("looks", ["ada", "bob", "decides", "nobody"])
async def test_the_second_way_is_taken_if_the_first_was_not_enough(looks: str) -> None:
    journal, clock = clocked()
    push, mail = Recorder("push"), Recorder("mail")
    ways = [to("ada", "push"), to("ada", "mail", after=60)]
    async with dispatching(journal, push, mail, recipients=lambda _r: ways):
        row = (await asked(journal))[0]
        await until(lambda: push.told)
        inbox = Inbox(journal)
        if looks == "decides":
            await inbox.reject(row, by="bob")
        elif looks != "nobody":
            await inbox.looked(row.id, by=looks)
        await until(lambda: _addressed(journal))
        clock.now += MINUTE
        await wake(journal)
        await until(lambda: settled(journal))
    expected: dict[str, list[str]] = {"ada": [], "decides": ["decided"]}
    assert mail.topics == expected.get(looks, ["created"])


async def test_a_look_at_what_waits_no_longer_is_no_notice() -> None:
    journal = MemoryJournal()
    row = (await asked(journal))[0]
    await Inbox(journal).reject(row, by="bob")
    before = len(await journal.outbox())
    await Inbox(journal).looked(row.id, by="ada")
    assert len(await journal.outbox()) == before
    with pytest.raises(UserError):
        await Inbox(journal).looked("unknown", by="ada")


NIGHTS = [("22:00", "07:00"), ("01:30", "02:30"), ("00:00", "03:00"), ("02:00", "01:59")]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "UTC"])
@pytest.mark.parametrize(("start", "end"), NIGHTS)
def test_quiet_hours_follow_the_clocks_of_their_zone(zone: str, start: str, end: str) -> None:
    """Over both changes of the clocks each quiet time has an end, which is later and outside of it."""
    quiet = QuietHours(start, end, zone)
    for day in ("2026-03-07", "2026-03-28", "2026-04-04", "2026-10-03", "2026-10-24", "2026-10-31"):
        now = datetime.fromisoformat(day).replace(tzinfo=UTC)
        for _ in range(2 * 24 * 4):
            now += timedelta(minutes=15)
            until = quiet.until(now)
            if until is not None:
                assert now < until <= now + timedelta(hours=25)
                again = quiet.until(until)
                assert again is None or again - until <= timedelta(hours=1), "an hour that comes twice ends twice"


def test_wishes_that_cannot_be_are_refused() -> None:
    def refused(given: tuple[str, Any]) -> None:
        with pytest.raises(UserError):
            Recipient(person="ada", channel="mail", **{given[0]: given[1]})

    cases: list[tuple[str, Any]] = [("after", -1), ("after", float("nan")), ("digest", float("inf")), ("rate", 0)]
    cases.append(("topics", frozenset({"x"})))
    for case in cases:
        refused(case)
    zones = [("22:00", "07:00", zone) for zone in ("Mars/Base", "../x", "")]
    for times in (("22", "x", "UTC"), ("22:00", "22:00", "UTC"), *zones):
        with pytest.raises(UserError):
            QuietHours(*times)
