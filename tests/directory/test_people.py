"""Who is who, kept in every kind of journal: changes, who may make them, tokens, links, delegations, the past."""

from __future__ import annotations

import asyncio
from typing import Any

import apsw
import msgspec
import pytest

from keyturn import App, Approval, Conflict, MemoryJournal, NotAllowed, UserError
from keyturn.audit.checker import check
from keyturn.core.errors import LogDamaged
from keyturn.core.people import Decider
from keyturn.directory import events as ev
from keyturn.directory.book import NAME, Book
from keyturn.directory.people import Login, People
from keyturn.journal import opened
from tests.table import each
from tests.waiting import until


@pytest.fixture
async def people(own_key: None, store: Any) -> People:
    """A directory with Ada, who administers it, Bob and Cyd."""
    made = People(store)
    await made.start("ada", "Ada L.")
    await made.add("bob", roles=["finance"], by="ada")
    await made.add("cyd", by="ada")
    return made


async def test_the_first_person_administers_and_there_is_one_first(people: People) -> None:
    assert (await people.directory()).admins() == ["ada"]
    with pytest.raises(Conflict, match="ask an administrator"):
        await people.start("eve")


@each("name", ["", "a b", "a\u200bb", "a\nb", "\u202eada", "e\u0301", "x" * 201, 5, None])
async def test_a_name_is_visible_and_written_in_one_way(people: People, name: Any) -> None:
    with pytest.raises(UserError):
        await people.add(name, by="ada")


@each("name", ["ADA", "\uff41da", "Bob"])
async def test_nobody_is_named_as_somebody_else_reads(people: People, name: str) -> None:
    with pytest.raises(UserError, match="reads like"):
        await people.add(name, by="ada")


async def test_only_an_administrator_changes_others(people: People) -> None:
    for change in (
        lambda: people.add("eve", by="bob"),
        lambda: people.remove("cyd", by="bob"),
        lambda: people.give_role("finance", to="bob", by="bob"),
        lambda: people.take_role("finance", of="bob", by="cyd"),
        lambda: people.join("oncall", "bob", by="bob"),
        lambda: people.issue_token("cyd", by="bob"),
        lambda: people.make_link("cyd", by="bob"),
        lambda: people.set_address("cyd", "mail", "x@y", by="bob"),
        lambda: people.set("retention", "1d", by="bob"),
        lambda: people.delegate("ada", "bob", lasts="1h", by="bob"),
        lambda: people.add("eve", by="nobody"),
    ):
        with pytest.raises(NotAllowed):
            await change()
    assert len(await people.entries()) == 3


async def test_roles_come_from_the_person_and_from_groups(people: People) -> None:
    await people.give_role("ops", group="oncall", by="ada")
    await people.join("oncall", "cyd", by="ada")
    assert (await people.decider("cyd")).roles == ("ops",)
    await people.give_role("release", group="oncall", by="ada")
    assert (await people.decider("cyd")).roles == ("ops", "release")
    await people.leave("oncall", "cyd", by="ada")
    assert (await people.decider("cyd")).roles == ()
    with pytest.raises(UserError, match="of a person or of a group"):
        await people.give_role("ops", by="ada")


async def test_what_changes_nothing_makes_no_entry(people: People) -> None:
    await people.give_role("finance", to="bob", by="ada")
    await people.take_role("ops", of="bob", by="ada")
    await people.leave("oncall", "bob", by="ada")
    assert len(await people.entries()) == 3


async def test_somebody_always_administers(people: People) -> None:
    with pytest.raises(UserError, match="last administrator"):
        await people.remove("ada", by="ada")
    with pytest.raises(UserError, match="no administrator would be left"):
        await people.take_role("admin", of="ada", by="ada")
    await people.give_role("admin", group="chiefs", by="ada")
    await people.join("chiefs", "bob", by="ada")
    await people.remove("ada", by="bob")
    with pytest.raises(UserError, match="no administrator would be left"):
        await people.leave("chiefs", "bob", by="bob")
    with pytest.raises(UserError, match="no administrator would be left"):
        await people.take_role("admin", group="chiefs", by="bob")


async def test_who_left_has_nothing_and_comes_back_with_nothing(people: People) -> None:
    token = await people.issue_token("bob", by="bob")
    await people.set_address("bob", "mail", "bob@example.org", by="bob")
    await people.remove("bob", by="ada")
    with pytest.raises(NotAllowed):
        await people.login(token)
    with pytest.raises(NotAllowed, match="there is no user 'bob'"):
        await people.decider("bob")
    await people.add("bob", by="ada")
    back = await people.get("bob")
    assert (back.roles, back.addresses) == (set(), {})
    with pytest.raises(NotAllowed):
        await people.login(token)
    await people.remove("cyd", by="ada")
    with pytest.raises(UserError, match="an id is given once"):
        await people.add("cyd", kind="machine", by="ada")


