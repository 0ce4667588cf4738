"""Decide without a person: every waiting call of a result at once, and a run driven to its end that way.

A test's stand-in for the inbox. It goes through `Runner` and `RunState` as any caller does, and knows no other door.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, cast

from ..agents.agent import Agent
from ..core.errors import UserError
from ..engine.result import RunResult
from ..engine.runner import Runner
from ..engine.states.state import RunState
from ..engine.stream import RunResultStreaming
from ..engine.views.items import ToolApprovalItem
from .crash import Answer

Waiting = RunResult | RunResultStreaming | RunState[Any]


def approve_all(waiting: Waiting) -> RunState[Any]:
    """Return a state in which every waiting call is approved.

    >>> from keyturn import Agent, Runner, function_tool
    >>> from keyturn.testing import ScriptedModel, function_call
    >>> @function_tool(needs_approval=True)
    ... def pay(to: str) -> str:
    ...     return f"paid {to}"
    >>> agent = Agent("payer", model=ScriptedModel([[function_call("pay", {"to": "ada"})], "Done."]), tools=[pay])
    >>> result = Runner.run_sync(agent, "pay ada")
    >>> Runner.run_sync(agent, approve_all(result)).final_output
    'Done.'
    """
    return decide(waiting, lambda _item: True)


def reject_all(waiting: Waiting, *, message: str | None = None) -> RunState[Any]:
    """Return a state in which every waiting call is rejected, with `message` for the model.

    >>> from keyturn import Agent
    >>> reject_all(RunState(None, "hi", Agent("a")), message="not today").get_interruptions()
    []
    """
    state = _state(waiting)
    for item in state.get_interruptions():
        state.reject(item, rejection_message=message)
    return state


def decide(waiting: Waiting, how: Callable[[ToolApprovalItem], Any]) -> RunState[Any]:
    """Return a state in which each waiting call is decided by `how`.

    True or "approve" lets it run, False or "reject" does not, a mapping lets it run with these arguments,
    `Answer(value)` is a person's own result, or the answer to what its tool asks. A call in doubt is settled by "ran",
    "did_not_run" or "retry". None leaves it waiting. Anything else is an error: what is merely truthy approves nothing.

    >>> from keyturn import Agent
    >>> decide(RunState(None, "hi", Agent("a")), lambda item: {"to": "bob"} if item.name == "pay" else False).run_id
    '...'
    """
    state = _state(waiting)
    for item in state.get_interruptions():
        _say(state, item, how(item))
    return state


def _state(waiting: Waiting) -> RunState[Any]:
    return waiting if isinstance(waiting, RunState) else waiting.to_state()


def _say(state: RunState[Any], item: ToolApprovalItem, how: Any) -> None:
    if how is None:
        return
    if isinstance(how, Answer):
        state.answer(item, how.value)
    elif isinstance(how, Mapping):
        state.approve(item, edit=cast("Mapping[str, Any]", how))
    elif how is True or how == "approve":
        state.approve(item)
    elif how is False or how == "reject":
        state.reject(item)
    elif how in ("ran", "did_not_run", "retry"):
        state.resolve(item, how)
    else:
        raise UserError(
            f"a call is decided by True, False, a mapping of arguments, Answer(value), 'approve', 'reject', 'ran', "
            f"'did_not_run', 'retry' or None, not by a {type(how).__name__} such as was given for {item.name!r}"
        )


async def drive(
    agent: Agent[Any],
    input: Any,
    *,
    decide: Callable[[RunResult], Any] = approve_all,
    streamed: bool = False,
    rounds: int = 20,
    through_text: bool = False,
    **run_options: Any,
) -> RunResult:
    """Run an agent to its end, deciding whatever waits, at most `rounds` times.

    `decide` makes a state of each paused result, such as `reject_all` or your own function, sync or async. `streamed`
    listens to the run; `through_text` saves and loads the state at every pause, as if another process went on. What
    else is given goes to `Runner` each time.

    >>> import asyncio
    >>> from keyturn.testing import ScriptedModel
    >>> asyncio.run(drive(Agent("a", model=ScriptedModel(["hello"])), "hi", streamed=True)).final_output
    'hello'
    """
    run = _streamed if streamed else Runner.run
    result = await run(agent, input, **run_options)
    for _ in range(rounds):
        if not result.interruptions:
            return result
        state = decide(result)
        state = await state if inspect.isawaitable(state) else state
        if through_text:
            override = run_options.get("context")
            state = await RunState.from_string(agent, state.to_string(), context_override=override)
        result = await run(agent, state, **run_options)
    if result.interruptions:
        waiting = ", ".join(sorted({str(item.name) for item in result.interruptions}))
        raise AssertionError(f"after {rounds} rounds of decisions calls still wait: {waiting}; raise rounds, or decide")
    return result


async def _streamed(agent: Agent[Any], given: Any, **run_options: Any) -> RunResult:
    stream = Runner.run_streamed(agent, given, **run_options)
    async for _event in stream.stream_events():
        pass
    return await stream.run_loop_task
