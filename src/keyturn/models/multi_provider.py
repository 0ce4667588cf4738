"""A path of the OpenAI Agents SDK: models by name. It defines nothing."""

from __future__ import annotations

from .._missing import speaks
from .routing import MultiProvider as MultiProvider

speaks(__name__)
