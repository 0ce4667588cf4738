"""Decide, in a session, what waits in its run: the same words as for any run, judged by the same gate.

Who is in the session is only somebody who claims a name: terms that want a role, a quorum or a signature are met in an
inbox, where it is known who decides.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any

from ..core import commands as cm
from ..core.errors import NotPending, UserError
from ..engine.attended import AttendedExecution
from ..engine.effects.fused_steps import deliver
from ..engine.facts import decisions
from ..engine.facts.reaches import reach_of
from ..engine.states.undelivered import edited
from ..engine.views.decisions_by_label import asked_as, asked_once
from ..engine.views.items import ToolApprovalItem
from ..policies.grants import Grant


class SessionDecisions(abc.ABC):
    """Decides the calls of a session."""

    @property
    @abc.abstractmethod
    def pending_approvals(self) -> list[ToolApprovalItem]:
        """Return the calls that wait for somebody."""

    @abc.abstractmethod
    async def _carried_out(self, call: str) -> None:
        """Where calls are awaited (`async_tool_calls=False`), wait until a decided call's result was sent."""

    @abc.abstractmethod
    def opened(self) -> AttendedExecution:
        """Return the execution of the run; raise where the session is not open."""

    async def approve_tool_call(
        self,
        call_id: str | ToolApprovalItem,
        *,
        always: bool = False,
        edit: Mapping[str, Any] | str | None = None,
        grant: Grant | None = None,
        note: str | None = None,
        by: str | None = None,
    ) -> None:
        """Approve a call that waits, by the model's id of it, by its request id, or by the item of its event.

        An id names a call that asked once; of one that asks again, the item says which asking was shown.

        `always` or a `Grant` approves later calls of the same tool of the same agent, too; `edit` gives other
        arguments, whole.
        """
        item = self._waiting(call_id)
        given = grant if grant is not None else Grant() if always else None
        live = self.opened().live
        made = edited(item, edit, live.run.calls.get(item.call))
        reach = reach_of(given, live.run, live.journal)
        now = self.opened().drive.clock()
        await self._decide(decisions.approve(item.request, now, edit=made, grant=given, reach=reach, note=note, by=by))

    async def reject_tool_call(
        self,
        call_id: str | ToolApprovalItem,
        *,
        always: bool = False,
        rejection_message: str | None = None,
        note: str | None = None,
        by: str | None = None,
    ) -> None:
        """Reject a call that waits; the model is told `rejection_message`."""
        request, now = self._waiting(call_id).request, self.opened().drive.clock()
        await self._decide(decisions.reject(request, now, message=rejection_message, always=always, note=note, by=by))

    async def answer_tool_call(
        self, call_id: str | ToolApprovalItem, output: object, *, note: str | None = None, by: str | None = None
    ) -> None:
        """Give the model a person's own result of a call, or its tool what it asked for."""
        request = self._waiting(call_id).request
        await self._decide(decisions.answer(request, self.opened().drive.clock(), output, note=note, by=by))

    async def resolve_tool_call(
        self,
        call_id: str | ToolApprovalItem,
        outcome: decisions.Outcome,
        output: object = None,
        *,
        note: str | None = None,
        by: str | None = None,
    ) -> None:
        """Resolve a call in doubt: it ran (with this output), it did not, or it shall be retried."""
        request = self._waiting(call_id).request
        await self._decide(decisions.resolve(request, self.opened().drive.clock(), outcome, output, note=note, by=by))

    def _waiting(self, name: str | ToolApprovalItem) -> ToolApprovalItem:
        """Return the call that waits, as whoever decides was shown it."""
        self.opened()
        waiting = self.pending_approvals
        if isinstance(name, ToolApprovalItem):
            shown = [item for item in waiting if (item.run_id, item.digest) == (name.run_id, name.digest)]
            if shown:
                return shown[0]
            raise NotPending("no call of this session waits as that item shows it; take one of pending_approvals")
        found = [item for item in waiting if item.request_id == name] or [
            item for item in waiting if item.call_id == name
        ]
        if not found:
            raise NotPending(f"no call {name!r} of this session waits; `pending_approvals` lists those that do")
        if len(found) > 1:
            names = ", ".join(item.request_id for item in found)
            raise UserError(f"{len(found)} calls that wait have the id {name!r}: name one by its request id: {names}")
        if found[0].request_id != name and asked_as(self.opened().live, name) - {found[0].call}:
            raise NotPending(
                f"{name!r} was the id of another call before: pass the item that the event showed, event.item"
            )
        if found[0].revision > 1 and not asked_once(self.opened().live, found[0].call):  # which asking was shown?
            raise NotPending(f"call {name!r} has asked again since: pass the item that the event showed, event.item")
        return found[0]

    async def _decide(self, made: decisions.MadeDecision) -> None:
        grants = [] if made.grant is None else [made.grant]
        drive = self.opened().drive
        await deliver(drive, [made.decision], cm.Deliver([made.decision], grants))
        drive.rouse()
        await self._carried_out(made.decision.call)
