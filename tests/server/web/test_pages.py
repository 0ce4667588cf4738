"""The pages beside the inbox, without a browser: what they show, who may change what, and what a wrong form does."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import pytest_asyncio

from keyturn import Agent, App, Approval, Grant, MemoryJournal, function_tool
from keyturn.core.commands import Tick
from keyturn.directory.login import Login
from keyturn.journal.rows import ALL, DeliveryQuery, Query
from keyturn.models.scripted.model import ScriptedModel, function_call
from keyturn.server.web import pages
from tests.server.busy import SECRET, busy_app, lived_in
from tests.server.office import HOSTILE, Clock, peopled
from tests.server.web.visiting import Visiting
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("own_key")

STATIC = Path(pages.__file__).with_name("static")
PAGES = (
    *("/runs", "/grants", "/agents", "/policies", "/insights", "/audit"),
    *("/people", "/channels", "/settings", "/connect"),
)


class Office(NamedTuple):
    """Holds the app of a busy office, its people's tokens, and its runs by agent."""

    app: App
    tokens: dict[str, str]
    runs: dict[str, str]

    def as_(self, person: str, **settings: Any) -> Visiting:
        return Visiting(self.app, self.tokens[person], **settings)


@pytest_asyncio.fixture
async def office() -> AsyncGenerator[Office]:
    """An office after a working day."""
    clock = Clock()
    app = busy_app(clock)
    async with app:
        tokens = await peopled(app)
        yield Office(app, tokens, await lived_in(app, clock))


async def posted(visit: Visiting, page: str, path: str, **form: Any) -> Any:
    """Send a form from a page of ours, with the mark that stands there."""
    mark = (await visit.fields(page))["csrf_token"]
    return await visit.send(path, {"csrf_token": mark, **form})


async def test_each_page_shows_what_there_is(office: Office) -> None:
    visit = office.as_("ada", development=True)
    for path in (*PAGES, *(f"/runs/{run}" for run in office.runs.values()), "/people/ben", "/_components"):
        answer = await visit.see(path)
        assert answer.status_code == 200, path
        assert "<script>alert" not in answer.text, path
        assert SECRET not in answer.text, path
        assert f'csrf_token" value="{office.tokens["ada"]}' not in answer.text


async def test_nobody_sees_a_page_without_a_login_or_a_token_good_for_reading(office: Office) -> None:
    stranger = Visiting(office.app, "kt_0_0")
    mute = await office.app.people.issue_token("ben", ["decide"], by="ada")
    visit = Visiting(office.app, mute, program=True)
    for path in (*PAGES, f"/runs/{office.runs['lead']}", "/people/ben"):
        sent = await stranger.see(path)
        assert sent.status_code == 303, path
        assert sent.headers["location"].startswith("/login?next="), path
        assert (await visit.see(path)).status_code == 403, path


@pytest.mark.trial
async def test_components_are_there_in_development_alone(office: Office) -> None:
    assert (await office.as_("ada").see("/_components")).status_code == 404


async def test_a_form_of_another_session_changes_nothing(office: Office) -> None:
    visit = office.as_("ada")
    run = office.runs["lead"]
    before = [len(await office.app.people.entries()), await office.app.journal.head(run)]
    forms = {
        f"/runs/{run}/cancel": {"why": "x"},
        f"/runs/{run}/message": {"text": "x"},
        f"/runs/{run}/resume": {},
        f"/runs/{run}/fork": {"line": "1"},
        "/grants/revoke": {"run": run, "grant": "x"},
        "/policies/replay": {"toml": 'default = "ask"'},
        "/audit/verify": {},
        "/audit/export": {"format": "csv"},
        "/people": {"do": "add", "id": "eve"},
        "/people/ben": {"do": "give", "role": "admin"},
        "/secrets/ben": {"do": "token", "scope": "read"},
        "/channels/again": {"which": "all"},
        "/settings": {"do": "min_look", "look_": "5s"},
        "/connect": {"account": "eve"},
        "/connect/test": {"do": "send"},
    }
    mark = (await office.as_("ben").fields("/runs"))["csrf_token"]
    for path, form in forms.items():
        for forged in ({}, {"csrf_token": mark}, {"csrf_token": "é"}):
            answer = await visit.send(path, {**form, **forged})
            assert answer.status_code == 403, (path, forged)
            assert "not of your session" in answer.text, path
    assert [len(await office.app.people.entries()), await office.app.journal.head(run)] == before


