"""A model that writes its calls badly is told what is wrong, may try again a few times, and is never helped in silence.

The arguments are what open models wrote, by the shapes that bug reports show: llama.cpp #22072 and #21680, vLLM #41739,
Ollama #5976 and #6155, FastFlowLM #537, langchain #35990, simonw/llm #1164 and others of their kind. Each is either
strict JSON that fits the schema as it stands, or goes back with its fault: a person approves what was meant.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from keyturn import (
    Agent,
    ModelBehaviorError,
    RunConfig,
    RunContextWrapper,
    RunState,
    ToolExecutionConfig,
    UserError,
    function_tool,
)
from keyturn.core.codec import Log
from keyturn.engine.run.agents import AgentGraph
from keyturn.engine.run.open_run import OpenRun
from keyturn.engine.run.used_states import UsedStates
from keyturn.models.scripted.items import assistant_message, function_call
from tests.playing import approved, play, raw_call, script, told
from tests.table import each

GOOD = '{"to": "ada", "amount": 3, "notes": []}'

MALFORMED: dict[str, str] = {
    # No JSON.
    "nothing": "",
    "spaces": "  \n",
    "a missing brace": '{"to": "ada", "amount": 3, "notes": []',
    "an extra brace": GOOD + "}",
    "two opening braces": "{" + GOOD,
    "cut in a string": '{"to": "ad',
    "cut behind a colon": '{"to": "ada", "amount":',
    "cut in an escape": '{"to": "ad\\u00',
    "a trailing comma": '{"to": "ada", "amount": 3, "notes": [],}',
    "a comma in the list": '{"to": "ada", "amount": 3, "notes": ["a",]}',
    "no comma": '{"to": "ada" "amount": 3, "notes": []}',
    "single quotes": "{'to': 'ada', 'amount': 3, 'notes': []}",
    "bare keys": '{to: "ada", amount: 3, notes: []}',
    "a backtick at the end": '{"to": "ada`, "amount": 3, "notes": []}',
    "curly quotes": "{\u201cto\u201d: \u201cada\u201d, \u201camount\u201d: 3, \u201cnotes\u201d: []}",
    "Python's words": '{"to": "ada", "amount": None, "notes": []}',
    "True and False": '{"to": "ada", "amount": True, "notes": []}',
    "NaN": '{"to": "ada", "amount": NaN, "notes": []}',
    "a comment": '{"to": "ada", /* three */ "amount": 3, "notes": []}',
    "a fence": f"```json\n{GOOD}\n```",
    "words before": f"Here are the arguments: {GOOD}",
    "words behind": f"{GOOD}\nI will pay now.",
    "the objects of two calls": GOOD + GOOD,
    "one object a line": f"{GOOD}\n{GOOD}",
    "tags around": f"<tool_call>{GOOD}</tool_call>",
    "a token of the template": f"{GOOD}<|im_end|>",
    "a token before": f"<|python_tag|>{GOOD}",
    "XML parameters": "<parameter=to>ada</parameter><parameter=amount>3</parameter>",
    "keyword arguments": 'to="ada", amount=3, notes=[]',
    "a call in Python": 'pay(to="ada", amount=3, notes=[])',
    "YAML": "to: ada\namount: 3\nnotes: []",
    "a real line break in a string": '{"to": "a\nda", "amount": 3, "notes": []}',
    "a wrong escape": '{"to": "C:\\dir", "amount": 3, "notes": []}',
    "an escaped object": '{\\"to\\": \\"ada\\", \\"amount\\": 3}',
    "a byte order mark": "\ufeff" + GOOD,
    "a key twice": '{"to": "ada", "to": "bob", "amount": 3, "notes": []}',
    "a half of a pair": '{"to": "\\ud83d", "amount": 3, "notes": []}',
    # JSON that is no object of arguments.
    "encoded twice": json.dumps(GOOD),
    "encoded three times": json.dumps(json.dumps(GOOD)),
    "null": "null",
    "a number": "3",
    "true": "true",
    "a list": '["ada", 3, []]',
    "a list of one object": f"[{GOOD}]",
    "the name too": f'{{"name": "pay", "arguments": {GOOD}}}',
    "under parameters": f'{{"parameters": {GOOD}}}',
    "JSON-RPC": f'{{"jsonrpc": "2.0", "method": "pay", "params": {GOOD}}}',
    "the schema": '{"type": "object", "properties": {"to": {"type": "string"}}}',
    # Objects that do not fit.
    "a number as text": '{"to": "ada", "amount": "3", "notes": []}',
    "a number with a point": '{"to": "ada", "amount": 3.0, "notes": []}',
    "true for one": '{"to": "ada", "amount": true, "notes": []}',
    "a text as number": '{"to": 7, "amount": 3, "notes": []}',
    "a fraction": '{"to": "ada", "amount": 3.5, "notes": []}',
    "null for a number": '{"to": "ada", "amount": null, "notes": []}',
    "null for a list": '{"to": "ada", "amount": 3, "notes": null}',
    "a list as text": '{"to": "ada", "amount": 3, "notes": "[]"}',
    "one entry without its list": '{"to": "ada", "amount": 3, "notes": "a"}',
    "an object as list": '{"to": "ada", "amount": 3, "notes": {"item": "a"}}',
    "a field is missing": '{"to": "ada", "notes": []}',
    "an empty object": "{}",
    "an unknown field": '{"to": "ada", "amount": 3, "notes": [], "reason": "x"}',
    "another case": '{"To": "ada", "Amount": 3, "Notes": []}',
    "a key with spaces": '{" to": "ada", "amount": 3, "notes": []}',
    "the value wrapped": '{"to": {"value": "ada"}, "amount": {"value": 3}, "notes": []}',
    "a description in place of the value": '{"to": {"type": "string", "description": "who"}, "amount": 3, "notes": []}',
}  # fmt: skip


def payments(**options: Any) -> tuple[list[Any], Any]:
    """A tool that writes down what it did."""
    done: list[Any] = []

    @function_tool(**options)
    def pay(to: str, amount: int, notes: list[str]) -> str:
        """Pay somebody."""
        done.append((to, amount, notes))
        return "paid"

    return done, pay


@each("arguments", MALFORMED.values(), ids=list(MALFORMED))
async def test_what_is_almost_right_goes_back_with_its_fault(arguments: str) -> None:
    done, pay = payments()
    model = script([raw_call("pay", "c1", arguments)], [raw_call("pay", "c2", GOOD)], "done")
    result = await play(Agent("a", model=model, tools=[pay]))
    assert result.final_output == "done"
    assert done == [("ada", 3, [])], "the second call alone ran"
    first, *_ = told(model)
    assert first[0] == "c1"
    assert first[1].startswith("The arguments of pay are invalid: ")


@each(("amount", "runs"), [('"3"', 3), ("3.0", 3), ("true", 1)])
async def test_what_the_types_of_python_take_is_approved_as_it_will_run_where_a_tool_is_lax(
    amount: str, runs: int
) -> None:
    """By `strict_mode=False` Pydantic reads these as a number: the request shows it, and it is what the tool gets."""
    done, pay = payments(strict_mode=False, needs_approval=True)
    model = script([raw_call("pay", "c1", f'{{"to": "ada", "amount": {amount}, "notes": []}}')], "done")
    agent = Agent("a", model=model, tools=[pay])
    paused = await play(agent)
    [request] = paused.interruptions
    assert json.loads(request.arguments)["amount"] is runs
    await play(agent, await approved(paused, agent, saved=True))
    assert done == [("ada", runs, [])]


@each(
    "said",
    ['<tool_call>{"name": "pay", "arguments": {"to": "ada"}}</tool_call>', '{"name": "pay", "parameters": {}}',
     '[TOOL_CALLS] [{"name": "pay", "arguments": {"to": "ada"}}]', "<function=pay><parameter=to>ada</parameter>"],
)  # fmt: skip
async def test_a_call_in_a_text_is_a_text(said: str) -> None:
    done, pay = payments()
    result = await play(Agent("a", model=script(said), tools=[pay]))
    assert (result.final_output, done) == (said, [])


BAD = [raw_call("pay", "c", '{"to": "ada"')]
UNKNOWN = [function_call("pays", {"to": "ada"})]


async def test_the_tries_are_bounded_and_the_run_can_be_resumed(streamed: bool) -> None:
    done, pay = payments()
    model = script(BAD, UNKNOWN, BAD, UNKNOWN, BAD, BAD, "done")
    agent = Agent("a", model=model, tools=[pay])
    with pytest.raises(ModelBehaviorError, match=r"made 5 replies in a row .* \(the last: pay\).*max_invalid_replies"
                       ) as raised:  # fmt: skip
        await play(agent, "go", streamed, run_config=RunConfig(tool_not_found_behavior="return_error_to_model"))
    error: Any = raised.value
    assert len(model.calls) == 5
    result = await play(agent, error.run_data.to_state(), streamed)
    assert (result.final_output, done) == ("done", [])


@pytest.mark.parametrize(("most", "asked"), [(1, 1), (2, 2), (None, 7)])
async def test_how_many_there_may_be_is_a_setting(most: int | None, asked: int) -> None:
    _, pay = payments()
    model = script(*[BAD] * 6, "done")
    config = RunConfig(tool_execution=ToolExecutionConfig(max_invalid_replies=most))
    try:
        await play(Agent("a", model=model, tools=[pay]), run_config=config)
    except ModelBehaviorError:
        assert most is not None
    assert len(model.calls) == asked
    with pytest.raises(UserError, match="max_invalid_replies must be a whole number of 1 or more, or None"):
        ToolExecutionConfig(max_invalid_replies=0)


async def test_the_tries_are_counted_by_the_log_over_a_restart(streamed: bool) -> None:
    """Wherever its process dies, another one asks the model only as often as the first one would have."""
    _, pay = payments()
    config = RunConfig(tool_execution=ToolExecutionConfig(max_invalid_replies=3))
    agent = Agent("a", model=script(*[BAD] * 3), tools=[pay])
    with pytest.raises(ModelBehaviorError) as raised:
        await play(agent, "go", streamed, run_config=config)
    failed: Any = raised.value
    whole = failed.run_data.to_state().live.log
    left = []
    for cut in range(1, len(whole)):
        agent.model = script(*[BAD] * 3)
        live = OpenRun(Log.read(whole.lines(cut)), AgentGraph(agent), RunContextWrapper(None), used=UsedStates())
        with pytest.raises(ModelBehaviorError, match="made 3 replies in a row"):
            await play(agent, RunState.at(live, cut, []), streamed, run_config=config)
        left.append(len(agent.model.calls))
    assert left == [3, 2, 1, 0]


async def test_a_good_call_beside_or_between_begins_anew() -> None:
    done, pay = payments()
    good, beside = [raw_call("pay", "g", GOOD)], [*BAD, raw_call("pay", "g", GOOD)]
    model = script(BAD, BAD, good, BAD, BAD, beside, BAD, BAD, [assistant_message("done")])
    config = RunConfig(tool_execution=ToolExecutionConfig(max_invalid_replies=3))
    result = await play(Agent("a", model=model, tools=[pay]), run_config=config)
    assert (result.final_output, len(done)) == ("done", 2)
