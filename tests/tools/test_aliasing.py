"""H2: whoever is shown a call before it runs may edit in place all that he was given; the recorded call runs."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import pytest
from pydantic import BaseModel

from keyturn import (
    Agent,
    AgentHooks,
    ApplyPatchTool,
    Computer,
    ComputerTool,
    CustomTool,
    FunctionTool,
    HostedMCPTool,
    LocalShellTool,
    RunConfig,
    RunHooks,
    Runner,
    ShellTool,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    function_tool,
    handoff,
)
from keyturn.core.digest import canonical
from keyturn.core.events import ReplyRecorded
from keyturn.core.policy import Verdict
from keyturn.models.base import ModelRequest
from keyturn.models.scripted.model import ScriptedModel, assistant_message, function_call, tool_outputs
from keyturn.testing import approve_all
from keyturn.tools.base import Prepared, Tool

pytestmark = pytest.mark.usefixtures("own_key")


_INSIDE = (
    "raw_item",
    "params",
    "preview",
    "blocks",
    "value",
    "basis",
    "tool_call",
    "tool_input",
    "commands",
    "command",
)
_INSIDE += (
    "env",
    "model_data",
    "input",
    "output",
    "requests",
    "data",
    "response",
    "item",
    "raw",
    "action",
    "interruptions",
)
_LEFT = ("type",)  # a call of another type is no call of the tool any more


def spoil(value: Any, depth: int = 0) -> None:
    """Edit in place everything that can be reached from a value."""
    if depth > 12:
        return
    if isinstance(value, dict):
        held = cast("dict[str, Any]", value)
        for name, member in list(held.items()):
            with suppress(TypeError):  # an event of a stream refuses to be changed
                if isinstance(member, str) and name not in _LEFT:
                    held[name] = _other(member)
                elif type(member) is int:
                    held[name] = member + 1
            spoil(member, depth + 1)
    elif isinstance(value, list):
        listed = cast("list[Any]", value)
        for place, member in enumerate(listed):
            if isinstance(member, str):
                listed[place] = _other(member)
            spoil(member, depth + 1)
    elif isinstance(value, tuple):
        for member in cast("tuple[Any, ...]", value):
            spoil(member, depth + 1)
    elif not isinstance(value, str | int | float | None):
        for name in _INSIDE:
            if hasattr(value, name):
                spoil(getattr(value, name), depth + 1)


def _other(text: str) -> str:
    return text.replace("safe", "evil") if "safe" in text else f"{text}-evil"


class Kind:
    """One kind of tool: how an agent gets it, how a model calls it, and what it was given when it ran."""

    def __init__(self, name: str, make: Callable[[Kind], Any], item: dict[str, Any]) -> None:
        self.name, self._make, self.item = name, make, item
        self.got: list[str] = []
        self.tool: Any = None

    def take(self, value: Any) -> str:
        self.got.append(canonical(value))
        return "done"

    def fresh(self) -> Any:
        self.got = []
        self.tool = self._make(self)
        return self.tool

    @property
    def label(self) -> str:
        return self.item.get("call_id") or self.item["id"]


PARAMS = {"to": "safe", "more": {"list": ["safe", {"deep": "safe"}]}, "count": 3}


def _function(kind: Kind) -> Any:
    async def post(to: str, more: dict[str, Any], count: int) -> str:
        return kind.take([to, more, count])

    return function_tool(post, strict_mode=False)


def _hand_made(kind: Kind) -> Any:
    return FunctionTool("post", "", {"type": "object"}, lambda _c, text: kind.take(json.loads(text)), False)


class Deep(BaseModel):
    deep: str


class More(BaseModel):
    list: list[str | Deep]


class Work(BaseModel):
    to: str
    more: More
    count: int


def _structured_agent(kind: Kind) -> Any:
    def built(options: Any) -> str:
        kind.take(options["params"])
        return "go"

    inner = Agent("inner", model=ScriptedModel(lambda _request: [assistant_message("inner done")]))
    return inner.as_tool("post", "", parameters=Work, input_builder=built)


def _plain_agent(kind: Kind) -> Any:
    def answer(request: ModelRequest) -> Any:
        return [assistant_message(kind.take(request.input[-1]["content"]))]

    return Agent("inner", model=ScriptedModel(answer)).as_tool("post", "")


def _handoff(kind: Kind) -> Any:
    async def went(_context: Any, work: Work) -> None:
        kind.take(work.model_dump())

    return handoff(Agent("next"), tool_name_override="post", on_handoff=went, input_type=Work)


class Screen(Computer):
    def __init__(self, kind: Kind) -> None:
        self._kind = kind

    def screenshot(self) -> str:
        return "data:image/png;base64,AA=="

    def _took(self, *given: Any) -> None:
        self._kind.take(list(given))

    click = double_click = scroll = wait = move = drag = _took

    def type(self, text: str) -> None:
        self._took(text)

    def keypress(self, keys: list[str]) -> None:
        self._took(keys)


class Editor:
    def __init__(self, kind: Kind) -> None:
        self._kind = kind

    def create_file(self, operation: Any) -> str:
        return self._kind.take([operation.path, operation.diff])

    update_file = delete_file = create_file


class OwnKind(Tool):
    """A kind of a user's: it takes what the wire carries as a value."""

    kind, name, call_type, call_field = "own", "own", "own_call", None

    def __init__(self, taken: Kind) -> None:
        self._taken = taken

    def spec(self) -> dict[str, Any]:
        return {"kind": self.kind}

    def prepare(self, item: Any) -> Prepared:
        return Prepared(canonical(item["wants"]))

    async def invoke(self, context: Any, prepared: Prepared) -> Any:
        return self._taken.take(prepared.params)

    def output(self, item: Any, value: Any) -> Any:
        return {"type": "own_call_output", "call_id": item["call_id"], "output": str(value)}


