"""What an attack found about deciding, in the places of the same kind: held since."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from keyturn import (
    Agent,
    Approval,
    KeyturnError,
    MemoryJournal,
    Policy,
    Preview,
    RunConfig,
    Runner,
    RunState,
    UserError,
    Verdict,
    function_tool,
)
from keyturn.core.errors import Conflict, NotPending, ToolMissing
from keyturn.inbox.desk import Inbox
from keyturn.policies.rules import allow, deny
from keyturn.testing import ScriptedModel, approve_all, function_call
from keyturn.testing.suites.door_case import payment
from keyturn.tools.apply_patch import ApplyPatchTool
from keyturn.tools.computer import ComputerTool
from keyturn.tools.local_shell import LocalShellTool
from keyturn.tools.shell import ShellTool

from .world import Desk, clerk, told

TWO = [function_call("pay", {"to": "ada", "amount": 1}), function_call("mail", {"to": "bob"})]


def two_tools(done: list[Any], approval: Approval | None = None) -> Agent[Any]:
    """An agent that pays and mails, both on somebody's word."""

    @function_tool(needs_approval=True)
    def mail(to: str) -> str:
        """Mails."""
        done.append(to)
        return "sent"

    model = ScriptedModel([TWO, "done", "done again"])
    return Agent("clerk", model=model, tools=[payment(done, approval=approval), mail])


def nested(tool: Any, **options: Any) -> Agent[Any]:
    """An agent that leaves a payment to another one."""
    pays = [function_call(tool.name, {"to": "a", "amount": 1})]
    inner = Agent("inner", model=ScriptedModel([pays, "in", "in again"]), tools=[tool])
    delegates = [function_call("delegate", {"input": "go"})]
    return Agent("outer", model=ScriptedModel([delegates, "done"]), tools=[inner.as_tool("delegate", "d", **options)])


# H2: what a call is named by -----------------------------------------------------------------------------------------


class Editor:
    """A patch's files, none of which is touched."""

    def create_file(self, *_given: Any) -> None: ...
    def update_file(self, *_given: Any) -> None: ...
    def delete_file(self, *_given: Any) -> None: ...


class Screen:
    """A screen that nobody looks at."""

    environment = "linux"
    dimensions = (10, 10)

    def __getattr__(self, _name: str) -> Any:
        return lambda *_given, **_more: ""


def unnamed() -> list[tuple[Any, dict[str, Any]]]:
    """Every kind whose calls name no tool, with a call that does."""
    command = {"type": "exec", "command": ["rm", "-rf", "/"], "env": {}}
    patch = {"type": "delete_file", "path": "a.txt"}
    return [
        (ShellTool(lambda request: "ran"), {"type": "shell_call", "action": {"commands": ["rm -rf /"]}}),
        (LocalShellTool(lambda request: "ran"), {"type": "local_shell_call", "action": command}),
        (ApplyPatchTool(Editor(), needs_approval=True), {"type": "apply_patch_call", "operation": patch}),
        (ComputerTool(Screen(), needs_approval=True), {"type": "computer_call", "action": {"type": "screenshot"}}),
    ]


async def test_a_call_is_named_by_the_tool_that_it_means() -> None:
    """H2: a call that named itself "search" ran under a policy's word on search, and was shown as that."""
    heard: list[str] = []
    rules = Policy(allow(tool="search"), deny(tool="*shell*"))

    def policy(call: Any, context: Any) -> Any:
        heard.append(call.tool)
        return rules(call, context)

    for tool, call in unnamed():
        item = {"id": "i1", "call_id": "c1", "status": "completed", **call, "name": "search"}
        agent = Agent("a", model=ScriptedModel([[item], "done"]), tools=[tool])
        shown = (await Runner.run(agent, "go")).interruptions
        assert [(one.tool_name, one.request.tool) for one in shown] == [(tool.name, tool.name)], tool
        agent = Agent("a", model=ScriptedModel([[item], "done"]), tools=[tool])
        heard.clear()
        await Runner.run(agent, "go", policy=policy)
        assert heard == [tool.name]


async def test_a_name_that_is_no_text_names_no_tool() -> None:
    """H2: a list as a name was a TypeError in the middle of a reply."""
    agent = clerk(payment([]), [{"to": "ada", "amount": 1}])
    agent.model = ScriptedModel([[{**function_call("pay", {}), "name": ["pay"]}], "done"])
    with pytest.raises(KeyturnError):
        await Runner.run(agent, "go")


# H6, M3, M4: words that are late -------------------------------------------------------------------------------------


async def test_a_tool_that_a_live_request_needs_is_still_missed() -> None:
    """H6: time settles what ran out, and nothing else: the decision on what is left is not used up."""
    done: list[Any] = []
    agent = two_tools(done, Approval(expires="1h"))
    state = (await Runner.run(agent, "go")).to_state()
    later = state.live.clock() + 3_700_000
    state.live.clock = lambda: later
    mail = state.get_interruptions()[1]
    state.approve(mail)
    tools, agent.tools = agent.tools, []
    with pytest.raises(ToolMissing) as missed:
        await Runner.run(agent, state)
    assert missed.value.tool_name == "mail"
    agent.tools = tools
    await Runner.run(agent, state)
    assert done == ["bob"]


