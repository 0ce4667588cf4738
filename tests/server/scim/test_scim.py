"""SCIM: an identity provider keeps users and groups by it, as the RFC says; deactivation ends all that a user holds."""

from __future__ import annotations

import asyncio
import inspect
import threading
from typing import Any

import httpx2
import pytest
from msgspec.structs import replace

from keyturn import App, MemoryJournal
from keyturn.audit.directory import faults_of
from keyturn.core.people import Decider
from keyturn.directory import events as ev
from keyturn.directory.book import Book
from keyturn.directory.people import Login
from keyturn.server.scim.filters import parsed
from tests.server.identity.door import PASSWORD, Door
from tests.server.office import Served, cookie

with pytest.MonkeyPatch.context() as patched:
    # For the docstring of each field all modules that there are would be looked through: two seconds of a collection.
    patched.setattr(inspect, "getmodule", lambda *_found: None)
    from scim2_client.engines.httpx2 import SyncSCIMClient
    from scim2_tester import Status, check_server

PATCH = "urn:ietf:params:scim:api:messages:2.0:PatchOp"


class Client:
    """A provisioning client at a server: what it asks, and what it is answered."""

    def __init__(self, door: Door, token: str) -> None:
        self.door = door
        transport = httpx2.ASGITransport(door.served, client=("192.0.2.7", 5))
        headers = {"authorization": f"Bearer {token}"}
        self.http = httpx2.AsyncClient(transport=transport, base_url="http://localhost:8321", headers=headers)

    async def asks(self, method: str, path: str, body: Any = None, **more: Any) -> tuple[int, Any]:
        answer = await self.http.request(method, f"/scim/v2{path}", json=body, **more)
        assert answer.headers.get("content-type", "application/scim+json") == "application/scim+json"
        return answer.status_code, answer.json() if answer.content else None

    async def patches(self, path: str, *operations: Any) -> tuple[int, Any]:
        return await self.asks("PATCH", path, {"schemas": [PATCH], "Operations": [*operations]})

    async def finds(self, what: str, filter: str, **more: Any) -> list[str]:
        _status, found = await self.asks("GET", f"/{what}", params={"filter": filter, **more})
        return [each["id"] for each in found["Resources"]]


@pytest.fixture
async def client(own_key: None) -> Client:
    door = await Door().peopled()
    await door.people.add("okta", by="ada", kind="machine")
    return Client(door, await door.people.issue_token("okta", ["scim"], by="ada"))


@pytest.mark.trial
def test_a_client_that_tries_every_promise_of_scim_finds_them_kept(own_key: None) -> None:
    app = App([], MemoryJournal(), worker=False)
    with Served(app) as served:
        served.does(app.people.start("ada"))
        served.does(app.people.add("okta", by="ada", kind="machine"))
        headers = {"authorization": f"Bearer {served.does(app.people.issue_token('okta', ['scim'], by='ada'))}"}
        with httpx2.Client(base_url=f"{served.url}/scim/v2", headers=headers) as http:
            found = check_server(SyncSCIMClient(http))
        log = [ev.written(each) for each in served.does(app.people.entries())]
    broken = [f"{each.title}: {each.reason}" for each in found if each.status not in (Status.SUCCESS, Status.COMPLIANT)]
    assert (broken, len(found) > 50) == ([], True)
    assert [*faults_of(log)] == []


