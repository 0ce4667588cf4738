"""A click in Slack decides as the person whom the directory has under that user, and a stranger's decides nothing."""

from __future__ import annotations

import time
from typing import Any

import pytest
from msgspec.structs import replace

from keyturn import App, Approval, Conflict, MemoryJournal, NotAllowed
from keyturn.channels.base import Message, Recipient
from keyturn.channels.messages import shows_whole, title_of
from keyturn.channels.slack import blocks
from keyturn.channels.slack_replies import SlackRefused, SlackReplies
from keyturn.core.people import Decider
from keyturn.directory.events import AddressSet
from keyturn.directory.login import DECIDE, Login
from keyturn.directory.people import People
from keyturn.inbox.desk import Inbox
from keyturn.inbox.slack_clicks import SlackAnswer, SlackDesk
from keyturn.journal.rows import Delivery, Query
from tests.channels.telling import asked, desk, lost_after
from tests.channels.test_slack_replies import NOW, SECRET, signed


class Room:
    """A workspace T1 in which U1 is Ada and U2 is Bob, and a desk that hears it."""

    def __init__(self) -> None:
        self.journal = MemoryJournal()
        self.people = People(self.journal)
        agent = desk()
        self.inbox = Inbox(self.journal, {agent.name: agent}, self.people)
        self.desk = SlackDesk(self.inbox, self.people, SlackReplies(SECRET), team="T1")
        self.clicks = 0

    async def opened(self) -> Room:
        await self.people.start("ada")
        await self.people.add("bob", roles=["finance"], by="ada")
        for name, user in (("ada", "U1"), ("bob", "U2")):
            await self.people.set_address(name, "slack", user, by="ada")
        return self

    async def click(self, request: Any, user: str, verdict: str = "approve", **said: Any) -> SlackAnswer:
        [answer] = await self.desk.answer(*signed(self.payload(request, user, verdict, **said)), now=NOW)
        return answer

    def payload(self, request: Any, user: str, verdict: str = "approve", **said: Any) -> Any:
        self.clicks += 1
        return {
            "type": "block_actions",
            "user": {"id": user},
            "team": {"id": said.get("team", "T1")},
            "trigger_id": str(self.clicks),
            "actions": [
                {"action_id": f"keyturn.{verdict}", "value": f"{request.id}.{said.get('revision', request.revision)}"}
            ],
        }

    async def state(self, request: Any) -> Any:
        return (await self.journal.requests(Query(id=request.id)))[0]


@pytest.fixture
async def room() -> Room:
    return await Room().opened()


async def test_a_click_decides_with_the_rights_of_the_person(room: Room) -> None:
    [request] = await asked(room.journal, terms=Approval(role="finance"))
    refused = await room.click(request, "U1")
    assert not refused.decided
    assert "finance" in refused.text
    done = await room.click(request, "U2")
    assert (done.person, done.decided, done.text) == ("bob", True, "You approved it.")
    row = await room.state(request)
    assert (row.state, row.by) == ("approve", "bob")
    again = await room.click(request, "U2", "reject")
    assert not again.decided


async def test_a_click_that_is_sent_again_to_another_worker_casts_no_withdrawn_vote_anew(room: Room) -> None:
    await room.people.add("eve", roles=["finance"], by="ada")
    [request] = await asked(room.journal, terms=Approval(role="finance", quorum=2))
    now = int(time.time())
    sent = signed(room.payload(request, "U2"), now)
    [first] = await room.desk.answer(*sent, now=now)
    assert first.decided
    withdrawn = await room.inbox.withdraw(await room.state(request), by=Login("bob", (DECIDE,)))
    other = SlackDesk(room.inbox, room.people, SlackReplies(SECRET), team="T1")
    [again] = await other.answer(*sent, now=now)
    assert (again.decided, "before you withdrew your vote" in again.text) == (False, True)
    assert (await room.state(request)).request.votes == ()
    later = int(withdrawn.request.withdrawn[-1].at.timestamp()) + 1
    [anew] = await other.answer(*signed(room.payload(request, "U2"), later), now=later)
    assert (anew.decided, [vote.by for vote in (await room.state(request)).request.votes]) == (True, ["bob"])


