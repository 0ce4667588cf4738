"""Arguments that a validator reads from the world: they run as they were decided on, or not at all."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import pytest
from pydantic import AfterValidator, BaseModel, model_validator

from keyturn import Agent, Approval, Policy, Rule, Runner, UserError, function_tool, handoff
from keyturn.testing import ScriptedModel, approve_all, function_call, tool_outputs

accounts = {"ann": "DE01"}
Account = Annotated[str, AfterValidator(lambda name: accounts.get(name, name))]


class Payment(BaseModel):
    to: str

    @model_validator(mode="after")
    def at_its_account(self) -> Payment:
        self.to = accounts.get(self.to, self.to)
        return self


class Place(NamedTuple("Place", [("to", str)])):
    """A tuple whose constructor looks its field up."""

    def __new__(cls, to: str) -> Place:
        return super().__new__(cls, accounts.get(to, to))


@pytest.fixture(autouse=True)
def _known() -> None:
    accounts.clear()
    accounts["ann"] = "DE01"


def payer(of: Any, paid: list[Any], arguments: dict[str, Any], **options: Any) -> Agent[Any]:
    def pay(to: Any) -> str:
        paid.append(to)
        return "paid"

    pay.__annotations__["to"] = of
    model = ScriptedModel([[function_call("pay", arguments, call_id="c1")], "done"])
    return Agent("desk", model=model, tools=[function_tool(pay, **options)])


@pytest.mark.parametrize(("of", "given"), [(Account, "ann"), (Payment, {"to": "ann"}), (Place, ["ann"])])
async def test_what_a_validator_reads_otherwise_than_it_was_shown_does_not_run(of: Any, given: Any) -> None:
    """A link or a name leads elsewhere by the time that a person has approved where it led."""
    paid: list[Any] = []
    agent = payer(of, paid, {"to": given}, needs_approval=True)
    asked = await Runner.run(agent, "go")
    shown = {Account: "DE01", Payment: {"to": "DE01"}, Place: ["DE01"]}
    assert asked.interruptions[0].params == {"to": shown[of]}
    accounts["DE01"] = "EVE1"
    await Runner.run(agent, approve_all(asked))
    assert paid == []
    assert tool_outputs(agent.model.calls[-1])["c1"] == (
        "pay was not run: its arguments mean something else now. Call it again."
    )


async def test_what_a_policy_judged_is_what_runs() -> None:
    """The world changes between the verdict and the start, and nobody was asked."""
    paid: list[Any] = []

    def moves(call: Any, context: Any) -> str:
        accounts["DE01"] = "EVE1"
        return "allow" if call.params["to"] == "DE01" else "deny"

    agent = payer(Account, paid, {"to": "ann"})
    await Runner.run(agent, "go", policy=moves)
    assert paid == []


async def test_what_a_validator_reads_as_it_was_shown_runs() -> None:
    paid: list[Any] = []
    agent = payer(Account, paid, {"to": "ann"}, approval=Approval())
    await Runner.run(agent, approve_all(await Runner.run(agent, "go")))
    assert paid == ["DE01"]


async def test_the_input_of_a_handoff_is_what_was_shown() -> None:
    told: list[Any] = []
    billing = Agent("billing", model=ScriptedModel(["hello"]))
    to_billing = handoff(
        billing, tool_name_override="bill", input_type=Payment, on_handoff=lambda _, said: told.append(said)
    )
    model = ScriptedModel([[function_call("bill", {"to": "ann"})], "stayed"])
    desk = Agent("desk", model=model, handoffs=[to_billing])
    policy = Policy(Rule("ask", kind="handoff"))
    asked = await Runner.run(desk, "go", policy=policy)
    accounts["DE01"] = "EVE1"
    done = await Runner.run(desk, approve_all(asked), policy=policy)
    assert (told, done.final_output) == ([], "stayed")


@pytest.mark.parametrize("of", [5, "Payment", [Payment], None.__class__])
def test_an_input_type_that_describes_no_object_is_refused(of: Any) -> None:
    agent = Agent("billing")
    with pytest.raises(UserError, match="its input type must be a BaseModel, a dataclass or a TypedDict"):
        agent.as_tool("bill", "Bills.", parameters=of)
    with pytest.raises(UserError, match="its input type must be a BaseModel, a dataclass or a TypedDict"):
        handoff(agent, input_type=of, on_handoff=lambda context, said: None)
