"""The engine's logger: each error that is ignored on purpose is logged with its consequence.

An error that is not ours may quote arguments, which do not belong in a log: only its class is named.
"""

from __future__ import annotations

import asyncio
import logging
import os
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from ..core.errors import KeyturnError
from ..support.credentials import credentials_of, without
from ..support.user_code import RaisedByUser, class_name, original, words_of

VARIABLE = "KEYTURN_DONT_LOG_TOOL_DATA"
#: The attribute of an error that holds its words without a call's secrets.
WORDS = "_keyturn_words"
#: The attribute of an error that holds its traceback without a call's secrets.
TRACE = "_keyturn_trace"
LONGEST = 2_000
_LONGEST_TRACE = 16_000
_OURS = str(Path(__file__).parents[1]) + os.sep
logger = logging.getLogger("keyturn.engine")


def error_words(error: BaseException) -> str:
    """Give what a log may hold of an error: all of one of ours, else its class.

    >>> error_words(ValueError("the card 4111 1111"))
    'ValueError'
    """
    return f"{type(error).__name__}: {error}" if _ours(error) else class_name(error)


def failure_words(error: BaseException) -> str:
    """Give what a run keeps of the error that stopped it: its class and its words, as far as they may be kept.

    Words of errors that are not ours go with `KEYTURN_DONT_LOG_TOOL_DATA=1`; those of a tool with secret arguments were
    cleaned when it raised.

    >>> failure_words(OSError("no route to host"))
    'OSError: no route to host'
    """
    cleaned = getattr(error, WORDS, None)
    return _writable(whole_words(error)[:LONGEST] if cleaned is None else cleaned)


def whole_words(error: BaseException) -> str:
    """Give the class of an error and its words, however long, without the credentials of a request that it quotes."""
    raised = original(error)
    name = type(raised).__name__
    said = words_of(raised) if _ours(error) or tool_data_allowed() else ""
    return f"{name}: {without(said, credentials_of(raised))}" if said else name


def quotes_credentials(error: BaseException) -> bool:
    """Return whether the traceback of an error, as Python prints it, quotes the credentials of a request."""
    return _printed(error) != traceback_of(error)


def keep_cleaned(error: BaseException, words: str, clean: Callable[[str], str]) -> None:
    """Let an error carry its words and its traceback without what is secret, for who records it and knows of none."""
    words = getattr(error, WORDS, words)
    trace = getattr(error, TRACE, None) or traceback_of(error)
    with suppress(Exception):  # put into the dict, since a class may refuse attributes
        error.__dict__[WORDS] = clean(words)[:LONGEST]
        error.__dict__[TRACE] = clean(trace)


def failure_trace(error: BaseException) -> str:
    """Give what a run keeps of where an error was raised: its traceback from the first code that is not ours.

    Of an error of ours nothing, unless another caused it: its words say what to do. The words of others go as in
    `failure_words`, the places stay.
    """
    cleaned = getattr(error, TRACE, None)
    if cleaned is not None:
        return _end_of(cleaned)
    if isinstance(error, asyncio.CancelledError) or (_ours(error) and error.__cause__ is None):
        return ""
    return _end_of(traceback_of(error))


def traceback_of(error: BaseException) -> str:
    """Give the traceback of an error; where tool data may not be kept, its places and its class without any words."""
    raised = original(error)
    if tool_data_allowed():
        return without(_printed(error), credentials_of(raised))
    places = "".join(traceback.format_tb(_outside(raised.__traceback__)))
    return f"Traceback (most recent call last):\n{places}{type(raised).__qualname__}"


def _printed(error: BaseException) -> str:
    raised = original(error)
    return "".join(traceback.format_exception(type(raised), raised, _outside(raised.__traceback__))).rstrip("\n")


def _end_of(text: str) -> str:
    return _writable(text if len(text) <= _LONGEST_TRACE else f"...{text[-_LONGEST_TRACE:]}")


def _writable(text: str) -> str:
    """Return a text with a mark for each half of a character, which no log can hold."""
    return text.encode("utf-8", "replace").decode()


def _outside(raised: TracebackType | None) -> TracebackType | None:
    """Return a traceback from where code begins that is not ours; all of it where that is nowhere."""
    found = raised
    while found is not None and found.tb_frame.f_code.co_filename.startswith(_OURS):
        found = found.tb_next
    return found or raised


def _ours(error: BaseException) -> bool:
    """Return whether the words of an error are ours, and so quote nothing."""
    return isinstance(error, KeyturnError) and not isinstance(error, RaisedByUser)


def tool_data_allowed() -> bool:
    """Return whether what tools were given and say may stand in a log."""
    return os.environ.get(VARIABLE, "").lower() not in ("1", "true", "yes", "on")