# Tokens and links ---------------------------------------------------------------------------------------------------


async def test_a_token_lets_its_person_in_for_its_scopes_until_it_is_revoked(people: People) -> None:
    token = await people.issue_token("bob", ["decide"], by="bob", label="phone")
    assert await people.login(token, "decide") == Login("bob", ("decide",), token.split("_")[1])
    with pytest.raises(NotAllowed, match="has not the scope 'people'"):
        await people.login(token, "people")
    assert token not in str(await people.entries())
    await people.revoke_token(token, by="bob")
    with pytest.raises(NotAllowed, match="unknown, used, revoked or expired"):
        await people.login(token)


async def test_a_token_that_is_almost_right_says_no_more_than_any_other(people: People) -> None:
    token = await people.issue_token("bob", by="bob")
    said = set()
    for wrong in (
        token[:-1] + ("0" if token[-1] != "0" else "1"),
        "kt_zz_zz",
        "",
        "x",
        token.upper(),
        token + "\ud800",
    ):
        with pytest.raises(NotAllowed) as refused:
            await people.login(wrong)
        said.add(str(refused.value))
    assert len(said) == 1


async def test_a_token_ends_by_itself(people: People) -> None:
    lasting = await people.issue_token("bob", by="bob", expires=3_600)
    token = await people.issue_token("bob", by="bob", expires=0.05)
    assert (await people.login(lasting)).person == "bob"

    async def over() -> bool:
        try:
            await people.login(token)
        except NotAllowed:
            return True
        return False

    await until(over)


@each("scopes", [["decide", "run"], ["everything"], [], "decide"])
async def test_a_token_that_starts_runs_decides_nothing(people: People, scopes: Any) -> None:
    with pytest.raises(UserError):
        await people.issue_token("bob", scopes, by="bob")


async def test_a_link_lets_somebody_in_once(people: People) -> None:
    link = await people.make_link("cyd", by="ada")
    found = await asyncio.gather(*(People(people._store).use_link(link) for _ in range(4)), return_exceptions=True)
    assert [each.person for each in found if isinstance(each, Login)] == ["cyd"]
    assert sum(isinstance(each, NotAllowed) for each in found) == 3


async def test_a_machine_never_decides(people: People) -> None:
    await people.add("robot", kind="machine", roles=["finance"], by="ada")
    with pytest.raises(UserError, match="service account, which cannot decide"):
        await people.issue_token("robot", ["decide"], by="ada")
    assert (await people.decider("robot", "authenticated")).strength == "claimed"


# Delegations --------------------------------------------------------------------------------------------------------


async def test_who_was_delegated_to_decides_in_the_others_place_and_only_so(people: People) -> None:
    terms = Approval(role="finance")
    await people.delegate("bob", "cyd", lasts="1h", why="holiday")
    lent = await people.decider("cyd", "authenticated", terms=terms)
    assert (lent.acting_for, lent.roles, lent.principal) == ("bob", ("finance",), "bob")
    assert (await people.decider("cyd", "authenticated")).acting_for == ""
    await people.take_role("finance", of="bob", by="ada")
    assert (await people.decider("cyd", "authenticated", terms=terms)).acting_for == ""


async def test_a_delegation_of_the_requester_lets_nobody_decide(people: People) -> None:
    terms = Approval(role="finance", not_requester=True)
    await people.delegate("bob", "cyd", lasts="1h")
    assert (await people.decider("cyd", "authenticated", terms=terms, requester="bob")).acting_for == ""
    assert (await people.decider("cyd", "authenticated", terms=terms, requester="ada")).acting_for == "bob"


async def test_a_delegation_of_some_roles_does_not_lend_the_name_of_its_giver(people: People) -> None:
    await people.give_role("support", to="bob", by="ada")
    named, either = Approval(users=["bob"]), Approval(users=["bob"], role="support")
    await people.delegate("bob", "cyd", lasts="1h", roles=["support"])
    assert (await people.decider("cyd", "authenticated", terms=named)).acting_for == ""
    lent = await people.decider("cyd", "authenticated", terms=either)
    assert (lent.acting_for, lent.roles, lent.roles_only) == ("bob", ("support",), True)
    assert (await people.directory()).vouches(lent, await people.now())
    forged = msgspec.structs.replace(lent, roles_only=False)
    assert not (await people.directory()).vouches(forged, await people.now())
    await people.delegate("bob", "cyd", lasts="1h")
    whole = await people.decider("cyd", "authenticated", terms=named)
    assert (whole.acting_for, whole.roles_only) == ("bob", False)