async def test_a_run_is_told_line_by_line_with_who_did_what(office: Office) -> None:
    text = (await office.as_("ben").see(f"/runs/{office.runs['lead']}")).text
    assert "requires approval" in text
    assert "parcel-tracker" in text
    assert 'class="open"' in text  # a nested agent branches off
    assert "lane 3" in text
    assert 'policy <span class="theirs">rule 5</span>' in text
    payer = (await office.as_("ben").see(f"/runs/{office.runs['payer']}?from=1")).text
    assert 'id="line-1"' in payer
    assert 'id="line-100"' in payer
    assert 'id="line-101"' not in payer
    assert "person" in payer
    assert "&lt;script&gt;" in payer


async def test_a_run_is_cancelled_told_and_forked(office: Office) -> None:
    visit = office.as_("cyd")
    lead = office.runs["lead"]
    page = f"/runs/{lead}"
    for what, form in {"message": {"text": "pay ben"}, "fork": {"line": "1"}, "resume": {}}.items():
        steered = await posted(office.as_("ben"), page, f"{page}/{what}", **form)
        assert (steered.status_code, "this run acts for" in steered.text) == (403, True), what
    assert (await posted(visit, page, f"{page}/message", text=HOSTILE)).status_code == 303
    assert "a message is added" in (await visit.see(page)).text
    for wrong in (" ", "x" * 20_001):
        assert (await posted(visit, page, f"{page}/message", text=wrong)).status_code == 422
    forked = await posted(visit, page, f"{page}/fork", line="2")
    assert forked.status_code == 303
    assert forked.headers["location"] != page
    assert "forked from" in (await visit.see(forked.headers["location"])).text
    assert (await posted(visit, page, f"{page}/fork", line="999999")).status_code == 422
    assert (await posted(visit, page, f"{page}/fork", line="-1")).status_code == 422
    assert (await posted(visit, page, f"{page}/cancel", why="enough")).status_code == 303
    assert (await office.app.get(lead)).status == "cancelled"
    gone = await visit.see(page)
    assert "is cancelled" in gone.text
    assert "Cancel this run" not in gone.text


async def test_who_may_not_decide_changes_no_run(office: Office) -> None:
    reads = await office.app.people.issue_token("cyd", ["read", "people"], by="ada")
    visit = Visiting(office.app, reads, program=True)
    page = f"/runs/{office.runs['lead']}"
    for what, form in {"cancel": {}, "message": {"text": "x"}, "fork": {"line": "1"}, "resume": {}}.items():
        answer = await posted(visit, page, f"{page}/{what}", **form)
        assert answer.status_code == 403, what
        assert "Nothing was changed" in answer.text, what
    assert (await office.app.get(office.runs["lead"])).status == "waiting"


async def test_a_run_of_another_tenant_is_unknown() -> None:
    whole = MemoryJournal()
    other = App([Agent("desk", model=ScriptedModel(["done"]))], whole.of("other"))
    async with other:
        run = await other.start("desk", "go")
        await run.wait()
        app = App([], whole.of("ours"), worker=False)
        visit = Visiting(app, (await peopled(app))["ada"])
        assert (await visit.see(f"/runs/{run.id}")).status_code == 404
        assert run.id[:8] not in (await visit.see("/runs")).text
        assert run.id[:8] not in (await visit.see("/audit")).text
        for what in ("cancel", "message", "fork", "resume"):
            assert (await posted(visit, "/runs?x", f"/runs/{run.id}/{what}", text="x", line="1")).status_code == 404


async def test_empty_pages_say_what_would_be_here() -> None:
    app = App([], MemoryJournal(), worker=False)
    visit = Visiting(app, (await peopled(app))["ada"])
    for path, words in {
        "/runs": "No runs yet",
        "/grants": "No grants",
        "/agents": "No agents",
        "/policies": "No policy is set",
        "/insights": "No decision was recorded in this period",
        "/audit": "No decision is recorded yet",
        "/channels": "No notification channel is configured",
        "/connect": "does not answer external callers",
    }.items():
        assert words in (await visit.see(path)).text, path