def _hosted(_kind: Kind) -> Any:
    return HostedMCPTool({"type": "mcp", "server_label": "safe", "server_url": "https://example.com/mcp"})


KEYS = {"type": "keypress", "keys": ["safe", "b"]}
FILE = {"type": "create_file", "path": "safe.txt", "diff": "+safe"}
LINE = {"type": "exec", "command": ["echo", "safe"], "env": {"A": "safe"}}
KINDS = [
    Kind("function", _function, function_call("post", PARAMS, call_id="c1")),
    Kind("hand-made function", _hand_made, function_call("post", PARAMS, call_id="c1")),
    Kind("agent", _plain_agent, function_call("post", {"input": "safe"}, call_id="c1")),
    Kind("structured agent", _structured_agent, function_call("post", PARAMS, call_id="c1")),
    Kind("handoff", _handoff, function_call("post", PARAMS, call_id="c1")),
    Kind(
        "custom",
        lambda kind: CustomTool("post", "", lambda _c, text: kind.take(text)),
        {"type": "custom_tool_call", "name": "post", "call_id": "c1", "input": "safe"},
    ),
    Kind(
        "shell",
        lambda kind: ShellTool(lambda asked: kind.take(asked.data.action.commands), needs_approval=False),
        {"type": "shell_call", "call_id": "c1", "action": {"commands": ["echo safe", "ls safe"]}},
    ),
    Kind(
        "shell as a function",
        lambda kind: ShellTool(lambda asked: kind.take(asked.data.action.commands), needs_approval=False),
        function_call("shell", {"commands": ["echo safe"]}, call_id="c1"),
    ),
    Kind(
        "local shell",
        lambda kind: LocalShellTool(
            lambda asked: kind.take([asked.data.action.command, asked.data.action.env]), needs_approval=False
        ),
        {"type": "local_shell_call", "call_id": "c1", "action": LINE},
    ),
    Kind(
        "computer",
        lambda kind: ComputerTool(Screen(kind)),
        {"type": "computer_call", "call_id": "c1", "actions": [KEYS, {"type": "type", "text": "safe"}]},
    ),
    Kind(
        "patch",
        lambda kind: ApplyPatchTool(Editor(kind), needs_approval=False),
        {"type": "apply_patch_call", "call_id": "c1", "operation": FILE},
    ),
    Kind(
        "hosted MCP",
        _hosted,
        {
            "type": "mcp_approval_request",
            "id": "r1",
            "server_label": "safe",
            "name": "safe",
            "arguments": '{"path": "safe"}',
        },
    ),
    Kind("a kind of one's own", OwnKind, {"type": "own_call", "call_id": "c1", "wants": PARAMS}),
]


