"""The inbox and the request as pages: what stands on them, and what their forms record."""

from __future__ import annotations

import re
from typing import Any

import pytest

from keyturn import App, Ask, ExternalAgent, MemoryJournal
from keyturn.engine.run.log_cache import log_in
from keyturn.inbox.listing import first_page
from keyturn.inbox_screen.screen import filters_of
from keyturn.presenting.source import RequestSource
from keyturn.server.web.blocks import blocks_of
from tests.channels.telling import lost_after
from tests.server.office import HOSTILE, office, opened, peopled
from tests.server.web.visiting import Visiting
from tests.waiting import until


async def staffed(*names: str) -> tuple[App, dict[str, str], dict[str, str]]:
    app = App(office(), MemoryJournal())
    tokens = await peopled(app)
    return app, tokens, await opened(app, *names)


async def state_of(app: App, request: str) -> str:
    return (await app.inbox.get(request)).state


async def test_the_inbox_lists_what_waits_by_deadline() -> None:
    app, tokens, asked = await staffed("support", "ops", "ci")
    async with app:
        text = (await Visiting(app, tokens["ada"]).see("/")).text
        order = re.findall(r'data-id="([0-9a-f]+)"', text)
        assert order == [asked["ops"], asked["support"], asked["ci"]]
        assert 'Run <span class="theirs mono">delete_backups</span>' in text
        assert 'aria-current="page">Inbox' in text


async def test_an_empty_inbox_says_when_the_last_decision_was() -> None:
    app, tokens, asked = await staffed("notices")
    async with app:
        ada = Visiting(app, tokens["ada"])
        await ada.decide(asked["notices"], "approve")
        text = (await ada.see("/")).text
        assert "No pending requests." in text
        assert "by ada" in text


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("risk=high", {"ops", "ci"}),
        ("text=parcel", {"support"}),
        ("tool=refund", {"support"}),
        ("mine=1", {"support", "ci"}),
    ],
)
async def test_the_list_is_narrowed(query: str, wanted: set[str]) -> None:
    app, tokens, asked = await staffed("support", "ops", "ci")
    async with app:
        text = (await Visiting(app, tokens["ben"]).see(f"/?{query}")).text
        found = set(re.findall(r'class="row[^"]*" href="/requests/([0-9a-f]+)"', text))
        assert found == {asked[name] for name in wanted}


@pytest.mark.parametrize(
    ("agent", "verdict", "words", "state"),
    [
        ("notices", "approve", {}, "approve"),
        ("notices", "reject", {"message": "not now"}, "reject"),
        ("notices", "ask_back", {"message": "Which job?"}, "asked_back"),
        ("asker", "answer", {"output": "Bremen"}, "answer"),
        ("ops", "reject", {"note": "too old", "message": "keep them"}, "reject"),
    ],
)
async def test_a_form_records_what_was_pressed(agent: str, verdict: str, words: dict[str, str], state: str) -> None:
    app, tokens, asked = await staffed(agent)
    async with app:
        ada = Visiting(app, tokens["ada"])
        answer = await ada.decide(asked[agent], verdict, **words)
        assert (answer.status_code, answer.headers["location"]) == (303, f"/requests/{asked[agent]}")
        assert await state_of(app, asked[agent]) == state
        page = (await ada.see(f"/requests/{asked[agent]}")).text
        assert "data-actions" not in page


async def test_what_became_of_it_stands_with_its_lines() -> None:
    app, tokens, asked = await staffed("notices")
    async with app:
        ada = Visiting(app, tokens["ada"])
        await ada.decide(asked["notices"], "approve")

        async def ended() -> bool:
            return "sent to #ops" in (await ada.see(f"/requests/{asked['notices']}")).text

        await until(ended)
        text = (await ada.see(f"/requests/{asked['notices']}")).text
        assert re.findall(r'<li class="(\w+)"', text)[-2:] == ["started", "ended"]
        assert re.search(r'title="line \d+ of the log">.+<b>approved</b> <span class="theirs">ada</span></li>', text)
        assert '<h2>The result</h2><blockquote class="theirs">sent to #ops</blockquote>' in text