async def test_a_grant_is_revoked_on_its_page(office: Office) -> None:
    [row] = [each for each in await office.app.inbox.list() if each.agent == "notices"]
    await office.app.inbox.approve(row, by="ada", grant=Grant(scope="agent", where={"channel": HOSTILE}, uses=5))
    visit = office.as_("ben")
    text = (await visit.see("/grants")).text
    assert "every run of this agent" in text
    assert "0 of 5" in text
    assert "over with its run" in text
    [grant] = [each for each in await office.app.inbox.grants() if each.agent == "notices"]
    form = {"run": grant.run, "grant": grant.id}
    reads = Visiting(office.app, await office.app.people.issue_token("cyd", ["read"], by="ada"), program=True)
    assert (await posted(reads, "/grants", "/grants/revoke", **form)).status_code == 403
    assert (await posted(visit, "/grants", "/grants/revoke", run=grant.run, grant="none")).status_code == 404
    assert (await posted(visit, "/grants", "/grants/revoke", **form)).status_code == 303
    assert "send_notice" in (done := (await visit.see(f"/grants?state=revoked&done={grant.id}")).text)
    assert "was revoked.</b> The next call is decided as if there had been no grant." in done


async def test_tools_say_when_they_ask_and_which_rules_mean_them(office: Office) -> None:
    text = (await office.as_("cyd").see("/agents")).text
    assert "2 approvals from role &#34;finance&#34;, not the requester" in text
    assert "hides &#34;password&#34;" in text
    assert 'href="/policies#rule-3"' in text
    assert "lead/research" in text
    assert "agent &#34;researcher&#34; answers" in text


async def test_rules_are_shown_in_words_and_tried_on_past_calls(office: Office) -> None:
    visit = office.as_("ada")
    text = (await visit.see("/policies")).text
    assert "once the sum of &#34;amount&#34; is over 500 in 1 d, of all runs of the same requester" in text
    rules = '[[rules]]\naction = "deny"\ntool = "pay"\nwhere = { amount = { gt = 20 } }\n'
    head = await office.app.journal.head(office.runs["payer"])
    answer = await posted(visit, "/policies", "/policies/replay", toml=rules, since="")
    assert answer.status_code == 200
    assert "13 calls of" in answer.text
    assert "would have another verdict" in answer.text
    assert await office.app.journal.head(office.runs["payer"]) == head
    wrong = await posted(visit, "/policies", "/policies/replay", toml='default = "</textarea><script>alert(1)"')
    assert wrong.status_code == 422
    assert "<script>alert" not in wrong.text
    named = await posted(visit, "/policies", "/policies/replay", toml="/etc/secrets.toml")
    assert named.status_code == 422
    assert "paste the text" in named.text
    assert "No verdict of a policy in shadow mode" in (await visit.see("/policies?shadow=1")).text


async def test_insights_are_drawn_with_a_table_beside(office: Office) -> None:
    visit = office.as_("cyd")
    text = (await visit.see("/insights?days=7")).text
    assert text.count('<svg class="plot"') == 3
    assert text.count("<caption>") == 3
    assert "style=" not in text
    for days in ("x", "-1", "999999999999"):
        assert (await visit.see(f"/insights?days={days}")).status_code == 200
    assert "Suggested rules" in (await visit.see("/insights?suggest=1")).text


async def test_the_record_is_searched_verified_and_taken_along(office: Office) -> None:
    visit = office.as_("ben")
    text = (await visit.see("/audit?person=ada&tool=pay&verdict=reject")).text
    assert text.count("<tr>") == 2
    assert "#line-" in text
    first = (await visit.see("/audit")).text
    assert "after=" in first
    assert "requires approval" not in re.sub("<select.*?</select>", "", first, flags=re.S)
    assert "<b>policy: requires approval" in (await visit.see("/audit?view=lines")).text
    for query in ("verdict=what", "since=yesterday", "after=x.y", "view=lines&after=x"):
        assert (await visit.see(f"/audit?{query}")).status_code == 422, query
    verified = await posted(visit, "/audit", "/audit/verify")
    assert "No alteration was found" in verified.text
    table = await posted(visit, "/audit", "/audit/export", format="csv", tool="pay")
    assert table.status_code == 200
    assert table.text.startswith("run,line,at")
    assert SECRET not in table.text
    assert (await posted(visit, "/audit", "/audit/export", format="jsonl")).status_code == 403
    whole = await posted(office.as_("ada"), "/audit", "/audit/export", format="jsonl")
    assert whole.status_code == 200
    assert "attachment" in whole.headers["content-disposition"]
    assert SECRET not in whole.text
    assert (await posted(visit, "/audit", "/audit/export", format="agentack")).status_code == 422


