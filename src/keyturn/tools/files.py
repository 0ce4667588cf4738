"""The filesystem tools ls, read_file, write_file, edit_file, glob and grep, all in one workspace.

What each one does is the workspace's; here is how a model calls it and what people see first. Those that change a file
ask by default and show the file before and after.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from functools import partial
from types import CodeType
from typing import Any, ClassVar, Literal

from ..core.errors import UserError
from ..core.preview import Preview, Text
from ..core.settable import Rules, fixed, own_of, refusal
from ..support.threads import in_thread
from .backends.backend import Backend
from .base import InvalidArguments, NeedsApproval, Prepared, Tool, ToolProblem
from .context import RunContextWrapper, ToolContext
from .filesystem.problems import PathRefused, shown
from .filesystem.search import Found, SearchQuery, printable
from .filesystem.staging import Change
from .filesystem.text_edit import edit_fault
from .filesystem.workspace import Workspace
from .function_tool import FunctionTool
from .functions.bound import BoundFunction, default_tool_error_function
from .functions.path_arguments import with_paths
from .patches.change_preview import basis_shown, preview_of
from .patches.workspace_editor import check_basis

Files = Workspace | Backend
_ASKING: dict[str, NeedsApproval] = {"write_file": True, "edit_file": True}
_SECONDS = 10.0
_MOST_NAMES = 1000
_MOST_FOUND = 200
_MOST_ENTRIES = 1000


def _other_files(tool: Any, name: str, given: object) -> Any:
    """Let a tool work on other files: with all that was made of those it had."""
    if not isinstance(given, Workspace | Backend):
        raise refusal(tool, name, "a Workspace or a Backend", given)
    own = own_of(tool)
    if name in own:
        remade = own_of(tool._make(given, False))
        own |= {each: remade[each] for each in _OF_FILES if each in remade}
    return given


#: What a tool has of its files, made anew with others.
_OF_FILES = ("on_invoke_tool", "_planned", "idempotent", "keeps_context")


class FileTool(FunctionTool):
    """Reads files; the base of the filesystem tools.

    >>> import tempfile
    >>> place = tempfile.TemporaryDirectory()
    >>> [tool.name for tool in filesystem_tools(place.name) if tool.read_only]
    ['ls', 'read_file', 'glob', 'grep']
    >>> place.cleanup()
    """

    files: Files
    _rules: ClassVar[Rules] = {
        "files": _other_files,
        "read_only": fixed("it is what the tool does to files"),
        "idempotent": fixed("it is where the files are"),
    }
    _make: Callable[[Files, NeedsApproval], FileTool]

    def __init__(self, files: Files, function: Callable[..., Any], needs_approval: NeedsApproval = False) -> None:
        schema = _schema_of(function)
        super().__init__(
            schema.name,
            schema.description,
            schema.params_json_schema,
            BoundFunction(function, schema, default_tool_error_function),
            needs_approval=needs_approval,
            read_only=not self.looks,
            # What a lost call did to files in memory is lost as well.
            idempotent=getattr(files, "in_memory", False),
        )
        self.keeps_context = self.looks and getattr(files, "goes_along", False)
        self.files = files

    @property
    def blocking(self) -> bool:
        """Return that a call works in a worker thread: its function awaits one."""
        return True

    def _identity(self) -> Mapping[str, str]:
        # The same path below another root is another file: an approval for one says nothing of the other.
        return {"root": self.files.root}

    def prepare(self, item: Mapping[str, Any]) -> Prepared:
        """Parse the arguments, with the path as it will be opened; one that is refused in any case asks nobody."""
        prepared = super().prepare(item)
        params = prepared.params
        try:
            self.refuse(params)
            directory = not (self.looks or self.name == "read_file")
            return with_paths(prepared, {"path": self.files.canonical(params["path"], directory=directory)})
        except ToolProblem as error:
            raise InvalidArguments(f"The arguments of {self.name} are invalid: {error}") from None

    def refuse(self, params: Mapping[str, Any]) -> None:
        """Refuse what can be refused without a look at the disk."""
        self.files.parts(params.get("path", "."), directory=self.name != "read_file")


_SCHEMAS: dict[CodeType, Any] = {}


def _schema_of(function: Callable[..., Any]) -> Any:
    """Return the schema of a tool's function, made once: the functions of all workspaces have the same code."""
    from .functions.schema import function_schema  # here for the same reason as in `function`

    code = function.__code__
    if code not in _SCHEMAS:
        _SCHEMAS[code] = function_schema(function, context_types=(RunContextWrapper,))
    return _SCHEMAS[code]


