"""What a decision does, who may give one, and what it is shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from keyturn import (
    Agent,
    Conflict,
    FunctionTool,
    NotPending,
    RunConfig,
    RunState,
    ToolApprovalItem,
    ToolContext,
    ToolMissing,
    UserError,
    function_tool,
)
from keyturn.core import commands as cm
from keyturn.core.codec import Log
from keyturn.core.decide import step
from keyturn.core.events import CallDecided, CallStarted, Decision, VoteCast
from keyturn.core.people import Decider
from keyturn.core.run import call_digest
from keyturn.testing import approve_all
from tests.playing import (
    Carry,
    Effects,
    Run,
    call,
    events,
    fresh,
    item_of,
    labels,
    payer_of_two,
    raw_call,
    script,
    told,
)

# ---------------------------------------------------------------------------------------- 8: approve, 10: reject


async def test_an_approval_lets_exactly_that_call_run(run: Run, carry: Carry, effects: Effects) -> None:
    agent = payer_of_two(effects)
    state = await carry(agent, (await run(agent, "go")).to_state())
    state.approve(item_of(state, "c2"), by="ann", note="seen the invoice")
    result = await run(agent, state)
    assert (labels(result), effects) == (["c1"], [("pay", "bob", 5)])
    [decided] = events(result, CallDecided)
    decision = decided.decision
    assert (decision.verdict, decision.by, decision.note) == ("approve", "ann", "seen the invoice")


async def test_a_tool_is_told_who_let_it_run(run: Run, carry: Carry, effects: Effects) -> None:
    """`context.approval` is the decision, None where nobody was asked."""

    async def pay(context: ToolContext[Any], to: str) -> str:
        """Pay."""
        approval = context.approval
        effects.append(None if approval is None else (approval.by, approval.note, approval.verdict))
        assert (context.tool_name, context.run_id, context.agent.name) == ("pay", result.run_id, "a")
        return "paid"

    agent = Agent(
        "a", model=script([call("pay", "c1", to="ada")], "done"), tools=[function_tool(pay, needs_approval=True)]
    )
    result = await run(agent, "go")
    state = await carry(agent, result.to_state())
    state.approve(state.get_interruptions()[0], by="ann", note="fine")
    await run(agent, state)
    assert effects == [("ann", "fine", "approve")]


@pytest.mark.parametrize(
    ("formatter", "message", "expected"),
    [
        (None, None, "Tool execution was not approved."),
        (
            lambda args: f"{args.kind} {args.tool_type} {args.tool_name} {args.call_id}",
            None,
            "approval_rejected function pay c1",
        ),
        (lambda args: None, None, "Tool execution was not approved."),
        (lambda args: "the formatter's words", "the person's words", "the person's words"),
        (None, "the person's words", "the person's words"),
        (None, "", ""),
    ],
    ids=["default", "formatter", "formatter without words", "message beats formatter", "message", "empty message"],
)
async def test_a_rejection_gives_the_model_words_and_the_run_goes_on(
    run: Run, carry: Carry, effects: Effects, formatter: Any, message: str | None, expected: str
) -> None:
    """`rejection_message`, else the formatter's words, else the default."""
    agent = payer_of_two(effects, [call("pay", "c1", to="ada")])
    config = RunConfig(tool_error_formatter=formatter)
    state = await carry(agent, (await run(agent, "go", run_config=config)).to_state())
    state.reject(state.get_interruptions()[0], rejection_message=message)
    result = await run(agent, state, run_config=config)
    assert (result.final_output, effects, told(agent.model)) == ("done", [], [("c1", expected)])
    assert events(result, CallStarted) == []


async def test_an_async_formatter_says_its_words(run: Run, effects: Effects) -> None:

    async def formatter(args: Any) -> str:
        return f"{args.default_message} Ask {args.run_context.context} first."

    agent = payer_of_two(effects, [call("pay", "c1", to="ada")])
    config = RunConfig(tool_error_formatter=formatter)
    state = (await run(agent, "go", run_config=config, context="ann")).to_state()
    state.reject(state.get_interruptions()[0])
    await run(agent, state, run_config=config)
    assert told(agent.model) == [("c1", "Tool execution was not approved. Ask ann first.")]


# ------------------------------------------------------------------------------------------------------ 12: answer


