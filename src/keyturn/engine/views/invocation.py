"""Which call a nested agent answered."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.immutable import immutable


@immutable
@dataclass(frozen=True)
class AgentToolInvocation:
    """The call that a nested agent's result belongs to, as a `custom_output_extractor` may want to know it.

    >>> AgentToolInvocation("ask_expert", "c1", '{"input": "Is it valid?"}').tool_name
    'ask_expert'
    """

    tool_name: str
    tool_call_id: str
    tool_arguments: str
