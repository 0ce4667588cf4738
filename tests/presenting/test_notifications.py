"""A request says who was notified, by which channel, when, and whether it was delivered: the same on every face."""

from __future__ import annotations

import html
import json
import re
from typing import Any

import pytest

from keyturn import App, MemoryJournal
from keyturn.channels.base import Channel, ChannelRefused, Message
from keyturn.channels.plan import Attempts, ChannelPlan
from keyturn.cli.deciding.drawing import notified_data
from keyturn.inbox.desk import Inbox
from keyturn.journal.rows import Delivery
from keyturn.presenting.notifications import Notification, delivered_of, notifications_of, undelivered_first
from keyturn.wire.detail import RequestDetail
from tests.channels.telling import Recorder, desk, to
from tests.server.office import Clock, peopled
from tests.server.web.visiting import Visiting
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("own_key")


def test_each_state_of_a_delivery_has_its_words() -> None:
    def words(**given: Any) -> str:
        row = Delivery("slack", "gus", "request.created", "run", "q", **given)
        [made] = notifications_of([row], 100_000)
        return f"{made.to}: {made.words(100_000)}"

    assert words(state="sent", sent_at=40_000) == "gus by slack: delivered 1 min ago (new request)"
    assert words(due_at=160_000, delay=60_000) == (
        "gus by slack: scheduled, due in 1 min (new request): not sent if viewed before"
    )
    assert words(due_at=1) == "gus by slack: queued (new request)"
    assert words(about={"again": "expired"}) == "gus by slack: queued (requested again)"
    assert "retrying (new request): 2 attempts: TimeoutError; next" in words(attempts=2, error="TimeoutError")
    assert words(state="dead", attempts=1, error="gone") == "gus by slack: failed (new request): 1 attempt: gone"
    [unknown] = notifications_of([Delivery("", "", "request.created", "run", "q")], 0)
    assert unknown.to == "recipients not known yet"


def test_where_there_is_no_room_for_all_what_was_not_delivered_comes_first() -> None:
    def made(*states: str) -> list[Notification]:
        return [Notification(f"p{n}", "mail", "new request", state, n) for n, state in enumerate(states)]

    some = made("delivered", "failed", "delivered", "queued")
    assert [each.person for each in undelivered_first(some, 4)] == ["p0", "p1", "p2", "p3"]
    assert [each.person for each in undelivered_first(some, 3)] == ["p1", "p3", "p0"]
    assert delivered_of(some) == "2 of 4 delivered"


class Refusing(Channel):
    """A channel whose receiver refuses for good."""

    name = "mail"

    async def send(self, message: Message) -> None:
        raise ChannelRefused("no such <mailbox>")


async def test_page_api_terminal_and_program_say_who_was_notified() -> None:
    plan = ChannelPlan(
        [Recorder("slack"), Refusing()], lambda _request: [to("ada", "slack"), to("ben")], attempts=Attempts(most=1)
    )
    journal = MemoryJournal(Clock())
    async with App([desk("lumen")], journal, channels=plan) as app:
        tokens = await peopled(app)
        run = await app.start("desk", "Pay.")
        await run.wait()
        [row] = await app.inbox.list()

        async def states() -> list[str]:
            return [each.state for each in await app.inbox.notified(row)]

        async def ended() -> bool:
            return sorted(await states()) == ["delivered", "failed"]

        await until(ended)
        visit = Visiting(app, tokens["ada"])
        page = (await visit.see(f"/requests/{row.id}")).text
        part = page.partition('class="notified"')[2].partition("</details>")[0]
        shown = html.unescape(re.sub("<[^>]*>", "", part))
        assert "1 of 2 delivered" in shown
        assert re.search(r"ada by slack delivered \d+ s ago \(new request\)", shown)
        assert "ben by mail failed (new request): 1 attempt: ChannelRefused: no such <mailbox>" in shown

        facts = await Inbox(journal).as_person("ada").facts(row.id)
        detail = RequestDetail.of(facts, await app.inbox.now())
        assert detail.facts.notified == facts.notified == await app.inbox.notified(row)
        assert [each["state"] for each in json.loads(json.dumps(notified_data(facts.notified)))] == await states()
