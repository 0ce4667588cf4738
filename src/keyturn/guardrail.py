"""Re-export guardrails on input and output under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from . import GuardrailFunctionOutput as GuardrailFunctionOutput
from . import InputGuardrail as InputGuardrail
from . import InputGuardrailResult as InputGuardrailResult
from . import OutputGuardrail as OutputGuardrail
from . import OutputGuardrailResult as OutputGuardrailResult
from . import input_guardrail as input_guardrail
from . import output_guardrail as output_guardrail
from .support.missing import speaks

speaks(__name__)
