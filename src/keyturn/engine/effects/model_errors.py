"""Keep credentials out of what is recorded of a model's error: its provider, or a proxy, may quote the request."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from ...support.credentials import credentials_of, without
from ..logger import keep_cleaned, whole_words


@contextmanager
def without_credentials() -> Generator[None]:
    """Let an error of a model, raised as it is, carry words without the credentials that it was asked with."""
    try:
        yield
    except Exception as error:
        secret = credentials_of(error)
        if secret:
            keep_cleaned(error, whole_words(error), lambda text: without(text, secret))
        raise