async def test_who_approved_what_last_week_is_two_clicks_in_the_readers_zone(office: Office) -> None:
    """The audit log, and "Last week": days begin as the reader's clocks say, and the hint has UTC beside them."""
    visit = office.as_("ben")
    visit.client.cookies.set("keyturn_zone", "Asia%2FTokyo")
    links = dict(re.findall(r'<a href="\?([^"]*)#record"[^>]*>(Today|Last week)</a>', (await visit.see("/audit")).text))
    days = {name: html.unescape(query) for query, name in links.items()}
    assert days == {"Today": "since=2026-11-18&until=2026-11-18", "Last week": "since=2026-11-09&until=2026-11-15"}
    today = (await visit.see(f"/audit?{days['Today']}")).text
    assert re.search(r'title="2026-11-18 20:0\d:\d\d JST, 2026-11-18 11:0\d:\d\d UTC">2026-11-18 20:0', today)
    times = re.findall(r'<time datetime="([^"]*)"', today)
    assert len(times) == 25
    assert times == sorted(times, reverse=True)
    assert "No entry matches" in (await visit.see(f"/audit?{days['Last week']}")).text
    await office.app.people.set("zone", "Europe/Berlin", person="ben", by="ben")
    assert "Times are Europe/Berlin" in (await visit.see("/audit")).text
    await office.app.people.set("zone", "Nowhere", person="ben", by="ben")
    visit.client.cookies.set("keyturn_zone", "..%2F..%2Fetc%2Fpasswd")
    assert "Times are UTC" in (await visit.see("/audit")).text


async def test_who_could_have_decided_what_expired_is_told_so() -> None:
    clock = Clock()
    app = App(_desk_of_finance(), MemoryJournal(clock))
    async with app:
        tokens = await peopled(app)
        run = await app.start("desk", "Pay.")
        await run.wait()
        [row] = await app.inbox.list()
        clock.now += 2 * 3_600_000
        await app.inbox.tell(row.run, Tick())
        pages = {name: (await Visiting(app, tokens[name]).see(f"/requests/{row.id}")).text for name in ("ben", "cyd")}
        lists = {name: (await Visiting(app, tokens[name]).see("/")).text for name in ("ben", "cyd")}
        facts = [await app.inbox.as_person(Login(name, ("read",))).facts(row.id) for name in ("ben", "cyd")]
    assert ["You missed this one" in pages[name] for name in ("ben", "cyd")] == [True, False]
    assert [each.missed for each in facts] == [True, False]  # which terminals show
    assert ["You missed: expired in the last 24 hours" in lists[name] for name in ("ben", "cyd")] == [True, False]


def _desk_of_finance() -> list[Agent[Any]]:
    @function_tool(approval=Approval(role="finance", expires="1h"))
    def pay(to: str) -> str:
        return f"paid {to}"

    return [Agent("desk", model=ScriptedModel([[function_call("pay", {"to": "ann"})], "Done."]), tools=[pay])]


@pytest.mark.trial
async def test_filters_are_saved_by_whom_they_are_of(office: Office) -> None:
    ben = office.as_("ben")
    sent = {"name": " big  refunds ", "person": "ada", "verdict": "reject"}
    saved = await posted(ben, "/audit?person=ada", "/audit/filters", **sent)
    assert saved.headers["location"] == "/audit?person=ada&verdict=reject"
    link = '<a href="?person=ada&amp;verdict=reject#record"><span class="theirs">big refunds</span></a>'
    assert link in (await ben.see("/audit")).text
    assert "big refunds" not in (await office.as_("ada").see("/audit")).text
    for wrong in ({"name": ""}, {"name": "x" * 61}, {"name": "x", "since": "soon"}):
        assert (await posted(ben, "/audit?person=ada", "/audit/filters", **wrong)).status_code == 422, wrong
    await posted(ben, "/audit?person=ada", "/audit/filters", do="forget", name="big refunds")
    assert "big refunds" not in (await ben.see("/audit")).text


