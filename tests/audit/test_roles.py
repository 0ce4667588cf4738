"""A decision that says of its decider what the directory did not say of them at that place is found by the checker."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from msgspec.structs import replace

from keyturn import Approval, MemoryJournal
from keyturn.audit.checker import check
from keyturn.audit.deciders import objection
from keyturn.audit.directory import faults_of
from keyturn.audit.roles import Roles
from keyturn.core import events as ev
from keyturn.core.people import Decider
from keyturn.directory import events as de
from keyturn.directory import provisioning
from keyturn.directory.people import Login, People
from keyturn.directory.provisioning import Claims, Profile
from tests.audit.test_signatures import of_decisions, rewritten
from tests.directory.test_signed import Desk


async def decided(terms: Approval, *, acting: bool = False) -> tuple[Any, ev.Decision]:
    """A store in which Bob decided: with a role that he lost later, or in Ada's place."""
    desk = Desk(MemoryJournal(), terms)
    people = desk.app.people
    async with desk.app:
        await people.start("ada")
        await people.give_role("finance", to="ada", by="ada")
        await people.add("bob", roles=[] if acting else ["finance"], by="ada")
        if acting:
            await people.delegate("ada", "bob", lasts="1h", roles=["finance"])
        request = await desk.waiting()
        await desk.app.inbox.approve(request, by=Login("bob"))
        await desk.run.result(10)
        if acting:
            [lent] = (await people.directory()).delegations.values()
            await people.end_delegation(lent.id, by="ada")
        else:
            await people.take_role("finance", of="bob", by="ada")
        await people.remove("bob", by="ada")
    found = list[ev.Decision]()
    await rewritten(desk.app.journal, of_decisions(lambda _run, made: found.append(made) or made))
    return desk.app.journal, found[0]


async def found(journal: Any, lie: Mapping[str, Any]) -> list[str]:
    """What the checker says of the deciders, after whoever has the keys wrote another one."""

    def lying(_run: str, made: ev.Decision) -> ev.Decision:
        assert made.decider is not None
        return replace(made, decider=replace(made.decider, **lie))

    report = await check(await rewritten(journal, of_decisions(lying)))
    return [each.what for each in report.violations if "directory" in each.what or "machine" in each.what]


async def test_a_role_that_somebody_had_then_is_good_for_ever(own_key: None) -> None:
    journal, made = await decided(Approval(role="finance"))
    assert made.decider is not None
    assert (made.decider.roles, made.decider.place) == (("finance",), 3)
    assert (await check(journal)).ok
    assert await found(journal, {}) == []
    lies: dict[str, dict[str, Any]] = {
        "a role they never had": {"roles": ("admin", "finance")},
        "before they had it": {"place": 2},
        "after it was taken": {"place": 4},
        "after they left": {"place": 5, "roles": ()},
        "a directory to come": {"place": 50},
        "somebody else": {"id": "eve"},
        "in a place that nobody lent": {"acting_for": "ada"},
    }
    for what, lie in lies.items():
        assert len(await found(journal, lie)) == 1, what


async def test_what_was_lent_counts_until_it_is_over(own_key: None) -> None:
    journal, made = await decided(Approval(role="finance"), acting=True)
    assert made.decider is not None
    assert (made.decider.acting_for, made.decider.place) == ("ada", 4)
    assert (await check(journal)).ok
    lies: dict[str, dict[str, Any]] = {
        "a role that was not lent": {"roles": ("admin",)},
        "before it was lent": {"place": 3},
        "after it was ended": {"place": 5},
        "as their own": {"acting_for": ""},
        "of somebody else": {"acting_for": "cyd"},
    }
    for what, lie in lies.items():
        assert len(await found(journal, lie)) == 1, what


