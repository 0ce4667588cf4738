"""A computer that the model sees and uses: its actions, and the safety checks that come with a call.

A provider may attach safety checks to a call. Such a call asks, whatever the tool's own setting, and its approval is
what acknowledges them: nothing else does, no grant for other calls and no policy. The result is a picture of the
screen; where there is none to show, the words for the model are drawn on one.
"""

from __future__ import annotations

import abc
import asyncio
import base64
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, TypeVar, cast
from weakref import WeakKeyDictionary

from ..core.digest import canonical
from ..core.errors import UserError
from ..core.items import Item, RawItem
from ..core.preview import Json, Preview, Text
from ..core.settable import CALLBACK, Rule, one_of, own_of, refused
from ..support.user_code import answer_of
from .base import (
    TOOL_RULES,
    Asking,
    InvalidArguments,
    NeedsApproval,
    OutcomeUnknown,
    Prepared,
    Tool,
    ToolProblem,
    asked_late,
)
from .computer_actions import read_actions
from .context import RunContextWrapper, ToolContext
from .hosted import OPENAI
from .shell_calls import identity
from .word_picture import PNG, drawn

Button = Literal["left", "right", "wheel", "back", "forward"]
Environment = Literal["mac", "windows", "ubuntu", "browser"]


class Computer(abc.ABC):
    """Performs the actions of a model on a computer.

    Every method may be sync or async; keys that are held come as `keys=`.

    `screenshot` returns a PNG as base64 text or as bytes, or a data URL. A computer may also say its `environment` and
    the `dimensions` of its screen. A method `about()` returns a dict of JSON that says which computer it is, the same
    in every process: approvals are bound to it, and to the name of the class where there is none.

    >>> sorted(Computer.__abstractmethods__)[:3]
    ['click', 'double_click', 'drag']
    """

    environment: Any = None
    dimensions: Any = None

    @abc.abstractmethod
    def screenshot(self) -> Any:
        """Return a picture of the screen."""

    @abc.abstractmethod
    def click(self, x: int, y: int, button: Button) -> Any:
        """Click a mouse button at a place."""

    @abc.abstractmethod
    def double_click(self, x: int, y: int) -> Any:
        """Click twice at a place."""

    @abc.abstractmethod
    def scroll(self, x: int, y: int, scroll_x: int, scroll_y: int) -> Any:
        """Scroll at a place, by distances across and down."""

    @abc.abstractmethod
    def type(self, text: str) -> Any:
        """Type a text."""

    @abc.abstractmethod
    def wait(self) -> Any:
        """Wait a moment."""

    @abc.abstractmethod
    def move(self, x: int, y: int) -> Any:
        """Move the mouse to a place."""

    @abc.abstractmethod
    def keypress(self, keys: list[str]) -> Any:
        """Press keys together."""

    @abc.abstractmethod
    def drag(self, path: list[tuple[int, int]]) -> Any:
        """Drag the mouse along a path."""


#: A computer whose methods are async: the same methods, since each may be either.
AsyncComputer = Computer

TComputer = TypeVar("TComputer")


@dataclass(slots=True)
class ComputerToolSafetyCheckData:
    """Holds what `on_safety_check` is asked about: one safety check of one call.

    >>> ComputerToolSafetyCheckData(RunContextWrapper(None), None, None, RawItem(code="malicious")).safety_check.code
    'malicious'
    """

    ctx_wrapper: RunContextWrapper[Any]
    agent: Any
    tool_call: Any
    safety_check: Any


OnSafetyCheck = Callable[[ComputerToolSafetyCheckData], bool | Awaitable[bool]]


class _Seen(str):
    """Holds the screen after a call, as a data URL, and the checks that its approval acknowledged."""

    checks: list[Item]

    @classmethod
    def after(cls, url: str, checks: list[Item]) -> _Seen:
        made = cls(url)
        made.checks = checks
        return made


def _computer(tool: object, name: str, given: object) -> Any:
    lacks = [method for method in sorted(Computer.__abstractmethods__) if not callable(getattr(given, method, None))]
    if lacks:
        raise UserError(f"ComputerTool needs a computer; {type(given).__name__} has no {', '.join(lacks)}")
    _check_screen(own_of(tool).get("wire_type"), given)
    return given


def _wire_type(tool: ComputerTool[Any], name: str, given: str) -> Any:
    one_of("computer", "computer_use_preview")(tool, name, given)
    _check_screen(given, tool.computer)
    return given


