"""Over every wire format: whatever a provider sends, it is a reply or an error that says what was wrong.

A good answer is spoiled at random: fields lost, swapped for junk or doubled, events lost, repeated or out of order,
bytes changed. What comes of it is a run that can be saved, loaded and gone on with, a `ModelBehaviorError`, or an error
of the provider's client. A parser's error, or a state that nobody can load, is what this is looking for.
"""

from __future__ import annotations

import asyncio
import json
import warnings
from collections.abc import AsyncIterator, Iterator
from random import Random
from typing import Any, cast

import pytest

from keyturn import (
    Agent,
    Model,
    ModelBehaviorError,
    ModelResponse,
    ModelSettings,
    RunState,
    Usage,
    function_tool,
)
from keyturn.engine.run.log_cache import forget
from keyturn.models.scripted.items import assistant_message, function_call, reasoning
from keyturn.testing.loopback.server import HttpReply, HttpRequest
from tests.models.test_crossing import MEMBERS, model_of
from tests.playing import approved, play
from tests.table import each

members = pytest.mark.parametrize("member", MEMBERS.values(), ids=list(MEMBERS))

JUNK: list[Any] = [None, 0, -1, 1.5, 10**30, "", "x", "\ud800", True, [], {}, [None], [[]], {"a": None}, {"type": "x"}]
DEEP = b"[" * 3_000 + b"]" * 3_000
CLIENTS = ("openai", "anthropic", "google.genai.errors")
CALLS = [function_call("pay", {"to": "ada"}, call_id="c1"), function_call("look", call_id="c2")]
SCRIPT = [[reasoning("Hm."), assistant_message("one two"), *CALLS], "done now", "more", "and more"]


@function_tool
def look() -> str:
    """Look."""
    return "seen"


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where each part of a JSON value is."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        yield (*path, key)
        yield from paths(part, (*path, key))


def spoiled(dice: Random, value: Any) -> Any:
    """The value with one of its parts lost, doubled, renamed or replaced."""
    places = list(paths(value))
    if not places:
        return dice.choice(JUNK)
    *way, last = dice.choice(places)
    value = holder = json.loads(json.dumps(value))
    for key in way:
        holder = holder[key]
    act = dice.random()
    if act < 0.25:
        del holder[last]
    elif act < 0.9:
        holder[last] = dice.choice(JUNK)
    elif isinstance(holder, list):
        holder.insert(last, holder[last])
    else:
        holder[f"{last}x"] = holder.pop(last)
    return value


def mangled(dice: Random, data: bytes) -> bytes:
    """The bytes cut, changed, or no JSON at all."""
    place = dice.randrange(len(data))
    return dice.choice([data[:place], data[:place] + dice.randbytes(1) + data[place + 1 :], DEEP, b"NaN"])


def broken_event(dice: Random, part: bytes) -> bytes:
    """One event of a stream, spoiled."""
    head, _, data = part.partition(b"data: ")
    if data.startswith(b"["):  # the word at the end of a stream
        return part
    changed = json.dumps(spoiled(dice, json.loads(data))).encode() if dice.random() < 0.9 else mangled(dice, data)
    return head + b"data: " + changed + b"\n\n"


def broken(dice: Random, reply: HttpReply) -> HttpReply:
    """A good answer, spoiled."""
    if reply.parts is None:
        body = json.dumps(spoiled(dice, json.loads(reply.body))).encode()
        return HttpReply(reply.status, reply.headers, body if dice.random() < 0.9 else mangled(dice, body))
    parts = list(reply.parts)
    place, other, act = dice.randrange(len(parts)), dice.randrange(len(parts)), dice.random()
    if act < 0.75:
        parts[place] = broken_event(dice, parts[place])
    elif act < 0.82:
        del parts[place]
    elif act < 0.9:
        parts.insert(other, parts[place])
    else:
        parts[place], parts[other] = parts[other], parts[place]
    return HttpReply(reply.status, reply.headers, parts=tuple(parts))


