"""A session with a run that waits for a person and two that wait for their turn. It is not changed any more."""

from __future__ import annotations

from typing import Any

from keyturn import Agent, App, MemorySession, RunConfig
from keyturn.journal.rows import Query
from keyturn.models.scripted.model import last_user_text
from keyturn.testing import ScriptedModel
from tests.corpus.stories import ADA, PAY, call
from tests.waiting import until_status


def agent() -> Agent[Any]:
    """An agent that pays on "pay", and repeats all else."""

    def answer(request: Any) -> Any:
        asked = last_user_text(request) or ""
        return [call("pay", 1)] if asked == "pay" and request.input[-1].get("role") == "user" else f"heard {asked}"

    return Agent("queued", model=ScriptedModel(answer), tools=[PAY])


def app(store: Any, session: MemorySession) -> App:
    """The app of the session."""
    config = RunConfig(paused_session="queue")
    return App([agent()], store, run_config=config, sessions=lambda _name: session)


async def fill(store: Any) -> dict[str, Any]:
    """Start three runs, and return them with what the session holds."""
    session = MemorySession("s")
    async with app(store, session) as begun:
        runs = [(await begun.start("queued", text, session_id="s")).id for text in ("pay", "second", "third")]
        for run, status in zip(runs, ("waiting", "queued", "queued"), strict=True):
            await until_status(begun, run, status)
    return {"runs": runs, "session": await session.get_items()}


async def to_the_end(store: Any, kept: dict[str, Any]) -> dict[str, Any]:
    """Approve what waits, and return every answer and what the session holds then."""
    session = MemorySession("s")
    await session.add_items(kept["session"])
    async with app(store, session) as moving:
        [row] = await moving.inbox.list(Query(state="open"))
        await moving.inbox.approve(row, by=ADA)
        answers = [str((await moving.result(run, 20)).final_output) for run in kept["runs"]]
    return {"answers": answers, "session": await session.get_items()}
