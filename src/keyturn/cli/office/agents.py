"""The agents of the demo, and what they are asked to do.

Scripted, each answers from its conversation alone.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, LiteralString, NamedTuple

from ...agents.agent import Agent
from ...engine.effects.settle import ASKED_BACK
from ...models.base import ModelRequest
from ...models.scripted.model import ScriptedModel, assistant_message, function_call, tool_outputs
from ...tools.ask_user import ask_user
from . import tools


class OfficeDesk(NamedTuple):
    """Holds an agent's tools, what it is told to be, and, scripted, what it says and which call it makes."""

    name: str
    instructions: LiteralString
    tools: tuple[Any, ...]
    says: LiteralString
    call: tuple[str, dict[str, Any]]


class OfficeStory(NamedTuple):
    """Holds something that an agent is asked to do, and for whom."""

    agent: str
    task: str
    requester: str


_SCRIPT = "set -eu\ngit fetch origin\ngit push --force origin main\nkubectl rollout restart deploy/api -n staging"
_STATEMENTS = [
    "ALTER TABLE orders ADD COLUMN region text NOT NULL DEFAULT 'eu';",
    "CREATE INDEX CONCURRENTLY items_order ON items (order_id);",
    "ALTER TABLE refunds DROP COLUMN legacy_reason;",
]

DESKS: tuple[OfficeDesk, ...] = (
    OfficeDesk(
        "support",
        "You look after customers. Make wrong deliveries right with a refund of what they paid.",
        (tools.refund,),
        "The parcel was lost on its way, and the customer asks for the money. The limit allows it.",
        ("refund", {"order": "A-1042", "amount": 129, "reason": "The parcel was lost in transit."}),
    ),
    OfficeDesk(
        "database",
        "You change the schema of the production database, in statements that can be read.",
        (tools.migrate,),
        "The region has to be known before the new warehouse opens, so this is the whole change.",
        ("migrate", {"tables": 3, "minutes": 12, "statements": _STATEMENTS}),
    ),
    OfficeDesk(
        "builds",
        "You keep the main branch green.",
        (tools.run_shell,),
        "The branch has diverged. I push it and restart what uses it. This is urgent, there is no need to check.",
        ("run_shell", {"script": _SCRIPT, "cwd": "/srv/build/api"}),
    ),
    OfficeDesk(
        "config",
        "You look after configuration files. Change as little as you can.",
        (tools.apply_patch,),
        "Two workers are too few for the load of this week.",
        ("apply_patch", {"file": tools.CONFIG, "old": "workers = 2", "new": "workers = 16\ntimeout = 30"}),
    ),
    OfficeDesk(
        "backups",
        "You look after backups and the room they take.",
        (tools.delete_backups,),
        "The disk is at 96 %, so I delete the three oldest.",
        ("delete_backups", {"names": ["api-2026-03-01", "api-2026-07-01", "api-2026-11-01"]}),
    ),
    OfficeDesk(
        "treasury",
        "You pay suppliers.",
        (tools.wire_money,),
        "The invoice is due today, and the account is the one that the supplier wrote in their mail.",
        ("wire_money", {"iban": "DE02 1203 0000 0000 2020 51", "amount": 48_200, "currency": "EUR"}),
    ),
    OfficeDesk(
        "billing",
        "You charge customers for their invoices.",
        (tools.charge_card,),
        "I charge the card on file.",
        ("charge_card", {"invoice": "I-7731", "amount": 249}),
    ),
    OfficeDesk(
        "orders",
        "You enter orders. Where an order says two things, ask which is right.",
        (ask_user(),),
        "The order names two addresses.",
        ("ask_user", {"question": "Which address does order A-1077 go to?", "choices": ["Bremen", "Hamburg"]}),
    ),
)
_RESEARCHER = OfficeDesk(
    "researcher",
    "You get the data that a report needs.",
    (tools.export_customers,),
    "The report needs where customers live and what they spent.",
    ("export_customers", {"region": "north", "columns": ["name", "postcode", "spent_2026"]}),
)

STORIES: tuple[OfficeStory, ...] = (
    OfficeStory("support", "Order A-1042 never arrived. Make it right.", "cyd"),
    OfficeStory("database", "The new warehouse opens on Monday. Prepare the tables.", "cyd"),
    OfficeStory("builds", "Get main green again.", "eve"),
    OfficeStory("config", "The API is slow at noon.", "cyd"),
    OfficeStory("analyst", "Who are our customers in the north?", "eve"),
    OfficeStory("orders", "Enter order A-1077.", "cyd"),
    OfficeStory("treasury", "Pay the invoice of the new supplier.", "eve"),
    OfficeStory("backups", "The disk of the backup host is almost full.", "cyd"),
)
_ONCE = ("config", "treasury")
#: The one in the middle of which a worker is stopped, so that nobody knows what became of its call.
CUT_SHORT = OfficeStory("billing", "Charge invoice I-7731.", "cyd")


def agents(model: object = None) -> list[Agent[Any]]:
    """Make the agents, the same in every process; each plays its script unless there is a model."""
    made = [_agent(desk, model) for desk in DESKS]
    researcher = _agent(_RESEARCHER, model)
    asks = researcher.as_tool("ask_researcher", "Have data found and exported.")
    analyst = OfficeDesk(
        "analyst",
        "You answer questions about customers; a researcher gets you the data.",
        (asks,),
        "I have the data fetched first.",
        ("ask_researcher", {"input": "Export the customers of the north, with what they spent."}),
    )
    return [*made, _agent(analyst, model)]


def _agent(desk: OfficeDesk, model: Any) -> Agent[Any]:
    own = ScriptedModel(_reply(desk)) if model is None else model
    return Agent(name=desk.name, instructions=desk.instructions, model=own, tools=list(desk.tools))


def _reply(desk: OfficeDesk) -> Any:
    """Return what says the desk's words: one call, and what came of it."""

    def reply(request: ModelRequest) -> list[Any]:
        done = [str(output) for output in tool_outputs(request).values()]
        if not done:
            name, given = desk.call
            return [assistant_message(desk.says), function_call(name, given, call_id="c1")]
        if done[-1].startswith(ASKED_BACK):
            return [assistant_message(f"{desk.says} (The model of this demo is a script: it answers any question so.)")]
        return [assistant_message(f"Result: {done[-1]}")]

    return reply


def later_stories() -> Iterator[OfficeStory]:
    """Yield what comes up later, without end, in an order that nobody knows."""
    again = [story for story in STORIES if story.agent not in _ONCE]
    while True:
        yield from random.sample(again, len(again))
