"""Generate the constructors of dataclasses with settings: what is given is checked by the rules, a default is not.

The constructor that `dataclass` makes assigns each field, and each assignment of a `Settable` is checked: 29 fields are
29 calls. The one made here writes the fields past `__setattr__`, and calls the rules of what is not a default.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import wraps
from typing import Any, TypeVar, dataclass_transform

from .core.settable import settable_names, unexpected_of

_T = TypeVar("_T")


@dataclass_transform(field_specifiers=(field,))
def settings(*, eq: bool = True) -> Callable[[type[_T]], type[_T]]:
    """Make a `Settable` class a dataclass whose constructor checks what is given by the rules of the class.

    >>> from keyturn.core.settable import FLAG, Settable
    >>> @settings()
    ... class Lamp(Settable):
    ...     lit: bool = False
    ...     _rules = {"lit": FLAG}
    >>> Lamp(lit=True), Lamp()
    (Lamp(lit=True), Lamp(lit=False))
    >>> Lamp(lit="yes")
    Traceback (most recent call last):
    ...
    keyturn.core.errors.UserError: Lamp lit must be True or False, not 'yes'
    """

    def decorate(kind: type[_T]) -> type[_T]:
        made: Any = dataclass(eq=eq)(kind)
        made.__init__ = _constructor(made)
        return made

    return decorate


def _constructor(kind: type[Any]) -> Any:
    """Return a constructor with the parameters of the dataclass's own, which a subclass keeps."""
    plain = kind.__init__
    each = fields(kind)
    names = [one.name for one in each]
    defaults: tuple[Any, ...] = plain.__defaults__ or ()
    scope: dict[str, Any] = {"kind": kind, "plain": plain, "unexpected_of": unexpected_of, "names": names}
    scope |= {
        f"default_{name}": value for name, value in zip(names[len(names) - len(defaults) :], defaults, strict=True)
    }
    rules = settable_names(kind)
    parameters = ", ".join(f"{name}=default_{name}" if f"default_{name}" in scope else name for name in names)
    lines = [f"    own[{one.name!r}] = {_expression(one, rules.get(one.name), scope)}" for one in each]
    body = "\n".join((f"def __init__(self, {parameters}, **unknown):", _OPENING.format(", ".join(names)), *lines))
    exec(body, scope)
    return wraps(plain)(scope["__init__"])


_OPENING = """\
    if unknown:
        raise unexpected_of(kind, unknown, names)
    if self.__class__ is not kind:
        return plain(self, {})
    own = self.__dict__"""


def _expression(one: Field[Any], rule: object, scope: dict[str, Any]) -> str:
    """Return the expression that a field is set to, and put what it names into the scope."""
    name = one.name
    given = name
    if rule is not None:
        scope[f"rule_{name}"] = rule
        given = f"rule_{name}(self, {name!r}, {name})"
    if one.default_factory is not MISSING:
        scope[f"make_{name}"] = one.default_factory
        return f"make_{name}() if {name} is default_{name} else {given}"
    return (
        f"{name} if {name} is default_{name} else {given}" if rule is not None and one.default is not MISSING else given
    )
