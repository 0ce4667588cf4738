"""What strangers do keeps nobody from coming in or from deciding, though all come from one address; and it is cheap."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import UserError
from keyturn.cli.serve import _proxies  # pyright: ignore[reportPrivateUsage]  # the rule of the command itself
from keyturn.server import limits
from keyturn.server.address import client_of
from keyturn.server.identity import attempts
from keyturn.server.running import ListeningAddress
from tests.server.identity.door import Door
from tests.table import each

HERE = "10.0.0.1"
MANY = "&".join(f"f{number}=" for number in range(500))


def _flood(door: Door, address: str = HERE) -> None:
    """Have strangers at an address use up what it may change."""
    while not door.sign_in.limits.spent(limits.CHANGES, address):
        door.sign_in.limits.spend(limits.CHANGES, address)


async def test_strangers_at_an_address_keep_nobody_from_deciding_who_has_logged_in(door: Door) -> None:
    bob = door.browser(HERE)
    await bob.log_in()
    token = await door.people.issue_token("ada", ["people"], by="ada")
    _flood(door)
    assert (await door.browser(HERE).post("/account/mute", {"hours": "1"})).status_code == 429
    assert (await bob.send("/account/mute", hours="1")).headers["location"] == "/account?done=muted"
    program = door.browser(HERE, authorization=f"Bearer {token}")
    assert (await program.post("/v1/people/mute", json={"person": "ada", "lasts": "1h"})).status_code == 200
    unknown = door.browser(HERE, authorization="Bearer kt_0_0")
    assert (await unknown.post("/v1/people/mute", json={})).status_code == 429


async def test_what_a_person_changes_has_an_end_of_its_own_and_their_programs_another(door: Door) -> None:
    bob = door.browser(HERE)
    await bob.log_in()
    token = await door.people.issue_token("bob", ["people"], by="bob")
    program = door.browser("192.0.2.9", authorization=f"Bearer {token}")
    while not door.sign_in.limits.spent(limits.BY_PERSON, "bob", "token"):
        door.sign_in.limits.spend(limits.BY_PERSON, "bob", "token")
    assert (await program.post("/v1/people/mute", json={"person": "bob", "lasts": "1h"})).status_code == 429
    assert (await bob.send("/account/mute", hours="1")).status_code == 303
    ada = door.browser(HERE)
    assert (await ada.log_in("ada")).status_code == 303


async def test_bad_passwords_hold_up_neither_passkeys_nor_links_nor_a_browser_that_is_known(door: Door) -> None:
    bob = door.browser(HERE)
    await bob.log_in()
    while not door.sign_in.limits.spent(attempts.ADDRESS, HERE):
        door.sign_in.limits.spend(attempts.ADDRESS, HERE)
    stranger = door.browser(HERE)
    assert (await stranger.log_in("ada")).status_code == 429
    assert (await stranger.post("/login/passkey/options", json={})).status_code == 200
    assert (await stranger.post("/login/passkey", json={"credential": {}})).status_code == 403, "and not 429"
    assert (await bob.log_in()).status_code == 303
    link = await door.people.make_link("bob", by="ada")
    assert (await stranger.post("/enter", {"link": link})).status_code == 303


async def test_of_links_and_passkeys_only_failures_are_counted_and_of_each_that_somebody_has_apart(door: Door) -> None:
    for _ in range(12):
        link = await door.people.make_link("bob", by="ada")
        assert (await door.browser(HERE).post("/enter", {"link": link})).status_code == 303
    guesses = [(await door.browser(HERE).post("/enter", {"link": f"kt_{n:012x}_aa"})).status_code for n in range(12)]
    assert guesses == [403] * 10 + [429] * 2
    link = await door.people.make_link("bob", by="ada")
    known = link.rpartition("_")[0]
    assert (await door.browser(HERE).post("/enter", {"link": f"{known}_wrong"})).status_code == 403
    assert (await door.browser(HERE).post("/enter", {"link": link})).status_code == 303
    keys = door.browser(HERE)
    answers: list[int] = []
    for _ in range(61):
        await keys.post("/login/passkey/options", json={})
        answers.append((await keys.post("/login/passkey", json={"credential": {"id": "nobodys"}})).status_code)
    assert answers == [403] * 60 + [429]
    assert (await door.browser(HERE).log_in()).status_code == 303, "and passwords are not held up by them"


async def test_what_comes_before_a_login_is_short_and_of_few_parts(door: Door) -> None:
    stranger = door.browser(HERE)
    form = {"content-type": "application/x-www-form-urlencoded"}
    for path in ("/enter", "/login", "/login/oidc/callback"):
        assert (await stranger.post(path, content=b"&" * 20_000, headers=form)).status_code == 413, path
        assert (await stranger.post(path, content=MANY.encode(), headers=form)).status_code == 400, path
    assert (await stranger.post("/login", files={"name": b"bob"})).status_code == 400, "no form of ours has parts"
    cookies = "; ".join(f"c{number}=" for number in range(300))
    for path, headers, status in (
        ("/login?" + MANY, {}, 400),
        ("/login", {"cookie": cookies}, 431),
        ("/login", {f"x-{number}": "" for number in range(120)}, 431),
    ):
        assert (await stranger.get(path, headers=headers)).status_code == status
    bob = door.browser(HERE)
    await bob.log_in()
    marked = f"csrf_token={await bob.mark()}&hours=1&{MANY}"
    assert (await bob.post("/account/mute", content=marked.encode(), headers=form)).status_code == 400


async def test_an_address_that_has_no_attempt_left_is_refused_before_its_form_is_read(door: Door) -> None:
    while not door.sign_in.limits.spent(attempts.ADDRESS, HERE):
        door.sign_in.limits.spend(attempts.ADDRESS, HERE)
    form = {"content-type": "application/x-www-form-urlencoded"}
    assert (await door.browser(HERE).post("/login", content=MANY.encode(), headers=form)).status_code == 429


async def test_wrong_ids_of_one_token_are_counted_of_that_token(door: Door) -> None:
    bob = door.browser(HERE)
    await bob.log_in()
    tokens = [await door.people.issue_token("bob", ["read"], by="bob") for _ in range(2)]
    wild, other = (door.browser(HERE, authorization=f"Bearer {token}") for token in tokens)
    answers = [(await wild.get(f"/v1/requests/{number:032x}")).status_code for number in range(70)]
    assert 8 <= answers.count(429) <= 10
    assert (await bob.get("/account")).status_code == 200
    assert (await other.get("/v1/me")).status_code == 200


async def test_a_secret_is_shown_once_whoever_asks_again_with_the_same_key(door: Door) -> None:
    whole, narrow = [
        await door.people.issue_token("ada", scopes, by="ada") for scopes in (["people", "read"], ["people"])
    ]
    key = {"idempotency-key": "one"}
    asked = {"person": "ada", "scopes": ["people", "read"]}
    first, second = (door.browser(HERE, authorization=f"Bearer {token}") for token in (whole, narrow))
    path = "/v1/people/issue_token"
    shown = (await first.post(path, json=asked, headers=key)).json()["secret"]
    before = len(await door.people.tokens("ada"))
    again = await first.post(path, json=asked, headers=key)
    assert (again.status_code, again.json()["error"]["kind"]) == (409, "shown_once")
    assert len(await door.people.tokens("ada")) == before, "and nothing is done twice"
    other = await second.post(path, json=asked, headers=key)
    assert other.status_code == 403, "a narrower token is judged by what it may do itself"
    assert shown not in again.text + other.text


@each(
    "peer, headers, is_from",
    [
        ("10.0.0.1", {"x-forwarded-for": "198.51.100.1:4711"}, "198.51.100.1"),
        ("::ffff:10.0.0.1", {"x-forwarded-for": "198.51.100.1"}, "198.51.100.1"),
        ("10.0.0.1", {"x-forwarded-for": "[2001:db8::1]:443, 10.0.0.2"}, "2001:db8::1"),
        ("10.0.0.1", {"forwarded": 'for=1.1.1.1, for="[2001:db8::1]:4711";proto=https'}, "2001:db8::1"),
        ("10.0.0.1", {"forwarded": "by=10.0.0.9;FOR=198.51.100.1"}, "198.51.100.1"),
        ("10.0.0.1", {"forwarded": "for=_hidden"}, "10.0.0.1"),
        ("10.0.0.1", {"forwarded": "for=198.51.100.1", "x-forwarded-for": "198.51.100.1"}, "198.51.100.1"),
        ("10.0.0.1", {"forwarded": "for=1.1.1.1", "x-forwarded-for": "198.51.100.1"}, "10.0.0.1"),
        ("192.0.2.1", {"forwarded": "for=1.1.1.1"}, "192.0.2.1"),
    ],
)
def test_a_client_is_read_from_the_right_and_only_of_proxies_that_are_trusted(
    peer: str, headers: dict[str, str], is_from: str
) -> None:
    given = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope: Any = {"client": (peer, 5), "headers": given}
    assert client_of(scope, ("10.0.0.0/8",)) == is_from


def test_behind_a_proxy_the_command_takes_which_one_it_is(monkeypatch: Any) -> None:
    monkeypatch.delenv("KEYTURN_PROXIES", raising=False)
    assert ListeningAddress(public_url="https://desk.example").proxied
    assert ListeningAddress(secure=True).proxied
    assert not ListeningAddress().proxied
    with pytest.raises(UserError, match="--proxy"):
        _proxies([], proxied=True)
    assert _proxies(["none"], proxied=True) == ()
    assert _proxies([], proxied=False) == ()
    monkeypatch.setenv("KEYTURN_PROXIES", "10.0.0.5, 10.1.0.0/16")
    assert _proxies([], proxied=True) == ("10.0.0.5", "10.1.0.0/16")
    assert _proxies(["192.0.2.1"], proxied=True) == ("192.0.2.1",), "the command line goes first"


def test_no_setting_trusts_every_address() -> None:
    from keyturn.server.settings import ServerSettings

    for wrong in ("0.0.0.0/0", "::/0", "none"):
        with pytest.raises(UserError):
            ServerSettings(proxies=(wrong,))
