"""The laws of a directory, tried with random changes by random people, beside rules that are written down again.

What is accepted, the check that shares no code accepts; what nobody may do changes nothing; the past stays as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from keyturn.audit.directory import faults_of
from keyturn.core.approval import Approval
from keyturn.core.errors import KeyturnError
from keyturn.core.people import Decider, Proof
from keyturn.directory import addresses, decide, provisioning
from keyturn.directory import events as ev
from keyturn.directory.fold import fold
from keyturn.directory.state import SCOPES, Directory
from tests.effort import some

NAMES = st.sampled_from(["ada", "bob", "cyd", "dan", "Bob", "a b"])
AUTHORS = st.sampled_from(["ada"] * 5 + ["bob", "bob", "cyd", "dan", "nobody"])
ROLES = st.sampled_from(["admin", "ops", "finance"])
GROUPS = st.sampled_from(["oncall", "chiefs"])
IDS = st.sampled_from(["i1", "i2", "i3"])
KINDS = st.sampled_from(["person", "person", "machine"])
LATER = st.sampled_from([0, 1, 10, 1_000])
PROOFS = st.sampled_from([None, Proof("ssh", "i1", b"x"), Proof("ssh", "i2", b"x")])
HASH = "$argon2id$v=19$m=65536,t=3,p=4$c29tZXNhbHRzb21lc2FsdA$" + "a" * 43


class Directories(RuleBasedStateMachine):
    """Makes changes, accepted or not, and remembers each entry."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1
        self.entries: list[ev.Entry] = []
        self.directory = Directory()
        self.past: list[tuple[int, str, frozenset[str]]] = []
        self.change("ada", lambda: decide.start(self.directory, "ada", ""))
        self.change("ada", lambda: decide.add(self.directory, "ada", "okta", "", "machine", ()))
        issued = ev.TokenIssued("p1", "okta", "d", ("scim",))
        self.change("ada", lambda: decide.issue_token(self.directory, "ada", issued, self.now))

    def change(self, by: str, made: Any) -> None:
        """Make a change, or see that it is refused and leaves everything as it was."""
        before = deepcopy(self.directory)
        try:
            events = made()
        except KeyturnError:
            assert self.directory == before
            return
        assert self.directory == before, "deciding changes nothing"
        if events:
            self.entries.append(ev.Entry(self.now, Decider(by), events))
            self.directory = fold(self.entries[-1:], self.directory)
            self.past.append((self.directory.place, "bob", self.directory.roles_of("bob")))

    @rule(later=LATER)
    def pass_time(self, later: int) -> None:
        self.now += later

    @rule(
        by=AUTHORS,
        person=NAMES,
        roles=st.lists(ROLES, max_size=2),
        kind=st.sampled_from(["person", "person", "machine"]),
    )
    def add(self, by: str, person: str, roles: list[str], kind: Any) -> None:
        self.change(by, lambda: decide.add(self.directory, by, person, "", kind, roles))

    @rule(by=AUTHORS, person=NAMES)
    def remove(self, by: str, person: str) -> None:
        self.change(by, lambda: decide.remove(self.directory, by, person))

    @rule(by=AUTHORS, role=ROLES, person=NAMES, group=GROUPS, of_group=st.booleans(), take=st.booleans())
    def role(self, by: str, role: str, person: str, group: str, of_group: bool, take: bool) -> None:
        do = decide.take_role if take else decide.give_role
        who = ("", group) if of_group else (person, "")
        self.change(by, lambda: do(self.directory, by, role, *who))

    @rule(by=AUTHORS, person=NAMES, group=GROUPS, leave=st.booleans())
    def group(self, by: str, person: str, group: str, leave: bool) -> None:
        do = decide.leave if leave else decide.join
        self.change(by, lambda: do(self.directory, by, group, person))

    @rule(by=AUTHORS, person=NAMES, token=IDS, scopes=st.lists(st.sampled_from(SCOPES), max_size=2), ends=LATER)
    def issue(self, by: str, person: str, token: str, scopes: list[str], ends: int) -> None:
        if token in self.directory.tokens:
            self.change(by, lambda: decide.revoke_token(self.directory, by, token))
            return
        issued = ev.TokenIssued(token, person, "d", tuple(scopes), expires_at=self.now + ends if ends else None)
        self.change(by, lambda: decide.issue_token(self.directory, by, issued, self.now))

    @rule(by=AUTHORS, key=IDS, proof=PROOFS, what=st.sampled_from(["enrol", "confirm", "revoke"]))
    def key(self, by: str, key: str, proof: Proof | None, what: str) -> None:
        enrolled = ev.KeyEnrolled(key, by, "ssh", "public")
        does = {
            "enrol": lambda: decide.enrol_key(self.directory, by, enrolled),
            "confirm": lambda: decide.confirm_key(self.directory, by, key, proof),
            "revoke": lambda: decide.revoke_key(self.directory, by, key),
        }
        self.change(by, does[what])

    @rule(by=AUTHORS, giver=NAMES, receiver=NAMES, name=IDS, lasts=LATER, roles=st.lists(ROLES, max_size=1))
    def delegate(self, by: str, giver: str, receiver: str, name: str, lasts: int, roles: list[str]) -> None:
        if name in self.directory.delegations:
            self.change(by, lambda: decide.end_delegation(self.directory, by, name, self.now))
            return
        given = ev.Delegated(name, giver, receiver, self.now + lasts, tuple(roles))
        self.change(by, lambda: decide.delegate(self.directory, by, given, self.now))

    @rule(by=AUTHORS, person=NAMES, value=st.sampled_from([None, "x", 5]), everybody=st.booleans())
    def set(self, by: str, person: str, value: Any, everybody: bool) -> None:
        changed = ev.SettingChanged("s", value, "" if everybody else person)
        self.change(by, lambda: decide.change_setting(self.directory, by, changed))
        address = ev.AddressSet(person, "mail", "" if value is None else str(value))
        self.change(by, lambda: addresses.set_address(self.directory, by, address))

    @rule(by=AUTHORS, person=NAMES, keeps=IDS, none=st.booleans())
    def password(self, by: str, person: str, keeps: str, none: bool) -> None:
        chosen = ev.PasswordSet(person, "" if none else HASH, keeps)
        self.change(by, lambda: decide.set_password(self.directory, by, chosen))

    @rule(person=NAMES, token=st.sampled_from(["s1", "s2", "s3"]), ends=st.sampled_from([1, 10]), count=st.booleans())
    def log_in(self, person: str, token: str, ends: int, count: bool) -> None:
        if any(
            each.token == token for entry in self.entries for each in entry.events if isinstance(each, ev.TokenIssued)
        ):
            return  # ids are random, or digests of what is out of time before the login is
        issued = ev.TokenIssued(token, person, "d", ("decide",), expires_at=self.now + ends, session="password")
        counted = ev.KeyCounted("i1", 5) if count else None
        self.change(person, lambda: decide.begin_session(self.directory, issued, counted))

    @rule(person=NAMES, roles=st.lists(ROLES, max_size=2), groups=st.lists(GROUPS, max_size=2))
    def claims(self, person: str, roles: list[str], groups: list[str]) -> None:
        """A provider says what a person who signs in is; the last administrator stays one."""
        said = provisioning.Claims(tuple(groups), tuple(roles))
        self.change(person, lambda: provisioning.map_claims(self.directory, person, said))

    @rule(
        by=st.sampled_from(["okta", "okta", "okta", "ada", "dan"]),
        person=NAMES,
        what=st.sampled_from(["add", "change", "delete", "add group", "members", "delete group"]),
        active=st.booleans(),
        group=GROUPS,
        members=st.lists(NAMES, max_size=2),
    )
    def provision(self, by: str, person: str, what: str, active: bool, group: str, members: list[str]) -> None:
        now, profile = self.directory, provisioning.Profile(person.title(), "", active)
        does: dict[str, Callable[[], Any]] = {
            "add": lambda: provisioning.add_user(now, person, profile),
            "change": lambda: provisioning.change_user(now, person, profile),
            "delete": lambda: provisioning.delete_user(now, person),
            "add group": lambda: provisioning.add_group(now, group, "", members),
            "members": lambda: provisioning.change_group(now, group, "", members),
            "delete group": lambda: provisioning.delete_group(now, group),
        }
        admins = {name for name in now.people if "admin" in now.roles_of(name)}

        def made() -> Any:
            provisioning.provisions(now, by, self.now)
            return does[what]()

        self.change(by, made)
        after = self.directory
        more = {name for name in after.people if "admin" in after.roles_of(name)} - admins
        assert all("admin" in after.groups[each] for name in more for each in after.people[name].provisioned)
        assert not more or what in ("add", "change"), "only by a group that had it, and was theirs before"

    @invariant()
    def only_people_who_are_here_have_a_password(self) -> None:
        for name in self.directory.passwords:
            found = self.directory.person(name)
            assert found is not None
            assert found.kind == "person"

    @invariant()
    def somebody_administers(self) -> None:
        assert self.directory.admins()

    @invariant()
    def the_check_finds_no_fault(self) -> None:
        assert list(faults_of([ev.written(entry) for entry in self.entries])) == []

    @invariant()
    def the_past_stays(self) -> None:
        for place, name, roles in self.past[-3:]:
            assert fold(self.entries[:place]).roles_of(name) == roles

    @invariant()
    def a_fold_of_all_is_what_was_folded_one_by_one(self) -> None:
        assert fold(ev.read_entry(ev.written(entry)) for entry in self.entries) == self.directory

    @invariant()
    def nobody_decides_with_roles_that_nobody_gave_them(self) -> None:
        for name in self.directory.people:
            who = self.directory.decider(name, self.now, "authenticated", Approval(role="finance"))
            if who is None:
                assert not self.directory.people[name].here
                continue
            source = self.directory.roles_of(who.principal)
            assert set(who.roles) <= source
            assert self.directory.people[name].kind == "person" or who.strength == "claimed"
            if who.acting_for:
                assert self.directory.vouches(who, self.now)

    @rule(by=AUTHORS, role=ROLES)
    def forge(self, by: str, role: str) -> None:
        """An entry that was written past the rules is found, unless its author could have made it."""
        event = ev.RoleGiven(role, person="bob")
        forged = [*self.entries, ev.Entry(self.now, Decider(by), [event])]
        found = list(faults_of([ev.written(entry) for entry in forged]))
        here = self.directory.person(by) is not None and self.directory.person("bob") is not None
        could = here and "admin" in self.directory.roles_of(by)  # a machine's, too
        assert bool(found) == (not could)


TestDirectories = Directories.TestCase
TestDirectories.settings = settings(max_examples=some(60), stateful_step_count=40, deadline=None)
