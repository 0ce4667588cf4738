"""Who may decide a request is told of it, at the addresses of the directory; nobody else is, and settings count."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from keyturn import Approval, Conflict, MemoryJournal, Runner, UserError
from keyturn.channels.base import Recipient
from keyturn.channels.plan import ChannelPlan
from keyturn.directory.login import DECIDE, Login
from keyturn.directory.people import People
from keyturn.directory.recipients import DirectoryRecipients, reached_by
from keyturn.inbox.desk import Inbox
from keyturn.journal.rows import Query
from tests.channels.telling import Recorder, asked, clocked, desk, dispatching, settled, wake
from tests.waiting import until


async def staff(journal: Any) -> People:
    """Ada administers; Bob and Cyd are of finance, Dan is of nothing; all but Dan have mail."""
    people = People(journal)
    await people.start("ada")
    for name, roles in (("bob", ["finance"]), ("cyd", ["finance"]), ("dan", [])):
        await people.add(name, roles=roles, by="ada")
        await people.set_address(name, "mail", f"{name}@example.org", by="ada")
    await people.set_address("ada", "mail", "ada@example.org", by="ada")
    await people.set_address("bob", "phone", "+49", by="ada")
    return people


async def heard(people: People, journal: Any, terms: Approval | None, **options: Any) -> list[tuple[str, str]]:
    [row] = await asked(journal)
    request = msgspec.structs.replace(row.request, terms=terms)
    told = await DirectoryRecipients(people, **options)(request)
    return sorted((each.person, each.channel) for each in told)


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        (Approval(role="finance"), {"bob", "cyd"}),
        (Approval(users=("dan",)), {"dan"}),
        (Approval(role="finance", quorum=2, signed=True), {"bob", "cyd"}),
        (Approval(role="unheard"), set[str]()),
        (Approval(), {"ada", "bob", "cyd", "dan"}),
    ],
)
async def test_who_may_decide_is_told_and_nobody_else(terms: Approval, expected: set[str]) -> None:
    journal = MemoryJournal()
    assert {who for who, _ in await heard(await staff(journal), journal, terms)} == expected


async def test_changes_of_the_directory_count_from_then_on() -> None:
    journal = MemoryJournal()
    people = await staff(journal)
    [row] = await asked(journal, terms=Approval(role="finance"))
    who = DirectoryRecipients(people)

    async def told() -> set[str]:
        return {f"{each.person} {each.address}" for each in await who(row.request)}

    assert await told() == {"bob bob@example.org", "bob +49", "cyd cyd@example.org"}
    await people.take_role("finance", of="cyd", by="ada")
    await people.set_address("bob", "phone", "", by="bob")
    assert await told() == {"bob bob@example.org"}
    await people.delegate("bob", "dan", lasts="1h")
    assert await told() == {"bob bob@example.org", "dan dan@example.org"}
    await people.remove("bob", by="ada")
    assert await told() == set()
    await people.add("robot", kind="machine", by="ada")
    await people.set_address("robot", "mail", "robot@example.org", by="ada")
    assert await told() == set()


async def test_the_requester_of_a_run_is_not_told_where_they_may_not_decide() -> None:
    journal = MemoryJournal()
    people = await staff(journal)
    [row] = await asked(journal, terms=Approval(role="finance", not_requester=True))
    request = msgspec.structs.replace(row.request, requester="Bob")  # an id that reads alike is the same person
    assert {each.person for each in await DirectoryRecipients(people)(request)} == {"cyd"}


async def test_what_is_about_no_request_is_for_administrators_and_the_rest_for_others() -> None:
    journal = MemoryJournal()
    people = await staff(journal)
    room = Recipient(person="ops", channel="mail", address="ops@example.org")
    who = DirectoryRecipients(people, after={"mail": 60}, otherwise=[room])
    plan = ChannelPlan([Recorder()], recipients=who)
    assert [(each.person, each.after) for each in (await plan.who(None)).values()] == [("ada", 60)]
    [row] = await asked(journal, terms=Approval(role="unheard"))
    assert [each.address for each in (await plan.who(row.request)).values()] == ["ops@example.org"]
    with pytest.raises(UserError, match="after="):
        DirectoryRecipients(people, after={"mail": -1})


async def test_wishes_are_settings_and_one_that_cannot_be_read_stops_nobody() -> None:
    journal = MemoryJournal()
    people = await staff(journal)
    [row] = await asked(journal, terms=Approval(role="finance"))
    await people.set("quiet", ["22:00", "07:00", "Europe/Berlin"], person="bob", by="bob")
    await people.set("rate", 5, person="bob", by="bob")
    await people.set("digest", 300, person="bob", by="bob")
    for name, value in {
        "quiet": ["25:00", "x", "Nowhere"],
        "rate": True,
        "digest": "soon",
        "muted_until": "forever",
        "topics": 7,
        "details": "no",
    }.items():
        await people.set(name, value, person="cyd", by="cyd")
    found = {each.person: each for each in await DirectoryRecipients(people)(row.request)}
    bob = found["bob"]
    assert (bob.quiet is not None, bob.rate, bob.digest) == (True, 5, 300)
    cyd = found["cyd"]
    assert cyd == Recipient(person="cyd", channel="mail", address="cyd@example.org")


async def test_who_muted_for_an_hour_is_told_after_it() -> None:
    journal, clock = clocked()
    people = await staff(journal)
    await people.mute("bob", "1h", by="bob")
    mail = Recorder()
    async with dispatching(journal, mail, recipients=DirectoryRecipients(people)):
        await asked(journal, terms=Approval(role="finance"))
        await until(lambda: len(mail.told) == 1)
        assert [message.to.person for message in mail.told] == ["cyd"]
        clock.now += 3_600_001
        await wake(journal)
        await until(lambda: len(mail.told) == 2)
        assert mail.told[1].to.address == "bob@example.org"
    await people.mute("cyd", "1h", by="cyd")
    await people.mute("cyd", None, by="cyd")
    assert (await people.get("cyd")).settings == {}


async def test_who_loses_the_role_before_their_turn_is_never_told() -> None:
    journal, clock = clocked()
    people = await staff(journal)
    mail = Recorder()
    async with dispatching(journal, mail, recipients=DirectoryRecipients(people, after={"mail": 60})):
        await asked(journal, terms=Approval(role="finance"))
        await until(lambda: _taken_in(journal))
        await people.take_role("finance", of="cyd", by="ada")
        clock.now += 60_001
        await wake(journal)
        await until(lambda: settled(journal))
    assert [message.to.person for message in mail.told] == ["bob"]


async def test_where_nobody_is_left_who_can_be_told_the_others_are(caplog: pytest.LogCaptureFixture) -> None:
    """By a channel that there is: that Bob has a phone is of no use to a plan of mail."""
    journal, clock = clocked()
    people = await staff(journal)
    mail, ops = Recorder(), Recipient(person="", channel="mail", address="ops@example.org")
    who = DirectoryRecipients(people, after={"mail": 60}, otherwise=[ops])
    async with dispatching(journal, mail, recipients=who):
        await asked(journal, terms=Approval(users=("bob",)))
        await until(lambda: _taken_in(journal))
        await people.set_address("bob", "mail", "", by="ada")
        clock.now += 60_001
        await wake(journal)
        await until(lambda: len(mail.told) == 1)
        await asked(journal, terms=Approval(users=("bob",)))
        await until(lambda: len(mail.told) == 2)
    assert [message.to.address for message in mail.told] == ["ops@example.org"] * 2
    assert caplog.text.count("'phone'") == 1


async def test_who_decides_after_the_requester_confirmed_is_told_then() -> None:
    journal = MemoryJournal()
    people = await staff(journal)
    mail = Recorder()
    result = await Runner.run(
        desk(terms=Approval(role="finance", confirm=True)), "go", journal=journal, requester="dan"
    )
    [row] = await journal.requests(Query(run=result.run_id))
    async with dispatching(journal, mail, recipients=DirectoryRecipients(people)):
        await until(lambda: settled(journal))
        assert [message.to.person for message in mail.told] == ["dan"]
        await Inbox(journal, people=people).approve(row, by=Login("dan", (DECIDE,)))
        await until(lambda: len(mail.told) == 3)
    assert {message.to.person for message in mail.told[1:]} == {"bob", "cyd"}


async def test_a_review_is_told_to_who_may_review() -> None:
    journal = MemoryJournal()
    people = await staff(journal)
    [row] = await asked(journal)
    review = msgspec.structs.replace(
        row.request, kind="review", terms=Approval(users=("bob",)), requester="dan", not_for=("bob",)
    )
    assert {each.person for each in await DirectoryRecipients(people)(review)} == {"ada", "cyd"}


async def _taken_in(journal: Any) -> bool:
    return not await journal.outbox()


async def test_an_address_is_one_person_or_nobody() -> None:
    journal = MemoryJournal()
    people = await staff(journal)
    for name in ("bob", "cyd"):
        await people.set_address(name, "slack", f"U{name}", by="ada")
    assert reached_by(await people.directory(), "slack", "Ubob") == "bob"
    assert reached_by(await people.directory(), "slack", "ubob") is None
    assert reached_by(await people.directory(), "slack", "") is None
    with pytest.raises(Conflict):
        await people.set_address("dan", "slack", "Ubob", by="dan")
    await people.set_address("dan", "slack", "Udan", by="dan")
    assert reached_by(await people.directory(), "slack", "Udan") is None, "nobody confirmed it"
    await people.remove("cyd", by="ada")
    assert reached_by(await people.directory(), "slack", "Ucyd") is None
    assert not await journal.requests(Query(state="open"))
