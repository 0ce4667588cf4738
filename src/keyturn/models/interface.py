"""Re-export the seam of models under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from ..support.missing import speaks
from .base import Model as Model
from .base import ModelProvider as ModelProvider
from .base import ModelTracing as ModelTracing

speaks(__name__)