async def test_a_user_and_a_group_are_kept_and_administrators_say_what_the_group_may(client: Client) -> None:
    people = client.door.people
    await people.give_role("finance", group="treasury", by="ada")
    status, eve = await client.asks(
        "POST", "/Users", {"userName": "eve", "displayName": "Eve Ng", "externalId": "00u1"}
    )
    assert (status, eve["id"], eve["active"]) == (201, "eve", True)
    assert (await people.get("eve")).name == "Eve Ng"
    status, group = await client.asks("POST", "/Groups", {"displayName": "treasury", "members": [{"value": "eve"}]})
    assert (status, [each["value"] for each in group["members"]]) == (201, ["eve"])
    assert (await people.directory()).roles_of("eve") == {"finance"}
    assert (await client.asks("GET", "/Users/eve"))[1]["groups"][0]["value"] == "treasury"
    assert (await client.asks("POST", "/Users", {"userName": "EVE"}))[0] == 409
    assert (await client.asks("POST", "/Groups", {"displayName": "Treasury"}))[0] == 409
    assert (await client.asks("PUT", "/Users/eve", {"userName": "eva"}))[1]["scimType"] == "mutability"
    assert (await client.asks("PUT", "/Users/eve", {"userName": "Eve", "name": {"givenName": "E", "familyName": "N"}}))[
        1
    ]["displayName"] == "E N"
    assert (await client.asks("PUT", "/Groups/treasury", {"displayName": "treasury"}))[1].get("members") is None
    assert (await people.directory()).roles_of("eve") == frozenset()
    assert (await client.asks("DELETE", "/Groups/treasury"))[0] == 204
    assert (await client.asks("GET", "/Groups/treasury"))[0] == 404
    assert (await client.asks("DELETE", "/Users/eve"))[0] == 204
    assert (await client.asks("GET", "/Users/eve"))[0] == 404
    assert (await client.asks("POST", "/Users", {"userName": "eve"}))[0] == 201, "who was deleted can be added again"
    assert [*faults_of([ev.written(each) for each in await people.entries()])] == []


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "replace", "path": "active", "value": False},
        {"op": "Replace", "path": "active", "value": "False"},
        {"op": "replace", "value": {"active": False}},
        {"op": "replace", "path": "urn:ietf:params:scim:schemas:core:2.0:User:active", "value": False},
    ],
    ids=["the RFC", "Entra ID", "Okta", "with its schema"],
)
async def test_deactivation_ends_at_once_all_that_a_user_holds(client: Client, operation: Any) -> None:
    people = client.door.people
    browser = client.door.browser()
    await browser.log_in()
    token = await people.issue_token("bob", ["decide"], by="bob")
    link = await people.make_link("bob", by="ada")
    lent = await people.delegate("bob", "ada", lasts="1h", by="bob")
    text = '{"credential":"Y3JlZA","key":"","origins":["http://localhost:8321"],"rp":"localhost"}'
    key = ev.KeyEnrolled("phone", "bob", "passkey", text)
    await Book(client.door.app.journal).change(Decider("bob"), lambda _directory, _at: [key])
    status, bob = await client.patches("/Users/bob", operation)
    assert (status, bob["active"]) == (200, False)
    assert (await browser.get("/account")).status_code == 303
    assert (await client.door.browser(authorization=f"Bearer {token}").get("/v1/me")).status_code == 401
    assert (await client.door.browser().post("/enter", {"link": link})).status_code == 403
    assert (await client.door.browser().log_in()).status_code == 403
    directory = await people.directory()
    assert directory.delegations[lent.id].ended_at is not None
    assert directory.keys["phone"].revoked_at is not None
    assert directory.roles_of("bob") == frozenset()
    assert (await client.patches("/Users/bob", {"op": "replace", "value": {"active": True}}))[1]["active"] is True
    back = await people.directory()
    assert (back.roles_of("bob"), back.can_sign_in("bob")) == (frozenset(), False), "with nothing of before"
    assert [*faults_of([ev.written(each) for each in await people.entries() if key not in each.events])] == []


def test_the_open_stream_of_a_user_who_is_deactivated_ends(own_key: None) -> None:
    app = App([], MemoryJournal(), worker=False)
    with Served(app) as served:
        served.does(app.people.start("ada"))
        served.does(app.people.add("bob", by="ada"))
        served.does(app.people.add("okta", by="ada", kind="machine"))
        session = served.does(app.people.begin_session("bob", "password", lasts="1h"))
        headers = {"authorization": f"Bearer {served.does(app.people.issue_token('okta', ['scim'], by='ada'))}"}
        begun, told = threading.Event(), list[int]()
        kept = cookie(served, session)

        def listens() -> None:
            with httpx2.stream(
                "GET", f"{served.url}/live", cookies={kept["name"]: kept["value"]}, timeout=50
            ) as open_one:
                told.append(open_one.status_code)
                begun.set()
                for _ in open_one.iter_raw():
                    pass
            told.append(0)

        thread = threading.Thread(target=listens)
        thread.start()
        assert begun.wait(30)
        body = {"schemas": [PATCH], "Operations": [{"op": "replace", "path": "active", "value": False}]}
        httpx2.patch(f"{served.url}/scim/v2/Users/bob", json=body, headers=headers)
        thread.join(45)
    assert told == [200, 0]


