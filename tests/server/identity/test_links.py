"""One-time sign-in links: whose inbox, as whom, a passkey or a password next, and nobody is locked out on the way."""

from __future__ import annotations

import re

import pytest

from keyturn import MemoryJournal, NotAllowed
from keyturn.directory.credentials import FRESH_MS
from keyturn.server.identity import attempts
from tests.server.identity.door import ORIGIN, PASSWORD, Browser, Door
from tests.server.office import Clock


class OwnTime:
    """A door whose clock is set, and eve, who has a link and nothing else."""

    def __init__(self) -> None:
        self.clock = Clock()

    async def made(self) -> OwnTime:
        self.door = await Door(journal=MemoryJournal(self.clock), title="Acme payments").peopled()
        await self.door.people.add("eve", "Eve Ng", by="ada")
        self.link = await self.door.people.make_link("eve", by="ada")
        return self

    async def entered(self, next: str = "/") -> Browser:
        browser = self.door.browser()
        await browser.post("/enter/look", {"link": self.link, "next": next})
        answer = await browser.post("/enter", {"next": next})
        assert answer.status_code == 303, answer.text
        return browser


@pytest.fixture
async def at(own_key: None) -> OwnTime:
    return await OwnTime().made()


async def test_a_link_says_whose_inbox_and_as_whom_before_it_is_used_and_uses_up_nothing(at: OwnTime) -> None:
    browser, before = at.door.browser(), (await at.door.people.directory()).place
    page = await browser.post("/enter/look", {"link": f"{ORIGIN}/enter#{at.link}", "next": "/requests/5"})
    for words in ("Acme payments", "Eve Ng", "eve", "Ada L. (ada)", "/requests/5"):
        assert words in page.text
    assert at.link not in page.text
    assert (await at.door.people.directory()).place == before
    other = await at.door.browser().post("/enter", {"next": "/"})
    assert (other.status_code, "not a sign-in link" in other.text) == (403, True), "the link is kept by that browser"
    answer = await browser.post("/enter", {"next": "/requests/5"})
    assert answer.headers["location"] == "/account/setup?next=%2Frequests%2F5"


async def test_whoever_came_by_a_link_can_set_up_a_password_for_as_long_as_they_have_none(at: OwnTime) -> None:
    """The dead end that was: a quarter of an hour of looking around, and no way in was left."""
    browser = await at.entered("/runs")
    assert "Set up a passkey or a password" in (await browser.get("/")).text
    at.clock.now += 23 * 3_600_000
    mark = await browser.mark()
    offered = await browser.post("/account/passkeys/options", json={}, headers={"x-csrf-token": mark})
    assert offered.status_code == 200
    wrong = await browser.send("/account/password", new="short", again="short", setup="/runs")
    assert (wrong.status_code, "Set up your sign-in" in wrong.text, "12 characters" in wrong.text) == (422, True, True)
    done = await browser.send("/account/password", new=PASSWORD, again=PASSWORD, setup="/runs")
    assert done.headers["location"] == "/account/setup?next=%2Fruns&done=password"
    page = (await browser.get(done.headers["location"])).text
    assert all(words in page for words in ("You are set up", f"{ORIGIN}/", 'href="/runs"'))
    assert "Set up a passkey or a password" not in (await browser.get("/")).text
    at.clock.now += FRESH_MS
    late = await browser.post("/account/passkeys/options", json={}, headers={"x-csrf-token": mark})
    assert (late.status_code, "sign in again" in late.text) == (403, True), "one way is there: the session is old now"
    assert (await at.door.browser().log_in("EVE")).status_code == 303


async def test_a_link_of_a_user_who_can_sign_in_begins_a_short_session_that_grows_no_way_in(at: OwnTime) -> None:
    at.link = await at.door.people.make_link("bob", by="ada")
    browser = await at.entered()
    mark = await browser.mark()
    at.clock.now += FRESH_MS
    late = await browser.post("/account/passkeys/options", json={}, headers={"x-csrf-token": mark})
    assert late.status_code == 403
    at.clock.now += 3_600_000
    assert (await browser.get("/account")).status_code == 303, "an hour is over"


async def test_a_link_that_was_used_leads_to_signing_in_and_of_two_one_is_enough(at: OwnTime) -> None:
    second = await at.door.people.make_link("eve", by="ada")
    looked = at.door.browser()
    assert (await looked.post("/enter/look", {"link": second})).status_code == 200
    await at.entered()
    replayed = await at.door.browser().post("/enter/look", {"link": at.link})
    assert (replayed.status_code, "was already used" in replayed.text) == (403, True)
    assert 'href="/login' in replayed.text
    for browser, form in ((at.door.browser(), {"link": at.link}), (looked, {}), (at.door.browser(), {"link": second})):
        assert (await browser.post("/enter", form)).status_code == 403
    [session] = await at.door.people.sessions("eve")
    assert session.session == "link"


async def test_only_who_has_the_secret_of_a_link_is_told_what_became_of_it(at: OwnTime) -> None:
    guess = re.sub("_[0-9a-f]{48}$", "_" + "0" * 48, at.link)
    told = (await at.door.browser().post("/enter/look", {"link": guess})).text
    assert "is not valid" in told
    assert "Eve Ng" not in told
    at.clock.now += 24 * 3_600_000
    assert "has expired" in (await at.door.browser().post("/enter/look", {"link": at.link})).text
    assert "has expired" not in (await at.door.browser().post("/enter/look", {"link": guess})).text
    with pytest.raises(NotAllowed):
        await at.door.people.use_link(at.link)


async def test_looking_at_links_that_fail_is_counted_as_using_them(at: OwnTime) -> None:
    for number in range(attempts.FAILED_LINKS.amount):
        await at.door.browser().post("/enter/look", {"link": f"kt_{number:012x}_aa"})
    assert (await at.door.browser().post("/enter/look", {"link": "kt_000000000000_aa"})).status_code == 429
    assert (await at.door.browser().post("/enter/look", {"link": at.link})).status_code == 200, "that one is known"


async def test_a_username_is_found_in_any_case_and_by_display_name_and_each_counts_as_one(at: OwnTime) -> None:
    await at.door.people.add("ann", "Ann", by="ada")
    await at.door.people.add("bert", "Ann", by="ada")
    for typed in ("ada", "ADA", " Ada ", "\uff21da", "ada l.", "Ada  L."):
        assert (await at.door.browser().log_in(typed)).status_code == 303, typed
    for wrong in ("\u0430da", "Eve Ng", "robot", "", "a" * 9_000):
        refused = await at.door.browser(address="198.51.100.9").log_in(wrong)
        assert (refused.status_code, "Wrong username or password." in refused.text) == (403, True)
    assert await at.door.people.find("ann") == "ann", "an id goes before a display name"
    for spelt in ("bob", "BOB", "Bob", "bOb", "boB", "BOb"):
        await at.door.browser(address="203.0.113.9").log_in(spelt, "wrong")
    assert (await at.door.browser(address="203.0.113.9").log_in("BoB")).status_code == 429


async def test_an_inbox_without_users_says_how_the_first_one_signs_in(own_key: None) -> None:
    assert "This inbox has no users yet" in (await Door().browser().get("/login")).text