def test_a_delegation_ends_with_its_time_and_groups_lend_their_roles() -> None:
    entries: list[list[de.AnyDirectoryEvent]] = [
        [de.PersonAdded("ada"), de.RoleGiven("admin", person="ada")],
        [de.PersonAdded("bob"), de.PersonAdded("bot", kind="machine"), de.GroupJoined("night", "bob")],
        [de.RoleGiven("oncall", group="night")],
        [de.Delegated("d", "ada", "bob", 1_000_000)],
        [de.RoleTaken("admin", person="ada")],
        [de.GroupLeft("night", "bob")],
    ]
    roles = Roles([de.written(de.Entry(5, Decider("ada"), each)) for each in entries])

    def says(place: int, *held: str, at: int = 9, for_: str = "", name: str = "bob") -> str:
        return roles.fault(Decider(name, held, "authenticated", place=place, acting_for=for_), at)

    assert says(3, "oncall") == ""
    assert "oncall" in says(2, "oncall")
    assert says(5, "oncall") == ""
    assert "oncall" in says(6, "oncall")
    assert says(4, "admin", for_="ada") == ""
    assert "admin" in says(5, "admin", for_="ada"), "what the giver lost is lent no more"
    assert "over" in says(4, "admin", for_="ada", at=1_100_000)
    assert "service account" in says(2, name="bot")
    assert roles.fault(Decider("eve", ("all",), "authenticated"), 9) == "", "a program vouches for them"


def test_a_decision_by_lent_roles_does_not_say_that_the_name_was_lent() -> None:
    entries: list[list[de.AnyDirectoryEvent]] = [
        [de.PersonAdded("ada"), de.RoleGiven("admin", person="ada"), de.RoleGiven("ops", person="ada")],
        [de.PersonAdded("bob")],
        [de.Delegated("d", "ada", "bob", 1_000_000, ("ops",))],
    ]
    roles = Roles([de.written(de.Entry(5, Decider("ada"), each)) for each in entries])
    lent = Decider("bob", ("ops",), "authenticated", place=3, acting_for="ada", roles_only=True)
    assert roles.fault(lent, 9) == ""
    assert "says that it is of all" in roles.fault(replace(lent, roles_only=False), 9)
    assert objection(Approval(users=["ada"]), lent, None) == "by a person whom its terms do not name"
    assert objection(Approval(users=["ada"]), replace(lent, roles_only=False), None) == ""


async def test_the_checker_reads_every_directory_that_people_make(own_key: None, store: Any) -> None:
    """What the directory says by its own code, and what the checker's says, is the same at each place."""
    people = People(store)
    await people.start("ada")
    for number in range(4):
        await people.add(f"p{number}", roles=["a", "b"][: number % 3], by="ada")
        await people.join("g", f"p{number}", by="ada")
    await people.give_role("c", group="g", by="ada")
    await people.take_role("a", of="p1", by="ada")
    await people.leave("g", "p2", by="ada")
    await people.remove("p1", by="ada")
    await people.add("p1", by="ada")
    await people.add("idp", by="ada", kind="machine")
    scim = await people.login(await people.issue_token("idp", ["scim"], by="ada"))
    await people.provision(lambda now: provisioning.add_group(now, "g", "", ["p2", "p3"]), by=scim)
    await people.map_claims("p1", Claims(("g",), ("b",)))
    for active in (False, True):
        for name in ("p1", "p3"):
            profile = Profile(active=active)
            await people.provision(partial(provisioning.change_user, person=name, profile=profile), by=scim)
    await people.map_claims("p1", Claims((), ("a",)))
    await people.map_claims("p1", Claims())
    entries = await people.entries()
    assert [*faults_of([de.written(entry) for entry in entries])] == []
    roles = Roles([de.written(entry) for entry in entries])
    for place in range(len(entries) + 1):
        directory = await people.directory(place)
        for name in ("ada", "p0", "p1", "p2", "p3"):
            for role in ("admin", "a", "b", "c"):
                who = Decider(name, (role,), "authenticated", place=place)
                assert (roles.fault(who, 9) == "") == directory.vouches(who, 9), (place, name, role)
