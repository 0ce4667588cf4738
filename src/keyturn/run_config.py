"""Re-export settings for a whole run under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from . import CallModelData as CallModelData
from . import ModelInputData as ModelInputData
from . import OutputGuardrailBlockedMessageArgs as OutputGuardrailBlockedMessageArgs
from . import OutputGuardrailBlockedMessageFormatter as OutputGuardrailBlockedMessageFormatter
from . import ReasoningItemIdPolicy as ReasoningItemIdPolicy
from . import RunConfig as RunConfig
from . import ToolErrorFormatter as ToolErrorFormatter
from . import ToolErrorFormatterArgs as ToolErrorFormatterArgs
from . import ToolExecutionConfig as ToolExecutionConfig
from . import ToolNameCollisionPolicy as ToolNameCollisionPolicy
from . import ToolNotFoundBehavior as ToolNotFoundBehavior
from .agents.limits import DEFAULT_MAX_TURNS as DEFAULT_MAX_TURNS
from .agents.settings import CallModelInputFilter as CallModelInputFilter
from .support.missing import speaks

speaks(__name__)
