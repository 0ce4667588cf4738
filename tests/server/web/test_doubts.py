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
    "$ set -eu \\n git fetch origin \\n git push --force origin main \\n kubectl rollout restart deploy/api -n staging"
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
