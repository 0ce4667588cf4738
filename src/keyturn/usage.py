"""A path of the OpenAI Agents SDK: what a run used. It defines nothing."""

from __future__ import annotations

from . import RequestUsage as RequestUsage
from . import Usage as Usage
from ._missing import speaks

speaks(__name__)
