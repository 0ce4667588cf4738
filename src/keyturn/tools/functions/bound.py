"""A Python function as the invoker of a tool: awaited, or run in a worker thread.

`call` is the engine's way in: it takes arguments that are frozen already. Calling the object itself is for
everybody else (a test, a wrapper): it takes a model's text, and errors come back as text.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from ...support.user_code import answer_of, awaited, contained

ToolErrorFunction = Callable[[Any, Exception], str | Awaitable[str]]


class CallSchema(Protocol):
    """What is needed of a `FunctionSchema`; the real one loads when a function is declared, not with every agent."""

    @property
    def params_json_schema(self) -> dict[str, Any]:
        """Return the JSON schema of the parameters."""
        ...

    @property
    def takes_context(self) -> bool:
        """Return whether the function takes the context as its first argument."""
        ...

    @property
    def is_async(self) -> bool:
        """Return whether the function is a coroutine function."""
        ...

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return the names of the arguments to redact."""
        ...

    def freeze(self, text: str) -> Any:
        """Validate a model's text and return the arguments that will run."""
        ...

    def bind(self, text: str) -> tuple[list[Any], dict[str, Any]]:
        """Convert frozen arguments to those of a Python call."""
        ...


def default_tool_error_function(ctx: object, error: Exception) -> str:
    """Return what the model is told when a tool raised: never the exception's text, which may hold secrets.

    >>> default_tool_error_function(None, ValueError("password=hunter2"))
    'An error occurred while running the tool. Please try again.'
    """
    return "An error occurred while running the tool. Please try again."


class BoundFunction:
    """Calls a function for a tool; `function_tool` puts it in `FunctionTool.on_invoke_tool`."""

    def __init__(
        self, func: Callable[..., Any], schema: CallSchema, failure_error_function: ToolErrorFunction | None
    ) -> None:
        self.func = func
        self.schema = schema
        self._failure = failure_error_function

    async def call(self, context: object, text: str) -> Any:
        """Run the function with arguments that `schema.freeze` returned."""
        args, kwargs = self.schema.bind(text)
        if self.schema.takes_context:
            args.insert(0, context)
        if self.schema.is_async:
            return await answer_of(self.func, *args, **kwargs)
        return await awaited(await in_worker(self.func, args, kwargs))

    async def __call__(self, context: object, text: str) -> Any:
        """Run the function with a model's own text; an error goes to `failure_error_function`."""
        try:
            return await self.call(context, self.schema.freeze(text).text)
        except Exception as error:
            return await told(self._failure, context, error)


async def told(failure_error_function: ToolErrorFunction | None, context: Any, error: Exception) -> Any:
    """Return what the model is told of an error; raise the error where nothing is to be told."""
    if failure_error_function is None:
        raise error
    return await answer_of(failure_error_function, context, error)


async def in_worker(func: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Call a plain function in a worker thread, so that it blocks nobody."""
    from ...support.threads import in_thread  # here, because declaring tools needs no event loop and loading it is slow

    def work() -> Any:
        with contained:  # a future cannot carry StopIteration: whoever waited would wait for ever
            return func(*args, **kwargs)

    return await in_thread(work)
