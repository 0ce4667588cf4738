"""Every error a caller can catch.

Each one names the state it met, the event that was refused and the remedy. The text of an error
about a state or a decision never quotes the state's contents: logs are read by more people than
inboxes are.
"""

from __future__ import annotations

from typing import Any


class KeyturnError(Exception):
    """The root of every error raised by Keyturn.

    `run_data` is the result of the run as far as it came, where there is one: it can be read, and
    `run_data.to_state()` is a state from which the run goes on.

    >>> issubclass(UserError, KeyturnError)
    True
    """

    run_data: Any = None


AgentsException = KeyturnError


class UserError(KeyturnError):
    """The code that calls Keyturn asked for something that cannot be done.

    >>> raise UserError("needs_approval must be True, False or a callable")
    Traceback (most recent call last):
    ...
    keyturn.core.errors.UserError: needs_approval must be True, False or a callable
    """


class ModelBehaviorError(KeyturnError):
    """The model, or the provider that speaks for it, sent what no well-behaved model sends.

    `usage` is what the refused reply used, where the provider said it.

    >>> issubclass(ModelBehaviorError, KeyturnError)
    True
    """

    usage: Any = None


class ModelRefusalError(KeyturnError):
    """The model refused to answer where an answer of a given type was required.

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
    """The run reached its turn limit before a final answer.

    Nothing is lost: resume the state with a higher `max_turns`.

    >>> issubclass(MaxTurnsExceeded, KeyturnError)
    True
    """


class UsageLimitExceeded(KeyturnError):
    """The run reached a usage limit before a final answer; no model was asked any more.

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
    """A tool ran past its timeout and was told to raise rather than to answer the model.

    >>> ToolTimeoutError("backup", 2.5).timeout_seconds
    2.5
    """

    def __init__(self, tool_name: str, timeout_seconds: float) -> None:
        self.tool_name = tool_name
        self.timeout_seconds = timeout_seconds
        super().__init__(f"tool {tool_name!r} timed out after {timeout_seconds:g} s")


class _Tripwire(KeyturnError):
    """A guardrail said stop; `guardrail_result` is its report."""

    _what = "guardrail"

    def __init__(self, guardrail_result: Any) -> None:
        self.guardrail_result = guardrail_result
        name = getattr(getattr(guardrail_result, "guardrail", None), "name", None)
        super().__init__(
            f"{self._what} {name!r} triggered its tripwire" if name else f"{self._what} tripwire triggered"
        )


class InputGuardrailTripwireTriggered(_Tripwire):
    """An input guardrail stopped the run before any tool of its first turn.

    >>> issubclass(InputGuardrailTripwireTriggered, KeyturnError)
    True
    """

    _what = "input guardrail"


class OutputGuardrailTripwireTriggered(_Tripwire):
    """An output guardrail withheld the final answer.

    >>> issubclass(OutputGuardrailTripwireTriggered, KeyturnError)
    True
    """

    _what = "output guardrail"


class _ToolTripwire(_Tripwire):
    def __init__(self, guardrail: Any, output: Any) -> None:
        self.guardrail = guardrail
        self.output = output
        KeyturnError.__init__(self, f"{self._what} {getattr(guardrail, 'name', None)!r} triggered its tripwire")


class ToolInputGuardrailTripwireTriggered(_ToolTripwire):
    """A tool input guardrail stopped the run before the tool ran.

    >>> issubclass(ToolInputGuardrailTripwireTriggered, KeyturnError)
    True
    """

    _what = "tool input guardrail"


class ToolOutputGuardrailTripwireTriggered(_ToolTripwire):
    """A tool output guardrail stopped the run after the tool ran.

    >>> issubclass(ToolOutputGuardrailTripwireTriggered, KeyturnError)
    True
    """

    _what = "tool output guardrail"


class NotPending(UserError):
    """A decision was given for a call that waits for none.

    >>> issubclass(NotPending, UserError)
    True
    """


