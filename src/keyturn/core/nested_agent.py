"""The record of an agent that answers the calls of a tool, or that goes on after a handoff.

A tool declares it as `nested`; the engine reads it when it opens the frame of that agent. Nothing here runs an agent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec


class NestedAgent(msgspec.Struct, frozen=True):
    """Holds the agent that answers the calls of a tool, and what it runs under.

    By it a saved run finds that agent again. What is None is that of the agent that called.

    >>> NestedAgent("the agent").session is None
    True
    """

    agent: Any = None  # the agent that answers or goes on
    agents: Mapping[str, Any] = {}  # the agents that may answer, by name, where the arguments say which
    run_config: Any = None
    hooks: Any = None
    session: Any = None
    conversation_id: str | None = None  # its conversation at the provider
    previous_response_id: str | None = None  # the response that it goes on from
    on_stream: Callable[[Any], Any] | None = None  # called with its stream events
    on_stream_max_pending_events: int | None = None  # how many of them may wait; None is no limit
    structured: bool = False  # its input is an object and not a plain text
    custom_output_extractor: Callable[[Any], Any] | None = None  # makes the call's result of its own


_NO_AGENT = NestedAgent()


def nested_agent(tool: object) -> NestedAgent:
    """Return the agent to which calls of a tool lead; an empty record where they lead to none.

    >>> nested_agent(None).agents
    {}
    """
    return getattr(tool, "nested", None) or _NO_AGENT
