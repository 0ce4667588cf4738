"""Keep decisions given on a state until they are delivered: they travel with the state, and are one step.

The last word on a call counts; earlier ones are kept for the record. A standing decision belongs to the decision it was
given with, and goes when that is replaced.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from ...core import commands as cm
from ...core import events as ev
from ...core.codec import as_text
from ...core.decide import step
from ...core.digest import canonical
from ...core.errors import BadJson, KeyturnError, UserError
from ...core.gate.delivery import one_by_one
from ...core.items import Item
from ...core.people import Decider
from ...core.preview import Preview, unredacted
from ...core.run import Call, Run, copy_run
from ...core.strict import parse
from ...support.turns import AT_A_TIME, in_turns
from ...tools.base import InvalidArguments, as_typed
from ..facts.decisions import Edit, MadeDecision, check_verdict
from ..views.items import ToolApprovalItem


class UndeliveredDecisions(msgspec.Struct, omit_defaults=True):
    """Holds undelivered decisions, standing decisions by call, messages, and how to start a new run.

    `revoked` holds grants that are taken back, `journalled` says that the run is kept in a journal, which alone knows
    how far it came.
    """

    decisions: dict[str, ev.Decision] = {}
    grants: dict[str, ev.GrantTerms] = {}
    replaced: list[ev.Decision] = []
    input: list[Item] = []
    start: dict[str, Any] | None = None
    revoked: dict[str, Decider | None] = {}
    journalled: bool = False

    @property
    def empty(self) -> bool:
        """Return whether nothing was said."""
        return not (self.decisions or self.grants or self.input or self.revoked)

    def commands(self) -> list[cm.RunCommand]:
        """Return the decisions as commands of one step."""
        made: list[cm.RunCommand] = [cm.Revoke(grant, _claimed(by)) for grant, by in self.revoked.items()]
        if self.decisions or self.grants:
            decided = [_in_hand(decision) for decision in self.decisions.values()]
            granted = [replace(grant, decider=_claimed(grant.decider)) for grant in self.grants.values()]
            whole = cm.Deliver(decided, granted, [_in_hand(decision) for decision in self.replaced])
            made += one_by_one(whole) if len(decided) > AT_A_TIME else [whole]
        if self.input:
            made.append(cm.AddInput(ev.ROOT, self.input))
        return made

    def only(self, call: str) -> UndeliveredDecisions:
        """Return the decisions on one call."""
        replaced = [decision for decision in self.replaced if decision.call == call]
        grants = {call: self.grants[call]} if call in self.grants else {}
        return UndeliveredDecisions({call: self.decisions[call]}, grants, replaced)

    def text(self) -> str:
        """Encode all of it as text, to be saved."""
        return as_text(self)

    def taken(self) -> UndeliveredDecisions:
        """Return a copy as it is now."""
        said = msgspec.structs.replace(self, decisions=self.decisions.copy(), grants=self.grants.copy())
        said.replaced = self.replaced.copy()
        said.input = self.input.copy()
        said.revoked = self.revoked.copy()
        return said

    def since(self, taken: UndeliveredDecisions) -> UndeliveredDecisions:
        """Return what was added since a copy was taken."""
        if self.empty and not self.replaced:
            return UndeliveredDecisions(journalled=self.journalled)
        decisions = {call: said for call, said in self.decisions.items() if taken.decisions.get(call) is not said}
        grants = {call: said for call, said in self.grants.items() if taken.grants.get(call) is not said}
        known = {id(said) for said in [*taken.decisions.values(), *taken.replaced, *taken.input]}
        replaced = [said for said in self.replaced if id(said) not in known]
        added = [item for item in self.input if id(item) not in known]
        revoked = {grant: by for grant, by in self.revoked.items() if grant not in taken.revoked}
        return UndeliveredDecisions(decisions, grants, replaced, added, revoked=revoked, journalled=self.journalled)

    def say(self, said: MadeDecision) -> None:
        """Add a decision and its standing decision, in place of an earlier one on the same call."""
        decision = said.decision
        before = self.decisions.pop(decision.call, None)
        self.decisions[decision.call] = decision
        if before is not None:
            self.replaced.append(before)
        self.grants.pop(decision.call, None)
        if said.grant is not None:
            self.grants[decision.call] = said.grant

    def tell(self, call: str, metadata: Any) -> None:
        """Add what the tool of a call is told with the approval that was given last."""
        self.decisions[call] = replace(self.decisions[call], metadata=metadata)

    def revoke(self, grant: str, by: Decider | None) -> None:
        """Revoke a standing decision, whether it was delivered or not."""
        kept = {call: terms for call, terms in self.grants.items() if terms.id != grant}
        if len(kept) == len(self.grants):
            self.revoked[grant] = by
        self.grants = kept


def _in_hand(decision: ev.Decision) -> ev.Decision:
    return replace(decision, decider=_claimed(decision.decider), via="person", grant=None)


def _claimed(by: Decider | None) -> Decider | None:
    """Mark deciders as claimed, whatever a loaded text says of them: nobody has logged in to a state."""
    return None if by is None else Decider(by.id)


def edited(
    item: ToolApprovalItem, edit: Mapping[str, Any] | str | None, call: Call | None, seen: Preview | None = None
) -> Edit | None:
    """Return an edit validated by the tool, or raise `UserError`; None where nothing was edited.

    A redacted value that was left as it was shown keeps its true value.
    """
    if edit is None:
        return None
    check_verdict(item.request, "edit")
    if item.tool is None:
        raise UserError(f"the tool {item.tool_name!r} is not there to check the edit; give the agent the tool again")
    if seen is not None and not isinstance(cast("object", seen), Preview):
        raise UserError(f"seen is the Preview that the editor was shown, not a {type(seen).__name__}")
    try:
        parse(canonical(edit))  # before anything walks through it: it may be deep, or hold itself
        basis = None if seen is None else dict(seen.basis)
        canonical(basis)
        true = call.params if call is not None else item.params
        text = as_typed(item.tool, unredacted(edit, item.params, true)).text
        parse(text)
        return Edit(text, basis, "" if call is None else call.proposal.key)
    except (InvalidArguments, BadJson) as error:
        raise UserError(f"the edited arguments do not fit {item.tool_name!r}, nothing was decided: {error}") from None


async def refused(as_it_stands: Run, said: UndeliveredDecisions, now: int) -> UndeliveredDecisions:
    """Find what of `said` a run refuses as it stands now: word by word, on a copy of the run.

    A delivery is recorded whole or not at all. Where one word of it is refused, only that word is dropped, so that the
    decisions beside it are good for the next resume.
    """
    run = copy_run(as_it_stands)
    calls = {call async for call in in_turns(said.decisions) if not _counts(run, said.only(call), now)}
    revoked = {
        grant: by
        for grant, by in said.revoked.items()
        if not _counts(run, UndeliveredDecisions(revoked={grant: by}), now)
    }
    return UndeliveredDecisions(
        {call: decision for call, decision in said.decisions.items() if call in calls},
        {call: grant for call, grant in said.grants.items() if call in calls},
        [decision for decision in said.replaced if decision.call in calls],
        revoked=revoked,
    )


def _counts(run: Run, said: UndeliveredDecisions, now: int) -> bool:
    try:
        for command in said.commands():
            step(run, command, now)
    except KeyturnError:
        return False
    return True
