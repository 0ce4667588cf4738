"""The signals of a drive that are not in the log: never folded, never replayed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Delta:
    """Carries a raw event of a model's stream."""

    frame: str
    event: Any


@dataclass(frozen=True, slots=True)
class AgentAtWork:
    """Says that an agent begins to work in a frame."""

    frame: str
    agent: Any