async def test_somebody_is_on_it_puts_it_off_and_takes_an_approval_back() -> None:
    app = App(office(), MemoryJournal())
    tokens = await peopled(app)
    asked = await opened(app, "notices", "support")
    await app.stop()  # nobody moves a run from here on
    app.embedded = False
    async with app:
        ada, ben = Visiting(app, tokens["ada"]), Visiting(app, tokens["ben"])
        name, page = asked["notices"], f"/requests/{asked['notices']}"
        await ada.decide(name, "take")
        assert "ada claimed it until" in (await ben.see(page)).text
        assert ">Release<" in (await ada.see(page)).text
        await ada.decide(name, "let_go")
        assert "claimed it" not in (await ben.see(page)).text
        await ben.decide(name, "snooze")
        assert name not in (await ben.see("/?mine=1")).text
        assert name in (await ada.see("/?mine=1")).text
        await ben.decide(name, "wake")
        assert name in (await ben.see("/?mine=1")).text
        await ada.decide(name, "approve")
        assert "Withdraw the approval" in (await ben.see(page)).text
        await ben.decide(name, "withdraw")
        assert await state_of(app, name) == "open"


async def test_two_people_are_counted_and_the_requester_is_kept_out() -> None:
    app, tokens, asked = await staffed("support")
    async with app:
        people = {name: Visiting(app, token) for name, token in tokens.items()}
        assert "You cannot decide it" in (await people["cyd"].see(f"/requests/{asked['support']}")).text
        refused = await people["cyd"].decide(
            asked["support"], "approve", digest=(await app.inbox.get(asked["support"])).digest
        )
        assert refused.status_code == 403
        await people["ada"].decide(asked["support"], "approve")
        text = (await people["ben"].see("/")).text
        assert "1 of 2 approvals" in text
        assert "You approved (1 of 2)." in (await people["ada"].see(f"/requests/{asked['support']}")).text
        await people["ben"].decide(asked["support"], "approve")
        assert await state_of(app, asked["support"]) == "approve"


async def test_who_comes_second_is_told_who_was_first() -> None:
    app, tokens, asked = await staffed("notices")
    async with app:
        ada, ben = Visiting(app, tokens["ada"]), Visiting(app, tokens["ben"])
        form = await ben.fields(f"/requests/{asked['notices']}")
        await ada.decide(asked["notices"], "reject")
        late = await ben.send(f"/requests/{asked['notices']}/decide", {**form, "verdict": "approve"})
        assert late.status_code == 409
        assert "Not recorded:" in late.text
        assert "ada already decided this, 0 s ago: rejected. Nothing ran." in late.text
        partial = await ben.send(
            f"/requests/{asked['notices']}/decide", {**form, "verdict": "approve"}, **{"hx-request": "true"}
        )
        assert (partial.status_code, "Not recorded:" in partial.text) == (200, True)


async def test_of_a_decision_whose_answer_was_lost_it_is_said_that_it_may_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app, tokens, asked = await staffed("notices")
    async with app:
        ada = Visiting(app, tokens["ada"])
        form = await ada.fields(f"/requests/{asked['notices']}")
        append = app.journal.append

        async def decided(run: str, expected: int, lines: Any, claim: Any = None, changes: Any = None) -> None:
            """Lose the answer of what people append; a worker's is under a claim, and would put the call in doubt."""
            await (append if claim else lost_after(append))(run, expected, lines, claim, changes)

        with monkeypatch.context() as patch:
            patch.setattr(app.journal, "append", decided)
            lost = await ada.send(f"/requests/{asked['notices']}/decide", {**form, "verdict": "approve"})
        shown = re.sub(r"<template.*?</template>", "", lost.text)  # which is for a script
        assert (lost.status_code, "Not recorded" in shown) == (503, False)
        assert "May have been recorded:" in lost.text
        assert await state_of(app, asked["notices"]) == "approve"


