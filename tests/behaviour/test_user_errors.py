"""What a tool or a hook raises is caught by `except AgentsException`, by its own class, and is at hand as the cause."""

from __future__ import annotations

import pickle
from typing import Any

import pydantic
import pytest

import keyturn
import keyturn.testing
from keyturn import (
    Agent,
    AgentHooks,
    AgentsException,
    ModelInputData,
    RunConfig,
    RunHooks,
    Runner,
    UserError,
    function_tool,
)
from keyturn.core.errors import KeyturnError
from keyturn.support.user_code import as_user_error
from keyturn.testing import ModelStep, ScriptedModel, function_call
from tests.playing import Run


class NoAccount(LookupError):
    """An error whose constructor takes something else than its words."""

    def __init__(self, account: str, *, code: int) -> None:
        super().__init__(f"no account {account}")
        self.code = code


class Sealed(Exception):
    """An error that takes no attributes."""

    def __setattr__(self, name: str, value: Any) -> None:
        raise TypeError("sealed")


class Small(pydantic.BaseModel):
    number: int


RAISED = NoAccount("A-17", code=4)


@function_tool(failure_error_function=None)
async def pay(account: str) -> str:
    """Pay."""
    raise RAISED


@function_tool
async def look(account: str) -> str:
    """Look."""
    return "there"


def agent_of(tool: Any, **kept: Any) -> Agent[Any]:
    model = ScriptedModel([function_call(tool.name, {"account": "A-17"}, call_id="c1"), "done"])
    return Agent("desk", model=model, tools=[tool], **kept)


async def test_without_a_failure_error_function_the_error_is_caught_both_ways(run: Run) -> None:
    with pytest.raises(AgentsException) as ours:
        await run(agent_of(pay), "go")
    assert isinstance(ours.value, UserError)
    assert ours.value.__cause__ is RAISED
    assert (str(ours.value), ours.value.message) == ("no account A-17", "no account A-17")
    assert [item.type for item in ours.value.run_data.new_items] == ["tool_call_item", "tool_call_output_item"]
    assert ours.value.__notes__ == ["raised by tool 'pay'"]
    with pytest.raises(NoAccount) as theirs:
        await run(agent_of(pay), "go")
    assert theirs.value.code == 4


async def test_so_is_what_a_failure_error_function_raises(run: Run) -> None:
    def fail(_context: Any, error: Exception) -> str:
        raise OSError(5, "no line", "tty") from error

    @function_tool(failure_error_function=fail)
    async def pay_or_fail(account: str) -> str:
        """Pay."""
        raise RAISED

    with pytest.raises(AgentsException) as ours:
        await run(agent_of(pay_or_fail), "go")
    cause = ours.value.__cause__
    assert isinstance(cause, OSError)
    assert cause.__cause__ is RAISED
    assert isinstance(ours.value, OSError)
    assert (ours.value.errno, ours.value.filename) == (5, "tty")


async def test_so_is_what_a_nested_agent_without_one_raises(run: Run) -> None:
    inner = Agent("inner", model=ScriptedModel([ModelStep.raise_error(OSError("net"))]))
    tool = inner.as_tool("research", "Look into it.", failure_error_function=None)
    desk = Agent("desk", model=ScriptedModel([function_call("research", {"input": "why"})]), tools=[tool])
    with pytest.raises(AgentsException, match="net") as ours:
        await run(desk, "go")
    assert type(ours.value.__cause__) is OSError


RUN_HOOKS = ["on_agent_start", "on_agent_end", "on_llm_start", "on_llm_end", "on_tool_start", "on_tool_end"]
AGENT_HOOKS = ["on_start", "on_end", "on_llm_start", "on_llm_end", "on_tool_start", "on_tool_end"]


def raising(base: type[Any], name: str, error: Exception) -> Any:
    async def hook(*_args: Any, **_kwargs: Any) -> None:
        raise error

    return type("Raising", (base,), {name: hook})()


@pytest.mark.parametrize("name", RUN_HOOKS)
async def test_what_a_hook_raises_is_caught_both_ways(run: Run, name: str) -> None:
    problem = NoAccount("B", code=7)
    for wanted in (AgentsException, NoAccount):
        with pytest.raises(wanted) as raised:
            await run(agent_of(look), "go", hooks=raising(RunHooks, name, problem))
        assert raised.value.__cause__ is problem
        assert name in raised.value.__notes__[0]


@pytest.mark.parametrize("name", AGENT_HOOKS)
async def test_so_is_what_a_hook_of_an_agent_raises(run: Run, name: str) -> None:
    problem = NoAccount("B", code=7)
    with pytest.raises(AgentsException) as raised:
        await run(agent_of(look, hooks=raising(AgentHooks, name, problem)), "go")
    assert raised.value.__cause__ is problem


