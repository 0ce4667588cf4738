"""How to test an agent of your own: a scripted model, a person who always approves, and no network.

Run it with `pytest examples/test_my_agent.py`. Installing Keyturn brings these fixtures: `scripted_model`,
`approve_all`, `journal`.
"""

import asyncio
from typing import Any

from keyturn import Agent, Runner, function_tool
from keyturn.testing import ScriptedModel, approve_all, drive, function_call, reject_all

sent: list[str] = []


@function_tool(needs_approval=lambda context, params, call_id: not params["to"].endswith("@example.com"))
def send(to: str, text: str) -> str:
    """Send a mail; within the house nobody is asked."""
    sent.append(to)
    return f"sent to {to}"


def agent(*replies: Any) -> tuple[Agent, ScriptedModel]:
    sent.clear()
    model = ScriptedModel(replies)
    return Agent(name="Mail", model=model, tools=[send]), model


def test_mail_inside_the_house_asks_nobody() -> None:
    mail, model = agent([function_call("send", {"to": "ada@example.com", "text": "hi"})], "Done.")
    result = Runner.run_sync(mail, "Write to Ada.")
    assert (result.final_output, sent) == ("Done.", ["ada@example.com"])
    model.assert_done()


def test_mail_to_strangers_waits() -> None:
    mail, _ = agent([function_call("send", {"to": "eve@elsewhere.org", "text": "hi"})], "Done.")
    result = Runner.run_sync(mail, "Write to Eve.")
    assert [call.name for call in result.interruptions] == ["send"]
    assert sent == []
    result = Runner.run_sync(mail, reject_all(result, message="not outside"))
    assert (result.final_output, sent) == ("Done.", [])


def test_it_survives_being_saved_at_every_pause() -> None:
    mail, _ = agent([function_call("send", {"to": "eve@elsewhere.org", "text": "hi"})], "Done.")
    result = asyncio.run(drive(mail, "Write to Eve.", decide=approve_all, through_text=True, streamed=True))
    assert (result.final_output, sent) == ("Done.", ["eve@elsewhere.org"])


def test_the_model_sees_what_the_tool_said() -> None:
    mail, model = agent([function_call("send", {"to": "ada@example.com", "text": "hi"}, call_id="c1")], "Done.")
    Runner.run_sync(mail, "Write to Ada.")
    assert model.calls[-1].input[-1]["output"] == "sent to ada@example.com"
