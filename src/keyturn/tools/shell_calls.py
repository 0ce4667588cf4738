"""The request and result types of shell executors, which users' own executors are written with.

The names and fields are a contract. What a call of a model looks like on the wire is the tools' business, and what
an executor does with a request is its own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from inspect import iscoroutinefunction
from typing import Any, Literal, cast

from ..support.user_code import answer_of, awaited
from .base import InvalidArguments
from .functions.bound import in_worker


@dataclass(slots=True)
class ShellActionRequest:
    """Holds what would run: commands, one after another, and the limits that the model asked for.

    >>> ShellActionRequest(["ls", "git status"]).timeout_ms is None
    True
    """

    commands: list[str]
    timeout_ms: int | None = None
    max_output_length: int | None = None


@dataclass(slots=True)
class ShellCallData:
    """Describes one call of the shell: its provider call id, what would run, and the call as the model wrote it.

    >>> ShellCallData("c1", ShellActionRequest(["ls"])).action.commands
    ['ls']
    """

    call_id: str
    action: ShellActionRequest
    status: Literal["in_progress", "completed"] | None = None
    raw: Any = None


@dataclass(slots=True)
class ShellCommandRequest:
    """Holds what an executor of `ShellTool` is called with.

    >>> async def executor(request: ShellCommandRequest) -> str:
    ...     return f"would run {request.data.action.commands}"
    """

    ctx_wrapper: Any
    data: ShellCallData


@dataclass(slots=True)
class ShellCallOutcome:
    """Says how a command ended: by itself, or by the timeout.

    >>> ShellCallOutcome("exit", exit_code=1).exit_code
    1
    """

    type: Literal["exit", "timeout"]
    exit_code: int | None = None


def _ended() -> ShellCallOutcome:
    return ShellCallOutcome("exit")


@dataclass(slots=True)
class ShellCommandOutput:
    """Holds what one command wrote, and how it ended.

    >>> ShellCommandOutput(stdout="README.md\\n").status
    'completed'
    """

    stdout: str = ""
    stderr: str = ""
    outcome: ShellCallOutcome = field(default_factory=_ended)
    command: str | None = None
    provider_data: dict[str, Any] | None = None

    @property
    def exit_code(self) -> int | None:
        """Return the exit code, None after a timeout."""
        return self.outcome.exit_code

    @property
    def status(self) -> Literal["completed", "timeout"]:
        """Return whether the command came to its end."""
        return "timeout" if self.outcome.type == "timeout" else "completed"


@dataclass(slots=True)
class ShellResult:
    """Holds what an executor returns: one output for each command that ran.

    `provider_data` is yours: it is recorded with the call and never sent to a model.

    >>> ShellResult([ShellCommandOutput(stdout="ok")]).output[0].stdout
    'ok'
    """

    output: list[ShellCommandOutput]
    max_output_length: int | None = None
    provider_data: dict[str, Any] | None = None


@dataclass(slots=True)
class LocalShellActionRequest:
    """Holds what would run: one program with its arguments, with no shell between.

    >>> LocalShellActionRequest(["ls", "-l"]).working_directory is None
    True
    """

    command: list[str]
    env: dict[str, str] = field(default_factory=dict[str, str])
    timeout_ms: int | None = None
    user: str | None = None
    working_directory: str | None = None
    type: Literal["exec"] = "exec"


@dataclass(slots=True)
class LocalShellCallData:
    """Describes one call of the local shell.

    >>> LocalShellCallData("c1", LocalShellActionRequest(["ls"])).action.command
    ['ls']
    """

    call_id: str
    action: LocalShellActionRequest
    raw: Any = None


@dataclass(slots=True)
class LocalShellCommandRequest:
    """Holds what an executor of `LocalShellTool` is called with.

    >>> def executor(request: LocalShellCommandRequest) -> str:
    ...     return f"would run {request.data.action.command}"
    """

    ctx_wrapper: Any
    data: LocalShellCallData


ShellExecutor = Callable[[ShellCommandRequest], Awaitable[str | ShellResult] | str | ShellResult]
LocalShellExecutor = Callable[[LocalShellCommandRequest], Awaitable[str | ShellResult] | str | ShellResult]


def check_text(name: str, text: str) -> None:
    """Refuse a text that no system takes, such as one with a NUL: people would see more than what runs.

    >>> check_text("shell", "ls")
    """
    if "\0" in text:
        raise InvalidArguments(f"The call of {name} is invalid: it would end unseen at the NUL character in it.")
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        raise InvalidArguments(f"The call of {name} is invalid: it holds a lone surrogate.")


def about(executor: object) -> dict[str, Any]:
    """Return where and how an executor runs things, as far as it says so by an `about()` of its own.

    >>> about(print)
    {}
    """
    says = getattr(executor, "about", None)
    return cast("dict[str, Any]", says()) if callable(says) else {}


def identity(executor: object) -> dict[str, Any]:
    """Return what an approval is bound to: an executor's or editor's own identity, or else the name of its code.

    >>> identity(print)
    {'name': 'print'}
    """
    return about(executor) or {"name": _name_of(executor)}


def _name_of(executor: object) -> str:
    """Return the qualified name of a function, or of the class of an object; a partial is what it calls."""
    while isinstance(executor, partial):
        executor = cast("partial[Any]", executor).func
    named: object = getattr(executor, "__qualname__", None)
    return named if isinstance(named, str) else type(executor).__qualname__


def is_plain(executor: Callable[..., Any]) -> bool:
    """Return whether an executor is a plain function, that runs in a worker thread.

    >>> is_plain(print)
    True
    """
    return not (iscoroutinefunction(executor) or iscoroutinefunction(executor.__call__))


async def asked(executor: Callable[..., Any], request: Any) -> Any:
    """Call an executor and return its answer; a plain function runs in a thread, so that it blocks nobody."""
    if is_plain(executor):
        return await awaited(await in_worker(executor, [request], {}))
    return await answer_of(executor, request)
