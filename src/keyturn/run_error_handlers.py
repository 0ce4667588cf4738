"""Re-export what to do in place of raising under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from . import RunErrorData as RunErrorData
from . import RunErrorHandler as RunErrorHandler
from . import RunErrorHandlerInput as RunErrorHandlerInput
from . import RunErrorHandlerResult as RunErrorHandlerResult
from . import RunErrorHandlers as RunErrorHandlers
from .support.missing import speaks

speaks(__name__)
