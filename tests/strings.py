"""Every text of the source that a user can see, with its place: `make strings`. No test is here.

A text is a literal of prose: what a page, the command line, a terminal, a notification or an error says. What a program
alone reads (SQL, patterns, names, formats) is none, and neither is a docstring. A value put in is written `{}`.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

from tests.sources import nodes

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "keyturn"

#: What shows a text, by the room or module that it stands in; the longest beginning that fits decides.
KINDS = {
    "server/web/": "pages",
    "server/": "server and API",
    "cli/": "command line",
    "inbox_screen/": "terminal inbox",
    "screens/": "terminal inbox",
    "chat/": "chat",
    "console/": "console",
    "channels/": "notifications",
    "presenting/": "requests",
    "render/": "requests",
    "": "errors and the rest",
}
#: Modules whose literals are data of programs: statements, rules of a wire, shared suites, scripted servers.
NO_TEXTS = re.compile(r"testing/|journal/(\w+_)?(sql|statements|schema|selecting)\w*\.py|.*/vendor/|wire/")
SQL = re.compile(r"^\s*(SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|PRAGMA|BEGIN|WITH|FROM|WHERE|AND|ON|SET|DROP)\b[^.]*")
WORDS = re.compile(r"[A-Za-z]{2,}[,;:]? [A-Za-z(`'\"{]")
MARKUP = re.compile(r"\{%.*?%\}|\{#.*?#\}", re.DOTALL)
VALUE = re.compile(r"\{\{.*?\}\}", re.DOTALL)
#: Attributes of a page's elements that a reader sees, or hears.
SHOWN = {"alt", "aria-label", "placeholder", "title", "data-confirm", "data-undo", "data-words", "content"}
SCRIPT_TEXT = re.compile(r"\"((?:[^\"\\\n]|\\.)*)\"|'((?:[^'\\\n]|\\.)*)'|`((?:[^`\\]|\\.)*)`")


class Text(NamedTuple):
    """A text that users see: by what, where, and as it is written."""

    kind: str
    place: str
    text: str


def texts() -> Iterator[Text]:
    """Every text of the source, by file and line."""
    for path in sorted(PACKAGE.rglob("*")):
        read = READERS.get(path.suffix)
        file = path.relative_to(PACKAGE).as_posix()
        if read and not NO_TEXTS.match(file):
            for line, text in read(path):
                yield Text(kind_of(file), f"{file}:{line}", " ".join(text.split()))


def kind_of(file: str) -> str:
    """What shows the texts of a file."""
    return KINDS[max((each for each in KINDS if file.startswith(each)), key=len)]


def _literals(path: Path) -> Iterator[tuple[int, str]]:
    """The literals of a module that are prose."""
    all_nodes = nodes(path)
    apart = {id(node.value) for node in all_nodes if isinstance(node, ast.Expr)}
    apart |= {id(part) for node in all_nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in all_nodes:
        if id(node) in apart or not isinstance(node, ast.Constant | ast.JoinedStr):
            continue
        text = _written(node)
        if WORDS.search(text) and not SQL.match(text):
            yield node.lineno, text


def _written(node: ast.expr) -> str:
    """A literal as it is written, with `{}` for each value put in."""
    if isinstance(node, ast.JoinedStr):
        return "".join(_written(part) for part in node.values)
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    return "{}"


class _Page(HTMLParser):
    """The texts of a template, with the line of each."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[int, str]] = []

    def handle_data(self, data: str) -> None:
        if re.search("[A-Za-z]{2}", data.replace("{}", "")):
            self.found.append((self.getpos()[0] + data[: len(data) - len(data.lstrip())].count("\n"), data))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in SHOWN and value and re.search("[A-Za-z]{2}", value.replace("{}", "")):
                self.found.append((self.getpos()[0], value))


def _elements(path: Path) -> Iterator[tuple[int, str]]:
    """The texts of a template, and the prose in what it puts in."""
    source = path.read_text(encoding="utf-8")
    page = _Page()
    page.feed(VALUE.sub(_blank("{}"), MARKUP.sub(_blank(""), source)))
    page.close()
    put_in = [
        (source.count("\n", 0, part.start()) + 1, literal)
        for part in re.finditer(r"\{[{%].*?[%}]\}", source, re.DOTALL)
        for literal in re.findall(r"\"([^\"\n]*)\"", part[0])
        if WORDS.search(literal)
    ]
    yield from sorted([*page.found, *put_in])


def _blank(mark: str) -> Callable[[re.Match[str]], str]:
    return lambda found: mark + "\n" * found[0].count("\n")


def _script(path: Path) -> Iterator[tuple[int, str]]:
    """The literals of a script that are prose."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        for found in SCRIPT_TEXT.finditer(re.sub(r"(^|\s)//.*", "", line)):
            text = found[1] or found[2] or found[3] or ""
            if WORDS.search(text):
                yield number, text


READERS = {".py": _literals, ".html": _elements, ".js": _script}


def main(arguments: list[str]) -> None:
    """Print the texts by what shows them; with arguments, of these kinds alone."""
    found = sorted(texts(), key=lambda each: each.kind)
    for kind in dict.fromkeys(each.kind for each in found):
        if not arguments or any(one in kind for one in arguments):
            print(f"\n# {kind}\n")
            print("\n".join(f"{each.place}  {each.text}" for each in found if each.kind == kind))


if __name__ == "__main__":
    main(sys.argv[1:])