class NotAllowed(UserError):
    """Somebody decided who may not: the terms of the call name others, or want to know for sure who decides.

    >>> issubclass(NotAllowed, UserError)
    True
    """


class RunMissing(UserError):
    """A journal does not have the run that was asked for.

    >>> RunMissing("5e1f").run_id
    '5e1f'
    """

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(f"the journal has no run {run_id!r}; runs() says which there are")


class StateRejected(UserError):
    """A saved state was refused before anything in it was believed.

    Its version, its size, its MAC or its shape is wrong; the message says which, and what to do.

    >>> issubclass(StateRejected, UserError)
    True
    """


class ToolChanged(UserError):
    """A tool is no longer what the approver saw, and the call cannot be asked again.

    >>> issubclass(ToolChanged, UserError)
    True
    """


class ToolMissing(UserError):
    """A call waits for a tool that the agent no longer has.

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
    """A state names an agent that the given agent graph does not contain.

    >>> AgentMissing("billing").agent_path
    'billing'
    """

    def __init__(self, agent_path: str) -> None:
        self.agent_path = agent_path
        super().__init__(
            f"this state needs the agent {agent_path!r}, which cannot be reached from the agent given; "
            "nothing ran and nothing is lost: resume with the agent graph that started the run"
        )


class RunStopped(KeyturnError):
    """A run of an app has no result: it failed, or was cancelled.

    >>> RunStopped("5e1f", "failed", "MaxTurnsExceeded").status
    'failed'
    """

    def __init__(self, run_id: str, status: str, error: str) -> None:
        self.run_id = run_id
        self.status = status
        self.error = error
        remedy = "; mend the cause and resume() it" if status == "failed" else ""
        super().__init__(f"run {run_id} {status}{': ' if error else ''}{error}{remedy}")


class Conflict(KeyturnError):
    """Somebody else was first; the message names the winner.

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
    """A journal could not keep what it was given; nothing that was not kept was acted on.

    >>> issubclass(StorageFull, StorageError)
    True
    """


class StorageFull(StorageError):
    """There is no room left where the journal is kept. Make room and resume: the run is as it was.

    >>> str(StorageFull("the disk is full"))
    'the disk is full'
    """


class LogDamaged(StorageError):
    """A line of a run's log is not one that was written there; the run is left alone, and no other run is.

    `run` names the run and `line` the line, counted from 0. Nothing of the log is believed.

    >>> LogDamaged("5e1f", 3, "is not the line that was written there").line
    3
    """

    def __init__(self, run: str, line: int, why: str) -> None:
        self.run = run
        self.line = line
        self.why = why
        super().__init__(
            f"line {line} of run {run!r} {why}; nothing of the run was believed or done: bring its lines back from a "
            "copy, or erase the run (`keyturn check` lists what else is wrong)"
        )


class StoreRestored(StorageError):
    """The store is a copy that was restored or promoted: what it lets run may have run after the copy was made.

    No run is moved until every approved call was put in doubt: `keyturn restored URL`, or the start of a worker.

    >>> issubclass(StoreRestored, StorageError)
    True
    """


class StoreMoved(StorageError):
    """The store was moved elsewhere by `keyturn copy`, or is a copy that was not finished: nothing runs in it.

    >>> issubclass(StoreMoved, StorageError)
    True
    """


class UnsafeStore(RuntimeWarning):
    """A journal is kept where it may not be safe: by a SQLite that can corrupt it, or on a network file system.

    >>> import warnings
    >>> with warnings.catch_warnings():  # refuse it, as `keyturn worker --strict` does
    ...     warnings.simplefilter("error", UnsafeStore)
    """


class Expired(KeyturnError):
    """A decision came after the request's time was up.

    >>> issubclass(Expired, KeyturnError)
    True
    """


class BadJson(KeyturnError):
    """A text is not the strict JSON that arguments, states and decisions must be.

    `reason` says what is wrong without quoting the text.

    >>> BadJson("duplicate key").reason
    'duplicate key'
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"not strict JSON: {reason}")
