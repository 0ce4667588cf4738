"""Re-export the bridge to LiteLLM under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from ...models.litellm import LitellmModel as LitellmModel
from ...support.missing import speaks

speaks(__name__)
