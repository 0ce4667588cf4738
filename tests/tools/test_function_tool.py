"""Function tools: prepared strictly, run in time, told in words; nothing of an exception leaks to the model."""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from keyturn.agents.context import RunContextWrapper, ToolContext
from keyturn.core.approval import Approval
from keyturn.core.errors import ToolTimeoutError, UserError
from keyturn.core.preview import Command, Json, Preview, Text
from keyturn.decorators import tool as tool_decorator
from keyturn.support.user_code import RaisedByUser
from keyturn.tools.base import InvalidArguments, OutcomeUnknown, Tool, tool_digest
from keyturn.tools.function import FunctionTool, default_tool_error_function, function_tool
from keyturn.tools.functions.schema import Secret
from tests.table import each

CONTEXT = ToolContext("ctx", tool_name="t", tool_call_id="c1", tool_arguments="{}")
SOON = 0.01


def call(arguments: Any = "{}") -> dict[str, Any]:
    return {"type": "function_call", "call_id": "c1", "name": "t", "arguments": arguments}


async def run(tool: Tool, arguments: str = "{}") -> Any:
    return await tool.invoke(CONTEXT, tool.prepare(call(arguments)))


@function_tool
def add(a: int, b: int = 1) -> int:
    """Add two numbers.

    Args:
        a: The first.
    """
    return a + b


async def echo(context: Any, arguments: str) -> str:
    return arguments


# ------------------------------------------------------------------------------------------------------- declaring


def test_a_function_says_everything_itself() -> None:
    assert (add.name, add.description, add.kind) == ("add", "Add two numbers.", "function")
    assert add.params_json_schema["properties"]["a"]["description"] == "The first."
    assert (add.strict_json_schema, add.needs_approval, add.is_enabled, add.timeout_seconds) == (
        True,
        False,
        True,
        None,
    )
    assert add.qualified_name == "add"
    assert repr(add) == "FunctionTool(name='add')"


def test_options_are_kept() -> None:
    terms = Approval(expires="4h")
    made = function_tool(
        name_override="plus",
        description_override="Sums.",
        needs_approval=True,
        idempotent=True,
        read_only=True,
        check=print,
        approval=terms,
        risk="high",
        timeout=3,
        strict_mode=False,
    )(add.on_invoke_tool.func)
    assert (made.name, made.description, made.needs_approval) == ("plus", "Sums.", True)
    assert (made.idempotent, made.read_only, made.check, made.approval) == (True, True, print, terms)
    assert (made.risk, made.timeout_seconds, made.strict_json_schema) == ("high", 3, False)


def test_the_decorator_has_a_second_name() -> None:
    assert tool_decorator is function_tool


def test_a_hand_made_tool_takes_the_contracts_places() -> None:
    made = FunctionTool("echo", "Says it again.", {}, echo, False, False, ["in"], ["out"], True, 2.5, "raise_exception")
    assert (made.strict_json_schema, made.is_enabled, made.needs_approval) == (False, False, True)
    assert (made.tool_input_guardrails, made.tool_output_guardrails) == (["in"], ["out"])
    assert (made.timeout_seconds, made.timeout_behavior) == (2.5, "raise_exception")


def test_a_strict_schema_is_closed() -> None:
    schema = {"type": "object", "properties": {"x": {"type": "string"}}}
    assert FunctionTool("t", "", schema, echo).params_json_schema["additionalProperties"] is False
    assert FunctionTool("t", "", schema, echo, strict_json_schema=False).params_json_schema == schema