async def test_a_late_word_on_what_is_asked_again_is_refused_once() -> None:
    """M3: the clock asked again under another digest; the word was a conflict for ever, or no word at all."""
    done: list[Any] = []
    agent = two_tools(done, Approval(expires="1h", on_expiry="ask_again"))
    state = approve_all(await Runner.run(agent, "go"))
    later = state.live.clock() + 3_700_000
    state.live.clock = lambda: later
    with pytest.raises(KeyturnError, match="has expired"):
        await Runner.run(agent, state)
    result = await Runner.run(agent, state)
    assert (done, [item.tool_name for item in result.interruptions]) == (["bob"], ["pay"])


async def test_one_word_that_somebody_else_was_faster_with_blocks_no_other() -> None:
    """M4: a conflict over one call, and over one grant, is told once; what stands beside it is delivered."""
    done: list[Any] = []
    agent, journal = two_tools(done), MemoryJournal()
    run = (await Runner.run(agent, "go", journal=journal)).run_id
    state = await RunState.load(journal, run, agent)
    first, second = state.get_interruptions()
    state.reject(first)
    state.approve(second)
    await Inbox(journal).approve(first, by="ann")
    with pytest.raises(Conflict):
        await Runner.run(agent, state)
    await Runner.run(agent, state)
    assert done in ([("ada", 1), "bob"], ["bob", ("ada", 1)])


async def test_a_policy_that_an_agent_tool_brings_along_binds_its_run_to_no_other() -> None:
    """L7: what the run itself was judged by is asked for at a resume; what comes with an agent tool is there anyway."""
    done: list[Any] = []
    agent = nested(payment(done), run_config=RunConfig(policy=lambda call, context: "ask"))
    first = (await Runner.run(agent, "go")).to_state().to_string()
    state = await RunState.from_string(agent, first)
    state.approve(state.get_interruptions()[0])
    await Runner.run(agent, state)
    assert done == [("a", 1)]
    agent = nested(payment(done), run_config=RunConfig(policy=lambda call, context: "ask"))
    text = (await Runner.run(agent, "go", policy=lambda call, context: "allow")).to_state().to_string()
    state = await RunState.from_string(agent, text)
    state.approve(state.get_interruptions()[0])
    with pytest.raises(UserError, match="policy="):
        await Runner.run(agent, state)


# M8: what fails in deciding ------------------------------------------------------------------------------------------


async def test_on_approval_that_decides_nothing_leaves_the_call_waiting(caplog: pytest.LogCaptureFixture) -> None:
    """M8: at the root it stopped the run; a word that cannot count is logged and left to people."""

    def raises(context: Any, item: Any) -> Any:
        raise OSError("the amount is 1")

    cases: list[tuple[Any, Approval | None]] = [
        (raises, None),
        (lambda context, item: {"approve": True}, Approval(reason="required")),
        (lambda context, item: {"approve": False}, Approval(reason="on_reject")),
        (lambda context, item: {"approve": False, "reason": 5}, None),
        (lambda context, item: {"approve": False, "reason": "\ud800"}, None),
    ]
    for ask, terms in cases:
        for inside in (False, True):
            done: list[Any] = []
            tool = payment(done, approval=terms)
            tool.on_approval = ask
            agent = nested(tool) if inside else clerk(tool, [{"to": "a", "amount": 1}])
            caplog.clear()
            with caplog.at_level(logging.WARNING, "keyturn.engine"):
                result = await Runner.run(agent, "go")
            assert [item.tool_name for item in result.interruptions] == ["pay"]
            assert "on_approval" in caplog.text
            assert "amount" not in caplog.text, "somebody else's error may quote arguments"
            state = result.to_state()
            state.approve(state.get_interruptions()[0], note="as agreed")
            await Runner.run(agent, state)
            assert done == [("a", 1)]


# A nested agent's own policy -----------------------------------------------------------------------------------------


async def test_a_nested_policy_takes_nothing_from_that_of_the_run() -> None:
    """The stricter verdict counts: an agent tool's own policy let through what the run's denied."""
    said: dict[str, Any] = {"allow": "allow", "ask": Verdict("ask", "why"), "deny": Verdict("deny", "no"), "-": None}
    strictness = ["-", "allow", "ask", "deny"]
    for outer in strictness:
        for inner in strictness:
            done: list[Any] = []
            own = RunConfig(policy=lambda call, context, inner=inner: said[inner])
            agent = nested(payment(done), run_config=own)
            result = await Runner.run(
                agent, "go", policy=lambda call, context, outer=outer: said[outer] if call.tool == "pay" else None
            )
            stricter = max(outer, inner, key=strictness.index)
            asks = stricter in ("ask", "-")  # without a word of either, the tool's own setting asks
            assert (len(result.interruptions), len(done)) == (int(asks), int(stricter == "allow")), (outer, inner)