class Place:
    """One place where somebody is shown the call: `put` sets it up on the tool and in the run's settings."""

    asks = False
    streamed = False

    def put(self, tool: Any, settings: dict[str, Any]) -> None:
        """Set it up."""

    def heard(self, event: Any) -> None:
        """A stream event."""

    def shown(self, result: Any, state: Any) -> None:
        """The run waits."""

    def applies(self, kind: Kind) -> bool:
        return True


class NeedsApproval(Place):
    def put(self, tool: Any, settings: dict[str, Any]) -> None:
        def needs(_context: Any, subject: Any, _label: str) -> bool:
            spoil(subject)
            return False

        tool.needs_approval = needs


class Policy(Place):
    def put(self, tool: Any, settings: dict[str, Any]) -> None:
        def policy(call: Any, _context: Any) -> Verdict:
            spoil(call)
            return Verdict("allow")

        settings["run_config"] = RunConfig(policy=policy)


class OnApproval(Place):
    def put(self, tool: Any, settings: dict[str, Any]) -> None:
        async def on_approval(_context: Any, item: Any) -> Any:
            spoil(item)
            return {"approve": True}

        def checked(data: Any) -> bool:
            spoil(data.tool_call)
            return True

        def requested(request: Any) -> Any:
            spoil(request.data)
            return {"approve": True}

        tool.needs_approval = True
        if tool.kind == "computer":
            tool.on_safety_check = checked
        elif tool.kind == "hosted_mcp":
            tool.on_approval_request = requested
        else:
            tool.on_approval = on_approval


class Asking(Place):
    asks = True

    def put(self, tool: Any, settings: dict[str, Any]) -> None:
        tool.needs_approval = True


class Previewed(Asking):
    def put(self, tool: Any, settings: dict[str, Any]) -> None:
        super().put(tool, settings)
        made = tool.preview

        def preview(params: Any) -> Any:
            shown = made(copy.deepcopy(params))
            spoil(params)
            return shown

        tool.preview = preview


class Interrupted(Asking):
    def shown(self, result: Any, state: Any) -> None:
        spoil([result.interruptions, state.get_interruptions(), result.new_items, result.to_input_list()])


class Replies(Asking):
    def shown(self, result: Any, state: Any) -> None:
        spoil(result.raw_responses)


class Hooked(Place):
    def __init__(self, kind: type[Any], where: str) -> None:
        self._kind, self._where = kind, where

    def put(self, tool: Any, settings: dict[str, Any]) -> None:
        class Spoils(self._kind):
            async def on_tool_start(self, context: Any, agent: Any, tool: Any, *_more: Any) -> None:
                spoil(context)

        settings[self._where] = Spoils()

    def applies(self, kind: Kind) -> bool:
        return kind.name not in ("hosted MCP",)  # of a tool that the provider runs no hook is told


class Reply(Place):
    """Somebody keeps the model's own answer, and edits it later."""

    def put(self, tool: Any, settings: dict[str, Any]) -> None:
        class Keeps(RunHooks[Any]):
            async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
                self.kept = response

        settings["hooks"] = hooks = Keeps()

        def needs(_context: Any, _subject: Any, _label: str) -> bool:
            spoil(hooks.kept)
            return False

        tool.needs_approval = needs


class Guarded(Place):
    def put(self, tool: Any, settings: dict[str, Any]) -> None:
        def look(data: Any) -> Any:
            spoil(data.context)
            return ToolGuardrailFunctionOutput.allow()

        tool.tool_input_guardrails = [ToolInputGuardrail(look)]


class Streamed(Place):
    streamed = True

    def heard(self, event: Any) -> None:
        spoil(event)


class StreamedAsking(Asking):
    streamed = True

    def heard(self, event: Any) -> None:
        spoil(event)


class KeptSession:
    """A session that edits in place what it is given."""

    session_id = "s"

    def __init__(self) -> None:
        self.items: list[Any] = []

    async def get_items(self, limit: int | None = None) -> list[Any]:
        return copy.deepcopy(self.items)

    async def add_items(self, items: list[Any]) -> None:
        self.items += copy.deepcopy(items)
        spoil(items)

    async def pop_item(self) -> Any:
        return self.items.pop() if self.items else None

    async def clear_session(self) -> None:
        self.items = []


