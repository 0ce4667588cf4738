"""Teams, PagerDuty, Opsgenie and e-mail keep the room's promises, and say what the real services read."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any, ClassVar

import pytest
import pytest_asyncio
from msgspec.structs import replace

from keyturn import MemoryJournal, UserError
from keyturn.channels.base import Channel, ChannelRefused, Message, Recipient
from keyturn.channels.mail import MailChannel
from keyturn.channels.opsgenie import OpsgenieChannel
from keyturn.channels.pagerduty import PagerDutyChannel
from keyturn.channels.teams import LARGEST, TeamsChannel, card
from keyturn.inbox.desk import Inbox
from keyturn.testing.loopback.mailbox import MailboxServer
from keyturn.testing.loopback.receiver import ReceiverServer
from keyturn.testing.loopback.wire import HttpReply
from keyturn.testing.suites.channels import ChannelSuite, Mood, message_for, request_to_tell
from tests.channels.posted import Posted
from tests.channels.telling import asked, dispatching, settled, to
from tests.waiting import until

ACCEPTED: dict[str, HttpReply] = {"takes": HttpReply.json({"status": "success"}, 202)}


async def message_to(address: str, **changed: Any) -> Message:
    """The message of a request, to an address."""
    made = message_for(await request_to_tell(), Recipient(person="ada", channel="page", address=address))
    return replace(made, **changed)


class TestTeams(Posted):
    replies: ClassVar[dict[str, HttpReply]] = {"takes": HttpReply(202)}

    async def make_channel(self) -> Channel:
        return TeamsChannel(self.server.url + "/workflows/1/invoke?sig=s", loopback=True)

    def recipient(self) -> Recipient:
        return Recipient(person="ada", channel="teams")

    def text(self, body: bytes) -> str:
        [attachment] = json.loads(body)["attachments"]
        lines = ["".join(run["text"] for run in block["inlines"]) for block in attachment["content"]["body"]]
        return "\n".join([*lines, *(each["url"] for each in attachment["content"]["actions"])])

    async def test_the_card_is_one_that_a_workflow_posts_and_reads_no_markdown(self) -> None:
        await self.told(await self.make_channel(), "[approve](https://evil.example)")
        sent = json.loads(self.server.taken[0].body)
        [attachment] = sent["attachments"]
        assert (sent["type"], self.server.taken[0].path) == ("message", "/workflows/1/invoke")
        assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
        assert {block["type"] for block in attachment["content"]["body"]} == {"RichTextBlock"}
        assert [each["type"] for each in attachment["content"]["actions"]] == ["Action.OpenUrl"]

    async def test_a_card_of_many_short_lines_is_as_large_as_a_workflow_takes(self) -> None:
        made = card(await message_to("", rows=("| x",) * 1_300))
        assert len(json.dumps(made, separators=(",", ":"))) < LARGEST
        assert "cut here" in str(made)


class TestPagerDuty(Posted):
    replies: ClassVar[dict[str, HttpReply]] = ACCEPTED

    async def make_channel(self) -> Channel:
        return PagerDutyChannel({"ops": "R0", "finance": "R1"}, url=self.server.url, loopback=True)

    def recipient(self) -> Recipient:
        return Recipient(person="", channel="pagerduty", address="finance")

    def text(self, body: bytes) -> str:
        sent = json.loads(body)
        shown = sent["payload"]["custom_details"]
        return "\n".join([sent["payload"]["summary"], *shown.values(), *(each["href"] for each in sent["links"])])

    async def test_an_event_is_one_of_events_api_v2(self) -> None:
        message = await self.told(await self.make_channel())
        request = self.server.taken[0]
        sent = json.loads(request.body)
        assert request.path == "/v2/enqueue"
        assert (sent["routing_key"], sent["event_action"]) == ("R1", "trigger")
        assert sent["dedup_key"] == f"keyturn-{message.request}"
        assert {"summary", "source", "severity"} <= set(sent["payload"])

    async def test_an_address_names_a_key_and_is_none(self) -> None:
        with pytest.raises(ChannelRefused):
            await (await self.make_channel()).send(await message_to("R9"))
        with pytest.raises(UserError):
            PagerDutyChannel("R 0")


class TestOpsgenie(Posted):
    replies: ClassVar[dict[str, HttpReply]] = ACCEPTED

    async def make_channel(self) -> Channel:
        return OpsgenieChannel("K0", url=self.server.url, loopback=True)

    def recipient(self) -> Recipient:
        return Recipient(person="", channel="opsgenie")

    def text(self, body: bytes) -> str:
        sent = json.loads(body)
        return "\n".join([sent["description"], *sent["details"].values()])

    async def test_an_alert_is_one_of_the_alert_api(self) -> None:
        message = await self.told(await self.make_channel())
        request = self.server.taken[0]
        sent = json.loads(request.body)
        assert (request.path, request.headers["authorization"]) == ("/v2/alerts", "GenieKey K0")
        assert sent["alias"] == f"keyturn-{message.request}"
        assert len(sent["message"]) <= 130
        assert sent["priority"] in ("P1", "P2", "P3", "P4", "P5")


class TestMail(ChannelSuite):
    moods = ("fails", "hangs")

    @pytest_asyncio.fixture(autouse=True)
    async def mailbox(self) -> AsyncGenerator[None]:
        async with MailboxServer() as self.server:
            yield

    async def make_channel(self) -> Channel:
        return MailChannel("127.0.0.1", "Keyturn <kt@example.org>", port=self.server.port, security="none")

    def recipient(self) -> Recipient:
        return Recipient(person="ada", channel="mail", address="ada@example.org")

    def mood(self, mood: Mood) -> None:
        self.server.mood = mood

    def read(self) -> list[str]:
        found = [(each["subject"], each.get_body(("plain",))) for each in self.server.mails]
        return [subject + "\n" + body.get_content().replace("\r\n", "\n") for subject, body in found if body]

    def everything(self) -> Any:
        return [(each.items(), [part.get_content() for part in each.iter_parts()]) for each in self.server.mails]

    async def test_html_says_the_same_as_text_and_nothing_in_it_acts(self) -> None:
        """A script, a link or a picture of a model's words would be one of ours to its reader."""
        message = await self.told(await self.make_channel(), "<img src=x onerror=alert(1)><a href='https://evil'>")
        [mail] = self.server.mails
        assert [part.get_content_type() for part in mail.iter_parts()] == ["text/plain", "text/html"]
        html = [*mail.iter_parts()][1].get_content()
        assert "&lt;img src=x" in html
        assert "<img" not in html
        assert [each.partition('"')[0] for each in html.split('href="')[1:]] == [message.link]
        assert message.digest in html

    async def test_mails_of_a_request_are_one_conversation_that_no_mail_answers(self) -> None:
        channel = await self.make_channel()
        message = await self.told(channel)
        [mail] = self.server.mails
        assert mail["Message-ID"] == f"<{message.id}@example.org>"
        assert mail["References"] == f"<request-{message.request}@example.org>"
        assert (mail["Auto-Submitted"], self.server.envelopes) == ("auto-generated", ["ada@example.org"])

    async def test_an_address_is_one_address(self) -> None:
        channel = await self.make_channel()
        two, header = "ada@example.org, eve@example.org", "ada@example.org\r\nBcc: eve@example.org"
        for address in ("ada", two, header, "a@b", "@x.y", f"{'a' * 490}@example.org"):
            with pytest.raises(ChannelRefused):
                await channel.send(await message_to(address))
        with pytest.raises(UserError, match="encrypted"):
            MailChannel("mail.example.org", "kt@example.org", security="none", login=("kt", "x"))


