"""A path of the OpenAI Agents SDK: what a session is. It defines nothing."""

from __future__ import annotations

from .. import Session as Session
from .. import SessionABC as SessionABC
from .._missing import speaks

speaks(__name__)
