"""A row of the audit log shows what an approver changed, and arguments in the order of the call."""

from __future__ import annotations

from keyturn import Agent, App, Decider, MemoryJournal, function_tool
from keyturn.models.scripted.model import ScriptedModel, function_call
from tests.server.office import peopled
from tests.server.web.visiting import Visiting

BODY = "Dear customer, " * 12


@function_tool(needs_approval=True)
def send_mail(to: list[str], body: str, urgent: bool = False) -> str:
    """Send an e-mail."""
    return f"sent to {len(to)}"


async def test_an_edit_is_shown_from_both_sides_around_what_was_changed() -> None:
    call = function_call("send_mail", {"to": ["ann@example.org", "ben@example.org"], "body": f"{BODY}on Monday."})
    app = App([Agent("desk", model=ScriptedModel([[call], "Done."]), tools=[send_mail])], MemoryJournal())
    tokens = await peopled(app)
    async with app:
        run = await app.start("desk", "go")
        await run.wait()
        [asked] = await app.inbox.list()
        edit = {"to": ["ann@example.org"], "body": f"{BODY}on Tuesday.", "urgent": False}
        await app.inbox.approve(asked, by=Decider("ben", strength="authenticated"), edit=edit)
        await run.result()
        text = (await Visiting(app, tokens["ada"]).see("/audit")).text
    before, after = text.split("<br>before: ")[1].split("<br>after: ")
    after = after.split("</td>")[0]
    assert ("ben@example.org" in before, "ben@example.org" in after) == (True, False)
    assert ("on Monday." in before, "on Tuesday." in after) == (True, True)
    assert "urgent" not in after
    first = text.split("approved with other arguments")[-1].split("<br>before: ")[0]
    assert first.index("to:") < first.index("body:")
