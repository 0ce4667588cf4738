"""The reference: every public name, made from the code. A name's words are its docstring; none are written here.

A page holds the names of some rooms; the first row of PAGES whose prefix fits a name's home has it.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

LINE = 88


class Page(NamedTuple):
    """Says what a page of the reference is called, and the homes of the names that it holds."""

    file: str
    title: str
    about: str
    homes: tuple[str, ...]


PAGES = (
    Page("running", "Running", "How a run is started, what it comes to, and what it streams.",
         ("engine.runner", "engine.result", "engine.stream", "agents.settings", "agents.limits", "core.usage")),
    Page("items", "Items and stream events", "What a run holds, and what a stream tells of it.",
         ("engine.views", "core.items")),
    Page("approvals", "Approvals and policies", "Approval terms, approvers, requests and policies.",
         ("core.approval", "core.policy", "core.people", "core.request", "core.preview", "policies.", "inbox.",
          "engine.states", "tools.functions.approved_files")),
    Page("agents", "Agents", "What an agent is declared with.", ("agents.",)),
    Page("tools", "Tools", "What an agent can do.", ("tools.",)),
    Page("deferred", "Deferred tools", "Calls that are answered after the run has returned.", ("deferred.",)),
    Page("external", "External callers", "Calls of programs that are not written with Keyturn.", ("asks.",)),
    Page("mcp", "MCP servers", "Servers whose tools an agent can use.", ("mcp.",)),
    Page("models", "Models", "Models and their settings.", ("models.",)),
    Page("sessions", "Sessions", "Conversation history between runs.", ("sessions.",)),
    Page("apps", "Apps and journals", "Durable runs, workers and stores.", ("application.", "journal.")),
    Page("tracing", "Tracing and logging", "Spans, processors and loggers.", ("tracing.",)),
    Page("errors", "Errors", "What is raised, and when.", ("core.errors",)),
    Page("console", "Console", "Decisions in the terminal.", ("console.",)),
)  # fmt: skip
TESTING = Page("testing", "Testing", "Helpers for tests, imported from `keyturn.testing`.", ())


def homes(package: str = "keyturn") -> dict[str, str]:
    """Return the module of each public name."""
    table: dict[str, str] = vars(importlib.import_module(package))["_HOMES"]
    return {name: home for name, home in table.items() if name != "__version__"}


def names_of(page: Page) -> list[str]:
    """Return the names that a page holds, in the order of the alphabet."""
    if page is TESTING:
        return sorted(homes("keyturn.testing"), key=str.lower)
    return sorted((name for name, home in homes().items() if page_of(home) is page), key=str.lower)


def page_of(home: str) -> Page:
    """Return the page for what lives in a module."""
    for page in PAGES:
        if any(home == place or home.startswith(place if place.endswith(".") else f"{place}.") for place in page.homes):
            return page
    raise LookupError(f"no page of the reference holds keyturn.{home}: add it to PAGES in docs/site/reference.py")


def pages() -> dict[str, str]:
    """Return the reference as Markdown, by file name."""
    made = {f"{page.file}.md": _page(page) for page in (*PAGES, TESTING)}
    return {"index.md": _index(), **made, "commands.md": _commands()}


def _index() -> str:
    about = "Every public name, made from the code. `from keyturn import NAME`; helpers for tests: `keyturn.testing`."
    rows = ["# Reference", "", about, ""]
    for page in (*PAGES, TESTING):
        links = " · ".join(f"[{name}]({page.file}.md#{name})" for name in names_of(page))
        rows += [f"## [{page.title}]({page.file}.md)", "", page.about, "", links, ""]
    return "\n".join([*rows, "## [Commands](commands.md)", "", "What can be typed.", ""])


def _page(page: Page) -> str:
    package = "keyturn.testing" if page is TESTING else "keyturn"
    rows = [f"# {page.title}", "", page.about, ""]
    for name in names_of(page):
        home = homes(package)[name]
        thing = getattr(importlib.import_module(f"keyturn.{home}"), name)
        rows += [f"## {name} {{ #{name} }}", "", *_entry(name, thing, home)]
    return "\n".join(rows)


def _entry(name: str, thing: Any, home: str) -> Iterator[str]:
    if inspect.isclass(thing):
        bases = [base.__name__ for base in thing.__bases__ if base.__module__.startswith("keyturn.")]
        yield from _code(_signature(name, thing), f"class {'(' + ', '.join(bases) + ')' if bases else ''}".strip())
        yield from _words(inspect.getdoc(thing) if thing.__doc__ else "")
        yield from _members(name, thing)
    elif inspect.isroutine(thing):
        before = "async " if inspect.iscoroutinefunction(thing) else ""
        yield from _code(before + _signature(name, thing), "function")
        yield from _words(inspect.getdoc(thing))
    else:
        yield from _code(_assignment(home, name), "type" if name != "retry_policies" else "object")
        yield from _words(inspect.getdoc(type(thing)) if type(thing).__module__.startswith("keyturn.") else "")


def _code(text: str, kind: str) -> Iterator[str]:
    yield from ("```python", text, "```", "", f"*{kind}*{{ .kind }}", "")


def _members(name: str, thing: type) -> Iterator[str]:
    for member, value in sorted(_public(thing).items()):
        inner = inspect.unwrap(getattr(value, "__func__", value))
        if isinstance(value, property):
            yield from (f"### {member} {{ #{name}.{member} }}", "", "*property*{ .kind }", "")
            yield from _words(inspect.getdoc(value))
        elif inspect.isfunction(inner):
            before = "async " if inspect.iscoroutinefunction(inner) else ""
            kind = "class method" if isinstance(value, classmethod) else "method"
            kind = "static method" if isinstance(value, staticmethod) else kind
            yield from (f"### {member} {{ #{name}.{member} }}", "")
            yield from _code(before + _signature(f"{name}.{member}", inner), kind)
            yield from _words(inspect.getdoc(getattr(thing, member, inner)))


def _public(thing: type) -> dict[str, Any]:
    """Return the public methods and properties of a class that says something of them, and of those it is made of."""
    found: dict[str, Any] = {}
    for part in reversed(thing.__mro__):
        if part.__module__.startswith("keyturn."):
            found |= {name: value for name, value in vars(part).items() if not name.startswith(("_", "test_"))}
    return found


def _signature(name: str, thing: Any) -> str:
    try:
        told = inspect.signature(thing)
    except (TypeError, ValueError):
        return name
    given = [one for one in told.parameters.values() if one.name not in ("self", "cls")]
    parts: list[str] = []
    for before, one in zip([None, *given], given, strict=False):
        if before is not None and before.kind is one.POSITIONAL_ONLY and one.kind is not one.POSITIONAL_ONLY:
            parts.append("/")
        if one.kind is one.KEYWORD_ONLY and (before is None or before.kind < one.VAR_POSITIONAL):
            parts.append("*")
        parts.append(_parameter(one))
    answers = not inspect.isclass(thing) and told.return_annotation is not told.empty
    back = f" -> {_type(told.return_annotation)}" if answers else ""
    line = f"{name}({', '.join(parts)}){back}"
    if len(line) <= LINE:
        return line
    return "\n".join([f"{name}(", *(f"    {part}," for part in parts), f"){back}"])


def _parameter(one: inspect.Parameter) -> str:
    stars = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
    text = stars + one.name + ("" if one.annotation is one.empty else f": {_type(one.annotation)}")
    if one.default is one.empty:
        return text
    shown = repr(one.default)
    if shown.startswith("<") or " object at 0x" in shown or shown in ("...", "Ellipsis"):
        shown = "..."
    shown = re.sub(r"keyturn(?:\.\w+)*\.(\w+)", r"\1", shown)
    return f"{text}{'=' if one.annotation is one.empty else ' = '}{shown}"


def _type(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = text[1:-1] if re.fullmatch(r"'[^']*'", text) else text
    return re.sub(r"\b(?:[a-z_]\w*\.)+([A-Z]\w*)", r"\1", text)


@cache
def _module(home: str) -> tuple[str, ast.Module]:
    module = importlib.import_module(f"keyturn.{home}")
    text = Path(module.__file__ or "").read_text(encoding="utf-8")
    return text, ast.parse(text)


def _assignment(home: str, name: str) -> str:
    """Return how a name is made, as its module says it."""
    text, tree = _module(home)
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return ast.get_source_segment(text, node) or name
    return name


def _words(text: str | None) -> Iterator[str]:
    """Turn a docstring into Markdown: its examples and indented parts are code, `Args:` is a list."""
    for part in re.split(r"\n\s*\n", inspect.cleandoc(text or "")):
        lines = part.split("\n")
        if not part.strip():
            continue
        if part.startswith(">>>"):
            yield from ("```pycon", part, "```", "")
        elif re.fullmatch(r"(Args|Returns|Raises):", lines[0]):
            inner = re.sub(r"\n\s{2,}", " ", textwrap.dedent("\n".join(lines[1:])))
            yield from (f"**{lines[0]}**", "", re.sub(r"(?m)^(\w+): ", r"- `\1`: ", inner), "")
        else:
            prose, _, example = part.partition("\n>>>")
            yield from (prose, "")
            if example:
                yield from ("```pycon", f">>>{example}", "```", "")


def _commands() -> str:
    """Return what each command takes, as it says itself."""
    main = importlib.import_module("keyturn.cli.main")
    rows = ["# Commands", "", "What `keyturn COMMAND --help` says.", ""]
    for name, what in sorted(main.COMMANDS.items()):
        parser = argparse.ArgumentParser(
            prog=f"keyturn {name}",
            description=what,
            formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=28, width=LINE),
        )
        main.command_named(name).describe(parser)
        rows += [f"## keyturn {name} {{ #{name} }}", "", "```text", parser.format_help().rstrip(), "```", ""]
    return "\n".join(rows)
