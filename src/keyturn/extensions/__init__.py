"""A path of the OpenAI Agents SDK: extras. It defines nothing."""

from __future__ import annotations

from .._missing import speaks
from . import handoff_filters as handoff_filters
from . import handoff_prompt as handoff_prompt

speaks(__name__)
