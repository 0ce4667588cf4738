"""The tool `write_todos`: the agent's plan, kept in the deps of its run."""

from __future__ import annotations

from typing import Any

from ..core.errors import UserError
from ..tools.base import Tool, ToolProblem
from ..tools.context import ToolContext
from ..tools.function import function_tool
from .deps import DeepAgentDeps, Todo

MOST_TODOS = 200
_MARKS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}


def todo_tools() -> list[Tool]:
    """Make the tool `write_todos`.

    >>> [tool.name for tool in todo_tools()]
    ['write_todos']
    """

    @function_tool(idempotent=True)
    def write_todos(context: ToolContext[Any], todos: list[Todo]) -> str:
        """Write the whole list of todos anew: what is to be done, is being done and is done.

        Args:
            todos: All items. Each has its content, a status (pending, in_progress or completed) and, while it is in
                progress, what is being done as active_form.
        """
        if len(todos) > MOST_TODOS:
            raise ToolProblem(f"These are {len(todos)} todos; {MOST_TODOS} are allowed.")
        deps = context.context
        if not isinstance(deps, DeepAgentDeps):
            raise UserError("write_todos needs DeepAgentDeps as the deps of the run")
        deps.todos[:] = todos
        return "\n".join(f"{_MARKS[todo.status]} {todo.content}" for todo in todos) or "The list is empty."

    write_todos.keeps_context = True
    return [write_todos]