async def test_people_are_changed_by_who_administers_and_their_own_by_themselves(office: Office) -> None:
    ada, ben = office.as_("ada"), office.as_("ben")
    added = {"do": "add", "id": "eve", "name": "Eve <b>", "roles": "finance, ops"}
    assert (await posted(ben, "/people/ben", "/people", **added)).status_code == 403
    assert (await posted(ada, "/people", "/people", **added)).headers["location"] == "/people/eve"
    assert (await office.app.people.get("eve")).roles == {"finance", "ops"}
    assert "Eve &lt;b&gt;" in (await ada.see("/people")).text
    for form in ({"do": "give", "role": "admin"}, {"do": "take", "role": "finance"}, {"do": "remove", "sure": "eve"}):
        assert (await posted(ben, "/people/ben", "/people/eve", **form)).status_code == 403, form
    assert (await posted(ada, "/people/eve", "/people/eve", do="take", role="ops")).status_code == 303
    assert (await posted(ada, "/people/eve", "/people/eve", do="join", group="on-call")).status_code == 303
    assert (await posted(ada, "/people/eve", "/people/eve", do="remove", sure="")).status_code == 422
    assert (await posted(ada, "/people/eve", "/people/eve", do="remove", sure="eve")).status_code == 303
    assert not (await office.app.people.directory()).people["eve"].here
    assert (await posted(ada, "/people/ada", "/people/ada", do="remove", sure="ada")).status_code == 422
    assert (await ada.see("/people/nobody")).status_code == 404
    assert "ben@example.com" in (await ben.see("/people/ben")).text
    assert "ben@example.com" not in (await office.as_("cyd").see("/people/ben")).text
    lent = (await office.app.people.directory()).delegations
    [name] = lent
    assert (await posted(ben, "/people/ben", "/people/ben", do="end", delegation=name)).status_code == 303
    lending = {"do": "delegate", "to": "ada", "until": "2999-12-31", "why": "away"}
    assert (await posted(ben, "/people/ben", "/people/ben", **lending)).status_code == 303
    assert (await posted(ben, "/people/ben", "/people/cyd", **lending)).status_code == 403
    until_sunday = {"do": "delegate", "to": "cyd", "until": "2001-01-07", "why": "the sea"}
    over = await posted(ben, "/people/ben", "/people/ben", **until_sunday)
    refused = (
        r'<details class="do" id="delegate" open>.*?role="alert".*?the last day of the delegation is over.*?</details>'
    )
    assert len(re.findall(refused, over.text, re.S)) == over.text.count('role="alert"') == 1  # in the form, once
    assert 'value="the sea"' in over.text  # what was typed stays
    for day in ("", "soon", "9999-12-31"):
        wrong = await posted(ben, "/people/ben", "/people/ben", **{**until_sunday, "until": day})
        assert (wrong.status_code, "choose the last day of the delegation" in wrong.text) == (422, True), day
    today = datetime.now(UTC).date()
    lent = await posted(ben, "/people/ben", "/people/ben", **{**until_sunday, "until": today.isoformat()})
    assert lent.headers["location"] == "/people/ben#lent"
    [sea] = [each for each in (await office.app.people.directory()).delegations.values() if each.why == "the sea"]
    midnight = datetime.combine(today + timedelta(days=1), time(), UTC).timestamp() * 1_000
    assert abs(sea.until - midnight) < 60_000


async def test_a_token_and_a_link_are_shown_once_and_never_again(office: Office) -> None:
    ada, ben = office.as_("ada"), office.as_("ben")
    answer = await posted(ben, "/people/ben", "/secrets/ben", do="token", scope="read", label="phone", expires="30d")
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    token = answer.text.partition('id="once">')[2].partition("<")[0]
    assert (await office.app.people.login(token)).person == "ben"
    assert token not in (await ben.see("/people/ben")).text
    assert (await posted(ben, "/people/ben", "/secrets/ada", do="token", scope="read")).status_code == 403
    assert (await posted(ben, "/people/ben", "/secrets/ben", do="link")).status_code == 403
    linked = await posted(ada, "/people/ben", "/secrets/ben", do="link")
    link = linked.text.partition('id="once">')[2].partition("<")[0]
    assert link.startswith("http://localhost/enter#kt_")
    [issued] = [each for each in await office.app.people.tokens("ben") if each.label == "phone"]
    assert (await posted(ben, "/people/ben", "/people/ben", do="revoke_token", token=issued.id)).status_code == 303
    assert not [each for each in await office.app.people.tokens("ben") if each.label == "phone" and each.good(0)]