async def test_members_of_a_group_outlast_a_deactivation_and_not_an_administrator_who_adds_them_anew(
    client: Client,
) -> None:
    people = client.door.people
    await people.give_role("finance", group="treasury", by="ada")
    await client.asks("POST", "/Groups", {"displayName": "treasury", "members": [{"value": "bob"}]})
    await client.patches("/Users/bob", {"op": "replace", "value": {"active": False}})
    assert [each["value"] for each in (await client.asks("GET", "/Groups/treasury"))[1]["members"]] == ["bob"]
    assert (await people.directory()).roles_of("bob") == frozenset()
    await client.patches("/Users/bob", {"op": "replace", "value": {"active": True}})
    assert (await people.directory()).roles_of("bob") == {"finance"}
    await people.remove("bob", by="ada")
    await people.add("bob", by="ada")
    assert (await people.directory()).roles_of("bob") == frozenset()
    assert [*faults_of([ev.written(each) for each in await people.entries()])] == []


async def test_nobody_is_an_administrator_again_by_being_reactivated(client: Client) -> None:
    people = client.door.people
    await client.asks("POST", "/Groups", {"displayName": "root", "members": [{"value": "bob"}]})
    await client.asks("POST", "/Groups", {"displayName": "treasury", "members": [{"value": "bob"}]})
    await people.give_role("admin", group="root", by="ada")
    await people.give_role("finance", group="treasury", by="ada")
    assert (await people.directory()).roles_of("bob") >= {"admin", "finance"}
    await people.remove("bob", by="ada")
    assert (await client.patches("/Users/bob", {"op": "replace", "value": {"active": True}}))[1]["active"] is True
    assert (await people.directory()).roles_of("bob") == {"finance"}
    entries = await people.entries()
    assert [*faults_of([ev.written(each) for each in entries])] == []
    forged = [replace(each, events=[e for e in each.events if not _ends_membership(e)]) for each in entries]
    assert ["administrator" in why for _place, why in faults_of([ev.written(each) for each in forged])] == [True]


def _ends_membership(event: object) -> bool:
    return isinstance(event, ev.MembershipProvisioned) and not event.member


async def test_a_token_of_scim_is_of_no_use_elsewhere_and_no_other_one_here(client: Client) -> None:
    people = client.door.people
    shown = {"authorization": client.http.headers["authorization"]}
    elsewhere = client.door.browser(**shown)
    for path in ("/v1/me", "/v1/people", "/v1/requests", "/v1/runs", "/v1/tokens", "/v1/people/log", "/", "/people"):
        assert (await elsewhere.get(path)).status_code in (401, 403), path
    for path, body in (("/v1/people/add", {"person": "eve"}), ("/v1/people/give_role", {"role": "admin"})):
        assert (await elsewhere.post(path, json=body)).status_code == 403, path
    login = await people.login(shown["authorization"].split()[1])
    with pytest.raises(Exception, match="has not the scope 'people'"):
        await people.add("eve", by=login)
    with pytest.raises(Exception, match="needs a token of the scope"):
        await people.provision(lambda _now: [ev.PersonAdded("eve")], by=Login("ada", ("scim",)))
    for scopes in (["people"], ["read", "people", "decide"], ["run"]):
        other = Client(client.door, await people.issue_token("ada", scopes, by="ada"))
        assert (await other.asks("GET", "/Users"))[0] == 403
    browser = client.door.browser()
    await browser.log_in("ada")
    assert (await browser.get("/scim/v2/Users")).status_code == 401, "nor is a session"
    assert (await client.door.browser().get("/scim/v2/Schemas")).status_code == 401
    for holder, scopes in (("ada", ["scim"]), ("okta", ["scim", "people"])):
        with pytest.raises(Exception, match="is for a service account, and has no other scope"):
            await people.issue_token(holder, scopes, by="ada")
    await people.revoke_token(login.token, by="ada")
    assert (await client.asks("GET", "/Users"))[0] == 401


