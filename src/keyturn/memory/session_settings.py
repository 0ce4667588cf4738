"""A path of the OpenAI Agents SDK: settings of sessions. It defines nothing."""

from __future__ import annotations

from .. import SessionSettings as SessionSettings
from .._missing import speaks

speaks(__name__)
