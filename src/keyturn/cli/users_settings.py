"""The words of `keyturn users` about settings: change one, list them.

A setting is JSON under a name, of everybody or of one person; programs read their own, Keyturn those of `KNOWN`.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from ..core.errors import BadJson
from ..core.strict import parse
from ..directory.settings import KNOWN
from ..render.escape import escape
from .seats.base import PeopleSeat
from .with_journal import Told


async def list_settings(people: PeopleSeat, arguments: argparse.Namespace) -> Told:
    """List the settings of everybody, or of one person."""
    found = await people.settings(arguments.whose or "")
    rows = [f"{escape(name, keep='')}: {_text(value)}" for name, value in sorted(found.items())]
    return Told(rows or ["no settings"], dict(found))


async def change_setting(people: PeopleSeat, given: argparse.Namespace) -> Told:
    """Change a setting, or have it as it was."""
    whose: str = given.person or ""
    value = None if given.value == "" else read_value(given.value)
    await people.change("set", given.setting, value, person=whose)
    name = escape(given.setting, keep="")
    of = f" of {escape(whose, keep='')}" if whose else ""
    rows = [f"{name}{of}: {'reset' if value is None else _text(value)}"]
    if given.setting not in KNOWN:
        rows.append(f"Keyturn does not use it; the settings that Keyturn uses are {', '.join(KNOWN)}")
    return Told(rows, {"setting": given.setting, "value": value, "person": whose})


def read_value(text: str) -> Any:
    """Return what somebody typed: JSON, else the text itself.

    >>> read_value("true"), read_value("Berlin")
    (True, 'Berlin')
    """
    try:
        return parse(text)
    except BadJson:
        return text


def _text(value: object) -> str:
    return escape(json.dumps(value, ensure_ascii=False), keep="")
