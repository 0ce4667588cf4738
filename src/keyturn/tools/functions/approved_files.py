"""Function tools whose arguments name files: an approval binds the content of those files, not only their names.

The files are read when the call asks, and again before it runs, as `Tool.looks` has it; the function itself reads them
through `read_approved`. Which arguments name files is the tool's word, and so are the paths: no jail stands here.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any, ClassVar, cast

from ...core.errors import UserError
from ...core.items import own_copy
from ...core.preview import Preview, Text
from ...core.settable import Rules, then
from ...support.user_code import run_callback
from ..base import Prepared, redacts
from ..context import ToolContext
from ..filesystem.problems import FileChanged, FileProblem, FileTooLarge, shown
from ..filesystem.staging import ABSENT
from ..function_tool import FunctionTool
from .options import FILES, Files
from .path_arguments import plain_path, with_paths

MOST_BYTES = 256 << 20
SHOWN = 16 << 10  # bytes of a text up to which people are shown all of it
# Links are followed, as the function will; a pipe must not make us wait, and a device not become our terminal.
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_UNBOUND = "cannot be approved: "


def _check_files(tool: FunctionTool, files: Files) -> None:
    for name in () if callable(files) else files:
        if name not in tool.params_json_schema.get("properties", {}):
            raise UserError(f"tool {tool.name!r}: files names {name!r}, which is none of its parameters")
        if name in tool.secrets:
            raise UserError(f"tool {tool.name!r}: files names {name!r}, but a secret is never shown")


class FileBoundTool(FunctionTool):
    """Runs a function made a tool with `files=`; it asks again where one of its files changed since it was shown.

    >>> from keyturn import function_tool
    >>> @function_tool(needs_approval=True, files=("path",))
    ... def deploy(path: str) -> str:
    ...     "Run a script on the server."
    ...     return f"ran {path}"
    >>> deploy.looks
    True
    """

    looks: ClassVar[bool] = True
    files: Files
    _rules: ClassVar[Rules] = {"files": then(FILES, _check_files)}

    def __init__(self, *args: Any, files: Files, **options: Any) -> None:
        super().__init__(*args, **options)
        self.files = files

    def prepare(self, item: Mapping[str, Any]) -> Prepared:
        """Validate the arguments; those that name files are paths in their one spelling."""
        prepared = super().prepare(item)
        return prepared if callable(self.files) else with_paths(prepared, self._plain(prepared.params))

    def _plain(self, params: Mapping[str, Any]) -> dict[str, Any]:
        given = {name: params[name] for name in self.files if name in params} if not callable(self.files) else {}
        return {
            name: [plain_path(path) for path in cast("list[Any]", value)]
            if isinstance(value, list)
            else plain_path(value)
            for name, value in given.items()
            if value is not None
        }

    @redacts
    async def preview(self, params: dict[str, Any]) -> Preview:  # type: ignore[override]  # a tool that looks may be awaited
        """Show the arguments, and after them each file as it is now."""
        made = super().preview(params)
        basis: dict[str, str] = {}
        blocks: list[Text] = []
        for path in dict.fromkeys(self._paths(params)):
            seen, block = await asyncio.to_thread(_seen, path)
            basis.update(seen)
            blocks.append(block)
        return Preview((*made.blocks, *blocks), made.summary, {**made.basis, **basis})

    async def invoke(self, context: object, prepared: Prepared) -> Any:
        """Run the function, unless it names something that nobody can have approved."""
        basis = getattr(context, "basis", None)
        if basis is not None:
            for path in self._paths(prepared.params):
                seen = _approved(context, path)
                if seen is not None and seen.startswith(_UNBOUND):
                    raise FileProblem(f"{shown(path)} {seen}.")
        return await super().invoke(context, prepared)

    def _paths(self, params: object) -> Iterator[str]:
        if callable(self.files):
            yield from (os.fspath(path) for path in run_callback(self.files, own_copy(params)))
            return
        for name in self.files:
            given = cast("Mapping[str, Any]", params).get(name)
            several = cast("list[Any]", given) if isinstance(given, list) else [given]
            yield from (path for path in several if path is not None)


def read_approved(context: ToolContext[Any], path: str | os.PathLike[str]) -> bytes:
    """Read all bytes of a file, for a function with `files=`; raise `FileChanged` where they are not as approved.

    The file is opened once, so that nothing can come between the look and the use. Where nobody was asked it is
    just read.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     read_approved(ToolContext(None, tool_name="t", tool_call_id="c1", tool_arguments="{}"), file.name)
    b''
    """
    name = os.fspath(path)
    wanted = _approved(context, name)
    try:
        digest, data = _read(name, MOST_BYTES)
    except FileNotFoundError:
        raise FileProblem(f"There is no file {shown(name)}.") from None
    except (OSError, ValueError, FileProblem) as error:
        raise FileProblem(f"The file {shown(name)} could not be read: {_why(error)}.") from None
    if wanted is not None and wanted != digest:
        raise FileChanged(f"{shown(name)} is not as it was when it was approved, so nothing was done with it.")
    return data


def _approved(context: Any, name: str) -> str | None:
    """Return what was seen of a file when the call asked; None where nobody was asked."""
    basis: Mapping[str, str] | None = context.basis
    if basis is None or name in basis:
        return None if basis is None else basis[name]
    raise FileChanged(f"{shown(name)} was not shown to the approver: name it in the files= of the tool.")


def _seen(path: str) -> tuple[dict[str, str], Text]:
    """Read a file as it is now: what an approval is bound to, and what people are shown."""
    try:
        real = os.path.realpath(path)
        digest, data = _read(path, SHOWN)
    except FileNotFoundError:
        real = os.path.realpath(path)
        digest = ABSENT
        data = b""
    except (OSError, ValueError, FileProblem) as error:
        # It stays as it is and the call does not run: what nobody can look at, nobody can approve.
        return {path: _UNBOUND + _why(error)}, Text(f"It {_UNBOUND}{_why(error)}.", f"about the file {shown(path)}")
    # Where it leads is part of what was seen, so that a link to a copy of the file is another file.
    leads = real != os.path.abspath(path)
    name = f"{shown(path)}, which is {shown(real)}" if leads else shown(path)
    return ({path: digest, real: digest} if leads else {path: digest}), _shown(digest, data, name)


def _shown(digest: str, data: bytes, name: str) -> Text:
    """All of a short text; of everything else what there is to say, under a heading that no text of a file has."""
    try:
        text = data.decode() if b"\0" not in data and len(data) < SHOWN else ""
    except UnicodeDecodeError:
        text = ""
    if text:
        return Text(text.removesuffix("\n"), f"what is in the file {name}")
    return Text(f"It has the SHA-256 {digest}." if digest else "There is no such file.", f"about the file {name}")


def _read(path: str, keep: int) -> tuple[str, bytes]:
    """The digest of a plain file, and its first bytes."""
    handle = os.open(path, _FLAGS)
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise FileProblem("it is no plain file")
        whole = sha256()
        kept = bytearray()
        size = 0
        # The size may be wrong (a file that grows, one of /proc): what counts is what comes.
        while found.st_size <= MOST_BYTES and size <= MOST_BYTES and (piece := os.read(handle, 1 << 20)):
            whole.update(piece)
            kept += piece[: keep - len(kept)]
            size += len(piece)
        if max(size, found.st_size) > MOST_BYTES:
            raise FileTooLarge(f"it has more than {MOST_BYTES} bytes")
        return whole.hexdigest(), bytes(kept)
    finally:
        os.close(handle)


def _why(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"the system said {os.strerror(error.errno or 0)!r}"
    return str(error) if isinstance(error, FileProblem) else "its name cannot be one"
