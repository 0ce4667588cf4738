"""How a build is broken on purpose: a piece of one function's source replaced, in this process alone.

A function keeps its identity and gets another body, so that every table and module that holds it has the broken one.
A piece that is not there exactly once is an error: a mutant that changes nothing would be caught by nobody.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, cast

# What was made of a function so far, where more than one piece of it is replaced.
_SOURCES: dict[Any, str] = {}


class Stale(Exception):
    """The source is no longer as a mutant means it: say the alteration anew."""


@dataclass(frozen=True)
class Edit:
    """One piece of a function's source and what stands in its place; `names` are those that it needs besides."""

    function: Callable[..., Any]
    old: str
    new: str
    names: dict[str, Any] = field(default_factory=dict[str, Any])

    def altered(self, sources: dict[Any, str]) -> str:
        """Return the other source, and keep it; raise `Stale` where the piece is not there exactly once."""
        function = cast("FunctionType", self.function)
        source = sources.get(function) or textwrap.dedent(inspect.getsource(function))
        if source.count(self.old) != 1:
            raise Stale(f"{function.__qualname__} has {self.old!r} {source.count(self.old)} times, not once")
        sources[function] = source.replace(self.old, self.new)
        return sources[function]

    def apply(self) -> None:
        """Give the function its other body, here and now."""
        function = cast("FunctionType", self.function)
        source = self.altered(_SOURCES)
        made: dict[str, Any] = {}
        function.__globals__.update(self.names)
        text = "from __future__ import annotations\n" + source
        exec(compile(text, f"<mutant of {function.__qualname__}>", "exec"), function.__globals__, made)
        found = made[function.__name__]
        function.__code__ = cast("FunctionType", found.fget if isinstance(found, property) else found).__code__


@dataclass(frozen=True)
class Moves:
    """Moves of a call's state that the table must not have."""

    table: dict[tuple[str, str], str]
    wrong: dict[tuple[str, str], str]

    def apply(self) -> None:
        """Put them in."""
        self.table.update(self.wrong)


@dataclass(frozen=True)
class Mutant:
    """A build with one fault: its name, the law that it breaks, and what is altered."""

    name: str
    law: str
    alterations: tuple[Edit | Moves, ...] = field(default=())

    def apply(self) -> None:
        """Break this process. There is no way back but another process."""
        for alteration in self.alterations:
            alteration.apply()


def mutant(name: str, law: str, *alterations: Edit | Moves) -> Mutant:
    """A mutant, as its table writes it."""
    return Mutant(name, law, alterations)
