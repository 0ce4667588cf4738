"""A directory is never shortened and is held in memory: what one person adds to it has an end, however it is added."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from keyturn import MemoryJournal
from keyturn.core.challenge import decision_challenge
from keyturn.core.people import Decider
from keyturn.core.records import Decision
from keyturn.directory import bounds, decide
from keyturn.directory.bounds import LimitReached
from keyturn.directory.events import Entry, KeyEnrolled
from keyturn.directory.fold import fold
from keyturn.directory.login import Login
from keyturn.directory.people import People
from keyturn.directory.state import Delegation
from tests.channels.telling import clocked
from tests.server.programs import program
from trials.signers import SSHSigner

BOB = Login("bob", ("people",))


async def _office(journal: Any = None) -> People:
    people = People(journal or MemoryJournal())
    await people.start("ada")
    for name in ("bob", "cyd"):
        await people.add(name, by="ada")
    return people


async def _until_refused(add: Callable[[int], Awaitable[Any]], most: int) -> int:
    """Add until it is refused; return how many there were."""
    for number in range(most + 5):
        try:
            await add(number)
        except LimitReached:
            return number
    raise AssertionError(f"{most + 5} were taken")


async def test_what_one_person_has_at_the_same_time_has_an_end_of_each_kind() -> None:
    people = await _office()

    adds: dict[str, Callable[[int], Awaitable[Any]]] = {
        "settings": lambda n: people.set(f"s{n}", "x", person="bob", by="bob"),
        "tokens": lambda _n: people.issue_token("bob", by="bob"),
        "delegations": lambda _n: people.delegate("bob", "cyd", lasts="1h"),
        "addresses": lambda n: people.set_address("bob", f"c{n}", "x", by="bob"),
        "links": lambda _n: people.make_link("bob", by="ada"),
    }
    assert adds.keys() == bounds.MOST.keys() - {"keys"}
    for what, add in adds.items():
        assert await _until_refused(add, bounds.MOST[what]) == bounds.MOST[what], what
    await people.set("s1", None, person="bob", by="bob")
    await people.set("other", 1, person="bob", by="bob")
    [token, *_] = await people.tokens("bob")
    await people.revoke_token(token.id, by="bob")
    await people.issue_token("bob", by="bob")


async def test_how_many_keys_a_person_has_is_bounded_and_one_that_is_revoked_is_none() -> None:
    directory = await (await _office()).directory()
    for number in range(bounds.MOST["keys"]):
        made = decide.enrol_key(directory, "bob", KeyEnrolled(f"k{number}", "bob", "ssh", "p"))
        directory = fold([Entry(1, Decider("bob"), made)], directory)
    more = KeyEnrolled("more", "bob", "ssh", "p")
    with pytest.raises(LimitReached):
        decide.enrol_key(directory, "bob", more)
    directory = fold([Entry(1, Decider("bob"), decide.revoke_key(directory, "bob", "k1"))], directory)
    assert decide.enrol_key(directory, "bob", more) == [more]


async def test_signatures_that_are_counted_have_an_end_within_an_hour(
    own_key: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("keyturn.directory.people.SIGNATURES_AN_HOUR", 20)
    people = await _office()
    key = SSHSigner("sk-ssh-ed25519@openssh.com")
    await people.enrol_key("ada", key.public, key.sign(people.to_sign("ada", key.public)))
    await people.confirm_key(key.public.id, by="ada")
    bare = Decision("r/1.0", "approve", "d", 5)
    challenge = decision_challenge(people.tenant, "request", 1, bare)

    async def signs(number: int) -> None:
        proof = replace(key, count=number + 10).sign(challenge)
        decision = msgspec.structs.replace(bare, decider=Decider("ada", (), "signed"), proof=proof)
        await people.check_proof(("request", 1), decision)

    assert 0 < await _until_refused(signs, 20) < 20


async def test_all_settings_together_have_a_size_and_what_makes_it_less_is_taken() -> None:
    people = await _office()
    large = "x" * 60_000
    assert await _until_refused(lambda n: people.set(f"s{n}", large, person="bob", by="bob"), 3) == 2
    await people.set("s0", "x", person="bob", by="bob")
    await people.set("s1", None, person="bob", by="bob")
    await people.set("s2", large, person="bob", by="bob")
    assert await _until_refused(lambda n: people.set(f"s{n}", large, by="ada"), 20) == 17, "of everybody, too"


async def test_a_large_change_counts_as_several_since_each_is_kept() -> None:
    people = await _office()

    async def toggle(number: int) -> None:
        await people.set("s", f"{number}" + "x" * 60_000, person="bob", by=BOB)

    assert await _until_refused(toggle, bounds.CHANGES_AN_HOUR) == 8


async def test_who_may_decide_for_whom_is_found_without_a_look_at_the_delegations_of_others() -> None:
    """They are kept after they ended, and each notice asks it of everybody."""

    class Unread(dict[str, Delegation]):
        def values(self) -> Any:
            raise AssertionError("all of them were looked through")

    people = await _office()
    await people.delegate("bob", "cyd", lasts="1h")
    directory, now = (await people.directory()).copy(), await people.now()
    directory.delegations = Unread(directory.delegations)
    assert [lent.giver for lent in directory.lent_to("cyd", now)] == ["bob"]
    assert directory.lent_to("ada", now) == []


async def test_a_setting_that_is_toggled_makes_no_more_entries_than_an_hour_has_room_for() -> None:
    journal, clock = clocked()
    people = await _office(journal)

    async def toggle(number: int) -> None:
        await people.set("s", number, person="bob", by=BOB)

    assert await _until_refused(toggle, bounds.CHANGES_AN_HOUR) == bounds.CHANGES_AN_HOUR
    with pytest.raises(LimitReached) as refused:
        await people.set_address("bob", "mail", "x", by=BOB)
    assert 0 < refused.value.after <= 3_600
    await _ends_what_bob_has(people)
    await people.set("s", 1, person="cyd", by=Login("cyd", ("people",)))
    await people.begin_session("bob", "password", lasts="1h")
    clock.now += 7_200_000
    await toggle(-1)
    for number in range(bounds.CHANGES_AN_HOUR + 5):
        await people.set("s", number, by=Login("ada", ("people",)))


async def _ends_what_bob_has(people: People) -> None:
    """Whoever used up the changes of a person keeps them from taking nothing back."""
    await people.issue_token("bob", by="ada")
    await people.set_address("bob", "mail", "elsewhere", by="ada")
    lent = await people.delegate("bob", "cyd", lasts="1h")
    [token] = await people.tokens("bob")
    await people.revoke_token(token.id, by=BOB)
    await people.end_delegation(lent.id, by=BOB)
    await people.set_address("bob", "mail", "", by=BOB)
    directory = await people.directory()
    assert (directory.people["bob"].addresses, directory.tokens[token.id].revoked_at is None) == ({}, False)


async def test_a_server_says_that_a_limit_is_reached() -> None:
    async with program() as at:
        body = {"name": "s", "value": "x" * 60_000, "person": "ada"}
        answers = [await at.ask("POST", "/people/set", json=body | {"name": f"s{n}"}) for n in range(3)]
        assert [made.status_code for made in answers] == [200, 200, 422]
        assert answers[-1].json()["error"]["kind"] == "limit"
