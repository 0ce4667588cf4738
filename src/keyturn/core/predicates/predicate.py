"""Evaluate typed comparisons on validated arguments: which calls a grant or a rule means.

A predicate is data, and has three values: yes, no, and cannot tell. It never coerces: yes is said of the value as it
stands, and no only where no reader of that value could take it for one that is meant. What grants or allows needs a
sure yes (`holds`); what asks, denies or limits needs a sure no to be passed by (`may_hold`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from fractions import Fraction
from math import isfinite
from posixpath import normpath
from typing import Any, NamedTuple, cast

from ..digest import canonical
from ..errors import BadJson, UserError
from ..preview import redact
from .comparisons import HIDDEN, OF_MEMBERS, ORDER, comparisons, every, kind_of
from .comparisons import OPERATORS as OPERATORS
from .comparisons import Truth as Truth
from .members import MISSING, at
from .pattern import check_pattern
from .reading import CannotTell, odd_path

Where = Mapping[str, Any]
#: How many arguments a predicate names at most: each is looked for among all that a call has.
MOST_NAMES = 200
#: How long such a name is at most: what is joined by its dots is looked for in every way.
LONGEST_NAME = 500
_WORDS = {
    "eq": ("is equal", "is not equal"),
    "ne": ("differs", "does not differ"),
    "lt": ("is less", "is not less"),
    "le": ("is at most that", "is more"),
    "gt": ("is more", "is not more"),
    "ge": ("is at least that", "is less"),
    "one_of": ("is listed", "is not listed"),
    "matches": ("matches", "does not match"),
    "under": ("is in the directory", "is not in the directory"),
    "any": ("has a member that is meant", "has no member that is meant"),
    "all": ("has only members that are meant", "has a member that is not meant"),
    "where": ("are meant", "are not meant"),
}


class Finding(NamedTuple):
    """Describes one comparison: on which argument, which one, whether it holds, and why that is unknown.

    >>> Finding("amount", "gt", Truth.UNKNOWN, "it is a text").says
    "cannot tell whether 'amount' is more: it is a text"
    """

    argument: str
    operator: str
    truth: Truth
    why: str = ""

    @property
    def says(self) -> str:
        """Describe the finding, without any value."""
        yes, no = _WORDS.get(self.operator, (f"is {self.operator}", f"is not {self.operator}"))
        if self.truth is Truth.UNKNOWN:
            return f"cannot tell whether {self.argument!r} {yes}: {self.why}"
        return f"{self.argument!r} {yes if self.truth is Truth.YES else no}"


def holds(where: Where | None, params: object) -> bool:
    """Return whether validated arguments surely satisfy a predicate, for grants and rules that allow; never raise.

    A name with dots goes into objects. A list is compared as a whole, or its members are, with `any` and `all`.
    `matches` means the whole text, its digits and letters are those of ASCII.

    >>> holds({"to": "ada", "amount": {"gt": 0, "le": 100}}, {"to": "ada", "amount": 100})
    True
    >>> holds({"amount": {"le": 100}}, {"amount": "100"})
    False
    >>> holds({"commands": {"all": {"matches": "ls( [a-z]+)?"}}}, {"commands": ["ls", "ls src", "rm src"]})
    False
    """
    return evaluate(where, params).sure


def may_hold(where: Where | None, params: object) -> bool:
    """Return whether arguments may satisfy a predicate, for rules that ask, deny or limit; unknown counts.

    >>> may_hold({"amount": {"gt": 100}}, {"amount": "500"}), may_hold({"amount": {"gt": 100}}, {"amount": 50})
    (True, False)
    """
    return evaluate(where, params).possible


def evaluate(where: Where | None, params: object) -> Truth:
    """Evaluate a predicate on validated arguments, in three values; never raise.

    >>> evaluate({"path": {"under": "/etc"}}, {"path": "/srv/../etc/passwd"})
    <Truth.UNKNOWN: 'cannot tell'>
    """
    if not where:
        return Truth.YES
    if not isinstance(params, Mapping):
        return Truth.UNKNOWN
    return every(
        _judged(cast("Mapping[str, Any]", params), name, operator, operand)[0]
        for name, condition in where.items()
        for operator, operand in comparisons(condition)
    )


def findings(where: Where | None, params: object) -> Iterator[Finding]:
    """Yield what each comparison of a predicate says of arguments, in its order.

    >>> [finding.truth.value for finding in findings({"amount": {"gt": 0, "le": "x"}}, {"amount": 5})]
    ['yes', 'cannot tell']
    """
    if not where:
        return
    if not isinstance(params, Mapping):
        yield Finding("the arguments", "where", Truth.UNKNOWN, "they are not an object")
        return
    for name, condition in where.items():
        for operator, operand in comparisons(condition):
            truth, why = _judged(cast("Mapping[str, Any]", params), name, operator, operand)
            yield Finding(name, operator, truth, why)


def without_secrets(params: Any, secrets: Collection[str]) -> Any:
    """Return arguments for a predicate that a caller of an API wrote: of a secret it can tell nothing.

    What the program and its policy file compare are the arguments themselves. A caller who may only read would learn a
    secret from the answers, one letter at a time.

    >>> hidden = without_secrets({"to": "ann", "pin": "4929"}, ["pin"])
    >>> [evaluate({"pin": guess}, hidden).value for guess in ("4929", "0000")]
    ['cannot tell', 'cannot tell']
    """
    return redact(params, secrets, HIDDEN) if secrets else params


def compared_secret(names: Iterable[str], secrets: Collection[str]) -> str | None:
    """Return the first of some names of arguments that is a secret, is in one, or holds one; None where none does.

    >>> compared_secret(["to", "auth"], ["auth.pin"]), compared_secret(["auth.user"], ["auth.pin"])
    ('auth', None)
    """
    return next((name for name in names if any(_meets(name, secret) for secret in secrets)), None)


def _meets(name: str, secret: str) -> bool:
    return name == secret or name.startswith(f"{secret}.") or secret.startswith(f"{name}.")


def _judged(params: Mapping[str, Any], name: str, operator: str, operand: object) -> tuple[Truth, str]:
    try:
        value = at(params, name)
        return (_without(operator, operand) if value is MISSING else OPERATORS[operator](value, operand)), ""
    except CannotTell as doubt:
        return Truth.UNKNOWN, doubt.why
    except Exception:  # fail closed: what cannot be evaluated is not known to be false
        return Truth.UNKNOWN, "it cannot be evaluated"


def _without(operator: str, operand: object) -> Truth:
    """Compare a missing argument: it is no listed, matching or located value; of its size nothing is known."""
    if operator == "ne" and operand is None:
        return Truth.NO
    listed = cast("list[Any]", operand) if operator == "one_of" and isinstance(operand, list) else [operand]
    if operator in ("matches", "under", "any") or (operator in ("eq", "one_of") and None not in listed):
        return Truth.NO
    raise CannotTell("it is missing")


def number_at(params: object, name: str) -> Fraction | None:
    """Return the number that an argument is, exactly as written; None where it is none, or unknown.

    >>> number_at({"price": {"net": 0.1}}, "price.net"), number_at({"price": "5"}, "price")
    (Fraction(1, 10), None)
    """
    try:
        value: Any = at(cast("Mapping[str, Any]", params), name) if isinstance(params, Mapping) else None
    except CannotTell:
        return None
    if type(value) is int:
        return Fraction(value)
    return Fraction(repr(value)) if type(value) is float and isfinite(value) else None


def check_where(where: Where | None) -> None:
    """Refuse a predicate that could not be evaluated.

    >>> check_where({"amount": {"atmost": 5}})
    Traceback (most recent call last):
    ...
    keyturn.core.errors.UserError: unknown comparison 'atmost' on 'amount'; use one of eq, ne, lt, le, gt, ge, \
