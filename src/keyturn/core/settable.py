"""Check what is assigned to an object that users declare, in its constructor and at any time after that.

One table for each class says what an attribute may be, so that a late assignment is checked by the very rule that the
constructor is checked by. A name that the object does not have is refused, with the names that are nearly it: what is
set takes effect or raises. Reading costs nothing. Nothing here knows what an attribute means.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from types import CodeType
from typing import Any, ClassVar, Self

from .errors import UserError
from .values import is_callback, is_entries, is_flag, is_positive, is_whole

#: What a rule returns that has put the value where it belongs, so that nothing is stored under its name.
ELSEWHERE: Any = object()
#: Checks a value that is assigned to an attribute of an object, and returns what is stored of it.
Rule = Callable[[Any, str, Any], Any]
Rules = Mapping[str, Rule]

_OURS = __name__.partition(".")[0]
_NOT_USERS = ("builtins", "typing", "abc")
_VAR_KEYWORDS = 0x08  # the flag of code that takes any keyword
_set = object.__setattr__
_tables: dict[type, dict[str, Rule | None]] = {}
_keywords: dict[type, frozenset[str] | None] = {}
_own_names: dict[type, frozenset[str]] = {}


class Settable:
    """Checks each assignment by the rules of its class, and refuses a name that its class does not have.

    A subclass may have attributes of its own: what it declares (class attributes, annotated names, fields, properties)
    and what its own methods set, `__init__` first of all. Names that begin with `_` are not checked.

    >>> class Lamp(Settable):
    ...     _rules = {"watts": must(lambda value: value in (40, 60), "40 or 60")}
    ...     def __init__(self, watts): self.watts = watts
    >>> lamp = Lamp(40)
    >>> lamp.wats = 60
    Traceback (most recent call last):
    ...
    AttributeError: a Lamp has no attribute 'wats'; did you mean 'watts'?
    """

    #: What the attributes of a class may be, by name; the rules of its bases hold beside its own.
    _rules: ClassVar[Rules] = {}
    #: What to do in place of setting an attribute that the class does not have, by name.
    _remedies: ClassVar[Mapping[str, str]] = {}

    def __setattr__(self, name: str, value: object) -> None:
        if name[0] != "_":
            kind = self.__class__
            rule = (_tables.get(kind) or _table_of(kind)).get(name, _unknown)
            if rule is not None:
                value = rule(self, name, value)
                if value is ELSEWHERE:
                    return
        _set(self, name, value)

    def __delattr__(self, name: str) -> None:
        if name in (_tables.get(type(self)) or _table_of(type(self))) and not callable(getattr(type(self), name, None)):
            raise AttributeError(f"{name!r} of {self._described()} cannot be deleted: set the value that it is to have")
        object.__delattr__(self, name)

    def _described(self) -> str:
        """Return what errors call the object."""
        return f"a {type(self).__name__}"

    def _refusal(self, name: str, may_be: str, value: object) -> Exception:
        """Return the error for a value that an attribute cannot have."""
        return UserError(f"{type(self).__name__} {name} must be {may_be}, not {value!r}")


class Constructed(Settable):
    """Is settable, and names the near ones where a constructor written by hand does not have a keyword.

    A class with `@settings` needs no such base.

    >>> class Lamp(Constructed):
    ...     def __init__(self, watts): self.watts = watts
    ...     watts: int
    >>> Lamp(wats=40)
    Traceback (most recent call last):
    ...
    TypeError: Lamp() got an unexpected keyword argument 'wats'; did you mean 'watts'?
    """

    def __new__(cls, *_args: Any, **options: Any) -> Self:
        """Refuse keywords that the constructor does not have, and name those that are nearly it."""
        if options:
            known = _keywords[cls] if cls in _keywords else _keywords_of(cls)
            if known is not None and not options.keys() <= known:
                raise unexpected_of(cls, options, known)
        return super().__new__(cls)


class Sealed(Constructed):
    """Keeps what its constructor was given and has set, unless a rule of the class says how it may change.

    >>> class Lamp(Sealed):
    ...     def __init__(self, watts): self.watts, self._lit = watts, False
    >>> Lamp(40).volts = 230
    Traceback (most recent call last):
    ...
    AttributeError: a Lamp has no attribute 'volts'
    """


def own_of(owner: object) -> dict[str, Any]:
    """Return the attributes of an object, to be set past its rules: by what follows from one that was checked.

    >>> own_of(Settable())
    {}
    """
    return vars(owner)


def described(owner: Any) -> str:
    """Return what errors call an object."""
    return owner._described()


def refusal(owner: Any, name: str, may_be: str, value: object) -> Exception:
    """Return the error for a value that an attribute cannot have, for rules that stand beside other classes."""
    return owner._refusal(name, may_be, value)


def must(fits: Callable[[Any], bool], may_be: str) -> Rule:
    """Make the rule that a value must fit; `may_be` says in the error what it may be."""

    def rule(owner: object, name: str, value: object) -> Any:
        if not fits(value):
            raise refusal(owner, name, may_be, value)
        return value

    return rule


def made_by(make: Callable[[Any], Any]) -> Rule:
    """Make the rule that a value is stored as `make` returns it, which raises where it cannot."""
    return lambda _owner, _name, value: make(value)


def fixed(remedy: str) -> Rule:
    """Make the rule that an attribute is set by the constructor only; `remedy` says what to do later."""

    def rule(owner: object, name: str, value: object) -> Any:
        if name in own_of(owner):
            raise AttributeError(f"{name!r} of {described(owner)} cannot be set after construction: {remedy}")
        return value

    return rule


def refused(remedy: str) -> Rule:
    """Make the rule that an attribute cannot be set, since it would have no effect; `remedy` says what has."""

    def rule(owner: object, name: str, _value: object) -> Any:
        raise AttributeError(f"{name!r} of {described(owner)} cannot be set: {remedy}")

    return rule


def then(rule: Rule, after: Callable[[Any, Any], None]) -> Rule:
    """Make the rule that checks by another, and calls `after(owner, value)` for what follows from the value."""

    def both(owner: object, name: str, value: object) -> Any:
        made = rule(owner, name, value)
        after(owner, made)
        return made

    return both


SWITCH = must(lambda value: is_flag(value) or callable(value), "True, False or a callable")
CALLBACK = must(is_callback, "a callable or None")
FLAG = must(is_flag, "True or False")
TEXT = must(lambda value: isinstance(value, str), "a string")
SECONDS = must(lambda value: value is None or is_positive(value), "a number of seconds greater than 0, or None")
WHOLE = must(lambda value: is_whole(value) and value >= 1, "a whole number, 1 or more")
ENTRIES = must(is_entries, "a list or None")


def anything(_owner: object, _name: str, value: object) -> Any:
    """Store any value: the rule of an attribute that may be whatever its user likes."""
    return value


def one_of(*allowed: Any) -> Rule:
    """Make the rule that a value is one of a few."""
    return must(
        lambda value: any(value == one and type(value) is type(one) for one in allowed),
        " or ".join(filter(None, (", ".join(map(repr, allowed[:-1])), repr(allowed[-1])))),
    )


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of an error about a name that is not there: the names that are nearly it, if any.

    >>> did_you_mean("naem", ["name", "tools"])
    "; did you mean 'name'?"
    """
    near = get_close_matches(name, sorted(known), n=3)
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""


