"""Whoever comes from openai-agents with runs that wait need not drain them: their states are taken over, or refused.

The states in `tests/openai_agents/states` were saved by real programs of that SDK; `make_states.py` there made them.
"""

from __future__ import annotations

import contextlib
import json
import warnings
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any, cast

import pytest

import keyturn
from keyturn import (
    Agent,
    App,
    Conflict,
    RunState,
    SQLiteSession,
    StateRejected,
    ToolMissing,
    UserError,
    function_tool,
)
from keyturn.testing import ScriptedModel, check, tool_outputs
from tests.openai_agents.worlds import WORLDS, Account
from tests.playing import Carry, Run
from tests.waiting import until

STATES = Path(__file__).parents[1] / "openai_agents" / "states"
NAMES = sorted(path.stem for path in STATES.glob("*.json"))
REFUSED = {
    "finished": "ended or failed",
    "context_omitted": "without its context",
    "reasoning_ids_omitted": "reasoning_item_id_policy",
}


class QuotaUse:
    """A state that was saved there, and the agents of its world, built here."""

    def __init__(self, name: str) -> None:
        kept = json.loads((STATES / f"{name}.json").read_text(encoding="utf-8"))
        self.state: dict[str, Any] = kept["state"]
        self.before: list[str] = kept["done"]
        self.session_items: list[Any] | None = kept.get("session")
        self.done: list[str] = []
        self.models: dict[str, ScriptedModel] = {}
        self.agent: Agent[Any] = WORLDS[kept["world"]](keyturn, self._model, self.done)

    def _model(self, name: str) -> ScriptedModel:
        return self.models.setdefault(name, ScriptedModel([f"{name} is done"] * 4))

    async def over(self, **options: Any) -> RunState[Any]:
        return await RunState.from_openai_agents(self.agent, self.state, trust=True, **options)

    def read(self, name: str = "desk") -> dict[str, Any]:
        """What a model read at last, by call."""
        return tool_outputs(self.models[name].calls[-1])

    @contextlib.asynccontextmanager
    async def connected(self) -> Any:
        async with contextlib.AsyncExitStack() as stack:
            for server in self.agent.mcp_servers:
                await stack.enter_async_context(server)
            yield self


@pytest.fixture(autouse=True)
def _own_key(own_key: None, another_process: Callable[[], None]) -> None:
    """No test uses the user's key, and each begins as a process of its own."""
    another_process()


def calls_of(state: RunState[Any]) -> list[tuple[str, str]]:
    return [(item.tool_name, item.kind) for item in state.get_interruptions()]


@pytest.mark.each
@pytest.mark.parametrize("name", [name for name in NAMES if name not in REFUSED])
async def test_each_state_goes_on_to_its_end(name: str, run: Run, carry: Carry) -> None:
    """What waits is decided and the run ends; nothing that ran there runs here again."""
    async with QuotaUse(name).connected() as taken:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a context of a type comes back as data
            state = await carry(taken.agent, await taken.over())
        session = None
        if taken.session_items is not None:
            session = SQLiteSession("s")
            await session.add_items(taken.session_items)
        result = await run(taken.agent, state, session=session)
        while result.interruptions:
            state = result.to_state()
            for item in result.interruptions:
                if item.kind == "in_doubt":
                    state.resolve(item, "ran", "it went out")
                elif item.tool_name == "wire":
                    state.reject(item)
                else:
                    state.approve(item)
            result = await run(taken.agent, state, session=session)
    assert result.final_output == f"{result.last_agent.name} is done"
    assert not set(taken.done) & set(taken.before)
    assert len(set(taken.done)) == len(taken.done)


async def test_a_foreign_state_needs_somebody_to_vouch_for_it() -> None:
    taken = QuotaUse("waiting")
    for trust in cast("list[bool]", [False, 1, "yes"]):
        with pytest.raises(StateRejected, match=r"no seal.*trust=True"):
            await RunState.from_openai_agents(taken.agent, taken.state, trust=trust)