async def test_a_nested_policy_keeps_terms_and_reasons() -> None:
    """Who asks sets the terms; where both do, the outer one's reason is shown."""
    terms = Approval(reason="required")
    own = RunConfig(policy=lambda call, context: Verdict("ask", "inner", terms))
    agent = nested(payment([]), run_config=own)
    result = await Runner.run(
        agent, "go", policy=lambda call, context: Verdict("ask", "outer") if call.tool == "pay" else None
    )
    (item,) = result.interruptions
    assert (item.request.reason, item.request.terms) == ("outer", terms)


def once(now: list[bool], what: str | None) -> Any:
    """A policy that has nothing to say of a payment until it is time."""

    def says(call: Any, context: Any) -> Any:
        if not now or call.tool != "pay":
            return None
        if what == "down":
            raise OSError("down")
        return what

    return says


async def test_a_nested_policy_that_is_down_stands_against_a_decision() -> None:
    """Each of them must have its word on a decision, and a denial of either is one."""
    for outer_says, inner_says in (("down", None), (None, "down"), ("deny", None), (None, "deny"), ("deny", "down")):
        done: list[Any] = []
        now = list[bool]()
        agent = nested(payment(done), run_config=RunConfig(policy=once(now, inner_says)))
        state = (await Runner.run(agent, "go", policy=once(now, outer_says))).to_state()
        state.approve(state.get_interruptions()[0])
        now.append(True)
        if "deny" in (outer_says, inner_says):
            await Runner.run(agent, state)
        else:
            with pytest.raises(UserError, match="fix it"):
                await Runner.run(agent, state)
        assert done == []


# L3, L4: one rule at the door ----------------------------------------------------------------------------------------


async def test_the_inbox_refuses_what_names_nothing() -> None:
    """L3: these were AttributeError and TypeError in the inbox."""
    desk = Desk(clerk(payment([]), [{"to": "ada", "amount": 1}]))
    await desk.start()
    row, inbox, bad = await desk.row(), desk.inbox, Any
    wrong: list[Any] = [5, [], None, {}]
    for bad in wrong:
        with pytest.raises(UserError):
            await inbox.get(bad)
        with pytest.raises(UserError):
            await inbox.approve(bad, by="ann")
        with pytest.raises(UserError):
            await inbox.revoke(desk.run, bad, by="ann")
        with pytest.raises(UserError):
            await inbox.tell(bad)
    with pytest.raises(UserError, match="Preview"):
        await inbox.approve(row, by="ann", edit={"to": "ada", "amount": 2}, seen=bad or 5)
    with pytest.raises(UserError):
        await inbox.approve(
            row,
            by="ann",
            edit={"to": "ada", "amount": 2},
            seen=Preview((), basis={"a": float("nan")}),
        )
    with pytest.raises(NotPending):
        await inbox.revoke(desk.run, "none", by="ann")


async def test_what_people_say_is_exact_or_refused_at_every_door() -> None:
    """L4: half a character became "?", NaN became null, and an object its type's name."""
    cyclic: list[Any] = []
    cyclic.append(cyclic)
    deep: Any = 0
    for _ in range(5_000):
        deep = [deep]
    wrong: list[Any] = [
        "\ud800", "a\x00", {"a": float("nan")}, [float("inf")], {"a": "\ud800"}, {"\ud800": 1}, {1: 2}, object(), deep,
        cyclic,
    ]  # fmt: skip
    for output in wrong:
        desk = Desk(clerk(payment([]), [{"to": "ada", "amount": 1}]))
        await desk.start()
        state = await RunState.load(desk.journal, desk.run, desk.agent)
        with pytest.raises(UserError):
            state.answer(state.get_interruptions()[0], output)
        with pytest.raises(UserError):
            await desk.inbox.answer(await desk.row(), output, by="ann")
        items = output if isinstance(output, str) else [{"role": "user", "content": output}]
        with pytest.raises(UserError):
            await desk.inbox.send(desk.run, items)
        with pytest.raises(UserError):
            state.add_input(items)
        await desk.inbox.answer(await desk.row(), {"paid": [1, 1.5, "ü", None]}, by="ann")
        assert "1.5" in repr(told(await desk.go_on()))


async def test_a_probe_that_answers_what_no_log_holds_leaves_the_doubt() -> None:
    """L4, L5: the words of a probe are words like any other; what they cannot say is left to people."""
    from keyturn.tools.base import OutcomeUnknown

    @function_tool(needs_approval=True)
    async def pay(amount: int) -> str:
        """Pays."""
        raise OutcomeUnknown("the line was cut")

    pay.check = lambda context: "paid \ud800"
    desk = Desk(clerk(pay, [{"amount": 5}]))
    await desk.start()
    await desk.inbox.approve(await desk.row(), by="ann")
    await desk.go_on()
    assert [item.kind for item in (await desk.go_on()).interruptions] == ["in_doubt"]