@pytest.mark.parametrize("value", ["by hand", {"paid": True}, [1, 2], 0, False], ids=repr)
async def test_an_answer_is_the_calls_result_and_the_tool_does_not_run(
    run: Run, carry: Carry, effects: Effects, value: Any
) -> None:
    """Rendered as the tool's own return value would be."""

    async def same() -> Any:
        return value

    agent = payer_of_two(effects, [call("pay", "c1", to="ada"), call("same", "c2")])
    agent.tools.append(function_tool(same))
    state = await carry(agent, (await run(agent, "go")).to_state())
    state.answer(state.get_interruptions()[0], value, by="ann")
    result = await run(agent, state)
    outputs = dict(told(agent.model))
    assert (result.final_output, effects) == ("done", [])
    assert outputs["c1"] == outputs["c2"]
    assert events(result, CallDecided)[0].decision.by == "ann"


# --------------------------------------------------------------------------- 13: repeated and replaced decisions


async def test_repeating_a_decision_in_hand_is_harmless(run: Run, carry: Carry, effects: Effects) -> None:
    agent = payer_of_two(effects, [call("pay", "c1", to="ada")])
    state = (await run(agent, "go")).to_state()
    for _ in range(3):
        state.approve(state.get_interruptions()[0])
    state = await carry(agent, state)
    state.approve(state.get_interruptions()[0])
    result = await run(agent, state)
    assert (effects, len(events(result, CallDecided))) == ([("pay", "ada", 5)], 1)


CHANGES: dict[str, tuple[list[str], list[Any], str]] = {
    "reject, then approve": (["reject", "approve"], [("pay", "ada", 5)], "pay: 5 to ada"),
    "approve, then reject": (["approve", "reject"], [], "Tool execution was not approved."),
    "always approve, then reject": (["always", "reject"], [], "Tool execution was not approved."),
    "edit, then approve": (["edit", "approve"], [("pay", "ada", 5)], "pay: 5 to ada"),
    "approve, then answer": (["approve", "answer"], [], "by hand"),
    "answer, reject, approve": (["answer", "reject", "approve"], [("pay", "ada", 5)], "pay: 5 to ada"),
}


@pytest.mark.parametrize(("verbs", "done", "output"), CHANGES.values(), ids=CHANGES.keys())
async def test_a_later_decision_in_hand_replaces_the_earlier_one(
    run: Run, carry: Carry, effects: Effects, verbs: list[str], done: list[Any], output: str
) -> None:
    """Both stay recorded, one is carried out, and a grant that came with the earlier one is gone."""
    agent = payer_of_two(effects, [call("pay", "c1", to="ada")])
    state = (await run(agent, "go")).to_state()
    for verb in verbs:
        state = await carry(agent, state)
        item = state.get_interruptions()[0]
        if verb == "always":
            state.approve(item, always_approve=True)
        elif verb == "edit":
            state.approve(item, edit={"to": "eve", "amount": 1})
        elif verb == "answer":
            state.answer(item, "by hand")
        else:
            getattr(state, verb)(item)
        assert labels(state) == ["c1"], "a decided call stays listed until the run is resumed"
    assert state.grants == []
    result = await run(agent, state)
    assert (effects, told(agent.model)) == (done, [("c1", output)])
    assert len(events(result, CallDecided)) == 1
    replaced = [vote.decision.verdict for vote in events(result, VoteCast) if vote.replaced]
    assert replaced == ["approve" if verb == "always" else verb for verb in verbs[:-1]]


@pytest.mark.parametrize("verb", ["approve", "reject", "answer", "edit"])
async def test_in_a_shared_log_the_first_decision_stands_and_a_different_one_is_a_conflict(
    run: Run, effects: Effects, verb: str
) -> None:
    """The same again is harmless, another names the winner, when, and what."""
    agent = payer_of_two(effects)
    log = (await run(agent, "go")).to_state().live.log
    held = Log.read(log.lines()).run
    waiting = next(iter(held.groups["wait"].values()))
    words: dict[str, Any] = {"args": '{"amount":1,"to":"eve"}'} if verb == "edit" else {}
    words |= {"output": "by hand"} if verb == "answer" else {}
    first = Decision(waiting.id, verb, call_digest(held, waiting), at=1_000, decider=Decider("ann"), **words)
    assert [type(event) for event in step(held, cm.Deliver([first]), 1_000)] == [CallDecided]
    again = Decision(first.call, verb, first.digest, at=2_000, decider=Decider("bob"), **words)
    assert step(held, cm.Deliver([again]), 2_000) == []
    others = [
        Decision(first.call, "reject", first.digest, at=3_000, decider=Decider("bob"), message="no"),
        Decision(first.call, "approve", first.digest, at=3_000, decider=Decider("bob")),
        Decision(first.call, "answer", first.digest, at=3_000, decider=Decider("bob"), output="otherwise"),
        Decision(first.call, "edit", first.digest, at=3_000, decider=Decider("bob"), args='{"amount":2,"to":"eve"}'),
    ]
    for other in others:
        if (other.verdict, words) == (verb, {}) and other.message is None:
            continue
        with pytest.raises(Conflict) as raised:
            step(held, cm.Deliver([other]), 3_000)
        assert (raised.value.winner, raised.value.decision, raised.value.at) == ("ann", verb, held.now)
        assert "ann" in str(raised.value)
    assert effects == []


