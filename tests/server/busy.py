"""An office where much has happened already: decided and failed runs, nested agents, grants, votes, people, keys."""

from __future__ import annotations

from typing import Annotated, Any

from keyturn import Agent, App, Grant, MemoryJournal, Policy, Secret, function_tool
from keyturn.channels import ChannelPlan, Recipient
from keyturn.channels.base import Channel, ChannelRefused, Message
from keyturn.core.approval import Approval
from keyturn.core.predicates.predicate import Where
from keyturn.models.scripted.model import ScriptedModel, assistant_message, function_call
from keyturn.policies.limits import Budget, Calls
from keyturn.policies.rules import allow, ask, deny
from tests.server.office import HOSTILE, office, opened, peopled

SECRET = "hunter2-is-not-shown"


@function_tool(needs_approval=True)
def set_password(user: str, password: Annotated[str, Secret]) -> str:
    """Set the password of a user."""
    return "set"


@function_tool(read_only=True)
def look_up(order: str) -> str:
    """Look an order up."""
    return f"order {order}: lost in transit"


@function_tool(needs_approval=True, approval=Approval(role="ops", expires="4h"), risk="medium", idempotent=True)
def restart(service: str) -> str:
    """Restart a service."""
    return f"{service} restarted"


@function_tool(needs_approval=True)
def pay(to: str, amount: int) -> str:
    """Pay somebody."""
    return f"paid {amount} to {to}"


@function_tool
def breaks() -> str:
    """Break."""
    raise RuntimeError("the disk is gone")


def busy_agents() -> list[Agent[Any]]:
    """Make agents that nest, hand over, fail, and hold secrets."""
    researcher = Agent(
        "researcher",
        model=ScriptedModel([[function_call("look_up", {"order": "A-1042"})], "It was lost in transit."]),
        tools=[look_up],
    )
    mechanic = Agent(
        "mechanic",
        model=ScriptedModel([[function_call("restart", {"service": "parcel-tracker"})], "The tracker runs again."]),
        tools=[restart],
    )
    billing = Agent("billing", model=ScriptedModel(["Yours is paid."]), handoff_description="Knows invoices.")
    lead = Agent(
        "lead",
        model=ScriptedModel(
            [
                [
                    assistant_message("I let one of us look the order up while another restarts the tracker."),
                    function_call("research", {"input": "What became of order A-1042?"}),
                    function_call("repair", {"input": "The parcel tracker hangs."}),
                ],
                "The parcel was lost; the tracker runs again.",
            ]
        ),
        tools=[
            researcher.as_tool("research", "Ask the researcher."),
            mechanic.as_tool("repair", "Ask the mechanic."),
        ],
        handoffs=[billing],
    )
    keeper = Agent(
        "keeper",
        model=ScriptedModel([[function_call("set_password", {"user": "ann", "password": SECRET})], "It is set."]),
        tools=[set_password],
    )
    calls = [[function_call("pay", {"to": f"shop-{n % 3}", "amount": 10 + n}, call_id=f"c{n}")] for n in range(24)]
    payer = Agent("payer", model=ScriptedModel([*calls, "All is paid."]), tools=[pay])
    broken = Agent("broken", model=ScriptedModel([RuntimeError("the model's server is gone")]), tools=[breaks])
    return [lead, keeper, payer, broken]


class Quiet(Channel):
    """Refuses every message, so that it is kept as a dead letter."""

    def __init__(self, name: str = "mail") -> None:
        self.name = name

    async def send(self, message: Message) -> None:
        raise ChannelRefused("550 no such mailbox here")


LARGE: Where = {"amount": {"gt": 100}}


def policy() -> Policy:
    """Return rules of every sort."""
    return Policy(
        deny(tool="drop_*", reason="Nothing is dropped from here."),
        ask(tool="pay", over=Budget("amount", 500, per="1d", of="requester"), approval=Approval(role="finance")),
        ask(tool="pay", where=LARGE, approval=Approval(role="finance", quorum=2, expires="2h")),
        deny(tool="look_up", over=Calls(100, per="1h")),
        allow(tool="look_up", agent="researcher", read_only=True),
    )


def busy_app(clock: Any = None) -> App:
    """Make the app of the office, with everything that a page can show."""
    plan = ChannelPlan([Quiet()], recipients=lambda _request: [Recipient(person="ben", channel="mail")])
    journal = MemoryJournal() if clock is None else MemoryJournal(clock=clock)
    return App([*office(), *busy_agents()], journal, policy=policy(), channels=plan)


async def lived_in(app: App, clock: Any = None) -> dict[str, str]:
    """Let a working day pass; return the runs by agent. The people must be there."""
    await opened(app, *(agent.name for agent in office()))
    runs = dict[str, str]()
    for agent in ("lead", "keeper", "payer", "broken"):
        task = "Order A-1042 never arrived." if agent == "lead" else HOSTILE
        run = await app.start(agent, task, requester="cyd", max_turns=None)
        runs[agent] = run.id
        await app.wait(run.id, 20)
    for number in range(24):
        [row] = await app.inbox.list(run=runs["payer"])
        if clock is not None:
            clock.now += 400 + number * 60  # less in sum than a lease lasts
        by = "ben" if number % 4 else "ada"
        if number == 20:
            await app.inbox.reject(row, by=by, message=HOSTILE)
        else:
            grant = Grant(where={"to": "shop-0", "amount": {"le": 15}}, expires="2h", uses=3) if number == 23 else None
            await app.inbox.approve(row, by=by, note="looks right" if number == 3 else None, grant=grant)
        await app.wait(runs["payer"], 20)
    await app.people.join("on-call", "ben", by="ada")
    await app.people.give_role("pager", group="on-call", by="ada")
    await app.people.set_address("ben", "mail", "ben@example.com", by="ada")
    await app.people.delegate("ben", "cyd", lasts="3d", roles=["finance"], why="holiday", by="ben")
    await app.people.set("min_look", {"high": "10s", "": "2s"}, by="ada")
    return runs


__all__ = ["SECRET", "busy_agents", "busy_app", "lived_in", "peopled", "policy"]
