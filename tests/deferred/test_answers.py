"""A run that waits returns requests, and goes on with results: approvals, external results, some now and some then."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import ApprovalRequired, CallDeferred, ToolMissing, UserError
from keyturn.deferred import (
    Agent,
    DeferredToolRequests,
    DeferredToolResults,
    ExternalToolset,
    ModelRetry,
    RunContext,
    ToolApproved,
    ToolDefinition,
    ToolDenied,
    ToolReturn,
    WrongResults,
)
from keyturn.testing import ScriptedModel
from tests.deferred.playing import TEXT_OR_REQUESTS, Bank, call


async def test_a_call_that_must_be_approved_waits_and_runs_once(run: Any, carry: Any) -> None:
    bank = Bank()
    waits = await run(bank.agent, "Pay 10.")
    assert isinstance(waits.output, DeferredToolRequests)
    [part] = waits.output.approvals
    assert (part.tool_name, part.args, part.tool_call_id, bank.ran) == ("pay", {"amount": 10}, "c1", [])
    done = await run(
        bank.agent,
        message_history=carry(waits.all_messages()),
        deferred_tool_results=DeferredToolResults(approvals={part.tool_call_id: True}),
    )
    assert (done.output, bank.ran) == ("Paid.", [("pay", 10)])
    assert done.run_id == waits.run_id
    assert [part.part_kind for message in done.new_messages() for part in message.parts] == ["tool-return", "text"]


@pytest.mark.parametrize(
    ("said", "words"),
    [(False, "The tool call was denied."), (ToolDenied(), "The tool call was denied."), (ToolDenied("No."), "No.")],
    ids=["False", "ToolDenied", "a message"],
)
async def test_a_denied_call_does_not_run_and_its_model_is_told(run: Any, carry: Any, said: Any, words: str) -> None:
    bank = Bank()
    waits = await run(bank.agent, "Pay 10.")
    results = DeferredToolResults(approvals={"c1": said})
    done = await run(bank.agent, message_history=carry(waits.all_messages()), deferred_tool_results=results)
    assert (done.output, bank.ran) == ("Paid.", [])
    assert [part.content for part in done.new_messages()[0].parts] == [words]


async def test_other_arguments_take_the_place_of_all_and_the_model_is_told(run: Any, carry: Any) -> None:
    bank = Bank()
    waits = await run(bank.agent, "Pay 10.")
    results = waits.output.build_results(approvals={"c1": ToolApproved(override_args={"amount": 3})})
    done = await run(bank.agent, message_history=carry(waits.all_messages()), deferred_tool_results=results)
    assert bank.ran == [("pay", 3)]
    assert '{"amount":3}' in done.new_messages()[0].parts[0].content


@pytest.mark.parametrize("wrong", [{}, {"amount": "much"}, {"amount": 3, "to": "eve"}], ids=["none", "no int", "more"])
async def test_other_arguments_that_do_not_fit_are_refused_and_the_call_still_waits(
    run: Any, carry: Any, wrong: Any
) -> None:
    bank = Bank()
    history = carry((await run(bank.agent, "Pay 10.")).all_messages())
    bad = DeferredToolResults(approvals={"c1": ToolApproved(override_args=wrong)})
    with pytest.raises(UserError, match="do not fit 'pay'"):
        await run(bank.agent, message_history=history, deferred_tool_results=bad)
    assert bank.ran == []
    await run(bank.agent, message_history=history, deferred_tool_results=DeferredToolResults(approvals={"c1": True}))
    assert bank.ran == [("pay", 10)]


async def test_some_are_answered_now_and_the_others_another_time(run: Any, carry: Any) -> None:
    bank = Bank([call("pay", "c1", amount=1), call("look", "c2"), call("pay", "c3", amount=3)], "Paid.")
    waits = await run(bank.agent, "Pay both.")
    assert bank.ran == ["look"]
    results = DeferredToolResults(approvals={"c3": True})
    some = await run(bank.agent, message_history=carry(waits.all_messages()), deferred_tool_results=results)
    assert [part.tool_call_id for part in some.output.approvals] == ["c1"]
    assert bank.ran == ["look", ("pay", 3)]
    results = DeferredToolResults(approvals={"c1": True})
    done = await run(bank.agent, message_history=carry(some.all_messages()), deferred_tool_results=results)
    assert (done.output, bank.ran) == ("Paid.", ["look", ("pay", 3), ("pay", 1)])
    returns = [p.tool_call_id for m in done.all_messages() for p in m.parts if p.part_kind == "tool-return"]
    assert returns == ["c1", "c2", "c3"], "the model reads results in the order of its calls"


async def test_without_results_it_waits_as_before(run: Any, carry: Any) -> None:
    bank = Bank()
    waits = await run(bank.agent, "Pay 10.")
    again = await run(bank.agent, message_history=carry(waits.all_messages()))
    assert [part.tool_call_id for part in again.output.approvals] == ["c1"]
    assert bank.ran == []


async def test_a_prompt_beside_results_is_read_after_them(run: Any, carry: Any) -> None:
    bank = Bank()
    waits = await run(bank.agent, "Pay 10.")
    results = DeferredToolResults(approvals={"c1": True})
    done = await run(
        bank.agent, "And hurry.", message_history=carry(waits.all_messages()), deferred_tool_results=results
    )
    assert [part.part_kind for part in done.new_messages()[0].parts] == ["tool-return", "user-prompt"]
    assert done.output == "Paid."


async def test_a_prompt_without_results_is_refused_while_calls_wait(run: Any, carry: Any) -> None:
    bank = Bank()
    waits = await run(bank.agent, "Pay 10.")
    with pytest.raises(UserError, match="deferred_tool_results="):
        await run(bank.agent, "And now?", message_history=carry(waits.all_messages()))


def errand(*steps: Any) -> tuple[Agent[Any], list[Any]]:
    """An agent whose tools ask from inside: for approval above 100, and for a result from elsewhere."""
    agent: Agent[Any] = Agent(ScriptedModel([*steps]), output_type=TEXT_OR_REQUESTS)
    log: list[Any] = []

    @agent.tool
    def pay(ctx: RunContext[Any], amount: int) -> str:
        log.append((amount, ctx.tool_call_approved, ctx.tool_call_metadata))
        if amount > 100 and not ctx.tool_call_approved:
            raise ApprovalRequired(metadata={"limit": 100})
        return f"paid {amount}"

    @agent.tool_plain
    async def ship(to: str) -> str:
        log.append(to)
        raise CallDeferred(metadata={"job": 7})

    return agent, log


async def test_approval_asked_for_inside_a_tool(run: Any, carry: Any) -> None:
    agent, log = errand([call("pay", "c1", amount=300), call("pay", "c2", amount=5)], "Done.")
    waits = await run(agent, "Pay.")
    assert [part.args for part in waits.output.approvals] == [{"amount": 300}]
    assert waits.output.metadata == {"c1": {"limit": 100}}
    assert log == [(300, False, None), (5, False, None)]
    results = DeferredToolResults(approvals={"c1": True}, metadata={"c1": {"ticket": "T-1"}})
    done = await run(agent, message_history=carry(waits.all_messages()), deferred_tool_results=results)
    assert (done.output, log[2:]) == ("Done.", [(300, True, {"ticket": "T-1"})])


async def test_approval_asked_for_inside_a_tool_and_denied(run: Any, carry: Any) -> None:
    agent, log = errand([call("pay", amount=300)], "Done.")
    waits = await run(agent, "Pay.")
    results = DeferredToolResults(approvals={"c1": ToolDenied("Too much.")})
    done = await run(agent, message_history=carry(waits.all_messages()), deferred_tool_results=results)
    assert (done.new_messages()[0].parts[0].content, len(log)) == ("Too much.", 1)


async def test_approval_asked_for_inside_a_tool_with_other_arguments(run: Any, carry: Any) -> None:
    agent, log = errand([call("pay", amount=300)], "Done.")
    waits = await run(agent, "Pay.")
    results = DeferredToolResults(approvals={"c1": ToolApproved(override_args={"amount": 200})})
    await run(agent, message_history=carry(waits.all_messages()), deferred_tool_results=results)
    assert log[1:] == [(200, True, None)]


@pytest.mark.each
@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("sent", "sent"),
        ({"box": 1}, '{"box": 1}'),
        (ToolReturn("sent", metadata=5), "sent"),
        (ModelRetry("Try"), "Try"),
    ],
    ids=["text", "data", "ToolReturn", "ModelRetry"],
)
async def test_the_result_of_an_external_call(run: Any, carry: Any, given: Any, read: str) -> None:
    agent, log = errand([call("ship", to="ada")], "Done.")
    waits = await run(agent, "Ship it.")
    assert ([part.args for part in waits.output.calls], waits.output.approvals) == ([{"to": "ada"}], [])
    assert waits.output.metadata == {"c1": {"job": 7}}
    results = DeferredToolResults(calls={"c1": given})
    done = await run(agent, message_history=carry(waits.all_messages()), deferred_tool_results=results)
    assert (done.new_messages()[0].parts[0].content, done.output) == (read, "Done.")
    assert log == ["ada"], "its tool is not called again"


async def test_a_tool_that_is_declared_and_carried_out_elsewhere(run: Any, carry: Any) -> None:
    schema = {"type": "object", "properties": {"to": {"type": "string"}}}
    toolset = ExternalToolset([ToolDefinition("ship", schema, "Ships.")])
    agent: Agent[Any] = Agent(ScriptedModel([[call("ship", to="ada")], "Done."]), toolsets=[toolset])
    waits = await run(agent, "Ship it.")
    assert [(part.tool_name, part.args) for part in waits.output.calls] == [("ship", {"to": "ada"})]
    results = DeferredToolResults(calls={"c1": "sent"})
    done = await run(agent, message_history=carry(waits.all_messages()), deferred_tool_results=results)
    assert done.new_messages()[0].parts[0].content == "sent"


WRONG: list[tuple[str, Any, str]] = [
    ("an unknown id", {"approvals": {"c9": True}}, "'c9', and no call of that id waits"),
    ("an unknown id beside a known one", {"approvals": {"c1": True, "c9": True}}, "'c9'"),
    ("a result for what waits for approval", {"calls": {"c1": "paid"}}, "waits for an approval: put it into approvals"),
    ("an approval for what waits for a result", {"approvals": {"c2": True}}, "put it into calls"),
    ("None", {"approvals": {"c1": None}}, "not None"),
    ("a text", {"approvals": {"c1": "false"}}, "not 'false'"),
    ("a number", {"approvals": {"c1": 1}}, "not 1"),
    ("a dict", {"approvals": {"c1": {"approved": True}}}, "is True, False"),
    ("metadata of a denial", {"approvals": {"c1": False}, "metadata": {"c1": {}}}, "is not approved"),
    ("metadata of nothing", {"metadata": {"c9": {}}}, "'c9'"),
    ("arguments that are a list", {"approvals": {"c1": ToolApproved(override_args=[1])}}, "override_args is a dict"),
    ("a denial without words", {"approvals": {"c1": ToolDenied(None)}}, "message is a text"),
    ("a word on what is in no doubt", {"in_doubt": {"c1": "ran"}}, "put it into approvals"),
    ("a list", {"approvals": ["c1"]}, "is a dict by tool_call_id"),
]


@pytest.mark.each
@pytest.mark.parametrize(("given", "words"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
async def test_results_that_do_not_answer_what_waits_are_refused(run: Any, given: Any, words: str) -> None:
    agent, log = errand([call("pay", "c1", amount=300), call("ship", "c2", to="ada")], "Done.")
    history = (await run(agent, "Go.")).all_messages()
    before = [*log]
    with pytest.raises(WrongResults, match=words):
        await run(agent, message_history=history, deferred_tool_results=DeferredToolResults(**given))
    assert log == before
    assert isinstance((await run(agent, message_history=history)).output, DeferredToolRequests)


def test_build_results_checks_at_once() -> None:
    bank = Bank()
    requests = bank.agent.run_sync("Pay.").output
    with pytest.raises(ValueError, match="'c9'"):
        requests.build_results(approvals={"c9": True})
    assert requests.build_results(approve_all=True).approvals == {"c1": True}
    assert requests.build_results(approvals={"c1": False}, approve_all=True).approvals == {"c1": False}
    assert requests.remaining(DeferredToolResults()) == requests
    assert requests.remaining(requests.build_results(approve_all=True)) is None


async def test_results_without_a_history_are_refused(run: Any) -> None:
    with pytest.raises(WrongResults, match="answers calls of a message_history"):
        await run(Bank().agent, "Pay.", deferred_tool_results=DeferredToolResults(approvals={"c1": True}))


async def test_a_tool_that_is_gone_is_named(run: Any) -> None:
    bank = Bank(name="bank")
    waits = await run(bank.agent, "Pay 10.")
    other: Agent[Any] = Agent(ScriptedModel(["?"]), name="bank")
    with pytest.raises(ToolMissing, match="pay"):
        await run(
            other,
            message_history=waits.all_messages(),
            deferred_tool_results=DeferredToolResults(approvals={"c1": True}),
        )


async def test_results_of_one_history_answer_no_call_of_another(run: Any, carry: Any) -> None:
    """Models number their calls: the same id is another call in another conversation."""
    first, second = Bank(), Bank([call("pay", amount=9_000)], "Paid.")
    shown, waits = await run(first.agent, "Pay 10."), await run(second.agent, "Pay 9,000.")
    results = shown.output.build_results(approve_all=True)
    with pytest.raises(WrongResults, match="another call with the id 'c1'"):
        await run(second.agent, message_history=carry(waits.all_messages()), deferred_tool_results=results)
    own = waits.output.build_results(approvals={"c1": False})
    own.update(results)
    with pytest.raises(WrongResults, match="another call with the id 'c1'"):
        await run(second.agent, message_history=waits.all_messages(), deferred_tool_results=own)
    assert second.ran == []
    done = await run(first.agent, message_history=carry(shown.all_messages()), deferred_tool_results=results)
    assert (done.output, first.ran) == ("Paid.", [("pay", 10)])