async def test_what_was_said_and_used_comes_along(run: Run) -> None:
    taken = QuotaUse("waiting")
    state = await RunState.from_openai_agents(taken.agent, json.dumps(taken.state, indent=2), trust=True)
    assert state.context.context == {"who": "me"}
    assert state.usage.total_tokens == 32
    for item in state.get_interruptions():
        state.approve(item)
    result = await run(taken.agent, state)
    assert taken.done == ["pay ann 5", "pay bob 6"]
    assert taken.read() == {
        "l1": "ann is known",
        "p1": "paid 5 to ann",
        "l2": "bob is known",
        "p2": "paid 6 to bob",
    }
    assert [item.type for item in result.new_items] == [
        *("tool_call_item", "tool_call_output_item", "reasoning_item", "message_output_item"),
        *("tool_call_item", "tool_call_item", "tool_call_item", "tool_approval_item", "tool_approval_item"),
        *("tool_call_output_item", "tool_call_output_item", "tool_call_output_item", "message_output_item"),
    ]
    assert (result.usage.input_tokens, len(result.raw_responses), result.max_turns) == (30, 3, 7)
    assert [reply.response_id for reply in result.raw_responses][:2] == ["resp-1", "resp-2"]


async def test_decisions_that_were_not_carried_out_are_carried_out_here(run: Run, carry: Carry) -> None:
    taken = QuotaUse("decided")
    state = await carry(taken.agent, await taken.over())
    result = await run(taken.agent, state)
    assert (taken.done, result.interruptions) == (["pay ann 5"], [])
    assert taken.read()["p2"] == "Bob is no customer."


async def test_decisions_for_good(run: Run) -> None:
    taken = QuotaUse("always_approved_earlier")
    with pytest.warns(UserWarning, match="decided for good of 'pay'"):
        state = await taken.over()
    assert state.grants == [], "an approval for good ends where a run goes on in another place"
    assert calls_of(state) == [("wire", "approval")]
    taken = QuotaUse("always_rejected")
    await run(taken.agent, await taken.over())
    assert taken.done == []
    assert taken.read()["p1"] == taken.read()["p2"] == "No money today."


async def test_what_was_started_there_and_not_recorded_is_in_doubt(run: Run) -> None:
    taken = QuotaUse("executed_without_result")
    state = await taken.over()
    doubt, waits = state.get_interruptions()
    assert (doubt.kind, waits.kind) == ("in_doubt", "approval")
    state.approve(waits)
    result = await run(taken.agent, state)
    assert taken.done == ["pay bob 1"], "though there it was approved"
    assert [item.tool_name for item in result.interruptions] == ["wire"]
    state = result.to_state()
    state.resolve(result.interruptions[0], "ran", "it went out")
    await run(taken.agent, state)
    assert taken.read()["w1"] == "it went out"


async def test_nested_agents_go_on_where_they_were(run: Run, carry: Carry) -> None:
    taken = QuotaUse("nested_decided")
    result = await run(taken.agent, await carry(taken.agent, await taken.over()))
    assert (taken.done, result.final_output) == (["pay bob 6"], "desk is done")
    assert taken.read("payer") == {"l2": "bob is known", "p2": "paid 6 to bob"}
    assert taken.read("clerk") == {"b1": "payer is done", "p1": "Not Ann."}
    assert taken.read("desk") == {"a1": "clerk is done", "l1": "zoe is known"}
    assert (await QuotaUse("nested_after_another").over()).usage.total_tokens == 324, (
        "those of an agent that ended, too"
    )


async def test_a_nested_decision_for_good_counts_for_what_waits(run: Run) -> None:
    """There it would end with that agent's run; here a grant would be for all of them."""
    taken = QuotaUse("nested")
    inner = taken.state["last_processed_response"]["functions"][0]["agent_run_state"]
    words = {"agent": {"name": "clerk"}, "tool_key": "pay", "decision": {"approved": True, "rejected": []}}
    inner["context"]["function_tool_approvals"] = [words]
    with pytest.warns(UserWarning, match="decided for good of 'pay' of 'clerk'"):
        state = await taken.over()
    assert state.grants == []
    result = await run(taken.agent, state)
    assert (taken.done, len(result.interruptions)) == (["pay ann 5"], 1), "the payer's call waits, of that very tool"