async def test_what_was_lent_is_not_lent_on(people: People) -> None:
    await people.add("dan", by="ada")
    await people.delegate("bob", "cyd", lasts="1h")
    with pytest.raises(UserError, match="has not the role"):
        await people.delegate("cyd", "dan", lasts="1h", roles=["finance"])
    await people.delegate("cyd", "dan", lasts="1h")
    assert (await people.decider("dan", "authenticated", terms=Approval(role="finance"))).acting_for == ""


async def test_a_delegation_ends_by_its_time_or_by_a_word_of_either(people: People) -> None:
    terms = Approval(users=["bob"])
    given = await people.delegate("bob", "cyd", lasts="1h")
    assert (await people.decider("cyd", "authenticated", terms=terms)).acting_for == "bob"
    await people.add("dan", by="ada")
    with pytest.raises(NotAllowed):
        await people.end_delegation(given.id, by="dan")
    await people.end_delegation(given.id, by="cyd")
    assert (await people.decider("cyd", "authenticated", terms=terms)).acting_for == ""
    short = await people.delegate("bob", "cyd", lasts=0.05)
    directory = await people.directory()
    before, after = (directory.decider("cyd", short.until + late, "authenticated", terms) for late in (-1, 0))
    assert before is not None
    assert before.acting_for == "bob"
    assert after is not None
    assert after.acting_for == ""


# The past -----------------------------------------------------------------------------------------------------------


async def test_a_directory_says_who_held_which_role_at_any_place(people: People) -> None:
    before = await people.decider("bob", "authenticated")
    await people.take_role("finance", of="bob", by="ada")
    after = await people.decider("bob", "authenticated")
    assert before.place is not None
    assert (await people.directory(before.place)).vouches(before, 0)
    assert not (await people.directory()).vouches(before, 0)
    assert (await people.directory()).vouches(after, 0)
    with pytest.raises(LogDamaged):
        await people.directory(99)


async def test_two_processes_change_it_at_once_and_nothing_is_lost(people: People) -> None:
    others = [People(people._store) for _ in range(8)]
    await asyncio.gather(*(other.add(f"p{place}", by="ada") for place, other in enumerate(others)))
    assert [each.id for each in await people.list()] == ["ada", "bob", "cyd", *(f"p{place}" for place in range(8))]
    assert (await check(people._store)).ok


async def test_it_is_no_run(people: People) -> None:
    store = people._store
    assert await store.runs() == []
    assert await store.due() == []
    claim = await store.claim(NAME, "who died", 1)  # a lease that nobody gives back
    async with App([], store):
        await until(lambda: _free(store, claim.epoch))
    assert (await people.directory()).place == 3


async def _free(store: Any, epoch: int) -> bool:
    try:
        claim = await store.claim(NAME, "another", 1_000)
    except Conflict:
        return False
    await store.release(claim)
    return claim.epoch > epoch + 1


async def test_tenants_have_directories_of_their_own(people: People) -> None:
    other = People(people._store.of("other"))
    assert await other.list() == []
    await other.start("eve")
    with pytest.raises(NotAllowed):
        await people.decider("eve")


async def test_an_entry_that_was_altered_is_not_believed(tmp_path: Any, own_key: None) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    store: Any = opened(url)
    people = People(store)
    await people.start("ada")
    await people.add("bob", by="ada")
    await store.close()
    db = apsw.Connection(str(tmp_path / "runs.db"))
    db.execute("UPDATE events SET line = replace(CAST(line AS TEXT), 'bob', 'eve') WHERE seq = 1")
    db.close()
    store = opened(url)
    with pytest.raises(LogDamaged, match="line 1"):
        await People(store).list()
    report = await check(store)
    assert [(each.run, each.position) for each in report.violations] == [(NAME, 1)]


async def test_an_entry_that_nobody_could_make_is_found(own_key: None) -> None:
    """Whoever holds the keys can write any line: the check says of each whether its author could have made it."""
    journal = MemoryJournal()
    people = People(journal)
    await people.start("ada")
    await people.add("bob", by="ada")
    await Book(journal).change(Decider("bob"), lambda _now, _at: [ev.RoleGiven("admin", person="bob")])
    report = await check(journal)
    assert [(each.position, "no administrator" in each.what) for each in report.violations] == [(2, True)]


async def test_after_a_restore_tokens_links_and_delegations_of_before_count_no_more(people: People) -> None:
    token, link = await people.issue_token("bob", by="bob"), await people.make_link("cyd", by="ada")
    await people.delegate("bob", "cyd", lasts="1h")
    await Book(people._store).restored("was brought back")
    for way in (people.login(token), people.use_link(link)):
        with pytest.raises(NotAllowed):
            await way
    assert (await people.decider("cyd", "authenticated", terms=Approval(role="finance"))).acting_for == ""
    assert (await people.decider("bob")).roles == ("finance",)
    assert (await check(people._store)).ok
