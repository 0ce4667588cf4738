"""A stranger with a session of low rights attacks the pages: names, forms, filters, races, frames and caches."""

from __future__ import annotations

import asyncio
import random
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.effort import part, some
from tests.server.web.test_sight import ROUTES, asked, bank
from tests.server.web.visiting import Visiting

pytestmark = pytest.mark.usefixtures("own_key")

NAMES = (
    "%00",
    "@people",
    "@reads-2026-11",
    "..%2f..%2fetc",
    "%ff%fe",
    "'%20or%201=1--",
    "a" * 5_000,
    "x%0d%0ay",
    "{run}",
)
FILTERS = (
    "%00",
    "%ff%fe%ed%a0%80",
    "'%22%3E%3Cscript%3E",
    "9" * 400,
    "-1",
    "a.%00",
    "%F0%9F%92%A9" * 300,
    "a/%00",
    "NaN",
)
FIELDS = ("text", "tool", "agent", "risk", "mine", "status", "run", "after", "state", "from", "fork", "days", "since")
LISTS = ("/", "/runs", "/grants", "/audit", "/insights", "/policies?shadow=1&", "/channels", "/people")


async def test_a_name_that_nothing_has_leads_nowhere(tmp_path: Path) -> None:
    async with bank(f"sqlite:///{tmp_path / 'k.db'}", own=True) as at:
        for person in ("ada", "eve"):
            visit = at.as_(person)
            for name in part(NAMES):
                for path in (f"/requests/{name}", f"/requests/{name}/edit", f"/runs/{name}", f"/people/{name}"):
                    made = await visit.see(path)
                    assert made.status_code in (404, 429), (person, path)
                    assert "root:" not in made.text
                visit = at.as_(person)  # who misses too often is told to wait


async def test_a_filter_that_no_store_could_hold_finds_nothing(tmp_path: Path) -> None:
    async with bank(f"sqlite:///{tmp_path / 'k.db'}") as at:
        eve = at.as_("eve")
        cases = list(product(LISTS, FIELDS, FILTERS))
        for path, field, value in random.sample(cases, some(len(cases))):
            made = await eve.see(f"{path}{'' if '?' in path else '?'}{field}={value}")
            assert made.status_code in (200, 422), (path, field, value)
            assert "<script>" not in made.text.replace('<script src="', ""), (path, field, value)


async def test_a_form_that_is_not_of_this_session_says_nothing_for_it() -> None:
    async with bank() as at:
        ben, row = at.as_("ben"), at.request
        path = f"/requests/{row.id}/decide"
        mark = (await ben.fields("/grants"))["csrf_token"]
        words = {"digest": row.digest, "revision": "1", "verdict": "approve"}
        own = {"origin": "http://localhost"}
        eves = (await at.as_("eve").fields("/grants"))["csrf_token"]
        forged: list[dict[str, Any]] = [
            {"data": words},
            {"data": {**words, "csrf_token": eves}},
            {"data": {**words, "csrf_token": "\udcff".encode("utf-8", "surrogatepass")}},
            {"json": {**words, "csrf_token": mark}},
            {"files": {"csrf_token": ("x", mark.encode())}, "data": words},
            {"content": b"x" * 1_000, "headers": {"content-type": "multipart/form-data; boundary=b"}},
            {"data": {f"f{n}": "x" for n in range(500)} | {**words, "csrf_token": mark}},
        ]
        for one in forged:
            headers = {**own, **one.pop("headers", {})}
            made = await ben.client.post(path, headers=headers, **one)
            assert made.status_code in (400, 403), made.text
        for headers in (
            {"origin": "http://localhost.evil.example"},
            {"origin": "null"},
            {"sec-fetch-site": "same-site"},
        ):
            sent = await ben.client.post(path, headers=headers, data={**words, "csrf_token": mark})
            assert sent.status_code == 403, headers
        assert (await ben.see(f"{path}?csrf_token={mark}&verdict=approve&digest={row.digest}")).status_code == 405
        assert (await at.app.inbox.get(row.id)).state == "open"


