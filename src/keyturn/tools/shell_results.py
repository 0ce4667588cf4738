"""Convert the result of commands to what the model reads: the provider's own item, or a function's result text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ..core.digest import canonical
from ..core.errors import UserError
from ..core.items import Item
from .base import text_noticed
from .processes.output import allowed_length, fitted, kept_text
from .shell_calls import ShellCallOutcome, ShellCommandOutput, ShellResult

_NOT_RUN = 1  # the exit code beside words that no command wrote: a rejection, an error, a person's answer


def bounded(answer: object, asked: int | None) -> ShellResult:
    """Return an executor's answer as a result, within the length that the model asked for or may have.

    >>> bounded("x" * 100, 50).output[0].stdout
    'xxxxxxx\\n[... 87 of 100 characters cut ...]\\nxxxxxx'
    """
    if isinstance(answer, str):
        answer = ShellResult([ShellCommandOutput(answer, outcome=ShellCallOutcome("exit", 0))])
    if not isinstance(answer, ShellResult):
        raise UserError(f"an executor must return a ShellResult or a string, not {type(answer).__name__}")
    most = allowed_length(asked if asked is not None else answer.max_output_length)
    for each in answer.output:
        each.stdout, each.stderr = fitted(kept_text(each.stdout), kept_text(each.stderr), most)
    answer.max_output_length = asked if asked is not None else answer.max_output_length
    return answer


def output_item(call: Mapping[str, Any], value: object) -> Item:
    """Return a result as the item that answers a call.

    >>> output_item({"type": "shell_call", "call_id": "c1"}, "not today")["output"][0]["stderr"]
    'not today'
    """
    own = call.get("type") == "shell_call"
    if not own and isinstance(value, str):
        return {"type": "function_call_output", "call_id": call["call_id"], "output": value}
    parts = output_parts(value)
    if not own:
        return {"type": "function_call_output", "call_id": call["call_id"], "output": canonical(parts)}
    item: Item = {"type": "shell_call_output", "call_id": call["call_id"], "output": parts}
    if isinstance(value, ShellResult) and value.max_output_length is not None:
        item["max_output_length"] = value.max_output_length
    return item


def output_parts(value: object) -> list[Item]:
    """Return what each command wrote and how it ended, as the Responses API has it; other words as the one part.

    >>> output_parts(ShellResult([ShellCommandOutput("ok", outcome=ShellCallOutcome("timeout"))]))
    [{'stdout': 'ok', 'stderr': '', 'outcome': {'type': 'timeout'}}]
    """
    if isinstance(value, ShellResult):
        return [_part(each.stdout, each.stderr, _outcome(each.outcome)) for each in value.output]
    if isinstance(value, list) and value and all(_is_part(each) for each in cast("list[object]", value)):
        return cast("list[Item]", value)
    text = value if isinstance(value, str) else canonical(cast("object", value))
    return [_part("", text, {"type": "exit", "exit_code": _NOT_RUN})]


def noticed(item: Item, notice: str) -> Item:
    """Put words for the model in front of a result: as a part of its own where it has parts.

    >>> noticed({"type": "shell_call_output", "output": []}, "A person changed it.")["output"][0]["stdout"]
    'A person changed it.'
    """
    if item.get("type") != "shell_call_output":
        return text_noticed(item, notice)
    return {**item, "output": [_part(notice, "", {"type": "exit", "exit_code": 0}), *item["output"]]}


def _part(stdout: str, stderr: str, outcome: Item) -> Item:
    return {"stdout": stdout, "stderr": stderr, "outcome": outcome}


def _outcome(outcome: ShellCallOutcome) -> Item:
    return {"type": "timeout"} if outcome.type == "timeout" else {"type": "exit", "exit_code": outcome.exit_code or 0}


def _is_part(value: object) -> bool:
    match value:
        case {"stdout": str(), "stderr": str(), "outcome": {"type": "timeout"} | {"type": "exit", "exit_code": int()}}:
            return True
        case _:
            return False
