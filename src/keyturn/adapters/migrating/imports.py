"""Rewrite the imports of one program: `agents` becomes `keyturn`, and nothing else of the text changes.

Names are changed in the syntax tree, where a name is known to be the import: not in strings, not in comments, not where
a variable is called the same. If it is not certain what every use of `agents` means, the import keeps that name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import libcst as cst
from libcst.metadata import (
    ClassScope,
    CodeRange,
    ImportAssignment,
    MetadataWrapper,
    PositionProvider,
    Scope,
    ScopeProvider,
)

OLD, NEW = "agents", "keyturn"


class Imported(NamedTuple):
    """Says that a program imports a module, or a name of it, and under which name it has that."""

    path: str
    name: str | None
    known_as: str
    line: int


class Rewritten(NamedTuple):
    """Holds a program with other imports: what it was, what it is, and what it imports of that SDK."""

    module: cst.Module
    text: bytes
    imported: list[Imported]


class Unreadable(Exception):
    """Raised for a file that is no Python that can be read and written back as it is; the text says why."""


def rewrite(source: bytes, *, exports: bool = False) -> Rewritten:
    """Return a program with its imports rewritten; `exports` says that others import names from it."""
    module = parsed(source)
    if OLD.encode() not in source:
        return Rewritten(module, source, [])
    wrapper = MetadataWrapper(module)
    seen = _Imports()
    wrapper.visit(seen)
    if not seen.imported:
        return Rewritten(module, source, [])
    aliased = exports or not seen.certain()
    made = wrapper.module.visit(_Rename(seen, aliased=aliased))
    text = made.bytes
    parsed(text)
    return Rewritten(wrapper.module, text, seen.imported)


def parsed(source: bytes) -> cst.Module:
    """Parse a program, or raise `Unreadable`."""
    try:
        module = cst.parse_module(source)
        compile(source, "program", "exec", dont_inherit=True)
    except cst.ParserSyntaxError as error:
        raise Unreadable(f"it does not parse: line {error.raw_line}") from None
    except SyntaxError as error:
        raise Unreadable(f"it does not parse: line {error.lineno}: {error.msg}") from None
    except (ValueError, LookupError, RecursionError, MemoryError) as error:
        raise Unreadable(f"it cannot be read: {type(error).__name__}") from None
    if module.bytes != source:
        raise Unreadable("it cannot be written back byte for byte")
    return module


def dotted(node: cst.BaseExpression | None) -> str:
    """Return a dotted name as text, "" for anything else.

    >>> dotted(cst.parse_expression("agents.memory"))
    'agents.memory'
    """
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute):
        above = dotted(node.value)
        return f"{above}.{node.attr.value}" if above else ""
    return ""


def _first(node: cst.CSTNode | None) -> cst.Name | None:
    """Return the leftmost name of a dotted one."""
    while isinstance(node, cst.Attribute):
        node = node.value
    return node if isinstance(node, cst.Name) else None


def is_ours(path: str) -> bool:
    """Return whether a dotted path is of that SDK."""
    return path == OLD or path.startswith(f"{OLD}.")


class _Imports(cst.CSTVisitor):
    """Finds the imports of that SDK, and the uses of the name `agents` that mean it."""

    METADATA_DEPENDENCIES = (ScopeProvider, PositionProvider)

    def __init__(self) -> None:
        super().__init__()
        self.imported: list[Imported] = []
        self.names: set[cst.Name] = set()  # to be renamed in any case: the module of a statement
        self.uses: set[cst.Name] = set()  # to be renamed where all of them are known
        self.plain: set[cst.ImportAlias] = set()  # binds `agents` itself
        self.doubtful = False

    def certain(self) -> bool:
        """Return whether each use of the name that the imports bind is known."""
        return not self.doubtful

    def visit_ImportFrom(self, node: cst.ImportFrom) -> None:  # noqa: N802 - the name is libcst's
        """Take note of `from agents... import ...`; a relative import is of the program's own."""
        path = dotted(node.module)
        if node.relative or not is_ours(path):
            return
        first = _first(node.module)
        assert first is not None
        self.names.add(first)
        below = path[len(OLD) + 1 :]
        if isinstance(node.names, cst.ImportStar):
            self.imported.append(Imported(below, None, "*", self._line(node)))
            return
        for alias in node.names:
            name = dotted(alias.name)
            self.imported.append(Imported(below, name, _bound(alias) or name, self._line(alias)))

    def visit_Import(self, node: cst.Import) -> None:  # noqa: N802 - the name is libcst's
        """Take note of `import agents`, `import agents.memory as memory` and the like."""
        for alias in node.names:
            path = dotted(alias.name)
            if not is_ours(path):
                continue
            bound = _bound(alias)
            self.imported.append(Imported(path[len(OLD) + 1 :], None, bound or OLD, self._line(alias)))
            first = _first(alias.name)
            assert first is not None
            if bound is not None:
                self.names.add(first)
            else:
                self.plain.add(alias)
                self._uses(node)

    def _uses(self, node: cst.Import) -> None:
        """Take note of what refers to the name that a plain import binds."""
        scope = self.get_metadata(ScopeProvider, node, None)
        if not isinstance(scope, Scope) or isinstance(scope, ClassScope) or NEW in _names(scope):
            self.doubtful = True
            return
        # A dotted import binds `agents`, and libcst keeps what refers to a path of it under that path.
        for assignment in [each for each in scope.assignments if is_ours(each.name)]:
            if not isinstance(assignment, ImportAssignment) or not self._is_plain(assignment.node):
                self.doubtful = True
                return
            for access in assignment.references:
                first = _first(access.node)
                known = first is not None and self.get_metadata(PositionProvider, first, None) is not None
                if first is None or not known or NEW in _names(access.scope):
                    self.doubtful = True
                    return
                self.uses.add(first)

    def visit_SimpleString(self, node: cst.SimpleString) -> None:  # noqa: N802 - the name is libcst's
        """See to names in strings that code reads: annotations and `__all__`."""
        text = node.raw_value
        if text == OLD or text.startswith(f"{OLD}.") or f"[{OLD}." in text:
            self.doubtful = True

    def visit_Global(self, node: cst.Global) -> None:  # noqa: N802 - the name is libcst's
        """See to a name that other scopes bind."""
        self.doubtful = self.doubtful or any(item.name.value == OLD for item in node.names)

    def visit_MatchAs(self, node: cst.MatchAs) -> None:  # noqa: N802 - the name is libcst's
        """See to a name that a pattern binds."""
        self.doubtful = self.doubtful or (node.name is not None and node.name.value == OLD)

    def visit_Del(self, node: cst.Del) -> None:  # noqa: N802 - the name is libcst's
        """See to a name that is deleted."""
        self.doubtful = self.doubtful or dotted(node.target) == OLD

    def _is_plain(self, node: cst.CSTNode) -> bool:
        return isinstance(node, cst.Import) and all(
            is_ours(dotted(alias.name)) or _bound(alias) not in (None, OLD) or not dotted(alias.name).startswith(OLD)
            for alias in node.names
        )

    def _line(self, node: cst.CSTNode) -> int:
        place = self.get_metadata(PositionProvider, node)
        assert isinstance(place, CodeRange)
        return place.start.line


