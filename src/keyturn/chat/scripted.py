"""The model that plays where no key is set: it answers from the conversation alone, and says that it is scripted.

It does a little of everything that the assistant can do, so that somebody can try out what it is like to decide.
"""

from __future__ import annotations

from typing import Any, LiteralString, cast

from ..models.base import ModelRequest
from ..models.scripted.model import assistant_message, function_call

NOTE: LiteralString = "/keyturn-note.txt"
_COUNT: LiteralString = "Scripted task: count what is in the folder."
_PLAN: tuple[LiteralString, ...] = ("Look around", "Have a subagent count the files", "Write a note")
_DOING: tuple[LiteralString, ...] = ("Looking around", "Waiting for the subagent", "Writing a note")
_HELLO: LiteralString = (
    "No model reads this: I am the scripted one, since no key is set. I plan, look around, send a subagent, and ask "
    "you before I write a note."
)


def reply(request: ModelRequest) -> list[Any]:
    """Return the next reply, from the conversation alone, so that any process can go on with it."""
    items = list(request.input)
    last = max((place for place, item in enumerate(items) if item.get("role") == "user"), default=0)
    said = _text(items[last]) if items else ""
    done = {str(item["call_id"]): str(item.get("output")) for item in items[last:] if "output" in item}
    turn = sum(item.get("role") == "user" for item in items)
    if said.startswith(_COUNT):
        return _counting(done)
    has_shell = any(getattr(tool, "name", "") == "execute" for tool in request.tools)
    return _step(turn, said, done, has_shell=has_shell)


def _step(turn: int, said: str, done: dict[str, str], *, has_shell: bool) -> list[Any]:
    def call(name: str, **arguments: Any) -> Any:
        return function_call(name, arguments, call_id=f"{name}-{turn}")

    if f"ls-{turn}" not in done:
        return [assistant_message(_HELLO), _todos(turn, 0), call("ls", path="/")]
    if f"task-{turn}" not in done:
        return [_todos(turn, 1), call("task", description=_COUNT, subagent_type="general-purpose")]
    if f"write_file-{turn}" not in done:
        note = f"A note by the scripted model.\nYou said: {said}\n{done[f'task-{turn}']}\n"
        return [_todos(turn, 2), call("write_file", path=NOTE, content=note)]
    if has_shell and f"execute-{turn}" not in done:
        return [_todos(turn, 3), call("execute", command=f"wc -c .{NOTE}", timeout=10)]
    told = done[f"write_file-{turn}"].splitlines() or [""]
    return [assistant_message(f"That is all I can do. What became of the note: {told[0]}")]


def _counting(done: dict[str, str]) -> list[Any]:
    if "count" not in done:
        return [function_call("glob", {"pattern": "*", "path": "/"}, call_id="count")]
    found = [line for line in done["count"].splitlines() if line.strip()]
    return [assistant_message(f"I saw {len(found)} names at the top of the folder.")]


def _todos(turn: int, at: int) -> Any:
    status = ["completed" if place < at else "in_progress" if place == at else "pending" for place in range(len(_PLAN))]
    todos = [
        {"content": content, "status": state, "active_form": doing}
        for content, doing, state in zip(_PLAN, _DOING, status, strict=True)
    ]
    return function_call("write_todos", {"todos": todos}, call_id=f"todos-{turn}-{at}")


def _text(item: dict[str, Any]) -> str:
    content: Any = item.get("content")
    if isinstance(content, str):
        return content
    parts = cast("list[dict[str, Any]]", content or [])
    return "".join(str(part.get("text", "")) for part in parts)
