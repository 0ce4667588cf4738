"""Inspect a callable: its name, its parameters with resolved annotations, its context, its docstring.

Plain inspection. Nothing here knows pydantic, JSON or tools, and nothing runs the callable.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from inspect import Parameter
from types import SimpleNamespace, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from ...core.errors import UserError

_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, slots=True)
class Signature:
    """Describes a callable.

    `parameters` are those the model fills in. `reserved` are the names that no `**kwargs` entry may take: they
    belong to other parameters, to the context, or to what a `functools.partial` has fixed.
    """

    name: str
    docstring: str | None
    parameters: tuple[Parameter, ...]
    takes_context: bool
    is_async: bool
    reserved: frozenset[str]


def read_signature(func: Callable[..., Any], context_types: tuple[type, ...] = ()) -> Signature:
    """Inspect a function, a method, a partial or a callable object.

    >>> def pay(amount: int, note: str = "") -> None: ...
    >>> [parameter.name for parameter in read_signature(pay).parameters]
    ['amount', 'note']
    """
    target, fixed = _unwrap(func)
    name = getattr(target, "__name__", None) or type(target).__name__
    if any(map(_yields, (target, _call_of(target)))):
        raise UserError(f"tool {name!r}: a generator function runs nothing when it is called; return the whole result")
    try:
        declared = list(inspect.signature(func).parameters.values())
    except (TypeError, ValueError) as error:
        raise UserError(f"tool {name!r}: its parameters cannot be read ({error}); wrap it in a function") from error
    hints = _hints(target, declared, name)
    resolved = [parameter.replace(annotation=hints.get(parameter.name, Any)) for parameter in declared]
    # What a partial fixed by keyword is the developer's: the model neither sees it nor may replace it.
    parameters = [parameter for parameter in resolved if parameter.name not in fixed]
    takes_context = _takes_context(parameters, context_types, name)
    return Signature(
        name=name,
        docstring=_docstring(target),
        parameters=tuple(parameters[1:] if takes_context else parameters),
        takes_context=takes_context,
        is_async=inspect.iscoroutinefunction(target) or inspect.iscoroutinefunction(_call_of(target)),
        reserved=frozenset(_keywords(resolved)) | fixed,
    )


def _yields(target: object) -> bool:
    return inspect.isgeneratorfunction(target) or inspect.isasyncgenfunction(target)


def accepts_none(annotation: object) -> bool:
    """Return whether None is among the values of an annotation, as far as it says so itself."""
    return annotation in (Any, object, None, type(None)) or any(accepts_none(part) for part in alternatives(annotation))


def alternatives(annotation: object) -> tuple[Any, ...]:
    """Return the members of a union, or what is annotated; nothing for any other type."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return get_args(annotation)[:1]
    return get_args(annotation) if origin in (Union, UnionType) else ()


def _unwrap(func: object) -> tuple[Any, frozenset[str]]:
    """Return the callable below partials, and the names that these have fixed by keyword."""
    fixed: set[str] = set()
    while isinstance(func, functools.partial):
        fixed.update(func.keywords)
        func = func.func
    return func, frozenset(fixed)


def _call_of(target: object) -> Any:
    """Return the function behind a callable object; the target itself where it is a function already."""
    return target if hasattr(target, "__code__") or inspect.ismethod(target) else type(target).__call__


def _docstring(target: object) -> str | None:
    call = None if inspect.isroutine(target) else type(target).__call__
    return inspect.getdoc(call if call is not None and call.__doc__ else target)


def _keywords(parameters: Iterable[Parameter]) -> Iterable[str]:
    return (each.name for each in parameters if each.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY))


def _takes_context(parameters: list[Parameter], types: tuple[type, ...], name: str) -> bool:
    takes = False
    for place, parameter in enumerate(parameters):
        if not _is_context(parameter.annotation, types):
            continue
        if place or parameter.kind not in _POSITIONAL:
            raise UserError(f"tool {name!r}: its context {parameter.name!r} must be the first positional parameter")
        takes = True
    return takes


def _is_context(annotation: object, types: tuple[type, ...]) -> bool:
    kind = get_origin(annotation) or annotation
    if isinstance(kind, type) and issubclass(kind, types):
        return True
    return any(_is_context(part, types) for part in alternatives(annotation))


def _hints(target: object, declared: list[Parameter], name: str) -> dict[str, Any]:
    """Return the annotations as types, without the return type, which says nothing about arguments."""
    function = inspect.unwrap(_call_of(target))
    function = getattr(function, "__func__", function)
    holder = SimpleNamespace(
        __annotations__={each.name: each.annotation for each in declared if each.annotation is not Parameter.empty},
        __type_params__=getattr(function, "__type_params__", ()),
    )
    scope: dict[str, Any] = getattr(function, "__globals__", {})
    try:
        try:
            return get_type_hints(holder, scope, include_extras=True)
        except NameError:
            return get_type_hints(holder, scope, _scope_around(function), include_extras=True)
    except NameError as error:
        raise UserError(
            f"tool {name!r}: the annotation name {error.name!r} is not defined where the tool is declared; "
            "import it for real (not under TYPE_CHECKING) or move it to the module's top level"
        ) from error
    except (TypeError, SyntaxError) as error:
        raise UserError(f"tool {name!r}: an annotation is not a type ({error})") from error


def _scope_around(function: object) -> dict[str, Any]:
    """Return the local names of the declaring function, so that local classes work as annotations."""
    outer = getattr(function, "__qualname__", "").rpartition(".<locals>.")[0]
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code.co_qualname == outer and frame.f_globals is getattr(function, "__globals__", None):
            return dict(frame.f_locals)
        frame = frame.f_back
    return {}
