"""What a provider gave goes back to it: through a pause, a save and a load, and through a session, nothing is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from keyturn import Agent, RunState, SQLiteSession
from keyturn.models.openai.request import sent_items
from keyturn.models.scripted.items import function_call
from keyturn.testing.loopback.responses import ResponsesServer
from tests.models.errand import ASKED, decided, errand, script
from tests.models.openai.items import KNOWN, UNKNOWN
from tests.models.openai.serving import bodies, served
from tests.models.openai.test_items import ASKING, told
from tests.models.test_crossing import MEMBERS, model_of
from tests.playing import play, through_text

Item = dict[str, Any]

# What the provider did and answered itself, a call beside its result; thoughts last, where what they led to follows.
HOSTED = sorted((item for item in KNOWN if item["type"] not in ASKING), key=lambda item: item["type"] == "reasoning")
PAIRS = [
    [item for item in HOSTED if item.get("call_id") == label]
    for label in sorted({item["call_id"] for item in HOSTED if item.get("call_id")})
]
# Of those that nobody knows yet, all but the call of a function, which waits for its result.
NEW = [item for item in UNKNOWN if item["type"] not in ("function_call", "reasoning")]
ALONE = [[item] for item in (*HOSTED, *UNKNOWN) if not item.get("call_id")]
EVERYTHING = [*NEW, *HOSTED]
CALL = {**function_call("pay", {"to": "ada"}, call_id="c1", item_id="fc_1"), "mood": {"good": True}}
# Of whom thoughts are told again in the next turn, too.
KEEPERS = ("anthropic", "google", "openai")
USER = {"role": "user", "content": "go"}
PAID = {"type": "function_call_output", "call_id": "c1", "output": "paid 5 to ada"}


async def approved(agent: Agent[Any], paused: Any) -> RunState[Any]:
    """Saved as a text and loaded as another process would."""
    state = await through_text(agent, paused)
    [item] = state.get_interruptions()
    state.approve(item)
    return state


@pytest.mark.parametrize("items", [*ALONE, *PAIRS], ids=lambda items: items[0]["type"])
async def test_an_item_beside_a_call_that_waits(items: list[Item], payer: Any, paid: list[Any], streamed: bool) -> None:
    """The next request holds it as it came, but for the fields that the API gives and does not take."""
    server = ResponsesServer([told([*items, CALL]), "done"])
    async with served(server) as model:
        agent = Agent("a", model=model, tools=[payer])
        paused = await play(agent, "go", streamed)
        assert paused.to_input_list()[1 : 1 + len(items)] == items
        done = await play(agent, await approved(agent, paused), streamed)
    assert (done.final_output, paid) == ("done", [("ada", 5)])
    assert bodies(server)[1]["input"] == [USER, *sent_items(items), CALL, PAID]
    assert done.to_input_list()[1 : 1 + len(items)] == items


async def test_everything_at_once_in_its_order(payer: Any, streamed: bool) -> None:
    server = ResponsesServer([told([*EVERYTHING, CALL]), "done"])
    async with served(server) as model:
        agent = Agent("a", model=model, tools=[payer])
        paused = await play(agent, "go", streamed)
        await play(agent, await approved(agent, paused), streamed)
    assert bodies(server)[1]["input"] == [USER, *sent_items(EVERYTHING), CALL, PAID]


async def test_through_a_session_into_the_next_run(payer: Any, streamed: bool, tmp_path: Path) -> None:
    """A store of text gives back what it got, and the next run sends it."""
    server = ResponsesServer([told([*EVERYTHING, CALL]), "done", "and again"])
    path = str(tmp_path / "s.db")
    async with served(server) as model:
        agent = Agent("a", model=model, tools=[payer])
        first = SQLiteSession("s", path)
        paused = await play(agent, "go", streamed, session=first)
        first.close()
        second = SQLiteSession("s", path)
        await play(agent, await approved(agent, paused), streamed, session=second)
        kept = await second.get_items()
        await play(agent, "more", streamed, session=second)
        second.close()
    assert kept[: 1 + len(EVERYTHING)] == [USER, *EVERYTHING]
    sent = bodies(server)[2]["input"]
    assert sent[:-2] == [USER, *sent_items(EVERYTHING), CALL, PAID]
    assert json.loads(json.dumps(sent[-1])) == {"role": "user", "content": "more"}


@pytest.mark.parametrize("member", [MEMBERS[name] for name in KEEPERS], ids=KEEPERS)
async def test_thoughts_survive_a_session_to_the_byte(member: Any, streamed: bool, tmp_path: Path) -> None:
    """The next run tells all that the resumed one told; the servers check each signature."""
    path = str(tmp_path / "s.db")
    async with member[0]([*script("c1", "c2"), "And again."]) as server:
        model = model_of(member, server)
        agent = errand(model)
        first = SQLiteSession("s", path)
        paused = await play(agent, ASKED, streamed, session=first)
        first.close()
        second = SQLiteSession("s", path)
        await play(agent, await decided(agent, paused), streamed, session=second)
        done = await play(agent, "Again.", streamed, session=second)
        second.close()
        await model.close()
    assert done.final_output == "And again."
    resumed, again = ([json.dumps(item) for item in conversation(request.json)] for request in server.requests[1:])
    # A rejection is known before the result of the call before it, and a session is written in the order of events.
    assert sorted(again[: len(resumed)]) == sorted(resumed)


def conversation(body: Item) -> list[Item]:
    """What a request tells of what was said."""
    return next(body[name] for name in ("input", "messages", "contents") if name in body)
