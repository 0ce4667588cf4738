"""Guardrails on what goes into an agent and what comes out of it.

A guardrail looks and reports; the engine acts on the report. One that cannot report (it is not callable, or
answers with something else than a `GuardrailFunctionOutput`) is an error: it never counts as "all clear".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import Any, Generic, overload

from ..constructors import settings
from ..core.errors import UserError
from ..core.items import Item
from ..core.settable import FLAG, Rule, Settable, must
from ..user_code import answer_of
from .context import RunContextWrapper, TContext


@dataclass(slots=True)
class GuardrailFunctionOutput:
    """Holds a guardrail's report: its findings, and whether to stop.

    >>> GuardrailFunctionOutput(output_info="off topic", tripwire_triggered=True).tripwire_triggered
    True
    """

    output_info: Any
    tripwire_triggered: bool


InputGuardrailFunction = Callable[
    [RunContextWrapper[Any], Any, str | list[Item]], GuardrailFunctionOutput | Awaitable[GuardrailFunctionOutput]
]
OutputGuardrailFunction = Callable[
    [RunContextWrapper[Any], Any, Any], GuardrailFunctionOutput | Awaitable[GuardrailFunctionOutput]
]


@dataclass(slots=True)
class OutputGuardrailBlockedMessageArgs(Generic[TContext]):
    """Holds what a callable `RunConfig.output_guardrail_blocked_message` gets: never what was withheld.

    >>> def words(args: OutputGuardrailBlockedMessageArgs) -> str:
    ...     return f"Withheld by {args.guardrail_name}."
    >>> words(OutputGuardrailBlockedMessageArgs("Withheld.", "no_secrets", None, RunContextWrapper(None)))
    'Withheld by no_secrets.'
    """

    default_message: str
    guardrail_name: str
    agent: Any
    run_context: RunContextWrapper[TContext]


OutputGuardrailBlockedMessageFormatter = Callable[[OutputGuardrailBlockedMessageArgs[Any]], str | None]
BlockedMessage = str | OutputGuardrailBlockedMessageFormatter


def check_blocked_message(message: object) -> None:
    """Refuse a value that cannot replace what is withheld."""
    fits = bool(message) if isinstance(message, str) else message is None or callable(message)
    if not fits or iscoroutinefunction(message):
        raise UserError("output_guardrail_blocked_message must be a string, a synchronous callable, or None")


def _function(_guardrail: object, _name: str, function: object) -> Any:
    if not callable(function):
        raise UserError(f"a guardrail's function must be callable, not {type(function).__name__}")
    return function


GUARDRAIL_RULES: dict[str, Rule] = {
    "guardrail_function": _function,
    "name": must(lambda value: isinstance(value, str | None), "a string or None"),
    "run_in_parallel": FLAG,
}


@settings(eq=False)
class InputGuardrail(Settable, Generic[TContext]):
    """Checks the input of a run's first agent, beside the first model call or, not in parallel, before it.

    >>> async def short(context, agent, input):
    ...     return GuardrailFunctionOutput(None, tripwire_triggered=len(input) > 1000)
    >>> InputGuardrail(short, run_in_parallel=False).get_name()
    'short'
    """

    guardrail_function: InputGuardrailFunction
    name: str | None = None
    run_in_parallel: bool = True
    _rules = GUARDRAIL_RULES

    def get_name(self) -> str:
        """Return the guardrail's name, else its function's."""
        return self.name or getattr(self.guardrail_function, "__name__", type(self.guardrail_function).__name__)

    async def run(
        self, agent: Any, input: str | list[Item], context: RunContextWrapper[TContext]
    ) -> InputGuardrailResult:
        """Run the guardrail on this input."""
        return InputGuardrailResult(
            self, _report(self, await answer_of(self.guardrail_function, context, agent, input))
        )


@settings(eq=False)
class OutputGuardrail(Settable, Generic[TContext]):
    """Checks an agent's final output before anybody gets it.

    >>> def polite(context, agent, output):
    ...     return GuardrailFunctionOutput(None, tripwire_triggered="damn" in output)
    >>> OutputGuardrail(polite).get_name()
    'polite'
    """

    guardrail_function: OutputGuardrailFunction
    name: str | None = None
    _rules = GUARDRAIL_RULES

    def get_name(self) -> str:
        """Return the guardrail's name, else its function's."""
        return self.name or getattr(self.guardrail_function, "__name__", type(self.guardrail_function).__name__)

    async def run(self, context: RunContextWrapper[TContext], agent: Any, agent_output: Any) -> OutputGuardrailResult:
        """Run the guardrail on this output."""
        report = _report(self, await answer_of(self.guardrail_function, context, agent, agent_output))
        return OutputGuardrailResult(self, agent_output, agent, report)


@dataclass(slots=True)
class InputGuardrailResult:
    """Pairs an input guardrail with its report.

    >>> InputGuardrailResult(None, GuardrailFunctionOutput("fine", False)).output.output_info
    'fine'
    """

    guardrail: Any
    output: GuardrailFunctionOutput


@dataclass(slots=True)
class OutputGuardrailResult:
    """Pairs an output guardrail with its report, the agent and its output.

    >>> OutputGuardrailResult(None, "hi", None, GuardrailFunctionOutput(None, False)).agent_output
    'hi'
    """

    guardrail: Any
    agent_output: Any
    agent: Any
    output: GuardrailFunctionOutput


def _report(guardrail: InputGuardrail[Any] | OutputGuardrail[Any], answer: object) -> GuardrailFunctionOutput:
    if isinstance(answer, GuardrailFunctionOutput):
        return answer
    raise UserError(
        f"guardrail {guardrail.get_name()!r} returned {type(answer).__name__}; it must return a GuardrailFunctionOutput"
    )


@overload
def input_guardrail(func: InputGuardrailFunction, /) -> InputGuardrail[Any]: ...
@overload
def input_guardrail(
    *, name: str | None = None, run_in_parallel: bool = True
) -> Callable[[InputGuardrailFunction], InputGuardrail[Any]]: ...
def input_guardrail(
    func: InputGuardrailFunction | None = None, *, name: str | None = None, run_in_parallel: bool = True
) -> InputGuardrail[Any] | Callable[[InputGuardrailFunction], InputGuardrail[Any]]:
    """Make a function an input guardrail; used bare, or called with its options.

    >>> @input_guardrail(name="length", run_in_parallel=False)
    ... def check(context, agent, input):
    ...     return GuardrailFunctionOutput(None, tripwire_triggered=False)
    >>> check.name, check.run_in_parallel
    ('length', False)
    """

    def make(function: InputGuardrailFunction) -> InputGuardrail[Any]:
        return InputGuardrail(function, name or getattr(function, "__name__", None), run_in_parallel)

    return make if func is None else make(func)


@overload
def output_guardrail(func: OutputGuardrailFunction, /) -> OutputGuardrail[Any]: ...
@overload
def output_guardrail(*, name: str | None = None) -> Callable[[OutputGuardrailFunction], OutputGuardrail[Any]]: ...
def output_guardrail(
    func: OutputGuardrailFunction | None = None, *, name: str | None = None
) -> OutputGuardrail[Any] | Callable[[OutputGuardrailFunction], OutputGuardrail[Any]]:
    """Make a function an output guardrail; used bare, or called with its options.

    >>> @output_guardrail
    ... async def no_secrets(context, agent, output):
    ...     return GuardrailFunctionOutput(None, tripwire_triggered="secret" in str(output))
    >>> no_secrets.name
    'no_secrets'
    """

    def make(function: OutputGuardrailFunction) -> OutputGuardrail[Any]:
        return OutputGuardrail(function, name or getattr(function, "__name__", None))

    return make if func is None else make(func)
