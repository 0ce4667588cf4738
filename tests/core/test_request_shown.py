"""What a request says of itself to people and to programs: order, path, times, and who started what."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter

from keyturn import Agent, MemoryJournal, Runner, function_tool
from keyturn.audit.checker import check
from keyturn.core import commands as cm
from keyturn.core.approval import Approval
from keyturn.core.encodable import moment
from keyturn.core.request import ASKED, Request, request_of
from keyturn.journal.rows import RequestRow
from keyturn.testing import ScriptedModel, function_call
from keyturn.tools.base import OutcomeUnknown
from tests.core.samples import Pen, asked, nested, reply, start, tool, user

CALL, INNER = "r/1.0", "r/1.0/1.0"


def declared(arguments: str, schema: dict[str, Any], description: str = "Pays.") -> Request:
    """A request for a tool of this schema."""
    pen = Pen()
    pen(start(), reply(tool("c0", "ask", arguments), tools={"t1": {"description": description, "schema": schema}}))
    return request_of(pen.run, pen.call())


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"to": {}, "amount": {}, "note": {}}},
        {"properties": {"amount": {}, "note": {}, "to": {}}, "required": ["to", "amount", "note"]},
    ],
)
def test_arguments_stand_in_the_order_in_which_the_tool_declares_them(schema: dict[str, Any]) -> None:
    made = declared('{"extra":0,"note":"n","amount":3,"to":"ada"}', schema)
    assert list(made.params) == ["to", "amount", "note", "extra"]
    assert list(made.preview.blocks[0].value) == list(made.params)  # type: ignore[union-attr]  # it is the Json
    assert list(json.loads(RequestRow.of(made).body)["params"]) == list(made.params)


@pytest.mark.parametrize(
    "schema",
    [
        *(None, [], {}, {"properties": []}, {"properties": {"x": 1}, "required": [1]}),
        *({"properties": {"x": 1}, "required": [other]} for other in ([], {}, None)),
    ],
)
def test_a_schema_that_is_none_leaves_arguments_as_they_stand(schema: Any) -> None:
    assert declared('{"b":1,"a":2}', schema).params == {"b": 1, "a": 2}
    assert list(declared('{"b":1,"a":2}', schema).params) == ["b", "a"]
    assert declared('["b"]', schema).params == ["b"]


async def test_a_real_tool_declares_the_order_of_its_signature() -> None:
    @function_tool(needs_approval=True, strict_mode=False)
    def pay(to: str, amount: int, note: str = "", card: str = "") -> None:
        """Pay somebody."""

    call = function_call("pay", {"note": "n", "card": "c", "amount": 1, "to": "ada"})
    made = (await Runner.run(Agent("desk", model=ScriptedModel([[call]]), tools=[pay]), "go")).interruptions[0].request
    assert list(made.params) == ["to", "amount", "note", "card"]
    assert made.description == "Pay somebody."


def test_the_path_says_in_words_who_asked_whom() -> None:
    assert request_of(asked().run, asked().call()).path == "a"
    pen = nested(tool("c0", "ask"))
    assert request_of(pen.run, pen.call(INNER)).path == 'a > b, asked: {"n":1}'


def test_the_path_goes_by_calls_and_not_by_names() -> None:
    pen = Pen()
    pen(start(agent="desk"), reply(tool("out", arguments='{"input":"Who sells paper?"}')))
    pen.begin()
    pen(cm.OpenFrame(CALL, "desk/research", [user("x")], 5), reply(tool("in"), frame=CALL))
    pen.begin(INNER)
    pen(cm.OpenFrame(INNER, "desk/facts", [user("x")], 5), reply(tool("c", "ask"), frame=INNER))
    assert request_of(pen.run, pen.call(f"{INNER}/1.0")).path == 'desk > research > facts, asked: {"n":1}'


def test_what_was_asked_is_cut_with_a_mark_and_without_secrets() -> None:
    pen = Pen()
    pen(start(), reply(tool("out", arguments=json.dumps({"input": "x" * 500}))))
    pen.begin()
    pen(cm.OpenFrame(CALL, "a/b", [user("x")], 5), reply(tool("c0", "ask"), frame=CALL))
    assert request_of(pen.run, pen.call(INNER)).path == f"a > b, asked: {'x' * ASKED}[...]"
    hidden = Pen()
    hidden(start(), reply(tool("out", arguments='{"input":"hunter2"}', secrets=("input",))))
    hidden.begin()
    hidden(cm.OpenFrame(CALL, "a/b", [user("x")], 5), reply(tool("c0", "ask"), frame=CALL))
    assert "hunter2" not in request_of(hidden.run, hidden.call(INNER)).path


def test_a_doubt_says_when_and_by_whom_it_was_started_and_on_whose_word() -> None:
    pen = asked(tool("c0", "ask", terms=Approval()))
    assert (request_of(pen.run, pen.call()).started_at, request_of(pen.run, pen.call()).former) == (None, None)
    pen.decide("approve", by="ada", note="fine")
    pen(*pen.screened(), cm.StartCall(CALL, "t1", by="worker-7"), at=5_000)
    pen(cm.LoseCall(CALL, "lost"), at=9_000)
    made = request_of(pen.copy().run, pen.copy().call())
    assert (made.started_at, made.started_by) == (moment(5_000), "worker-7")
    assert made.former is not None
    assert (made.former.by, made.former.verdict, made.former.note) == ("ada", "approve", "fine")
    row = RequestRow.of(made)
    assert row.request == made.__class__(**{**_fields(made), "tool_digest": ""})


def _fields(made: Request) -> dict[str, Any]:
    return {name: getattr(made, name) for name in made.__struct_fields__}


def test_a_start_without_a_name_is_written_as_it_always_was() -> None:
    pen = asked(tool("c0"))
    [started] = pen.begin()
    assert (started.by, b'"by"' in list(pen.log.lines())[-1]) == ("", False)  # type: ignore[union-attr]  # a start


async def test_a_journal_knows_which_process_started_a_call_and_its_rows_are_those_of_the_log() -> None:
    @function_tool
    def transfer(amount: int) -> None:
        """Transfer money."""
        raise OutcomeUnknown("no answer")

    store = MemoryJournal()
    agent = Agent("desk", model=ScriptedModel([[function_call("transfer", {"amount": 1})]]), tools=[transfer])
    result = await Runner.run(agent, "go", journal=store)
    made = result.interruptions[0].request
    assert made.started_by.startswith("process-")
    assert made.started_at is not None
    [row] = await store.requests()
    assert row.request.started_by == made.started_by
    assert (await check(store)).ok
    bare = await Runner.run(
        Agent("desk", model=ScriptedModel([[function_call("transfer", {"amount": 1})]]), tools=[transfer]), "go"
    )
    assert bare.interruptions[0].request.started_by == ""


def test_times_are_aware_and_never_out_of_range() -> None:
    assert moment(1_762_063_200_000) == datetime(2025, 11, 2, 6, tzinfo=UTC)
    assert (moment(10**18).year, moment(-1).year) == (9999, 1970)


def test_a_request_is_encoded_by_pydantic_and_as_a_plain_dict() -> None:
    """FastAPI does the first with a return type and the second without one."""
    pen = asked(tool("c0", "ask", terms=Approval(expires="1h", quorum=2)))
    pen.decide("approve", by="ada")
    made = request_of(pen.run, pen.call())
    plain = dict(made)
    written = json.loads(json.dumps(plain))
    assert (plain["asked_at"], plain["votes"][0]["by"]) == ("1970-01-01T00:00:00Z", "ada")

    class Page(BaseModel):
        requests: list[Request]

    page = Page(requests=[made])
    assert json.loads(page.model_dump_json()) == {"requests": [written]}
    assert TypeAdapter(Request).json_schema(mode="serialization")["type"] == "object"
    assert dict(made.preview)["blocks"][0]["kind"] == "json"
