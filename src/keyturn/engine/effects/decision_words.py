"""Tell the model what a person did to its call; the call itself is never rewritten."""

from __future__ import annotations

from ...core.digest import canonical
from ...core.items import Item
from ...core.preview import redact
from ...core.run import Call
from ...tools.base import Tool, text_noticed

_EDITED = "A person changed the arguments of this call before approving it. It ran with: "


def told_of_edit(call: Call, tool: Tool | None, item: Item) -> Item:
    """Return a call's result; where a person changed the arguments, with a note for the model in front.

    A secret that a person typed is not the model's to read.
    """
    if not call.edited:
        return item
    secrets = call.proposal.secrets  # as they were when the call was shown: the tool may be gone, or another by now
    ran = canonical(redact(call.params, secrets)) if secrets else call.text
    return (tool.notice if tool is not None else text_noticed)(item, _EDITED + ran)
