"""Re-export prompts that the provider keeps under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from . import DynamicPromptFunction as DynamicPromptFunction
from . import GenerateDynamicPromptData as GenerateDynamicPromptData
from . import Prompt as Prompt
from .support.missing import speaks

speaks(__name__)
