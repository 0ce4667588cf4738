"""Words for the model about what a person did to its call. The call itself is never rewritten."""

from __future__ import annotations

from ..core.items import Item
from ..core.run import Call

_EDITED = "A person changed the arguments of this call before approving it. It ran with: "


def told_of_edit(call: Call, item: Item) -> Item:
    """A call's result; where a person changed the arguments, with word of it for the model, and to what."""
    if not call.edited:
        return item
    notice, output = _EDITED + call.text, item.get("output")
    if isinstance(output, str):
        return {**item, "output": f"{notice}\n\n{output}"}
    if isinstance(output, list):
        return {**item, "output": [{"type": "input_text", "text": notice}, *output]}
    return item
