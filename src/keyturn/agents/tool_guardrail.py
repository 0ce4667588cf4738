"""Guardrails on one tool's arguments and results.

Each looks at one call and says allow, reject (the model reads a message instead) or raise (the run stops).
It never runs the tool and never approves a call that waits for a person. Whatever else it answers is an
error, not an "allow".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, TypedDict, TypeVar, cast, overload

from ..core.errors import UserError
from ..core.settable import Rules, Settable, must
from ..support.constructors import settings
from ..support.user_code import answer_of
from .context import TContext, ToolContext


class AllowBehavior(TypedDict):
    """Says to go on.

    >>> AllowBehavior(type="allow")
    {'type': 'allow'}
    """

    type: Literal["allow"]


class RejectContentBehavior(TypedDict):
    """Says to give the model `message` in place of the call's result.

    >>> RejectContentBehavior(type="reject_content", message="not this file")["message"]
    'not this file'
    """

    type: Literal["reject_content"]
    message: str


class RaiseExceptionBehavior(TypedDict):
    """Says to stop the run.

    >>> RaiseExceptionBehavior(type="raise_exception")
    {'type': 'raise_exception'}
    """

    type: Literal["raise_exception"]


def _allow() -> AllowBehavior | RejectContentBehavior | RaiseExceptionBehavior:
    return AllowBehavior(type="allow")


@dataclass(slots=True)
class ToolGuardrailFunctionOutput:
    """Holds a tool guardrail's report: its findings, and what to do.

    >>> ToolGuardrailFunctionOutput.reject_content("outside the workspace").behavior
    {'type': 'reject_content', 'message': 'outside the workspace'}
    """

    output_info: Any = None
    behavior: AllowBehavior | RejectContentBehavior | RaiseExceptionBehavior = field(default_factory=_allow)

    @classmethod
    def allow(cls, output_info: object = None) -> ToolGuardrailFunctionOutput:
        """Report that the run goes on."""
        return cls(output_info, AllowBehavior(type="allow"))

    @classmethod
    def reject_content(cls, message: str, output_info: object = None) -> ToolGuardrailFunctionOutput:
        """Report that the model gets this message in place of the result; the run goes on."""
        return cls(output_info, RejectContentBehavior(type="reject_content", message=message))

    @classmethod
    def raise_exception(cls, output_info: object = None) -> ToolGuardrailFunctionOutput:
        """Report that the run stops with a tripwire exception."""
        return cls(output_info, RaiseExceptionBehavior(type="raise_exception"))


@dataclass(slots=True)
class ToolInputGuardrailData:
    """Holds what a tool input guardrail checks; the arguments are `context.tool_arguments`.

    >>> ToolInputGuardrailData(ToolContext(None, tool_arguments="{}"), agent=None).context.tool_arguments
    '{}'
    """

    context: ToolContext[Any]
    agent: Any


@dataclass(slots=True)
class ToolOutputGuardrailData(ToolInputGuardrailData):
    """Holds what a tool output guardrail checks: the call, and what the tool returned.

    >>> ToolOutputGuardrailData(ToolContext(None), agent=None, output="42").output
    '42'
    """

    output: Any


ToolInputGuardrailFunction = Callable[
    [ToolInputGuardrailData], ToolGuardrailFunctionOutput | Awaitable[ToolGuardrailFunctionOutput]
]
ToolOutputGuardrailFunction = Callable[
    [ToolOutputGuardrailData], ToolGuardrailFunctionOutput | Awaitable[ToolGuardrailFunctionOutput]
]
TData = TypeVar("TData")


def _function(_guardrail: object, _name: str, function: object) -> Any:
    if not callable(function):
        raise UserError(f"a tool guardrail's function must be callable, not {type(function).__name__}")
    return function


@settings(eq=False)
class _ToolGuardrail(Settable, Generic[TData]):
    """Implements what input and output guardrails of tools share."""

    guardrail_function: Callable[[TData], ToolGuardrailFunctionOutput | Awaitable[ToolGuardrailFunctionOutput]]
    name: str | None = None
    _rules: ClassVar[Rules] = {
        "guardrail_function": _function,
        "name": must(lambda value: isinstance(value, str | None), "a string or None"),
    }

    def get_name(self) -> str:
        """Return the guardrail's name, else its function's."""
        return self.name or getattr(self.guardrail_function, "__name__", type(self.guardrail_function).__name__)

    async def run(self, data: TData) -> ToolGuardrailFunctionOutput:
        """Run the guardrail on this call."""
        return _report(self.get_name(), await answer_of(self.guardrail_function, data))


@settings(eq=False)
class ToolInputGuardrail(_ToolGuardrail[ToolInputGuardrailData], Generic[TContext]):
    """Checks a call's arguments just before the tool runs.

    >>> def inside(data):
    ...     return ToolGuardrailFunctionOutput.allow()
    >>> ToolInputGuardrail(inside).get_name()
    'inside'
    """


@settings(eq=False)
class ToolOutputGuardrail(_ToolGuardrail[ToolOutputGuardrailData], Generic[TContext]):
    """Checks what a tool returned before the model reads it.

    >>> def no_keys(data):
    ...     return ToolGuardrailFunctionOutput.reject_content("withheld")
    >>> ToolOutputGuardrail(no_keys).get_name()
    'no_keys'
    """


@dataclass(slots=True)
class ToolInputGuardrailResult:
    """Pairs a tool input guardrail with its report.

    >>> ToolInputGuardrailResult(None, ToolGuardrailFunctionOutput.allow("ok")).output.output_info
    'ok'
    """

    guardrail: Any
    output: ToolGuardrailFunctionOutput


@dataclass(slots=True)
class ToolOutputGuardrailResult:
    """Pairs a tool output guardrail with its report.

    >>> ToolOutputGuardrailResult(None, ToolGuardrailFunctionOutput.allow("ok")).output.output_info
    'ok'
    """

    guardrail: Any
    output: ToolGuardrailFunctionOutput


def _report(name: str, answer: object) -> ToolGuardrailFunctionOutput:
    if not isinstance(answer, ToolGuardrailFunctionOutput):
        raise UserError(
            f"tool guardrail {name!r} returned {type(answer).__name__}; it must return a ToolGuardrailFunctionOutput"
        )
    match cast("object", answer.behavior):
        case {"type": "reject_content", "message": str()} | {"type": "allow" | "raise_exception"}:
            return answer
        case _:
            pass
    raise UserError(
        f"tool guardrail {name!r} answered with a behavior that is none of allow(), reject_content(message) "
        "and raise_exception()"
    )


@overload
def tool_input_guardrail(func: ToolInputGuardrailFunction, /) -> ToolInputGuardrail[Any]: ...
@overload
def tool_input_guardrail(
    *, name: str | None = None
) -> Callable[[ToolInputGuardrailFunction], ToolInputGuardrail[Any]]: ...
def tool_input_guardrail(
    func: ToolInputGuardrailFunction | None = None, *, name: str | None = None
) -> ToolInputGuardrail[Any] | Callable[[ToolInputGuardrailFunction], ToolInputGuardrail[Any]]:
    """Make a function a tool input guardrail; used bare, or called with its options.

    >>> @tool_input_guardrail
    ... def inside(data):
    ...     return ToolGuardrailFunctionOutput.allow()
    >>> inside.name
    'inside'
    """

    def make(function: ToolInputGuardrailFunction) -> ToolInputGuardrail[Any]:
        return ToolInputGuardrail(function, name or getattr(function, "__name__", None))

    return make if func is None else make(func)


@overload
def tool_output_guardrail(func: ToolOutputGuardrailFunction, /) -> ToolOutputGuardrail[Any]: ...
@overload
def tool_output_guardrail(
    *, name: str | None = None
) -> Callable[[ToolOutputGuardrailFunction], ToolOutputGuardrail[Any]]: ...
def tool_output_guardrail(
    func: ToolOutputGuardrailFunction | None = None, *, name: str | None = None
) -> ToolOutputGuardrail[Any] | Callable[[ToolOutputGuardrailFunction], ToolOutputGuardrail[Any]]:
    """Make a function a tool output guardrail; used bare, or called with its options.

    >>> @tool_output_guardrail(name="keys")
    ... async def no_keys(data):
    ...     return ToolGuardrailFunctionOutput.allow()
    >>> no_keys.name
    'keys'
    """

    def make(function: ToolOutputGuardrailFunction) -> ToolOutputGuardrail[Any]:
        return ToolOutputGuardrail(function, name or getattr(function, "__name__", None))

    return make if func is None else make(func)