class ChangingTool(FileTool):
    """Changes a file, and shows the change beforehand.

    >>> issubclass(ChangingTool, Tool)
    True
    """

    looks: ClassVar[bool] = True

    def __init__(
        self,
        files: Files,
        function: Callable[..., Any],
        needs_approval: NeedsApproval,
        planned: Callable[[Mapping[str, Any]], Change],
    ) -> None:
        super().__init__(files, function, needs_approval)
        self._planned = planned

    def refuse(self, params: Mapping[str, Any]) -> None:
        """Refuse what can be refused without a look at the disk."""
        self.files.changeable(params["path"])
        why = edit_fault(params["old_string"], params["new_string"]) if "old_string" in params else None
        if why is not None:
            raise ToolProblem(why)

    def edit(self, params: object) -> Prepared:
        """Validate edited arguments; a path at which no file can be, as the files are, is refused to its editor."""
        prepared = super().edit(params)
        try:
            self.files.fits(prepared.params["path"])
        except PathRefused as error:
            raise InvalidArguments(f"The arguments of {self.name} are invalid: {error}") from None
        return prepared

    async def preview(self, params: dict[str, Any]) -> Preview:  # type: ignore[override]  # a tool that looks may be awaited
        """Show the file as it is and as it would be."""
        return await asyncio.to_thread(self._shown, params)

    def _shown(self, params: dict[str, Any]) -> Preview:
        try:
            change = self._planned(params)
            self.files.check(change)
            self.files.fits(change.path)
            return preview_of([change])
        except ToolProblem as error:
            plain = super().preview(params)
            note = Text(f"As the file is now it would change nothing: {error}", "this change does not fit")
            return Preview((note, *plain.blocks))


def filesystem_tools(
    root: str | os.PathLike[str] | Workspace | Backend, *, needs_approval: Mapping[str, NeedsApproval] | None = None
) -> list[Tool]:
    """Make the tools ls, read_file, write_file, edit_file, glob and grep for the files below `root`.

    The root may be a `Workspace` or a backend too. `needs_approval` says by name which of them ask; by default those
    that change files do.

    >>> import tempfile
    >>> place = tempfile.TemporaryDirectory()
    >>> tools = filesystem_tools(place.name, needs_approval={"edit_file": lambda context, params, call_id: True})
    >>> [tool.name for tool in tools if tool.needs_approval]
    ['write_file', 'edit_file']
    >>> place.cleanup()
    """
    files = root if isinstance(root, Workspace | Backend) else Workspace(root)
    makers = {"ls": _ls, "read_file": _read, "write_file": _write, "edit_file": _edit, "glob": _glob, "grep": _grep}
    unknown = sorted(set(needs_approval or {}) - set(makers))
    if unknown:
        raise UserError(f"there is no filesystem tool {unknown[0]!r}; there are {', '.join(makers)}")
    asking = {**_ASKING, **(needs_approval or {})}
    tools: list[Tool] = []
    for name, make in makers.items():
        tool = make(files, asking.get(name, False))
        own_of(tool)["_make"] = make
        tools.append(tool)
    return tools


def _ls(files: Files, needs_approval: NeedsApproval) -> FileTool:
    async def ls(path: str = ".") -> str:
        """List a directory: names with their sizes, directories with a slash at the end.

        Args:
            path: The directory, relative to the root of the workspace.
        """
        entries = await in_thread(partial(files.entries, path))
        lines = [f"{printable(one.name)}{_MARKS.get(one.kind, f' ({one.size} bytes)')}" for one in entries]
        more = len(lines) - _MOST_ENTRIES
        return "\n".join(lines[:_MOST_ENTRIES] + [f"(and {more} more)"] * (more > 0)) or "(the directory is empty)"

    return FileTool(files, ls, needs_approval)


_MARKS = {"directory": "/", "link": " (a link)", "other": " (no plain file)"}


def _read(files: Files, needs_approval: NeedsApproval) -> FileTool:
    async def read_file(path: str, offset: int = 0, limit: int = 2000) -> str:
        """Read a text file as numbered lines; the number and the tab after it are not part of the file.

        Args:
            path: The file, relative to the root of the workspace.
            offset: How many lines to leave out at the beginning.
            limit: How many lines to show.
        """
        return await in_thread(partial(files.lines, path, offset, limit))

    return FileTool(files, read_file, needs_approval)