async def test_states_of_one_result_do_not_share_decisions(run: Run, effects: Effects) -> None:
    """api.md: each `to_state()` is independent; so are two loads of one text."""
    agent = payer_of_two(effects)
    result = await run(agent, "go")
    one, other = result.to_state(), result.to_state()
    one.approve(item_of(one, "c1"), always_approve=True)
    one.add_input("and hurry")
    assert (other.undelivered.decisions, other.grants, other.pending_input) == ({}, [], [])
    text = one.to_string()
    third, fourth = await RunState.from_string(agent, text), await RunState.from_string(agent, text)
    third.reject(item_of(third, "c1"))
    assert [decision.verdict for decision in fourth.undelivered.decisions.values()] == ["approve"]
    assert len(fourth.grants) == 1
    result = await run(agent, other)
    assert (labels(result), effects) == (["c1", "c2"], [])


async def test_input_added_to_a_run_that_has_not_started_is_read_once(run: Run, carry: Carry, effects: Effects) -> None:
    """What was delivered is not in hand any more."""
    agent = payer_of_two(effects, [call("pay", "c1", to="ada")])
    state = fresh(agent)
    state.add_input("and hurry")
    result = await run(agent, state)
    assert state.pending_input == []
    state.approve(state.get_interruptions()[0])
    result = await run(agent, await carry(agent, state))
    texts = [item.get("content") for item in agent.model.calls[-1].input if item.get("role") == "user"]
    assert (texts, result.final_output, effects) == (["go", "and hurry"], "done", [("pay", "ada", 5)])


# ------------------------------------------------------------------------------------------------ 14: not pending


class LookAlike:
    """Somebody's own object with the attributes of an item."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


@pytest.mark.parametrize("verb", ["approve", "reject", "answer"])
async def test_what_does_not_wait_cannot_be_decided(run: Run, carry: Carry, effects: Effects, verb: str) -> None:
    """Made-up items, other runs' items, settled items; and nothing is changed by trying."""
    agent, other = payer_of_two(effects), payer_of_two(effects)
    other_item = (await run(other, "go")).interruptions[0]
    result = await run(agent, "go")
    state = await carry(agent, result.to_state())
    real = item_of(state, "c1")
    facts = {name: getattr(real, name) for name in ("call", "run_id", "digest")}
    foreign: list[Any] = [
        other_item,
        ToolApprovalItem(agent, {"type": "function_call", "name": "pay", "call_id": "c1", "arguments": '{"to":"ada"}'}),
        ToolApprovalItem(agent, real.raw_item, "pay"),
        LookAlike(**{**facts, "call": "r/1.7"}),
        LookAlike(**{**facts, "run_id": other_item.run_id}),
        LookAlike(**{**facts, "digest": other_item.digest}),
        LookAlike(call_id="c1"),
        LookAlike(call=real.call),
        LookAlike(call=[real.call], run_id=real.run_id, digest=real.digest),
        {"call_id": "c1"},
        "c1",
        real.call,
        real.request_id,
        None,
        0,
    ]
    extra = ("by hand",) if verb == "answer" else ()
    for item in foreign:
        with pytest.raises(NotPending):
            getattr(state, verb)(item, *extra)
    assert (state.undelivered.decisions, state.grants) == ({}, [])
    result = await run(agent, state)
    assert (labels(result), effects) == (["c1", "c2"], [])


async def test_an_item_that_was_settled_cannot_be_decided_again(run: Run, carry: Carry, effects: Effects) -> None:
    agent = payer_of_two(effects)
    state = await carry(agent, (await run(agent, "go")).to_state())
    settled = item_of(state, "c1")
    state.approve(settled)
    result = await run(agent, state)
    for holder in (state, await carry(agent, result.to_state())):
        for decide in (holder.approve, holder.reject, lambda item, to=holder: to.answer(item, "x")):
            with pytest.raises(NotPending):
                decide(settled)
    assert effects == [("pay", "ada", 5)]