async def test_of_a_click_whose_answer_was_lost_it_is_said_that_it_may_count(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    [request] = await asked(room.journal, terms=Approval(role="finance"))
    monkeypatch.setattr(room.journal, "append", lost_after(room.journal.append))
    lost = await room.click(request, "U2")
    assert (lost.decided, lost.text.partition(",")[0]) == (False, "It may have been decided")
    assert (await room.state(request)).state == "approve"


@pytest.mark.parametrize("user", ["U3", "", "bob", "u2", "U2 "])
async def test_who_is_not_in_the_directory_decides_nothing_and_is_told_so(room: Room, user: str) -> None:
    [request] = await asked(room.journal)
    answer = await room.click(request, user)
    assert not answer.decided
    assert "no user has your Slack account" in answer.text
    assert (await room.state(request)).state == "open"


async def test_a_user_of_another_workspace_is_somebody_else(room: Room) -> None:
    [request] = await asked(room.journal)
    assert not (await room.click(request, "U2", team="T2")).decided


async def test_who_writes_the_user_of_another_as_their_own_changes_nothing_of_what_that_one_decides(room: Room) -> None:
    """Slack's ids are no secret: who claims one is not believed, and takes nothing from whom it belongs to."""
    await room.people.add("eve", by="ada", roles=["finance"])
    with pytest.raises(Conflict):
        await room.people.set_address("eve", "slack", "u2", by="eve")
    await room.people.set_address("eve", "slack", "U7", by="eve")
    [request] = await asked(room.journal, terms=Approval(role="finance"))
    assert not (await room.click(request, "U7")).decided, "an address that waits for its code decides nothing"
    assert (await room.state(request)).state == "open"
    assert (await room.click(request, "U2")).person == "bob"
    with pytest.raises(Conflict):
        await room.people.set_address("ada", "slack", "U2", by="ada")


async def test_an_address_of_before_there_were_codes_decides_nothing_until_it_is_confirmed(room: Room) -> None:
    await room.people.add("eve", by="ada", roles=["finance"])
    await room.people._book.change(  # pyright: ignore[reportPrivateUsage]  # an entry as an older version wrote it
        Decider("eve"), lambda _now, _at: [AddressSet("eve", "slack", "U9")]
    )
    assert (await room.people.get("eve")).told_at == {"slack": "U9"}, "and they are told there as before"
    [request] = await asked(room.journal, terms=Approval(role="finance"))
    assert not (await room.click(request, "U9")).decided
    await room.people.set_address("eve", "slack", "U9", by="eve")
    assert (await room.people.get("eve")).told_at == {}
    code = await room.people.address_code("eve", "slack")
    for wrong in ("", "AAAA-AAAA-AAAA", await room.people.address_code("ada", "slack")):
        with pytest.raises(NotAllowed):
            await room.people.confirm_address("eve", "slack", wrong, by="eve")
    with pytest.raises(NotAllowed):
        await room.people.confirm_address("eve", "slack", code, by="bob")
    await room.people.confirm_address("eve", "slack", code.lower(), by="eve")
    assert (await room.click(request, "U9")).person == "eve"


async def test_who_left_or_lost_the_role_decides_nothing(room: Room) -> None:
    [request] = await asked(room.journal, terms=Approval(role="finance"))
    await room.people.take_role("finance", of="bob", by="ada")
    assert not (await room.click(request, "U2")).decided
    await room.people.remove("bob", by="ada")
    assert "no user has your Slack account" in (await room.click(request, "U2")).text


async def test_a_click_on_an_earlier_asking_or_without_a_signature_decides_nothing(room: Room) -> None:
    [request] = await asked(room.journal)
    assert not (await room.click(request, "U2", revision=7)).decided
    async with App([desk(terms=Approval(role="finance", signed=True))], room.journal) as app:
        run = await app.start("desk", "go")
        assert (await run.wait(10)).status == "waiting"
    [signed_one] = await room.journal.requests(Query(run=run.id))
    refused = await room.click(signed_one, "U2")
    assert not refused.decided
    assert "signed" in refused.text
    assert (await room.state(signed_one)).state == "open"
    with pytest.raises(SlackRefused):
        await room.desk.answer(b"payload={}", {}, now=NOW)


async def test_a_click_that_opens_is_a_look_and_not_of_what_one_may_not_see(room: Room) -> None:
    [request] = await asked(room.journal, terms=Approval(role="finance"))
    before = len(await room.journal.outbox())
    await room.click(request, "U1", "open")
    assert len(await room.journal.outbox()) == before
    await room.click(request, "U2", "open")
    assert (await room.journal.outbox())[-1].about["person"] == "bob"


async def test_a_click_approves_only_what_a_message_shows_whole_at_a_glance(room: Room) -> None:
    long, short = await asked(room.journal, "a" * 3_000, "ann")
    refused = await room.click(long, "U2")
    assert not refused.decided
    assert "too long" in refused.text
    assert (await room.state(long)).state == "open"
    assert (await room.click(short, "U2")).decided
    assert (await room.click(long, "U2", "reject")).decided
    told = Message(id="m", topic="request.created", to=Recipient(person="ada", channel="slack"), title="t", text="x")
    told = replace(told, request=short.id, verdicts=("approve", "reject"))
    cases = [(True, "t", ["Approve", "Reject"]), (False, "t", ["Reject"]), (True, "t" * 149, ["Reject"])]
    for whole, title, words in cases:
        shown = blocks(replace(told, whole=whole, title=title), buttons=True)
        assert [button["text"]["text"] for button in shown[-1]["elements"]] == words


@pytest.mark.parametrize(("risk", "asks"), [("", False), ("medium", False), ("high", True), ("enormous", True)])
def test_an_approval_of_a_high_risk_is_asked_for_once_more(risk: str, asks: bool) -> None:
    ada = Recipient(person="ada", channel="slack")
    told = Message(id="m", topic="request.created", to=ada, title="t", whole=True, request="5e1f", facts={"risk": risk})
    shown = blocks(replace(told, verdicts=("approve", "reject")), buttons=True)
    assert [("confirm" in button) for button in shown[-1]["elements"]] == [asks, False]


@pytest.mark.parametrize(
    "cut",
    [
        {"tool": "remove_" + "x" * 54},
        {"agent": "a" * 61},
        {"risk": "r" * 61},
        {"reason": "w" * 1_501},
        {"tool": "\u202e" * 60},
    ],
    ids=["a tool's name", "an agent's name", "a risk", "a reason", "a name that is longer as it is shown"],
)
async def test_a_click_approves_no_call_of_which_a_message_cuts_a_name(room: Room, cut: Any) -> None:
    [row] = await asked(room.journal, "ann")
    assert shows_whole(row)
    assert not shows_whole(replace(row, **cut))


async def test_a_message_about_a_review_does_not_say_that_a_call_asks_to_run(room: Room) -> None:
    [row] = await asked(room.journal, "ann")
    note = Delivery("slack", "ada", "request.created", row.run, row.id, {}, 1)
    assert title_of(note, replace(row, kind="review")) == "desk has a call to review: pay"