@pytest.mark.asyncio
async def test_an_incident_is_opened_acknowledged_by_a_claim_and_resolved_by_the_decision() -> None:
    """Each by itself, also for a recipient who wants digests: a digest could never be resolved."""
    async with ReceiverServer(ACCEPTED) as server:
        journal = MemoryJournal()
        channel = PagerDutyChannel("R0", url=server.url, loopback=True)

        def who(_request: object) -> list[Recipient]:
            return [to("", "pagerduty", digest=0.01)]

        def actions() -> list[tuple[str, str]]:
            sent = [json.loads(each.body) for each in server.taken]
            return [(each["event_action"], each["dedup_key"]) for each in sent]

        async with dispatching(journal, channel, recipients=who):
            rows = await asked(journal, "ada", "bob")
            keys = [f"keyturn-{row.id}" for row in rows]
            await until(lambda: len(server.taken) == 2)
            inbox = Inbox(journal)
            await inbox.take(rows[0], by="gus")
            await until(lambda: len(server.taken) == 3)
            await inbox.reject(rows[0], by="gus")
            await until(lambda: settled(journal))
        assert sorted(actions()[:2]) == sorted(("trigger", key) for key in keys)
        assert actions()[2:] == [("acknowledge", keys[0]), ("resolve", keys[0])]
        notified = await inbox.notified(rows[0])
        assert [(each.about, each.state) for each in notified] == [
            ("new request", "delivered"),
            ("claim", "delivered"),
            ("decision", "delivered"),
        ]
