"""Re-export computers that a model uses under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from . import AsyncComputer as AsyncComputer
from . import Button as Button
from . import Computer as Computer
from . import Environment as Environment
from .support.missing import speaks

speaks(__name__)