def _bound(alias: cst.ImportAlias) -> str | None:
    return dotted(alias.asname.name) if alias.asname is not None and isinstance(alias.asname.name, cst.Name) else None


def _names(scope: Scope) -> set[str]:
    """Return what a scope and those around it bind."""
    found: set[str] = set()
    while True:
        found |= {assignment.name for assignment in scope.assignments}
        if scope.parent is scope:
            return found
        scope = scope.parent


class _Rename(cst.CSTTransformer):
    """Changes the names that were found; with `aliased` the name `agents` stays what the program calls it."""

    def __init__(self, seen: _Imports, *, aliased: bool) -> None:
        super().__init__()
        self._seen = seen
        self._aliased = aliased
        self._renamed: set[cst.Name] = seen.names if aliased else seen.names | seen.uses

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:  # noqa: N802 - libcst's name
        """Rename a name that means the SDK."""
        return updated_node.with_changes(value=NEW) if original_node in self._renamed else updated_node

    def leave_Import(self, original_node: cst.Import, updated_node: cst.Import) -> cst.Import:  # noqa: N802 - libcst's
        """Rename what a plain import names."""
        if not self._seen.plain.intersection(original_node.names):
            return updated_node
        pairs = zip(original_node.names, updated_node.names, strict=True)
        made = [each for old, new in pairs for each in self._aliases(old, new)]
        return updated_node.with_changes(names=_separated(made))

    def _aliases(self, old: cst.ImportAlias, new: cst.ImportAlias) -> Iterable[cst.ImportAlias]:
        if old not in self._seen.plain:
            return [new]
        renamed = new.with_changes(name=_renamed(new.name))
        if not self._aliased:
            return [renamed]
        kept = cst.ImportAlias(cst.Name(NEW), cst.AsName(cst.Name(OLD)))
        return [kept] if dotted(new.name) == OLD else [kept, renamed]


def _renamed(name: cst.Name | cst.Attribute) -> cst.Name | cst.Attribute:
    first = _first(name)
    assert first is not None
    made = name.deep_replace(first, cst.Name(NEW)) if name is not first else cst.Name(NEW)
    assert isinstance(made, cst.Name | cst.Attribute)
    return made


def _separated(aliases: Sequence[cst.ImportAlias]) -> list[cst.ImportAlias]:
    """Put commas between aliases, and keep those that are there."""
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    last = len(aliases) - 1
    return [
        alias.with_changes(comma=cst.MaybeSentinel.DEFAULT)
        if at == last
        else alias
        if isinstance(alias.comma, cst.Comma)
        else alias.with_changes(comma=comma)
        for at, alias in enumerate(aliases)
    ]
