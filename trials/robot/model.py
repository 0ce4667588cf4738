"""A model that is a robot: it calls each offered tool once a turn, then answers with a text or with the JSON asked for.

It knows no program. What it says depends on the request alone, but for yes and no, which alternate.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from keyturn.core.items import Item

from .forms import FormFiller

# How often a tool is called for one text of a user, whatever became of the earlier calls.
MOST_CALLS = 3

_PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="  # a PNG
_SOURCE = "https://developers.openai.com/api/docs/models/gpt-5.6-robot"
_FILE = re.compile(r"<BEGIN_FILES>\n=+ (?P<path>\S+)\n(?P<text>.*?)\n<END_FILES>", re.DOTALL)


@dataclass(frozen=True)
class Asked:
    """Holds what a model is asked, in the words of the Responses API whatever API asked."""

    items: list[Item]
    tools: list[Item]
    instructions: str = ""
    schema: Mapping[str, Any] | None = None
    choice: Any = "auto"
    parallel: bool = True
    summary: bool = False

    @property
    def turn(self) -> list[Item]:
        """What came after the newest text of a user."""
        places = [place for place, item in enumerate(self.items) if item.get("role") == "user"]
        return self.items[places[-1] + 1 :] if places else self.items

    @property
    def text(self) -> str:
        """The newest text of a user."""
        said = [item["content"] for item in self.items if item.get("role") == "user"]
        if not said:
            return "nothing"
        if isinstance(said[-1], str):
            return said[-1]
        return next((part["text"] for part in cast("list[Item]", said[-1]) if part.get("text")), "no text")


class Robot:
    """Answers requests; one robot talks with one program."""

    def __init__(self) -> None:
        self._forms = FormFiller()
        self._calls: Counter[tuple[str, str, str]] = Counter()
        self._count = 0

    def answer(self, asked: Asked) -> list[Item]:
        """Return the items of the reply."""
        calls = [] if asked.choice == "none" else self._calls_of(asked)
        thought: list[Item] = [_reasoning()] if asked.summary else []
        waiting = [item for item in calls if _waits(item)]
        done = [item for item in calls if not _waits(item)]
        if waiting:
            return [*thought, *done, *waiting]
        return [*thought, *done, self._message(asked, done)]

    def _message(self, asked: Asked, done: list[Item]) -> Item:
        if asked.schema is not None:
            text = json.dumps(self._forms.value(asked.schema, asked.text))
        else:
            results = sum(item.get("type", "").endswith("_output") for item in asked.turn)
            text = f"The robot has {results} results."
        part: Item = {"type": "output_text", "text": text, "annotations": []}
        if any(item["type"] == "web_search_call" for item in done):
            part["annotations"] = [_citation(text)]
        return {"type": "message", "role": "assistant", "content": [part]}

    def _calls_of(self, asked: Asked) -> list[Item]:
        """Choose the calls of this reply: all tools not called yet, then one handoff."""
        fresh = [tool for tool in asked.tools if self._is_open(tool, asked)]
        named = asked.choice.get("name") if isinstance(asked.choice, Mapping) else None
        if named is not None:
            fresh = [tool for tool in fresh if tool.get("name") == named or tool["type"] == "mcp"]
        handoffs = [tool for tool in fresh if _is_handoff(tool)]
        tools = [tool for tool in fresh if not _is_handoff(tool)] or handoffs[:1]
        if not asked.parallel:
            tools = tools[:1]
        made: list[Item] = []
        for tool in tools:
            self._calls[self._key(tool, asked)] += 1
            made += self._made(tool, asked)
        return made

    def _is_open(self, tool: Item, asked: Asked) -> bool:
        if tool["type"] not in _MAKERS or self._calls[self._key(tool, asked)] >= MOST_CALLS:
            return False
        return not any(_is_call_of(item, tool) for item in asked.turn)

    def _key(self, tool: Item, asked: Asked) -> tuple[str, str, str]:
        return asked.instructions, asked.text, _label(tool)

    def _made(self, tool: Item, asked: Asked) -> list[Item]:
        self._count += 1
        return _MAKERS[tool["type"]](self, tool, asked, f"call_{self._count}")

    def function(self, tool: Item, asked: Asked, call_id: str) -> list[Item]:
        """Call a function with arguments made from its schema."""
        arguments = json.dumps(self._forms.value(tool.get("parameters") or {}, asked.text) or {})
        return [{"type": "function_call", "call_id": call_id, "name": tool["name"], "arguments": arguments}]


def _is_handoff(tool: Item) -> bool:
    return tool.get("name", "").startswith("transfer_to_")


def _label(tool: Item) -> str:
    return tool.get("name") or tool.get("server_label") or tool["type"]


def _is_call_of(item: Item, tool: Item) -> bool:
    kind, wanted = item.get("type", ""), tool["type"]
    if wanted == "mcp":
        return kind == "mcp_call"
    if wanted in ("function", "custom"):
        return kind in ("function_call", "custom_tool_call") and item.get("name") == tool["name"]
    return kind == f"{wanted.removesuffix('_preview')}_call"


def _waits(item: Item) -> bool:
    """Tell whether the program has to answer an item before the model goes on."""
    if item["type"] == "shell_call":
        return item["environment"]["type"] == "local"
    return item["type"] in _ANSWERED


_ANSWERED = {"function_call", "custom_tool_call", "local_shell_call", "apply_patch_call", "mcp_approval_request"}


def _reasoning() -> Item:
    return {"type": "reasoning", "summary": [{"type": "summary_text", "text": "The robot thinks."}]}


def _citation(text: str) -> Item:
    return {"type": "url_citation", "url": _SOURCE, "title": "A page", "start_index": 0, "end_index": len(text)}


def _custom(_robot: Robot, tool: Item, asked: Asked, call_id: str) -> list[Item]:
    return [{"type": "custom_tool_call", "call_id": call_id, "name": tool["name"], "input": asked.text}]


def _shell(_robot: Robot, tool: Item, _asked: Asked, call_id: str) -> list[Item]:
    action = {"commands": ["echo robot"], "timeout_ms": 5_000, "max_output_length": 1_000}
    call: Item = {"type": "shell_call", "call_id": call_id, "action": action, "status": "completed"}
    if (tool.get("environment") or {"type": "local"})["type"] == "local":
        return [{**call, "environment": {"type": "local"}}]
    printed = {"stdout": "robot\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
    output: Item = {"type": "shell_call_output", "call_id": call_id, "output": [printed], "max_output_length": 1_000}
    call["environment"] = {"type": "container_reference", "container_id": "cntr_1"}
    return [call, {**output, "status": "completed"}]


def _local_shell(_robot: Robot, _tool: Item, _asked: Asked, call_id: str) -> list[Item]:
    action = {"type": "exec", "command": ["echo", "robot"], "env": {}, "timeout_ms": 5_000}
    return [{"type": "local_shell_call", "call_id": call_id, "action": action, "status": "completed"}]


def _patch(_robot: Robot, _tool: Item, asked: Asked, call_id: str) -> list[Item]:
    """Create a file, or change the last line of the one that the text shows."""
    shown = _FILE.search(asked.text)
    if shown is None:
        name = next(iter(re.findall(r"\b\w+\.(?:md|txt|py)\b", asked.text)), "robot.txt")
        operation = {"type": "create_file", "path": name, "diff": "+one\n+two\n"}
    else:
        lines = shown["text"].rstrip("\n").split("\n")
        diff = "".join(f" {line}\n" for line in lines[:-1]) + f"-{lines[-1]}\n+{lines[-1]}, checked\n"
        operation = {"type": "update_file", "path": shown["path"], "diff": f"@@\n{diff}"}
    return [{"type": "apply_patch_call", "call_id": call_id, "operation": operation, "status": "completed"}]


def _hosted_mcp(_robot: Robot, tool: Item, asked: Asked, call_id: str) -> list[Item]:
    """Ask for approval where the tool asks for it; call once that is given."""
    label, terms = tool["server_label"], tool.get("require_approval", "always")
    answers = [item["approve"] for item in asked.turn if item.get("type") == "mcp_approval_response"]
    name = asked.choice.get("name") if isinstance(asked.choice, Mapping) else None
    name = name or next(iter(_names(tool.get("allowed_tools"))), None)
    if isinstance(terms, Mapping):
        asking = _names(cast("Item", terms).get("always"))
        name = name or next(iter(asking), None)
        terms = "always" if asking else "never"
    call: Item = {"server_label": label, "name": name or "look", "arguments": json.dumps({"question": asked.text})}
    if terms != "never" and not answers:
        return [{"type": "mcp_approval_request", **call}]
    if answers and not answers[-1]:
        return []
    return [{"type": "mcp_call", "id": f"mcp_{call_id}", **call, "output": "found", "error": None}]


def _names(given: Any) -> list[str]:
    return list(cast("Item", given).get("tool_names", ())) if isinstance(given, Mapping) else list(given or ())


def _web_search(_robot: Robot, _tool: Item, asked: Asked, _call_id: str) -> list[Item]:
    action = {"type": "search", "query": asked.text, "sources": [{"type": "url", "url": _SOURCE}]}
    return [{"type": "web_search_call", "action": action, "status": "completed"}]


def _file_search(_robot: Robot, _tool: Item, asked: Asked, _call_id: str) -> list[Item]:
    found = {"file_id": "file_1", "filename": "example.txt", "score": 0.5, "text": "found", "attributes": {}}
    return [{"type": "file_search_call", "queries": [asked.text], "results": [found], "status": "completed"}]


def _code(_robot: Robot, _tool: Item, _asked: Asked, _call_id: str) -> list[Item]:
    call: Item = {"type": "code_interpreter_call", "code": "print(1)", "container_id": "cntr_1"}
    return [{**call, "outputs": [{"type": "logs", "logs": "1"}], "status": "completed"}]


def _image(_robot: Robot, _tool: Item, _asked: Asked, _call_id: str) -> list[Item]:
    return [{"type": "image_generation_call", "result": _PIXEL, "status": "completed"}]


_MAKERS: dict[str, Callable[[Robot, Item, Asked, str], list[Item]]] = {
    "function": Robot.function,
    "custom": _custom,
    "shell": _shell,
    "local_shell": _local_shell,
    "apply_patch": _patch,
    "mcp": _hosted_mcp,
    "web_search": _web_search,
    "web_search_preview": _web_search,
    "file_search": _file_search,
    "code_interpreter": _code,
    "image_generation": _image,
}
