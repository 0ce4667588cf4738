"""Compare signatures of plain types by value, so that tools that are made again share one model of their parameters.

An application may make its tools anew for each request, as closures do, and a model takes pydantic a millisecond. Only
types whose meaning cannot change are compared: texts, numbers, and what is made of them. No class of the user's is.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from inspect import Parameter
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from .signature import Signature

_VALUES = frozenset({str, int, float, bool, NoneType})
_TYPES = _VALUES | {object, list, dict, set, frozenset, tuple}
_MADE_OF_OTHERS = (list, dict, set, frozenset, tuple, Union, UnionType)


class _NotPlain(Exception):
    """Raised where something of the user's own is in a signature."""


def form_of(tool: str, signature: Signature, said: Mapping[str, str], strict: bool) -> Hashable | None:
    """Return what the model of these parameters depends on, or None where that cannot be compared.

    >>> from .signature import read_signature
    >>> def pay(amount: int, note: str | None = None) -> None: ...
    >>> def again(amount: int, note: str | None = None) -> None: ...
    >>> form_of("pay", read_signature(pay), {}, True) == form_of("pay", read_signature(again), {}, True)
    True
    >>> class Bill: ...
    >>> def settle(bill: Bill) -> None: ...
    >>> form_of("settle", read_signature(settle), {}, True) is None
    True
    """
    try:
        each = [(p.name, p.kind, _type(p.annotation), _default(p), said.get(p.name)) for p in signature.parameters]
    except _NotPlain:
        return None
    return tool, strict, tuple(each)


def _type(annotation: Any) -> Hashable:
    if annotation is Any or annotation is Ellipsis or (isinstance(annotation, type) and annotation in _TYPES):
        return annotation
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return origin, tuple(map(_value, parts))
    if origin is Annotated and all(type(note) is str for note in parts[1:]):
        return origin, _type(parts[0]), parts[1:]
    if origin in _MADE_OF_OTHERS:
        return origin, tuple(map(_type, parts))  # in their order, by which a union reads
    raise _NotPlain


def _value(value: object) -> Hashable:
    """Return a value with its type: 1, 1.0 and True are equal, and a schema tells them apart; so are 0.0 and -0.0."""
    if type(value) not in _VALUES:
        raise _NotPlain
    return type(value), repr(value)


def _default(parameter: Parameter) -> Hashable:
    return None if parameter.default is Parameter.empty else _value(parameter.default)
