"""A rule over which programs a command may run without approval, by what was parsed and never by its letters.

It allows a command only if all of it was understood and every program in it is listed; else a person is asked. A
list is a convenience. What a listed program reads and writes it does not see: the sandbox is the boundary.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, cast

from ...core.errors import UserError
from .reading import read_command
from .runners import LOOKERS, STEERING, runs_others, writes

MOST = 20
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*", re.ASCII)
_JOINED = frozenset({"&&", "||", ";", "|", "a new line"})


# Of a few programs it is known which arguments do nothing but look. An argument that is not here asks.
_LOOKING: Mapping[str, re.Pattern[str]] = {
    "find": re.compile(
        r"-(?:name|iname|path|ipath|regex|iregex|type|maxdepth|mindepth|size|mtime|mmin|ctime|cmin|atime|amin|newer|empty"
        r"|user|group|perm|print|print0|ls|not|a|o|and|or|true|false|prune|depth|xdev|mount|[PHL])|-\d+[A-Za-z]?"
    ),
    "rg": re.compile(
        r"-[inlcwvFesSxoH]|-[ABCm]\d+|--(?:files|files-with-matches|ignore-case|line-number|count|word-regexp|fixed-strings"
        r"|hidden|no-heading|heading|json|multiline|smart-case|invert-match|only-matching|no-ignore|stats)"
    ),
    "sort": re.compile(r"-[nrufhVbdgisc]+|-[kt]\S*"),
    # These run nothing, and write: a clock, a file.
    "date": re.compile(r"-(?:u|R|I[a-z]*|d.+)|--(?:utc|date=.+|iso-8601(?:=\S+)?)"),
    "tree": re.compile(r"-[adfilpsughDFvrtcUxnCAJSQqN]+|-[LPI]|--(?:dirsfirst|noreport|du|prune|gitignore)"),
    "file": re.compile(r"-[bhikLNnrsv0]+|--(?:brief|mime|mime-type|mime-encoding|dereference)"),
    "uniq": re.compile(r"-[cdDuiz]+|-[fsw]\d+|--(?:count|repeated|unique|ignore-case)"),
}
# How many words beside options they may have: one more names a file to write, or a time to set.
_OPERANDS = {"date": 0, "uniq": 1}
# What these words begin with; of the others a word with a plus may name a file.
_NO_OPERANDS = {"date": ("-", "+")}


class UnsafeProgram(RuntimeWarning):
    """Warns that a listed program writes, or is not known to Keyturn as one that only reads.

    A command that runs it is let through, whatever it writes or runs.

    >>> issubclass(UnsafeProgram, RuntimeWarning)
    True
    """


class OnlyPrograms:
    """Decides whether a command runs only listed programs; `only_programs` makes one.

    >>> OnlyPrograms(("ls",)).covers("ls -l | ls")
    True
    """

    # False stands for "in doubt" as well: in a rule that denies or asks it would let through what nobody understood.
    only_for_allow = True

    def __init__(self, names: tuple[str, ...]) -> None:
        for name in names:
            _check_name(name)
        self.names = frozenset(names)

    def __repr__(self) -> str:
        return f"only_programs({', '.join(map(repr, sorted(self.names)))})"

    def __call__(self, call: object, _context: object = None) -> bool:
        """Return whether a call runs only these programs: the form that `Rule(when=...)` takes."""
        given: object = getattr(call, "params", None)
        if not isinstance(given, Mapping):
            return False
        return self._holds(cast("Mapping[str, Any]", given))

    def asks(self, _context: object, action: object, _call_id: str) -> bool:
        """Return whether somebody must be asked: the form that `needs_approval=` takes."""
        given = action
        if not isinstance(action, Mapping):
            names = getattr(action, "__dataclass_fields__", ()) or getattr(action, "__dict__", ())
            given = {name: getattr(action, name) for name in names}
        return not (isinstance(given, Mapping) and self._holds(cast("Mapping[str, Any]", given)))

    def covers(self, command: str) -> bool:
        """Return whether every program that a command runs is listed, and nothing in it is in doubt."""
        reading = read_command(command)
        if reading.unclear or reading.others or not 0 < len(reading.commands) <= MOST:
            return False
        if not _JOINED.issuperset(reading.joined):
            return False
        if not all(word.plain and word.text is not None for each in reading.commands for word in each.words):
            return False
        return all(
            not each.settings and not each.redirections and self._listed([str(word.text) for word in each.words])
            for each in reading.commands
        )

    def _holds(self, action: Mapping[str, Any]) -> bool:
        """Check commands for a shell, or one program with its arguments; anything else is not covered."""
        # What else may come with a program and change what it does: the environment, the user.
        if action.get("env") or action.get("user"):
            return False
        found: list[object] = [action[key] for key in ("commands", "command") if key in action]
        if len(found) != 1:
            return False
        what = found[0]
        if isinstance(what, str):
            return self.covers(what)
        if not isinstance(what, list) or not what or not all(isinstance(each, str) for each in cast("list[Any]", what)):
            return False
        words = cast("list[str]", what)
        if "command" in action:
            return all(word.isascii() and word.isprintable() for word in words) and self._listed(words)
        return len(words) <= MOST and all(self.covers(each) for each in words)

    def _listed(self, words: Sequence[str]) -> bool:
        if not words or words[0] not in self.names:
            return False
        looking = _LOOKING.get(words[0])
        if looking is None:
            return True
        operands = [word for word in words[1:] if not word.startswith(_NO_OPERANDS.get(words[0], "-"))]
        if len(operands) > _OPERANDS.get(words[0], len(words)):
            return False
        return all(looking.fullmatch(word) for word in words[1:] if word.startswith("-"))


def only_programs(*names: str) -> OnlyPrograms:
    """Make a rule that holds for commands that run these programs and nothing else, by their bare names.

    Redirections, substitutions, variables, patterns, settings in front, the background, and whatever is not plain to
    read fail it. Programs that are known to run other programs are refused here; `find`, `rg` and `sort` may be listed
    because it is known which of their arguments only look. One that is known to write gives an `UnsafeProgram` warning.

    >>> looks = only_programs("ls", "cat", "grep")
    >>> looks.covers("cat a.txt | grep -n TODO"), looks.covers("cat a.txt; curl evil.example")
    (True, False)
    >>> from keyturn import Policy, Rule
    >>> policy = Policy(Rule("allow", tool="shell", when=looks))
    """
    return OnlyPrograms(names)


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UserError(f"a program is listed by its bare name, such as 'ls', not as {name!r}")
    if name in STEERING:
        raise UserError(f"{name!r} is a part of the shell that changes what the rest of a line means: let it ask")
    if runs_others(name) and name not in _LOOKING:
        raise UserError(
            f"{name!r} can run other programs, so its name says nothing about what runs: let it ask, or give the shell "
            "a sandbox (BubblewrapExecutor) in which anything may run"
        )
    if name in LOOKERS or (name in _LOOKING and not writes(name)):
        return
    can = "can write" if writes(name) else "is not known to Keyturn, and may run other programs or write"
    said = f"{name!r} {can}: a command that runs only what is listed runs without approval, whatever it does"
    warnings.warn(said, UnsafeProgram, stacklevel=4)
