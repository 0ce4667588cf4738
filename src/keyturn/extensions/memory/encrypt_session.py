"""Re-export encrypted conversations under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from ... import EncryptedSession as EncryptedSession
from ...sessions.encrypted import EncryptedEnvelope as EncryptedEnvelope
from ...support.missing import speaks

speaks(__name__)
