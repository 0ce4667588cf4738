"""Logging in by a provider: against one that speaks the protocol, and one that lies, is late, or is not there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from joserfc.jwk import OctKey

from keyturn import UserError
from keyturn.audit.directory import faults_of
from keyturn.directory.book import Book
from keyturn.directory.events import written
from keyturn.server.identity import oidc
from keyturn.server.settings import OidcSettings
from tests.server.identity.door import Browser, Door
from tests.server.identity.provider import (
    CLIENT,
    OTHER_KEYS,
    SECRET,
    LoopbackProvider,
    signed_with_the_public_key,
    unsigned,
)
from tests.waiting import turns_of_the_loop


@pytest.fixture
def provider() -> Generator[LoopbackProvider]:
    made = LoopbackProvider()
    yield made
    made.close()


@pytest.fixture
async def door(own_key: None, provider: LoopbackProvider) -> Door:
    oidc = OidcSettings(issuer=provider.issuer, client=CLIENT, secret=SECRET, name="the company's login")
    door = await Door(oidc=oidc).peopled()
    await door.people.add("bob@example.com", by="ada", roles=["finance"])
    return door


async def sent_back(browser: Browser, next: str = "/account", **more: str) -> dict[str, str]:
    """Go to the provider and back, and return the fields of the form that goes on."""
    there = await browser.get("/login/oidc", params={"next": next, **more})
    assert there.status_code == 303
    async with httpx2.AsyncClient() as anybody:
        back = (await anybody.get(there.headers["location"])).headers["location"]
    page = await browser.get(back)
    assert page.status_code == 200
    return {name: values[0] for name, values in parse_qs(urlsplit(back).query).items()}


async def test_somebody_whom_the_provider_knows_is_logged_in(door: Door, provider: LoopbackProvider) -> None:
    browser = door.browser()
    assert "Sign in with the company&#39;s login" in (await browser.get("/login")).text
    before = (await door.people.directory()).place
    fields = await sent_back(browser)
    assert (await door.people.directory()).place == before, "coming back changes nothing: the form does"
    answer = await browser.post("/login/oidc/callback", fields)
    assert (answer.status_code, answer.headers["location"]) == (303, "/account")
    [session] = await door.people.sessions("bob@example.com")
    assert session.session == "oidc"
    assert "bob@example.com" in (await browser.get("/account")).text


async def test_an_address_that_a_provider_gives_to_another_account_signs_nobody_in(
    door: Door, provider: LoopbackProvider
) -> None:
    first, heir, again = door.browser(), door.browser(), door.browser()
    assert (await first.post("/login/oidc/callback", await sent_back(first))).status_code == 303
    provider.claims["sub"] = "another account"
    refused = await heir.post("/login/oidc/callback", await sent_back(heir))
    assert (refused.status_code, heir.token) == (403, "")
    assert "is linked to another account of the identity provider" in refused.text
    provider.claims["sub"] = "5e1f"
    assert (await again.post("/login/oidc/callback", await sent_back(again))).status_code == 303
    provider.claims["sub"] = "another account"
    await door.people.forget_subject("bob@example.com", by="ada")
    assert (await heir.post("/login/oidc/callback", await sent_back(heir))).status_code == 303
    assert [*faults_of([written(each) for each in await door.people.entries()])] == []


async def test_an_account_whose_address_is_changed_does_not_sign_in_a_second_person(
    door: Door, provider: LoopbackProvider
) -> None:
    await door.people.add("bob@new.example", by="ada")
    browser, renamed = door.browser(), door.browser()
    assert (await browser.post("/login/oidc/callback", await sent_back(browser))).status_code == 303
    provider.claims["email"] = "bob@new.example"
    refused = await renamed.post("/login/oidc/callback", await sent_back(renamed))
    assert (refused.status_code, "is linked to another user" in refused.text) == (403, True)
    await door.people.remove("bob@example.com", by="ada")
    assert (await renamed.post("/login/oidc/callback", await sent_back(renamed))).status_code == 403, "they may return"
    await door.people.forget_subject("bob@example.com", by="ada")
    assert (await renamed.post("/login/oidc/callback", await sent_back(renamed))).status_code == 303


async def test_a_person_who_returns_is_signed_in_by_the_account_of_before_alone(
    door: Door, provider: LoopbackProvider
) -> None:
    first, heir, again = door.browser(), door.browser(), door.browser()
    assert (await first.post("/login/oidc/callback", await sent_back(first))).status_code == 303
    await door.people.remove("bob@example.com", by="ada")
    await door.people.add("bob@example.com", by="ada")
    provider.claims["sub"] = "another account"
    assert (await heir.post("/login/oidc/callback", await sent_back(heir))).status_code == 403
    provider.claims["sub"] = "5e1f"
    assert (await again.post("/login/oidc/callback", await sent_back(again))).status_code == 303
    assert [*faults_of([written(each) for each in await door.people.entries()])] == []


async def test_the_sessions_of_an_account_end_when_it_is_forgotten(door: Door) -> None:
    browser, linked = door.browser(), door.browser()
    assert (await browser.post("/login/oidc/callback", await sent_back(browser))).status_code == 303
    await linked.post("/enter", {"link": await door.people.make_link("bob@example.com", by="ada")})
    ada = door.browser()
    await ada.log_in("ada")
    assert "Unlink the single sign-on (SSO) account" in (await ada.get("/people/bob@example.com")).text
    released = await ada.send("/people/bob@example.com", do="forget_subject")
    assert released.status_code == 303
    assert [(await each.get("/account")).status_code for each in (browser, linked)] == [303, 200]
    assert "Unlink the single sign-on (SSO) account" not in (await ada.get("/people/bob@example.com")).text


async def test_after_a_restore_an_account_signs_in_whoever_has_used_a_link(door: Door) -> None:
    """Its person may have been removed since the copy was made, and their account released."""
    browser, linked = door.browser(), door.browser()
    assert (await browser.post("/login/oidc/callback", await sent_back(browser))).status_code == 303
    await Book(door.app.journal).restored("was brought back from a copy")
    for _ in range(31):
        refused = await browser.post("/login/oidc/callback", await sent_back(browser))
        assert (refused.status_code, "sign in with a link" in refused.text) == (403, True)
    await linked.post("/enter", {"link": await door.people.make_link("bob@example.com", by="ada")})
    assert (await browser.post("/login/oidc/callback", await sent_back(browser))).status_code == 303


async def test_an_account_that_signs_in_another_person_uses_up_no_login_of_whom_it_names(
    door: Door, provider: LoopbackProvider
) -> None:
    browser, other = door.browser(), door.browser()
    assert (await browser.post("/login/oidc/callback", await sent_back(browser))).status_code == 303
    provider.claims["sub"] = "another account"
    for _ in range(31):
        assert (await other.post("/login/oidc/callback", await sent_back(other))).status_code == 403
    link = await door.people.make_link("bob@example.com", by="ada")
    assert (await door.browser().post("/enter", {"link": link})).status_code == 303


async def test_an_account_adds_one_person_whatever_names_it_is_given(own_key: None, provider: LoopbackProvider) -> None:
    oidc = OidcSettings(issuer=provider.issuer, client=CLIENT, secret=SECRET, add_as="ada")
    door = await Door(oidc=oidc).peopled()
    browser = door.browser()
    assert (await browser.post("/login/oidc/callback", await sent_back(browser))).status_code == 303
    place = (await door.people.directory()).place
    for number in range(3):
        provider.claims["email"] = f"chief{number}@example.com"
        other = door.browser()
        assert (await other.post("/login/oidc/callback", await sent_back(other))).status_code == 403
    assert (await door.people.directory()).place == place


async def test_a_login_is_bound_to_its_browser_and_good_once(door: Door) -> None:
    browser, other = door.browser(), door.browser()
    fields = await sent_back(browser)
    assert (await other.post("/login/oidc/callback", fields)).status_code == 403
    await sent_back(other)
    assert (await other.post("/login/oidc/callback", fields)).status_code == 403, "another's state"
    jar = [(cookie.name, cookie.value or "") for cookie in browser.client.cookies.jar]
    assert (await browser.post("/login/oidc/callback", fields)).status_code == 303
    replayed = door.browser()
    for name, value in jar:
        replayed.cookies.set(name, value)
    assert (await replayed.post("/login/oidc/callback", fields)).status_code == 403
    assert len(await door.people.sessions("bob@example.com")) == 1


async def test_not_even_a_provider_that_takes_codes_twice_makes_two_logins(
    door: Door, provider: LoopbackProvider
) -> None:
    browser = door.browser()
    fields = await sent_back(browser)
    asked = dict(provider.codes)
    jar = [(cookie.name, cookie.value or "") for cookie in browser.client.cookies.jar]
    assert (await browser.post("/login/oidc/callback", fields)).status_code == 303
    provider.codes.update(asked)
    replayed = door.browser()
    for name, value in jar:
        replayed.cookies.set(name, value)
    answer = await replayed.post("/login/oidc/callback", fields)
    assert (answer.status_code, "used already" in answer.text) == (403, True)


LIES: dict[str, Callable[[LoopbackProvider, dict[str, Any]], Any]] = {
    "alg none": lambda p, c: unsigned(c),
    "alg None": lambda p, c: unsigned(c, "None"),
    "no signature": lambda p, c: unsigned(c, "RS256"),
    "forged": lambda p, c: p.signed(c, OTHER_KEYS),
    "signed with the public key": lambda p, c: signed_with_the_public_key(c),
    "signed with the client's secret": lambda p, c: p.signed(c, OctKey.import_key(SECRET * 2), "HS256"),
    "expired": lambda p, c: p.signed({**c, "exp": int(time.time()) - 120}),
    "no end": lambda p, c: p.signed({k: v for k, v in c.items() if k != "exp"}),
    "end beyond all numbers": lambda p, c: p.signed({**c, "exp": 10**400}),
    "begun before all numbers": lambda p, c: p.signed({**c, "iat": -(10**400)}),
    "end is true": lambda p, c: p.signed({**c, "exp": True}),
    "an old one": lambda p, c: p.signed({**c, "iat": int(time.time()) - 86_400}),
    "of tomorrow": lambda p, c: p.signed({**c, "iat": int(time.time()) + 86_400}),
    "not yet": lambda p, c: p.signed({**c, "nbf": int(time.time()) + 3_600}),
    "of another login": lambda p, c: p.signed({**c, "nonce": "another"}),
    "without a nonce": lambda p, c: p.signed({k: v for k, v in c.items() if k != "nonce"}),
    "for another program": lambda p, c: p.signed({**c, "aud": "another"}),
    "for several": lambda p, c: p.signed({**c, "aud": [CLIENT, "another"]}),
    "for another as party": lambda p, c: p.signed({**c, "azp": "another"}),
    "for nobody": lambda p, c: p.signed({k: v for k, v in c.items() if k != "aud"}),
    "of another provider": lambda p, c: p.signed({**c, "iss": "https://evil.example"}),
    "without a name": lambda p, c: p.signed({k: v for k, v in c.items() if k != "email"}),
    "not verified": lambda p, c: p.signed({**c, "email_verified": "true"}),
    "a list of names": lambda p, c: p.signed({**c, "email": ["bob@example.com"]}),
    "without a subject": lambda p, c: p.signed({k: v for k, v in c.items() if k != "sub"}),
    "a subject without an end": lambda p, c: p.signed({**c, "sub": "x" * 256}),
    "junk": lambda p, c: "a.b.c",
    "nothing": lambda p, c: "",
    "a number": lambda p, c: 5,
    "too long": lambda p, c: "x" * 100_000,
}


@pytest.mark.each
@pytest.mark.parametrize("lie", LIES)
async def test_a_token_that_does_not_fit_lets_nobody_in(door: Door, provider: LoopbackProvider, lie: str) -> None:
    provider.token = lambda claims: LIES[lie](provider, claims)
    browser = door.browser()
    answer = await browser.post("/login/oidc/callback", await sent_back(browser))
    assert answer.status_code == 403
    assert 'role="alert"' in answer.text
    assert not browser.token
    assert await door.people.sessions("bob@example.com") == []


async def test_who_is_sent_back_by_another_provider_is_refused(door: Door, provider: LoopbackProvider) -> None:
    browser = door.browser()
    provider.back = {"iss": "https://evil.example"}
    fields = await sent_back(browser)
    assert "another identity provider" in (await browser.post("/login/oidc/callback", fields)).text
    assert "/token" not in provider.asked, "the code is shown to nobody"


async def test_a_provider_that_promises_to_say_who_it_is_says_so(door: Door, provider: LoopbackProvider) -> None:
    provider.about = {"authorization_response_iss_parameter_supported": True}
    browser = door.browser()
    fields = await sent_back(browser)
    fields.pop("iss")
    assert (await browser.post("/login/oidc/callback", fields)).status_code == 403


@pytest.mark.parametrize(
    "about",
    [
        {"issuer": "https://evil.example"},
        {"token_endpoint": "http://evil.example/token"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"jwks_uri": None},
        {"jwks_uri": "https://user:password@evil.example"},
    ],
    ids=str,
)
async def test_a_provider_that_says_wrong_things_of_itself_is_not_used(
    door: Door, provider: LoopbackProvider, about: dict[str, Any]
) -> None:
    provider.about = about
    assert (await door.browser().get("/login/oidc")).status_code == 403


@pytest.mark.parametrize("when", ["before", "after", "unwell"])
async def test_a_provider_that_is_down_lets_nobody_in_and_others_go_on(
    door: Door, provider: LoopbackProvider, when: str
) -> None:
    """G14: fails closed; who has a session goes on, and a password still does."""
    browser, inside = door.browser(), door.browser()
    await inside.log_in("ada")
    if when == "before":
        provider.close()
        answer = await browser.get("/login/oidc")
    else:
        fields = await sent_back(browser)
        if when == "after":
            provider.close()
        else:
            provider.status = 502
        answer = await browser.post("/login/oidc/callback", fields)
    assert answer.status_code == 503
    assert "try again later" in answer.text
    assert not browser.token
    assert (await inside.get("/account")).status_code == 200
    assert (await door.browser().log_in()).status_code == 303


async def test_somebody_whom_nobody_here_knows_is_told_so(door: Door, provider: LoopbackProvider) -> None:
    for name in ("eve@example.com", "robot", "Ada L.", "\u0430da"):
        provider.claims["email"] = name
        browser = door.browser()
        answer = await browser.post("/login/oidc/callback", await sent_back(browser))
        assert answer.status_code == 403
        assert not browser.token
    assert "ask an administrator to add you" in answer.text


async def test_somebody_who_left_does_not_come_back_by_the_provider(own_key: None, provider: LoopbackProvider) -> None:
    oidc = OidcSettings(issuer=provider.issuer, client=CLIENT, secret=SECRET, add_as="ada")
    door = await Door(oidc=oidc).peopled()
    browser = door.browser()
    assert (await browser.post("/login/oidc/callback", await sent_back(browser))).status_code == 303
    person = await door.people.get("bob@example.com")
    assert (person.roles, person.kind) == (frozenset(), "person")
    assert (await door.people.entries())[-2].by.id == "ada"
    await door.people.remove("bob@example.com", by="ada")
    browser = door.browser()
    assert (await browser.post("/login/oidc/callback", await sent_back(browser))).status_code == 403


async def test_another_claim_can_name_the_person(own_key: None, provider: LoopbackProvider) -> None:
    oidc = OidcSettings(issuer=provider.issuer, client=CLIENT, secret=SECRET, claim="preferred_username")
    door = await Door(oidc=oidc).peopled()
    provider.claims = {"sub": "5", "preferred_username": "bob"}
    browser = door.browser()
    assert (await browser.post("/login/oidc/callback", await sent_back(browser))).status_code == 303
    assert [each.session for each in await door.people.sessions("bob")] == ["oidc"]


@pytest.mark.each
@pytest.mark.parametrize(
    "wrong",
    [
        {"issuer": "http://login.example"},
        {"issuer": "https://"},
        {"issuer": "login.example"},
        {"issuer": "https://user@login.example"},
        {"issuer": "https://login.example:x"},
        {"client": ""},
        {"scopes": ("email",)},
    ],
    ids=str,
)
def test_settings_of_a_provider_are_checked(wrong: dict[str, Any]) -> None:
    given: dict[str, Any] = {"issuer": "https://login.example", "client": "keyturn", **wrong}
    with pytest.raises(UserError):
        OidcSettings(**given)


def test_the_secret_is_in_no_text_of_the_settings() -> None:
    assert SECRET not in repr(OidcSettings(issuer="https://login.example", client="keyturn", secret=SECRET))


class Endless(httpx2.AsyncByteStream):
    """Sends a byte, and then nothing more and no end until it is told."""

    def __init__(self, end: asyncio.Event) -> None:
        self._end = end

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        yield b" "
        await self._end.wait()


async def test_a_provider_that_sends_without_an_end_holds_no_login_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oidc, "_SECONDS", 0.05)
    transport = httpx2.MockTransport(lambda request: httpx2.Response(200, stream=Endless(asyncio.Event())))
    provider = oidc.Provider(OidcSettings(issuer="https://login.example", client=CLIENT), transport)
    with pytest.raises(oidc.OidcRefused, match="is unreachable"):
        await provider.address("https://here.example", "state", "nonce", "verifier")


async def test_a_provider_is_looked_up_once_for_all_who_begin_a_login_meanwhile() -> None:
    asked = list[str]()
    answered = asyncio.Event()

    async def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.url.path)
        return httpx2.Response(500, stream=Endless(answered))

    provider = oidc.Provider(OidcSettings(issuer="https://login.example", client=CLIENT), httpx2.MockTransport(answer))
    begun = [provider.address("https://here.example", "state", "nonce", "verifier") for _ in range(20)]
    logins = asyncio.gather(*begun, return_exceptions=True)
    await turns_of_the_loop(20)
    answered.set()
    assert {type(each) for each in await logins} == {oidc.OidcRefused}
    assert len(asked) == 1


@pytest.mark.parametrize("length", [100, 1_400, 1_990])
async def test_a_login_ends_however_long_the_path_is_that_it_leads_back_to(door: Door, length: int) -> None:
    browser = door.browser()
    made = await browser.post("/login/oidc/callback", await sent_back(browser, next="/" + "a" * (length - 1)))
    assert (made.status_code, bool(browser.token)) == (303, True)
    assert made.headers["location"] == ("/" + "a" * 99 if length == 100 else "/")
