"""The engine's logger: each error that is ignored on purpose is logged with its consequence.

An error that is not ours may quote arguments, which do not belong in a log: only its class is named.
"""

from __future__ import annotations

import logging
import os

from ..core.errors import KeyturnError

VARIABLE = "KEYTURN_DONT_LOG_TOOL_DATA"
#: The attribute of an error that holds its words without a call's secrets.
WORDS = "_keyturn_words"
_LONGEST = 2_000
logger = logging.getLogger("keyturn.engine")


def error_words(error: BaseException) -> str:
    """Give what a log may hold of an error: all of one of ours, else its class.

    >>> error_words(ValueError("the card 4111 1111"))
    'ValueError'
    """
    return f"{type(error).__name__}: {error}" if isinstance(error, KeyturnError) else type(error).__name__


def failure_words(error: BaseException) -> str:
    """Give what a run keeps of the error that stopped it: its class and its words, as far as they may be kept.

    Words of errors that are not ours go with `KEYTURN_DONT_LOG_TOOL_DATA=1`; those of a tool with secret arguments were
    cleaned when it raised.

    >>> failure_words(OSError("no route to host"))
    'OSError: no route to host'
    """
    cleaned = getattr(error, WORDS, None)
    if cleaned is not None:
        return cleaned
    name = type(error).__name__
    allowed = isinstance(error, KeyturnError) or tool_data_allowed()
    said = _said(error)[:_LONGEST] if allowed else ""
    return f"{name}: {said}" if said else name


def _said(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # an error of anybody's may fail to say what it is
        return ""


def tool_data_allowed() -> bool:
    """Return whether what tools were given and say may stand in a log."""
    return os.environ.get(VARIABLE, "").lower() not in ("1", "true", "yes", "on")
