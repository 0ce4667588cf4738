"""The pages of the site, made of the pages of this repository: the same words, links that lead to pages of the site.

A link to what is no page (a source, the licence) becomes the words that it stands on.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[([^\]\n]+(?:\n[^\]\n]+)?)\]\(([^)\s]+)\)")
PICTURE = re.compile(r"<picture>.*?</picture>", re.DOTALL)
HERE_ONLY = re.compile(r"<!-- here only -->\n.*?<!-- /here only -->\n+", re.DOTALL)
DIAGRAM = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MOVE = re.compile(r"^\s*(\S+) --> (\S+?)(?:: (\w+))?$", re.MULTILINE)


def sources() -> dict[str, str]:
    """Return the page of the site for each page of the repository, by their paths."""
    found = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
    for path in sorted((ROOT / "docs").glob("*.md")):
        # A site takes a README for the front page of its folder, and the front page is the repository's.
        found[f"docs/{path.name}"] = "manual.md" if path.name == "README.md" else path.name
    for path in sorted((ROOT / "docs" / "decisions").glob("*.md")):
        found[f"docs/decisions/{path.name}"] = f"decisions/{path.name}"
    return found


def pages() -> dict[str, str]:
    """Return every page that is written by hand, as Markdown of the site, by its path there."""
    places = sources()
    known = places | {"docs/decisions": "decisions/index.md", "examples": "examples.md"}
    made = {to: page((ROOT / source).read_text(encoding="utf-8"), source, known) for source, to in places.items()}
    return made | {"decisions/index.md": _decisions(), "examples.md": _examples()}


def page(text: str, source: str, places: dict[str, str]) -> str:
    """Return a page as the site has it; `places` says where each page of the repository goes."""
    text = HERE_ONLY.sub("", text) if source == "README.md" else text
    text = DIAGRAM.sub(lambda found: moves(found[1]), text)
    text = PICTURE.sub(lambda found: _pictures(found[0], source), text)
    parts = FENCED.split(text)
    return "".join(part if part.startswith("```") else _linked(part, source, places) for part in parts)


def _linked(text: str, source: str, places: dict[str, str]) -> str:
    here = os.path.dirname(places[source])

    def link(found: re.Match[str]) -> str:
        words, target = found[1], found[2]
        if "://" in target or target.startswith("#"):
            return found[0]
        path, mark, anchor = target.partition("#")
        place = places.get(os.path.normpath(os.path.join(os.path.dirname(source), path)))
        return words if place is None else f"[{words}]({os.path.relpath(place, here or '.')}{mark}{anchor})"

    return LINK.sub(link, text)


def _pictures(text: str, source: str) -> str:
    """Return a picture in two colours as the theme wants it: it has a switch of its own."""
    alt = re.search(r'alt="([^"]*)"', text)
    files = re.findall(r'(?:src|srcset)="(?:docs/)?([^"]+)"', text)
    shown = {("dark" if "dark" in file else "light"): file for file in files}
    return "\n".join(f"![{alt[1] if alt else ''}]({file}#only-{kind})" for kind, file in sorted(shown.items()))


def moves(diagram: str) -> str:
    """Return a state diagram as a table, which can be searched and read without a script.

    >>> print(moves("stateDiagram-v2\\n [*] --> new\\n new --> new: look\\n new --> run: start\\n run --> [*]\\n"))
    | from | what happens there, and where it leads |
    |---|---|
    | (begin) | `new` |
    | `new` | look: `new`<br>start: `run` |
    | `run` | (end) |
    """
    rows: dict[str, list[str]] = {}
    for one, other, event in MOVE.findall(diagram):
        to = _state(other, "end")
        rows.setdefault(_state(one, "begin"), []).append(f"{event}: {to}" if event else to)
    lines = [f"| {one} | {'<br>'.join(there)} |" for one, there in rows.items()]
    return "\n".join(["| from | what happens there, and where it leads |", "|---|---|", *lines])


def _state(name: str, end: str) -> str:
    return f"({end})" if name == "[*]" else f"`{name}`"


def _title(path: Path) -> str:
    return path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")


def _decisions() -> str:
    rows = ["# Design decisions", "", "One page for each decision that was hard, with its reasons.", ""]
    for path in sorted((ROOT / "docs" / "decisions").glob("*.md")):
        rows.append(f"- [{_title(path)}]({path.name})")
    return "\n".join([*rows, ""])


def _examples() -> str:
    rows = ["# Examples", "", "Each example shows one idea and runs without an API key; the tests run them.", ""]
    for path in sorted((ROOT / "examples").glob("*.py")):
        rows += [f"## {path.stem.replace('_', ' ')} {{ #{path.stem} }}", "", f'```python title="examples/{path.name}"']
        rows += [path.read_text(encoding="utf-8").rstrip(), "```", ""]
    for path in sorted((ROOT / "examples").glob("*/README.md")):  # programs of several files
        told = re.sub(r"^#", "##", path.read_text(encoding="utf-8").rstrip(), flags=re.MULTILINE)
        title, _, rest = told.partition("\n")
        rows += [f"{title} {{ #{path.parent.name} }}", rest, ""]
    return "\n".join(rows)
