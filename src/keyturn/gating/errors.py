"""The errors of a gated call: each says that the function did not run, or that nobody may say so."""

from __future__ import annotations

from ..asks.ask import AskState
from ..core.errors import KeyturnError

#: The result of a call whose caller stopped between its claim and its start.
NOT_RUN = "keyturn: its caller stopped before the call began, and it did not run"


class GatedCallError(KeyturnError):
    """The base of these errors; `state` is how the request stands."""

    def __init__(self, message: str, state: AskState) -> None:
        self.state = state
        super().__init__(message)

    @property
    def id(self) -> str:
        """Return the id of the request, by which it is resumed."""
        return self.state.id


class CallDenied(GatedCallError):
    """Raised where a person or a policy rejected the call; the function did not run."""

    def __init__(self, state: AskState) -> None:
        self.note = state.note or state.reason
        by = f" by {state.decided_by}" if state.decided_by else ""
        super().__init__(f"the call of {state.tool!r} was rejected{by}{': ' + self.note if self.note else ''}", state)


class CallExpired(GatedCallError):
    """Raised where no decision was made in time; the function did not run."""

    def __init__(self, state: AskState) -> None:
        super().__init__(f"the request to call {state.tool!r} expired: no decision was made in time", state)


class CallWithdrawn(GatedCallError):
    """Raised where the request was withdrawn; the function did not run."""

    def __init__(self, state: AskState) -> None:
        super().__init__(f"the request to call {state.tool!r} was withdrawn", state)


class CallWaiting(GatedCallError):
    """Raised in place of waiting: the function did not run, and `resume(error.id)` runs the call once it may be."""

    def __init__(self, state: AskState) -> None:
        so = "approved and cannot be claimed now" if state.status == "approved" else "pending approval"
        super().__init__(f"the call of {state.tool!r} is {so}: resume it by its id {state.id}", state)


class CallInDoubt(GatedCallError):
    """Raised where the call was started and its outcome is unknown: a person says what became of it."""

    def __init__(self, state: AskState) -> None:
        super().__init__(
            f"the call of {state.tool!r} was started and its outcome is unknown: resolve it in the inbox", state
        )


class CallClaimed(GatedCallError):
    """Raised where another process runs the call, or ran it without a result that can be read."""

    def __init__(self, state: AskState) -> None:
        super().__init__(f"the call of {state.tool!r} is run, or was run, by another process", state)


class CallFailed(GatedCallError):
    """Raised where the call was run before, by this process or another, and the function raised an error."""

    def __init__(self, state: AskState) -> None:
        super().__init__(
            f"the call of {state.tool!r} was run and failed: {state.result or 'no error was recorded'}", state
        )


def error_of(state: AskState) -> GatedCallError:
    """Return the error for a request that cannot be run now."""
    kinds = {
        "pending": CallWaiting,
        "approved": CallWaiting,
        "rejected": CallDenied,
        "not_run": CallDenied,
        "expired": CallExpired,
        "withdrawn": CallWithdrawn,
        "in_doubt": CallInDoubt,
        "failed": CallFailed,
    }
    given_back = (state.status, state.result) == ("failed", NOT_RUN)
    return (CallWithdrawn if given_back else kinds.get(state.status, CallClaimed))(state)
