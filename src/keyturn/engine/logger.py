"""The engine's logger: what is swallowed on purpose is said there, with what it cost.

An error that is not ours may quote arguments, and those are not for a log: of such a one only its class is named.
"""

from __future__ import annotations

import logging

from ..core.errors import KeyturnError

logger = logging.getLogger("keyturn.engine")


def error_words(error: BaseException) -> str:
    """Give what a log may hold of an error: all of one of ours, else its class.

    >>> error_words(ValueError("the card 4111 1111"))
    'ValueError'
    """
    return f"{type(error).__name__}: {error}" if isinstance(error, KeyturnError) else type(error).__name__