async def test_of_two_tabs_one_decides_and_the_other_is_told() -> None:
    async with bank() as at:
        await at.app.people.add("bea", roles=["finance"], by="ada")
        bea = Visiting(at.app, await at.app.people.begin_session("bea", "password", lasts="1d"))
        ben, other, path = at.as_("ben"), at.as_("ben"), f"/requests/{at.request.id}"
        form, second = await ben.fields(path), await bea.fields(path)
        sent = [
            *(ben.send(f"{path}/decide", {**form, "verdict": "approve"}) for _ in range(3)),
            *(other.send(f"{path}/decide", {**form, "verdict": "reject"}) for _ in range(3)),
            *(bea.send(f"{path}/decide", {**second, "verdict": "reject"}) for _ in range(3)),
        ]
        made = await asyncio.gather(*sent)
        assert {answer.status_code for answer in made} == {303, 409}
        state = (await at.app.inbox.get(at.request.id)).state
        assert state in ("approve", "reject")
        grant = await ben.send(f"{path}/grant", {**form, "which": "0", "limit": "lasts", "lasts": "1h"})
        assert grant.status_code in (404, 409)
        assert await at.app.inbox.grants() == []


async def test_nobody_takes_the_rights_of_another() -> None:
    async with bank() as at:
        eve = at.as_("eve")
        mark = (await eve.fields("/grants"))["csrf_token"]
        [bens] = await at.app.people.tokens("ben")
        before = len(await at.app.people.entries())
        for path, form in (
            ("/people/eve", {"do": "revoke_token", "token": bens.id}),
            ("/people/ben", {"do": "revoke_token", "token": bens.id}),
            ("/people/eve", {"do": "give", "role": "finance"}),
            ("/people/eve", {"do": "join", "group": "finance"}),
            ("/people/ben", {"do": "delegate", "to": "eve", "until": "2999-12-31"}),
            ("/people/ben", {"do": "address", "channel": "mail", "address": "eve@example.com"}),
            ("/secrets/ben", {"do": "token", "scope": "decide"}),
            ("/secrets/eve", {"do": "link"}),
            ("/people", {"do": "give_group", "group": "all", "role": "finance"}),
        ):
            made = await eve.send(path, {"csrf_token": mark, **form})
            assert made.status_code == 403, (path, form)
        assert len(await at.app.people.entries()) == before


async def test_every_answer_is_kept_by_nobody_and_framed_by_nobody() -> None:
    async with bank() as at:
        eve = at.as_("eve")
        eve.served.end()
        found: set[int] = set()
        for route, (form, _statuses) in ROUTES.items():
            for visit in (eve, Visiting(at.app, "kt_0_0")):
                visit.served.end()
                made = await asked(visit, route, at.request, form)
                found.add(made.status_code)
                assert made.headers["cache-control"] == "no-store", route
                assert made.headers["x-frame-options"] == "DENY", route
                assert "frame-ancestors 'none'" in made.headers["content-security-policy"], route
        assert found >= {200, 303, 403, 404, 422}


async def test_after_a_logout_no_page_is_there_and_none_is_kept() -> None:
    async with bank() as at:
        eve = at.as_("eve")
        mark = (await eve.fields("/"))["csrf_token"]
        cookie = dict(eve.client.cookies)
        out = await eve.send("/logout", {"csrf_token": mark})
        assert out.headers["clear-site-data"] == '"cache"'
        again = at.as_("eve")
        again.client.cookies.update(cookie)
        for route, (form, _statuses) in ROUTES.items():
            if route.endswith(("webmanifest", "push.js")):
                continue
            made = await asked(again, route, at.request, {**form, "csrf_token": mark})
            assert (made.status_code, made.headers["location"].partition("?")[0]) == (303, "/login"), route


async def test_a_person_has_so_many_places_to_listen() -> None:
    async with bank() as at:
        eve = at.as_("eve")
        listening = [asyncio.ensure_future(eve.see("/live")) for _ in range(20)]
        await eve.listened(20)
        assert (await eve.see("/live")).status_code == 429
        eve.served.end()
        assert {made.status_code for made in await asyncio.gather(*listening)} == {200}
