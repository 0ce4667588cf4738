"""The hook itself: read the call, ask, wait, claim, answer; whatever fails, and whoever ends it, the call does not run.

Nothing but the answer is printed to stdout. Each way that does not end in an approval ends in a refusal in the words of
the agent, or where it has none, in exit code 2.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import time
from collections.abc import Callable, Generator, Mapping
from typing import Any, cast

from .host import HookAnswer, HookCall, HookHost
from .named_once import parsed
from .server import AskServer, ServerRefused

_STEP = 5.0
_PAUSE = 1.0
#: How many seconds after a decision was due the hook ends itself, and again until it is at an end.
_GRACE = 10.0
_ENDS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_LATE = "no decision was made in time"


class HookEnded(BaseException):
    """Raised where the agent ends its hook, or is gone."""


def answered(
    host: HookHost,
    text: str,
    server: AskServer,
    wait: float,
    *,
    signals: bool = True,
    gone: Callable[[], bool] = lambda: False,
) -> HookAnswer:
    """Return the answer to what an agent sent; `wait` is how many seconds a decision may take.

    With `signals`, which only a main thread can, a signal that ends the program withdraws the request first; `gone`
    says that the agent stopped waiting.
    """
    call: HookCall | None = None
    try:
        sent: Any = parsed(text)
        call = host.read(cast("dict[str, Any]", sent)) if isinstance(sent, dict) else None
        if call is None:
            return _refused("this hook decides about tool calls, and was sent something else")
        if signals:
            end_on_signals(wait + _GRACE)
        return _decided(host, call, _Request(host, call, server, wait, gone))
    except Exception as error:  # a hook that fails lets the call run, in every agent there is
        words = str(error) if isinstance(error, ServerRefused) else type(error).__name__
        reason = f"not approved: {words}"
        return _refused(reason) if call is None else host.deny(call, reason)
    finally:
        if signals:
            signal.setitimer(signal.ITIMER_REAL, 0)


def _refused(reason: str) -> HookAnswer:
    return HookAnswer("", f"keyturn: {reason}", 2)


def _decided(host: HookHost, call: HookCall, request: _Request) -> HookAnswer:
    state = request.outcome()
    if state["status"] == "approved":
        claim = request.claimed()
        edited: Any = json.loads(claim["arguments"]) if claim["edited"] else None
        if edited is not None and not (isinstance(edited, dict) and host.edits(call.event)):
            reason = "the arguments were edited to what this agent cannot be given"
            request.report("failed", f"not released to the agent: {reason}")
            return host.deny(call, reason)
        request.report("succeeded", "released to the agent, which does not report its outcome")
        return host.allow(call, cast("dict[str, Any] | None", edited))
    if state["status"] == "answered":
        return host.deny(call, f"a person answered in the tool's place: {json.dumps(state['result'])}")
    why = state.get("note") or state.get("reason") or {"pending": _LATE, "expired": _LATE}.get(state["status"], "")
    by = f" by {state['decided_by']}" if state.get("decided_by") else ""
    return host.deny(call, f"{state['status']}{by}: {why}" if why else f"{state['status']}{by}")


class _Request:
    """Asks for one call, waits for the decision, and claims it; withdraws it where nothing waits for it any more."""

    def __init__(
        self, host: HookHost, call: HookCall, server: AskServer, wait: float, gone: Callable[[], bool]
    ) -> None:
        self._server = server
        self._gone = gone
        self._ends = time.monotonic() + wait
        self._parent = os.getppid()
        self._name = f"{os.getpid()} {time.time_ns()}"
        self._asked = _ask_of(host, call, wait)
        self._state: Mapping[str, Any] = {}

    def outcome(self) -> Mapping[str, Any]:
        """Return the request once it is decided; one for which there was no decision in time is withdrawn."""
        try:
            with _ends_held():  # until the request has an id, by which it is withdrawn
                self._state = _filled(self._server.post("/asks", self._asked))
            while self._state["status"] == "pending":
                left = self._ends - time.monotonic()
                if left <= 0:
                    self._withdraw(_LATE)
                    break
                self._check_awaited()
                self._look(min(left, _STEP))
            self._check_awaited()
        except BaseException:
            if self._state:
                self._withdraw("the agent stopped waiting for a decision")
            raise
        return self._state

    def _check_awaited(self) -> None:
        """Raise where the agent waits no longer: what was approved meanwhile is not released to it."""
        if os.getppid() != self._parent or self._gone():
            raise HookEnded("the agent is gone")

    def _look(self, seconds: float) -> None:
        """Look at the request again once it is decided; a server that is away for a moment is asked again."""
        try:
            self._state = _filled(self._server.get(f"/asks/{self._state['id']}?wait={seconds:.3f}"))
        except ServerRefused as error:
            if not error.passing:
                raise
            time.sleep(min(seconds, _PAUSE))

    def claimed(self) -> Mapping[str, Any]:
        """Claim the call, and return the claim."""
        path = f"/asks/{self._state['id']}"
        made = _filled(self._server.post(f"{path}/claim", {"digest": self._state["digest"], "name": self._name}))
        same = "key", "tool", *(() if made["edited"] else ("arguments",))
        if made.get("status") != "claimed" or any(made.get(name) != self._asked[name] for name in same):
            raise ServerRefused("the server's answer is not a claim of this call")
        return made

    def report(self, outcome: str, words: str) -> None:
        """Report what became of the claim."""
        path = f"/asks/{self._state['id']}/outcome"
        self._server.post(path, {"name": self._name, "outcome": outcome, "result": words})

    def _withdraw(self, why: str) -> None:
        with contextlib.suppress(ServerRefused):  # else it expires by itself
            self._server.post(f"/asks/{self._state['id']}/withdraw", {"why": why})


def _filled(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a state with the fields that a server leaves out at their defaults."""
    return {"digest": "", "arguments": "", "edited": False, "result": None, **state}


def _ask_of(host: HookHost, call: HookCall, wait: float) -> dict[str, Any]:
    name = call.name or str(time.time_ns())
    return {
        "key": f"{host.name} {call.session} {name} {call.event}"[:200],
        "tool": call.tool,
        "server": f"{host.name} {call.server}".strip(),
        "arguments": json.dumps(call.arguments, ensure_ascii=False),
        "context": {
            "framework": host.title, "host": socket.gethostname(), "folder": call.folder, "session": call.session,
        },
        "terms": {"expires": max(round(wait), 1)},
        "editable": host.edits(call.event),
    }  # fmt: skip


@contextlib.contextmanager
def _ends_held() -> Generator[None]:
    """Hold back the signals of the agent that end the hook until the block is over."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_on_signals(seconds: float) -> None:
    """Let signals that end the hook withdraw its request first, and end it after so long whatever its server does."""

    def end(number: int, _frame: object) -> None:
        raise HookEnded(f"signal {number}")

    for each in (*_ENDS, signal.SIGALRM):
        signal.signal(each, end)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, _GRACE), _PAUSE)
