"""The tool `execute`: one command for the shell of a backend.

People are shown the command, what a shell reads in it and where it runs, as for every shell tool. What runs it is the
backend's executor; whether it runs is the gate's affair.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.digest import canonical
from ..core.preview import Preview
from ..tools.backends.backend import Backend
from ..tools.base import InvalidArguments, Prepared, ToolProblem
from ..tools.context import RunContextWrapper, ToolContext
from ..tools.function_tool import FunctionTool
from ..tools.functions.bound import BoundFunction, default_tool_error_function
from ..tools.functions.schema import function_schema
from ..tools.processes.bubblewrap import SandboxUnavailable
from ..tools.shell_calls import (
    ShellActionRequest,
    ShellCallData,
    ShellCommandRequest,
    ShellResult,
    about,
    asked,
    check_text,
    identity,
    is_plain,
)
from ..tools.shell_preview import command_preview

_LONGEST = 3600
_NO_SHELL = "The command was not run: the files of this agent are in a place that has no shell."


async def execute(context: ToolContext[Any], command: str, timeout: int = 120) -> str:
    """Run a shell command in the folder of the files, and return what it wrote and its exit code.

    Args:
        command: The command. It has a shell of its own and no input; nothing goes on running after it.
        timeout: How many seconds it may take.
    """
    raise NotImplementedError  # the tool runs the command itself


_SCHEMA = function_schema(execute, context_types=(RunContextWrapper,))


class ExecuteTool(FunctionTool):
    """Runs a command in the shell of a backend.

    >>> from keyturn.tools.backends.state import StateBackend
    >>> tool = ExecuteTool(StateBackend())
    >>> tool.prepare({"arguments": '{"command": "ls"}'}).params
    {'command': 'ls', 'timeout': 120}
    """

    backend: Backend

    def __init__(self, backend: Backend) -> None:
        bound = BoundFunction(execute, _SCHEMA, default_tool_error_function)
        super().__init__("execute", _SCHEMA.description, _SCHEMA.params_json_schema, bound)
        self.backend = backend

    @property
    def shell(self) -> Any:
        """Return what runs the commands: the shell of the backend, where it has one."""
        return self.backend.shell

    @property
    def blocking(self) -> bool:
        """Return whether a call works in a worker thread, as a plain executor does."""
        return self.shell is not None and is_plain(self.shell)

    def _identity(self) -> Mapping[str, str]:
        return {"root": self.backend.root, "executor": canonical(identity(self.shell)) if self.shell else ""}

    def prepare(self, item: Mapping[str, Any]) -> Prepared:
        """Parse the command; what no shell could run asks nobody."""
        prepared = super().prepare(item)
        params = prepared.params
        check_text(self.name, params["command"])
        if not params["command"].strip():
            raise InvalidArguments("The arguments of execute are invalid: the command is empty.")
        if not 1 <= params["timeout"] <= _LONGEST:
            raise InvalidArguments(f"The arguments of execute are invalid: timeout must be 1 to {_LONGEST} seconds.")
        return prepared

    async def invoke(self, context: Any, prepared: Prepared) -> Any:
        """Let the backend's executor run the command."""
        if self.shell is None:
            raise ToolProblem(_NO_SHELL)
        params = prepared.params
        action = ShellActionRequest([params["command"]], params["timeout"] * 1000, None)
        call = ShellCallData(context.tool_call_id, action, "in_progress", context.tool_call)
        return _told(await asked(self.shell, ShellCommandRequest(context, call)))

    async def failure(self, context: object, error: Exception) -> Any:
        """Return what the model is told of an error; without a sandbox raise, since no model can mend that."""
        if isinstance(error, SandboxUnavailable):
            raise error
        return await super().failure(context, error)

    def preview(self, params: dict[str, Any]) -> Preview:
        """Show the command, what a shell reads in it, and where it runs."""
        where = about(self.shell) if self.shell else {"runs": "nowhere: these files are in a place that has no shell"}
        return command_preview([params["command"]], {"timeout in seconds": params["timeout"]}, where)


def _told(result: str | ShellResult) -> str:
    if isinstance(result, str):
        return result
    parts: list[str] = []
    for ran in result.output:
        parts += [text for text in (ran.stdout, ran.stderr) if text]
        parts.append(
            "(no exit code: the time was up)" if ran.outcome.type == "timeout" else f"(exit code {ran.exit_code})"
        )
    return "\n".join(parts)
