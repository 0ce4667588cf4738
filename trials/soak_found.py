"""What a soak came to, and how it is shown."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from .table import grid


@dataclass
class Found:
    """What a soak came to."""

    faults: Counter[str] = field(default_factory=Counter[str])
    takeovers: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    violations: list[str] = field(default_factory=list[str])
    started: int = 0
    ended: Counter[str] = field(default_factory=Counter[str])
    doubts: int = 0
    lost: int = 0
    revived: int = 0
    served: int = 0


def table(found: Found) -> str:
    """Say what was done, and how long takeovers took."""
    lines = list[list[str]]()
    for fault, times in sorted(found.faults.items()):
        took = sorted(found.takeovers.get(fault, []))
        cells = [f"{took[min(int(len(took) * part), len(took) - 1)]:.1f}" for part in (0.5, 0.95, 1.0)] if took else []
        lines.append([fault, str(times), str(len(took)) if took else "", *(cells or [""] * 3)])
    return grid(["fault", "times", "takeovers", "p50 s", "p95 s", "max s"], lines)
