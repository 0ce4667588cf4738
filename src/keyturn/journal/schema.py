"""Say what brings a store of an older schema to this one, and refuse what this Keyturn cannot read."""

from __future__ import annotations

from ..core.errors import StorageError
from . import statements as say
from .statements import SqlDialect


def missing(dialect: SqlDialect, version: int, store: str) -> list[str]:
    """Return the statements that a store of a version lacks, where 0 is an empty one; `store` names it in errors.

    >>> missing(say.SQLITE, say.SCHEMA + 1, "the database")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    keyturn.core.errors.StorageError: the database was written by a newer Keyturn (schema ...); upgrade to open it
    """
    if version > say.SCHEMA:
        raise StorageError(f"{store} was written by a newer Keyturn (schema {version}); upgrade to open it")
    if 0 < version < say.FIRST:
        raise StorageError(
            f"{store} was written by an older format (schema {version}), which this Keyturn does not read; "
            "finish its runs with the Keyturn that wrote it"
        )
    later = say.migrations(dialect)[max(version - say.FIRST + 1, 0) :]
    return [statement for statements in later for statement in statements]
