"""The decorators in one module: `from keyturn.decorators import tool`; nothing is defined here."""

from __future__ import annotations

from .agents.guardrail import input_guardrail, output_guardrail
from .agents.tool_guardrail import tool_input_guardrail, tool_output_guardrail
from .tools.function import function_tool

tool = function_tool

__all__ = [
    "function_tool",
    "input_guardrail",
    "output_guardrail",
    "tool",
    "tool_input_guardrail",
    "tool_output_guardrail",
]