def unexpected(what: str, name: str, known: Iterable[str], remedy: str | None = None) -> TypeError:
    """Return the error for a keyword that a constructor or a function does not have."""
    hint = f": {remedy}" if remedy else did_you_mean(name, known)
    return TypeError(f"{what} got an unexpected keyword argument {name!r}{hint}")


def unexpected_of(kind: type, options: Iterable[str], known: Iterable[str]) -> TypeError:
    """Return the error for the first keyword that the constructor of a class does not have."""
    name = next(name for name in options if name not in known)
    return unexpected(f"{kind.__name__}()", name, known, _remedy_of(kind, name))


def _remedy_of(kind: type, name: str) -> str | None:
    return next((text for each in kind.__mro__ if (text := vars(each).get("_remedies", {}).get(name))), None)


def settable_names(kind: type) -> dict[str, Rule | None]:
    """Return the attributes that an object of a class has, with the rule of each; None is a value that may be anything.

    >>> sorted(settable_names(Settable))
    []
    """
    return {**_table_of(kind)}


def _table_of(kind: type) -> dict[str, Rule | None]:
    known = _tables.get(kind)
    if known is not None:
        return known
    table: dict[str, Rule | None] = {}
    for each in reversed(kind.__mro__):
        own = vars(each)
        typed: dict[str, Any] = own.get("__annotations__", {})
        for name in {*own, *typed}:
            if name[0] != "_":
                _declare(table, each, name, own.get(name), "ClassVar" in str(typed.get(name, "")))
        table |= own.get("_rules", {}) if issubclass(each, Settable) else {}
    if issubclass(kind, Sealed):
        _seal(table, kind)
    _tables[kind] = table
    return table


def _seal(table: dict[str, Rule | None], kind: type) -> None:
    """Fix what a class says of all its objects and what its constructors are given and set; rules and setters stay."""
    for name, rule in table.items():
        if rule is None and not callable(getattr(kind, name, None)) and not _has_setter(kind, name):
            table[name] = _of_class
    for each in kind.__mro__:
        code = getattr(unwrapped(vars(each).get("__init__")), "__code__", None)
        if code is None:
            continue
        given = code.co_varnames[code.co_posonlyargcount : code.co_argcount + code.co_kwonlyargcount]
        names = {name: _given for name in given if name != "self"}
        if is_ours(each):
            names |= dict.fromkeys(_stored_by([code]), _kept)
        for name, rule in names.items():
            if name[0] != "_" and table.get(name) in _OPEN and not _has_setter(kind, name):
                table[name] = rule


