"""Make the execution that a session attends: of a new run, of a state in hand, or of a run that a journal keeps."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, cast

from ..agents.settings import RunConfig
from ..core.aside import SetAside
from ..core.errors import Conflict, UserError
from ..engine.attended import Attend, AttendedExecution, Hosting
from ..engine.driving.taking import claimed
from ..engine.entry import play_of
from ..engine.run.agents import AgentGraph
from ..engine.run.new_ids import claimant
from ..engine.states.loading import ContextOptions, found
from ..engine.states.state import RunState
from ..journal.base import Journal
from .agent import RealtimeAgent
from .config import RealtimeRunConfig

_LOOK_AGAIN = 0.2


@dataclass
class Beginning:
    """Holds what a session begins with, and makes the execution of its run."""

    agent: RealtimeAgent[Any]
    config: RealtimeRunConfig
    options: dict[str, Any]
    context: Any = None
    resumed: str | RunState[Any] | None = None
    requester: str | None = None
    hosting: Hosting = field(default_factory=lambda: Hosting(RunConfig()))

    async def execution(self, attend: Attend) -> AttendedExecution:
        """Make the execution; a run of a journal is claimed here, once nobody else holds it."""
        if isinstance(self.resumed, str):
            play = await self._taken_up(self.resumed)
        else:
            given: Any = [] if self.resumed is None else self.resumed
            context = {} if self.context is None else {"context": self.context}
            play = self._play(given, **context)
        play.attend = attend
        try:
            if self.hosting.attach is not None:
                await self.hosting.attach(play)
        except BaseException:
            if play.claim is not None and play.live.journal is not None:
                await play.live.journal.release(play.claim, play.claim.at)
            raise
        return play

    async def let_go(self) -> None:
        """Let go of what the app opened for the execution."""
        if self.hosting.let_go is not None:
            await self.hosting.let_go()

    def _play(self, given: object, **more: Any) -> AttendedExecution:
        return cast(
            "AttendedExecution",
            play_of(
                self.agent,
                given,
                execution=AttendedExecution,
                max_turns=None,
                requester=self.requester,
                **self.options,
                **more,
            ),
        )

    async def _taken_up(self, run_id: str) -> AttendedExecution:
        journal: Journal | None = self.options["journal"]
        if journal is None:
            raise UserError("a run is found again by its id in a journal: make the runner with journal=")
        ttl = AttendedExecution.lease_ms
        claim = await _claimed(journal, run_id, ttl)
        try:
            options: ContextOptions = {**(self.hosting.makes or {}), "context": self.context}
            live = await found(journal, run_id, self._root, options, held=True)
            if live.run.status == "finished":
                raise UserError(f"the conversation of run {run_id!r} is over; begin another one")
            if live.run.frames and all(frame.barrier for frame in live.run.frames.values()):
                raise UserError(f"run {run_id!r} is no realtime session; resume it with Runner.run")
            play = self._play(await RunState.of(live))
        except BaseException:
            await journal.release(claim, claim.at)  # it may be due: somebody who can looks at it
            raise
        play.claim = claim
        return play

    def _root(self, name: str) -> Any:
        agent = AgentGraph(self.agent).agent_at.get(name)
        if agent is None or agent is not self.agent:
            raise UserError(f"that run is of agent {name!r} and not of {self.agent.name!r}")
        return agent


async def _claimed(journal: Journal, run_id: str, ttl: int) -> Any:
    """Claim a run, waiting for as long as a holder that has died would hold it; one that lives renews its claim."""
    until = asyncio.get_running_loop().time() + ttl / 1_000 + 1
    while True:
        try:
            return await claimed(journal, run_id, claimant("session"), ttl)
        except SetAside:
            raise
        except Conflict:
            if asyncio.get_running_loop().time() > until:
                raise
        await asyncio.sleep(_LOOK_AGAIN)
