"""Rewrite imports of Pydantic AI and pydantic-deep, and say where a program uses what is not there.

`from pydantic_ai... import NAME` becomes `from keyturn.deferred import NAME`, `pydantic_deep` becomes `keyturn.deep`. A
plain `import pydantic_ai` is left as it is and noted: what each dotted use of it means cannot be told from the text.
"""

from __future__ import annotations

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

from ...deferred.absent import ABSENT
from .differences import DifferenceNote, absent
from .imports import NEW, Imported, dotted, parsed

#: The packages, and the room of ours that each becomes.
ROOMS = {"pydantic_ai": "deferred", "pydantic_deep": "deep"}
PLAIN = "`import {0}` is left as it is: write `from {0} import ...`, and run this again"
FIT = "arguments in ToolApproved(override_args=...) that do not fit are refused, and the call is still pending"
SEALED = "a run continues only from messages that it sealed itself; what was changed is refused"

_KEYWORDS = {"override_args": FIT, "message_history": SEALED}


def touches(source: bytes) -> bool:
    """Return whether a program may import one of these packages."""
    return any(package.encode() in source for package in ROOMS)


def rewrite_deferred(source: bytes) -> tuple[bytes, list[DifferenceNote]]:
    """Return a program with its imports rewritten, and the notes on it by line.

    >>> rewrite_deferred(b"from pydantic_ai.tools import RunContext\\n")[0]
    b'from keyturn.deferred import RunContext\\n'
    """
    wrapper = MetadataWrapper(parsed(source))
    seen = _Imports()
    made = wrapper.visit(seen)
    parsed(made.bytes)
    if not (seen.imported or seen.notes):
        return source, []
    return made.bytes, sorted({*seen.notes, *absent(seen.imported)})


class _Imports(cst.CSTTransformer):
    """Renames modules in imports, and notes what a program uses of those packages."""

    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self) -> None:
        super().__init__()
        self.imported: list[Imported] = []
        self.notes: set[DifferenceNote] = set()

    def _note(self, node: cst.CSTNode, text: str) -> None:
        self.notes.add(DifferenceNote(self._line(node), text))

    def _line(self, node: cst.CSTNode) -> int:
        place = self.get_metadata(PositionProvider, node)
        assert isinstance(place, CodeRange)
        return place.start.line

    def leave_ImportFrom(  # noqa: N802 - the name is libcst's
        self, original_node: cst.ImportFrom, updated_node: cst.ImportFrom
    ) -> cst.ImportFrom:
        """Rename the module of a `from` import; what it imports by name is looked up below the new one."""
        package = dotted(original_node.module).partition(".")[0]
        room = ROOMS.get(package)
        if room is None or original_node.relative:
            return updated_node
        names = () if isinstance(original_node.names, cst.ImportStar) else original_node.names
        for alias in names:
            name = dotted(alias.name)
            self.imported.append(Imported(room, name, name, self._line(alias)))
        return updated_node.with_changes(module=cst.Attribute(cst.Name(NEW), cst.Name(room)))

    def visit_Import(self, node: cst.Import) -> bool:  # noqa: N802 - the name is libcst's
        """Note a plain import."""
        for alias in node.names:
            package = dotted(alias.name).partition(".")[0]
            if package in ROOMS:
                self._note(node, PLAIN.format(package))
        return False

    def visit_Call(self, node: cst.Call) -> None:  # noqa: N802 - the name is libcst's
        """Note options that there are not, where one of these packages is imported."""
        if not self.imported:
            return
        for name in [arg.keyword.value for arg in node.args if arg.keyword is not None]:
            if name in _KEYWORDS:
                self._note(node, _KEYWORDS[name])
            elif name in ABSENT:
                self._note(node, f"there is no option {name}: {ABSENT[name]}")

    def visit_Attribute(self, node: cst.Attribute) -> None:  # noqa: N802 - the name is libcst's
        """Note methods that there are not."""
        name = node.attr.value
        if self.imported and name in _METHODS:
            self._note(node, f"there is no {name}: {ABSENT[name]}")


_METHODS = {"iter", "override", "output_validator", "run_stream_sync", "to_a2a", "to_ag_ui", "to_cli", "to_cli_sync"}
