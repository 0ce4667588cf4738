"""A path of the OpenAI Agents SDK: more sessions. It defines nothing."""

from __future__ import annotations

from ... import EncryptedSession as EncryptedSession
from ... import SQLAlchemySession as SQLAlchemySession
from ..._missing import speaks

speaks(__name__)
