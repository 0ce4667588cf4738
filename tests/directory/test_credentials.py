"""No login hands out what lets somebody in further, or longer, than it is good for itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import get_args

import pytest

from keyturn import NotAllowed, UserError
from keyturn.audit.directory import faults_of
from keyturn.directory.book import Book
from keyturn.directory.credentials import FRESH_MS, HANDS_OUT, HANDS_OUT_NOTHING
from keyturn.directory.events import AnyDirectoryEvent, written
from keyturn.directory.people import Login, People
from keyturn.directory.recipients import reached_by
from tests.channels.telling import Clock, clocked
from trials.signers import PasskeySigner, SSHSigner

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
        with pytest.raises(NotAllowed, match=f"(not for|has not the scope) '{lacks}'"):
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
    await people.give_role("ops", to="bob", by=session)
    clock.now += FRESH_MS
    with pytest.raises(NotAllowed, match="sign in again"):
        await people.issue_token("ada", ["read"], by=session)
    with pytest.raises(NotAllowed, match="sign in again"):
        await people.make_link("ada", by=session)
    with pytest.raises(NotAllowed, match="sign in again"):
        await people.set_address("ada", "slack", "U0STOLEN", by=session)  # a click in Slack would decide as her
    await people.set_address("ada", "slack", "", by=session)
    await people.take_role("ops", of="bob", by=session)  # which hands out nothing
    await people.make_link("bob", by=Login("ada"))  # the program vouches for her


def test_of_every_change_of_a_directory_it_is_known_whether_it_hands_something_out() -> None:
    events = {*get_args(AnyDirectoryEvent)}
    assert events == {*HANDS_OUT, *HANDS_OUT_NOTHING}
    assert not {*HANDS_OUT} & {*HANDS_OUT_NOTHING}


RIGHTS: dict[str, Callable[[People, Login], Awaitable[object]]] = {
    "a role": lambda people, ada: people.give_role("admin", to="bob", by=ada),
    "a role of a group": lambda people, ada: people.give_role("finance", group="chiefs", by=ada),
    "a place in a group": lambda people, ada: people.join("chiefs", "bob", by=ada),
    "a place in the directory": lambda people, ada: people.add("eve", by=ada),
    "their own right to decide": lambda people, ada: people.delegate("ada", "bob", lasts="90d", by=ada),
    "what all people see": lambda people, ada: people.set("visible", "own", by=ada),
}


@pytest.mark.parametrize("right", RIGHTS)
async def test_a_session_gives_rights_only_minutes_after_its_sign_in(right: str) -> None:
    people, clock = await directory()
    session = await people.login(await people.begin_session("ada", "password", lasts="12h"))
    clock.now += FRESH_MS
    with pytest.raises(NotAllowed, match="sign in again"):
        await RIGHTS[right](people, session)
    again = await people.login(await people.begin_session("ada", "password", lasts="12h"))
    await RIGHTS[right](people, again)


async def test_a_session_that_was_left_open_confirms_no_address_by_which_another_decides() -> None:
    people, clock = await directory()
    session = await people.login(await people.begin_session("bob", "password", lasts="12h"))
    clock.now += FRESH_MS
    await people.set_address("bob", "slack", "U0STOLEN", by=session)
    with pytest.raises(NotAllowed, match="sign in again"):
        await people.confirm_address("bob", "slack", await people.address_code("bob", "slack"), by=session)
    assert reached_by(await people.directory(), "slack", "U0STOLEN") is None


async def test_a_token_that_does_not_decide_hands_out_nothing_by_which_another_decides() -> None:
    people, _ = await directory()
    narrow = await people.login(await people.issue_token("bob", ["read", "people"], by="ada"))
    await people.set_address("bob", "slack", "U0STOLEN", by=narrow)
    code = await people.address_code("bob", "slack")
    for refused in (
        people.confirm_address("bob", "slack", code, by=narrow),
        people.delegate("bob", "ada", lasts="1h", by=narrow),
    ):
        with pytest.raises(NotAllowed, match="not for 'decide'"):
            await refused
    wide = await people.login(await people.issue_token("bob", ["decide", "people"], by="ada"))
    await people.confirm_address("bob", "slack", code, by=wide)
    await people.delegate("bob", "ada", lasts="1h", by=wide)


async def test_what_an_administrator_says_by_a_token_that_does_not_decide_waits_for_its_code() -> None:
    people, _ = await directory()
    narrow = await people.login(await people.issue_token("ada", ["read", "people"], by="ada"))
    await people.set_address("bob", "slack", "U0BOB", by=narrow)
    with pytest.raises(NotAllowed, match="not for 'decide'"):
        await people.confirm_address("bob", "slack", address="U0BOB", by=narrow)
    assert reached_by(await people.directory(), "slack", "U0BOB") is None
    await people.confirm_address("bob", "slack", await people.address_code("bob", "slack"), by="bob")
    assert reached_by(await people.directory(), "slack", "U0BOB") == "bob"


async def test_a_token_that_does_not_read_subscribes_to_no_notifications() -> None:
    people, _ = await directory()
    narrow = await people.login(await people.issue_token("bob", ["people"], by="ada"))
    with pytest.raises(NotAllowed, match="not for 'read'"):
        await people.set_address("bob", "push", '{"endpoint": "https://p.example"}', by=narrow, sure=True)


async def test_a_token_with_an_end_delegates_no_longer_than_it_lasts() -> None:
    people, _ = await directory()
    short = await people.login(await people.issue_token("bob", ["decide", "people"], by="ada", expires="1h"))
    with pytest.raises(NotAllowed, match="outlasts it"):
        await people.delegate("bob", "ada", lasts="2h", by=short)
    await people.delegate("bob", "ada", lasts="59m", by=short)


async def test_a_token_with_an_end_confirms_no_address_of_its_person_which_outlasts_it() -> None:
    people, _ = await directory()
    short = await people.login(await people.issue_token("bob", ["decide", "people"], by="ada", expires="1h"))
    await people.set_address("bob", "slack", "U0BOB", by=short)
    code = await people.address_code("bob", "slack")
    with pytest.raises(NotAllowed, match="confirms no address, which outlasts it"):
        await people.confirm_address("bob", "slack", code, by=short)
    session = await people.login(await people.begin_session("bob", "password", lasts="12h"))
    await people.confirm_address("bob", "slack", code, by=session)


async def test_a_token_with_an_end_makes_no_link_and_enrols_no_key_which_outlast_it() -> None:
    people, _ = await directory()
    scopes = ["decide", "read", "people"]
    short = await people.login(await people.issue_token("ada", scopes, by="ada", expires="7d"))
    signer = SSHSigner("ssh-ed25519")
    proof = signer.sign(people.to_sign("ada", signer.public))
    with pytest.raises(NotAllowed, match="makes no link"):  # whose session would issue a token without an end
        await people.make_link("ada", by=short)
    with pytest.raises(NotAllowed, match="enrols or confirms no key"):
        await people.enrol_key("ada", signer.public, proof, by=short)
    endless = await people.login(await people.issue_token("ada", scopes, by="ada"))
    key = await people.enrol_key("ada", signer.public, proof, by=endless)
    with pytest.raises(NotAllowed, match="enrols or confirms no key"):
        await people.confirm_key(key.id, by=short)
    await people.confirm_key(key.id, by=endless)


async def test_a_token_with_an_end_or_of_few_scopes_sets_no_password() -> None:
    """A password signs its person in for good, and for all that a session may do."""
    people, _ = await directory()
    hashed = "$argon2id$v=19$m=64,t=1,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaA"
    short = await people.login(await people.issue_token("bob", ["decide", "read", "people"], by="ada", expires="1h"))
    with pytest.raises(NotAllowed, match="a token with an end sets no password"):
        await people.set_password("bob", hashed, by=short)
    narrow = await people.login(await people.issue_token("bob", ["people"], by="ada"))
    with pytest.raises(NotAllowed, match="not for 'decide'"):
        await people.set_password("bob", hashed, by=narrow)
    assert await people.password_of("bob") == ""
    await people.set_password("bob", hashed, by="bob")
    await people.set_password("bob", "", by=short)  # which hands out nothing


async def test_what_an_administrator_says_of_an_address_by_a_token_with_an_end_waits_for_its_code() -> None:
    people, _ = await directory()
    short = await people.login(await people.issue_token("ada", ["decide", "people"], by="ada", expires="1h"))
    await people.set_address("bob", "slack", "U0BOB", by=short)
    with pytest.raises(NotAllowed, match="confirms no address"):
        await people.confirm_address("bob", "slack", address="U0BOB", by=short)
    assert reached_by(await people.directory(), "slack", "U0BOB") is None
    await people.confirm_address("bob", "slack", await people.address_code("bob", "slack"), by="bob")


async def test_a_browser_is_subscribed_only_by_what_the_subscription_does_not_outlast() -> None:
    people, clock = await directory()
    address = '{"endpoint": "https://p.example"}'
    short = await people.login(await people.issue_token("bob", ["read", "people"], by="ada", expires="1h"))
    with pytest.raises(NotAllowed, match="outlasts it"):
        await people.set_address("bob", "push", address, by=short, sure=True)
    session = await people.login(await people.begin_session("bob", "password", lasts="12h"))
    await people.set_address("bob", "push", address, by=session, sure=True)
    clock.now += FRESH_MS
    with pytest.raises(NotAllowed, match="sign in again"):
        await people.set_address("bob", "push", address.replace("p.", "q."), by=session, sure=True)


@pytest.mark.parametrize("how", ["removed", "no administrator any more"])
async def test_an_administrator_who_was_does_not_come_in_by_what_they_made_for_others(how: str) -> None:
    people, _ = await directory()
    await people.add("eve", roles=["admin"], by="ada")
    await people.add("robot", kind="machine", by="ada")
    link = await people.make_link("ada", by="eve")
    token = await people.issue_token("ada", by="eve")
    login = await people.login(token)
    robots = await people.issue_token("robot", ["read"], by="eve")
    await (people.remove("eve", by="ada") if how == "removed" else people.take_role("admin", of="eve", by="ada"))
    with pytest.raises(NotAllowed, match="is not valid"):
        await people.use_link(link)
    with pytest.raises(NotAllowed, match="is not valid"):
        await people.login(token)
    with pytest.raises(NotAllowed, match="its issuer is no administrator"):
        await people.admit(login, "decide")
    assert (await people.login(robots)).person == "robot"
    await people.use_link(await people.make_link("ada", by="ada"))
    assert [*faults_of([written(each) for each in await people.entries()])] == []


async def test_after_a_restore_passkeys_and_clicks_wait_for_a_link() -> None:
    people, _ = await directory()
    signer = PasskeySigner("ES256")
    await people.enrol_key("bob", signer.public, signer.sign(people.to_sign("bob", signer.public)))
    await people.set_address("bob", "slack", "U0BOB", by="ada")
    await Book(people._store).restored("was brought back from a copy")  # pyright: ignore[reportPrivateUsage]  # the store of the people is not handed out
    challenge = b"c" * 32
    with pytest.raises(NotAllowed, match="sign in with a link"):  # bob may have been removed since the copy was made
        await people.person_by_key(challenge, signer.sign(challenge))
    assert reached_by(await people.directory(), "slack", "U0BOB") is None
    await people.use_link(await people.make_link("bob", by="ada"))
    assert (await people.person_by_key(challenge, signer.sign(challenge)))[0] == "bob"


async def test_a_first_key_is_confirmed_only_by_a_login_that_decides() -> None:
    people, _ = await directory()
    narrow = await people.login(await people.issue_token("ada", ["people"], by="ada"))
    signer = SSHSigner("ssh-ed25519")
    public = people.read_key("ssh", signer.line)
    key = await people.enrol_key("ada", public, signer.sign(people.to_sign("ada", public)))
    with pytest.raises(NotAllowed, match="not for 'decide'"):
        await people.confirm_key(key.id, by=narrow)


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
