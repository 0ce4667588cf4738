"""Every channel keeps the room's promises: to a loopback receiver that speaks what the real one does."""

from __future__ import annotations

import base64
import io
import json
import re
from datetime import UTC, datetime
from typing import Any, ClassVar
from urllib.parse import parse_qs

import http_ece
import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from py_vapid import Vapid02
from standardwebhooks.webhooks import Webhook

from keyturn import UserError
from keyturn.channels.apprise import (
    AppriseChannel,
    _tame,  # pyright: ignore[reportPrivateUsage]  # no service that draws links is here
)
from keyturn.channels.base import Channel, ChannelRefused, Recipient
from keyturn.channels.messages import NoticedRequest, message_of
from keyturn.channels.slack import SlackChannel
from keyturn.channels.terminal import TerminalChannel
from keyturn.channels.webhook import WebhookChannel
from keyturn.channels.webpush import WebPushChannel
from keyturn.journal.rows import Delivery
from keyturn.testing.loopback.wire import HttpReply
from keyturn.testing.suites.channels import ChannelSuite, Mood
from tests.channels.posted import Posted

SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()


class TestWebhook(Posted):
    async def make_channel(self) -> Channel:
        return WebhookChannel(self.server.url + "/hook", secret=SECRET, loopback=True)

    def recipient(self) -> Recipient:
        return Recipient(person="ada", channel="webhook")

    def text(self, body: bytes) -> str:
        data = json.loads(body)["data"]
        return "\n".join([data["title"], data["text"]])

    async def test_its_signature_and_envelope_are_the_standards(self) -> None:
        channel = WebhookChannel(self.server.url + "/hook", secret=[SECRET, SECRET[:-4] + "AAA="], loopback=True)
        message = await self.told(channel)
        request = self.server.taken[0]
        event = Webhook(SECRET).verify(request.body, dict(request.headers))
        Webhook(SECRET[:-4] + "AAA=").verify(request.body, dict(request.headers))
        assert request.headers["content-type"] == "application/cloudevents+json; charset=utf-8"
        assert request.headers["webhook-id"] == event["id"] == message.id
        assert (event["specversion"], event["type"]) == ("1.0", "keyturn.request.created")
        assert event["subject"] == event["data"]["request"] == message.request
        assert datetime.fromisoformat(event["time"]).tzinfo is not None
        assert "params" not in str(event)


class TestSlack(Posted):
    replies: ClassVar[dict[str, HttpReply]] = {"refuses": HttpReply.json({"ok": False, "error": "channel_not_found"})}
    moods = ("fails", "hangs")

    async def make_channel(self) -> Channel:
        return SlackChannel("xoxb-1-2-3", base_url=self.server.url + "/api/", buttons=True)

    def recipient(self) -> Recipient:
        return Recipient(person="ada", channel="slack", address="C012345")

    def text(self, body: bytes) -> str:
        sent = _slack(body)
        told = [block["text"]["text"] for block in sent["blocks"] if "text" in block]
        links = [each["url"] for block in sent["blocks"] for each in block.get("elements", ()) if "url" in each]
        return "\n".join([*told, *links])

    async def test_it_says_what_slack_reads_and_buttons_hold_an_opaque_name(self) -> None:
        message = await self.told(await self.make_channel(), "<!channel> & co")
        request = self.server.taken[0]
        sent = _slack(request.body)
        assert (request.path, sent["channel"]) == ("/api/chat.postMessage", "C012345")
        assert request.headers["authorization"] == "Bearer xoxb-1-2-3"
        buttons = sent["blocks"][-1]["elements"]
        assert [button["action_id"] for button in buttons] == ["keyturn.open", "keyturn.approve", "keyturn.reject"]
        assert {button.get("value") for button in buttons[1:]} == {f"{message.request}.{message.revision}"}
        assert all(block["text"]["type"] == "plain_text" for block in sent["blocks"] if "text" in block)
        assert "<!channel>" not in sent["text"]


