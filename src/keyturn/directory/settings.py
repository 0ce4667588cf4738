"""Name the settings of a directory that Keyturn itself reads, and say which values they take.

Programs keep settings of their own beside them: under any other name stands whatever they put there.
"""

from __future__ import annotations

from ..core.errors import UserError
from .on_call import SETTING as ON_CALL
from .on_call import schedules

#: Whether it is put on record who reads the arguments of calls: see `reads.py`.
RECORD_READS = "record_reads"

#: Whether people see all of their tenant at a server ("all"), or only what concerns them ("own").
VISIBLE = "visible"
OWN = "own"

#: The settings that Keyturn reads, and which kind of value each takes.
KNOWN: dict[str, type] = {RECORD_READS: bool}
_WORDS: dict[type, str] = {bool: "true or false"}
#: Settings that are one of a few words.
CHOICES: dict[str, tuple[str, ...]] = {VISIBLE: ("all", OWN)}


def check_setting(name: str, value: object, person: str) -> None:
    """Refuse a value that a setting of ours does not take; None is always good, for as it was.

    >>> check_setting("record_reads", True, "")
    >>> check_setting("record_reads", "yes", "")
    Traceback (most recent call last):
    ...
    keyturn.core.errors.UserError: the setting 'record_reads' is true or false, not 'yes'
    """
    if name == ON_CALL and not person:
        schedules(value)
        return
    words = CHOICES.get(name)
    if words is not None and value is not None and value not in words:
        raise UserError(f"the setting {name!r} is {' or '.join(map(repr, words))}, not {value!r}")
    kind = type(words[0]) if words is not None else KNOWN.get(name)
    if kind is None:
        return
    if person:
        raise UserError(f"the setting {name!r} applies to every user: leave out the person")
    if value is not None and not isinstance(value, kind):
        raise UserError(f"the setting {name!r} is {_WORDS[kind]}, not {value!r}")
