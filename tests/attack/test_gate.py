"""What an attack on the gate found, held since: what was started is never forgotten, and time is one clock's."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import (
    Agent,
    Approval,
    Preview,
    Text,
    Verdict,
    function_tool,
)
from keyturn.testing.suites.door_case import ANN, BOB, payment
from keyturn.tools.base import OutcomeUnknown, Prepared, Tool

from .world import Charge, Desk, clerk


@pytest.mark.parametrize("how", ["stale", "tool changed"])
async def test_a_doubt_is_forgotten_when_its_retry_is_void(how: str) -> None:
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


@pytest.mark.parametrize("how", ["stale", "tool changed"])
async def test_a_call_that_had_begun_runs_from_its_beginning_as_if_it_never_had(how: str) -> None:
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
    await desk.inbox.resolve(await desk.row(), "ran", "charged once", by="bob")
    assert (await desk.go_on()).final_output is not None
    assert done.count("charged") == 1


async def test_a_clock_that_was_ahead_once_makes_every_approval_stale() -> None:
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


class Note(Tool):
    """Writes over a file, and looks at it first."""

    kind, name, looks, needs_approval = "note", "note", True, True
    approval = Approval(quorum=2)

    def __init__(self, files: dict[str, str], done: list[str]) -> None:
        self.files, self.done = files, done

    def spec(self) -> dict[str, Any]:
        return {"name": self.name}

    def prepare(self, item: Any) -> Prepared:
        return Prepared(item["arguments"])

    def preview(self, params: Any) -> Preview:
        content = self.files[params["file"]]
        return Preview((Text(content),), basis={params["file"]: content})

    async def invoke(self, context: Any, prepared: Prepared) -> str:
        self.done.append(self.files[prepared.params["file"]])
        return "written"

    def output(self, item: Any, value: Any) -> Any:
        return {"type": "function_call_output", "call_id": item["call_id"], "output": value}


async def test_two_people_vote_for_one_edit_and_saw_two_worlds() -> None:
    files, done = {"a": "A", "b": "drafts"}, list[str]()
    note = Note(files, done)
    desk = Desk(clerk(note, [{"file": "a"}]))
    await desk.start()
    await desk.inbox.approve(await desk.row(), by=ANN, edit={"file": "b"}, seen=note.preview({"file": "b"}))
    files["b"] = "the payroll"
    await desk.inbox.approve(await desk.row(), by=BOB, edit={"file": "b"}, seen=note.preview({"file": "b"}))
    await desk.go_on()
    assert done == [], "ann voted for writing over drafts"


async def test_a_vote_does_not_go_stale() -> None:
    done: list[Any] = []
    desk = Desk(clerk(payment(done, approval=Approval(quorum=2, execute_by="30m")), [{"to": "ada", "amount": 1}]))
    await desk.start()
    await desk.inbox.approve(await desk.row(), by=ANN)
    desk.time[0] += 30 * 86_400_000
    await desk.inbox.approve(await desk.row(), by=BOB)
    await desk.go_on()
    assert done == [], "one of the two approvals is thirty days old"


async def test_stricter_terms_of_the_newest_policy_are_not_heeded() -> None:
    done: list[Any] = []
    desk = Desk(clerk(payment(done), [{"to": "ada", "amount": 1}]), lambda call, context: "ask")
    await desk.start()
    await desk.inbox.approve(await desk.row(), by="somebody")
    desk.policy = lambda call, context: Verdict("ask", terms=Approval(reason="required", expires="1h"))
    await desk.go_on()
    assert done == []