async def test_no_client_makes_an_administrator_and_none_removes_the_last(client: Client) -> None:
    people = client.door.people
    gone: list[tuple[str, Any]] = [("DELETE", None), ("PUT", {"userName": "ada", "active": False})]
    for method, body in gone:
        status, said = await client.asks(method, "/Users/ada", body)
        assert (status, "last administrator" in said["detail"]) == (400, True)
    await client.asks("POST", "/Groups", {"displayName": "chiefs", "members": [{"value": "bob"}]})
    await people.give_role("admin", group="chiefs", by="ada")
    await people.take_role("admin", of="ada", by="ada")
    assert (await people.directory()).admins() == ["bob"]
    eve = {"value": "eve"}
    await client.asks("POST", "/Users", {"userName": "eve"})
    for refused in (
        await client.patches("/Groups/chiefs", {"op": "add", "path": "members", "value": [eve]}),
        await client.asks("PUT", "/Groups/chiefs", {"displayName": "chiefs", "members": [{"value": "bob"}, eve]}),
    ):
        assert (refused[0], "makes an administrator" in refused[1]["detail"]) == (403, True)
    for last in (
        await client.patches("/Groups/chiefs", {"op": "remove", "path": 'members[value eq "bob"]'}),
        await client.asks("PUT", "/Groups/chiefs", {"displayName": "chiefs"}),
        await client.asks("DELETE", "/Groups/chiefs"),
        await client.asks("DELETE", "/Users/bob"),
    ):
        assert (last[0], "last administrator" in last[1]["detail"]) == (400, True), last
    assert (await people.directory()).admins() == ["bob"]
    for name in ("okta", "keyturn", "robot", "two words", "\u0430da", ""):
        assert (await client.asks("POST", "/Users", {"userName": name}))[0] in (400, 409), name
    assert (await client.asks("GET", "/Users/okta"))[0] == 404, "a service account is no user of a client"
    assert (await client.asks("DELETE", "/Users/robot"))[0] == 404


async def test_what_no_client_could_have_made_is_found_in_the_log(client: Client) -> None:
    entries = [ev.written(each) for each in await client.door.people.entries()]
    at = (await client.door.people.entries())[-1].at

    def forged(*events: Any, by: str = "okta") -> list[Any]:
        return [*faults_of([*entries, ev.written(ev.Entry(at, Decider(by), [*events]))])]

    assert forged(ev.PersonAdded("eve"), ev.UserProvisioned("eve", "Eve")) == []
    lies: list[tuple[list[Any], str]] = [
        ([ev.PersonAdded("eve")], "robot"),
        ([ev.PersonAdded("eve"), ev.RoleGiven("admin", person="eve")], "okta"),
        ([ev.PersonRemoved("robot")], "okta"),
        ([ev.ClaimsMapped("bob", roles=("admin",))], "okta"),
        ([ev.ClaimsMapped("bob", roles=("admin",))], "ada"),
        ([ev.TokenIssued("t", "ada", "0" * 64, ("scim",))], "ada"),
    ]
    for events, by in lies:
        assert forged(*events, by=by), events


async def test_two_changes_of_one_group_at_once_lose_no_member(client: Client) -> None:
    await client.asks("POST", "/Groups", {"displayName": "desk"})
    names = [f"user{number}" for number in range(8)]
    for name in names:
        await client.asks("POST", "/Users", {"userName": name})
    add = [{"op": "add", "path": "members", "value": [{"value": name}]} for name in names]
    assert {status for status, _ in await asyncio.gather(*(client.patches("/Groups/desk", each) for each in add))} == {
        200
    }
    kept = (await client.asks("GET", "/Groups/desk"))[1]["members"]
    assert [each["value"] for each in kept] == names
    assert kept[0]["$ref"] == "http://localhost:8321/scim/v2/Users/user0"
    some = [{"value": each} for each in names[:3]]
    await client.patches("/Groups/desk", {"op": "Remove", "path": "members", "value": some})
    assert len((await client.asks("GET", "/Groups/desk"))[1]["members"]) == 5


async def test_users_are_filtered_and_paged(client: Client) -> None:
    for number in range(5):
        said = {"userName": f"u{number}@example.com", "externalId": f"00u{number}", "active": number != 3}
        await client.asks("POST", "/Users", said)
    for filter, found in (
        ('userName eq "U1@EXAMPLE.com"', ["u1@example.com"]),
        ('externalId eq "00u2"', ["u2@example.com"]),
        ('externalId eq "00U2"', []),
        ('userName sw "u" and not (active eq true)', ["u3@example.com"]),
        ('userName co "1@" or userName ew "4@example.com"', ["u1@example.com", "u4@example.com"]),
        ('displayName pr and userName ne "bob"', ["ada"]),
        ('urn:ietf:params:scim:schemas:core:2.0:User:userName eq "bob"', ["bob"]),
    ):
        assert await client.finds("Users", filter) == found, filter
    _status, page = await client.asks(
        "GET", "/Users", params={"startIndex": "3", "count": "2", "attributes": "userName"}
    )
    assert (page["totalResults"], page["startIndex"], page["itemsPerPage"]) == (7, 3, 2)
    assert [sorted(each) for each in page["Resources"]] == [["id", "schemas", "userName"]] * 2
    assert (await client.asks("GET", "/Users", params={"count": "0"}))[1]["totalResults"] == 7
    await client.asks("POST", "/Groups", {"displayName": "desk", "members": [{"value": "bob"}]})
    assert await client.finds("Groups", 'members[value eq "bob"]') == ["desk"]
    assert await client.finds("Groups", 'members eq "bob" and displayName eq "DESK"') == ["desk"]


