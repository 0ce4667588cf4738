"""Keep credentials out of what is recorded of a model's error: its provider, or a proxy, may quote the request."""

from __future__ import annotations

from types import TracebackType

from ...support.credentials import credentials_of, without
from ..logger import keep_cleaned, whole_words


class WithoutCredentials:
    """Lets an error of a model, raised as it is, carry words without the credentials that it was asked with.

    A class and no generator: where nothing is raised it costs two calls, and an error that takes no attributes passes.
    """

    __slots__ = ()

    def __enter__(self) -> None:
        return

    def __exit__(self, _kind: object, error: BaseException | None, _trace: TracebackType | None) -> None:
        if isinstance(error, Exception) and (secret := credentials_of(error)):
            keep_cleaned(error, whole_words(error), lambda text: without(text, secret))


without_credentials = WithoutCredentials()