async def test_a_form_says_what_was_shown_and_whose_session_it_is() -> None:
    app, tokens, asked = await staffed("notices")
    async with app:
        ada, path = Visiting(app, tokens["ada"]), f"/requests/{asked['notices']}/decide"
        form = {**await ada.fields(f"/requests/{asked['notices']}"), "verdict": "approve"}
        others = (await Visiting(app, tokens["ben"]).fields("/"))["csrf_token"]
        cases: list[tuple[dict[str, str], int]] = [
            ({**form, "csrf_token": others}, 403),
            ({**form, "csrf_token": ""}, 403),
            ({key: value for key, value in form.items() if key != "csrf_token"}, 403),
            ({**form, "digest": ""}, 422),
            ({**form, "digest": "0" * 64}, 409),
            ({**form, "revision": "7"}, 409),
            ({**form, "verdict": "allow"}, 422),
        ]
        for sent, status in cases:
            assert (await ada.send(path, sent)).status_code == status, sent
        for headers in (
            {"origin": "http://evil.example"},
            {"origin": "null"},
            {"origin": "", "sec-fetch-site": "cross-site"},
        ):
            assert (await ada.client.post(path, data=form, headers=headers)).status_code == 403, headers
        assert await state_of(app, asked["notices"]) == "open"


async def test_reading_changes_nothing() -> None:
    app, tokens, asked = await staffed("notices")
    async with app:
        ada, name = Visiting(app, tokens["ada"]), asked["notices"]
        before = await app.journal.head((await app.inbox.get(name)).run)
        for path in ("", "/edit", "/grant", "/alike", "/decide", "/change"):
            for method in ("GET", "HEAD", "OPTIONS"):
                await ada.client.request(method, f"/requests/{name}{path}")
        assert await app.journal.head((await app.inbox.get(name)).run) == before


async def test_an_edit_is_drawn_before_it_is_approved() -> None:
    app, tokens, asked = await staffed("config", "notices")
    async with app:
        ada, name = Visiting(app, tokens["ada"]), asked["notices"]
        form = await ada.fields(f"/requests/{name}/edit")
        changed = {**form, "arg.channel": "#dev", "arg.text": "Short."}
        drawn = await ada.send(f"/requests/{name}/change", changed)
        assert "#dev" in drawn.text
        [mark] = re.findall(r'name="looked" value="([0-9a-f]{64})"', drawn.text)
        unseen = await ada.send(f"/requests/{name}/edit", changed)
        assert (unseen.status_code, await state_of(app, name)) == (409, "open")
        other = await ada.send(f"/requests/{name}/edit", {**changed, "arg.channel": "#all", "looked": mark})
        assert (other.status_code, await state_of(app, name)) == (409, "open")
        done = await ada.send(f"/requests/{name}/edit", {**changed, "looked": mark})
        assert done.status_code == 303
        run = (await app.inbox.get(name)).run
        assert (await app.result(run, 20)).final_output == "It is done."
        assert "sent to #dev" in (await ada.see(f"/requests/{name}")).text


async def test_an_edit_that_fits_no_schema_is_refused_where_it_is_typed() -> None:
    app, tokens, asked = await staffed("support")
    async with app:
        ada, name = Visiting(app, tokens["ada"]), asked["support"]
        form = await ada.fields(f"/requests/{name}/edit")
        drawn = await ada.send(f"/requests/{name}/change", {**form, "arg.amount": "many"})
        assert 'role="alert"' in drawn.text
        sent = await ada.send(f"/requests/{name}/edit", {**form, "arg.amount": "many"})
        assert (sent.status_code, await state_of(app, name)) == (422, "open")


@pytest.mark.each
@pytest.mark.parametrize(
    ("form", "status"),
    [
        ({"which": "0", "limit": "lasts", "lasts": "1h"}, 303),
        ({"which": "99"}, 422),
        ({"which": "own", "where": "[1]"}, 422),
        ({"which": "own", "where": '{"channel": "#dev"}'}, 422),
        ({"which": "own", "where": ""}, 422),
        ({"which": "own", "where": "{}"}, 422),
        ({"which": "0", "limit": "uses", "uses": ""}, 422),
        ({"which": "0", "limit": "uses", "uses": "run"}, 422),
        ({"which": "0", "limit": "uses", "uses": "3"}, 303),
        ({"which": "0", "scope": "all"}, 422),
        ({"which": "fields"}, 422),
        ({"which": "fields", "way.channel": "le"}, 422),
        ({"which": "fields", "way.channel": "eq", "value.channel": "#dev"}, 422),
        ({"which": "fields", "way.channel": "one_of", "value.channel": "#dev, #ops"}, 303),
    ],
)
async def test_a_grant_covers_what_was_shown(form: dict[str, str], status: int) -> None:
    app, tokens, asked = await staffed("notices")
    async with app:
        ada, name = Visiting(app, tokens["ada"]), asked["notices"]
        hidden = await ada.fields(f"/requests/{name}/grant")
        answer = await ada.send(f"/requests/{name}/grant", {**hidden, **form})
        assert answer.status_code == status, answer.text
        assert len(await app.inbox.grants()) == (status == 303)
        told = re.search(
            r"A grant was created: it covers .*, in this run only", (await ada.see(f"/requests/{name}")).text
        )
        assert (told is not None) == (status == 303)


