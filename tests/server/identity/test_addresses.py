"""An address that a person writes themselves is theirs when they repeat the code that was sent there."""

from __future__ import annotations

import re
from typing import Any

import pytest

from keyturn import App, MemoryJournal
from keyturn.channels.base import Channel, Message
from keyturn.directory.recipients import DirectoryRecipients, reached_by
from keyturn.server import asgi
from keyturn.server.guard import Guard
from tests.server.identity.door import Door


class Mail(Channel):
    """Keeps what it is told, or fails."""

    name = "mail"

    def __init__(self) -> None:
        self.told: list[Message] = []
        self.down = False

    async def send(self, message: Message) -> None:
        if self.down:
            raise RuntimeError(message.to.address)
        self.told.append(message)


class Push(Mail):
    """Is a channel to browsers."""

    name = "push"
    browser_key = "BKEY"


async def _door() -> tuple[Door, Mail]:
    mail, door = Mail(), Door()
    door.app = App([], MemoryJournal(), worker=False, channels=[mail, Push()])
    door.people = door.app.people
    door.face = asgi.face(door.app, door.settings)
    door.sign_in = door.face.state.sign_in
    door.served = Guard(asgi.limited(door.face), door.settings)
    await door.people.start("ada")
    await door.people.add("bob", by="ada")
    return door, mail


async def _bob(door: Door) -> str:
    return await door.people.issue_token("bob", ["people", "read"], by="ada")


async def test_the_code_goes_to_the_address_and_only_it_confirms(own_key: None) -> None:
    door, mail = await _door()
    bob = door.browser()
    link = await door.people.make_link("bob", by="ada")
    await bob.post("/enter", {"link": link})
    await bob.send("/account/address", channel="mail", address="bob@example.org")
    [told] = mail.told
    found = re.search(r"[A-Z2-7]{4}-[A-Z2-7]{4}-[A-Z2-7]{4}", told.title)
    assert found is not None
    assert told.to.address == "bob@example.org"
    page = (await bob.get("/account")).text
    assert "not confirmed" in page
    assert found[0] not in page
    assert not [to for to in await DirectoryRecipients(door.people)(None) if to.person == "bob"]
    assert (await bob.send("/account/address/confirm", channel="mail", code="AAAA-BBBB-CCCC")).status_code == 403
    assert reached_by(await door.people.directory(), "mail", "bob@example.org") is None
    assert (await bob.send("/account/address/confirm", channel="mail", code=found[0])).status_code == 303
    assert "not confirmed" not in (await bob.get("/account")).text
    assert reached_by(await door.people.directory(), "mail", "bob@example.org") == "bob"


async def test_the_api_says_the_same_and_an_administrator_names_the_address_in_place_of_a_code(own_key: None) -> None:
    door, mail = await _door()
    http = door.browser(authorization=f"Bearer {await _bob(door)}")
    body = {"person": "bob", "channel": "mail", "address": "bob@example.org"}
    assert (await http.post("/v1/people/set_address", json=body)).status_code == 200
    me = (await http.get("/v1/me")).json()["person"]
    assert me["unconfirmed"] == ["mail"]
    ask = {"person": "bob", "channel": "mail"}
    assert (await http.post("/v1/people/confirm_address", json=ask)).status_code == 403
    admin = door.browser(authorization=f"Bearer {await door.people.issue_token('ada', ['decide', 'people'], by='ada')}")
    assert (await admin.post("/v1/people/confirm_address", json=ask)).status_code == 403, "of which address?"
    other = {**ask, "address": "eve@example.org"}
    assert (await admin.post("/v1/people/confirm_address", json=other)).status_code == 409
    named = {**ask, "address": "bob@example.org"}
    assert (await http.post("/v1/people/confirm_address", json=named)).status_code == 403
    assert (await admin.post("/v1/people/confirm_address", json=named)).status_code == 200
    assert (await http.get("/v1/me")).json()["person"]["unconfirmed"] == []
    taken = {"person": "ada", "channel": "mail", "address": "BOB@example.org"}
    assert (await admin.post("/v1/people/set_address", json=taken)).status_code == 409, "one person has an address"
    assert len(mail.told) == 1


async def test_whoever_writes_an_address_on_their_own_page_is_sent_its_code(own_key: None) -> None:
    door, mail = await _door()
    bob = door.browser()
    await bob.post("/enter", {"link": await door.people.make_link("bob", by="ada")})
    await bob.send("/people/bob", do="address", channel="mail", address="bob@example.org")
    assert [told.to.address for told in mail.told] == ["bob@example.org"]
    page = (await bob.get("/people/bob")).text
    assert "enter the code that was sent there under My account" in page
    assert "set it again to confirm it" not in page


async def test_the_code_of_an_address_that_another_server_set_meanwhile_is_sent_to_no_other(
    own_key: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    door, mail = await _door()
    keeps = door.people.set_address

    async def twice(*given: Any, **words: Any) -> None:
        await keeps(*given, **words)
        await keeps("bob", "mail", "ada@example.org", by="bob")

    monkeypatch.setattr(door.people, "set_address", twice)
    bob = door.browser()
    await bob.post("/enter", {"link": await door.people.make_link("bob", by="ada")})
    await bob.send("/account/address", channel="mail", address="bob@example.org")
    assert mail.told == []


async def test_a_channel_that_fails_leaves_the_address_waiting_and_codes_have_an_end(own_key: None) -> None:
    door, mail = await _door()
    http = door.browser(authorization=f"Bearer {await _bob(door)}")
    body = {"person": "bob", "channel": "mail", "address": "secret@example.org"}
    mail.down = True
    failed = await http.post("/v1/people/set_address", json=body)
    assert (failed.status_code, "secret@example.org" in failed.text) == (422, False)
    mail.down = False
    answers = [(await http.post("/v1/people/set_address", json=body)).status_code for _ in range(12)]
    assert answers.count(200) == 9
    assert answers[-1] == 429


async def test_the_subscription_of_a_browser_needs_no_code_and_has_room(own_key: None) -> None:
    door, _mail = await _door()
    http = door.browser(authorization=f"Bearer {await _bob(door)}")
    keys = '"keys": {"p256dh": "' + "B" * 87 + '", "auth": "' + "a" * 22 + '"}'
    address = '{"endpoint": "https://push.example/' + "x" * 190 + '", ' + keys + "}"
    body = {"person": "bob", "channel": "push", "address": address}
    assert (await http.post("/v1/people/set_address", json=body)).status_code == 200
    assert (await door.people.get("bob")).told_at == {"push": address}
