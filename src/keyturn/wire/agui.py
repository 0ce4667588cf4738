"""What AG-UI clients send and are told: inputs and events of version 1.0 of that protocol, in its spelling."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from .bodies import Id

VERSION = "1.0"
#: What the ids of the sessions of threads begin with: each is of the user whose thread it is, and of no other.
THREADS = "agui-"
_Interrupt = Annotated[str, msgspec.Meta(min_length=1, max_length=500)]


class AguiResume(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Answers one interrupt."""

    interrupt_id: _Interrupt
    status: Literal["resolved", "cancelled"]
    payload: Any = None


class AguiInput(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Asks an agent to go on with a thread; the protocol lets it have other fields, of which nothing is read."""

    thread_id: Id
    run_id: Id
    messages: Annotated[list[dict[str, Any]], msgspec.Meta(max_length=10_000)]
    resume: Annotated[list[AguiResume], msgspec.Meta(max_length=1_000)] | None = None


class AguiCapabilities(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Describes what an agent can do over AG-UI."""

    identity: dict[str, str]
    transport: dict[str, bool]
    tools: dict[str, bool]
    multi_agent: dict[str, bool]
    human_in_the_loop: dict[str, bool]


def capabilities_of(agent: str) -> AguiCapabilities:
    """Return the capabilities of an agent.

    >>> capabilities_of("desk").human_in_the_loop["interrupts"]
    True
    """
    return AguiCapabilities(
        identity={"name": agent, "type": "keyturn"},
        transport={"streaming": True, "resumable": True},
        tools={"supported": True, "clientProvided": False},
        multi_agent={"supported": True, "handoffs": True},
        human_in_the_loop={"supported": True, "approvals": True, "interrupts": True, "approveWithEdits": True},
    )


#: The answer that an interrupt expects: a convention of AG-UI clients.
ANSWER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "editedArgs": {"type": "object"},
        "reason": {"type": "string"},
        "answer": {},
    },
}