async def test_an_item_of_another_load_of_the_same_run_is_the_same_call(run: Run, effects: Effects) -> None:
    """What counts is the call, the run and the digest, not the Python object."""
    agent = payer_of_two(effects)
    result = await run(agent, "go")
    state = await RunState.from_string(agent, result.to_state().to_string())
    state.approve(item_of(result, "c2"))
    await run(agent, state)
    assert effects == [("pay", "bob", 5)]


async def test_changing_an_item_changes_nothing_that_runs(run: Run, carry: Carry, effects: Effects) -> None:
    """An item is a view; a digest that was put into it approves nothing."""
    agent = payer_of_two(effects)
    state = await carry(agent, (await run(agent, "go")).to_state())
    item, other = state.get_interruptions()
    item.raw_item["arguments"] = '{"to":"eve","amount":999}'
    item.params["amount"] = 999
    item.text = '{"to":"eve","amount":999}'
    item.tool_name = "look"
    state.approve(item)
    result = await run(agent, state)
    assert effects == [("pay", "ada", 5)]
    state = result.to_state()
    [item] = state.get_interruptions()
    with pytest.raises(AttributeError):
        item.digest = other.digest[::-1]
    item.request = msgspec.structs.replace(item.request, digest=other.digest[::-1])
    with pytest.raises(Conflict):
        state.approve(item)
    await run(agent, state)
    assert effects == [("pay", "ada", 5)]


async def test_a_grant_on_a_stale_state_is_refused_and_named(run: Run, effects: Effects) -> None:
    """Another handle moved the run on; a typed error says so, whatever is decided."""
    agent = payer_of_two(effects)
    result = await run(agent, "go")
    stale, current = result.to_state(), result.to_state()
    approve_all(current)
    await run(agent, current)
    with pytest.raises(Conflict):
        stale.approve(item_of(stale, "c1"), always_approve=True)
    with pytest.raises(Conflict):
        stale.reject(item_of(stale, "c2"), always_reject=True)
    assert (len(effects), stale.undelivered.decisions) == (2, {})


async def test_the_verbs_of_approval_and_of_doubt_are_not_mixed(run: Run, carry: Carry, effects: Effects) -> None:
    agent = payer_of_two(effects)
    state = await carry(agent, (await run(agent, "go")).to_state())
    for outcome in ("ran", "did_not_run", "retry"):
        with pytest.raises(NotPending, match="approve"):
            state.resolve(item_of(state, "c1"), outcome)
    with pytest.raises(UserError):
        state.resolve(item_of(state, "c1"), "perhaps")  # type: ignore[arg-type]  # what a caller without types does
    assert state.undelivered.decisions == {}


async def test_a_calls_of_the_context_wrapper_are_decisions_as_well(run: Run, carry: Carry, effects: Effects) -> None:
    """`approve_tool`, `reject_tool` and the questions beside them."""
    agent = payer_of_two(effects)
    result = await run(agent, "go")
    wrapper = result.context_wrapper
    assert wrapper.is_tool_approved("pay", "c1") is None
    wrapper.approve_tool(item_of(result, "c1"))
    wrapper.reject_tool(item_of(result, "c2"), rejection_message="no")
    assert (wrapper.is_tool_approved("pay", "c1"), wrapper.is_tool_approved("pay", "c2")) == (True, False)
    result = await run(agent, await carry(agent, result.to_state()))
    assert (result.final_output, effects) == ("done", [("pay", "ada", 5)])
    wrapper = result.context_wrapper
    assert (wrapper.is_tool_approved("pay", "c1"), wrapper.get_approval_status("pay", "c2")) == (True, False)
    assert wrapper.get_rejection_message("pay", "c2") == "no"


async def test_a_decision_of_the_context_wrapper_is_not_lost_by_a_resume_that_was_refused(
    run: Run, effects: Effects
) -> None:
    """The tool was not there; once it is, the decision still stands, and once only."""
    agent = payer_of_two(effects, [call("pay", "c1", to="ada")])
    result = await run(agent, "go")
    result.context_wrapper.approve_tool(result.interruptions[0])
    for _ in range(2):
        with pytest.raises(ToolMissing):
            await run(Agent("a", model=script("done")), result)
    result = await run(agent, result)
    assert (result.final_output, effects, result.context_wrapper.decisions) == ("done", [("pay", "ada", 5)], [])


# ------------------------------------------------------------------------------------ 34: arguments, 35: call ids