async def test_requests_of_one_shape_are_decided_together() -> None:
    app, tokens, _asked = await staffed("notices", "notices", "ci")
    async with app:
        ada = Visiting(app, tokens["ada"], undo="60s")
        rows = [row for row in await app.inbox.list() if row.agent == "notices"]
        page = await ada.see(f"/requests/{rows[0].id}/alike")
        ticks = re.findall(r'name="(is\.[0-9a-f.]+)"', page.text)
        assert len(ticks) == 2
        form = {**await ada.fields(f"/requests/{rows[0].id}/alike"), "verdict": "approve", **dict.fromkeys(ticks, "on")}
        assert "2 of 2" in (await ada.send(f"/requests/{rows[0].id}/alike", form)).text
        for row in rows:
            decided = (await log_in(app.journal, row.run)).run.decided[row.call]
            assert (decided.by, decided.undo_ms) == ("ada", 60_000), "as an approval on the page of a request"
        assert [row.agent for row in await app.inbox.list()] == ["ci"]


@pytest.mark.each
@pytest.mark.parametrize("part", ["grant", "alike"])
async def test_an_approval_of_a_high_risk_is_held_wherever_it_is_given(part: str) -> None:
    app, tokens, asked = await staffed("ops", "notices")
    async with app:
        ada = Visiting(app, tokens["ada"])
        held = ["data-hold" in (await ada.see(f"/requests/{asked[name]}/{part}")).text for name in ("ops", "notices")]
        assert held == [True, False]


async def test_nobody_sees_anything_before_they_log_in() -> None:
    app, _tokens, asked = await staffed("notices")
    async with app:
        stranger = Visiting(app, "kt_000000000000_" + "0" * 48)
        for path in ("/", f"/requests/{asked['notices']}", "/live"):
            answer = await stranger.see(path)
            assert answer.status_code == 303
            assert answer.headers["location"].startswith(
                "/login?next=%2F" if "%2F" in answer.headers["location"] else "/login?next=/"
            )
        assert (await stranger.see("/", **{"hx-request": "true"})).status_code == 401


async def test_hostile_text_stays_text_everywhere() -> None:
    app, tokens, asked = await staffed("stranger")
    async with app:
        ada, name = Visiting(app, tokens["ada"]), asked["stranger"]
        for path in (
            "/",
            f"/requests/{name}",
            f"/requests/{name}/edit",
            f"/requests/{name}/grant",
            f"/requests/{name}/alike",
        ):
            text = (await ada.see(path)).text
            assert "<script>alert" not in text, path
            assert "<img" not in text, path
            if not path.endswith("/edit"):  # a field holds the very characters that are sent back
                assert "\u202e" not in text, path
            assert HOSTILE not in text


async def test_pages_are_served_below_a_prefix() -> None:
    import httpx2
    from starlette.applications import Starlette
    from starlette.routing import Mount

    from keyturn.server.asgi import serve
    from keyturn.server.visitor import COOKIE

    app, tokens, asked = await staffed("notices")
    async with app:
        outer = Starlette(routes=[Mount("/desk/keys", app=serve(app))])
        client = httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app=outer), base_url="http://localhost", cookies={COOKIE: tokens["ada"]}
        )
        text = (await client.get("/desk/keys/")).text
        paths: list[str] = re.findall(r'(?:href|src|action|hx-post|hx-get)="([^"#]+)"', text)
        assert all(path.startswith("/desk/keys/") for path in paths), paths
        assert (await client.get(next(path for path in paths if path.endswith(".css")))).status_code == 200
        assert (await client.get(f"/desk/keys/requests/{asked['notices']}")).status_code == 200


