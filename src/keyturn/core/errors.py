"""Defines every error a caller can catch.

Each one names the state it met, the event that was refused and the remedy. The text of an error
about a state or a decision never quotes the state's contents: logs are read by more people than
inboxes are.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any


class KeyturnError(Exception):
    """The root of every error raised by Keyturn.

    `run_data` is the result of the run as far as it came, where there is one: it can be read, and
    `run_data.to_state()` is a state from which the run goes on.

    >>> issubclass(UserError, KeyturnError)
    True
    """

    run_data: Any = None
    #: Whether what was asked for may have been done all the same: its answer was lost.
    uncertain: bool = False

    @cached_property
    def message(self) -> str:
        """Return the error's text."""
        return str(self)


AgentsException = KeyturnError


class UserError(KeyturnError):
    """Raised where the calling code asked for something that cannot be done.

    >>> raise UserError("needs_approval must be True, False or a callable")
    Traceback (most recent call last):
    ...
    keyturn.core.errors.UserError: needs_approval must be True, False or a callable
    """


class ModelBehaviorError(KeyturnError):
    """Raised where the model, or its provider, sent what no well-behaved model sends.

    `usage` is what the refused reply used, where the provider said it.

    >>> issubclass(ModelBehaviorError, KeyturnError)
    True
    """

    usage: Any = None


class ModelRefusalError(KeyturnError):
    """Raised where the model refused to answer and an answer of a given type was required.

    >>> ModelRefusalError("I cannot help with that").refusal
    'I cannot help with that'
    """

    def __init__(self, refusal: str) -> None:
        self.refusal = refusal
        super().__init__(f"the model refused to answer: {refusal}")


class ModelTimeoutError(KeyturnError):
    """A model did not answer within `ModelSettings(timeout=...)`; its provider's own error is the `__cause__`.

    >>> ModelTimeoutError(30).timeout_seconds
    30
    """

    def __init__(self, timeout_seconds: float) -> None:
        self.timeout_seconds = timeout_seconds
        super().__init__(f"the model did not answer within {timeout_seconds:g} s; nothing of a reply was recorded")


class MaxTurnsExceeded(KeyturnError):
    """Raised where the run reached its turn limit before a final answer.

    Nothing is lost: resume the state with a higher `max_turns`.

    >>> issubclass(MaxTurnsExceeded, KeyturnError)
    True
    """


class UsageLimitExceeded(KeyturnError):
    """Raised where the run reached a usage limit before a final answer; no model was asked any more.

    Nothing is lost: resume the state with a higher limit. `limit` names it, `allowed` and `used` are its numbers.

    >>> UsageLimitExceeded("requests", allowed=3, used=3).limit
    'requests'
    """

    def __init__(self, limit: str, *, allowed: Any, used: Any) -> None:
        self.limit = limit
        self.allowed = allowed
        self.used = used
        super().__init__(
            f"the run has used {used} of the {allowed} that UsageLimits({limit}=...) allows, so no model was asked; "
            f"nothing is lost: resume the run with a higher {limit} in usage_limits"
        )


class ToolTimeoutError(KeyturnError):
    """Raised where a tool ran past its timeout and was set to raise and not to answer the model.

    >>> ToolTimeoutError("backup", 2.5).timeout_seconds
    2.5
    """

    def __init__(self, tool_name: str, timeout_seconds: float) -> None:
        self.tool_name = tool_name
        self.timeout_seconds = timeout_seconds
        super().__init__(f"tool {tool_name!r} timed out after {timeout_seconds:g} s")


class _Tripwire(KeyturnError):
    """Raised where a guardrail stopped the run; `guardrail_result` is its report."""

    _what = "guardrail"

    def __init__(self, guardrail_result: Any) -> None:
        self.guardrail_result = guardrail_result
        name = getattr(getattr(guardrail_result, "guardrail", None), "name", None)
        super().__init__(
            f"{self._what} {name!r} triggered its tripwire" if name else f"{self._what} tripwire triggered"
        )


class InputGuardrailTripwireTriggered(_Tripwire):
    """Raised where an input guardrail stopped the run before any tool of its first turn.

    >>> issubclass(InputGuardrailTripwireTriggered, KeyturnError)
    True
    """

    _what = "input guardrail"


class OutputGuardrailTripwireTriggered(_Tripwire):
    """Raised where an output guardrail withheld the final answer.

    >>> issubclass(OutputGuardrailTripwireTriggered, KeyturnError)
    True
    """

    _what = "output guardrail"


class _ToolTripwire(_Tripwire):
    """Raised where a tool guardrail stopped the run."""

    def __init__(self, guardrail: Any, output: Any) -> None:
        self.guardrail = guardrail
        self.output = output
        KeyturnError.__init__(self, f"{self._what} {getattr(guardrail, 'name', None)!r} triggered its tripwire")


class ToolInputGuardrailTripwireTriggered(_ToolTripwire):
    """Raised where a tool input guardrail stopped the run before the tool ran.

    >>> issubclass(ToolInputGuardrailTripwireTriggered, KeyturnError)
    True
    """

    _what = "tool input guardrail"


class ToolOutputGuardrailTripwireTriggered(_ToolTripwire):
    """Raised where a tool output guardrail stopped the run after the tool ran.

    >>> issubclass(ToolOutputGuardrailTripwireTriggered, KeyturnError)
    True
    """

    _what = "tool output guardrail"


class NotPending(UserError):
    """Raised where a decision was given for a call that waits for none.

    >>> issubclass(NotPending, UserError)
    True
    """