TEXTS = {
    "as it is": '{"to":"ada","amount":3}',
    "spaces": ' { "to" : "ada",\n "amount": 3 } ',
    "other order": '{"amount":3,"to":"ada"}',
    "escapes": '{"to":"\\u0061da","amount":3}',
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
async def test_arguments_are_the_models_own_text_where_it_says_what_runs(
    run: Run, carry: Carry, effects: Effects, text: str
) -> None:
    """Byte for byte, on the item, in the tool's context and for `on_invoke_tool`."""
    seen: list[Any] = []

    async def by_hand(context: ToolContext[Any], arguments: str) -> str:
        seen.append((context.tool_arguments, arguments))
        return "ok"

    async def pay(context: ToolContext[Any], to: str, amount: int) -> str:
        seen.append((context.tool_arguments, {"to": to, "amount": amount}))
        return "ok"

    schema = {"type": "object", "properties": {"to": {"type": "string"}, "amount": {"type": "integer"}}}
    own = FunctionTool("own", "By hand.", schema, by_hand, strict_json_schema=False, needs_approval=True)
    reply = [raw_call("pay", "c1", text), raw_call("own", "c2", text)]
    agent = Agent("a", model=script(reply, "done"), tools=[function_tool(pay, needs_approval=True), own])
    state = await carry(agent, (await run(agent, "go")).to_state())
    for item in state.get_interruptions():
        assert item.arguments == text
        assert item.params == {"to": "ada", "amount": 3}
        state.approve(item)
    await run(agent, state)
    assert (text, text) in seen
    assert (text, {"to": "ada", "amount": 3}) in seen


async def test_arguments_are_the_canonical_form_where_defaults_or_coercion_changed_them(
    run: Run, carry: Carry, effects: Effects
) -> None:
    """What will run is what is shown; the model's own call is not rewritten."""
    seen: list[str] = []

    async def pay(context: ToolContext[Any], to: str, amount: int = 500) -> str:
        seen.append(context.tool_arguments)
        return "ok"

    reply = [raw_call("pay", "c1", '{"to": "ada"}'), raw_call("pay", "c2", '{"to": "bob", "amount": "7"}')]
    tool = function_tool(pay, needs_approval=True, strict_mode=False)
    agent = Agent("a", model=script(reply, "done"), tools=[tool])
    state = await carry(agent, (await run(agent, "go")).to_state())
    shown = [item.arguments for item in state.get_interruptions()]
    assert shown == ['{"amount":500,"to":"ada"}', '{"amount":7,"to":"bob"}']
    assert [item.params for item in state.get_interruptions()] == [json.loads(text) for text in shown]
    approve_all(state)
    await run(agent, state)
    assert sorted(seen) == sorted(shown)
    said = [item["arguments"] for item in agent.model.calls[-1].input if item.get("type") == "function_call"]
    assert said == ['{"to": "ada"}', '{"to": "bob", "amount": "7"}']


async def test_a_digest_covers_the_value_and_not_its_spelling(
    run: Run, effects: Effects, another_process: Callable[[], None]
) -> None:
    """Of one call, two spellings have one digest; another value, call or run has another."""
    digests: set[str] = set()
    for text in ('{"to":"ada","amount":3}', '{"amount": 3, "to": "ada"}', '{"to":"ada","amount":4}'):
        another_process()
        agent = payer_of_two(effects, [raw_call("pay", "c1", text)])
        state = fresh(agent)
        state.live.log.run.id = "00" * 16
        result = await run(agent, state)
        digests.add(result.interruptions[0].digest)
    assert len(digests) == 2
    result = await run(payer_of_two(effects), "go")
    assert len({item.digest for item in result.interruptions}) == 2


async def test_every_public_call_id_is_the_providers(run: Run, carry: Carry, effects: Effects) -> None:
    """Items, contexts, callables, formatters and results alike."""
    seen: list[str] = []

    def gate(_context: Any, _params: Any, label: str) -> bool:
        seen.append(label)
        return True

    async def pay(context: ToolContext[Any]) -> str:
        seen.append(context.tool_call_id)
        return "ok"

    def formatter(args: Any) -> None:
        seen.append(args.call_id)

    label = "call_A/1.0 ✓"
    reply = [call("pay", label), call("pay", label + "2")]
    agent = Agent("a", model=script(reply, "done"), tools=[function_tool(pay, needs_approval=gate)])
    config = RunConfig(tool_error_formatter=formatter)
    result = await run(agent, "go", run_config=config)
    state = await carry(agent, result.to_state())
    state.approve(item_of(state, label))
    state.reject(item_of(state, label + "2"))
    result = await run(agent, state, run_config=config)
    assert sorted(seen) == sorted([label, label + "2"] * 2)
    ids = [item.call_id for item in result.new_items if item.type in ("tool_call_item", "tool_call_output_item")]
    assert ids == [label, label + "2"] * 2
    assert [one for one, _ in told(agent.model)] == [label, label + "2"]
