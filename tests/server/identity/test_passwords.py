"""Passwords: the same work for whoever there is not, guessing that is hopeless, a true person who comes in."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from argon2 import PasswordHasher

from keyturn import MemoryJournal, UserError
from keyturn.server.address import client_of
from keyturn.server.identity import attempts
from keyturn.server.identity.passwords import Passwords, refuse_weak
from keyturn.server.limits import Limits, TooMany
from tests.server.identity.door import PASSWORD, QUICK, Door
from tests.waiting import turns_of_the_loop

NEW = "a quite different sentence"


@pytest.mark.parametrize("name", ["nobody", "robot", "Bob", "bob\x00", "a" * 5_000, "\u202ebob"])
async def test_unknown_names_cost_the_same_work_and_get_the_same_words(door: Door, name: str) -> None:
    browser = door.browser()
    await browser.log_in("bob", "wrong wrong wrong")  # the first makes a hash for nobody's password
    work = door.sign_in.passwords.work
    known = await browser.log_in("bob", "wrong wrong wrong")
    assert door.sign_in.passwords.work - work == 1
    unknown = await browser.log_in(name, "wrong wrong wrong")
    assert door.sign_in.passwords.work - work == 2
    assert (known.status_code, unknown.status_code) == (403, 403)
    assert _without_name(known.text, "bob") == _without_name(unknown.text, name)


def _without_name(page: str, name: str) -> str:
    return re.sub(r'name="name" value="[^"]*"', "", page)


@pytest.mark.parametrize("password", ["", PASSWORD + " ", PASSWORD.upper(), PASSWORD * 500, "\x00", "é" * 40])
async def test_another_password_lets_nobody_in(door: Door, password: str) -> None:
    answer = await door.browser().log_in("bob", password)
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


async def test_guessing_from_one_address_ends_soon_and_the_person_comes_in_from_another(door: Door) -> None:
    attacker = door.browser(address="203.0.113.9")
    answers = [await attacker.log_in("bob", f"guess number {number}") for number in range(40)]
    refused = [answer for answer in answers if answer.status_code == 429]
    assert len(refused) == 34
    assert 1 <= int(refused[0].headers["retry-after"]) <= 300
    work = door.sign_in.passwords.work
    assert (await attacker.log_in("bob", PASSWORD)).status_code == 429, "not even the right one, from there"
    assert door.sign_in.passwords.work == work, "nothing is compared for who is held up"
    assert (await door.browser().log_in()).status_code == 303


async def test_many_addresses_do_not_lock_out_the_browser_that_is_known(door: Door) -> None:
    bob = door.browser()
    assert (await bob.log_in()).status_code == 303
    for number in range(80):
        await door.browser(address=f"203.0.113.{number}").log_in("bob", "wrong wrong wrong")
    stranger = await door.browser(address="198.51.100.1").log_in()
    assert stranger.status_code == 429
    assert "with a passkey or a sign-in link" in stranger.text
    assert (await bob.log_in()).status_code == 303
    link = await door.people.make_link("bob", by="ada")
    assert (await door.browser(address="198.51.100.1").post("/enter", {"link": link})).status_code == 303


async def test_a_browser_that_is_known_of_one_person_is_not_known_of_another(door: Door) -> None:
    bob = door.browser()
    await bob.log_in()
    answers = [(await bob.log_in("ada", "wrong wrong wrong")).status_code for _ in range(9)]
    assert answers.count(429) == 3
    forged = door.browser(address="198.51.100.1")
    forged.cookies.set("keyturn_known", "abc.def", path="/login")
    answers = [(await forged.log_in("bob", "wrong wrong wrong")).status_code for _ in range(9)]
    assert answers.count(429) == 3


async def test_a_browser_that_is_known_of_one_whose_id_begins_with_another_is_not_known_of_that(door: Door) -> None:
    await door.people.add("bobby", by="ada")
    await door.people.set_password("bobby", QUICK.hash(PASSWORD), by="bobby")
    bobby = door.browser()
    assert (await bobby.log_in("bobby")).status_code == 303
    shifted = f"by{bobby.cookies.get('keyturn_known')}"
    guesses = door.browser(address="198.51.100.1", cookie=f"keyturn_known={shifted}")
    answers = [(await guesses.log_in("bob", f"{n} wrong words here")).status_code for n in range(8)]
    assert answers == [403] * 6 + [429] * 2


async def test_a_browser_that_is_known_of_another_tenant_has_no_attempts_of_its_own(own_key: None) -> None:
    journal = MemoryJournal()
    mine, others = await Door(journal=journal).peopled(), await Door(journal=journal.of("others")).peopled()
    there = others.browser()
    await there.log_in()
    known = there.cookies.get("keyturn_known")
    assert known
    guesses = mine.browser(cookie=f"keyturn_known={known}")
    answers = [(await guesses.log_in(password=f"{n} wrong words here")).status_code for n in range(8)]
    assert answers == [403] * 6 + [429] * 2


async def test_attempts_at_the_same_time_are_counted_before_they_are_compared(door: Door) -> None:
    import asyncio

    attacker = door.browser(address="203.0.113.9")
    answers = await asyncio.gather(*(attacker.log_in("bob", f"guess {number} guess") for number in range(30)))
    assert sum(answer.status_code == 403 for answer in answers) <= 6


@pytest.mark.trial
async def test_what_is_counted_takes_no_more_room_however_many_names_are_tried() -> None:
    limits = Limits()
    buckets = {limits._bucket(attempts.PERSON, (str(number),)) for number in range(70_000)}  # pyright: ignore[reportPrivateUsage]  # the bound itself
    assert len(buckets) <= 1 << 16


async def test_successful_logins_have_an_end_too(door: Door) -> None:
    """Each is an entry of a log that is never shortened."""
    browser = door.browser()
    answers = [(await browser.log_in()).status_code for _ in range(33)]
    assert answers.count(303) == 30
    assert len(await door.people.sessions("bob")) == 1


async def test_a_new_password_takes_the_one_before_and_ends_other_logins(door: Door) -> None:
    here, there = door.browser(), door.browser()
    await here.log_in()
    await there.log_in()
    wrong = await here.send("/account/password", current="wrong wrong wrong", new=NEW, again=NEW)
    assert (wrong.status_code, "The current password is wrong" in wrong.text) == (403, True)
    other = await here.send("/account/password", current=PASSWORD, new=NEW, again=NEW + "x")
    assert "do not match" in other.text
    done = await here.send("/account/password", current=PASSWORD, new=NEW, again=NEW)
    assert done.headers["location"] == "/account?done=password"
    assert (await here.get("/account")).status_code == 200
    assert (await there.get("/account")).status_code == 303
    assert (await door.browser().log_in()).status_code == 403
    assert (await door.browser().log_in(password=NEW)).status_code == 303


async def test_a_password_that_is_changed_while_it_is_compared_begins_no_login(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    fits = door.sign_in.passwords.fits

    async def slowly(*given: Any, **words: Any) -> bool:
        fitted = await fits(*given, **words)
        await door.people.set_password("bob", QUICK.hash(NEW), by="bob")
        return fitted

    monkeypatch.setattr(door.sign_in.passwords, "fits", slowly)
    assert (await door.browser().log_in()).status_code == 403
    assert await door.people.sessions("bob") == []


async def test_an_open_browser_is_no_place_to_guess_the_password(door: Door) -> None:
    browser = door.browser()
    await browser.log_in()
    answers = [
        await browser.send("/account/password", current=f"guess {n} guess", new=NEW, again=NEW) for n in range(9)
    ]
    assert [answer.status_code for answer in answers].count(429) >= 3


async def test_who_came_by_a_link_sets_a_first_or_forgotten_password(door: Door) -> None:
    secret = await door.people.make_link("bob", by="ada")
    browser = door.browser()
    await browser.post("/enter", {"link": secret})
    done = await browser.send("/account/password", new=NEW, again=NEW)
    assert done.status_code == 303
    assert (await door.browser().log_in(password=NEW)).status_code == 303


async def test_a_password_is_hashed_anew_where_more_work_is_done_now(door: Door) -> None:
    before = await door.people.password_of("bob")
    door.sign_in.passwords = Passwords(PasswordHasher(time_cost=2, memory_cost=64, parallelism=1))
    here, there = door.browser(), door.browser()
    await here.log_in()
    after = await door.people.password_of("bob")
    assert before != after
    assert "t=2" in after
    await there.log_in()
    assert await door.people.password_of("bob") == after
    assert (await here.get("/account")).status_code == 200, "it is the same password: no login ends"


async def test_where_there_are_no_passwords_nobody_comes_in_by_one(own_key: None) -> None:
    door = await Door(passwords=False).peopled()
    browser = door.browser()
    assert 'type="password"' not in (await browser.get("/login")).text
    assert (await browser.log_in()).status_code == 403


@pytest.mark.parametrize(
    "weak",
    [
        "short",
        "password1234",
        "PasswordPassword",
        "aaaaaaaaaaaaaa",
        "123456789012",
        "Keyturn-2026!",
        "qwertyuiop123",
        "bobbobbobbob1",
        "ada l. 123456",
        "letmein12345",
        "x" * 501,
    ],
)
def test_what_anybody_would_try_first_is_refused(weak: str) -> None:
    with pytest.raises(UserError):
        refuse_weak(weak, "bob", "Ada L.")


@pytest.mark.parametrize(
    "good", ["correct horse battery", "4711 2893 5560 12", "zwölf Boxkämpfer", "漢字四つとあと八文字です"]
)
def test_there_are_no_other_rules(good: str) -> None:
    assert refuse_weak(good, "bob")


async def test_the_event_loop_goes_on_and_few_are_compared_at_once() -> None:
    import asyncio

    passwords = Passwords(QUICK)
    hashed = await passwords.hashed(PASSWORD)
    assert await passwords.fits(hashed, PASSWORD)
    assert not await passwords.fits("", PASSWORD)
    assert not await passwords.fits("nonsense", PASSWORD)
    results = await asyncio.gather(*(passwords.fits(hashed, "x") for _ in range(60)), return_exceptions=True)
    assert sum(isinstance(result, TooMany) for result in results) == 20
    strangers = [asyncio.create_task(passwords.fits(hashed, "x")) for _ in range(45)]
    await turns_of_the_loop(2)
    assert await passwords.fits(hashed, PASSWORD, known=True), "strangers from ever so many addresses leave room"
    refused = await asyncio.gather(*strangers, return_exceptions=True)
    assert sum(isinstance(result, TooMany) for result in refused) == 5


@pytest.mark.parametrize(
    ("peer", "said", "proxies", "is_from"),
    [
        ("192.0.2.1", "198.51.100.1", (), "192.0.2.1"),
        ("192.0.2.1", "198.51.100.1", ("10.0.0.0/8",), "192.0.2.1"),
        ("10.0.0.1", "198.51.100.1", ("10.0.0.0/8",), "198.51.100.1"),
        ("10.0.0.1", "1.1.1.1, 198.51.100.1", ("10.0.0.0/8",), "198.51.100.1"),
        ("10.0.0.1", "1.1.1.1, 198.51.100.1, 10.9.9.9", ("10.0.0.0/8",), "198.51.100.1"),
        ("10.0.0.1", "junk", ("10.0.0.0/8",), "10.0.0.1"),
        ("10.0.0.1", "", ("10.0.0.0/8",), "10.0.0.1"),
    ],
)
def test_an_address_is_taken_from_a_header_of_a_trusted_proxy_only(
    peer: str, said: str, proxies: Any, is_from: str
) -> None:
    scope: Any = {"client": (peer, 5), "headers": [(b"x-forwarded-for", said.encode())]}
    assert client_of(scope, proxies) == is_from


async def test_a_header_does_not_change_whose_attempts_are_counted(door: Door) -> None:
    attacker = door.browser(address="203.0.113.9")
    answers = [
        await attacker.post(
            "/login",
            {"name": "bob", "password": f"guess {number} guess"},
            headers={"x-forwarded-for": f"1.1.1.{number}", "forwarded": f"for=1.1.1.{number}"},
        )
        for number in range(10)
    ]
    assert [answer.status_code for answer in answers].count(429) == 4


async def test_who_guesses_at_ids_is_held_up_and_others_at_that_address_are_not(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)  # on a busy machine these would be several minutes' attempts
    bob, ada, stranger = door.browser(), door.browser(), door.browser()
    await bob.log_in()
    answers = [await bob.get(f"/requests/{number:032x}") for number in range(70)]
    refused = [answer.status_code for answer in answers].count(429)
    assert refused == 10, "sixty a minute"
    assert answers[-1].headers["retry-after"]
    assert (await bob.get("/account")).status_code == 429
    await ada.log_in("ada")
    assert (await ada.get("/account")).status_code == 200
    answers = [await stranger.get(f"/requests/{number:032x}") for number in range(70)]
    assert {answer.status_code for answer in answers} == {303}, "who did not log in is told of nothing"
    assert (await stranger.log_in("ada")).status_code == 303


async def test_changes_have_an_end_for_one_address(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)  # on a busy machine these would be several minutes' attempts
    attacker = door.browser(address="203.0.113.9")
    answers = [(await attacker.post("/account/mute", {"hours": "1"})).status_code for _ in range(620)]
    assert 429 in answers
