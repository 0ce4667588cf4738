"""`python -m tests.corpus.save`: write the saved runs of the version that runs, which every later one must go on with.

For each story a state is kept at each point where it waits, and what came of it; `runs.db` holds all stories where they
wait first, `people.db` those of several people, and `people.waits` what came of these. One that is talked to is in
`talked.db` and `talked.waits`, and a session whose runs wait for their turn in `queued.db` and `queued.waits`.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from keyturn import Agent, App, Runner, RunState
from keyturn.core.upcasts import VERSION
from keyturn.journal.sqlite import SQLiteJournal
from tests.corpus import people, queued, talks
from tests.corpus.stories import ADA, DONE, SECRET, STORIES, Story, voted

HERE = Path(__file__).parent


async def _saved(story: Story) -> dict[str, Any]:
    DONE.clear()
    stages: list[dict[str, Any]] = []
    result = await Runner.run(story.make(), "go")
    while result.interruptions:
        state = result.to_state()
        stages.append({"state": state.to_string(), "done": len(DONE), "asks": asks(result.interruptions)})
        for item in result.interruptions:
            story.decide(state, item)
        result = await Runner.run(story.make(), state)
    return {"answer": result.final_output, "done": list(DONE), "stages": stages}


def asks(items: list[Any]) -> list[list[str]]:
    """Tell what waits, as a later version must show it."""
    return [[item.kind, item.tool_name, item.agent.name, item.digest] for item in items]


async def _fill(path: Path, agents: list[Agent[Any]]) -> None:
    begun = path.exists()
    store = SQLiteJournal(path)
    for agent in agents:
        await Runner.run(agent, "go", journal=store)
    if not begun:
        async with App([voted()], store) as app:
            run = await app.start("voted", "go")
            await run.wait()
            [row] = await app.inbox.list(run=run.id)
            await app.inbox.approve(row, by=ADA)
    await store.close()


async def _save_people(folder: Path) -> None:
    """Save the stories of several people, what waits of them, and what came of each."""
    store = SQLiteJournal(folder / "people.db")
    await people.fill(store)
    waits = await people.shown(store)
    await store.close()
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place) / "people.db"
        shutil.copy(folder / "people.db", copy)
        os.environ["KEYTURN_HOME"] = place
        DONE.clear()
        again = SQLiteJournal(copy)
        said = {"waits": waits, "answers": await people.to_the_end(again), "done": sorted(DONE)}
        await again.close()
    (folder / "people.waits").write_text(json.dumps(said, indent=1) + "\n")


async def _save_talk(folder: Path) -> None:
    """Save the run that is talked to, in a journal and as a state, and what came of both."""
    store = SQLiteJournal(folder / "talked.db")
    kept, state = await talks.saved(store), await talks.state()
    await store.close()
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place) / "talked.db"
        shutil.copy(folder / "talked.db", copy)
        os.environ["KEYTURN_HOME"] = place
        DONE.clear()
        again = SQLiteJournal(copy)
        kept["end"] = await talks.to_the_end(again, kept["run"])
        await again.close()
        kept["done"] = sorted(DONE)
        DONE.clear()
        text = await RunState.from_string(talks.agent(), state["state"])
        state["end"] = await talks.to_the_end(None, text)
        state["done"] = sorted(DONE)
    (folder / "talked.waits").write_text(json.dumps({"journal": kept, "state": state}, indent=1) + "\n")


async def _save_queue(folder: Path) -> None:
    """Save the runs of a session that wait for their turn, and what came of them."""
    store = SQLiteJournal(folder / "queued.db")
    kept = await queued.fill(store)
    await store.close()
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place) / "queued.db"
        shutil.copy(folder / "queued.db", copy)
        os.environ["KEYTURN_HOME"] = place
        again = SQLiteJournal(copy)
        kept["end"] = await queued.to_the_end(again, kept)
        await again.close()
    (folder / "queued.waits").write_text(json.dumps(kept, indent=1) + "\n")


def main() -> None:
    """Write all that are not there yet: what was saved is not saved anew."""
    os.environ["KEYTURN_SECRET"] = SECRET
    folder = HERE / f"v{VERSION}"
    folder.mkdir(exist_ok=True)
    new = {name: story for name, story in STORIES.items() if not (folder / f"{name}.json").exists()}
    for name, story in new.items():
        text = json.dumps(asyncio.run(_saved(story)), indent=1)
        (folder / f"{name}.json").write_text(text + "\n")
    with tempfile.TemporaryDirectory() as home:
        os.environ["KEYTURN_HOME"] = home
        if new:
            asyncio.run(_fill(folder / "runs.db", [story.make() for story in new.values()]))
        if not (folder / "people.db").exists():
            asyncio.run(_save_people(folder))
        if not (folder / "talked.db").exists():
            asyncio.run(_save_talk(folder))
        if not (folder / "queued.db").exists():
            asyncio.run(_save_queue(folder))


if __name__ == "__main__":
    main()