def _has_setter(kind: type, name: str) -> bool:
    found = getattr(kind, name, None)
    return isinstance(found, property) and found.fset is not None


def _kept(owner: object, name: str, value: object) -> Any:
    """Let the constructor set an attribute once; a user's subclass may go on setting it."""
    return _given(owner, name, value) if name in own_of(owner) else value


def _given(owner: object, name: str, value: object) -> Any:
    """Refuse an attribute that is the constructor's, unless a method of a user's subclass sets it."""
    if name not in _set_by_users(owner.__class__):
        remedy = f"make another {type(owner).__name__}"
        raise AttributeError(f"{name!r} of {described(owner)} cannot be set after construction: {remedy}")
    return value


def _declare(table: dict[str, Rule | None], kind: type, name: str, found: object, of_class: bool) -> None:
    """Note an attribute of a class; what its bases say of it holds on, unless the class does it in another way."""
    if of_class:
        table[name] = _of_class
    elif isinstance(found, property):
        table[name] = _read_only if found.fset is None else None
    elif callable(found) and not is_ours(kind):
        table[name] = None
    else:
        table.setdefault(name, None)


def is_ours(kind: type) -> bool:
    """Return whether a class is the library's own, and not a user's subclass, which may do as it likes.

    >>> is_ours(Settable), is_ours(int)
    (True, False)
    """
    return kind.__module__.partition(".")[0] == _OURS


def _of_class(owner: type[Any], name: str, value: object) -> Any:
    if is_ours(owner.__class__):
        raise AttributeError(f"{name!r} of {owner._described()} is the same for all of its class: set it in a subclass")
    return value


def _read_only(owner: type[Any], name: str, _value: object) -> Any:
    raise AttributeError(f"{name!r} of {owner._described()} cannot be set: it follows from what else is set")


def _unknown(owner: type[Any], name: str, value: object) -> Any:
    """Refuse a name that the object does not have, unless a method of its own class sets it."""
    kind: type[Any] = owner.__class__
    if name in own_of(owner):
        return value
    own = _set_by_users(kind)
    if name in own or "setattr" in own:  # a class that computes names is trusted with them
        return value
    remedy = _remedy_of(kind, name)
    known = {*(each for each in own_of(owner) if not each.startswith("_")), *settable_names(kind)}
    hint = f": {remedy}" if remedy else did_you_mean(name, known)
    raise AttributeError(f"{owner._described()} has no attribute {name!r}{hint}")


def _set_by_users(kind: type) -> frozenset[str]:
    """Return the names that methods of a user's own classes set; our classes declare all of theirs."""
    known = _own_names.get(kind)
    if known is None:
        theirs = [each for each in kind.__mro__ if not is_ours(each) and each.__module__ not in _NOT_USERS]
        codes = [code for each in theirs for code in _codes_in([unwrapped(member) for member in vars(each).values()])]
        found = _stored_by(codes) | ({"setattr"} & {name for code in codes for name in code.co_names})
        known = _own_names[kind] = frozenset(found)
    return known


def _stored_by(codes: Iterable[CodeType]) -> set[str]:
    """Return the attributes that functions set."""
    return {at.argval for code in codes for at in dis.get_instructions(code) if at.opname == "STORE_ATTR"}


def _codes_in(members: list[Any]) -> Iterator[CodeType]:
    """Yield the code of functions, and of what is defined inside them."""
    queue: list[Any] = [getattr(member, "__code__", None) for member in members]
    while queue:
        code = queue.pop()
        if isinstance(code, CodeType):
            yield code
            queue += code.co_consts


def unwrapped(member: object) -> Any:
    """Return the function of a method as it was written, below what decorates it.

    >>> unwrapped(staticmethod(did_you_mean)) is did_you_mean
    True
    """
    while True:
        inner = next((found for how in _INSIDE if (found := getattr(member, how, None)) is not None), None)
        if inner is None:
            return member
        member = inner


def _keywords_of(kind: type) -> frozenset[str] | None:
    """Return the keywords of a constructor; None where it takes any, and says itself which it knows."""
    code: Any = getattr(unwrapped(vars(kind).get("__init__") or kind.__init__), "__code__", None)
    known = None
    if code is not None and not code.co_flags & _VAR_KEYWORDS:
        known = frozenset(code.co_varnames[code.co_posonlyargcount : code.co_argcount + code.co_kwonlyargcount])
    _keywords[kind] = known
    return known


#: The rules that a constructor's own may replace.
_OPEN = (None, _given, _of_class, _read_only)
#: Where a decorated method keeps what it decorates.
_INSIDE = ("__wrapped__", "__func__", "fset", "func")
