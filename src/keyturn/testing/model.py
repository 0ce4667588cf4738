"""Re-export scripted models under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from ..support.missing import speaks
from . import InvalidModelStep as InvalidModelStep
from . import ModelCall as ModelCall
from . import ModelScriptError as ModelScriptError
from . import ModelStep as ModelStep
from . import ScriptedModel as ScriptedModel
from . import UnconsumedModelSteps as UnconsumedModelSteps
from . import UnexpectedModelCall as UnexpectedModelCall
from . import assistant_message as assistant_message
from . import function_call as function_call

speaks(__name__)
