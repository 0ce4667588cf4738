"""Say where a request of an external caller comes from: one line of its preview, and the parts of that line.

All of it is what the caller states. Lists are filtered and grouped by it, and nothing is decided by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..core.preview import Text
from ..core.request import Request

#: The label of the block that says it.
SOURCE = "requested from, as the caller states it"
#: The parts of a source, as addresses and searches name them, and as people read them.
SOURCES = {"framework": "framework", "host": "machine", "folder": "folder", "session": "session"}
PARTS = tuple(SOURCES)
_BETWEEN = " · "
#: How long a source is at most, in one line; and so each part of it.
LONGEST = 1_000


class RequestSource(NamedTuple):
    """Names where a request comes from; a part that is "" was not stated, or in a filter may be any.

    >>> RequestSource("Claude Code", "build-7", "/srv/app").text
    'Claude Code · host build-7 · folder /srv/app'
    >>> RequestSource("host build-7").text
    'framework host build-7'
    """

    framework: str = ""
    host: str = ""
    folder: str = ""
    session: str = ""

    @property
    def text(self) -> str:
        """Return it in one line."""
        named = [f"{name} {value}" for name, value in zip(PARTS, self, strict=True) if value]
        if self.framework and _named(self.framework) is None:  # no other part begins so
            named[0] = self.framework
        return _BETWEEN.join(named)[:LONGEST]

    def has(self, other: RequestSource) -> bool:
        """Return whether this is a source as a filter names it; upper and lower case are alike.

        >>> codex = RequestSource("Codex CLI", "build-7")
        >>> codex.has(RequestSource(host="Build-7")), codex.has(RequestSource(folder="/srv"))
        (True, False)
        """
        return all(not want or want.casefold() == have.casefold() for have, want in zip(self, other, strict=True))


def stated_in(context: Mapping[str, Any]) -> RequestSource:
    """Return what the context of a request states; what separates the parts stands in none.

    >>> stated_in({"framework": "Codex CLI", "host": "a · folder /etc", "folder": 5})
    RequestSource(framework='Codex CLI', host='a - folder /etc', folder='', session='')
    """
    stated = [context.get(name) for name in PARTS]
    return RequestSource(*(_apart(each) if isinstance(each, str) else "" for each in stated))


def _apart(part: str) -> str:
    """Return a part that cannot be read as two, nor as one with the mark behind or before it."""
    return part.replace(_BETWEEN, " - ").strip(_BETWEEN)


def _named(part: str) -> tuple[str, str] | None:
    """Return the name and the value of a part that says its name."""
    name, _, value = part.partition(" ")
    return (name, value) if name in PARTS and value else None


def source_of(request: Request) -> RequestSource:
    """Return where a request comes from, of what its preview says; nothing for one of an agent of the app."""
    last = request.preview.blocks[-1] if request.preview.blocks else None
    if not isinstance(last, Text) or last.label != SOURCE:
        return RequestSource()
    found: dict[str, str] = {}
    for part in last.text.split(_BETWEEN):
        key, value = _named(part) or ("framework", part)
        found.setdefault(key, value)
    return RequestSource(**found)
