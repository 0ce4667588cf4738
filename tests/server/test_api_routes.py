"""Every route of the API, with the scopes that open it: a new route without a row here fails.

G3 of the catalogue: nothing changes by a GET, a HEAD or an OPTIONS, however often, whoever sends it.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from keyturn.server.api.v1 import table
from tests.effort import AT_LENGTH
from tests.server.programs import Program, program
from tests.table import each

ALL = frozenset({"read", "decide", "people", "run", "ask"})
ASK = frozenset({"ask"})
READ, DECIDE, PEOPLE, RUN = frozenset({"read"}), frozenset({"decide"}), frozenset({"people"}), frozenset({"run"})

SCOPES: dict[str, frozenset[str]] = {
    "GET /health/live": frozenset(),
    "GET /health/ready": frozenset(),
    "GET /metrics": READ,
    "GET /runs": READ,
    "POST /runs": RUN,
    "GET /runs/{run}": READ | RUN,
    "GET /runs/{run}/result": READ | RUN,
    "GET /runs/{run}/story": READ,
    "GET /runs/{run}/events": READ,
    "POST /runs/{run}/send": RUN,
    "POST /runs/{run}/cancel": RUN | DECIDE,
    "POST /runs/{run}/fork": RUN,
    "POST /runs/{run}/resume": RUN,
    "GET /requests": READ,
    "GET /requests/stream": READ,
    "GET /requests/{request}": READ | DECIDE,
    "GET /requests/{request}/detail": READ,
    "GET /requests/{request}/form": READ | DECIDE,
    "GET /requests/{request}/alike": READ,
    "POST /requests/{request}/look": DECIDE,
    "POST /requests/{request}/review": DECIDE,
    "POST /requests/{request}/take": DECIDE,
    "POST /requests/{request}/let_go": DECIDE,
    "POST /requests/{request}/snooze": DECIDE,
    "POST /requests/{request}/wake": DECIDE,
    "POST /requests/{request}/approve": DECIDE,
    "POST /requests/{request}/reject": DECIDE,
    "POST /requests/{request}/ask_back": DECIDE,
    "POST /requests/{request}/answer": DECIDE,
    "POST /requests/{request}/resolve": DECIDE,
    "POST /requests/{request}/withdraw": DECIDE,
    "POST /requests/{request}/preview_edit": DECIDE,
    "POST /requests/{request}/to_sign": DECIDE,
    "POST /approve_all": DECIDE,
    "POST /reject_all": DECIDE,
    "POST /asks": ASK,
    "GET /asks/{ask}": ASK,
    "POST /asks/{ask}/claim": ASK,
    "POST /asks/{ask}/hold": ASK,
    "POST /asks/{ask}/outcome": ASK,
    "POST /asks/{ask}/withdraw": ASK,
    "POST /agui/{agent}": RUN | DECIDE,
    "GET /agui/{agent}/capabilities": RUN,
    "GET /grants": READ,
    "POST /runs/{run}/grants/{grant}/revoke": DECIDE,
    "GET /me": ALL,
    "GET /people": READ | PEOPLE,
    "GET /people/log": PEOPLE,
    "GET /tokens": PEOPLE,
    "GET /keys": READ | PEOPLE,
    "GET /delegations": READ | PEOPLE,
    "GET /settings": PEOPLE,
    "POST /people/add": PEOPLE,
    "POST /people/remove": PEOPLE,
    "POST /people/forget_subject": PEOPLE,
    "POST /people/give_role": PEOPLE,
    "POST /people/take_role": PEOPLE,
    "POST /people/join": PEOPLE,
    "POST /people/leave": PEOPLE,
    "POST /people/delegate": PEOPLE,
    "POST /people/end_delegation": PEOPLE,
    "POST /people/issue_token": PEOPLE,
    "POST /people/revoke_token": PEOPLE,
    "POST /people/make_link": PEOPLE,
    "POST /people/set_address": PEOPLE,
    "POST /people/confirm_address": PEOPLE,
    "POST /people/mute": PEOPLE,
    "POST /people/set": PEOPLE,
    "POST /people/key_to_sign": PEOPLE,
    "POST /people/enrol_key": PEOPLE,
    "POST /people/to_confirm": PEOPLE,
    "POST /people/confirm_key": PEOPLE,
    "POST /people/revoke_key": PEOPLE,
    "GET /audit/reads": READ,
    "GET /policies": READ,
    "GET /policies/shadow": READ,
    "POST /policies/replay": READ,
    "GET /audit": READ,
    "GET /audit/verify": READ,
    "POST /audit/export": READ,
    "GET /insights": READ,
    "GET /insights/suggestions": READ,
}


def test_each_route_is_in_the_table() -> None:
    assert {f"{route.method} {route.path}": frozenset(route.scopes) for route in table()} == SCOPES


def filled(route: str, asked: dict[str, Any]) -> tuple[str, str]:
    method, _, path = route.partition(" ")
    for name, value in {
        "run": asked["run"],
        "request": asked["id"],
        "grant": "g1",
        "ask": "a1",
        "agent": "desk",
    }.items():
        path = path.replace("{" + name + "}", value)
    return method, path


async def test_a_route_opens_to_its_scopes_and_to_nobody_without_a_token() -> None:
    async with program() as at:
        asked = await at.waiting()
        for route, scopes in SCOPES.items():
            method, path = filled(route, asked)
            if path.endswith(("/stream", "/events")):
                path = path + "?limit=0" if path.endswith("stream") else "/runs/none/events"
            for scope in ALL:
                made = await at.ask(method, path, f"only {scope}", json={} if method == "POST" else None)
                shut = made.status_code == 403 and "takes a token for" in made.text
                assert shut == bool(scopes and scope not in scopes), (route, scope, made.text)
            nobody = await at.ask(method, path, "", json={} if method == "POST" else None)
            assert nobody.status_code == (401 if scopes else 200), (route, nobody.text)


READS = [route.partition(" ")[2] for route in SCOPES if route.startswith("GET ")]
CRAWLERS = ["Mozilla/5.0 (compatible; Bingbot/2.0)", "SafeLinks/1.0", "curl/8.5", "facebookexternalhit/1.1"]


async def state_of(at: Program) -> str:
    journal: Any = at.app.journal
    runs = {row.run: await journal.head(row.run) for row in await journal.runs()}
    place = (await at.app.people.directory()).place
    rows = [row.body + row.state for row in await journal.requests()]
    return json.dumps([runs, place, rows, len(await journal.outbox(1_000))])


@pytest.mark.sweep
async def test_many_reads_of_any_kind_change_nothing() -> None:
    async with program() as at:
        asked = await at.waiting()
        before = await state_of(at)
        paths = [path for path in READS if not path.endswith(("/stream", "/events"))]
        paths += [route.partition(" ")[2] for route in SCOPES if route.startswith("POST ")]
        sent = 0
        while sent < (1_000 if AT_LENGTH else 60):
            for path in paths:
                method = ("GET", "HEAD", "OPTIONS")[sent % 3]
                agent = {"user-agent": CRAWLERS[sent % len(CRAWLERS)], "purpose": "prefetch"}
                _, path = filled(f"GET {path}", asked)
                made = await at.ask(method, path, ("ada", "bot", "")[sent % 2], headers=agent)
                assert made.status_code < 500, (method, path, made.text)
                sent += 1
        assert await state_of(at) == before


@each("path", ["/runs/..%2f..%2fetc/events", "/requests/%00", "/requests/" + "a" * 5_000, "/x/../me"])
async def test_paths_that_lead_elsewhere_lead_nowhere(path: str) -> None:
    async with program() as at:
        made = await at.ask("GET", path)
        assert made.status_code in (404, 422) or path.endswith("/me")
        assert "etc" not in made.text


UNKNOWN = [
    *("/v1/nope", "/v1/", "/v1//me", "/v1/requests/a/b/c", "/v1/me/", "/nope", "/requests/a/b/c/d", "/static/nope"),
    *("/v1nope", "/v1%00"),
]


@each("path", UNKNOWN)
async def test_a_path_that_there_is_not_is_refused_in_the_form_of_every_refusal(path: str) -> None:
    async with program() as at:
        for method, who in (("GET", "ada"), ("POST", "ada"), ("DELETE", "ada"), ("GET", "")):
            shown = {"authorization": f"Bearer {at.tokens[who]}"} if who else {}
            made = await at.http.request(method, path, headers=shown)
            assert made.status_code in (404, 405), (method, path, made.text)
            assert set(made.json()) == {"error"}, (method, path)
            assert set(made.json()["error"]) >= {"kind", "message"}