NO_FILTERS = [
    *("userName", "userName is 5", 'userName eq "', "userName eq bob", "(a pr", "a pr)", "a[b pr", "not", "["),
    *('"a" eq 5', "(" * 50 + "a pr" + ")" * 50, "a pr and " * 400 + "a pr", "userName eq {}", "and and and"),
]


@pytest.mark.each
@pytest.mark.parametrize("filter", NO_FILTERS)
async def test_a_filter_that_is_none_is_refused(client: Client, filter: str) -> None:
    status, said = await client.asks("GET", "/Users", params={"filter": filter})
    assert (status, said["scimType"]) == (400, "invalidFilter")


def test_a_filter_of_the_longest_kind_is_read_in_no_time() -> None:
    assert parsed(" or ".join(['a eq "b"'] * 150))({"a": "c"}) is False


NO_OPERATIONS: list[tuple[list[Any], str]] = [
    ([], "invalidSyntax"),
    ([{"op": "move", "path": "active"}], "invalidSyntax"),
    ([{"op": "remove"}], "noTarget"),
    ([{"op": "remove", "path": "active"}], "invalidValue"),
    ([{"op": "replace", "path": "userName", "value": "b"}], "mutability"),
    ([{"op": "add", "path": "groups", "value": []}], "mutability"),
    ([{"op": "add", "path": "a[b", "value": 1}], "invalidPath"),
]
NO_REQUESTS: list[tuple[str, str, Any, str]] = [
    ("POST", "/Users", {"userName": 5}, "invalidValue"),
    ("POST", "/Users", {"userName": "e\nve"}, "invalidValue"),
    ("POST", "/Users", {"userName": "eve", "active": "perhaps"}, "invalidValue"),
    ("POST", "/Users", {"userName": "eve", "displayName": "\x1b[2J"}, "invalidValue"),
    ("POST", "/Users", [1], "invalidSyntax"),
    ("POST", "/Groups", {"displayName": "g", "members": [{"v": 1}]}, "invalidValue"),
    ("GET", "/Users?count=many", None, "invalidValue"),
    ("GET", "/Users?startIndex=--1", None, "invalidValue"),
    *(("PATCH", "/Users/bob", {"schemas": [PATCH], "Operations": each}, kind) for each, kind in NO_OPERATIONS),
]


@pytest.mark.each
@pytest.mark.parametrize(("method", "path", "body", "kind"), NO_REQUESTS)
async def test_what_is_no_request_of_scim_is_refused_and_changes_nothing(
    client: Client, method: str, path: str, body: Any, kind: str
) -> None:
    before = (await client.door.people.directory()).place
    status, said = await client.asks(method, path, body)
    assert (status, said["scimType"]) == (400, kind), said
    assert (await client.door.people.directory()).place == before
    assert (await client.door.browser().log_in("bob", PASSWORD)).status_code == 303


async def test_an_administrator_issues_the_token_of_a_service_account_on_its_page_and_no_other_one(
    client: Client,
) -> None:
    people, browser = client.door.people, client.door.browser()
    await browser.log_in("ada")
    for name, scope, issued in (
        ("okta", "scim", True),
        ("robot", "run", True),
        ("ada", "run", False),
        ("bob", "scim", False),
    ):
        before = len(await people.tokens(name))
        answer = await browser.send(f"/secrets/{name}", do="token", scope=scope, label="x", expires="30d")
        assert ("was issued" in answer.text, len(await people.tokens(name)) - before) == (issued, int(issued)), name
    bob = client.door.browser()
    await bob.log_in()
    assert "was issued" not in (await bob.send("/secrets/okta", do="token", scope="scim")).text