@each(
    ("options", "said"),
    [
        ({"needs_approval": "always"}, "needs_approval must be True, False or a callable, not 'always'"),
        ({"needs_approval": None}, "needs_approval must be True, False or a callable, not None"),
        ({"needs_approval": 1}, "needs_approval must be"),
        ({"is_enabled": "no"}, "is_enabled must be True, False or a callable"),
        ({"timeout": 0}, "timeout_seconds must be a number of seconds greater than 0"),
        ({"timeout": -1}, "timeout_seconds must be"),
        ({"timeout": True}, "timeout_seconds must be"),
        ({"timeout": float("nan")}, "timeout_seconds must be"),
        ({"timeout": "1s"}, "timeout_seconds must be"),
        ({"timeout_behavior": "ignore"}, "timeout_behavior must be 'error_as_result' or 'raise_exception'"),
        ({"timeout_error_function": "text"}, "timeout_error_function must be a callable or None"),
        ({"failure_error_function": "text"}, "failure_error_function must be a callable or None"),
        ({"check": True}, "check must be a callable or None"),
        ({"preview": "text"}, "preview must be a plain function"),
        ({"preview": echo}, "preview must be a plain function"),
        ({"approval": True}, "approval must be an Approval(...) or None"),
    ],
)
def test_a_wrong_option_is_refused_when_it_is_declared(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match="tool 'f'") as raised:

        @function_tool(**options)
        def f() -> None: ...

    assert said in str(raised.value)


@pytest.mark.parametrize("name", ["", None, 3])
def test_a_tool_has_a_name(name: Any) -> None:
    with pytest.raises(UserError, match="a tool's name must be a non-empty string"):
        FunctionTool(name, "", {}, echo)


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(TypeError, match="needs_aproval"):
        function_tool(needs_aproval=True)


# -------------------------------------------------------------------------------------------------------- preparing


def test_the_models_text_is_kept_where_it_says_what_runs() -> None:
    kept = add.prepare(call('{ "a": 1, "b": 2 }'))
    assert (kept.text, kept.params) == ('{ "a": 1, "b": 2 }', {"a": 1, "b": 2})
    filled = add.prepare(call('{"a": 1}'))
    assert (filled.text, filled.params) == ('{"a":1,"b":1}', {"a": 1, "b": 1})


BAD = ["null", "[]", '"x"', "{", '{"a": 1, "a": 2}', '{"a": NaN}', '{"a": 1e999}', '{"a": "\\ud800"}', '{"a":1} x']


@each("text", [*BAD, "", '{"a": "1"}', '{"a": 1, "c": 2}', '{"a": null}'])
def test_what_the_function_cannot_take_is_refused(text: str) -> None:
    with pytest.raises(InvalidArguments, match="The arguments of add are invalid"):
        add.prepare(call(text))


@each("text", BAD)
def test_a_hand_made_tool_takes_any_object_and_nothing_else(text: str) -> None:
    made = FunctionTool("echo", "", {}, echo)
    with pytest.raises(InvalidArguments, match="The arguments of echo are invalid"):
        made.prepare(call(text))


async def test_a_hand_made_tool_gets_the_models_text() -> None:
    made = FunctionTool("echo", "", {}, echo)
    assert await run(made, '{"x":  1}') == '{"x":  1}'
    empty = made.prepare(call(""))
    assert (empty.text, empty.params) == ("{}", {})
    assert made.prepare({"call_id": "c1"}).params == {}


def test_an_edit_is_validated_like_the_models_words() -> None:
    assert add.edit({"a": 5}).params == {"a": 5, "b": 1}
    with pytest.raises(InvalidArguments):
        add.edit({"a": "five"})


def test_the_digest_follows_name_description_and_schema() -> None:
    made = function_tool(lambda x: x, name_override="f")
    spec, digests = made.spec(), [tool_digest(made)]
    assert made.spec() is spec
    assert spec["kind"] == "function"
    for field, value in (("name", "g"), ("description", "new"), ("params_json_schema", {"type": "object"})):
        setattr(made, field, value)
        digests.append(tool_digest(made))
    assert len(set(digests)) == 4
    made.needs_approval = True
    assert tool_digest(made) == digests[-1]


# ---------------------------------------------------------------------------------------------------------- running


async def test_sync_and_async_functions_run() -> None:
    @function_tool
    async def later(x: int) -> int:
        return x * 2

    assert await run(add, '{"a": 2}') == 3
    assert await run(later, '{"x": 4}') == 8


async def test_a_sync_function_runs_in_a_thread_with_the_callers_context() -> None:
    mark = contextvars.ContextVar("mark", default="none")
    mark.set("seen")

    @function_tool
    def where() -> tuple[bool, str]:
        return threading.current_thread() is threading.main_thread(), mark.get()

    assert await run(where) == (False, "seen")