async def test_a_handoff_keeps_what_its_filter_left(run: Run) -> None:
    for name, reads in (("handed_over", ["l1", "h1", "p1"]), ("handed_over_filtered", ["p1"])):
        taken = QuotaUse(name)
        state = await taken.over()
        state.approve(state.get_interruptions()[0])
        result = await run(taken.agent, state)
        assert (result.last_agent.name, list(taken.read("payer"))) == ("payer", reads)
        given = taken.models["payer"].calls[-1].input
        assert given[0] == {"role": "user", "content": "Pay them"}


async def test_a_session_goes_on_without_doubles_and_gaps(run: Run, carry: Carry) -> None:
    for name in ("session", "session_resumed_in_part"):
        taken = QuotaUse(name)
        session = SQLiteSession("s")
        assert taken.session_items is not None
        await session.add_items(taken.session_items)
        state = await carry(taken.agent, await taken.over())
        with pytest.raises(UserError, match="session="):
            await run(taken.agent, await QuotaUse(name).over())
        for item in state.get_interruptions():
            state.approve(item)
        await run(taken.agent, state, session=session)
        items = await session.get_items()
        assert items[: len(taken.session_items)] == taken.session_items
        labels = [item["call_id"] for item in items if item.get("type") == "function_call_output"]
        assert sorted(labels) == ["l1", "l2", "p1", "p2"]


async def test_the_provider_is_sent_what_it_has_not_seen(run: Run) -> None:
    taken = QuotaUse("chained")
    state = await taken.over()
    for item in state.get_interruptions():
        state.approve(item)
    await run(taken.agent, state)
    asked = taken.models["desk"].calls[-1]
    assert asked.previous_response_id == "resp-2"
    assert [item["call_id"] for item in asked.input] == ["p1", "l2", "p2"]
    taken = QuotaUse("conversation")
    state = await taken.over()
    for item in state.get_interruptions():
        state.reject(item)
    await run(taken.agent, state)
    assert taken.models["desk"].calls[-1].conversation_id == "conv_1"


async def test_added_messages(run: Run) -> None:
    taken = QuotaUse("message_added")
    state = await taken.over()
    assert [item["content"] for item in state.pending_input] == ["Be quick about it"]
    taken = QuotaUse("message_delivered")
    state = await taken.over()
    state.reject(state.get_interruptions()[0])
    await run(taken.agent, state)
    spoken = [item.get("content") for item in taken.models["desk"].calls[-1].input if item.get("role") == "user"]
    assert spoken == ["Pay them", "Pay Zoe then"]


async def test_guardrails_that_spoke_do_not_speak_again(run: Run) -> None:
    taken = QuotaUse("guarded")
    result = await run(taken.agent, await taken.over())
    assert taken.done == []
    assert [one.output.output_info for one in result.input_guardrail_results] == [{"polite": True}]
    assert len(result.tool_input_guardrail_results) == len(result.tool_output_guardrail_results) == 2


async def test_contexts(run: Run) -> None:
    taken = QuotaUse("context_of_a_type")
    with pytest.warns(UserWarning, match="plain data"):
        assert (await taken.over()).context.context == {"owner": "ann", "limit": 5}
    state = await taken.over(context_deserializer=lambda data: Account(**data))
    assert state.context.context == Account("ann")
    with pytest.raises(UserError, match="more than its data"):
        await taken.over(strict_context=True)
    mine = object()
    assert (await QuotaUse("context_omitted").over(context_override=mine)).context.context is mine


@pytest.mark.each
@pytest.mark.parametrize("name", REFUSED)
async def test_what_cannot_be_carried_is_refused_by_its_name(name: str) -> None:
    with pytest.raises(StateRejected, match=REFUSED[name]):
        await QuotaUse(name).over()