def _write(files: Files, needs_approval: NeedsApproval) -> FileTool:
    def planned(params: Mapping[str, Any]) -> Change:
        path = "/".join(files.changeable(params["path"]))
        return Change(path, files.look(path), params["content"].encode())

    async def write_file(context: ToolContext[Any], path: str, content: str) -> str:
        """Write a whole text file, new or in place of what is there. Directories are made as needed.

        Args:
            path: The file, relative to the root of the workspace.
            content: All of its text.
        """
        change = await _changed(files, context, lambda: planned({"path": path, "content": content}))
        return f"{'Created' if change.before is None else 'Wrote'} {shown(change.path)}."

    return ChangingTool(files, write_file, needs_approval, planned)


def _edit(files: Files, needs_approval: NeedsApproval) -> FileTool:
    def planned(params: Mapping[str, Any]) -> Change:
        every = params.get("replace_all", False)
        return files.edited(params["path"], params["old_string"], params["new_string"], every)

    async def edit_file(
        context: ToolContext[Any], path: str, old_string: str, new_string: str, replace_all: bool = False
    ) -> str:
        """Replace a text in a file. It must be there exactly once, unless all of its places are meant.

        Args:
            path: The file, relative to the root of the workspace.
            old_string: The text to replace, exactly as it is in the file, without line numbers.
            new_string: The text to put in its place.
            replace_all: Whether to replace it everywhere in the file.
        """
        given = {"path": path, "old_string": old_string, "new_string": new_string, "replace_all": replace_all}
        change = await _changed(files, context, lambda: planned(given))
        return f"Edited {shown(change.path)}."

    return ChangingTool(files, edit_file, needs_approval, planned)


async def _changed(files: Files, context: ToolContext[Any], planned: Callable[[], Change]) -> Change:
    """Plan the change on the file as it is now and make it, if that is the file that people saw."""

    def change() -> Change:
        with files.alone():
            made = planned()
            check_basis([made], basis_shown(context))
            files.apply([made])
        return made

    return await in_thread(change)


def _glob(files: Files, needs_approval: NeedsApproval) -> FileTool:
    async def glob(pattern: str, path: str = ".") -> str:
        """Find files by name: * and ? stand within one name, ** for any number of directories, {a,b} for either.

        Args:
            pattern: The pattern, relative to path; "**/*.py" finds Python files at any depth.
            path: The directory to begin at, relative to the root of the workspace.
        """
        query = SearchQuery(None, glob=pattern, most=_MOST_NAMES, seconds=_SECONDS)
        return _told(await in_thread(partial(files.search, path, query)))

    return FileTool(files, glob, needs_approval)


def _grep(files: Files, needs_approval: NeedsApproval) -> FileTool:
    async def grep(
        pattern: str,
        path: str = ".",
        glob_pattern: str | None = None,
        output_mode: Literal["files_with_matches", "content", "count"] = "files_with_matches",
        ignore_hidden: bool = True,
    ) -> str:
        """Search the text of files. What .gitignore and .ignore files name is passed by, and so are binary files.

        Args:
            pattern: A Python regular expression, matched line by line. Plain text is the fastest.
            path: The directory or the file to search, relative to the root of the workspace.
            glob_pattern: Which files to search: "*.py", or "src/**/*.ts" relative to path.
            output_mode: Only the files' names, the matching lines with their numbers, or how many there are.
            ignore_hidden: Whether to pass by names that begin with a dot.
        """
        query = SearchQuery(
            pattern, glob=glob_pattern, mode=output_mode, hidden=not ignore_hidden, most=_MOST_FOUND, seconds=_SECONDS
        )
        return _told(await in_thread(partial(files.search, path, query)))

    return FileTool(files, grep, needs_approval)


def _told(found: Found) -> str:
    """Return the answer, and in its last line what it does not cover."""
    notes = [f"stopped early: {found.stopped}; narrow the search to see more"] if found.stopped else []
    passed = ", ".join(f"{count} {why}" for why, count in sorted(found.passed.items()))
    if passed:
        notes.append(f"passed by: {passed}")
    lines = found.lines or ["Nothing was found."]
    return "\n".join(lines + [f"({note})" for note in notes])
