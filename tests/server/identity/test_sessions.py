"""Sessions: made after a proof and no sooner, ended at once, in no address and no log, changed by no other site."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from keyturn import UserError
from keyturn.core.digest import canonical
from keyturn.core.people import Decider
from keyturn.directory.book import Book
from keyturn.directory.events import KeyEnrolled
from keyturn.directory.login import id_in
from keyturn.server import visitor
from keyturn.server.forms import safe_redirect
from keyturn.server.identity import sign_in
from keyturn.server.settings import ServerSettings
from tests.server.identity.door import ORIGIN, PASSWORD, Door


async def test_a_login_by_password_makes_a_session_that_the_account_shows(door: Door) -> None:
    browser = door.browser(**{"user-agent": "Mozilla/5.0 (X11; Linux x86_64) Chrome/140 Safari/537"})
    assert (await browser.get("/account")).headers["location"] == "/login?next=/account"
    answer = await browser.log_in(next="/account")
    assert (answer.status_code, answer.headers["location"]) == (303, "/account")
    cookie = answer.headers.get_list("set-cookie")[0]
    assert cookie.startswith("keyturn_session=kt_")
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    page = (await browser.get("/account")).text
    assert "Chrome on Linux" in page
    assert "(this one)" in page
    [session] = await door.people.sessions("bob")
    assert (session.session, session.scopes) == ("password", ("decide", "read", "people"))


async def test_by_https_the_cookie_is_kept_to_this_host(own_key: None) -> None:
    door = await Door(secure=True, hosts=("inbox.example",)).peopled()
    browser = door.browser(base="https://inbox.example")
    cookie = (await browser.log_in()).headers.get_list("set-cookie")[0]
    assert cookie.startswith("__Host-keyturn_session=")
    assert "Secure" in cookie
    assert "Path=/;" in cookie
    assert "Domain" not in cookie
    assert (await browser.get("/account")).status_code == 200
    plain = door.browser(base="https://inbox.example")
    plain.cookies.set("keyturn_session", browser.token)
    assert (await plain.get("/account")).status_code == 303, "another host of the domain could have set that one"


async def test_below_a_prefix_the_cookie_is_of_that_path(own_key: None) -> None:
    from fastapi import FastAPI

    from tests.server.identity.door import Browser

    door = await Door().peopled()
    outer = FastAPI()
    outer.mount("/desk", door.served)
    door.served = outer  # pyright: ignore[reportAttributeAccessIssue]  # it is served so
    browser = Browser(door, "192.0.2.7", ORIGIN, {})
    answer = await browser.post("/desk/login", {"name": "bob", "password": PASSWORD, "next": "/account"})
    assert answer.headers["location"] == "/desk/account"
    assert "Path=/desk/" in answer.headers.get_list("set-cookie")[0]
    assert (await browser.get("/desk/account")).status_code == 200


async def test_a_session_that_was_planted_is_not_taken_over(door: Door) -> None:
    """G5: fixation. Each login makes a new token, and a token of a program makes no session."""
    browser = door.browser()
    browser.cookies.set("keyturn_session", "kt_5e1f_planted", domain="localhost.local")
    await browser.log_in()
    first = browser.token
    assert "planted" not in first
    await browser.log_in()
    assert browser.token != first
    old = door.browser()
    old.cookies.set("keyturn_session", first)
    assert (await old.get("/account")).status_code == 303, "the login before it ended"
    program = await door.people.issue_token("bob", by="bob")
    planted = door.browser()
    planted.cookies.set("keyturn_session", program)
    assert (await planted.get("/account")).status_code == 303
    shown = door.browser(authorization=f"Bearer {browser.token}")
    assert (await shown.get("/account")).status_code == 303


async def test_a_logout_ends_the_session_everywhere(door: Door) -> None:
    browser = door.browser()
    await browser.log_in()
    token = browser.token
    assert (await browser.post("/logout", {"csrf_token": "another"})).status_code == 403
    assert (await browser.get("/account")).status_code == 200
    answer = await browser.send("/logout")
    assert answer.headers["location"] == "/login?out=yes"
    stolen = door.browser()
    stolen.cookies.set("keyturn_session", token)
    assert (await stolen.get("/account")).status_code == 303


async def test_a_stolen_cookie_is_worth_what_its_person_may_now(door: Door) -> None:
    browser = door.browser()
    await browser.log_in("ada")
    assert "Create a sign-in link" in (await browser.get("/account")).text
    await door.people.give_role("admin", to="bob", by="ada")
    await door.people.take_role("admin", of="ada", by="bob")
    assert "Create a sign-in link" not in (await browser.get("/account")).text
    assert (await browser.send("/account/links", person="bob")).status_code == 403
    await door.people.remove("ada", by="bob")
    assert (await browser.get("/account")).status_code == 303


async def test_no_token_is_in_an_address_a_page_or_a_log(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    browser = door.browser()
    answers = [await browser.log_in("ada", next="/account"), await browser.get("/account")]
    answers += [await browser.send("/account/links", person="bob"), await browser.get(f"/account?{browser.token}")]
    link = answers[2].text.split('class="link">')[1].split("<")[0]
    secret = link.partition("#")[2]
    other = door.browser()
    answers += [await other.get("/enter"), await other.post("/enter", {"link": secret})]
    for answer in answers:
        assert browser.token not in answer.text
        assert browser.token not in answer.headers.get("location", "")
        assert answer.headers["referrer-policy"] == "same-origin"
        assert answer.headers["cache-control"] == "no-store"
    told = "\n".join(record.getMessage() for record in caplog.records if record.name != "httpx2")
    assert not any(word in told for word in (browser.token, other.token, secret, PASSWORD))
    assert all(secret not in str(answer.url) for answer in answers)


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost:9999"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {},
        {"origin": "https://evil.example", "content-type": "text/plain"},
        {"host": "evil.example", "origin": "http://evil.example"},
    ],
    ids=str,
)
async def test_no_other_site_changes_anything(door: Door, headers: dict[str, str]) -> None:
    browser = door.browser()
    await browser.log_in()
    mark, before = await browser.mark(), (await door.people.directory()).place
    for path in ("/logout", "/account/mute", "/account/password", "/account/passkeys/options", "/sign", "/login"):
        answer = await browser.client.post(path, data={"csrf_token": mark, "hours": "1"}, headers=headers)
        assert answer.status_code in (403, 421)
    assert (await door.people.directory()).place == before


async def test_the_api_takes_a_change_of_a_session_with_the_mark_of_its_forms_only(door: Door) -> None:
    browser = door.browser()
    await browser.log_in()
    mark = {"x-csrf-token": await browser.mark()}
    asked = {"name": "s", "value": 1, "person": "bob"}
    assert (await browser.get("/v1/me")).status_code == 200
    assert (await browser.post("/v1/people/set", json=asked)).status_code == 403
    assert (await browser.post("/v1/people/set", json=asked, headers=mark)).status_code == 200


async def test_whoever_uses_up_the_changes_of_an_account_keeps_its_person_from_ending_no_login(door: Door) -> None:
    thief, bob = door.browser(), door.browser()
    await thief.log_in()
    await bob.log_in()
    while not door.sign_in.limits.spent(sign_in.CHANGES, "bob"):
        door.sign_in.limits.spend(sign_in.CHANGES, "bob")
    assert (await thief.send("/account/mute", hours="1")).status_code == 429
    assert (await bob.send("/account/logins/end", login="others")).status_code == 303
    assert (await thief.get("/account")).status_code == 303
    word = "a quite different sentence"
    assert (await bob.send("/account/password", current=PASSWORD, new=word, again=word)).status_code == 303


async def test_a_passkey_of_an_id_that_somebody_has_is_not_enrolled_by_another(door: Door) -> None:
    text = canonical({"credential": "Y3JlZA", "key": "", "origins": [ORIGIN], "rp": "localhost"})
    enrolled = KeyEnrolled("phone", "ada", "passkey", text)
    await Book(door.app.journal).change(Decider("ada"), lambda _directory, _at: [enrolled])
    bob = door.browser()
    await bob.log_in()
    mark = {"x-csrf-token": await bob.mark()}
    await bob.post("/account/passkeys/options", json={}, headers=mark)
    answer = await bob.post("/account/passkeys", json={"registration": {"id": "Y3JlZA"}}, headers=mark)
    assert (answer.status_code, "enrolled once" in answer.text) == (409, True)


async def test_a_token_that_is_revoked_while_a_request_is_sent_is_good_for_nothing(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visitor, "_LONG", 0.0)
    token = await door.people.issue_token("bob", ["read"], by="bob")

    async def sent() -> AsyncGenerator[bytes]:
        yield b'{"format": '
        await door.people.revoke_token(id_in(token), by="bob")
        yield b'"csv"}'

    shown = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    answer = await door.browser().post("/v1/audit/export", content=sent(), headers=shown)
    assert answer.status_code == 401


async def test_what_a_script_sends_is_read_before_a_login_begins(door: Door) -> None:
    stranger = door.browser()
    await stranger.post("/login/passkey/options", json={})
    assert (await stranger.post("/login/passkey", json={"credential": {}, "next": 5})).status_code == 422


async def test_why_somebody_decides_for_another_is_told_to_the_two_and_to_administrators(door: Door) -> None:
    await door.people.add("cyd", by="ada")
    await door.people.delegate("bob", "ada", lasts="1h", why="a surgery")
    told = dict[str, str]()
    for who in ("ada", "bob", "cyd"):
        token = await door.people.issue_token(who, ["read", "people"], by="ada")
        shown = {"authorization": f"Bearer {token}"}
        told[who] = (await door.browser().get("/v1/delegations", headers=shown)).json()["delegations"][0]["why"]
    assert told == {"ada": "a surgery", "bob": "a surgery", "cyd": ""}


async def test_a_form_of_another_session_is_refused(door: Door) -> None:
    mallory, ada = door.browser(), door.browser()
    await mallory.log_in("bob")
    await ada.log_in("ada")
    stolen = await mallory.mark()
    for mark in (stolen, "", ada.token):
        answer = await ada.post("/account/mute", {"csrf_token": mark, "hours": "1"})
        assert answer.status_code == 403
        assert "form is not of your session" in answer.text


@pytest.mark.each
@pytest.mark.parametrize(
    "path",
    ["/login", "/enter", "/account", "/account/setup", "/account/links", "/login/oidc", "/login/oidc/callback"],
)
async def test_looking_changes_nothing(door: Door, path: str) -> None:
    browser = door.browser()
    await browser.log_in("ada")
    before = (await door.people.directory()).place
    for method in ("GET", "HEAD", "OPTIONS"):
        await browser.client.request(method, path, headers={"purpose": "prefetch"})
    assert (await door.people.directory()).place == before


@pytest.mark.parametrize(
    "next",
    [
        "https://evil.example",
        "//evil.example",
        "/\\evil.example",
        "/%5cevil.example",
        "/%2fevil.example",
        "\\\\evil.example",
        "javascript:alert(1)",
        "/a\r\nset-cookie: x=y",
        "/\t/evil.example",
        "evil.example",
        "/é",
    ],
)
async def test_nobody_is_led_elsewhere(door: Door, next: str) -> None:
    browser = door.browser()
    assert safe_redirect(next) == "/"
    assert (await browser.log_in(next=next)).headers["location"] == "/"
    assert (await browser.get("/login", params={"next": next})).headers["location"] == "/"


async def test_a_link_is_used_once_and_by_posting_only(door: Door) -> None:
    secret = await door.people.make_link("bob", by="ada")
    browser = door.browser()
    for path in ("/enter", f"/enter?link={secret}", f"/enter/{secret}"):
        await browser.get(path)
    answer = await browser.post("/enter", {"link": f"{ORIGIN}/enter#{secret}"})
    assert answer.headers["location"] == "/account/setup?next=%2F"
    assert "The link does not work again" in (await browser.get("/account/setup")).text
    [session] = await door.people.sessions("bob")
    assert session.session == "link"
    again = await door.browser().post("/enter", {"link": secret})
    assert again.status_code == 403
    assert "was already used" in again.text
    for wrong in ("", "kt_1_2", "x" * 9_999, "\ud800".encode("utf-8", "surrogatepass").decode("latin-1")):
        assert (await door.browser(address="198.51.100.1").post("/enter", {"link": wrong})).status_code in (403, 422)


async def test_a_login_that_ends_one_ends_that_one(door: Door) -> None:
    here, there = door.browser(), door.browser()
    await here.log_in()
    await there.log_in()
    ada = door.browser()
    await ada.log_in("ada")
    await here.send("/account/logins/end", login=id_in(ada.token))
    assert (await ada.get("/account")).status_code == 200, "another's login is not theirs to end"
    await here.send("/account/logins/end", login="others")
    assert (await there.get("/account")).status_code == 303
    assert (await here.get("/account")).status_code == 200


async def test_where_one_is_told_and_when_not(door: Door) -> None:
    browser = door.browser()
    await browser.log_in()
    await browser.send("/account/address", channel="mail", address="bob@example.com")
    assert (await door.people.get("bob")).addresses == {"mail": "bob@example.com"}
    assert "bob@example.com" in (await browser.get("/account")).text
    assert (await browser.send("/account/address", channel="a b", address="x")).status_code == 422
    await browser.send("/account/mute", hours="4")
    assert "Notifications are paused until" in (await browser.get("/account")).text
    await browser.send("/account/mute", hours="0")
    assert "muted_until" not in (await door.people.get("bob")).settings
    for wrong in ("-1", "1e9", "999999999999", "٣", ""):
        assert (await browser.send("/account/mute", hours=wrong)).status_code == 422


async def test_hostile_words_stay_words(door: Door) -> None:
    script = "<script>alert(1)</script>"
    browser = door.browser(**{"user-agent": script})
    assert script not in (await browser.log_in(script, "x")).text
    await browser.log_in()
    await browser.send("/account/address", channel="mail", address=script)
    page = (await browser.get(f"/account?done={script}&first={script}")).text
    assert script not in page
    answer = await browser.get(f"/login/oidc/callback?code={script}&state=%22%3E{script}")
    assert script not in answer.text


@pytest.mark.parametrize("wrong", [{"session": "1s"}, {"session": "90d"}, {"proxies": ("everywhere",)}])
def test_settings_that_make_no_sense_are_refused(wrong: Any) -> None:
    with pytest.raises(UserError):
        ServerSettings(**wrong)


async def test_a_person_chooses_the_time_zone_of_their_pages(door: Door) -> None:
    bob = door.browser()
    await bob.log_in()
    assert (await bob.send("/account/zone", zone="Europe/Berlin")).headers["location"] == "/account?done=zone"
    assert (await door.people.get("bob")).settings["zone"] == "Europe/Berlin"
    refused = await bob.send("/account/zone", zone="../etc")
    assert (refused.status_code, "Europe/Berlin" in refused.text) == (422, True)
    await bob.send("/account/zone", zone="")
    assert "zone" not in (await door.people.get("bob")).settings


async def test_an_address_without_a_page_is_a_page_of_ours_to_a_browser_and_an_error_to_a_program(door: Door) -> None:
    browser = door.browser(accept="text/html,*/*")
    for logged_in in (False, True):
        answer = await browser.get("/nowhere/<script>")
        assert (answer.status_code, "Page not found" in answer.text) == (404, True)
        assert ("My account" in answer.text) == logged_in
        assert "<script>" not in answer.text.replace("<script ", "")
        await browser.log_in()
    assert (await door.browser().get("/nowhere")).json()["error"]["kind"] == "missing"
    assert (await browser.get("/v1/nowhere")).json()["error"]["kind"] == "missing"
