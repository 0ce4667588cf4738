"""An inbox whose every method names its person: what one person's inbox is made over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..agents.agent import Agent
from ..core import commands as cm
from ..core.run import Run
from ..directory.people import People
from ..directory.reads import Reads
from ..journal import opened
from ..journal.base import Store
from .deciding import Deciding
from .marking import Marking
from .reading import Reading
from .request_store import RequestStore


class NamedInbox(Reading, Marking, Deciding):
    """Reads, marks and decides requests of a journal; the three parts share its requests and nothing else."""

    def __init__(
        self, store: Store | str, agents: Mapping[str, Agent[Any]] | None = None, people: People | None = None
    ) -> None:
        journal = opened(store) if isinstance(store, str) else store
        self._requests = RequestStore(journal, agents or {}, People(journal) if people is None else people)

    @property
    def store(self) -> Store:
        """Return the journal that this is the inbox of."""
        return self._requests.store

    @property
    def people(self) -> People:
        """Return the directory of the journal."""
        return self._requests.people

    @property
    def reads(self) -> Reads:
        """Return the record of who reads arguments."""
        return self._requests.reads

    async def now(self) -> int:
        """Return the journal's time, in milliseconds since 1970."""
        return await self.store.now()

    async def tell(self, run: str, *commands: cm.RunCommand) -> Run:
        """Decide commands against a run as it stands and append their events; return the run afterwards."""
        log = await self._requests.log(run)
        await self._requests.commit(log, *commands)
        return log.run