async def came_of(member: Any, pay: Any, streamed: bool, dice: Random) -> str:
    """One run over a provider one of whose first two answers is spoiled; what came of it."""
    bad = dice.choice([1, 1, 1, 2])

    class Spoiling(member[0]):
        def reply(self, request: HttpRequest, step: Any) -> HttpReply:
            reply = super().reply(request, step)
            return broken(dice, reply) if self.answered == bad else reply

    async with Spoiling(SCRIPT) as server:
        model = model_of(member, server)
        agent = Agent("a", model=model, tools=[pay, look], model_settings=ModelSettings(retry=0))
        try:
            result: Any = await play(agent, "go", streamed)
            if result.interruptions:
                result = await play(agent, await approved(result, agent, saved=True), streamed)
            await RunState.from_string(agent, result.to_state().to_string())
            json.dumps(result.to_input_list(), ensure_ascii=False).encode()
        except ModelBehaviorError as error:
            failed: Any = error
            await RunState.from_string(agent, failed.run_data.to_state().to_string())
            return "misbehaved"
        except Exception as error:
            if not type(error).__module__.startswith(CLIENTS):
                raise
            return "refused"
        finally:
            await model.close()
    return "used"


@pytest.mark.sweep
@members
async def test_it_is_a_reply_or_an_error_that_says_what_was_wrong(
    member: Any, payer: Any, streamed: bool, sweep_size: int
) -> None:
    came: set[str] = set()
    for seed in range(max(sweep_size, 8)):  # both ends are among the first
        with warnings.catch_warnings():  # an SDK warns of words that it does not know
            warnings.simplefilter("ignore")
            try:
                async with asyncio.timeout(20):
                    came.add(await came_of(member, payer, streamed, Random(seed)))
            except Exception as error:
                error.add_note(f"seed {seed}")
                raise
    assert {"misbehaved", "used"} <= came


class Own(Model):
    """A model of somebody's own, whose first reply is whatever was given."""

    def __init__(self, reply: ModelResponse) -> None:
        self.replies = [reply, ModelResponse([assistant_message("done")])]

    async def get_response(self, *asked: Any, **kept: Any) -> ModelResponse:
        return self.replies.pop(0)

    async def stream_response(self, *asked: Any, **kept: Any) -> AsyncIterator[Any]:
        yield {"type": "response.completed", "response": self.replies.pop(0)}


def message(content: Any) -> Any:
    return {"type": "message", "role": "assistant", "content": content}


@each(
    ("reply", "wrong"),
    [
        (ModelResponse([{"type": 5}]), "type that is no text"),
        (ModelResponse([message(None)]), "without content"),
        (ModelResponse([message(["x"])]), "part that is no object"),
        (ModelResponse([message([{"type": "output_text", "text": 5}])]), "'text' is no text"),
        (ModelResponse([message([{"type": "refusal", "refusal": []}])]), "'refusal' is no text"),
        (ModelResponse([message("x")], response_id=cast("Any", 7)), "id that is no text"),
        (ModelResponse([message("x")], Usage(1, 10**30)), "cannot be added"),
        (ModelResponse([message("x")], Usage(1, cast("Any", 1.5))), "cannot be added"),
        (ModelResponse([message("x")], Usage(1, cast("Any", None))), "cannot be added"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
async def test_a_model_of_ones_own_is_told_what_is_wrong(reply: ModelResponse, wrong: str, streamed: bool) -> None:
    """It is found before anything is recorded: the run goes on, through a saved state, too."""
    agent = Agent("a", model=Own(reply))
    with pytest.raises(ModelBehaviorError, match=wrong) as raised:
        await play(agent, "go", streamed)
    failed: Any = raised.value
    text = failed.run_data.to_state().to_string()
    forget()
    assert (await play(agent, await RunState.from_string(agent, text), streamed)).final_output == "done"


async def test_ids_of_any_shape_on_items_that_nobody_knows_are_kept(streamed: bool) -> None:
    reply = ModelResponse([{"type": "mood", "id": ["x"], "call_id": {"a": 1}}, assistant_message("fine")])
    result = await play(Agent("a", model=Own(reply)), "go", streamed)
    assert result.to_input_list()[1] == {"type": "mood", "id": ["x"], "call_id": {"a": 1}}
    assert result.final_output == "fine"
