"""Hold how one run stands, and where it failed."""

from __future__ import annotations

from typing import NamedTuple

from ..journal.rows import RunRow


class Story(NamedTuple):
    """Holds how a run stands, and the traceback of what stopped it, "" where nothing did."""

    row: RunRow
    traceback: str = ""
