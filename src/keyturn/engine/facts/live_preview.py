"""Preview what a call would change, as it is now: for a tool that looks at the world.

It is recorded when the call asks, so that everybody who decides sees the same, and made again just before the call
starts, against changes between the check and the use (TOCTOU). Nothing is decided here.
"""

from __future__ import annotations

import msgspec

from ...core.digest import canonical
from ...core.errors import ToolSourceDown
from ...core.preview import Preview
from ...core.run import Call
from ...support.user_code import answer_of, class_name
from ...tools.base import Tool, plain_preview, shown_preview
from ..logger import error_words, logger

CHANGED = "what it would change has changed since it was shown: review it again before you decide"


async def look(tool: Tool, call: Call, *, again: bool = False) -> Preview:
    """Make the preview now; where that fails, the arguments are shown and the call still asks.

    One that fails neither hides the call nor lets it pass: the arguments are there to show. Where somebody has decided
    and it is looked at `again`, a server that is down takes nothing of that back: it is raised.
    """
    try:
        made = await answer_of(tool.preview, call.params)
        if isinstance(made, Preview):
            return recorded(shown_preview(tool, made, call.params, call.proposal.secrets))
        logger.warning("the preview of %r is a %s, people are shown its arguments", tool.name, type(made).__name__)
        note = f"This tool's own preview is not a Preview but {type(made).__name__}; these are its arguments."
    except Exception as error:
        if again and isinstance(error, ToolSourceDown):
            raise
        logger.warning("the preview of %r failed, people are shown its arguments: %s", tool.name, error_words(error))
        note = f"This tool's own preview failed ({class_name(error)}); these are its arguments."
    return plain_preview(call.params, call.proposal.secrets, note)


def recorded(preview: Preview) -> Preview:
    """Return the preview as a log gives it back, or raise, so that everybody sees the same."""
    made = msgspec.json.decode(msgspec.json.encode(preview), type=Preview)
    canonical(made.basis)
    return made


async def changed_since(tool: Tool, call: Call) -> Preview | None:
    """Return what an approved call would do now, where the world that it was shown with has changed since."""
    if not tool.looks or call.preview is None:
        return None
    made = await look(tool, call, again=True)
    return made if _differs(call, call.preview.basis, made.basis) else None


def _differs(call: Call, shown: dict[str, str], now: dict[str, str]) -> bool:
    decision = call.decision
    if decision is None or decision.args is None:
        return now != shown
    # Who changed the arguments saw these things, and nothing else that the call would touch now was shown to anybody.
    seen = shown if decision.basis is None else decision.basis
    blind = bool(seen) and not now
    return blind or any(seen.get(name) != what for name, what in now.items())