async def test_what_was_given_up_is_sent_again_by_who_administers(office: Office) -> None:
    async def dead() -> list[Any]:
        return await office.app.journal.deliveries(DeliveryQuery(state="dead"))

    [first, *_] = await until(dead)
    ada, ben = office.as_("ada"), office.as_("ben")
    assert "550 no such mailbox here" in (await ben.see("/channels")).text
    assert (await posted(ben, "/people/ben", "/channels/again", number=str(first.number))).status_code == 403
    assert (await posted(ada, "/channels", "/channels/again", number="x")).status_code == 422
    assert (await posted(ada, "/channels", "/channels/again", number=str(first.number))).status_code == 303
    assert (await posted(ada, "/channels", "/channels/again", which="all")).status_code == 303


async def test_settings_are_changed_by_who_administers(office: Office) -> None:
    ada, ben = office.as_("ada"), office.as_("ben")
    await office.app.people.set("their-own", {"x": HOSTILE}, by="ada")
    form = {"do": "min_look", "look_": "3s", "look_high": "20s"}
    assert (await posted(ben, "/people/ben", "/settings", **form)).status_code == 403
    assert (await posted(ada, "/settings", "/settings", **form)).status_code == 303
    assert (await office.app.people.directory()).settings["min_look"] == {"": "3s", "high": "20s"}
    assert (await posted(ada, "/settings", "/settings", do="min_look", look_="soon")).status_code == 422
    assert (await posted(ada, "/settings", "/settings", do="forget", setting="their-own")).status_code == 303
    assert "their-own" not in (await office.app.people.directory()).settings


async def test_a_list_of_runs_reads_a_page_and_not_all() -> None:
    class Counting(MemoryJournal):
        rows = 0

        async def runs(self, query: Query = ALL) -> Any:
            found = await super().runs(query)
            Counting.rows += len(found)
            return found

        async def requests(self, query: Query = ALL) -> Any:
            found = await super().requests(query)
            Counting.rows += len(found)
            return found

    app = App([Agent("desk", model=ScriptedModel(["done"] * 300))], Counting())
    async with app:
        visit = Visiting(app, (await peopled(app))["ada"])
        started = [await app.start("desk", f"task {n}") for n in range(300)]
        for run in started:
            await run.wait()
        Counting.rows = 0
        text = (await visit.see("/runs?agent=desk&status=finished")).text
        assert text.count('class="lead"') == 50
        assert Counting.rows <= 51 + 50
        seen, path = set[str](), "/runs?agent=desk&status=finished"
        while path:
            text = (await visit.see(path)).text
            seen |= {part.partition('"')[0] for part in text.split('href="/runs/')[1:]}
            path = (
                html.unescape("/runs" + text.partition('rel="next" href="')[2].partition('"')[0])
                if 'rel="next"' in text
                else ""
            )
        assert seen == {run.id for run in started}


async def test_a_first_visit_takes_little_and_only_what_is_no_secret_is_compressed(office: Office) -> None:
    """Who measures how well a page compresses learns of what is on it, so only the files are."""
    ada = office.as_("ada")
    page = await ada.see("/")
    assert "content-encoding" not in page.headers
    loaded = page.num_bytes_downloaded
    for path in set(re.findall(r'(?:src|href)="(/static/[^"]+)"', page.text)):
        file = await ada.see(path)
        assert file.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert file.headers.get("content-encoding") == ("gzip" if path.endswith((".js", ".css")) else None), path
        loaded += file.num_bytes_downloaded
    assert loaded < 60_000
    plain = await ada.see(path, **{"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers


@pytest.mark.parametrize("name", ["keyturn", "pages", "login"])
def test_a_rule_of_a_stylesheet_is_written_once(name: str) -> None:
    """A rule that is there twice was pasted over another one."""
    text = (STATIC / f"{name}.css").read_text(encoding="utf-8")
    found = [" ".join(rule.split()) for rule in re.findall(r"[^{}]+\{[^{}]*\}", text)]
    assert [rule for rule, times in Counter(found).items() if times > 1] == []
