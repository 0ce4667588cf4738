"""Fleet engines: each file is one engine that carries wakes between processes; `base.py` is the seam.

base   an engine, a wake of a run, what came of it

The default engine is the journal's own, and lives in `engine/journal_engine.py`. A member is imported when it is first
named, so that its package is needed only by whoever uses it.
"""

from __future__ import annotations

import os
from importlib import import_module

from ..core.errors import UserError
from ..support.lazy import is_installed, lazy_names
from .base import Engine

_HOMES = {
    "DBOSEngine": "dbos",
    "Engine": "base",
    "EngineHealth": "base",
    "TemporalEngine": "temporal",
    "Wake": "base",
    "WakeOutcome": "base",
    "Moves": "base",
    "EnginePlace": "base",
}

#: Name, which is also the extra: "module:class". The class has a class method `named(journal, url)`: the journal's URL,
#: and the engine's own. Its package is what it needs beside ours.
ENGINES: dict[str, str] = {
    "dbos": "keyturn.fleet.dbos:DBOSEngine",
    "temporal": "keyturn.fleet.temporal:TemporalEngine",
}

_PACKAGES = {"dbos": "dbos", "temporal": "temporalio"}

__all__ = [*_HOMES]  # pyright: ignore[reportUnsupportedDunderAll]  # the table is the list; the stub spells it out

#: The engine that needs nothing: workers ask the journal.
JOURNAL = "journal"

__getattr__, __dir__ = lazy_names(globals(), _HOMES)


def asked_engine(name: str | None = None, url: str | None = None) -> tuple[str, str]:
    """Return the name and the URL of an engine, each as given or else as the environment has it.

    The URL of the environment is that of the environment's engine.

    >>> asked_engine("dbos", "postgresql://db/engine")
    ('dbos', 'postgresql://db/engine')
    """
    usual = os.environ.get("KEYTURN_ENGINE") or ""
    name = (usual or JOURNAL) if name is None else name
    kept = os.environ.get("KEYTURN_ENGINE_URL", "") if usual in ("", name) else ""
    return name, url or kept


def engine_named(name: str, journal: str, url: str = "") -> Engine | None:
    """Return the engine of a name, for the journal of a URL; None for the journal's own.

    >>> engine_named("journal", "sqlite:///keyturn.db") is None
    True
    >>> engine_named("celery", "postgresql://db/keyturn")
    Traceback (most recent call last):
    ...
    keyturn.core.errors.UserError: no engine is named 'celery'; the known ones are journal, dbos, temporal
    """
    if name == JOURNAL:
        return None
    if name not in ENGINES:
        raise UserError(f"no engine is named {name!r}; the known ones are {', '.join([JOURNAL, *ENGINES])}")
    if not journal.startswith(("postgresql://", "postgres://")):
        raise UserError(
            f"--engine {name} needs a journal that processes on several machines share, and this one is not in "
            "PostgreSQL: use a journal such as postgresql://host/database, or omit the engine"
        )
    if not is_installed(_PACKAGES[name]):
        raise UserError(f"--engine {name} needs more packages: pip install 'keyturn[{name}]'")
    module, _, member = ENGINES[name].partition(":")
    return getattr(import_module(module), member).named(journal, url)