class Filtered(Place):
    def put(self, tool: Any, settings: dict[str, Any]) -> None:
        def edit(data: Any) -> Any:
            kept = copy.deepcopy(data.model_data)
            spoil(data)
            return kept

        settings["run_config"] = RunConfig(call_model_input_filter=edit)


class InSession(Asking):
    def put(self, tool: Any, settings: dict[str, Any]) -> None:
        super().put(tool, settings)
        settings["session"] = KeptSession()


PLACES: dict[str, Place] = {
    "a needs_approval callable": NeedsApproval(),
    "the policy": Policy(),
    "on_approval": OnApproval(),
    "the preview": Previewed(),
    "the interruptions": Interrupted(),
    "the replies of a result": Replies(),
    "run hooks": Hooked(RunHooks, "hooks"),
    "agent hooks": Hooked(AgentHooks, "agent_hooks"),
    "who keeps the model's reply": Reply(),
    "an input guardrail": Guarded(),
    "a stream's listener": Streamed(),
    "a stream's listener, asking": StreamedAsking(),
    "a filter of the model's input": Filtered(),
    "a session": InSession(),
}


async def play(kind: Kind, place: Place) -> tuple[list[str], Any, list[Any]]:
    """What the tool was given, what the model was told, and what people were shown."""
    tool, settings = kind.fresh(), dict[str, Any]()
    place.put(tool, settings)

    def answer(request: ModelRequest) -> Any:
        known = tool_outputs(request) or [one for one in request.input if "response" in str(one.get("type"))]
        return [assistant_message("end")] if known else [copy.deepcopy(kind.item)]

    is_handoff = tool.kind == "handoff"
    agent: Agent[Any] = Agent(
        "desk", model=ScriptedModel(answer), tools=[] if is_handoff else [tool], hooks=settings.pop("agent_hooks", None)
    )
    if is_handoff:
        tool.agent.model, agent.handoffs = agent.model, [tool]
    given: Any = "go"
    shown: list[Any] = []
    for _ in range(3):
        if place.streamed:
            stream = Runner.run_streamed(agent, given, **settings)
            async for event in stream.stream_events():
                place.heard(event)
            result = stream.run_loop_task.result()
        else:
            result = await Runner.run(agent, given, **settings)
        if not result.interruptions:
            break
        given = result.to_state()
        shown += [copy.deepcopy(item.params) for item in given.get_interruptions()]
        place.shown(result, given)
        approve_all(given)
    return kind.got, result, shown


def recorded(result: Any) -> Any:
    """The call as the log tells of it."""
    steps = result.to_state().live.log.steps
    replies = [event for step in steps for event in step.events if isinstance(event, ReplyRecorded)]
    return replies[0].output[0]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
async def test_what_was_recorded_runs_whoever_edits_what_he_was_shown(kind: Kind) -> None:
    """H2: every place where user code sees the call, each told by its name where it fails."""
    wanted, clean, _ = await play(kind, Asking() if kind.name == "hosted MCP" else Place())
    assert clean.final_output == "end"
    assert wanted or kind.name == "hosted MCP"
    params = kind.tool.prepare(kind.item).params
    wrong: dict[str, Any] = {}
    for name, place in PLACES.items():
        if not place.applies(kind):
            continue
        got, result, shown = await play(kind, place)
        if got != wanted:
            wrong[name] = ("ran", got, "wanted", wanted)
        elif recorded(result) != kind.item:
            wrong[name] = ("recorded", recorded(result))
        elif any(each != params for each in shown):
            wrong[name] = ("shown", shown)
        elif result.final_output != "end":
            wrong[name] = ("ended", result.final_output)
    assert not wrong, "\n".join(f"{name}: {what}" for name, what in wrong.items())


async def test_a_preview_that_edits_its_arguments_and_fails_shows_them_as_they_are() -> None:
    """H2: what takes the place of a broken preview is the arguments, and not what it made of them."""

    def breaks(params: Any) -> Any:
        spoil(params)
        raise ValueError("broken")

    @function_tool(needs_approval=True, preview=breaks)
    async def post(to: list[str]) -> str:
        return "posted"

    call = function_call("post", {"to": ["safe"]}, call_id="c1")
    result = await Runner.run(Agent("desk", model=ScriptedModel([[call], "end"]), tools=[post]), "go")
    [item] = result.interruptions
    assert item.preview.blocks[-1].value == item.params == {"to": ["safe"]}
