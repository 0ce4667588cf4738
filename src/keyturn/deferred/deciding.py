"""Turn waiting calls into requests, and results into decisions on the state of their run.

Nothing is decided here: each answer is said on a `RunState` of what its maker was shown, and the gate judges it.
"""

from __future__ import annotations

from typing import Any, cast

from ..core import events as ev
from ..core.call_ids import call_id
from ..core.digest import canonical
from ..core.errors import BadJson
from ..core.items import input_items, own_copy
from ..core.preview import Json
from ..engine.effects.run_tool import SAID
from ..engine.run.open_run import OpenRun
from ..engine.states.state import RunState
from ..engine.views.items import ToolApprovalItem
from .requests import (
    Category,
    DeferredToolCall,
    DeferredToolRequests,
    DeferredToolResults,
    ToolApproved,
    ToolDenied,
    ToolReturn,
    WrongResults,
    check_results,
    output_of,
)

_CATEGORY: dict[str, Category] = {"approval": "approvals", "external": "calls", "in_doubt": "in_doubt"}


def requests_of(state: RunState[Any]) -> DeferredToolRequests:
    """Describe the calls for which a state waits."""
    made = DeferredToolRequests()
    for label, item in _by_label(state).items():
        params: object = item.params
        args = cast("dict[str, Any]", params) if isinstance(params, dict) else {"input": params}
        part = DeferredToolCall(
            item.name or "", args, label, agent=item.request.path, reason=item.reason,
            preview=item.preview, question=item.requests, digest=item.request.digest,
        )  # fmt: skip
        getattr(made, _CATEGORY[item.kind]).append(part)
        if said := _said(item):
            made.metadata[label] = said
    return made


def _said(item: ToolApprovalItem) -> dict[str, Any] | None:
    """Return what the tool said of its call when it asked."""
    blocks = item.preview.blocks
    said: Any = next((each.value for each in blocks if isinstance(each, Json) and each.label == SAID), None)
    return cast("dict[str, Any]", said) if isinstance(said, dict) else None


def decide(state: RunState[Any], results: DeferredToolResults, note: str | None = None) -> None:
    """Say results on a state: all of them, or none where one is refused."""
    items = _by_label(state)
    check_results(results, requests_of(state))
    _check_metadata(results)
    for label, said in results.approvals.items():
        _decide(state, items[label], said, results.metadata.get(label), note)
    for label, value in results.calls.items():
        state.answer(items[label], output_of(value), note=note)
    for label, became in results.in_doubt.items():
        if isinstance(became, ToolReturn):
            state.resolve(items[label], "ran", became.told(), note=note)
        else:
            state.resolve(items[label], became, note=note)


def _decide(state: RunState[Any], item: ToolApprovalItem, said: object, metadata: object, note: str | None) -> None:
    if said is False:
        said = ToolDenied()
    if isinstance(said, ToolDenied):
        state.reject(item, rejection_message=said.message, by=said.by, note=said.note or note)
        return
    approved = said if isinstance(said, ToolApproved) else ToolApproved()
    state.approve(item, edit=approved.override_args, by=approved.by, note=approved.note or note)
    if metadata is not None:
        state.undelivered.tell(item.call, own_copy(metadata))


def _check_metadata(results: DeferredToolResults) -> None:
    try:
        canonical(results.metadata)
    except BadJson as error:
        raise WrongResults(f"the metadata of an approval is JSON: {error}") from None


def _by_label(state: RunState[Any]) -> dict[str, ToolApprovalItem]:
    """Return the waiting calls by the id under which they are answered.

    That is the model's own id of a call, unless an earlier call of the conversation had the same one, or the call asked
    before: an answer that was given then must not count now.
    """
    waiting = state.get_interruptions()
    seen = _Seen(state.live, state.position)
    return {seen.name(item): item for item in waiting}


class _Seen:
    """Walks a log for the ids that its models gave to calls, and for how often each call asked."""

    def __init__(self, live: OpenRun, position: int) -> None:
        self._first: dict[str, str] = {}
        self._taken = {str(item.get("call_id")) for item in input_items(live.run.input) if "call_id" in item}
        self._asked: dict[str, int] = {}
        self._turns: dict[str, int] = {}
        for step in live.log.steps[:position]:
            for event in step.events:
                self._note(event)

    def name(self, item: ToolApprovalItem) -> str:
        """Return the id under which a waiting call is answered."""
        label = item.call_id or ""
        if label and self._first.get(item.call) == label and self._asked.get(item.call, 0) <= 1:
            return label
        return f"{label}~{item.request_id[:12]}.{item.revision}"

    def _note(self, event: ev.AnyEvent) -> None:
        match event:
            case ev.FrameOpened(frame=frame):
                self._turns[frame] = 0
            case ev.ReplyRecorded(frame=frame, proposals=proposals):
                self._turns[frame] = self._turns.get(frame, 0) + 1
                for index, made in enumerate(proposals):
                    if made.label not in self._taken:
                        self._first[call_id(frame, self._turns[frame], index)] = made.label
                    self._taken.add(made.label)
            case ev.CallScreened(call=call, action="ask") | ev.CallNeeds(call=call) | ev.CallAskedAgain(call=call):
                self._asked[call] = self._asked.get(call, 0) + 1
            case ev.CallLost(call=call, again=False):
                self._asked[call] = self._asked.get(call, 0) + 1
            case _:
                pass
