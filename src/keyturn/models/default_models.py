"""Re-export the default model under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from ..support.missing import speaks
from .openai.defaults import OPENAI_DEFAULT_MODEL_ENV_VARIABLE_NAME as OPENAI_DEFAULT_MODEL_ENV_VARIABLE_NAME
from .openai.defaults import GPT5DefaultReasoningEffort as GPT5DefaultReasoningEffort
from .openai.defaults import get_default_model as get_default_model
from .openai.defaults import get_default_model_settings as get_default_model_settings
from .openai.defaults import gpt_5_reasoning_settings_required as gpt_5_reasoning_settings_required
from .openai.defaults import is_gpt_5_default as is_gpt_5_default

speaks(__name__)
