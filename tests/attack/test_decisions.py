"""Decisions that count and should not, that are lost, or that nobody can make any more."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import pytest

from keyturn import (
    Agent,
    Approval,
    Expired,
    Grant,
    KeyturnError,
    MemoryJournal,
    NotPending,
    Preview,
    Runner,
    RunState,
    Secret,
    Text,
    Verdict,
    function_tool,
)
from keyturn.core.errors import Conflict
from keyturn.inbox.desk import Inbox
from keyturn.journal.sqlite import SQLiteJournal
from keyturn.testing import ScriptedModel, function_call
from keyturn.testing.door_case import ANN, BOB, payment
from keyturn.tools.base import OutcomeUnknown, Prepared, Tool

from .world import Charge, Desk, clerk, told


@pytest.mark.parametrize("how", ["stale", "tool changed"])
async def test_h4_a_doubt_is_forgotten_when_its_retry_is_void(how: str) -> None:
    done: list[int] = []

    def tool(about: str) -> Any:
        @function_tool(needs_approval=True, description_override=about, approval=Approval(execute_by="30m"))
        async def pay(amount: int) -> str:
            done.append(amount)
            raise OutcomeUnknown("the line was cut")

        return pay

    desk = Desk(clerk(tool("Pays."), [{"amount": 5}]))
    await desk.start()
    await desk.inbox.approve(await desk.row(), by="ann")
    await desk.go_on()
    await desk.inbox.resolve(await desk.row(), "retry", by="ann")
    if how == "stale":
        desk.time[0] += 3_600_000
    else:
        desk.agent = Agent("clerk", model=desk.agent.model, tools=[tool("Pays money.")])
    result = await desk.go_on()
    assert done == [5]
    assert [item.kind for item in result.interruptions] == ["in_doubt"], "it looks like a call that never ran"
    # As it is: a rejection tells the model that the payment "was not approved", and it pays again elsewhere.


@pytest.mark.parametrize("how", ["stale", "tool changed"])
async def test_h4_a_call_that_had_begun_runs_from_its_beginning_as_if_it_never_had(how: str) -> None:
    done: list[str] = []
    desk = Desk(clerk(Charge(done, Approval(execute_by="30m")), [{}]))
    await desk.start()
    await desk.inbox.approve(await desk.row(), by="ann")
    await desk.go_on()
    await desk.inbox.answer(await desk.row(), "the first", by="ann")
    if how == "stale":
        desk.time[0] += 3_600_000
    else:
        desk.agent = Agent(
            "clerk", model=desk.agent.model, tools=[Charge(done, Approval(execute_by="30m"), "Charges cards.")]
        )
    result = await desk.go_on()
    assert [item.kind for item in result.interruptions] == ["in_doubt"]
    await desk.inbox.approve(await desk.row(), by="bob")
    await desk.go_on()
    assert done.count("charged") == 1


async def test_h5_a_clock_that_was_ahead_once_makes_every_approval_stale() -> None:
    done: list[Any] = []
    desk = Desk(clerk(payment(done, approval=Approval(execute_by="30m")), [{"to": "ada", "amount": 1}]))
    desk.time[0] += 7_200_000
    await desk.start()
    desk.time[0] -= 7_200_000
    for _ in range(3):
        desk.time[0] += 1_000
        await desk.inbox.approve(await desk.row(), by="ann")
        if not (await desk.go_on()).interruptions:
            break
    assert done == [("ada", 1)], "no door can move this run until the clock is where it once was"


async def test_h6_what_ran_out_without_its_tool_moves_through_no_door() -> None:
    done: list[Any] = []
    desk = Desk(clerk(payment(done, approval=Approval(expires="1h")), [{"to": "ada", "amount": 1}]))
    await desk.start()
    desk.time[0] += 7_200_000
    desk.agent = Agent("clerk", model=desk.agent.model, tools=[])
    with pytest.raises(Expired):
        await desk.inbox.reject(await desk.row(), by="ann")
    assert (await desk.go_on()).final_output == "done"  # ToolMissing, for ever


async def test_h7_a_word_on_the_context_that_came_too_late_makes_a_state_impossible() -> None:
    result = await Runner.run(clerk(payment([], approval=Approval(expires=0.2)), [{"to": "ada", "amount": 1}]), "go")
    result.context_wrapper.approve_tool(result.interruptions[0])
    await asyncio.sleep(0.4)
    state = result.to_state()  # Expired, each time: "resume the run", but there is no state to resume
    assert (await Runner.run(result.last_agent, state)).final_output == "done"


async def test_m3_an_approval_is_lost_because_its_sibling_ran_out() -> None:
    done: list[Any] = []

    @function_tool(needs_approval=True)
    def mail(to: str) -> str:
        """Mails."""
        done.append(to)
        return "sent"

    calls = [function_call("pay", {"to": "ada", "amount": 1}), function_call("mail", {"to": "bob"})]
    agent = Agent(
        "clerk", model=ScriptedModel([calls, "done"]), tools=[payment([], approval=Approval(expires=0.3)), mail]
    )
    state = (await Runner.run(agent, "go")).to_state()
    for item in state.get_interruptions():
        state.approve(item)
    await asyncio.sleep(0.5)
    with pytest.raises(Expired):
        await Runner.run(agent, state)
    await Runner.run(agent, state)
    assert done == ["bob"]


async def test_m4_a_word_said_during_a_drive_blocks_every_word_after_it() -> None:
    going = asyncio.Event()
    done: list[int] = []

    @function_tool(needs_approval=True)
    async def slow(number: int) -> str:
        """Slow."""
        await going.wait()
        done.append(number)
        return "done"

    agent = clerk(slow, [{"number": 1}, {"number": 2}])
    state = (await Runner.run(agent, "go")).to_state()
    first, second = state.get_interruptions()
    state.approve(first)
    drive = asyncio.create_task(Runner.run(agent, state))
    await asyncio.sleep(0.05)
    try:
        state.reject(first)  # taken without a word, though the call runs; refused at each resume from then on
    except KeyturnError:
        pass
    state.approve(second)
    going.set()
    await drive
    for _ in range(2):
        try:
            await Runner.run(agent, state)
        except Conflict:
            continue
    assert done == [1, 2]


async def test_m5_a_secret_that_a_person_typed_reaches_the_model_when_the_tool_is_gone() -> None:
    @function_tool(needs_approval=True)
    async def log_in(password: Annotated[str, Secret]) -> str:
        """Logs in."""
        raise OutcomeUnknown("the line was cut")

    desk = Desk(clerk(log_in, [{"password": "old"}]))
    await desk.start()
    await desk.inbox.approve(await desk.row(), by="ann", edit={"password": "hunter2"})
    await desk.go_on()
    await desk.inbox.resolve(await desk.row(), "ran", by="ann")
    desk.agent = Agent("clerk", model=desk.agent.model, tools=[])
    assert "hunter2" not in repr(told(await desk.go_on()))


class Note(Tool):
    """Writes over a file, and looks at it first."""

    kind, name, looks, needs_approval = "note", "note", True, True
    approval = Approval(quorum=2)

    def __init__(self, files: dict[str, str], done: list[str]) -> None:
        self.files, self.done = files, done

    def spec(self) -> dict[str, Any]:
        return {"name": self.name}

    def prepare(self, item: Any) -> Prepared:
        import json

        return Prepared(item["arguments"], json.loads(item["arguments"]), exact=True)

    def preview(self, params: Any) -> Preview:
        content = self.files[params["file"]]
        return Preview((Text(content),), basis={params["file"]: content})

    async def invoke(self, context: Any, prepared: Prepared) -> str:
        self.done.append(self.files[prepared.params["file"]])
        return "written"

    def output(self, item: Any, value: Any) -> Any:
        return {"type": "function_call_output", "call_id": item["call_id"], "output": value}


async def test_h8_two_people_vote_for_one_edit_and_saw_two_worlds() -> None:
    files, done = {"a": "A", "b": "drafts"}, list[str]()
    note = Note(files, done)
    desk = Desk(clerk(note, [{"file": "a"}]))
    await desk.start()
    await desk.inbox.approve(await desk.row(), by=ANN, edit={"file": "b"}, seen=note.preview({"file": "b"}))
    files["b"] = "the payroll"
    await desk.inbox.approve(await desk.row(), by=BOB, edit={"file": "b"}, seen=note.preview({"file": "b"}))
    await desk.go_on()
    assert done == [], "ann voted for writing over drafts"


async def test_m6_a_vote_does_not_go_stale() -> None:
    done: list[Any] = []
    desk = Desk(clerk(payment(done, approval=Approval(quorum=2, execute_by="30m")), [{"to": "ada", "amount": 1}]))
    await desk.start()
    await desk.inbox.approve(await desk.row(), by=ANN)
    desk.time[0] += 30 * 86_400_000
    await desk.inbox.approve(await desk.row(), by=BOB)
    await desk.go_on()
    assert done == [], "one of the two approvals is thirty days old"


async def test_m7_stricter_terms_of_the_newest_policy_are_not_heeded() -> None:
    done: list[Any] = []
    desk = Desk(clerk(payment(done), [{"to": "ada", "amount": 1}]), lambda call, context: "ask")
    await desk.start()
    await desk.inbox.approve(await desk.row(), by="somebody")
    desk.policy = lambda call, context: Verdict("ask", terms=Approval(reason="required", expires="1h"))
    await desk.go_on()
    assert done == []


async def test_m8_a_policy_that_is_down_loses_an_approval_in_a_nested_agent() -> None:
    done: list[Any] = []
    up = [True]

    def policy(call: Any, context: Any) -> None:
        if not up[0]:
            raise OSError("the policy service is down")

    inner = Agent(
        "inner",
        model=ScriptedModel([[function_call("pay", {"to": "a", "amount": 1})], "paid", "x"]),
        tools=[payment(done)],
    )
    outer = Agent(
        "outer",
        model=ScriptedModel([[function_call("delegate", {"input": "go"})], "done"]),
        tools=[inner.as_tool("delegate", "d")],
    )
    state = (await Runner.run(outer, "go", policy=policy)).to_state()
    state.approve(state.get_interruptions()[0])
    up[0] = False
    with pytest.raises(KeyturnError):  # as in the root: "nothing ran: mend it and resume"
        await Runner.run(outer, state, policy=policy)
    up[0] = True
    await Runner.run(outer, state, policy=policy)
    assert done == [("a", 1)]


@pytest.mark.parametrize("how", ["slow", "raises"])
async def test_m8_on_approval_that_is_slow_or_raises_closes_a_nested_agent(how: str) -> None:
    async def decide(context: Any, item: Any) -> Any:
        if how == "raises":
            raise OSError("down")
        await asyncio.sleep(0.4)
        return {"approve": True}

    tool = payment([], approval=Approval(expires=0.2 if how == "slow" else "1h"))
    tool.on_approval = decide
    inner = Agent(
        "inner", model=ScriptedModel([[function_call("pay", {"to": "a", "amount": 1})], "in", "x"]), tools=[tool]
    )
    outer = Agent(
        "outer",
        model=ScriptedModel([[function_call("delegate", {"input": "go"})], "done"]),
        tools=[inner.as_tool("delegate", "d")],
    )
    result = await Runner.run(outer, "go")
    assert "An error occurred" not in repr(told(result)), "the frame was closed over a call that waited"


async def test_l1_a_grant_comes_with_a_decision_that_was_somebody_elses() -> None:
    done: list[Any] = []
    agent = clerk(payment(done), [{"to": "ada", "amount": 1}, {"to": "bob", "amount": 2}])
    journal = MemoryJournal()
    run = (await Runner.run(agent, "go", journal=journal)).run_id
    state = await RunState.load(journal, run, agent)
    inbox = Inbox(journal)
    await inbox.approve((await inbox.list())[0], by="ann")
    state.approve(state.get_interruptions()[0], by="eve", grant=Grant())
    try:
        await Runner.run(agent, state)
    except KeyturnError:
        pass
    assert ("bob", 2) not in done, "nobody decided: eve's decision is not in the log, her grant is"


async def test_l2_a_word_on_the_context_for_an_earlier_asking_makes_a_state_impossible() -> None:
    tool = payment([])
    agent = clerk(tool, [{"to": "ada", "amount": 1}])
    result = await Runner.run(agent, "go")
    state, shown = result.to_state(), result.interruptions[0]
    state.approve(shown)
    tool.description = "changed"
    tool.spec()["description"] = "changed"
    tool.known_spec = None
    again = await Runner.run(agent, state)
    again.context_wrapper.approve_tool(shown)
    try:
        again.to_state()
    except NotPending:
        pytest.fail("and so it is at each call; the words on a context cannot be taken back")


@pytest.mark.parametrize("what", ["cyclic edit", "deep edit", "seen", "revoke"])
async def test_l3_untyped_errors(what: str) -> None:
    state = (await Runner.run(clerk(payment([]), [{"to": "ada", "amount": 1}]), "go")).to_state()
    (item,) = state.get_interruptions()
    cyclic: dict[str, Any] = {}
    cyclic["to"] = cyclic
    deep: dict[str, Any] = {}
    for _ in range(5_000):
        deep = {"a": deep}
    bad: Any = 5
    with pytest.raises(KeyturnError):
        if what == "revoke":
            state.revoke([bad])  # type: ignore[arg-type]
        elif what == "seen":
            state.approve(item, edit={"to": "ada", "amount": 1}, seen=bad)
        else:
            state.approve(item, edit=cyclic if "cyclic" in what else deep)


async def test_l4_half_a_character_in_an_answer_is_found_only_at_each_resume() -> None:
    agent = clerk(payment([]), [{"to": "ada", "amount": 1}])
    state = (await Runner.run(agent, "go")).to_state()
    with pytest.raises(KeyturnError):
        state.answer(state.get_interruptions()[0], "\ud800")


async def test_l5_the_probe_of_another_tool_speaks_for_a_call() -> None:
    def tool(about: str, probe: Any) -> Any:
        @function_tool(needs_approval=True, description_override=about)
        async def pay(amount: int) -> str:
            raise OutcomeUnknown("the line was cut")

        pay.check = probe
        return pay

    desk = Desk(clerk(tool("Pays.", lambda context: None), [{"amount": 5}]))
    await desk.start()
    await desk.inbox.approve(await desk.row(), by="ann")
    await desk.go_on()
    desk.agent = Agent("clerk", model=desk.agent.model, tools=[tool("Pays at another bank.", lambda context: True)])
    assert [item.kind for item in (await desk.go_on()).interruptions] == ["in_doubt"]


async def test_l6_half_a_character_as_a_requests_id_is_untyped_in_sqlite(tmp_path: Any) -> None:
    inbox = Inbox(SQLiteJournal(str(tmp_path / "runs.db")))
    for ask in (lambda: inbox.get("\ud800"), lambda: inbox.tell("\ud800"), lambda: inbox.list(state="\ud800")):
        with pytest.raises(KeyturnError):
            await ask()


async def test_l7_a_policy_that_asked_is_forgotten_by_a_run_that_began_without_one() -> None:
    done: list[Any] = []
    agent = clerk(payment(done), [{"to": "ada", "amount": 1}], [{"to": "eve", "amount": 2}])
    state = (await Runner.run(agent, "go")).to_state()
    state.approve(state.get_interruptions()[0])
    state = (await Runner.run(agent, state, policy=lambda call, context: "ask")).to_state()
    state.approve(state.get_interruptions()[0])
    with pytest.raises(KeyturnError):
        await Runner.run(agent, state)
