"""How much of each thing a seed may do, and what one tool is: what all parts of a plan are drawn from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Knobs:
    """How much of each thing a seed may do."""

    runs: int = 2
    processes: int = 3
    calls: int = 4
    depth: int = 2
    deaths: bool = True
    stalls: bool = True
    faults: bool = True
    changes: bool = True
    guardrails: bool = True
    policies: bool = True
    crowd: bool = True
    skew: bool = True
    streams: bool = True
    misbehaviour: bool = True
    meddling: bool = True
    restores: bool = True
    roles: bool = True
    limits: bool = True
    telling: bool = True
    talks: bool = True
    forks: bool = True
    poison: bool = True
    reviews: bool = True
    queues: bool = True
    late: bool = True
    patience: bool = True
    callers: bool = True
    chains: bool = True


@dataclass(frozen=True)
class Spec:
    """One tool: what it is called, what it asks of people, and what a lost start of it means."""

    name: str
    gate: str = "free"
    recover: str = "ask"
    timeout: float | None = None
    questions: bool = False
    guarded: bool = False

    def asks(self, params: Any) -> bool:
        """Whether its own setting asks a person about these arguments."""
        return self.gate not in ("free", "asks_if") or (self.gate == "asks_if" and params["n"] >= 50)
