"""The schema of a callable: what the model is told of it, and how the model's text becomes what runs.

`freeze` is the only way from a model's text to arguments that may be shown and approved, and `bind` the
only way from those to Python objects. What you see is what runs: a text that does not read back as itself
is refused here. Nothing in this file decides whether a call may run, or runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from inspect import Parameter
from typing import Any, cast

import msgspec

from ...core.digest import canonical
from ...core.errors import BadJson, UserError
from ...core.exact_text import is_exact
from ...core.immutable import immutable
from ...core.retyped import retyped
from ...core.strict import JsonValue, parse
from ...support.user_code import contain, contained
from ..base import InvalidArguments, ToolProblem
from .docstrings import Docstring, DocstringStyle, read_docstring
from .parameters import Parameters, build_parameters
from .refusal import cause, complaints
from .roundtrip import SECRET_MARK, agree_where_given
from .signature import read_signature

__all__ = ["Frozen", "FunctionSchema", "InvalidArguments", "Secret", "function_schema"]


class Secret:
    """Marks an argument that people must not see: only its display is redacted, the tool gets the value.

    >>> from typing import Annotated
    >>> def login(user: str, password: Annotated[str, Secret]) -> None: ...
    >>> function_schema(login).secrets
    ('password',)
    """

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: Callable[[Any], Any]) -> Any:
        """Leave the type as it is, with a mark that `roundtrip.survey` finds at any depth."""
        schema = handler(source)
        return {**schema, "metadata": {**schema.get("metadata", {}), SECRET_MARK: True}}


@immutable
class Frozen(msgspec.Struct, frozen=True):
    """Holds what will run: the canonical text of the arguments, and the same as a value.

    `exact` says that the model's own text already parses to that very value for every reader, so that it can be kept.
    """

    text: str
    params: dict[str, JsonValue]
    exact: bool


@dataclass(frozen=True, slots=True)
class _Layout:
    """Says where each field of the model goes in a Python call."""

    positional: tuple[str, ...]
    rest: str | None
    keywords: tuple[tuple[str, str], ...]
    options: str | None
    options_name: str | None
    reserved: frozenset[str]


@immutable
@dataclass(frozen=True, slots=True, eq=False)
class FunctionSchema:
    """Describes a callable as a tool: its JSON schema, and the two steps from a model's text to a Python call.

    >>> def pay(amount: int, currency: str = "EUR") -> None:
    ...     "Pay a bill."
    >>> schema = function_schema(pay)
    >>> schema.freeze('{"amount": 5}')
    Frozen(text='{"amount":5,"currency":"EUR"}', params={'amount': 5, 'currency': 'EUR'}, exact=False)
    >>> schema.freeze('{"amount": "5"}')  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    keyturn.tools.base.InvalidArguments: ... amount: Input should be a valid integer, not a string
    >>> schema.bind('{"amount":5,"currency":"EUR"}')
    ([5, 'EUR'], {})
    """

    name: str
    description: str
    params_json_schema: dict[str, Any]
    takes_context: bool
    secrets: tuple[str, ...]
    strict_json_schema: bool
    is_async: bool
    _read: Callable[[str], Any] = field(repr=False)
    _show: Callable[[Any], dict[str, JsonValue]] = field(repr=False)
    _layout: _Layout = field(repr=False)
    _runs_code: bool = field(repr=False, default=False)

    def freeze(self, text: str) -> Frozen:
        """Return what will run for a model's text, or raise `InvalidArguments` in words that help the model.

        An empty text counts as no arguments.
        """
        try:
            given = parse(text) if text else {}
        except BadJson as error:
            raise self._invalid(f"they are {error}") from None
        if type(given) is not dict:
            raise self._invalid(f"they must be a JSON object, not {_kind(given)}")
        try:
            try:
                params = self._show(self._read(text or "{}"))
            except BaseException as error:
                contain(error)
                raise
            frozen = canonical(params)
        except Exception as error:
            raise self._refused(error) from cause(error)
        if self._layout.options is not None:
            self._check_options(params)
        if canonical(given) == frozen:
            return Frozen(frozen, params, bool(text) and is_exact(text))
        if self.strict_json_schema and not self._runs_code:
            self._check_truths(given, params)
        return self._settled(given, params, frozen)

    def bind(self, text: str) -> tuple[list[Any], dict[str, Any]]:
        """Convert a text that `freeze` returned or called exact to Python arguments, without the context.

        Where validators read it as another value now, as one that follows a link does, `ToolProblem` is raised: what
        would run is not what was decided on.
        """
        try:
            try:
                made = self._read(text)
                moved = self._runs_code and canonical(self._show(made)) != canonical(parse(text))
            except BaseException as error:
                contain(error)
                raise
            values: dict[str, Any] = made.__dict__
        except Exception as error:
            raise self._refused(error) from cause(error)
        if moved:
            raise ToolProblem(f"{self.name} was not run: its arguments mean something else now. Call it again.")
        layout = self._layout
        positional = [values[key] for key in layout.positional]
        keywords = {name: values[key] for name, key in layout.keywords}
        if layout.rest is not None:
            positional.extend(values[layout.rest])
        if layout.options is not None:
            keywords.update(values[layout.options])
        return positional, keywords

    def _settled(self, given: dict[str, JsonValue], params: dict[str, JsonValue], frozen: str) -> Frozen:
        """Read the text back until it is its own printing: at most once more, for defaults to take form."""
        try:
            with contained:
                again = self._show(self._read(frozen))
                settled = canonical(again)
                if settled == frozen:
                    return Frozen(frozen, params, False)
                stable = agree_where_given(given, params, again)
                if stable and canonical(self._show(self._read(settled))) == settled:
                    return Frozen(settled, again, False)
        except Exception as error:
            raise self._refused(error) from cause(error)
        moved = ", ".join(name for name in params if canonical(params[name]) != canonical(again.get(name)))
        raise self._invalid(f"{moved}: reads back as another value each time, so that what runs could not be approved")

    def _check_truths(self, given: dict[str, JsonValue], params: dict[str, JsonValue]) -> None:
        """Refuse `true` that was read as 1: to Python they are equal, and so to its enums and literals."""
        for place, was, became in retyped(given, params, ""):
            if {was, became} == {"true or false", "a number"}:
                raise self._invalid(f"{place}: Input should be {became}, not {was}")

    def _check_options(self, params: dict[str, JsonValue]) -> None:
        """Refuse an entry of `**kwargs` that has the name of another parameter."""
        layout = self._layout
        options = cast("dict[str, JsonValue]", params[cast("str", layout.options_name)])
        taken = sorted(layout.reserved.intersection(options))
        if taken:
            raise self._invalid(f"{layout.options_name}: {', '.join(taken)} cannot be given there")

    def _refused(self, error: Exception) -> InvalidArguments:
        fields: Mapping[str, Any] = self.params_json_schema.get("properties", {})
        return self._invalid(complaints(error, fields))

    def _invalid(self, reason: str) -> InvalidArguments:
        return InvalidArguments(f"The arguments of {self.name} are invalid: {reason}")


def function_schema(
    func: Callable[..., Any],
    *,
    name_override: str | None = None,
    description_override: str | None = None,
    docstring_style: DocstringStyle | None = None,
    use_docstring_info: bool = True,
    strict_json_schema: bool = True,
    context_types: tuple[type, ...] = (),
) -> FunctionSchema:
    """Build the schema of a function, a method, a partial or a callable object; raise `UserError` where it has none.

    >>> def pay(amount: int) -> None:
    ...     '''Pay a bill.
    ...
    ...     Args:
    ...         amount: In cents.
    ...     '''
    >>> function_schema(pay).params_json_schema["properties"]["amount"]["description"]
    'In cents.'
    """
    signature = read_signature(func, context_types)
    name = name_override or signature.name
    if name == "<lambda>":
        raise UserError("a lambda has no name that a model could call: use def, or name_override=")
    said = read_docstring(signature.docstring, docstring_style) if use_docstring_info else Docstring()
    try:
        built = build_parameters(name, signature, said.parameters, strict_json_schema)
    except UserError as error:
        raise UserError(f"tool {name!r}: {error}") from error.__cause__
    return FunctionSchema(
        name=name,
        description=said.description if description_override is None else description_override,
        params_json_schema=built.json_schema,
        takes_context=signature.takes_context,
        secrets=built.secrets,
        strict_json_schema=strict_json_schema,
        is_async=signature.is_async,
        _read=built.read,
        _show=built.show,
        _layout=_layout(built, signature.reserved),
        _runs_code=built.runs_code,
    )


def _layout(built: Parameters, reserved: frozenset[str]) -> _Layout:
    def keys(*kinds: Any) -> list[str]:
        return [each.key for each in built.fields if each.parameter.kind in kinds]

    options = next((each for each in built.fields if each.parameter.kind is Parameter.VAR_KEYWORD), None)
    return _Layout(
        positional=tuple(keys(Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)),
        rest=next(iter(keys(Parameter.VAR_POSITIONAL)), None),
        keywords=tuple(
            (each.parameter.name, each.key) for each in built.fields if each.parameter.kind is Parameter.KEYWORD_ONLY
        ),
        options=options.key if options else None,
        options_name=options.name if options else None,
        reserved=reserved,
    )


def _kind(value: JsonValue) -> str:
    if isinstance(value, list):
        return "a list"
    return "null" if value is None else f"a {type(value).__name__}"