class NotAllowed(UserError):
    """Raised where somebody decided who may not by the call's terms, or whose identity is not sure enough.

    >>> issubclass(NotAllowed, UserError)
    True
    """


class RunMissing(UserError):
    """Raised where a journal does not have the run that was asked for.

    >>> RunMissing("5e1f").run_id
    '5e1f'
    """

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(f"the journal has no run {run_id!r}")


class StateRejected(UserError):
    """Raised where a saved state was refused before anything in it was believed.

    Its version, its size, its MAC or its shape is wrong; the message says which, and what to do.

    >>> issubclass(StateRejected, UserError)
    True
    """


class ToolChanged(UserError):
    """Raised where a tool is no longer what the approver saw, and the call cannot be asked again.

    >>> issubclass(ToolChanged, UserError)
    True
    """


class ToolSourceDown(KeyturnError):
    """Raised where what an agent's tools come from cannot be reached now; nothing was sent, and it may answer later.

    >>> issubclass(ToolSourceDown, KeyturnError)
    True
    """


class ToolMissing(UserError):
    """Raised where a call waits for a tool that the agent no longer has.

    The run and its pending approvals are kept: give the agent the tool again and resume.

    >>> ToolMissing("pay", agent="billing").tool_name
    'pay'
    """

    def __init__(self, tool_name: str, *, agent: str) -> None:
        self.tool_name = tool_name
        self.agent_name = agent
        super().__init__(
            f"agent {agent!r} no longer has the tool {tool_name!r} that a call of this run waits for; "
            "nothing ran and nothing is lost: give the agent a tool of that name and resume"
        )


class AgentMissing(UserError):
    """Raised where a state names an agent that the given agent graph does not contain.

    >>> AgentMissing("billing").agent_path
    'billing'
    """

    def __init__(self, agent_path: str, message: str = "") -> None:
        self.agent_path = agent_path
        super().__init__(
            message
            or f"this state needs the agent {agent_path!r}, which cannot be reached from the agent given; "
            "nothing ran and nothing is lost: resume with the agent graph that started the run"
        )


class RunStopped(KeyturnError):
    """Raised where a run of an app has no result: it failed, or was cancelled.

    `traceback` says where what stopped it was raised, as far as the run keeps that.

    >>> RunStopped("5e1f", "failed", "MaxTurnsExceeded").status
    'failed'
    """

    def __init__(self, run_id: str, status: str, error: str, traceback: str = "") -> None:
        self.traceback = traceback
        self.run_id = run_id
        self.status = status
        self.error = error
        remedy = "; fix the cause and resume() it" if status == "failed" else ""
        super().__init__(f"run {run_id} {status}{': ' if error else ''}{error}{remedy}")


class Conflict(KeyturnError):
    """Raised where somebody else was first; the message names the winner.

    `winner` says who or what won, `decision` what they decided and `at` when, where known.

    >>> Conflict("the run was resumed from a newer state", winner="this process").winner
    'this process'
    """

    def __init__(
        self, message: str, *, winner: str | None = None, decision: str | None = None, at: int | None = None
    ) -> None:
        self.winner = winner
        self.decision = decision
        self.at = at
        super().__init__(message)


class StorageError(KeyturnError):
    """Raised where a journal could not store what it was given; nothing unstored was acted on.

    >>> StorageError("the line broke").uncertain, StorageFull("the disk is full").uncertain
    (True, False)
    """

    uncertain = True

    def __init_subclass__(cls) -> None:
        cls.uncertain = False  # each of these says what failed; otherwise the journal was away


class StorageFull(StorageError):
    """Raised where there is no room left for the journal.

    Make room and resume: the run is as it was.

    >>> str(StorageFull("the disk is full"))
    'the disk is full'
    """


class LogDamaged(StorageError):
    """Raised where a line of a run's log is not the one that was written; that run alone is stopped.

    `run` names the run and `line` the line, counted from 0. Nothing of the log is believed.

    >>> LogDamaged("5e1f", 3, "is not the line that was written there").line
    3
    """

    _remedy = "nothing of the run was trusted or executed: restore its lines from a backup, or erase the run"

    def __init__(self, run: str, line: int, why: str) -> None:
        self.run = run
        self.line = line
        self.why = why
        super().__init__(f"line {line} of run {run!r} {why}; {self._remedy}")


class StoreRestored(StorageError):
    """Raised where the store is a restored or promoted copy: what it lets run may have run already.

    No run is moved until every approved call was put in doubt: `keyturn restored URL`, or the start of a worker.

    >>> issubclass(StoreRestored, StorageError)
    True
    """


class StoreMoved(StorageError):
    """Raised where the store was moved by `keyturn copy`, or is an unfinished copy: nothing runs in it.

    >>> issubclass(StoreMoved, StorageError)
    True
    """


class UnsafeStore(RuntimeWarning):
    """Warns of a journal that may not be safe: on a SQLite that can corrupt it, or a network file system.

    >>> import warnings
    >>> with warnings.catch_warnings():  # refuse it, as `keyturn worker --strict` does
    ...     warnings.simplefilter("error", UnsafeStore)
    """


class Expired(KeyturnError):
    """Raised where a decision came after the request expired.

    >>> issubclass(Expired, KeyturnError)
    True
    """


class BadJson(KeyturnError):
    """Raised for a text that is not the strict JSON that arguments, states and decisions must be.

    `reason` says what is wrong without quoting the text.

    >>> BadJson("duplicate key").reason
    'duplicate key'
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"not strict JSON: {reason}")
