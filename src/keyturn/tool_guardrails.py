"""Re-export guardrails on tools under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from . import ToolGuardrailFunctionOutput as ToolGuardrailFunctionOutput
from . import ToolInputGuardrail as ToolInputGuardrail
from . import ToolInputGuardrailData as ToolInputGuardrailData
from . import ToolInputGuardrailResult as ToolInputGuardrailResult
from . import ToolOutputGuardrail as ToolOutputGuardrail
from . import ToolOutputGuardrailData as ToolOutputGuardrailData
from . import ToolOutputGuardrailResult as ToolOutputGuardrailResult
from . import tool_input_guardrail as tool_input_guardrail
from . import tool_output_guardrail as tool_output_guardrail
from .agents.tool_guardrail import AllowBehavior as AllowBehavior
from .agents.tool_guardrail import RaiseExceptionBehavior as RaiseExceptionBehavior
from .agents.tool_guardrail import RejectContentBehavior as RejectContentBehavior
from .support.missing import speaks

speaks(__name__)
