"""A path of the OpenAI Agents SDK: encrypted conversations. It defines nothing."""

from __future__ import annotations

from ... import EncryptedSession as EncryptedSession
from ..._missing import speaks

speaks(__name__)
