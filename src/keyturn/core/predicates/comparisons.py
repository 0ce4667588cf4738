"""The comparisons of a predicate, in three values, for a value as it stands and as a tool may read it.

Each answers yes or no, or raises `CannotTell`. A no is sure: no reader of the value takes it for what is meant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from enum import Enum
from math import isfinite
from typing import Any, NoReturn, cast

from .members import MISSING, member
from .order import order_of
from .paths import is_under, may_be_anything
from .pattern import MOST_STEPS, matches, steps
from .reading import CannotTell, alike, all_readings, has_digit, may_be_under, odd_path

Comparison = Callable[[Any, Any], "Truth"]
ORDER = ("lt", "le", "gt", "ge")
_TYPES: dict[type[object], str] = {
    type(None): "null",
    bool: "truth",
    int: "number",
    float: "number",
    str: "text",
    list: "list",
    dict: "object",
}
#: Stands for the value of a secret where a caller's own comparison looks at a call: nobody can tell anything of it.
HIDDEN: Any = object()
_NAMES = {
    "null": "null",
    "truth": "true or false",
    "number": "a number",
    "text": "a text",
    "list": "a list",
    "object": "an object",
}


class Truth(Enum):
    """Says whether a predicate holds, in three values; ask whether it is `sure` or `possible`.

    >>> Truth.UNKNOWN.sure, Truth.UNKNOWN.possible
    (False, True)
    """

    YES = "yes"
    NO = "no"
    UNKNOWN = "cannot tell"

    @property
    def sure(self) -> bool:
        """Return whether it counts for a grant, and for a rule that allows."""
        return self is Truth.YES

    @property
    def possible(self) -> bool:
        """Return whether it counts for a rule that asks, denies or limits, for which unknown is no no."""
        return self is not Truth.NO

    def __bool__(self) -> NoReturn:
        raise TypeError("one of three values is neither true nor false: ask whether it is sure or possible")


def _truth(answer: bool) -> Truth:
    return Truth.YES if answer else Truth.NO


def _not(truth: Truth) -> Truth:
    return truth if truth is Truth.UNKNOWN else _truth(truth is Truth.NO)


def every(truths: Iterator[Truth]) -> Truth:
    """Combine comparisons: a sure no decides; else one unknown makes all unknown."""
    worst = Truth.YES
    for truth in truths:
        if truth is Truth.NO:
            return truth
        worst = worst if truth is Truth.YES else truth
    return worst


def kind_of(value: Any) -> str:
    """Return the JSON type of a value, in a word."""
    kind = _TYPES.get(cast("type[object]", type(value)))
    if value is HIDDEN:
        raise CannotTell("it is secret")
    if kind is None or (type(value) is float and not isfinite(value)):
        raise CannotTell("it is not JSON")
    return kind


def _same(value: Any, wanted: Any) -> Truth:
    kind = kind_of(value)
    other = kind_of(wanted)
    if kind != other:
        return _same_of_two_types(value, wanted, {kind, other})
    if kind == "text":
        return _truth(value == wanted) if value == wanted or not alike(value, wanted) else Truth.UNKNOWN
    if kind == "list":
        if len(value) != len(wanted):
            return Truth.NO
        return every(_same(mine, its) for mine, its in zip(value, wanted, strict=True))
    return _same_object(value, wanted) if kind == "object" else _truth(value == wanted)


def _same_object(value: Mapping[str, Any], wanted: Mapping[str, Any]) -> Truth:
    if value.keys() == wanted.keys():
        exact = every(_same(value[name], wanted[name]) for name in wanted)
        if exact is Truth.YES:
            return exact
    # What is missing may be filled in, and what is too much may be ignored.
    shared = every(_same_member(value, name, wanted[name]) for name in wanted)
    return shared if shared is Truth.NO or value.keys() == wanted.keys() else Truth.UNKNOWN


def _same_member(value: Mapping[str, Any], name: str, wanted: object) -> Truth:
    try:
        found = member(value, [name])
        return Truth.UNKNOWN if found is MISSING else _same(found, wanted)
    except CannotTell:
        return Truth.UNKNOWN


def _same_of_two_types(value: Any, wanted: Any, kinds: set[str]) -> Truth:
    if "null" in kinds:
        return Truth.NO
    if kinds == {"text", "number"}:
        return Truth.UNKNOWN if has_digit(value if isinstance(value, str) else wanted) else Truth.NO
    return Truth.UNKNOWN


def _equal(value: object, wanted: object) -> Truth:
    truth = _same(value, wanted)
    if truth is Truth.UNKNOWN:
        raise CannotTell(_why_alike(value, wanted))
    return truth


def _why_alike(value: object, wanted: object) -> str:
    kind = kind_of(value)
    return "some tools read it as the same" if kind == kind_of(wanted) else f"it is {_NAMES[kind]}"


def _differs(value: object, other: object) -> Truth:
    """Compare a value with another of its type; null alone differs from every type, so {"ne": None} means "given"."""
    kind = kind_of(value)
    if other is not None and kind != kind_of(other):
        raise CannotTell(f"it is {_NAMES[kind]}")
    return _not(_equal(value, other))


def _one_of(value: object, choices: object) -> Truth:
    if not isinstance(choices, list | tuple):
        raise CannotTell("the rule lists nothing")
    doubt: CannotTell | None = None
    for choice in cast("list[Any]", choices):
        try:
            if _equal(value, choice) is Truth.YES:
                return Truth.YES
        except CannotTell as error:
            doubt = error
    if doubt is not None:
        raise doubt
    return Truth.NO


def _ordered(compare: Callable[[Any, Any], bool]) -> Comparison:
    def check(value: Any, bound: Any) -> Truth:
        kind = kind_of(value)
        if kind not in ("number", "text") or kind != kind_of(bound):
            raise CannotTell(f"it is {_NAMES[kind]}")
        if kind == "number":
            return _truth(compare(value, bound))
        if value != bound and not _in_one_order(value, bound):
            raise CannotTell("not all tools read the text in the same way")
        return _truth(compare(value, bound))

    return check


def _in_one_order(value: str, bound: str) -> bool:
    """Return whether all readers order two texts alike: by characters, as numbers, and ignoring case."""
    shape = order_of(value)
    if not shape or shape != order_of(bound):
        return False
    by_text = (value < bound, value > bound)
    if shape == "number":
        return by_text == (Decimal(value) < Decimal(bound), Decimal(value) > Decimal(bound))
    return shape != "word" or by_text == (value.lower() < bound.lower(), value.lower() > bound.lower())


def _is_text(value: object) -> bool:
    """Return whether a value is text; unknown for a number or list, which a tool may read as one."""
    kind = kind_of(value)
    if kind not in ("text", "null"):
        raise CannotTell(f"it is {_NAMES[kind]}")
    return kind == "text"


def _matches(value: Any, pattern: Any) -> Truth:
    return _truth(matches(pattern, value)) if _is_text(value) else Truth.NO


def _under(value: Any, root: Any) -> Truth:
    if not _is_text(value):
        return Truth.NO
    if odd_path(value):
        raise CannotTell("not all tools read the path in the same way")
    texts = all_readings(value).texts
    is_absolute = root.startswith("/")
    if any(each.startswith("/") is not is_absolute for each in texts):
        raise CannotTell("one path is absolute and the other is not")
    # A yes holds for every reading, and a no for every one too.
    if all(is_under(each, root) for each in texts) and not any(map(may_be_anything, texts)):
        return Truth.YES
    if any(is_under(each, root) for each in texts) or may_be_under(value, root):
        raise CannotTell("not all tools read the path in the same way")
    return Truth.NO


def comparisons(condition: Any) -> Iterable[tuple[str, Any]]:
    """Return the operators of a condition with their operands; a plain value must be equal.

    >>> list(comparisons({"gt": 0})), list(comparisons(5))
    ([('gt', 0)], [('eq', 5)])
    """
    if isinstance(condition, Mapping):
        return cast("Mapping[str, Any]", condition).items() or (("where", None),)
    return (("eq", condition),)


def _members(value: object, condition: object) -> Iterator[Truth]:
    """Compare each member of a list by itself; of what is no list nobody knows which members a tool reads."""
    kind = kind_of(value)
    if kind != "list":
        raise CannotTell(f"it is {_NAMES[kind]}")
    given = cast("list[Any]", value)
    texts = [each for each in given if isinstance(each, str)]
    patterns = [str(operand) for operator, operand in comparisons(condition) if operator == "matches"]
    if len(given) > MOST_MEMBERS or sum(steps(each, len(text)) for each in patterns for text in texts) > MOST_STEPS:
        raise CannotTell("it is too long a list")
    return (_member(each, condition) for each in given)


def _member(value: object, condition: object) -> Truth:
    return every(_told(value, operator, operand) for operator, operand in comparisons(condition))


def _told(value: object, operator: str, operand: object) -> Truth:
    try:
        return OPERATORS[operator](value, operand)
    except CannotTell:
        return Truth.UNKNOWN


def _decided(truth: Truth) -> Truth:
    if truth is Truth.UNKNOWN:
        raise CannotTell("one member cannot be evaluated")
    return truth


def _any(value: object, condition: object) -> Truth:
    if value is None:  # no reader takes it for a list with a member
        return Truth.NO
    return _decided(_not(every(map(_not, _members(value, condition)))))


def _all(value: object, condition: object) -> Truth:
    truths = list(_members(value, condition))
    if not truths:  # a tool may fill in what it does by default
        raise CannotTell("it is an empty list")
    return _decided(every(iter(truths)))


#: How many members of a list are compared, each by itself.
MOST_MEMBERS = 1_000
OPERATORS: dict[str, Comparison] = {
    "eq": _equal,
    "ne": _differs,
    "lt": _ordered(lambda value, bound: value < bound),
    "le": _ordered(lambda value, bound: value <= bound),
    "gt": _ordered(lambda value, bound: value > bound),
    "ge": _ordered(lambda value, bound: value >= bound),
    "one_of": _one_of,
    "matches": _matches,
    "under": _under,
    "any": _any,
    "all": _all,
}
#: Those that look at the members of a list, one by one; the others compare a value as a whole.
OF_MEMBERS = ("any", "all")