async def test_other_versions_fields_and_shapes_are_refused() -> None:
    for change, words in (
        ({"$schemaVersion": "1.20"}, "version 1.21"),
        ({"$schemaVersion": None}, "no state of openai-agents"),
        ({"novelty": 1}, "novelty"),
        ({"sandbox": {}}, "sandbox"),
        ({"terminal_unrecoverable": True}, "terminal_unrecoverable"),
        ({"pending_session_write": {}}, "pending_session_write"),
        ({"current_turn": "two"}, "current_turn"),
        ({"model_responses": []}, "model_responses"),
        ({"current_agent": {"name": "boss"}}, "boss"),
        ({"generated_items": []}, "generated_items"),
        ({"current_step": {"type": "next_step_dance"}}, "next_step_dance"),
    ):
        taken = QuotaUse("waiting")
        taken.state.update(change)
        with pytest.raises(StateRejected, match=words):
            await taken.over()
    with pytest.raises(StateRejected, match="a key occurs twice"):
        await RunState.from_openai_agents(QuotaUse("waiting").agent, '{"a": 1, "a": 2}', trust=True)
    with pytest.raises(StateRejected, match="no state"):
        await RunState.from_openai_agents(QuotaUse("waiting").agent, "[]", trust=True)


async def test_two_words_on_one_call_are_none() -> None:
    taken = QuotaUse("decided")
    words = taken.state["context"]["function_tool_approvals"][0]["decision"]
    words["rejected"] = words["approved"]
    with pytest.raises(StateRejected, match="both approves and rejects"):
        await taken.over()


async def test_a_tool_that_is_gone_or_another(run: Run) -> None:
    taken = QuotaUse("decided")
    _pay, *others = taken.agent.tools
    taken.agent.tools = others
    with pytest.raises(ToolMissing, match="pay"):
        await taken.over()
    spent: list[str] = []

    @function_tool(name_override="pay", needs_approval=False)
    def pay_in(to: str, amount: int, currency: str = "EUR") -> str:
        """Pay somebody."""
        spent.append(to)
        return "paid"

    taken.agent.tools = [pay_in, *others]
    with pytest.warns(UserWarning, match="the tool has changed since"):
        state = await taken.over()
    assert calls_of(state) == [("pay", "approval")] * 2, "what waits there waits here, though this one would not ask"
    assert len((await run(taken.agent, state)).interruptions) == 2
    assert spent == []


def half_decided() -> QuotaUse:
    """A state in which a call that the provider runs was approved, and the one beside it waits still."""
    taken = QuotaUse("hosted")
    approval = {"type": "mcp_approval_response", "approval_request_id": "mcpr_2", "approve": True}
    response = {"type": "mcp_approval_response_item", "raw_item": approval, "agent": {"name": "desk"}}
    taken.state["generated_items"].append(response)
    taken.state["session_items"].append(response)
    waiting = taken.state["current_step"]["data"]["interruptions"]
    waiting[:] = [each for each in waiting if each["raw_item"].get("id") != "mcpr_2"]
    taken.state["context"]["tool_invocations"]["mcpr_2"] |= {"executed": True, "completed": True}
    return taken


def sent_approvals(taken: QuotaUse) -> list[int]:
    """How many approvals of the call that was approved last each question held."""
    return [str(asked.input).count("'approval_request_id': 'mcpr_2'") for asked in taken.models["desk"].calls]


async def test_an_approval_that_no_question_held_yet_is_sent_once(run: Run) -> None:
    taken = half_decided()
    state = await taken.over()
    assert [each.verdict for each in state.undelivered.decisions.values()] == ["approve"]
    state.approve(state.get_interruptions()[1])
    assert (await run(taken.agent, state)).final_output == "desk is done"
    assert sent_approvals(taken) == [1]


async def test_a_call_whose_first_question_got_no_reply_is_in_doubt(run: Run) -> None:
    """Its provider may have run it as it was asked: the approval is not sent again by itself."""
    taken = half_decided()
    state = await taken.over()
    state.approve(state.get_interruptions()[1])
    taken.models["desk"] = taken.agent.model = ScriptedModel([OSError("the line is dead"), "desk is done"])
    result = await run(taken.agent, state)
    assert [(item.tool_name, item.kind) for item in result.interruptions] == [("write", "in_doubt")]
    state = result.to_state()
    state.resolve(state.get_interruptions()[0], "ran")
    assert (await run(taken.agent, state)).final_output == "desk is done"
    assert "'approve': True" not in str(taken.models["desk"].calls[-1].input[3:]), "it is not sent again"


