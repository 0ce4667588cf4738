"""What a drive tells its listeners that is not in the log: ephemeral, never folded, never replayed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Delta:
    """A raw event of a model's stream."""

    frame: str
    event: Any


@dataclass(frozen=True, slots=True)
class AgentAtWork:
    """An agent begins to work in a frame."""

    frame: str
    agent: Any
