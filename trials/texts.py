"""`python -m trials.texts`: every function of texts, called with texts of many kinds at three sizes; the time may grow
with the length and not with its square.

The functions are found, not listed: those of the package whose arguments without a default are texts, or lists or
numbers that come with one. A text of a model, of a caller or of a file that takes a function the product of its length
holds up everybody else of the process. A pattern is held by its structure in the tests; this finds the loops.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import logging
import os
import pkgutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, chdir, contextmanager
from typing import Any, NamedTuple, NoReturn
from unittest.mock import patch

import keyturn

from .table import Tally

#: Rooms whose functions write a project, end a process or serve the tests.
ELSEWHERE = ("keyturn.adapters.migrating", "keyturn.cli.init", "keyturn.cli.migrate", "keyturn.testing")
SIZE = 8_000
LONGEST = 2.0  # seconds until a call is given up
NOTHING = 0.02  # seconds of the longest text below which growth does not matter
QUADRATIC = 7.0  # four times the length: 4 if linear, 16 if quadratic

#: What a text repeats: blanks, quotes, brackets, signs of formats and shells, characters of other scripts.
REPEATED = (
    " ", "\n", "\t", "\r\n", " \n", "a\n", '"', "'", "\\", '\\"', "`", "```\n", "{", "}", "<", "<a>", "(", "[",
    "a(b)", "[a](b)", "*a", "*_", "# ", "**/", "../", "a.", "-", "-a\n", "+a", "1", "a", "a1", "a b ", ",a",
    "{a,b}", "a;", "a|", "&a", "&lt;", "a=", "at@", ":", "x:y ", "$", "${a", "$(", "%41", "<<A\n", "\x1b[1m",
    "\0", "a\u0301", "\u05d0", "\u202e", "\uff21", "\u0430", "\U0001f468\u200d", "\udc80", '{"a":',
    "[[rules]]\n", '"""', "@@ -1 +1 @@\n", "@@\n-a\n+b\n", "QUJD",
)  # fmt: skip


