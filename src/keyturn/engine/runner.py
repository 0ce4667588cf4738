"""Start, resume and stream a run for a caller; each way builds the same `Execution` and finishes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keyturn  # what annotations name of it is imported once they are read: an agent is declared without

from ..agents.agent import Agent
from ..agents.context import TContext
from ..agents.hooks import RunHooks
from ..agents.limits import DEFAULT_MAX_TURNS, UsageLimits
from .run.blocking import waited_for

if TYPE_CHECKING:  # the engine is imported by the first run: a program defines its agents long before
    from .execution import Execution


class Runner:
    """Runs agents.

    >>> from keyturn import Agent, Runner
    >>> from keyturn.testing import ScriptedModel
    >>> Runner.run_sync(Agent(name="a", model=ScriptedModel(["hello"])), "hi").final_output
    'hello'
    """

    @classmethod
    async def run(
        cls,
        starting_agent: Agent[TContext],
        input: str | list[Any] | keyturn.RunState[TContext] | keyturn.RunResult | keyturn.RunResultStreaming,
        *,
        context: TContext | None = None,
        max_turns: int | None = DEFAULT_MAX_TURNS,
        hooks: RunHooks[TContext] | None = None,
        run_config: keyturn.RunConfig | dict[str, Any] | None = None,
        error_handlers: keyturn.RunErrorHandlers | None = None,
        previous_response_id: str | None = None,
        auto_previous_response_id: bool = False,
        conversation_id: str | None = None,
        session: keyturn.Session | None = None,
        journal: keyturn.Journal | str | None = None,
        policy: keyturn.PolicyLike | None = None,
        usage_limits: UsageLimits | None = None,
        requester: str | None = None,
    ) -> keyturn.RunResult:
        """Run an agent on an input, or resume a state, until it is finished or requires a decision.

        `requester` is the id of the person for whom it runs: see `App.start`.
        """
        return await _execution(_given(locals())).finish()

    @classmethod
    def run_sync(
        cls,
        starting_agent: Agent[TContext],
        input: str | list[Any] | keyturn.RunState[TContext] | keyturn.RunResult | keyturn.RunResultStreaming,
        *,
        context: TContext | None = None,
        max_turns: int | None = DEFAULT_MAX_TURNS,
        hooks: RunHooks[TContext] | None = None,
        run_config: keyturn.RunConfig | dict[str, Any] | None = None,
        error_handlers: keyturn.RunErrorHandlers | None = None,
        previous_response_id: str | None = None,
        auto_previous_response_id: bool = False,
        conversation_id: str | None = None,
        session: keyturn.Session | None = None,
        journal: keyturn.Journal | str | None = None,
        policy: keyturn.PolicyLike | None = None,
        usage_limits: UsageLimits | None = None,
        requester: str | None = None,
    ) -> keyturn.RunResult:
        """Run like `run`, without `await`; this works inside a notebook's running loop too."""
        given = _given(locals())
        return waited_for(_finish(given))

    @classmethod
    def run_streamed(
        cls,
        starting_agent: Agent[TContext],
        input: str | list[Any] | keyturn.RunState[TContext] | keyturn.RunResult | keyturn.RunResultStreaming,
        context: TContext | None = None,
        max_turns: int | None = DEFAULT_MAX_TURNS,
        hooks: RunHooks[TContext] | None = None,
        run_config: keyturn.RunConfig | dict[str, Any] | None = None,
        previous_response_id: str | None = None,
        auto_previous_response_id: bool = False,
        conversation_id: str | None = None,
        session: keyturn.Session | None = None,
        *,
        error_handlers: keyturn.RunErrorHandlers | None = None,
        journal: keyturn.Journal | str | None = None,
        policy: keyturn.PolicyLike | None = None,
        usage_limits: UsageLimits | None = None,
        requester: str | None = None,
    ) -> keyturn.RunResultStreaming:
        """Run like `run`, but return at once: the run goes on while its events are read."""
        return _streamed(_given(locals()))


def _given(arguments: dict[str, Any]) -> dict[str, Any]:
    arguments.pop("cls", None)
    return arguments


def _execution(given: dict[str, Any]) -> Execution:
    from .entry import play_of

    return play_of(**given)


async def _finish(given: dict[str, Any]) -> keyturn.RunResult:
    return await _execution(given).finish()


def _streamed(given: dict[str, Any]) -> keyturn.RunResultStreaming:
    from .stream import RunResultStreaming

    return RunResultStreaming(_execution(given))