async def test_the_context_is_given_where_it_is_asked_for() -> None:
    @function_tool
    def plain(wrapper: RunContextWrapper[str], x: int) -> Any:
        return wrapper, x

    @function_tool(strict_mode=False)
    async def full(context: ToolContext[Any], *rest: int, **options: int) -> Any:
        return context, rest, options

    assert await run(plain, '{"x": 1}') == (CONTEXT, 1)
    assert "wrapper" not in plain.params_json_schema["properties"]
    assert await run(full, '{"rest": [1, 2], "options": {"deep": 3}}') == (CONTEXT, (1, 2), {"deep": 3})


async def test_a_plain_function_that_returns_an_awaitable_is_awaited() -> None:
    async def inner(x: int) -> int:
        return x + 1

    @function_tool
    def outer(x: int) -> Any:
        return inner(x)

    assert await run(outer, '{"x": 1}') == 2


async def test_arguments_become_the_declared_types() -> None:
    class Order(BaseModel):
        id: int

    seen: list[Any] = []

    @function_tool
    def ship(order: Order) -> None:
        seen.append(order)

    await run(ship, '{"order": {"id": 3}}')
    assert seen == [Order(id=3)]


async def test_an_invoker_put_in_later_is_called_with_what_was_frozen() -> None:
    @function_tool
    def double(x: int, y: int = 2) -> int:
        return x * y

    inner, seen = double.on_invoke_tool, []

    async def watched(context: Any, text: str) -> Any:
        seen.append(text)
        return await inner(context, text)

    double.on_invoke_tool = watched
    assert await run(double, '{"x": 3}') == 6
    assert seen == ['{"x":3,"y":2}']


async def test_the_invoker_can_be_called_by_hand() -> None:
    assert await add.on_invoke_tool(CONTEXT, '{"a": 1}') == 2
    assert await add.on_invoke_tool(CONTEXT, '{"a": "x"}') == default_tool_error_function(None, ValueError())
    strict = function_tool(failure_error_function=None)(add.on_invoke_tool.func)
    with pytest.raises(InvalidArguments):
        await strict.on_invoke_tool(CONTEXT, "{}")


# ----------------------------------------------------------------------------------------------------------- failing


async def test_the_model_never_reads_an_exceptions_text() -> None:
    text = await add.failure(CONTEXT, ValueError("password=hunter2"))
    assert text == "An error occurred while running the tool. Please try again."


async def test_failures_are_told_as_the_user_says() -> None:
    async def later(context: Any, error: Exception) -> str:
        return f"{context.tool_name}: {error}"

    def declared(failure: Any) -> FunctionTool:
        return function_tool(failure_error_function=failure)(add.on_invoke_tool.func)

    assert await declared(later).failure(CONTEXT, ValueError("x")) == "t: x"
    assert await declared(lambda context, error: "no").failure(CONTEXT, ValueError("x")) == "no"
    with pytest.raises(ValueError, match="x"):
        await declared(None).failure(CONTEXT, ValueError("x"))


async def test_a_tool_cannot_end_the_process() -> None:
    @function_tool
    def threaded() -> None:
        sys.exit(3)

    @function_tool
    async def awaited() -> None:
        sys.exit(3)

    for made in (threaded, awaited):
        with pytest.raises(RaisedByUser, match="SystemExit: 3"):
            await run(made)


async def test_stop_iteration_in_a_thread_is_an_error_and_no_hang() -> None:
    @function_tool
    def first() -> Any:
        return next(iter([]))

    with pytest.raises(RaisedByUser, match="StopIteration"):
        await asyncio.wait_for(run(first), 5)


# ---------------------------------------------------------------------------------------------------------- time out


async def never() -> None:
    await asyncio.Event().wait()


async def test_an_async_tool_is_stopped_and_the_model_is_told() -> None:
    stopped: list[bool] = []

    @function_tool(timeout=SOON)
    async def wait() -> None:
        try:
            await never()
        except asyncio.CancelledError:
            stopped.append(True)
            raise

    assert await run(wait) == "Tool 'wait' timed out after 0.01 seconds."
    assert stopped == [True]


