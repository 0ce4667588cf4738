"""A path of the OpenAI Agents SDK: computers that a model uses. It defines nothing."""

from __future__ import annotations

from . import AsyncComputer as AsyncComputer
from . import Button as Button
from . import Computer as Computer
from . import Environment as Environment
from ._missing import speaks

speaks(__name__)