async def test_another_server_of_the_name() -> None:
    async with QuotaUse("local_server").connected() as taken:
        assert next(iter((await taken.over()).undelivered.decisions.values())).verdict == "approve"
        moved = deepcopy(taken.state)
        moved["last_processed_response"]["mcp_tool_bindings"]["n1"] = ["vault", "delete_note", 0]
        with pytest.raises(StateRejected, match="another MCP server"):
            await RunState.from_openai_agents(taken.agent, moved, trust=True)


async def test_a_call_that_the_state_hides_from_people_is_left_to_the_gate(run: Run) -> None:
    """A state in which an undecided call does not wait any more starts nothing: its tool asks here."""
    taken = QuotaUse("waiting")
    taken.state["current_step"]["data"]["interruptions"] = []
    result = await run(taken.agent, await taken.over())
    assert ([item.tool_name for item in result.interruptions], taken.done) == (["pay", "pay"], [])
    taken = QuotaUse("waiting")
    taken.state["context"]["tool_invocations"] = {}
    assert calls_of(await taken.over()) == [("pay", "in_doubt")] * 2, "nobody knows how far they came"


async def test_one_state_is_taken_over_once(run: Run) -> None:
    taken = QuotaUse("decided")
    first, again = await taken.over(), await taken.over()
    await run(taken.agent, first)
    with pytest.raises(Conflict, match="stale"):
        await run(taken.agent, again)
    assert taken.done == ["pay ann 5"]


async def test_an_app_takes_runs_over_into_its_journal() -> None:
    taken = QuotaUse("nested")
    async with App([taken.agent], "memory://") as app:
        started = await app.take_over("desk", taken.state, trust=True)
        assert (await started.wait(20)).status == "waiting"
        with pytest.raises(Conflict, match=started.id):
            await app.take_over("desk", taken.state, trust=True)
        for request in await app.inbox.list():
            await app.inbox.approve(request, by="ada")
        await until(lambda: len(taken.done) == 2)
        while (await started.wait(20)).status != "finished":
            pass
        assert (await started.result(20)).final_output == "desk is done"
        assert (await check(app.journal)).ok
    with pytest.raises(StateRejected, match="trust=True"):
        await app.take_over("desk", taken.state)


ODD: list[tuple[str, tuple[Any, ...], Any]] = [
    ("waiting", ("model_responses", 0, "output", 0, "type"), 5),
    ("waiting", ("model_responses", 0, "output", 0, "type"), None),
    ("waiting", ("model_responses", 0, "output", 0, "call_id"), {"a": 1}),
    ("waiting", ("model_responses", 0, "output", 0, "arguments"), [1]),
    ("waiting", ("original_input",), [{"type": []}]),
    ("waiting", ("context", "usage", "input_tokens_details"), [{"cached_tokens": "many"}]),
    ("guarded", ("input_guardrail_results", 0, "output"), [1]),
    ("guarded", ("input_guardrail_results", 0, "guardrail"), "name"),
    ("nested", ("last_processed_response", "functions", 0, "agent_run_state", "original_input"), [{"id": 5}]),
]


@pytest.mark.parametrize(("name", "path", "odd"), ODD)
async def test_a_state_with_a_part_of_another_type_is_refused_before_anything_of_it_is_taken_over(
    name: str, path: tuple[Any, ...], odd: Any
) -> None:
    taken = QuotaUse(name)
    part: Any = taken.state
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = odd
    with pytest.raises(StateRejected, match="nothing of it was taken over"):
        await taken.over()


async def test_a_tool_whose_parameters_are_not_as_that_sdk_saves_them_has_changed() -> None:
    taken = QuotaUse("decided")
    for entry in taken.state["last_processed_response"]["functions"]:
        entry["tool"]["paramsJsonSchema"]["properties"] = [1]
    with pytest.warns(UserWarning, match="the tool has changed since"):
        await taken.over()