async def test_so_is_what_a_hook_of_a_handoff_raises(run: Run) -> None:
    problem = NoAccount("B", code=7)
    other = Agent("other", model=ScriptedModel(["done"]))
    first = Agent("first", model=ScriptedModel([function_call("transfer_to_other", {})]), handoffs=[other])
    with pytest.raises(AgentsException) as raised:
        await run(first, "go", hooks=raising(RunHooks, "on_handoff", problem))
    assert raised.value.__cause__ is problem


async def test_an_error_of_ours_comes_out_as_it_is(run: Run) -> None:
    problem = UserError("that cannot be")
    with pytest.raises(UserError) as raised:
        await run(agent_of(look), "go", hooks=raising(RunHooks, "on_tool_start", problem))
    assert raised.value is problem


async def test_a_run_stopped_by_a_hook_goes_on(run: Run) -> None:
    agent = agent_of(look)
    with pytest.raises(AgentsException) as raised:
        await run(agent, "go", hooks=raising(RunHooks, "on_tool_end", OSError("pipe")))
    assert (await Runner.run(agent, raised.value.run_data.to_state())).final_output == "done"


async def test_a_hook_that_raises_in_a_nested_agent_is_its_tools_error(run: Run) -> None:
    """It failed in there: the outer agent hears of it, and the run is not stopped."""
    hooks = raising(AgentHooks, "on_tool_start", OSError("pipe"))
    inner = Agent("inner", model=ScriptedModel([function_call("look", {"account": "x"})]), tools=[look], hooks=hooks)
    tool = inner.as_tool("research", "Look into it.")
    desk = Agent("desk", model=ScriptedModel([function_call("research", {"input": "why"}), "done"]), tools=[tool])
    assert (await run(desk, "go")).final_output == "done"


def test_errors_of_every_class_can_be_carried() -> None:
    group = ExceptionGroup("two", [ValueError("a"), OSError("b")])
    for error in (ValueError(), KeyError("k"), UnicodeDecodeError("utf8", b"x", 0, 1, "bad"), group, Sealed("s")):
        made = as_user_error(error, "tool 't'")
        assert isinstance(made, AgentsException)
        assert isinstance(made, type(error))
        assert (str(made), type(made).__name__, made.__cause__) == (str(error), type(error).__name__, error)
    with pytest.raises(pydantic.ValidationError) as wrong:
        Small.model_validate({"number": "no"})
    for error in (wrong.value, StopIteration(3), StopAsyncIteration()):
        made = as_user_error(error, "tool 't'")
        assert str(made).startswith(f"tool 't' raised {type(error).__name__}")
        assert made.__cause__ is error
    copied = pickle.loads(pickle.dumps(as_user_error(OSError(5, "no line"), "tool 't'")))
    assert isinstance(copied, UserError)
    assert isinstance(copied, OSError)
    assert str(copied) == "[Errno 5] no line"


def test_every_error_of_ours_has_its_message() -> None:
    public = [getattr(keyturn, name) for name in keyturn.__all__]
    public += [getattr(keyturn.testing, name) for name in keyturn.testing.__all__]
    errors = [one for one in public if isinstance(one, type) and issubclass(one, Exception)]
    silent = [one for one in errors if not issubclass(one, Warning) and not hasattr(one, "message")]
    assert silent == []
    assert keyturn.ToolTimeoutError("backup", 2.5).message == "tool 'backup' timed out after 2.5 s"
    assert keyturn.FileProblem("gone").message == "gone"


def test_an_error_of_a_user_may_have_a_message_of_its_own() -> None:
    class Own(KeyturnError):
        def __init__(self, message: str) -> None:
            self.message = message
            super().__init__("other words")

    assert (Own("mine").message, str(Own("mine"))) == ("mine", "other words")


NO_LIST: Any = "text"


@pytest.mark.parametrize("answer", [None, True, "all", ModelInputData(NO_LIST, None)])
async def test_a_filter_of_the_models_input_that_returns_something_else_is_named(run: Run, answer: Any) -> None:
    config = RunConfig(call_model_input_filter=lambda data: answer)
    with pytest.raises(UserError, match="call_model_input_filter must return a ModelInputData"):
        await run(Agent("a", model=ScriptedModel(["hello"])), "hi", run_config=config)


@pytest.mark.parametrize("answer", [None, True, {"is_final_output": True}])
async def test_a_judge_of_results_that_returns_something_else_is_named(run: Run, answer: Any) -> None:
    model = ScriptedModel([[function_call("look", {"account": "1"})], "done"])
    agent = Agent("a", model=model, tools=[look], tool_use_behavior=lambda context, results: answer)
    with pytest.raises(UserError, match="tool_use_behavior must return a ToolsToFinalOutputResult, not"):
        await run(agent, "hi")
