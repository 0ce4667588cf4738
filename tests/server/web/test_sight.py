"""Who sees what on the pages, route by route: a new route without a row here fails.

E2 and G1 of the catalogue on the pages: what somebody does not see is, to them, not there.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest

from keyturn import Agent, App, Approval, Grant, MemoryJournal, function_tool
from keyturn.models.base import ModelRequest
from keyturn.models.scripted.model import ScriptedModel, function_call, tool_outputs
from keyturn.server import streams
from keyturn.server.web.routes import router
from tests.server.web.visiting import Visiting
from tests.steps import Calls

pytestmark = pytest.mark.usefixtures("own_key")

#: The visitors of the table: in this order stand the statuses of each row.
VISITORS = ("ada", "ben", "cyd", "eve", "eve sees own", "bot", "no scope")
SEEN = (200, 200, 200, 200, 404, 200, 403)
TOLD = (422, 422, 422, 422, 404, 422, 403)
WHOLE = (200, 200, 200, 200, 403, 200, 403)
FORMS = (403, 422, 403, 403, 404, 403, 403)
JUDGED = (403, 200, 403, 403, 404, 403, 403)
ADMIN = (303, 403, 403, 403, 403, 403, 403)
STEERS = (403, 403, 303, 403, 404, 403, 403)
ALL = (200, 200, 200, 200, 200, 200, 200)
LISTS = (200, 200, 200, 200, 200, 200, 403)

Row = tuple[dict[str, str], tuple[int, ...]]
ROUTES: dict[str, Row] = {
    "GET /": ({}, LISTS),
    "GET /live": ({}, LISTS),
    "GET /requests/{name}": ({}, SEEN),
    "GET /rows": ({}, LISTS),
    "GET /requests/{name}/edit": ({}, JUDGED),
    "GET /requests/{name}/grant": ({}, JUDGED),
    "GET /requests/{name}/alike": ({}, SEEN),
    "POST /requests/{name}/change": ({}, JUDGED),
    "POST /requests/{name}/covers": ({}, JUDGED),
    "POST /requests/{name}/edit": ({}, FORMS),
    "POST /requests/{name}/grant": ({"which": "99"}, FORMS),
    "POST /requests/{name}/alike": ({"verdict": "approve"}, TOLD),
    "POST /requests/{name}/looked": ({}, (403, 200, 403, 403, 404, 403, 403)),
    "POST /requests/{name}/decide": ({"verdict": "take"}, (403, 303, 403, 403, 404, 403, 403)),
    "GET /runs": ({}, LISTS),
    "GET /runs/{name}": ({}, SEEN),
    "POST /runs/{name}/message": ({"text": "hurry"}, STEERS),
    "POST /runs/{name}/fork": ({"line": "1"}, STEERS),
    "POST /runs/{name}/resume": ({}, STEERS),
    "GET /grants": ({}, LISTS),
    "POST /grants/revoke": ({"grant": "none"}, (404, 404, 404, 404, 404, 403, 403)),
    "GET /agents": ({}, WHOLE),
    "GET /policies": ({}, WHOLE),
    "POST /policies/replay": ({"toml": 'default = "ask"', "since": ""}, (200, *ADMIN[1:])),
    "GET /insights": ({}, WHOLE),
    "GET /audit": ({}, WHOLE),
    "POST /audit/verify": ({}, WHOLE),
    "POST /audit/filters": ({"name": "mine", "person": "ada"}, (303, 303, 303, 303, 403, 403, 403)),
    "POST /audit/export": ({"format": "csv"}, WHOLE),
    "GET /people": ({}, LISTS),
    "POST /people": ({"do": "add", "id": "zoe"}, ADMIN),
    "GET /people/{name:path}": ({}, LISTS),
    "POST /people/{name:path}": ({"do": "give", "role": "chief", "new": "yes"}, ADMIN),
    "POST /secrets/{name:path}": ({"do": "link"}, (200, *ADMIN[1:])),
    "GET /channels": ({}, WHOLE),
    "POST /channels/again": ({"number": "1"}, ADMIN),
    "GET /settings": ({}, (200, *ADMIN[1:])),
    "POST /settings": ({"do": "forget", "setting": "x"}, ADMIN),
    "GET /connect": ({}, LISTS),
    "POST /connect": ({"account": "laptop"}, (200, *ADMIN[1:])),
    "POST /connect/test": ({"do": "send"}, (422, *ADMIN[1:])),
    "GET /_components": ({}, (404, 404, 404, 404, 404, 404, 403)),
    "GET /manifest.webmanifest": ({}, ALL),
    "GET /push.js": ({}, ALL),
    "POST /runs/{name}/cancel": ({}, (303, 303, 303, 303, 404, 403, 403)),  # the last: it ends what is shown above
}


@function_tool(needs_approval=True, approval=Approval(role="finance"))
def wire(to: str, amount: int) -> str:
    """Wire money."""
    return f"wired {amount} to {to}"


def _says(request: ModelRequest) -> Any:
    return "Done." if tool_outputs(request) else [function_call("wire", {"to": "ann-of-cyd", "amount": 5})]


class Bank(NamedTuple):
    """Holds an app in which one request waits, that runs for cyd and that finance decides."""

    app: App
    tokens: dict[str, str]
    request: Any

    def as_(self, person: str) -> Visiting:
        return Visiting(self.app, self.tokens[person], program=person in ("bot", "no scope"))


async def _peopled(app: App) -> dict[str, str]:
    people = app.people
    await people.start("ada")
    for name, roles in {"ben": ["finance"], "cyd": [], "eve": []}.items():
        await people.add(name, roles=roles, by="ada")
    await people.add("bot", kind="machine", by="ada")
    tokens = {name: await people.begin_session(name, "password", lasts="1d") for name in ("ada", "ben", "cyd", "eve")}
    tokens["bot"] = await people.issue_token("bot", ["run", "read"], by="ada")
    tokens["no scope"] = await people.issue_token("ada", ["people"], by="ada")
    return tokens


@asynccontextmanager
async def bank(journal: Any = None, *, own: bool = False, reads: bool = False) -> AsyncGenerator[Bank]:
    """Open a bank."""
    app = App([Agent("teller", model=ScriptedModel(_says), tools=[wire])], journal or MemoryJournal())
    async with app:
        tokens = await _peopled(app)
        if own:
            await app.people.set("visible", "own", by="ada")
        if reads:
            await app.people.set("record_reads", True, by="ada")
        yield Bank(app, tokens, await waiting(app))


async def waiting(app: App, requester: str = "cyd") -> Any:
    run = await app.start("teller", "Pay ann.", requester=requester)
    await app.wait(run.id, 20)
    [row] = await app.inbox.list(run=run.id)
    return row


def routes_of(given: Any) -> Iterator[str]:
    for each in given.routes:
        inner = getattr(each, "original_router", None)
        if inner is not None:
            yield from routes_of(inner)
        else:
            yield from (f"{method} {each.path}" for method in each.methods - {"HEAD"})


def test_each_route_is_in_the_table() -> None:
    assert sorted(routes_of(router)) == sorted(ROUTES)


async def asked(visit: Visiting, route: str, request: Any, form: dict[str, str], **about: str) -> Any:
    """Ask for a route as a page of this visitor does."""
    method, _, path = route.partition(" ")
    of = {"requests": request.id, "runs": request.run, "people": "ben", "secrets": "ben"} | about
    kind = path.split("/")[1]
    path = re.sub(r"\{name(:path)?\}", of.get(kind, ""), path)
    if method == "GET":
        return await visit.see(path)
    mark = (await visit.fields("/grants")).get("csrf_token", "")
    words = {"csrf_token": mark, "digest": request.digest, "revision": "1", "run": of["runs"], **form}
    return await visit.send(path, words)


@pytest.mark.parametrize("column", range(len(VISITORS)), ids=VISITORS)
async def test_a_route_opens_to_whom_it_concerns(column: int) -> None:
    who = VISITORS[column]
    async with bank(own=who.endswith("own")) as at:
        visit = at.as_(who.removesuffix(" sees own"))
        visit.served.end()  # so that the live stream has an end
        head = await at.app.journal.head(at.request.run)
        for route, (form, statuses) in ROUTES.items():
            made = await asked(visit, route, at.request, form)
            assert made.status_code == statuses[column], (who, route, made.text[-2_000:])
            if who not in ("ada", "ben", "cyd", "eve"):
                assert "ann-of-cyd" not in made.text or who == "bot", route
        if who in ("eve sees own", "bot", "no scope"):
            assert await at.app.journal.head(at.request.run) == head


def told(made: Any, *names: str) -> tuple[int, str]:
    text = made.text
    for name in names:
        text = text.replace(name, "NAME")
    return made.status_code, text


ABOUT = [route for route in ROUTES if route.split("/")[1] in ("requests", "runs") and "{" in route]


async def test_what_is_not_yours_is_not_there_in_the_same_words() -> None:
    async with bank(own=True) as at:
        eve, none = at.as_("eve"), "0" * 32
        for route in [*ABOUT, "POST /grants/revoke"]:
            form = ROUTES[route][0]
            hidden = await asked(eve, route, at.request, form)
            unknown = await asked(eve, route, at.request, form, requests=none, runs=none)
            assert told(hidden, at.request.id, at.request.run) == told(unknown, none), route
            assert hidden.status_code == 404, route
        hidden, unknown = [await at.as_("eve").first_event(f"/live?run={run}") for run in (at.request.run, none)]
        assert hidden == unknown


async def test_what_is_not_yours_is_not_there_in_the_same_time() -> None:
    """Counted in calls: a judgement of what is hidden is a small part of a page."""
    async with bank(own=True) as at:
        eve, none = at.as_("eve"), "0" * 32
        for path in (f"/requests/{at.request.id}", f"/runs/{at.request.run}"):
            fewest: list[int] = []
            for name in (path, path.rpartition("/")[0] + "/" + none):
                counts: list[int] = []
                for _ in range(3):
                    with Calls() as counted:
                        await eve.see(name)
                    counts.append(counted.count)
                fewest.append(min(counts))
            assert abs(fewest[0] - fewest[1]) < 0.1 * min(fewest), (path, fewest)


async def test_another_tenants_requests_are_not_there() -> None:
    whole = MemoryJournal()
    async with bank(whole.of("one")) as one, bank(whole.of("other")) as other:
        ada, none = other.as_("ada"), "0" * 32
        for route in ABOUT:
            form = ROUTES[route][0]
            there = await asked(ada, route, one.request, form)
            unknown = await asked(ada, route, one.request, form, requests=none, runs=none)
            assert told(there, one.request.id, one.request.run) == told(unknown, none), route
        assert (await one.app.inbox.get(one.request.id)).state == "open"
        assert (await Visiting(other.app, one.tokens["ada"]).see("/")).status_code == 303


async def test_lists_have_what_concerns_their_reader_and_no_more() -> None:
    async with bank(own=True) as at:
        second = await waiting(at.app, "eve")
        grant = await at.app.inbox.approve(second, by=await at.app.people.login(at.tokens["ben"]), grant=Grant())
        assert grant.state == "approve"
        for person, sees in {"eve": False, "cyd": True, "ben": True, "ada": True}.items():
            visit = at.as_(person)
            for path, name in (("/", at.request.id), ("/?text=ann", at.request.id), ("/runs", at.request.run)):
                assert (name in (await visit.see(path)).text) == sees, (person, path)
            assert (second.run in (await visit.see("/runs")).text) == (person != "cyd"), person
            assert (second.run in (await visit.see("/grants")).text) == (person != "cyd"), person
        empty = (await at.as_("eve").see("/")).text
        assert "No pending requests." in empty
        assert f"/requests/{second.id}" in empty  # the last decision that she may know of
        assert second.id not in (await at.as_("cyd").see("/?tool=none")).text
        for path in ("/agents", "/policies", "/insights", "/audit", "/channels", "/settings"):
            assert f'href="{path}"' not in empty, path


async def test_a_page_that_shows_arguments_says_first_who_reads_them() -> None:
    async with bank(reads=True) as at:
        for person, path in {
            "ada": "/",
            "ben": f"/requests/{at.request.id}",
            "cyd": f"/runs/{at.request.run}",
            "eve": "/audit?text=ann",
        }.items():
            assert (await at.as_(person).see(path)).status_code == 200
        found = {(each.by.id, each.how) for each in await at.app.audit.reads() if each.by is not None}
        assert found == {("ada", "list"), ("ben", "request"), ("cyd", "log"), ("eve", "search")}
        for route in (route for route in ABOUT if route.startswith("GET /requests")):
            request = await waiting(at.app)
            await asked(at.as_("eve"), route, request, {})
            [read] = await at.app.audit.reads(person="eve", request=request.id)
            assert read.how == "request", route
        exported = await asked(at.as_("ben"), "POST /audit/export", at.request, {"format": "csv"})
        assert exported.status_code == 200
        replayed = await asked(at.as_("ada"), "POST /policies/replay", at.request, {"toml": 'default = "ask"'})
        assert replayed.status_code == 200
        last = {(each.by.id, each.how) for each in await at.app.audit.reads() if each.by is not None}
        assert last >= {("ben", "export"), ("ada", "search")}


async def test_what_is_live_is_what_its_reader_sees_and_nobody_reads_by_it() -> None:
    async with bank(own=True, reads=True) as at:
        for person, count in {"eve": 0, "cyd": 1, "ben": 1, "ada": 1}.items():
            first = await at.as_(person).first_event(f"/live?run={at.request.run}")
            assert f'"count": {count}' in first, person
            assert ('"head": 0' in first) == (count == 0), person
            assert (at.request.id in first) == (count == 1), person
        assert await at.app.audit.reads() == []


async def test_what_is_live_ends_with_its_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_AT_ONCE", 0)  # a look is not shared, however fast the events come
    async with bank() as at:
        visit = at.as_("eve")
        listening = asyncio.ensure_future(visit.see("/live"))
        await visit.listened()
        [session] = await at.app.people.tokens("eve")
        await at.app.people.revoke_token(session.id, by="ada")
        second = await waiting(at.app)
        made = await asyncio.wait_for(listening, 10)
        assert second.id not in made.text