def _slack(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        given = {name: value[0] for name, value in parse_qs(body.decode()).items()}
        return {**given, "blocks": json.loads(given["blocks"])}


class TestApprise(Posted):
    tells_refusals = False
    moods = ("fails",)

    async def make_channel(self) -> Channel:
        url = self.server.url.replace("http://", "json://") + "/?rto=1&cto=1"
        return AppriseChannel({"ops": url}, details=True)

    def recipient(self) -> Recipient:
        return Recipient(person="ada", channel="apprise", address="ops")

    def text(self, body: bytes) -> str:
        sent = json.loads(body)
        return sent["title"] + "\n" + sent["message"]

    async def test_only_known_services_are_told(self) -> None:
        channel = AppriseChannel({"ops": "json://127.0.0.1:1/"}, schemes=["tgram"])
        for address in ("json://169.254.169.254/", "file:///etc/passwd", "nobody", "JSON://x", "tgram://\nx"):
            with pytest.raises(ChannelRefused):
                await channel.send(_to(await _message(self), address))
        with pytest.raises(UserError):
            AppriseChannel({"ops": "nonsense"})

    async def test_without_details_nothing_of_it_leaves(self) -> None:
        url = self.server.url.replace("http://", "json://")
        await self.told(AppriseChannel({"ops": url}), "to somebody in particular")
        assert "in particular" not in self.read()[0]


class TestWebPush(Posted):
    replies: ClassVar[dict[str, HttpReply]] = {"takes": HttpReply(201)}

    async def make_channel(self) -> Channel:
        self.key, self.auth = ec.generate_private_key(ec.SECP256R1()), b"a" * 16
        vapid = Vapid02()
        vapid.generate_keys()
        raw = vapid.private_key.private_numbers().private_value.to_bytes(32, "big")
        self.keys = [*getattr(self, "keys", []), self.key]
        return WebPushChannel(_b64(raw), "mailto:ops@example.com", loopback=True)

    def recipient(self) -> Recipient:
        public = self.key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        keys = {"p256dh": _b64(public), "auth": _b64(self.auth)}
        address = json.dumps({"endpoint": self.server.url + "/push/1", "expirationTime": None, "keys": keys})
        return Recipient(person="ada", channel="webpush", address=address)

    def text(self, body: bytes) -> str:
        for key in self.keys:
            try:
                told = json.loads(http_ece.decrypt(body, private_key=key, auth_secret=self.auth))
                return "\n".join(str(told[name]) for name in ("title", "body", "digest", "link"))
            except http_ece.ECEException:
                continue
        raise AssertionError("nobody can decrypt it")

    async def test_the_service_is_told_who_we_are_and_nothing_else(self) -> None:
        await self.told(await self.make_channel())
        request = self.server.taken[0]
        assert Vapid02.verify(request.headers["authorization"])
        assert request.headers["content-encoding"] == "aes128gcm"
        assert b"desk" not in request.body
        token = request.headers["authorization"].partition("t=")[2].split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(token + "=="))
        assert (claims["aud"], claims["sub"]) == (self.server.url, "mailto:ops@example.com")
        assert 0 < claims["exp"] - datetime.now(UTC).timestamp() < 86_400

    async def test_a_message_is_as_short_as_every_service_takes(self) -> None:
        """4,096 bytes, and a letter may have four of them."""
        channel, long = await self.make_channel(), "\U0001f512" * 3_000
        message = msgspec.structs.replace(
            await _message(self), title=long, text=long, link="https://x.example/" + "a" * 500
        )
        await channel.send(message)
        assert len(self.server.taken[-1].body) <= 4_096

    async def test_what_is_no_subscription_is_refused(self) -> None:
        channel = await self.make_channel()
        for address in ("", "{}", "[]", '{"endpoint": 5}', '{"endpoint": "x", "keys": {"p256dh": "??", "auth": ""}}'):
            with pytest.raises(ChannelRefused):
                await channel.send(_to(await _message(self), address))


class TestTerminal(ChannelSuite):
    shows_text = False
    moods = ()

    async def make_channel(self) -> Channel:
        self.stream = _Terminal()
        return TerminalChannel(self.stream)

    def recipient(self) -> Recipient:
        return Recipient(person="", channel="terminal")

    def read(self) -> list[str]:
        return [line.removeprefix("\a") for line in self.stream.getvalue().splitlines()]

    def mood(self, mood: Mood) -> None:
        self.stream.close()

    async def test_a_refusal_is_one(self) -> None:
        channel = await self.make_channel()
        self.stream.close()
        with pytest.raises(ValueError, match="closed"):
            await self.told(channel)

    async def test_it_rings_on_a_terminal_only(self) -> None:
        await self.told(await self.make_channel())
        assert self.stream.getvalue().startswith("\akeyturn: desk asks to run pay")
        plain = io.StringIO()
        await self.told(TerminalChannel(plain))
        assert plain.getvalue().startswith("keyturn: ")


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _b64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


async def _message(suite: ChannelSuite) -> Any:
    from keyturn.testing.suites.channels import message_for, request_to_tell

    return message_for(await request_to_tell(), suite.recipient())


def _to(message: Any, address: str) -> Any:
    from msgspec.structs import replace

    return replace(message, to=replace(message.to, address=address))


@pytest.mark.parametrize(
    "text", ["[approve](https://evil.example)", "<https://evil.example|approve>", "<mailto:a@b|c>"]
)
def test_no_text_of_a_message_is_a_link_under_other_words(text: str) -> None:
    shown = _tame(text)
    assert "](" not in shown
    assert not re.search("<[a-z]+:", shown)


def test_a_message_has_the_id_of_no_other_though_stores_give_their_numbers_again() -> None:
    """In a copy, after a backup is brought back, and in another store: receivers drop what has an id that they know."""
    to = Recipient(person="ada", channel="webhook")

    def named(run: str, *, number: int = 1, at: int = 7, tenant: str = "default") -> str:
        delivery = Delivery("webhook", "ada", "request.decided", run, f"r{run}", {"at": at}, 3, number=number)
        return message_of([NoticedRequest(delivery)], to, tenant).id

    assert named("5e1f") == named("5e1f", number=2), "the same notice, in a copy of its store"
    others = [named("5e1f"), named("77aa"), named("5e1f", at=8), named("5e1f", tenant="acme")]
    assert len(set(others)) == len(others)
