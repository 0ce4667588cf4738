"""No login hands out what lets somebody in further, or longer, than it is good for itself."""

from __future__ import annotations

import pytest

from keyturn import NotAllowed, UserError
from keyturn.directory.credentials import FRESH_MS
from keyturn.directory.people import Login, People
from tests.channels.telling import Clock, clocked

pytestmark = pytest.mark.usefixtures("own_key")


async def directory() -> tuple[People, Clock]:
    journal, clock = clocked()
    people = People(journal)
    await people.start("ada")
    await people.add("bob", by="ada")
    return people, clock


@pytest.mark.parametrize("lacks", ["decide", "read", "people"])
async def test_a_narrow_token_of_an_administrator_makes_no_link_which_would_let_in_further(lacks: str) -> None:
    people, _ = await directory()
    scopes = [scope for scope in ("decide", "read", "people") if scope != lacks]
    narrow = await people.login(await people.issue_token("ada", scopes, by="ada"))
    for person in ("ada", "bob"):
        with pytest.raises(NotAllowed, match=f"not (good )?for '{lacks}'"):
            await people.make_link(person, by=narrow)
    wide = await people.login(await people.issue_token("ada", ["decide", "read", "people"], by="ada"))
    assert (await people.use_link(await people.make_link("bob", by=wide))).person == "bob"


async def test_a_token_with_an_end_issues_none_that_outlasts_it() -> None:
    people, _ = await directory()
    short = await people.login(await people.issue_token("bob", ["read", "people"], by="ada", expires="1h"))
    for expires in (None, "2h", "61m"):
        with pytest.raises(NotAllowed, match="outlasts it"):
            await people.issue_token("bob", ["read", "people"], by=short, expires=expires)
    await people.issue_token("bob", ["read"], by=short, expires="59m")
    endless = await people.login(await people.issue_token("bob", ["read", "people"], by="ada"))
    await people.issue_token("bob", ["read"], by=endless)


async def test_a_session_hands_out_tokens_and_links_only_minutes_after_its_sign_in() -> None:
    people, clock = await directory()
    session = await people.login(await people.begin_session("ada", "password", lasts="12h"))
    await people.issue_token("ada", ["read"], by=session)
    await people.make_link("bob", by=session)
    clock.now += FRESH_MS
    with pytest.raises(NotAllowed, match="sign in again"):
        await people.issue_token("ada", ["read"], by=session)
    with pytest.raises(NotAllowed, match="sign in again"):
        await people.make_link("ada", by=session)
    with pytest.raises(NotAllowed, match="sign in again"):
        await people.set_address("ada", "slack", "U0STOLEN", by=session)  # a click in Slack would decide as her
    await people.set_address("ada", "slack", "", by=session)
    await people.give_role("ops", to="bob", by=session)  # which lets nobody in
    await people.make_link("bob", by=Login("ada"))  # the program vouches for her


async def test_the_last_administrator_who_is_a_person_stays_whatever_machines_there_are() -> None:
    people, _ = await directory()
    await people.add("robot", kind="machine", roles=["admin"], by="ada")
    await people.add("eve", by="ada")
    await people.give_role("admin", group="chiefs", by="ada")
    await people.join("chiefs", "robot", by="ada")
    for taken in (people.remove("ada", by="robot"), people.take_role("admin", of="ada", by="robot")):
        with pytest.raises(UserError, match="administ"):
            await taken
    await people.join("chiefs", "eve", by="ada")
    await people.take_role("admin", of="ada", by="eve")
    with pytest.raises(UserError, match="administ"):
        await people.leave("chiefs", "eve", by="eve")


async def test_of_several_links_of_a_person_one_lets_in() -> None:
    people, _ = await directory()
    first, second, adas = [await people.make_link(person, by="ada") for person in ("bob", "bob", "ada")]
    assert (await people.use_link(second)).person == "bob"
    for used in (first, second):
        with pytest.raises(NotAllowed):
            await people.use_link(used)
    assert (await people.use_link(adas)).person == "ada"