one_of, matches, under, any, all
    """
    given: object = where
    if given is None:
        return
    if not isinstance(given, Mapping):
        raise UserError("a predicate maps the names of arguments to what they must be")
    if len(cast("Mapping[object, Any]", given)) > MOST_NAMES:
        raise UserError(f"a predicate names {MOST_NAMES} arguments at most, and this one {len(given)}")
    for name, condition in cast("Mapping[object, Any]", given).items():
        if isinstance(name, str) and len(name) > LONGEST_NAME:
            raise UserError(f"the name of an argument has {LONGEST_NAME} characters at most in a predicate")
        if not isinstance(name, str) or not all(name.split(".")):
            raise UserError(f"{name!r} is not the name of an argument; a dot goes into an object, as in 'to.country'")
        _check_condition(name, condition)


def _check_condition(name: str, condition: Any, *, of_members: bool = False) -> None:
    if isinstance(condition, Mapping) and not condition:
        raise UserError(f"the condition on {name!r} is empty; to compare with an empty object write {{'eq': {{}}}}")
    for operator, operand in comparisons(condition):
        if operator not in OPERATORS:
            raise UserError(f"unknown comparison {operator!r} on {name!r}; use one of {', '.join(OPERATORS)}")
        if operator in OF_MEMBERS:
            if of_members:
                raise UserError(f"{operator!r} on {name!r} stands inside of another; members are compared one deep")
            _check_condition(name, operand, of_members=True)
        else:
            _check_operand(name, operator, operand)


def _check_operand(name: str, operator: str, operand: object) -> None:
    if operator == "one_of":
        if not isinstance(operand, list | tuple):
            raise UserError(f"'one_of' on {name!r} takes a list")
        operand = list(cast("list[Any] | tuple[Any, ...]", operand))
    try:
        canonical(operand)
    except BadJson as error:
        raise UserError(f"{operator!r} on {name!r} takes a JSON value: {error.reason}") from None
    if operator in ORDER and kind_of(operand) not in ("number", "text"):
        raise UserError(f"{operator!r} on {name!r} takes a number or a text")
    if operator == "matches":
        check_pattern(name, operand)
    if operator == "under" and (not isinstance(operand, str) or odd_path(operand) or normpath(operand) == "."):
        raise UserError(f"'under' on {name!r} takes a directory, such as '/srv/data' or 'src', and without '..' in it")
