"""Callables in, declarations out."""

from __future__ import annotations

import asyncio
import functools
import math
from collections.abc import Callable
from typing import Annotated, Any, Generic, Optional, TypeVar

import pytest

from keyturn.core.errors import UserError
from keyturn.tools.functions.signature import accepts_none, read_signature
from tests.table import each

T = TypeVar("T")


class Context(Generic[T]):
    pass


class ToolContext(Context[T]):
    pass


def names(func: Callable[..., Any]) -> list[str]:
    return [each.name for each in read_signature(func, (Context,)).parameters]


def plain(first: int, second: str = "x") -> None:
    """Does things."""


def test_a_function() -> None:
    signature = read_signature(plain)
    assert (signature.name, signature.docstring) == ("plain", "Does things.")
    assert [(each.name, each.annotation) for each in signature.parameters] == [("first", int), ("second", str)]
    assert not signature.takes_context
    assert not signature.is_async


def test_unannotated_parameters_may_be_anything() -> None:
    def f(x, *rest, **options):
        pass

    assert [each.annotation for each in read_signature(f).parameters] == [Any, Any, Any]


async def coroutine(first: int) -> None: ...


class Calls:
    """Class docs."""

    async def __call__(self, first: int) -> None:
        """Call docs."""

    def method(self, first: int) -> None:
        """Method docs."""

    @classmethod
    def of_class(cls, first: int) -> None: ...

    @staticmethod
    def static(first: int) -> None: ...


class Undocumented(Calls):
    """Own docs."""

    def __call__(self, first: int) -> None: ...


@functools.wraps(coroutine)
def wrapper(*args: Any, **kwargs: Any) -> None: ...


@each(
    ("func", "name", "doc", "is_async"),
    [
        (coroutine, "coroutine", None, True),
        (Calls(), "Calls", "Call docs.", True),
        (Undocumented(), "Undocumented", "Own docs.", False),
        (Calls().method, "method", "Method docs.", False),
        (Calls.of_class, "of_class", None, False),
        (Calls.static, "static", None, False),
        (functools.partial(coroutine), "coroutine", None, True),
        (functools.partial(Calls()), "Calls", "Call docs.", True),
        (wrapper, "coroutine", None, False),
    ],
)
def test_every_sort_of_callable(func: Callable[..., Any], name: str, doc: str | None, is_async: bool) -> None:
    signature = read_signature(func)
    assert (signature.name, signature.docstring, signature.is_async) == (name, doc, is_async)
    assert [(each.name, each.annotation) for each in signature.parameters] == [("first", int)]


def test_a_builtin_has_its_own_docstring() -> None:
    signature = read_signature(math.sqrt)
    assert signature.name == "sqrt"
    assert signature.docstring is not None
    assert "square root" in signature.docstring


def test_a_callable_without_a_readable_signature_is_refused() -> None:
    with pytest.raises(UserError, match=r"tool 'dict'.*wrap it in a function"):
        read_signature(dict)


# ------------------------------------------------------------------------------------------------------ partials


def transfer(account: str, amount: int, key: str, note: str = "") -> None: ...


def test_what_a_partial_fixes_is_hidden_and_reserved() -> None:
    fixed = functools.partial(functools.partial(transfer, "ACC-1"), key="k")
    signature = read_signature(fixed)
    assert [each.name for each in signature.parameters] == ["amount", "note"]
    assert "key" in signature.reserved


def test_a_partial_reserves_what_it_adds_to_options() -> None:
    def f(**options: int) -> None: ...

    assert read_signature(functools.partial(f, hidden=1)).reserved == {"hidden"}


# ------------------------------------------------------------------------------------------------------- context


def bare(ctx: Context, x: int) -> None: ...
def subscripted(ctx: Context[int], x: int) -> None: ...
def subclass(ctx: ToolContext[Any], x: int) -> None: ...
def annotated(ctx: Annotated[Context[int], "the context"], x: int) -> None: ...
def optional(ctx: Optional[Context[int]], x: int) -> None: ...  # noqa: UP045  # the old spelling is the case
def optional_bar(ctx: Context[int] | None, x: int) -> None: ...
def positional(ctx: Context[int], /, x: int) -> None: ...
def quoted(ctx: "Context[dict[str, int]]", x: int) -> None: ...  # noqa: UP037  # the quotes are the case


class Holder:
    def method(self, ctx: Context[int], x: int) -> None: ...


@each(
    "func",
    [bare, subscripted, subclass, annotated, optional, optional_bar, positional, quoted, Holder().method],
)
def test_the_first_parameter_may_be_the_context(func: Callable[..., Any]) -> None:
    signature = read_signature(func, (Context,))
    assert signature.takes_context
    assert [each.name for each in signature.parameters] == ["x"]


def test_the_context_is_the_context_only_of_the_types_given() -> None:
    assert not read_signature(bare).takes_context
    assert names(plain) == ["first", "second"]


def late(x: int, ctx: Context[int]) -> None: ...
def keyword(*, ctx: Context[int]) -> None: ...
def twice(one: Context[int], two: ToolContext[int]) -> None: ...
def starred(*ctx: Context[int]) -> None: ...


@pytest.mark.parametrize(("func", "name"), [(late, "ctx"), (keyword, "ctx"), (twice, "two"), (starred, "ctx")])
def test_a_context_anywhere_else_is_refused(func: Callable[..., Any], name: str) -> None:
    with pytest.raises(UserError, match=f"context '{name}' must be the first positional parameter"):
        read_signature(func, (Context,))


# --------------------------------------------------------------------------------------------------- annotations


def test_local_classes_work_as_annotations() -> None:
    class Local:
        pass

    def f(x: Local, y: list[Local]) -> None: ...

    class Inside:
        def method(self, x: Local) -> None: ...

    annotations = [each.annotation for each in read_signature(f).parameters]
    assert annotations == [Local, list[Local]]
    assert read_signature(Inside().method).parameters[0].annotation is Local


def test_a_name_that_is_not_there_is_refused_with_the_remedy() -> None:
    def f(x: Nowhere) -> None: ...  # noqa: F821  # missing on purpose

    with pytest.raises(UserError, match=r"tool 'f': the annotation name 'Nowhere' is not defined.*TYPE_CHECKING"):
        read_signature(f)


def test_an_annotation_that_is_no_type_is_refused() -> None:
    def f(x: "1 +") -> None: ...  # noqa: F722  # broken on purpose

    with pytest.raises(UserError, match="an annotation is not a type"):
        read_signature(f)


def test_the_return_type_does_not_matter() -> None:
    def f(x: int) -> Nowhere: ...  # noqa: F821  # missing on purpose

    assert read_signature(f).parameters[0].annotation is int


@each("annotation", [None, Any, object, int | None, Optional[int], Annotated[int | None, "x"]])  # noqa: UP045  # the old spelling is the case
def test_accepts_none(annotation: Any) -> None:
    assert accepts_none(annotation)


@pytest.mark.parametrize("annotation", [int, int | str, list[None], Annotated[int, None], asyncio.Event])
def test_does_not_accept_none(annotation: Any) -> None:
    assert not accepts_none(annotation)


class Yielding:
    def __call__(self, path: str) -> Any:
        yield path


async def yielding(path: str) -> Any:
    yield path


@pytest.mark.parametrize("func", [Yielding.__call__, Yielding(), yielding, functools.partial(yielding, "a")])
def test_a_generator_function_is_refused_since_no_call_of_it_would_run(func: Any) -> None:
    with pytest.raises(UserError, match="a generator function runs nothing"):
        read_signature(func)
