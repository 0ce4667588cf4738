"""The shell tool: commands that a model wants to run, shown to people exactly as they would run.

Here is the call: what of it runs, what people are shown, how its result reads. What runs it is an executor; whether
it runs is the gate's affair, and by default somebody is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, cast

from ..core.approval import Approval
from ..core.digest import canonical
from ..core.errors import UserError
from ..core.items import Item, own_copy
from ..core.preview import Preview
from ..core.settable import TEXT, Rule, fixed, made_by, own_of, refusal
from .base import TOOL_RULES, InvalidArguments, NeedsApproval, Prepared, Tool
from .context import ToolContext
from .functions.options import IsEnabled
from .functions.structured import any_object
from .processes.bubblewrap import BubblewrapExecutor, SandboxUnavailable
from .shell_calls import (
    ShellActionRequest,
    ShellCallData,
    ShellCommandRequest,
    ShellExecutor,
    ShellResult,
    about,
    asked,
    check_text,
    identity,
    is_plain,
)
from .shell_preview import command_preview
from .shell_results import bounded, noticed, output_item

DESCRIPTION = (
    "Runs shell commands, one after another, and gives back what each wrote and how it ended. Each has a shell of its "
    "own that starts in the same directory; there is no input, and nothing goes on running after its command."
)
COMMANDS_AT_MOST = 50
_LIMITS = ("timeout_ms", "max_output_length")
_LIMIT = {"type": ["integer", "null"]}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "commands": {"type": "array", "items": {"type": "string"}, "description": "The commands, in order."},
        "timeout_ms": {**_LIMIT, "description": "Time limit of each command in milliseconds."},
        "max_output_length": {**_LIMIT, "description": "How many characters of each command's output to give back."},
    },
    "required": ["commands", *_LIMITS],
    "additionalProperties": False,
}


def _own_environment(tool: ShellTool, name: str, given: object) -> dict[str, Any]:
    """Keep where the commands run; a tool stays at the provider, or here, whatever else of it changes."""
    if not isinstance(given, Mapping):
        raise refusal(tool, name, "a mapping", given)
    made = own_copy({"type": "local", **cast("Mapping[str, Any]", given)})
    hosted = made["type"] != "local"
    own = own_of(tool)
    if name in own and hosted != tool.hosted:
        raise AttributeError(
            f"{name!r} of tool {tool.name!r} cannot be set to {made['type']!r}: make another ShellTool(environment=...)"
        )
    if hosted:  # elsewhere nobody runs its commands, so that nobody may offer it as a function
        own["also_function"] = False
    own["hosted"] = hosted
    return made


def _local_only(rule: Rule) -> Rule:
    """Refuse what would ask or run something where the provider runs the commands."""

    def checked(tool: ShellTool, name: str, given: object) -> Any:
        if tool.hosted and given:
            raise UserError(
                f"tool {tool.name!r}: its commands run at the provider ({tool.environment['type']}), where no "
                f"approval can be requested: omit executor, needs_approval, on_approval and approval, or use the "
                f"local environment"
            )
        return rule(tool, name, given)

    return checked


def _executor(tool: ShellTool, name: str, given: object) -> Any:
    if tool.hosted:
        return None
    made = BubblewrapExecutor() if given is None else given
    if not callable(made):
        raise refusal(tool, name, "a function of a ShellCommandRequest, sync or async", made)
    return made


SHELL_RULES: dict[str, Rule] = {
    "description": TEXT,
    "params_json_schema": made_by(own_copy),
    "environment": _own_environment,
    "executor": _local_only(_executor),
    "hosted": fixed("environment= of the constructor says where the commands run"),
    **{name: _local_only(TOOL_RULES[name]) for name in ("needs_approval", "on_approval", "approval")},
}


class ShellTool(Tool):
    """Runs shell commands by `executor`; every call asks unless `needs_approval` says otherwise.

    An executor is any function `(ShellCommandRequest) -> ShellResult | str`, sync or async. Without one, commands run
    in a sandbox of bubblewrap in the current directory (`BubblewrapExecutor`): there they can write,
    of the rest only the system's programs are there, and there is no network. `LocalExecutor` runs them without a
    sandbox. With a hosted `environment` (`{"type": "container_auto"}`) the provider runs them and nobody can be asked.

    >>> from keyturn import LocalExecutor
    >>> tool = ShellTool(LocalExecutor("/srv/app"))
    >>> tool.preview({"commands": ["ls | wc -l"]}).blocks[1].text.splitlines()
    ['programs: ls, wc', 'joined by: |']
    """

    kind: ClassVar[str] = "shell"
    call_type: ClassVar[str] = "shell_call"
    call_field: ClassVar[str | None] = None
    also_function: ClassVar[bool] = True
    notice: Callable[[Item, str], Item] = staticmethod(noticed)
    strict_json_schema = True
    description: str
    params_json_schema: dict[str, Any]
    environment: Mapping[str, Any]
    executor: ShellExecutor | None
    _rules = SHELL_RULES

    def __init__(
        self,
        executor: ShellExecutor | None = None,
        name: str = "shell",
        needs_approval: NeedsApproval | None = None,
        on_approval: Callable[[Any, Any], Any] | None = None,
        environment: Mapping[str, Any] | None = None,
        *,
        is_enabled: IsEnabled = True,
        approval: Approval | None = None,
        risk: str | None = None,
    ) -> None:
        self.name = name
        self.description = DESCRIPTION
        self.params_json_schema = own_copy(SCHEMA)
        self.environment = {} if environment is None else environment
        self.executor = executor
        self.needs_approval = not self.hosted if needs_approval is None else needs_approval
        self.on_approval = on_approval
        self.approval = approval
        self.is_enabled = is_enabled
        self.risk = risk

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name!r})"

    @property
    def blocking(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]  # it is what runs the commands
        """Return whether a call works in a worker thread, as a plain executor does."""
        return self.executor is not None and is_plain(self.executor)

    @property
    def about(self) -> dict[str, Any]:
        """Return where and how the commands run, as far as the executor says it."""
        return about(self.executor)

    def provider_tool(self) -> Item:
        """Return the tool's definition for the Responses API."""
        return {"type": "shell", "environment": own_copy(self.environment)}

    def spec(self) -> dict[str, Any]:
        """Return what the model is told, and where its commands run: an approval is for this place and no other."""
        told = {"kind": self.kind, "name": self.name, "description": self.description}
        where = {} if self.hosted else identity(self.executor)
        return {**told, "environment": self.environment, "executor": where}

    def prepare(self, item: Mapping[str, Any]) -> Prepared:
        """Parse the commands and their limits, from a call of the provider's own kind or of a function."""
        if self.hosted:
            raise InvalidArguments(f"The call of {self.name} is invalid: the provider runs these commands.")
        if item.get("type") != self.call_type:
            return self.edit(any_object(self.name, cast("str", item.get("arguments") or "")).params)
        action: Any = item.get("action")
        if not isinstance(action, Mapping):
            raise InvalidArguments(f"The call of {self.name} is invalid: it has no action.")
        given = cast("Mapping[str, Any]", action)
        # A field that says nothing may be there; one that says something must be one that is known.
        return self.edit({key: value for key, value in given.items() if value is not None and key != "type"})

    def edit(self, params: dict[str, Any]) -> Prepared:
        """Return other commands in their place."""
        match params:
            case {"commands": [str(), *_] as commands, **limits} if limits.keys() <= set(_LIMITS):
                pass
            case _:
                raise InvalidArguments(
                    f"The call of {self.name} is invalid: it takes a list of commands, timeout_ms and "
                    "max_output_length, and nothing else."
                )
        _check_commands(self.name, cast("list[object]", commands))
        frozen = {
            "commands": commands,
            **{limit: _checked_limit(self.name, limit, limits.get(limit)) for limit in _LIMITS},
        }
        return Prepared(canonical(frozen))

    def subject(self, params: dict[str, Any]) -> ShellActionRequest:
        """Return what a `needs_approval` callable is given: an action with `.commands`."""
        return ShellActionRequest(**params)

    async def invoke(self, context: ToolContext[Any], prepared: Prepared) -> ShellResult:
        """Let the executor run the commands."""
        action = ShellActionRequest(**prepared.params)
        call = ShellCallData(context.tool_call_id, action, "in_progress", context.tool_call)
        assert self.executor is not None
        return bounded(await asked(self.executor, ShellCommandRequest(context, call)), action.max_output_length)

    def output(self, item: Mapping[str, Any], value: object) -> Item:
        """Return the result, of the type that goes with the call."""
        return output_item(item, value)

    async def failure(self, context: object, error: Exception) -> Any:
        """Return what the model is told of an error; without a sandbox raise, since no model can mend that."""
        if isinstance(error, SandboxUnavailable):
            raise error
        return await super().failure(context, error)

    def preview(self, params: dict[str, Any]) -> Preview:
        """Show the commands, what a shell reads in them, and where they run."""
        return command_preview(params["commands"], {limit: params.get(limit) for limit in _LIMITS}, self.about)


def _check_commands(name: str, commands: list[object]) -> None:
    if len(commands) > COMMANDS_AT_MOST:
        raise InvalidArguments(f"The call of {name} is invalid: it has more than {COMMANDS_AT_MOST} commands.")
    for command in commands:
        if not isinstance(command, str) or not command.strip():
            raise InvalidArguments(f"The call of {name} is invalid: each command must be a non-empty string.")
        check_text(name, command)


def _checked_limit(name: str, limit: str, value: object) -> int | None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
        raise InvalidArguments(f"The call of {name} is invalid: {limit} must be a positive whole number.")
    return value