def texts(length: int) -> Iterator[tuple[str, str]]:
    """Yield texts of about this length, each with its name."""
    for unit in REPEATED:
        yield f"{unit!r} repeated", unit * (length // len(unit))
    yield "numbered lines", "\n".join(f"line {number}" for number in range(length // 8))
    yield "numbered words", " ".join(f"w{number}" for number in range(length // 6))
    yield "a JSON list", "[" + "1," * (length // 2) + "1]"
    yield "nested JSON", "[" * (length // 2) + "]" * (length // 2)
    yield "a JSON object", "{" + ",".join(f'"k{number}":1' for number in range(length // 9)) + "}"
    yield "escaped JSON", '"' + "\\u0041" * (length // 6) + '"'
    yield "an open quote", '"' + "a " * (length // 2)
    yield "a word and blanks", "a" * (length // 2) + " " * (length // 2) + "!"
    yield "a patch", "*** Begin Patch\n*** Update File: a\n" + "@@\n-a\n+b\n" * (length // 9) + "*** End Patch"
    yield "a diff", "--- a\n+++ b\n" + "@@ -1 +1 @@\n-a\n+b\n" * (length // 18)
    yield "Markdown", "# a\n" + "- *a* `b` [c](d)\n" * (length // 17)


#: How an argument of each annotation is made of a text.
MADE: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("str", "str | None", "object", "str | bytes", "Any"), str),
    "bytes": lambda text: text.encode("utf-8", "surrogatepass"),
    **dict.fromkeys(("int", "int | None"), lambda _text: 10),
    "bool": lambda _text: False,
    "float": lambda _text: 1.0,
    **dict.fromkeys(
        ("list[str]", "Sequence[str]", "Iterable[str]", "Collection[str]", "tuple[str, ...]"),
        lambda text: text.split("\n"),
    ),
    **dict.fromkeys(("Mapping[str, Any]", "dict[str, Any]", "Mapping[str, str]"), lambda text: {"a": text}),
}
NO_TEXT = ("int", "int | None", "bool", "float")


class Reader(NamedTuple):
    """A function of texts, and the annotations of the arguments that it needs."""

    name: str
    function: Callable[..., Any]
    annotations: tuple[str, ...]

    def seconds(self, text: str) -> float:
        """Return the processor time that one call with a text takes, or LONGEST."""
        arguments = [MADE[annotation](text) for annotation in self.annotations]
        signal.setitimer(signal.ITIMER_REAL, LONGEST)
        begin = time.thread_time()
        try:
            _exhausted(self.function(*arguments))
        except _TooLongError:
            return LONGEST
        except (Exception, SystemExit):  # a text may be refused: how long that took is the question
            pass
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        return time.thread_time() - begin


class _TooLongError(BaseException):
    """A call was given up."""


def _exhausted(result: object) -> None:
    if inspect.isgenerator(result):
        for _ in result:
            pass


def readers(package: Any = keyturn) -> Iterator[Reader]:
    """Yield each function of a package that can be called with a text."""
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if module.name.endswith("__main__") or module.name.startswith(ELSEWHERE):
            continue
        try:
            found = importlib.import_module(module.name)
        except ImportError:  # an extra that is not installed
            continue
        for name, function in list(vars(found).items()):
            if inspect.isfunction(function) and function.__module__ == module.name:
                annotations = _needed(function)
                if annotations is not None:
                    yield Reader(f"{module.name}:{name}", function, annotations)


def _needed(function: Callable[..., Any]) -> tuple[str, ...] | None:
    """Return the annotations of the arguments without a default, or None where one is not a text."""
    needed = [each for each in inspect.signature(function).parameters.values() if each.default is each.empty]
    annotations = tuple(str(each.annotation) for each in needed if each.kind is not each.VAR_KEYWORD)
    plain = all(each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) for each in needed)
    if inspect.iscoroutinefunction(function) or not plain or not set(annotations) <= set(MADE):
        return None
    return None if set(annotations) <= set(NO_TEXT) else annotations


def grows(seconds: Callable[[int], float], size: int) -> bool:
    """Whether the time grows faster than the length; each time is the least of two, since others use the machine."""
    if (first := seconds(size)) < NOTHING / 16:
        return False
    once = min(first, seconds(size))
    much = min(seconds(4 * size), seconds(4 * size))
    return much >= LONGEST or (much > NOTHING and much > QUADRATIC * once)


def tried(reader: Reader, size: int, of_size: Mapping[int, list[tuple[str, str]]]) -> list[str]:
    """Return the names of the texts that take one function longer than their length does."""
    return [
        name
        for place, (name, _text) in enumerate(of_size[size])
        if grows(lambda length, place=place: reader.seconds(of_size[length][place][1]), size)
    ]


def main() -> int:
    """Try all of it, or the functions of one room."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--size", type=int, default=SIZE, help="length of the shortest texts")
    options.add_argument("--only", default="", help="functions whose name begins so: keyturn.presenting")
    given = options.parse_args()
    signal.signal(signal.SIGALRM, _given_up)
    with tempfile.TemporaryDirectory() as folder, chdir(folder), _unheard():
        chosen = [each for each in readers() if each.name.startswith(given.only)]
        with _alone():
            tally = _tally(chosen, given.size)
    print(tally.text())
    return 1 if tally.violations else 0


def _tally(chosen: Iterable[Reader], size: int) -> Tally:
    tally = Tally("texts")
    of_size = {length: list(texts(length)) for length in (size, 4 * size)}
    for reader in chosen:
        found = tried(reader, size, of_size)
        room = ".".join(reader.name.split(":")[0].split(".")[:2])
        violations = [f"{reader.name} takes more than its length of {name}" for name in found]
        tally.add(room, {}, violations, f"--only {reader.name} --size {size}")
    return tally


@contextmanager
def _alone() -> Generator[None]:
    """Let no function start a program, become one or end one."""

    def refused(*_arguments: object, **_options: object) -> NoReturn:
        raise OSError("no program is started here")

    with ExitStack() as patched:
        for name in ("fork", "forkpty", "posix_spawn", "execv", "execve", "kill", "killpg", "_exit"):
            patched.enter_context(patch.object(os, name, refused))
        patched.enter_context(patch.object(subprocess.Popen, "__init__", refused))
        yield


@contextmanager
def _unheard() -> Generator[None]:
    """Keep what the functions print from the table, however they print it; nothing is typed to them."""
    sys.stdout.flush()
    kept = [os.dup(number) for number in range(3)]
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    try:
        yield
    finally:
        sys.stdout.flush()
        for number, each in enumerate(kept):
            os.dup2(each, number)


def _given_up(_number: int, _frame: object) -> None:
    raise _TooLongError


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    sys.exit(main())
