"""No pattern of the source takes time that grows with the square of a text: by what it is made of, without a clock.

A repeat without an end that stands beside another one of the same characters, or in another one, gives
back what the next one takes, in every way. What is possessive or atomic gives nothing back.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import keyturn
from tests.sources import TOGETHER, nodes
from tests.table import each

pytestmark = [pytest.mark.together(TOGETHER), pytest.mark.timeout(400)]

PACKAGE = Path(keyturn.__file__).parent
#: What may be slow on a long text, and why it never gets one.
SHORT = {
    "keyturn.core.lookalikes:_BY_NAME": "it reads the names that Unicode gives to characters, of 88 letters at most"
}

_parser: Any = re._parser
_op: Any = re._constants
_compiler: Any = re._compiler

#: What stands for all characters: those of ASCII, and letters, digits and breaks of lines beyond it.
SAMPLE = frozenset(map(chr, range(128))) | set("éАа٠\u2028\u0301東")
#: As good as no end: a text made for a pattern fills it.
ENDLESS = 500
_REPEATS: tuple[Any, ...] = (_op.MAX_REPEAT, _op.MIN_REPEAT, _op.POSSESSIVE_REPEAT)
_FLAGS = re.IGNORECASE | re.DOTALL | re.MULTILINE | re.ASCII | re.VERBOSE | re.UNICODE


class Open(NamedTuple):
    """An endless repeat before a place: the characters of its own and of what stands since, and whether it gives back.

    What stands between two repeats parts them unless both take it.
    """

    taken: tuple[frozenset[str], ...]
    gives: bool
    which: object


def doubts(pattern: re.Pattern[Any]) -> list[str]:
    """Return why a pattern may be slow: "nested" and "beside another" repeats without an end; [] where none is."""
    text = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    flags = pattern.flags & _FLAGS
    found = set[str]()
    _run(list(_parser.parse(text, flags)), flags, [], found)
    return sorted(found)


def _run(nodes: list[Any], flags: int, before: list[Open], found: set[str]) -> list[Open]:
    """Walk a sequence with the endless repeats that may stand right before it; return those right before its end."""
    for op, about in nodes:
        if op in _REPEATS:
            before = _repeat(op, about, flags, before, found)
        elif op is _op.SUBPATTERN:
            _group, more, less, body = about
            before = _run(list(body), (flags | more) & ~less, before, found)
        elif op is _op.ATOMIC_GROUP:
            before = [each._replace(gives=False) for each in _run(list(about), flags, before, found)]
        elif op is _op.BRANCH:
            before = [each for body in about[1] for each in _run(list(body), flags, before, found)]
        elif op in (_op.ASSERT, _op.ASSERT_NOT):
            _run(list(about[1]), flags, [], found)
        elif op is not _op.AT:
            taken = _taken(op, about, flags)
            before = [each._replace(taken=(*each.taken, taken)) for each in before if each.taken[0] & taken]
    return before


def _repeat(op: Any, about: Any, flags: int, before: list[Open], found: set[str]) -> list[Open]:
    least, most, body = about
    after = _run(list(body), flags, before, found)
    if most < ENDLESS:
        return after if least else [*before, *after]
    taken = frozenset[str]().union(*_all_taken(list(body), flags))
    earlier = [each.which for each in before]
    if any(each.gives and each.which in earlier and all(part & taken for part in each.taken) for each in after):
        found.add("beside another")
    within = set[str]()
    _run(list(body), flags, _run(list(body), flags, [], set()), within)  # each time begins where the last one ended
    if op is not _op.POSSESSIVE_REPEAT and within:
        found.add("nested")
    mine = Open((taken,), op is not _op.POSSESSIVE_REPEAT, object())
    return [mine] if least else [*before, mine]


def _all_taken(nodes: list[Any], flags: int) -> Iterator[frozenset[str]]:
    for op, about in nodes:
        if op in _REPEATS:
            yield from _all_taken(list(about[2]), flags)
        elif op is _op.SUBPATTERN:
            yield from _all_taken(list(about[3]), flags | about[1])
        elif op is _op.ATOMIC_GROUP:
            yield from _all_taken(list(about), flags)
        elif op is _op.BRANCH:
            for body in about[1]:
                yield from _all_taken(list(body), flags)
        elif op not in (_op.AT, _op.ASSERT, _op.ASSERT_NOT):
            yield _taken(op, about, flags)


def _taken(op: Any, about: Any, flags: int) -> frozenset[str]:
    if op in (_op.GROUPREF, _op.GROUPREF_EXISTS):
        return SAMPLE
    state = _parser.State()
    state.flags, state.str = flags, ""
    one = _compiler.compile(_parser.SubPattern(state, [(op, about)]), flags)
    return frozenset(char for char in SAMPLE if one.fullmatch(char))


def patterns() -> Iterator[tuple[str, re.Pattern[Any]]]:
    """Each pattern that a module of ours keeps, and each that is written where it is used, by where that is."""
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(("keyturn", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
        calls = [node for node in nodes(path) if isinstance(node, ast.Call) and _of_re(node.func)]
        texts = set[object]()
        if any(_of_re(call.func) == "compile" for call in calls):
            kept = [(its, one) for its, value in vars(importlib.import_module(name)).items() for one in _within(value)]
            texts = {one.pattern for _, one in kept}
            yield from ((f"{name}:{its}", one) for its, one in kept)
        for call in calls:
            text = call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else None
            if isinstance(text, str | bytes) and text not in texts:
                yield f"{name}:{call.lineno}", re.compile(text)


def _of_re(called: ast.expr) -> str | None:
    if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) and called.value.id == "re":
        return called.attr
    return None


def _within(value: Any, depth: int = 3) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif depth and isinstance(value, dict | list | tuple | set | frozenset):
        for part in list(value.values() if isinstance(value, dict) else value):
            yield from _within(part, depth - 1)


def test_no_pattern_gives_back_what_the_next_repeat_takes() -> None:
    found = dict(patterns())
    assert len(found) > 150
    slow = {where: (doubts(one), one.pattern) for where, one in found.items() if doubts(one)}
    assert slow.keys() == SHORT.keys(), slow


@each(
    ("pattern", "why"),
    [("a+b*c", ""), (r"\w+\.\w+", ""), (r"\s*+\s*z", ""), ("(a+,)*", ""), (r"(?:a|\\.)*", ""), ("(?>a+)a+b", ""),
     (".*x[^x]*y", ""), ("a{0,9}a+", ""),
     (r"\s*\n?[ x]*z", "beside another"), ("a+a{0,999}b", "beside another"), ("a*(?:b|aa)*c", "beside another"),
     (".*x.*y", "beside another"), ("(?i)a+A+b", "beside another"), ("(?:a+|b)a*c", "beside another"),
     ("(a+b?)+", "nested"), ("(?:a+)+b", "nested"), (r"(?:x|\w+)*y", "nested")],
)  # fmt: skip
def test_what_is_slow_is_seen(pattern: str, why: str) -> None:
    assert ", ".join(doubts(re.compile(pattern))) == why


@each(
    ("module", "kept", "before", "letters"),
    [("proofs.ssh", "_LINE", r"(\S+)[ \t]+(\S+)(?:[ \t]+(.*))?", "a \t\n"),
     ("tools.commands.words", "_PLAIN", r"[A-Za-z0-9_@%+:,./-]+(?:[A-Za-z0-9_@%+=:,./-]*)", "a=- "),
     ("tools.functions.required", "_REPEAT", r"[*+?]|\{\d*,?\d*\}", "{1,}*"),
     ("tools.filesystem.globs", "_CHOICE", r"\{([^{}]*,[^{}]*)\}", "{,}a")],
)  # fmt: skip
def test_a_pattern_that_was_slow_means_what_it_meant(module: str, kept: str, before: str, letters: str) -> None:
    now, then = vars(importlib.import_module(f"keyturn.{module}"))[kept], re.compile(before)
    for text in map("".join, (some for length in range(7) for some in product(letters, repeat=length))):
        for how in ("search", "match", "fullmatch"):
            made, meant = getattr(now, how)(text), getattr(then, how)(text)
            assert (made and (made.span(), made.groups())) == (meant and (meant.span(), meant.groups())), text


@pytest.mark.filterwarnings("ignore:Possible nested set:FutureWarning")
def test_a_class_that_is_not_closed_is_read_once() -> None:
    """Each of its brackets was looked for the end of; patterns that compile have the tokens that they had."""
    now = vars(importlib.import_module("keyturn.core.predicates.pattern"))["_TOKEN"]
    then = re.compile(
        r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?[aims]+\)|\((?:\?(?:[aims]*:|[=!>]|<[=!]|P<\w+>))?(?!\?)|\(\?|[|)]"
        r"|(?:[*+?]|\{(?=[0-9,])[0-9]*,?[0-9]*\})[?+]?|.",
        re.DOTALL,
    )
    assert now.findall("[" * 9_000) == ["[" * 9_000]
    for text in map("".join, (some for length in range(6) for some in product("[]^\\{1,}", repeat=length))):
        try:
            re.compile(text)
        except re.error:
            continue
        assert now.findall(text) == then.findall(text), text
