"""What was said on a state in hand and not delivered yet: it travels with the state, and is appended in one step.

The last word on a call counts; earlier ones are kept for the record. A standing decision belongs to the decision it was
given with, and goes when that is replaced.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ..core import events as ev
from ..core.codec import as_text
from ..core.errors import BadJson, UserError
from ..core.items import Item
from ..core.preview import unredacted
from ..core.run import Call
from ..tools.base import InvalidArguments
from .items import ToolApprovalItem


class Undelivered(msgspec.Struct, omit_defaults=True):
    """Decisions, standing decisions by the call they came with, messages, and how to start what has not started."""

    decisions: dict[str, ev.Decision] = {}
    grants: dict[str, ev.GrantTerms] = {}
    replaced: list[ev.Decision] = []
    input: list[Item] = []
    start: dict[str, Any] | None = None

    def text(self) -> str:
        """All of it as text, to be saved."""
        return as_text(self)

    def taken(self) -> Undelivered:
        """The same, as it is now."""
        said = msgspec.structs.replace(self, decisions=self.decisions.copy(), grants=self.grants.copy())
        said.replaced, said.input = self.replaced.copy(), self.input.copy()
        return said

    def since(self, taken: Undelivered) -> Undelivered:
        """What was said after that was taken."""
        decisions = {call: said for call, said in self.decisions.items() if taken.decisions.get(call) is not said}
        grants = {call: said for call, said in self.grants.items() if taken.grants.get(call) is not said}
        known = {id(said) for said in [*taken.decisions.values(), *taken.replaced, *taken.input]}
        replaced = [said for said in self.replaced if id(said) not in known]
        return Undelivered(decisions, grants, replaced, [item for item in self.input if id(item) not in known])

    def say(self, decision: ev.Decision) -> None:
        """Take a decision in, in place of an earlier one on the same call."""
        before = self.decisions.pop(decision.call, None)
        self.decisions[decision.call] = decision
        if before is not None:
            self.replaced.append(before)
        self.grants.pop(decision.call, None)


def edited_text(item: ToolApprovalItem, edit: Mapping[str, Any] | str, call: Call | None) -> str:
    """The text that will run after an edit, validated by the tool, or `UserError`.

    A redacted value that was left as it was shown keeps its true value.
    """
    if item.tool is None:
        raise UserError(f"the tool {item.tool_name!r} is not there to check the edit; give the agent the tool again")
    try:
        return item.tool.edit(unredacted(edit, item.params, call.params if call is not None else item.params)).text
    except (InvalidArguments, BadJson) as error:
        raise UserError(f"the edited arguments do not fit {item.tool_name!r}, nothing was decided: {error}") from None
