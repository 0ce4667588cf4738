"""Migrate the schema of a journal in PostgreSQL; a database that is current is only read."""

from __future__ import annotations

from ..core.errors import StorageError
from . import statements as say
from .generation import Origin, begin, settle_template
from .schema import missing
from .store_thread import StoreConnection

# Whoever makes or begins a store does so while nobody else does.
_ALONE = "SELECT pg_advisory_xact_lock(hashtext('keyturn.schema'))"


def settle_once(db: StoreConnection, origin: Origin) -> None:
    """Begin a database that was made of another as its template, while nobody else does."""
    db.execute(_ALONE)
    settle_template(db, origin)


def check_encoding(db: StoreConnection) -> None:
    """Refuse a database that cannot hold every text."""
    [(encoding,)] = db.execute("SHOW server_encoding")
    if encoding != "UTF8":
        raise StorageError(f"the database has the encoding {encoding}, and a journal needs UTF8: create another one")


def is_current(db: StoreConnection) -> bool:
    """Return whether the schema is this very version: such a database is only read to open it."""
    if not _is_made(db):
        return False
    return db.execute("SELECT max(version) FROM keyturn_schema") == [(say.SCHEMA,)]


def _is_made(db: StoreConnection) -> bool:
    """Return whether the schema was begun.

    That a name is free the server may remember from before it waited for a lock; to read a catalog makes it look again.
    """
    return bool(db.execute("SELECT oid FROM pg_class WHERE oid = to_regclass('keyturn_schema')"))


def migrate(db: StoreConnection) -> None:
    """Bring the schema to this version, while nobody else does."""
    db.execute(_ALONE)
    if not _is_made(db):
        # a role that may not create uses what an administrator made
        db.execute("CREATE TABLE keyturn_schema (version BIGINT NOT NULL)")
    [(found,)] = db.execute("SELECT max(version) FROM keyturn_schema")
    version = found or 0
    for statement in missing(say.POSTGRES, version, "the database"):
        db.execute(statement)
    if version < say.SCHEMA:
        db.execute("INSERT INTO keyturn_schema (version) VALUES (?)", say.SCHEMA)
    if version == 0:
        begin(db)
