"""What a newcomer to the pages asked of them, and where the answer stands now."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import Agent, FunctionTool
from keyturn.models.scripted.model import ScriptedModel, function_call
from keyturn.render.escape import unescape
from keyturn.render.one_row import arguments_row, ends_of, parts
from tests.server.web.test_moment_of_decision import staffed, words
from tests.server.web.visiting import Visiting

ROW = (
    "$ set -eu ↵ line break git fetch origin ↵ line break git push --force origin main ↵ line break "
    "kubectl rollout restart deploy/api -n staging"
)


@pytest.mark.parametrize("room", [34, 60, 112])
def test_a_row_that_is_cut_keeps_both_ends_counts_what_is_hidden_and_halves_no_escape(room: int) -> None:
    for middle in ("x", "\u202e", "\n", "\\", '"', "\u0301"):
        text = f"rm {middle * 300} /srv"
        row = ends_of(text, room)
        assert len(row) <= room
        head, hidden, tail = parts(row)
        shown = [unescape(part.replace(" \\n ", "\\n")) for part in (head, tail)]
        assert (text.startswith(shown[0]), text.endswith(shown[1])) == (True, True), row
        assert len(text) - sum(map(len, shown)) == int(hidden.split()[0])
        named = arguments_row({"to": "ada", "script": text, "at": 5}, room)
        assert len(named) <= room
        assert "at: 5" in named or "2 more" in named


async def test_a_list_shows_what_is_dangerous_at_the_end_of_a_command() -> None:
    app, tokens, _asked = await staffed("ci")
    async with app:
        page = words(await Visiting(app, tokens["ada"]).see("/"))
        assert ROW in page
        assert "Run run_shell as shown?" in page
        assert 'cwd: "/srv/build/api"' in page


async def test_a_call_that_is_requested_twice_says_so_and_so_does_one_after_a_rejection() -> None:
    app, tokens, asked = await staffed("notices")
    async with app:
        ada, ben = Visiting(app, tokens["ada"]), Visiting(app, tokens["ben"])
        first = f"/requests/{asked['notices']}"
        assert "identical" not in (await ada.see(first)).text
        again = await app.start("notices", "Do your work.", requester="cyd")
        await app.wait(again.id, 20)
        [row] = await app.inbox.list(run=again.id)
        for page, other in ((first, f"/requests/{row.id}"), (f"/requests/{row.id}", first)):
            seen = await ada.see(page)
            assert "An identical request is open, requested" in words(seen)
            assert f'href="{other}">Open it' in seen.text
        await ada.decide(asked["notices"], "reject", message="Not today.")
        assert "You rejected an identical call" in words(await ada.see(f"/requests/{row.id}"))
        assert "ada rejected an identical call" in words(await ben.see(f"/requests/{row.id}"))


async def test_a_question_shows_its_choices_once_and_asks_once() -> None:
    app, tokens, asked = await staffed("asker")
    async with app:
        page = await Visiting(app, tokens["ada"]).see(f"/requests/{asked['asker']}")
        [detail] = [words(page)[words(page).index("asker asks") :]]
        assert (detail.count("Bremen"), detail.count("Which one is right?")) == (1, 1)


def order() -> FunctionTool:
    async def does(_context: Any, given: str) -> str:
        return given

    count = {"type": "integer"}
    note = {"type": "string", "description": "What the supplier reads."}
    schema = {"type": "object", "properties": {"item": {"type": "string"}, "count": count, "note": note}}
    return FunctionTool("order", "Order.", schema, does, strict_json_schema=False, needs_approval=True)


async def test_an_argument_that_the_call_does_not_have_can_be_added_by_an_edit() -> None:
    reply: Any = function_call("order", {"item": "ink"})
    desk = Agent("desk", model=ScriptedModel([reply, "ok"]), tools=[order()])
    app, tokens, asked = await staffed("desk", agents=[desk])
    async with app:
        ada, page = Visiting(app, tokens["ada"]), f"/requests/{asked['desk']}"
        form = await ada.fields(f"{page}/edit")
        seen = words(await ada.see(f"{page}/edit"))
        assert seen.count("Not in this call: leave it empty for the default of the tool.") == 2
        assert "What the supplier reads." in seen
        drawn = await ada.send(f"{page}/change", {**form, "arg.item": "ink", "arg.count": "3", "arg.note": ""})
        assert ("count: 3" in words(drawn), "note" in words(drawn)) == (True, False)


async def test_an_approval_that_is_undone_stands_under_the_decisions_of_the_audit_log() -> None:
    app, tokens, asked = await staffed("notices")
    async with app:
        ada = Visiting(app, tokens["ada"], undo="60s")
        await ada.decide(asked["notices"], "approve")
        await ada.decide(asked["notices"], "withdraw")
        page = words(await ada.see("/audit"))
        assert page.index("approval withdrawn ada send_notice") < page.index("approved ada send_notice")


async def test_a_role_that_there_is_not_is_refused_until_it_is_confirmed() -> None:
    app, tokens, _asked = await staffed("notices")
    async with app:
        ada = Visiting(app, tokens["ada"])
        for path, form in (
            ("/people/ben", {"do": "give", "role": "finanse"}),
            ("/people", {"do": "add", "id": "dan", "role_of": "ops", "roles": "finanse"}),
            ("/people", {"do": "give_group", "group": "staff", "role": "finanse"}),
        ):
            seen = await ada.see(path)
            assert '<option value="finance"></option>' in seen.text
            mark = (await ada.fields(path))["csrf_token"]
            refused = await ada.send(path, {**form, "csrf_token": mark})
            assert "has the role 'finanse'. Did you mean 'finance'?" in words(refused)
            assert "finanse" not in {role for each in await app.people.list() for role in each.roles}
        again = {name: value for name, value in form.items() if name != "role_of"} | {"new": "yes", "csrf_token": mark}
        assert (await ada.send(path, again)).status_code == 303
        assert "finanse" in (await app.people.directory()).groups["staff"]
        rules = '[[rules]]\naction = "ask"\ntool = "pay"\napproval = { role = "finnance" }\n'
        tried = await ada.send("/policies/replay", {"csrf_token": mark, "toml": rules, "since": "7d"})
        assert "No user, group or tool has the role finnance" in words(tried)


async def test_a_condition_and_the_runs_of_a_grant_are_said_in_words() -> None:
    app, tokens, asked = await staffed("treasury", "notices")
    async with app:
        ada, page = Visiting(app, tokens["ada"]), f"/requests/{asked['notices']}"
        seen = words(await ada.see(f"{page}/grant"))
        assert "this run only It ends with this run. The next run asks again." in seen
        assert "every run for this requester ( cyd ) Runs of this agent that the same requester starts later." in seen
        form = await ada.fields(f"{page}/grant")
        own = {"which": "own", "where": '{"channel": {"one_of": ["#ops", "#dev"]}}', "limit": "uses", "uses": "3"}
        covers = words(await ada.send(f"{page}/covers", {**form, **own, "scope": "agent"}))
        assert 'Covers: arguments where channel is one of "#ops", "#dev" , in every run of this agent, for 3' in covers
        assert (await ada.send(f"{page}/grant", {**form, **own, "scope": "agent"})).status_code == 303
        listed = words(await ada.see("/grants"))
        assert 'channel is one of "#ops", "#dev" 0 of 3 when revoked every run of this agent ada' in listed


async def test_the_account_offers_the_channels_there_are_and_sign_out_is_confirmed() -> None:
    app, tokens, _asked = await staffed("notices")
    async with app:
        ada = Visiting(app, tokens["ada"])
        ada.client.cookies.set("keyturn_zone", "Asia/Tokyo")
        account = words(await ada.see("/account"))
        assert "No notification channel is configured on this server" in account
        assert "JST, ends" in account
        await ada.send("/logout", {"csrf_token": (await ada.fields("/account"))["csrf_token"]})
        assert "You are signed out." in words(await ada.see("/login?out=yes"))


async def test_each_figure_of_insights_says_of_what_it_is() -> None:
    app, tokens, asked = await staffed("notices", "ci")
    async with app:
        ada = Visiting(app, tokens["ada"])
        await ada.decide(asked["notices"], "reject")
        page = words(await ada.see("/insights"))
        assert "1 decisions by approvers in 30 days 0% of these 1 decision were approvals" in page
        assert "under 1 s median time from the request to the decision" in page
        assert 'data-label="middle half"' in (await ada.see("/insights")).text


async def test_a_row_of_a_change_shows_the_lines_that_go_and_come() -> None:
    app, tokens, _asked = await staffed("config")
    async with app:
        page = words(await Visiting(app, tokens["ada"]).see("/"))
        assert "/etc/api/app.toml ↵ line break -port = 8080 ↵ line break -w" in page
        assert '-level = "info" ↵ line break +level = "debug"' in page
