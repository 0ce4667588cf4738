"""What a run that waits asks for, and what is answered: requests, results, and the two ways a tool asks from inside.

Data only: what is answered here becomes a decision in `deciding.py`, and the gate judges it there as from any door.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from ..agents.output import dump
from ..core.errors import NotPending, UserError
from ..core.preview import Preview
from ..tools.base import Asking, NeedsInput, ToolProblem
from .messages import RetryPromptPart, ToolCallPart

Category = Literal["approvals", "calls", "in_doubt"]


@dataclass(slots=True)
class DeferredToolCall(ToolCallPart):
    """Holds a call that waits: `args` is what would run, validated, as a dict; secrets are redacted.

    `tool_call_id` is the model's own id of the call, and another one where that id was asked about before: an answer
    of then is no answer now.

    >>> DeferredToolCall("pay", {"amount": 3}, "c1", agent="desk").agent
    'desk'
    """

    agent: str = ""
    reason: str = ""
    preview: Preview = field(default_factory=lambda: Preview(()), repr=False)
    question: Any = None
    digest: str = field(default="", repr=False, compare=False)


@dataclass(kw_only=True, slots=True)
class ToolApproved:
    """Approves a call, with `override_args` in place of all its arguments where they are given.

    >>> ToolApproved(override_args={"amount": 2}).override_args
    {'amount': 2}
    """

    override_args: dict[str, Any] | None = None
    by: str | None = None
    note: str | None = None
    kind: Literal["tool-approved"] = "tool-approved"


@dataclass(slots=True)
class ToolDenied:
    """Denies a call; the model reads `message` as its result.

    >>> ToolDenied("Not on a Friday.").message
    'Not on a Friday.'
    """

    message: str = "The tool call was denied."
    by: str | None = field(default=None, kw_only=True)
    note: str | None = field(default=None, kw_only=True)
    kind: Literal["tool-denied"] = field(default="tool-denied", kw_only=True)


@dataclass(slots=True)
class ToolReturn:
    """Holds the result of a call: the model reads `return_value`, and after it `content`: a text, or a list of parts.

    `metadata` is for the program alone: the model does not read it.

    >>> ToolReturn({"rows": 3}).return_value
    {'rows': 3}
    >>> ToolReturn({"rows": 3}, content=["The newest is of today."]).told()
    [{'type': 'text', 'text': '{"rows": 3}'}, {'type': 'text', 'text': 'The newest is of today.'}]
    """

    return_value: Any
    metadata: Any = None
    kind: Literal["tool-return"] = "tool-return"
    content: str | Sequence[Any] | None = field(default=None, kw_only=True)

    def told(self) -> Any:
        """Return what the model reads, as a tool would return it."""
        if self.content is None:
            return self.return_value
        more: list[Any] = [self.content] if isinstance(self.content, str | Mapping) else list(self.content)
        value = self.return_value
        text = value if isinstance(value, str) else json.dumps(dump(value), ensure_ascii=False, default=str)
        return [{"type": "text", "text": each} if isinstance(each, str) else each for each in (text, *more)]


class ModelRetry(ToolProblem):
    """Raised in a tool, or given as the result of an external call, to have the model try again with these words.

    >>> ModelRetry("There is no such account.").message
    'There is no such account.'
    """


class CallDeferred(Asking):
    """Raised in a tool whose call is carried out elsewhere: the answer is its result, and the tool is not called again.

    >>> CallDeferred({"job": 5}).needs.wants
    'result'
    """

    def __init__(self, metadata: dict[str, Any] | None = None) -> None:
        self.metadata = metadata
        self.needs = NeedsInput(said_of("CallDeferred", metadata), wants="result")
        super().__init__("the result of this call comes from elsewhere")


class ApprovalRequired(Asking):
    """Raised in a tool that has done nothing yet and must be approved; it is called anew when it is.

    Raise it only where `not ctx.tool_call_approved`, or the approved call asks again.

    >>> ApprovalRequired(metadata={"why": "more than 100"}).needs.wants
    'approval'
    """

    def __init__(self, metadata: dict[str, Any] | None = None) -> None:
        self.metadata = metadata
        self.needs = NeedsInput(said_of("ApprovalRequired", metadata), wants="approval")
        super().__init__("this call needs an approval")


def said_of(what: str, metadata: object) -> dict[str, Any]:
    """Return the metadata of a call that asks, or refuse what is none."""
    if not isinstance(metadata, dict | None):
        raise UserError(f"metadata of {what} is a dict, not {type(metadata).__name__}")
    return dict(cast("dict[str, Any]", metadata or {}))


Approved = bool | ToolApproved | ToolDenied


Outcome = Literal["ran", "did_not_run", "retry"] | ToolReturn


@dataclass(kw_only=True, slots=True)
class DeferredToolResults:
    """Answers calls that wait, by `tool_call_id`: all of them, or some of them now and the others another time.

    `in_doubt` says of calls that were started and whose outcome nobody knows: "ran" (or a `ToolReturn` of its result),
    "did_not_run" or "retry". `shown` holds the digests of the calls that `build_results` answers: results of one
    history are refused by another, whose calls may have the same ids.

    >>> DeferredToolResults(approvals={"c1": True}, calls={"c2": {"rows": 3}}).approvals
    {'c1': True}
    """

    approvals: dict[str, Approved] = field(default_factory=dict[str, Approved])
    calls: dict[str, Any] = field(default_factory=dict[str, Any])
    metadata: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    in_doubt: dict[str, Outcome] = field(default_factory=dict[str, Any])
    shown: dict[str, str] = field(default_factory=dict[str, str], repr=False, compare=False)

    def update(self, other: DeferredToolResults) -> None:
        """Add the answers of another."""
        for name in ("approvals", "calls", "metadata", "in_doubt", "shown"):
            getattr(self, name).update(getattr(other, name))


@dataclass(kw_only=True, slots=True)
class DeferredToolRequests:
    """Lists the calls for which a run waits: the `output` of a run that is not finished.

    `approvals` wait for a yes or no, `calls` for a result from outside (or the answer to a question of their tool),
    `in_doubt` were started and nobody knows how they ended. `metadata` is what a tool said of its call, by id.

    >>> requests = DeferredToolRequests(approvals=[DeferredToolCall("pay", {"amount": 3}, "c1")])
    >>> requests.build_results(approve_all=True).approvals
    {'c1': True}
    """

    calls: list[ToolCallPart] = field(default_factory=list[ToolCallPart])
    approvals: list[ToolCallPart] = field(default_factory=list[ToolCallPart])
    metadata: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    in_doubt: list[ToolCallPart] = field(default_factory=list[ToolCallPart])

    def build_results(
        self,
        *,
        approvals: Mapping[str, Approved] | None = None,
        calls: Mapping[str, Any] | None = None,
        metadata: Mapping[str, dict[str, Any]] | None = None,
        approve_all: bool = False,
    ) -> DeferredToolResults:
        """Make results of answers to these very requests, or raise `UserError`, which is a `ValueError`, too.

        `approve_all` approves whatever `approvals` does not name.
        """
        made = DeferredToolResults(
            approvals=dict(approvals or {}), calls=dict(calls or {}), metadata=dict(metadata or {})
        )
        check_results(made, self)
        if approve_all:
            made.approvals = {part.tool_call_id: True for part in self.approvals} | made.approvals
        made.shown = _shown(self)
        return made

    def remaining(self, results: DeferredToolResults) -> DeferredToolRequests | None:
        """Return the requests that these results leave open, None where there are none."""
        check_results(results, self)
        left = {
            name: [part for part in getattr(self, name) if part.tool_call_id not in getattr(results, name)]
            for name in _CATEGORIES
        }
        if not any(left.values()):
            return None
        ids = {part.tool_call_id for parts in left.values() for part in parts}
        return DeferredToolRequests(
            **left, metadata={name: said for name, said in self.metadata.items() if name in ids}
        )


class WrongResults(UserError, ValueError):
    """Raised for results that do not answer the calls which wait; nothing was decided.

    >>> issubclass(WrongResults, ValueError)
    True
    """


class NotWaiting(WrongResults, NotPending):
    """Raised for results that name a call which does not wait, or not for that; nothing was decided.

    >>> issubclass(NotWaiting, NotPending)
    True
    """


_CATEGORIES: tuple[Category, ...] = ("approvals", "calls", "in_doubt")
_WAITS_FOR: dict[str, str] = {
    "approvals": "waits for an approval: put it into approvals",
    "calls": "waits for a result from outside: put it into calls",
    "in_doubt": "was started, and its outcome is unknown: put it into in_doubt",
}
DeferredHandler = Callable[[Any, DeferredToolRequests], Any]


def check_results(results: object, requests: DeferredToolRequests) -> None:
    """Refuse results that name what does not wait, answer in the wrong category, or are no answers."""
    if not isinstance(results, DeferredToolResults):
        raise WrongResults(f"deferred_tool_results is a DeferredToolResults, not {type(results).__name__}")
    waits = {part.tool_call_id: name for name in _CATEGORIES for part in cast("list[Any]", getattr(requests, name))}
    for name in (*_CATEGORIES, "metadata"):
        given: object = getattr(results, name)
        if not isinstance(given, dict):
            raise WrongResults(f"{name} of DeferredToolResults is a dict by tool_call_id, not {type(given).__name__}")
        for label in cast("dict[Any, Any]", given):
            if label not in waits:
                known = ", ".join(map(repr, waits)) or "none"
                raise NotWaiting(f"{name} names {label!r}, and no call of that id waits; those that wait: {known}")
            if name != "metadata" and waits[label] != name:
                raise NotWaiting(f"{name} names {label!r}, which {_WAITS_FOR[waits[label]]}")
    now = _shown(requests)
    for label in [*results.approvals, *results.calls, *results.in_doubt]:
        if results.shown.get(label, "") not in ("", now.get(label, "")):
            raise NotWaiting(
                f"the results were built for another call with the id {label!r}, of another run or another asking; "
                "build them from the requests of this history"
            )
    for label, said in results.approvals.items():
        _check_approval(label, said)
    for label, data in results.metadata.items():
        if not isinstance(cast("object", data), dict):
            raise WrongResults(f"metadata[{label!r}] is a dict, not {type(data).__name__}")
        if waits[label] != "approvals" or not _approves(results.approvals.get(label)):
            raise WrongResults(f"metadata[{label!r}] goes with an approval, and {label!r} is not approved here")


def _shown(requests: DeferredToolRequests) -> dict[str, str]:
    """Return what was shown of each call, by the id under which it is answered."""
    parts = [*requests.approvals, *requests.calls, *requests.in_doubt]
    return {part.tool_call_id: part.digest for part in parts if isinstance(part, DeferredToolCall) and part.digest}


def _check_approval(label: str, said: object) -> None:
    if not isinstance(said, bool | ToolApproved | ToolDenied):
        raise WrongResults(f"approvals[{label!r}] is True, False, ToolApproved(...) or ToolDenied(...), not {said!r}")
    if isinstance(said, ToolApproved) and not isinstance(cast("object", said.override_args), dict | None):
        raise WrongResults(f"approvals[{label!r}]: override_args is a dict of all arguments, or None")
    if isinstance(said, ToolDenied) and not isinstance(cast("object", said.message), str):
        raise WrongResults(f"approvals[{label!r}]: message is a text, not {type(said.message).__name__}")


def _approves(said: object) -> bool:
    return said is True or isinstance(said, ToolApproved)


def output_of(value: object) -> Any:
    """Return what the model reads of the result of an external call."""
    if isinstance(value, ToolReturn):
        return value.told()
    if isinstance(value, ModelRetry):
        return value.message
    if isinstance(value, RetryPromptPart):
        return value.content
    return value