def test_a_diff_has_both_sides_and_marks_the_words_that_changed() -> None:
    from keyturn.core.preview import Diff, Preview

    [block] = blocks_of(Preview((Diff("a = 1\nb\n", "a = 2\nb\nc\n", path="x"),)), None)
    drawn: list[Any] = [
        (pair.before and (pair.before.number, pair.before.sign), pair.after and (pair.after.number, pair.after.sign))
        for pair in block.pairs
    ]
    assert drawn == [((1, "removed"), (1, "added")), ((2, "same"), (2, "same")), (None, (3, "added"))]
    first = block.pairs[0]
    assert first.after is not None
    assert [str(text) for marked, text in first.after.pieces if marked] == ["2"]


def test_a_diff_that_is_made_to_be_slow_marks_the_words_of_its_first_lines_alone() -> None:
    """A second for each of its lines: a model that wrote two thousand had every page of the server wait for hours."""
    from keyturn.core.preview import Diff, Preview

    rows = [("-" * (200 + n % 9), "-+" * 100) for n in range(200)]
    old, new = ("\n".join(side) for side in zip(*rows, strict=True))
    [block] = blocks_of(Preview((Diff(f"a = 1\nb\n{old}", f"a = 2\nb\n{new}"),)), None)
    marked = [pair.before is not None and len(pair.before.pieces) > 1 for pair in block.pairs]
    assert (marked[0], sum(marked)) == (True, 5)
    assert {str(text) for pair in block.pairs[2:] for _, text in (pair.after.pieces if pair.after else ())} >= {
        "-+" * 100
    }


async def test_a_list_is_grouped_and_filtered_by_where_its_requests_come_from() -> None:
    """On the pages, in the API and in the terminal by the same rule; what was stated is shown as text."""
    app = App([*office(), ExternalAgent()], MemoryJournal())
    tokens = await peopled(app)
    async with app:
        mine = await opened(app, "support")
        asked: dict[str, str] = {}
        for key, host in (("a1", "build-7"), ("a2", "BUILD-7"), ("b1", '"><script>x')):
            context = {"framework": "Claude Code", "host": host, "folder": f"/srv/{key * 200}"}
            state = await app.asks.ask(Ask(key=key, tool="Bash", context=context), account="ci")
            asked[key] = (await app.asks.screened(state.id, 30, account="ci")).request
        ada = Visiting(app, tokens["ada"])

        async def seen(query: str) -> list[str]:
            return re.findall(r'data-id="([0-9a-f]+)"', (await ada.see(f"/?{query}")).text)

        text = (await ada.see("/?group=host")).text
        headings = re.findall(r'<li class="group"><h2 class="quiet pad">(.*?) <span class="n">(\d)</span>', text)
        assert [count for _, count in headings] == ["1", "2", "1"]
        assert [re.sub("<[^>]+>", "", words) for words, _ in headings] == [
            "no machine stated", "build-7", "&#34;&gt;&lt;script&gt;x",
        ]  # fmt: skip
        assert 'href="/?host=build-7"' in text
        assert "<script>x" not in text
        assert await seen("group=host") == [mine["support"], asked["a1"], asked["a2"], asked["b1"]]
        assert await seen("host=BUILD-7&framework=Claude+Code") == [asked["a1"], asked["a2"]]
        assert await seen(f"folder=/srv/{'a2' * 200}") == [asked["a2"]]
        assert await seen("host=build") == await seen("session=s1") == []
        assert "machine <b>build-7</b>" in (await ada.see("/?host=build-7")).text

        page = (await ada.client.get("/v1/requests", params={"group": "host", "framework": "claude code"})).json()
        assert page["groups"] == [
            {"source": "build-7", "requests": [asked["a1"], asked["a2"]]},
            {"source": '"><script>x', "requests": [asked["b1"]]},
        ]
        assert [each["id"] for each in page["requests"]] == [asked[key] for key in ("a1", "a2", "b1")]
        assert "groups" not in (await ada.client.get("/v1/requests")).json()
        for wrong in ({"group": "agent"}, {"host": ""}, {"folder": "x" * 1_001}):
            assert (await ada.client.get("/v1/requests", params=wrong)).status_code == 422
        rows = await app.inbox.list(source=RequestSource(host="build-7"))
        assert [row.id for row in rows] == [asked["a1"], asked["a2"]]
        found = await first_page(app.inbox.list, filters_of('host:build-7 framework:"Claude Code"'))
        assert [row.id for row in found.rows] == [asked["a1"], asked["a2"]]
