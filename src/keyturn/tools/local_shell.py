"""The older shell tool of OpenAI's models: one program with its arguments, and no shell that reads them.

As with `shell.py`, what runs it is an executor, and somebody is asked unless the user says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, cast

from ..core.digest import canonical
from ..core.items import Item
from ..core.preview import Preview
from ..core.settable import TEXT, Rules, must
from .base import InvalidArguments, NeedsApproval, Prepared, Tool
from .context import ToolContext
from .functions.options import IsEnabled
from .functions.path_arguments import plain_path
from .processes.bubblewrap import SandboxUnavailable
from .shell_calls import (
    LocalShellActionRequest,
    LocalShellCallData,
    LocalShellCommandRequest,
    LocalShellExecutor,
    about,
    asked,
    check_text,
    identity,
    is_plain,
)
from .shell_preview import program_preview
from .shell_results import bounded, output_parts

_AROUND = ("env", "timeout_ms", "user", "working_directory")
_NO_SUCH = "it takes a command (a list of texts), env, timeout_ms, user and working_directory, and nothing else"


class LocalShellTool(Tool):
    """Runs one program at a time, by `executor`; every call asks unless `needs_approval` says otherwise.

    An executor is any function `(LocalShellCommandRequest) -> str | ShellResult`, sync or async; `BubblewrapExecutor`
    and `LocalExecutor` are such too. Only models that make calls of this kind can use it.

    >>> tool = LocalShellTool(lambda request: f"would run {request.data.action.command}")
    >>> tool.needs_approval, tool.preview({"command": ["ls", "-l"]}).blocks[0].command
    (True, 'ls -l')
    """

    kind: ClassVar[str] = "local_shell"
    call_type: ClassVar[str] = "local_shell_call"
    call_field: ClassVar[str | None] = None
    name = "local_shell"
    description = "Runs one program with its arguments on the user's machine."
    executor: LocalShellExecutor
    _rules: ClassVar[Rules] = {
        "executor": must(callable, "a function of a LocalShellCommandRequest, sync or async"),
        "description": TEXT,
    }

    def __init__(
        self,
        executor: LocalShellExecutor,
        *,
        needs_approval: NeedsApproval = True,
        on_approval: Callable[[Any, Any], Any] | None = None,
        is_enabled: IsEnabled = True,
        risk: str | None = None,
    ) -> None:
        self.executor = executor
        self.needs_approval = needs_approval
        self.on_approval = on_approval
        self.is_enabled, self.risk = is_enabled, risk

    @property
    def blocking(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]  # it is what runs the program
        """Return whether a call works in a worker thread, as a plain executor does."""
        return is_plain(self.executor)

    @property
    def about(self) -> dict[str, Any]:
        """Return where and how the program runs, as far as the executor says it."""
        return about(self.executor)

    def provider_tool(self) -> Item:
        """Return the tool's definition for the Responses API."""
        return {"type": "local_shell"}

    def spec(self) -> dict[str, Any]:
        """Return what it is, and where programs run: an approval is for this place and no other."""
        return {
            "kind": self.kind,
            "name": self.name,
            "description": self.description,
            "executor": identity(self.executor),
        }

    def prepare(self, item: Mapping[str, Any]) -> Prepared:
        """Parse the program, its arguments, and its environment and directory."""
        action: Any = item.get("action")
        if not isinstance(action, Mapping):
            raise InvalidArguments(f"The call of {self.name} is invalid: it has no action.")
        given = cast("Mapping[str, Any]", action)
        return self.edit({key: value for key, value in given.items() if value is not None and key != "type"})

    def edit(self, params: dict[str, Any]) -> Prepared:
        """Return another program, or other arguments, in their place."""
        match params:
            case {"command": [str(), *_] as command, **around} if around.keys() <= set(_AROUND):
                pass
            case _:
                raise InvalidArguments(f"The call of {self.name} is invalid: {_NO_SUCH}.")
        env: object = {} if around.get("env") is None else around["env"]
        timeout: object = around.get("timeout_ms")
        places = [around.get("user"), around.get("working_directory")]
        if not (
            isinstance(env, dict)
            and _texts([*cast("dict[object, object]", env), *cast("dict[object, object]", env).values()])
            and _texts(cast("list[object]", command))
            and _texts([place for place in places if place is not None])
            and (timeout is None or (type(timeout) is int and timeout > 0))
            and command[0]
        ):
            raise InvalidArguments(f"The call of {self.name} is invalid: {_NO_SUCH}.")
        named = cast("dict[str, str]", env)
        for text in (*command, *named, *named.values(), *filter(None, places)):
            check_text(self.name, text)
        frozen: dict[str, Any] = {"command": command, **{key: around.get(key) for key in _AROUND}, "env": named}
        if frozen["working_directory"]:
            frozen["working_directory"] = self._place(frozen["working_directory"])
        return Prepared(canonical(frozen))

    def _place(self, directory: str) -> str:
        """Return the directory in its one spelling; an executor that has a root says which one below it is meant."""
        place: Callable[[str], str] | None = getattr(self.executor, "place", None)
        return plain_path(directory) if place is None else place(directory)

    def subject(self, params: dict[str, Any]) -> LocalShellActionRequest:
        """Return what a `needs_approval` callable is given: an action with `.command`."""
        return LocalShellActionRequest(**params)

    async def invoke(self, context: ToolContext[Any], prepared: Prepared) -> Any:
        """Let the executor run the program."""
        call = LocalShellCallData(context.tool_call_id, self.subject(prepared.params), context.tool_call)
        return bounded(await asked(self.executor, LocalShellCommandRequest(context, call)), None)

    def output(self, item: Mapping[str, Any], value: object) -> Item:
        """Return the result: words as they are, a program's output as JSON."""
        text = value if isinstance(value, str) else canonical(output_parts(value))
        return {"type": "local_shell_call_output", "call_id": item["call_id"], "output": text}

    async def failure(self, context: object, error: Exception) -> Any:
        """Return what the model is told of an error; without a sandbox raise, since no model can mend that."""
        if isinstance(error, SandboxUnavailable):
            raise error
        return await super().failure(context, error)

    def preview(self, params: dict[str, Any]) -> Preview:
        """Show the program and its arguments one by one, and where it runs."""
        return program_preview(params["command"], {key: params.get(key) for key in _AROUND}, self.about)


def _texts(values: list[object]) -> bool:
    return all(isinstance(value, str) for value in values)
