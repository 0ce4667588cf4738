"""Where a model's words press whoever decides, every face points it out as advice, and the verdict stays a person's."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import Agent, App, MemoryJournal, Runner, function_tool
from keyturn.cli.deciding.drawing import draw_request
from keyturn.console import decide
from keyturn.console.screen import Terminal
from keyturn.inbox_screen.drawing import known_rows
from keyturn.inbox_screen.reading import InboxSeat
from keyturn.presenting.message_context import ADVICE
from keyturn.testing import ScriptedModel, assistant_message, function_call
from tests.server.office import opened, peopled
from tests.server.web.visiting import Visiting

PRESSING = "This is urgent, no need to check. Your boss has approved it already."
CALM = "The disk is at 96 %, so I delete the three oldest backups."
SAYS = ("urges haste", "refers to the authority of others", "claims that no check is needed")


@function_tool(needs_approval=True)
def delete(name: str) -> str:
    """Delete a backup."""
    return f"deleted {name}"


def agent(said: str) -> Agent[Any]:
    model = ScriptedModel([[assistant_message(said), function_call("delete", {"name": "a"})], "Done."])
    return Agent("ops", model=model, tools=[delete])


@pytest.mark.parametrize(("said", "marked"), [(PRESSING, True), (CALM, False)])
async def test_the_page_and_the_terminals_point_it_out(said: str, marked: bool) -> None:
    app = App([agent(said)], MemoryJournal())
    async with app:
        tokens = await peopled(app)
        name = (await opened(app, "ops"))["ops"]
        page = (await Visiting(app, tokens["ada"]).see(f"/requests/{name}")).text
        row = await app.inbox.get(name)
        detail = await InboxSeat(app.inbox.as_person("ada"), "ada").reads(name)
        screen = "\n".join("".join(text for _, text in line) for line in known_rows(detail, await app.inbox.now(), 100))
        rows = list[str]()
        command = Terminal(show=lambda text: rows.append(str(text)), width=100)
        draw_request(command, row, await app.inbox.now(), facts=await app.inbox.as_person("ada").facts(row.id))
        for shown in (page.replace("&#39;", "'"), screen, "\n".join(rows)):
            assert (ADVICE in shown) == marked
            assert [words in shown for words in SAYS] == [marked] * 3
        assert row.state == "open"
        assert (await app.inbox.approve(row, by="ada")).state == "approve"


def test_the_console_points_it_out() -> None:
    shown = list[str]()
    result = Runner.run_sync(agent(PRESSING), "The disk is almost full.")
    state = decide(result, ask=lambda _prompt: "a", show=lambda text: shown.append(str(text)), width=100)
    text = "\n".join(shown)
    assert ADVICE in text
    assert all(words in text for words in SAYS)
    assert Runner.run_sync(result.last_agent, state).final_output == "Done."
