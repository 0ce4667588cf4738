"""Read what a provider sent, or raise `ModelBehaviorError`: a parser's own error never escapes.

Shared by members that read a wire format themselves; no format is known here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar, cast

from ..core.errors import ModelBehaviorError
from ..core.items import Item
from .base import Usage

_T = TypeVar("_T")

_LONGEST = 200

NOTHING = "nothing of it was used"

_PAGE = re.compile(r"<(?:!doctype|html|head|title|body|h1)\b.*", re.IGNORECASE | re.DOTALL)

# What parsers and readers raise for an answer that is none.
PARSERS = (LookupError, TypeError, AttributeError, ValueError, RecursionError)


class ResponseFailed(ModelBehaviorError):
    """Raised for a response that the provider began and did not finish.

    `status` and `code` are the provider's words for it.

    >>> ResponseFailed("incomplete", "content_filter", "").code
    'content_filter'
    """

    def __init__(self, status: str, code: str, message: str) -> None:
        self.status, self.code = status, code
        super().__init__(f"the model's reply is {status} ({code}){message}; {NOTHING}")


def in_call(last: object) -> str:
    """Return words that name the call in which a reply was cut, by the last thing in it; "" where that is no call.

    >>> in_call({"type": "function_call", "name": "pay"}), in_call({"type": "message"})
    (" in its call of 'pay'", '')
    """
    name: object = cast("Mapping[str, object]", last).get("name") if isinstance(last, Mapping) else None
    return f" in its call of {name!r}" if isinstance(name, str) and name else ""


@contextmanager
def charged(usage: Usage) -> Generator[None]:
    """Attach usage to a `ModelBehaviorError` raised inside: a reply that is refused is paid for like any other.

    >>> try:
    ...     with charged(Usage(1, 10, total_tokens=10)):
    ...         raise ResponseFailed("incomplete", "max_tokens", "")
    ... except ModelBehaviorError as error:
    ...     error.usage.total_tokens
    10
    """
    try:
        yield
    except ModelBehaviorError as error:
        if usage.total_tokens:  # a provider that did not come to counting has not said that it was free
            error.usage = usage
        raise


def understood(read: Callable[[], _T], provider: str, event: object = None) -> _T:
    """Return what `read` makes of a provider's data, or raise `ModelBehaviorError` that says what was wrong.

    >>> understood(lambda: {}["content"], "Example")
    Traceback (most recent call last):
    ...
    keyturn.core.errors.ModelBehaviorError: Example sent a malformed reply (KeyError: 'content'); nothing of it was used
    """
    try:
        return read()
    except PARSERS as error:
        raise nonsense(error, provider, event) from None


def nonsense(error: Exception, provider: str, event: object = None) -> ModelBehaviorError:
    """Convert an error of a parser or a reader to a `ModelBehaviorError`."""
    place = f"{event}: " if isinstance(event, str) else ""
    words = _PAGE.sub("an HTML page", str(error), 1)  # of a proxy, which says nothing to who reads the error
    what = " ".join(f"{place}{type(error).__name__}: {words}".split())
    shown = what if len(what) <= _LONGEST else f"{what[:_LONGEST]}..."
    return ModelBehaviorError(f"{provider} sent a malformed reply ({shown}); {NOTHING}")


def plain_json(text: str) -> Any:
    """Parse a provider's JSON, in which NaN and Infinity are not allowed.

    >>> plain_json('{"a": [1]}')
    {'a': [1]}
    """
    return json.loads(text, parse_constant=_refuse)


def check_text(items: list[Item]) -> list[Item]:
    """Return the items, or raise `ValueError` for a text with a lone surrogate, which nobody could save."""
    json.dumps(items, ensure_ascii=False).encode()
    return items


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
