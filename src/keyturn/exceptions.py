"""Re-export every error a run can end with under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from . import AgentsException as AgentsException
from . import InputGuardrailTripwireTriggered as InputGuardrailTripwireTriggered
from . import MaxTurnsExceeded as MaxTurnsExceeded
from . import ModelBehaviorError as ModelBehaviorError
from . import ModelRefusalError as ModelRefusalError
from . import ModelTimeoutError as ModelTimeoutError
from . import OutputGuardrailTripwireTriggered as OutputGuardrailTripwireTriggered
from . import RunErrorDetails as RunErrorDetails
from . import ToolInputGuardrailTripwireTriggered as ToolInputGuardrailTripwireTriggered
from . import ToolOutputGuardrailTripwireTriggered as ToolOutputGuardrailTripwireTriggered
from . import ToolTimeoutError as ToolTimeoutError
from . import UserError as UserError
from .support.missing import speaks

speaks(__name__)