async def test_the_words_of_a_timeout_can_be_chosen() -> None:
    async def later(context: Any, error: Exception) -> str:
        assert isinstance(error, ToolTimeoutError)
        return f"{error.tool_name} {error.timeout_seconds}"

    made = function_tool(timeout=SOON, timeout_error_function=later, name_override="wait")(never)
    assert await run(made) == "wait 0.01"


async def test_a_timeout_can_stop_the_run() -> None:
    made = function_tool(timeout=SOON, timeout_behavior="raise_exception")(never)
    with pytest.raises(ToolTimeoutError) as raised:
        await run(made)
    assert raised.value.tool_name == "never"
    with pytest.raises(ToolTimeoutError):
        await made.failure(CONTEXT, raised.value)


async def test_a_thread_cannot_be_stopped_so_its_outcome_is_unknown() -> None:
    release = threading.Event()

    @function_tool(timeout=SOON)
    def transfer() -> None:
        release.wait(10)

    try:
        with pytest.raises(OutcomeUnknown, match="cannot be stopped") as raised:
            await run(transfer)
        with pytest.raises(OutcomeUnknown):
            await transfer.failure(CONTEXT, raised.value)
    finally:
        release.set()


async def test_a_thread_that_only_reads_just_times_out() -> None:
    release = threading.Event()

    @function_tool(timeout=SOON, read_only=True)
    def look() -> None:
        release.wait(10)

    try:
        assert await run(look) == "Tool 'look' timed out after 0.01 seconds."
    finally:
        release.set()


async def test_a_timeout_of_the_tools_own_is_an_error_like_any_other() -> None:
    @function_tool(timeout=60)
    async def fetch() -> None:
        raise TimeoutError("upstream")

    with pytest.raises(TimeoutError, match="upstream"):
        await run(fetch)


async def test_in_time_is_in_time() -> None:
    assert await run(function_tool(timeout=60)(add.on_invoke_tool.func), '{"a": 1}') == 2


# ----------------------------------------------------------------------------------------------------------- showing


def test_without_a_preview_the_arguments_are_shown() -> None:
    assert add.preview({"a": 1, "b": 2}) == Preview((Json({"a": 1, "b": 2}),))


@pytest.mark.parametrize(
    ("made", "blocks"),
    [
        ("delete it", (Text("delete it"),)),
        (Command("rm x"), (Command("rm x"),)),
        (["first", Command("rm x")], (Text("first"), Command("rm x"))),
        (Preview((Text("all"),), summary="sum"), (Text("all"),)),
    ],
)
def test_a_preview_may_be_said_in_several_ways(made: Any, blocks: Any) -> None:
    shown = FunctionTool("t", "", {}, echo, preview=lambda params: made).preview({})
    assert shown.blocks == blocks


@pytest.mark.parametrize("made", [None, 3, [], [3], {"text": "x"}])
def test_a_broken_preview_shows_the_arguments_and_says_so(made: Any) -> None:
    note, arguments = FunctionTool("t", "", {}, echo, preview=lambda params: made).preview({"a": 1}).blocks
    assert "preview failed (UserError)" in note.text
    assert arguments == Json({"a": 1})


def test_a_preview_that_raises_tells_no_secret() -> None:
    def broken(params: Any) -> str:
        raise LookupError(params["password"])

    note, _ = FunctionTool("t", "", {}, echo, preview=broken).preview({"password": "hunter2"}).blocks
    assert "LookupError" in note.text
    assert "hunter2" not in note.text


def test_secrets_are_redacted_before_anybody_looks() -> None:
    seen: list[Any] = []

    @function_tool(preview=lambda params: seen.append(params) or f"log in as {params['user']} {params['password']}")
    def login(user: str, password: Annotated[str, Secret]) -> None: ...

    params = {"user": "ann", "password": "hunter2"}
    assert login.secrets == ("password",)
    assert "hunter2" not in str(login.preview(params))
    assert "hunter2" not in str(seen)
    assert params["password"] == "hunter2", "the arguments that run are left alone"
    login._preview = None
    assert "hunter2" not in str(login.preview(params))


def test_the_result_is_an_item_under_the_providers_label() -> None:
    assert add.output(call(), {"sum": 3}) == {
        "type": "function_call_output",
        "call_id": "c1",
        "output": "{'sum': 3}",
    }
