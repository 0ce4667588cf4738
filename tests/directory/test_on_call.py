"""Who is on call is notified first: turns by the clock on the wall, and holes that fall to the next level."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from keyturn import App, Approval, MemoryJournal, UserError
from keyturn.channels.plan import ChannelPlan
from keyturn.directory.on_call import Level, holes, on_call
from keyturn.directory.people import People
from keyturn.directory.recipients import DirectoryRecipients
from keyturn.testing.suites.channels import message_for
from tests.channels.telling import Recorder, asked
from tests.server.office import Clock
from tests.server.web.visiting import Visiting

WEEK = {"people": ["gus", "hana"], "since": "2026-10-19T09:00", "zone": "Europe/Berlin"}


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1_000)


def test_turns_change_at_the_same_time_of_the_wall_also_where_clocks_change() -> None:
    """Berlin goes back from UTC+2 to UTC+1 on 2026-10-25: nine o'clock is 07:00 UTC before, and 08:00 after."""
    level = Level(("gus", "hana"), since="2026-10-19T09:00", zone="Europe/Berlin")
    for text, person in (
        ("2026-10-19T06:59", "hana"),
        ("2026-10-19T07:00", "gus"),
        ("2026-10-26T07:59", "gus"),
        ("2026-10-26T08:00", "hana"),
        ("2026-11-02T08:00", "gus"),
        ("2001-01-01T00:00", "hana"),
    ):
        assert level.holder(datetime.fromisoformat(text).replace(tzinfo=UTC)) == person, text


def test_a_hole_falls_to_the_next_level_and_is_known_before() -> None:
    night = Level(("gus",), hours=("22:00", "06:00"), days=("fri",))
    rest = Level(("hana",))
    both = {"gus", "hana"}
    for text, person, level in (
        ("2026-11-06T21:59", "hana", 2),
        ("2026-11-06T22:00", "gus", 1),
        ("2026-11-07T05:59", "gus", 1),
        ("2026-11-07T06:00", "hana", 2),
        ("2026-11-07T22:30", "hana", 2),
    ):
        assert on_call([night, rest], at(text), both) == [(person, level)], text
    assert on_call([night, rest], at("2026-11-06T22:00"), {"hana"}) == [("hana", 2)], "who left falls to the next level"
    assert on_call([night, rest], at("2026-11-06T22:00"), both, needed=2) == [("gus", 1), ("hana", 2)]
    assert on_call([night, rest], at("2026-11-06T22:00"), both, needed=3) == []
    found = [(f"{start:%a %H:%M}", f"{end:%a %H:%M}") for start, end in holes(night, at("2026-11-06T12:00"))]
    assert found == [("Fri 12:00", "Fri 22:00"), ("Sat 06:00", "Fri 12:00")]


@pytest.fixture
def clock() -> Clock:
    made = Clock()
    made.now = at("2026-11-04T12:00")
    return made


async def staffed(journal: MemoryJournal) -> People:
    people = People(journal)
    await people.start("ada")
    for name in ("gus", "hana", "ivy"):
        await people.add(name, roles=["finance"], by="ada")
        await people.set_address(name, "mail", f"{name}@example.org", by="ada")
    return people


async def test_who_is_on_call_is_notified_and_everybody_where_too_few_are(clock: Clock) -> None:
    journal = MemoryJournal(clock)
    people = await staffed(journal)
    recipients = DirectoryRecipients(people)
    one = (await asked(journal, terms=Approval(role="finance")))[0].request
    two = (await asked(journal, terms=Approval(role="finance", quorum=2)))[0].request
    other = (await asked(journal, terms=Approval(users=["gus", "ivy"])))[0].request

    async def notified(request: Any) -> list[str]:
        return sorted(who.person for who in await recipients(request))

    assert await notified(one) == ["gus", "hana", "ivy"]
    await people.set("on_call", {"finance": [WEEK]}, by="ada")
    assert (await notified(one), await notified(other)) == (["gus"], ["gus", "ivy"])
    assert await notified(two) == ["gus", "hana", "ivy"]
    await people.set("on_call", {"finance": [WEEK, {"people": ["ivy"]}]}, by="ada")
    assert await notified(two) == ["gus", "ivy"]
    clock.now = at("2026-11-11T12:00")
    assert await notified(one) == ["hana"]
    await people.take_role("finance", of="hana", by="ada")
    assert await notified(one) == ["ivy"]


async def test_a_schedule_that_is_none_is_refused(clock: Clock) -> None:
    people = await staffed(MemoryJournal(clock))
    for wrong in (
        {"finance": []},
        {"finance": [{"people": []}]},
        {"finance": [{"people": ["gus"], "zone": "Nowhere"}]},
        {"finance": [{"people": ["gus"], "hours": ["09:00", "09:00"]}]},
        {"finance": [{"people": ["gus"], "since": "2026-11-02T09:00+01:00"}]},
        {"finance": [{"people": ["gus"], "days": ["someday"]}]},
        {"finance": [{"people": ["gus"], "turn": "often"}]},
        {"finance": [{"person": "gus"}]},
        ["gus"],
    ):
        with pytest.raises(UserError):
            await people.set("on_call", wrong, by="ada")


@pytest.mark.usefixtures("own_key")
async def test_pages_show_who_is_on_call_and_the_holes(clock: Clock) -> None:
    journal = MemoryJournal(clock)
    people = await staffed(journal)
    await people.set("on_call", {"finance": [{**WEEK, "hours": ["09:00", "17:00"]}, {"people": ["ivy"]}]}, by="ada")
    [row] = await asked(journal, terms=Approval(role="finance"))
    app = App([], journal, channels=ChannelPlan([Recorder()]))
    visit = Visiting(app, await people.begin_session("ada", "password", lasts="30d"))
    assert 'On call: <span class="theirs">gus</span>' in (await visit.see(f"/requests/{row.id}")).text
    clock.now = at("2026-11-04T20:00")
    assert "ivy (level 2: level 1 has no one now)" in (await visit.see(f"/requests/{row.id}")).text
    page = (await visit.see("/channels")).text
    assert "2026-11-04 20:00</time> to" in page
    assert "<b>no one</b>" in page


async def test_a_notification_has_times_of_its_recipients_zone(clock: Clock) -> None:
    journal = MemoryJournal(clock)
    people = await staffed(journal)
    for name, zone in (("gus", "Asia/Tokyo"), ("hana", "Nowhere")):
        await people.set("zone", zone, person=name, by=name)
    [row] = await asked(journal, terms=Approval(role="finance", expires="4h"))
    told = await DirectoryRecipients(people)(row.request)
    found = {who.person: dict(message_for(row, who).about)["expires"] for who in told}
    assert found == {
        "gus": "2026-11-05 01:00 JST (2026-11-04 16:00 UTC)",
        "hana": "2026-11-04 16:00 UTC",
        "ivy": "2026-11-04 16:00 UTC",
    }