def _check_screen(wire_type: str | None, computer: object) -> None:
    if wire_type == "computer_use_preview" and not _screen(computer):
        raise UserError("wire_type='computer_use_preview' needs a computer with an environment and dimensions")


COMPUTER_RULES: dict[str, Rule] = {
    "computer": _computer,
    "wire_type": _wire_type,
    "on_safety_check": CALLBACK,
    "needs_approval": TOOL_RULES["needs_approval"],
    "on_approval": refused("on_safety_check is what decides calls of a computer in line"),
    "editable": refused("a picture of the screen could not tell the model of an edit"),
}


class ComputerTool(Tool, Generic[TComputer]):
    """Lets the model use a computer.

    Calls with safety checks ask; others do as `needs_approval` says.

    `on_safety_check` is asked about each check first: True for all of them approves the call, False for any rejects
    it, and anything else leaves it to a person. Where `needs_approval` is not False it can only reject. Calls on one
    computer run one after another. `wire_type="computer_use_preview"` is for the models that know the older form.

    >>> from unittest.mock import Mock
    >>> ComputerTool(Mock(spec=Computer)).name
    'computer'
    """

    kind: ClassVar[str] = "computer"
    call_type: ClassVar[str] = "computer_call"
    call_field: ClassVar[str | None] = None
    # So a grant never acknowledges a check that nobody has seen: it is for calls with the very same ones, or none.
    identity: ClassVar[tuple[str, ...]] = ("pending_safety_checks",)
    provider: ClassVar[str] = OPENAI
    own_questions_only: ClassVar[bool] = True
    name = "computer"
    editable = False
    computer: Any
    on_safety_check: OnSafetyCheck | None
    wire_type: Literal["computer", "computer_use_preview"]
    _own_gate: NeedsApproval
    _rules = COMPUTER_RULES
    _remedies: ClassVar[Mapping[str, str]] = {
        "environment": "it is the computer's",
        "dimensions": "they are the computer's",
    }

    def __init__(
        self,
        computer: TComputer,
        on_safety_check: OnSafetyCheck | None = None,
        needs_approval: NeedsApproval = False,
        *,
        wire_type: Literal["computer", "computer_use_preview"] = "computer",
    ) -> None:
        self.computer = computer
        self.on_safety_check = on_safety_check
        self.wire_type = wire_type
        self.needs_approval = needs_approval  # pyright: ignore[reportIncompatibleVariableOverride]  # asks for checks too
        self._locks: WeakKeyDictionary[Any, asyncio.Lock] = WeakKeyDictionary()

    def provider_tool(self) -> Item:
        """Return the tool's definition for the Responses API."""
        return {"type": self.wire_type, **(_screen(self.computer) if self.wire_type != "computer" else {})}

    def spec(self) -> dict[str, Any]:
        """Return which computer it is and the size of its screen: an approval is for this computer and no other."""
        where = {"screen": _screen(self.computer), "computer": identity(self.computer)}
        return {"kind": self.kind, "type": self.wire_type, **where}

    def prepare(self, item: Mapping[str, Any]) -> Prepared:
        """Parse the actions, one or several, and the safety checks that came with them."""
        given: Any = item.get("actions")
        actions = read_actions([item["action"]] if given is None and item.get("action") is not None else given)
        params = {"actions": actions, "pending_safety_checks": _checks(item.get("pending_safety_checks") or [])}
        return Prepared(canonical(params))

    def edit(self, params: object) -> Prepared:
        """Refuse any edit: a picture of the screen could not tell the model of it."""
        raise InvalidArguments("what is done to a computer cannot be edited; reject it and say what to do in its place")

    async def invoke(self, context: ToolContext[Any], prepared: Prepared) -> Any:
        """Do the actions in order, and take a screenshot."""
        actions, checks = prepared.params["actions"], prepared.params["pending_safety_checks"]
        seen = context.approval is not None and context.approval.via != "grant"  # a standing word saw no check of this
        if checks and not seen:
            raise ToolProblem("Nothing was done: the safety checks of this call were not acknowledged.")
        async with self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
            for place, action in enumerate(actions, 1):
                try:
                    await self._do(action)
                except OutcomeUnknown:
                    raise
                except Asking as error:
                    raise asked_late(error, place - 1) from None
                except Exception as error:
                    what = f"Action {place} of {len(actions)} ({action['type']}) failed"
                    raise ToolProblem(f"{what}; what came before it was done, what follows was not.") from error
            return _Seen.after(await self._screenshot(), checks)

    def output(self, item: Mapping[str, Any], value: object) -> Item:
        """Return the screen and the acknowledged checks; words are drawn, a person may give a data URL."""
        words = value if isinstance(value, str) else repr(value)
        shown = str(words) if _is_picture(words) else drawn(words)
        made: Item = {
            "type": "computer_call_output",
            "call_id": item["call_id"],
            "output": {"type": "computer_screenshot", "image_url": shown},
        }
        acknowledged = value.checks if isinstance(value, _Seen) else []
        return {**made, "acknowledged_safety_checks": acknowledged} if acknowledged else made

    def preview(self, params: dict[str, Any]) -> Preview:
        """Show the provider's words on each safety check, the actions, and which computer they are for."""
        checks = [
            Text(
                f"{check.get('code') or 'no code'}: {check.get('message') or 'no message'}",
                label="safety check, in the provider's words; to approve is to acknowledge it",
            )
            for check in params["pending_safety_checks"]
        ]
        where = Json(identity(self.computer), label="computer")
        return Preview((*checks, Json(params["actions"], label="actions"), where))

    @property
    def needs_approval(self) -> NeedsApproval:
        """Return what asks: the safety checks of a call, and the gate that was set (`_own_gate`)."""
        return self._asks

    @needs_approval.setter
    def needs_approval(self, gate: NeedsApproval) -> None:
        self._own_gate = gate

    @property
    def on_approval(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]  # it follows
        """Return what decides calls in line, where `on_safety_check` does."""
        return None if self.on_safety_check is None else self._decide

    async def _asks(self, context: object, params: dict[str, Any], label: str) -> Any:
        if params["pending_safety_checks"]:
            return True
        gate = self._own_gate
        return await answer_of(gate, context, params, label) if callable(gate) else gate

    async def _decide(self, context: Any, item: Any) -> Any:
        """Return what `on_safety_check` says of all checks together, None where it leaves that to a person."""
        answers = [await self._acknowledged(context, item, check) for check in item.params["pending_safety_checks"]]
        if any(answer is False for answer in answers):
            return {"approve": False}
        agreed = bool(answers) and all(answer is True for answer in answers)
        return {"approve": True} if agreed and self._own_gate is False else None

    async def _acknowledged(self, context: Any, item: Any, check: Item) -> Any:
        assert self.on_safety_check is not None
        data = ComputerToolSafetyCheckData(context, item.agent, RawItem(item.raw_item), RawItem(check))
        return await answer_of(self.on_safety_check, data)

    async def _do(self, action: Item) -> None:
        given = {name: value for name, value in action.items() if name != "type"}
        if action["type"] == "screenshot":  # one is taken in the end
            return
        if action["type"] == "drag":
            given["path"] = [(point["x"], point["y"]) for point in given["path"]]
        await answer_of(getattr(self.computer, action["type"]), **given)

    async def _screenshot(self) -> str:
        """Return a data URL of the screen, whichever way the computer gives it."""
        try:
            taken = await answer_of(self.computer.screenshot)
            if isinstance(taken, bytes):
                taken = base64.b64encode(taken).decode()
            if not isinstance(taken, str) or not taken:
                raise TypeError("a screenshot must be bytes or a string")
        except Exception as error:
            raise ToolProblem("The actions were done, but the computer gave no picture of its screen.") from error
        return taken if _is_picture(taken) else PNG + taken


def _screen(computer: object) -> Item:
    """Return the environment and dimensions that the computer states."""
    environment, size = getattr(computer, "environment", None), getattr(computer, "dimensions", None)
    if environment is None or size is None:
        return {}
    return {"environment": environment, "display_width": size[0], "display_height": size[1]}


def _checks(given: object) -> list[Item]:
    """Return the safety checks as they came, or raise `InvalidArguments`."""
    checks = cast("list[Any]", given if isinstance(given, list) else [None])
    if not all(isinstance(check, dict) and isinstance(cast("Item", check).get("id"), str) for check in checks):
        raise InvalidArguments("The call is invalid: its safety checks are not a list of checks with ids.")
    return checks


def _is_picture(text: str) -> bool:
    return text.startswith("data:image/")
