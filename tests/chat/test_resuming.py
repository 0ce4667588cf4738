"""A conversation outlives its process: it is listed, read and gone on with, and what was in flight is asked about."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from keyturn.chat.archive import talk_of, talks_in
from keyturn.core.errors import RunMissing, UserError
from keyturn.journal import open_journal
from keyturn.testing import ScriptedModel, function_call
from tests import forked
from tests.chat.playing_chat import Chat, chat, runs, told, writes
from tests.playing import KEY
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("undrawn")

SOURCE = Path(__file__).resolve().parents[2]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    return folder


async def talks(root: Path) -> list[Any]:
    store: Any = open_journal(f"sqlite:///{root.parent / 'journal.db'}")
    try:
        return await talks_in(store)
    finally:
        await store.close()


async def test_what_waits_is_there_in_the_next_process(root: Path) -> None:
    async with chat(root, [writes("/a")]) as screen:
        await screen.say("Write a.")
        await screen.press("ctrl+q")
    assert screen.app.return_code == 0
    assert screen.app.return_value == screen.talk.run_id
    [talk] = await talks(root)
    assert (talk.title, talk.last.status, talk.last.waiting) == ("Write a.", "waiting", 1)
    async with chat(root, "Done.", talk=talk) as again:
        await again.rest()
        assert "Write a." in again.text()
        await again.decide("a")
        assert (root / "a").exists()
        assert "Done." in again.text()
        await again.press("ctrl+q")
    assert again.app.return_value == ""


@pytest.mark.trial
async def test_an_earlier_conversation_is_chosen_from_the_list(root: Path) -> None:
    async with chat(root, "One.", "Two.", "Three.") as screen:
        await screen.say("First.")
        await screen.say("Second.")
        await screen.press("ctrl+n")
        await screen.rest()
        await screen.say("Other.")
        assert "One." not in screen.text()
        await screen.press("ctrl+r")
        await screen.until(lambda: "Earlier conversations" in screen.text())
        assert "Other." in screen.text()
        await screen.press("down", "enter")
        await screen.rest()
        for words in ("First.", "One.", "Second.", "Two."):
            assert words in screen.text()
    [newest, oldest] = await talks(root)
    assert (newest.title, len(newest.runs)) == ("Other.", 1)
    assert (oldest.title, len(oldest.runs)) == ("First.", 2)


@pytest.mark.trial
async def test_the_conversation_goes_on_with_what_was_said(root: Path) -> None:
    async with chat(root, "One.") as screen:
        await screen.say("First.")
    [talk] = await talks(root)
    async with chat(root, "Two.", talk=talk) as again:
        await again.say("Second.")
        said = [item.get("content") for item in again.model.calls[-1].input if item.get("role") == "user"]
        assert said == ["First.", "Second."]


KILLED = """
import asyncio, sys
from pathlib import Path
from keyturn.engine.execution import Execution
Execution.lease_ms = 1_000  # so that nobody has to wait for a minute
from keyturn.chat.conversation import ChatConversation
from keyturn.journal import open_journal
from keyturn.testing import ScriptedModel, function_call
from tests.chat.playing_chat import assistant, runs

class Nobody:
    def said(self, turn, delta): ...
    def changed(self): ...

async def main():
    root = Path(sys.argv[1])
    store = open_journal(f"sqlite:///{root.parent / 'journal.db'}")
    model = ScriptedModel([[runs("echo begun >> log; exec sleep 100")]])
    talk = ChatConversation(assistant(model, store, root), Nobody())
    await talk.say("Do it.")
    while not talk.waiting:
        await asyncio.sleep(0.01)
    [item] = talk.waiting
    await talk.decide(item, "approve")
    await asyncio.sleep(100)

asyncio.run(main())
"""


async def killed(root: Path) -> Any:
    """Leave a run whose process was killed while a command ran."""
    environ = {**os.environ, "PYTHONPATH": f"{SOURCE / 'src'}{os.pathsep}{SOURCE}", "KEYTURN_SECRET": KEY}
    child = forked.Program(["-c", KILLED, str(root)], env=environ, start_new_session=True)
    try:
        await until((root / "log").exists)
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    [talk] = await talks(root)
    return talk


async def in_doubt(screen: Chat) -> None:
    await screen.until(lambda: screen.talk.waiting and not screen.talk.held_by)
    await screen.rest()
    assert "The outcome is unknown" in " ".join(screen.text().split())
    assert [item.kind for item in screen.talk.waiting] == ["in_doubt"]


async def test_a_run_that_was_killed_asks_what_became_of_its_command_and_runs_it_no_second_time(root: Path) -> None:
    talk = await killed(root)
    async with chat(root, "I see.", talk=talk) as screen:
        await in_doubt(screen)
        await screen.decide("d")
        await screen.type("It did.")
        await screen.press("enter")
        await screen.rest()
        assert "It did." in told(screen.model)[0]
        assert "it ran, according to: ada" in screen.text()
    assert (root / "log").read_text() == "begun\n"


@pytest.mark.trial
async def test_a_command_in_doubt_did_not_run(root: Path) -> None:
    talk = await killed(root)
    async with chat(root, "I see.", talk=talk) as screen:
        await in_doubt(screen)
        await screen.decide("n")
        assert "not run: execute" in screen.text()
    assert (root / "log").read_text() == "begun\n"


@pytest.mark.trial
async def test_a_command_in_doubt_is_tried_again_when_a_person_says_so(root: Path) -> None:
    talk = await killed(root)
    async with chat(root, "I see.", talk=talk) as screen:
        await in_doubt(screen)
        await screen.seen()
        await screen.press("t")
        await until(lambda: (root / "log").read_text() == "begun\nbegun\n")
        await screen.press("ctrl+q")
    assert screen.app.return_code == 0


@pytest.mark.trial
async def test_leaving_in_the_middle_leaves_a_run_to_go_on_with(root: Path) -> None:
    async with chat(root, [runs("echo begun >> log; exec sleep 100")]) as screen:
        await screen.say("Do it.")
        await screen.seen()
        await screen.press("a")
        await until((root / "log").exists)
        await screen.press("ctrl+q")
    assert screen.app.return_code == 0
    [talk] = await talks(root)
    async with chat(root, "Well.", talk=talk) as again:
        await in_doubt(again)
        await again.decide("n")
        assert "Well." in again.text()


@pytest.mark.trial
async def test_escape_stops_the_work_and_ctrl_g_goes_on(root: Path) -> None:
    async with chat(root, [runs("echo begun >> log; exec sleep 100")], "Well.") as screen:
        await screen.say("Do it.")
        await screen.seen()
        await screen.press("a")
        await until((root / "log").exists)
        await screen.press("escape")
        await screen.rest()
        assert not screen.talk.at_work
        await screen.press("ctrl+g")
        await in_doubt(screen)
        await screen.decide("n")
        assert "Well." in screen.text()


@pytest.mark.trial
async def test_a_fault_of_the_provider_is_said_and_tried_again(root: Path) -> None:
    async with chat(root, RuntimeError("no network [red]"), "Here I am.") as screen:
        await screen.say("Hello?")
        assert "no network [red]" in screen.text()
        assert "Press ctrl+g to retry" in screen.text()
        await screen.press("ctrl+g")
        await screen.rest()
        assert "Here I am." in screen.text()


@pytest.mark.trial
async def test_something_said_after_a_fault_goes_to_the_same_run(root: Path) -> None:
    async with chat(root, RuntimeError("no network"), "Here I am.") as screen:
        await screen.say("Hello?")
        await screen.say("Again.")
        assert "Here I am." in screen.text()
        said = [item.get("content") for item in screen.model.calls[-1].input if item.get("role") == "user"]
        assert said == ["Hello?", "Again."]


@pytest.mark.trial
async def test_something_said_while_a_call_waits_is_read_after_it(root: Path) -> None:
    async with chat(root, [writes("/a")], "Both.") as screen:
        await screen.say("Write a.")
        await screen.press("escape")
        await screen.say("And hurry.")
        assert len(screen.model.calls) == 1
        await screen.decide("a")
        assert "Both." in screen.text()
        said = [item.get("content") for item in screen.model.calls[-1].input if item.get("role") == "user"]
        assert said == ["Write a.", "And hurry."]


@pytest.mark.trial
async def test_what_is_said_before_a_run_has_begun_goes_to_that_run(root: Path) -> None:
    """Two runs would share the session: the second one would take away what the first one waits for."""
    async with chat(root, [writes("/a")], "Both are read.") as screen:
        await asyncio.gather(screen.talk.say("One."), screen.talk.say("Two."))
        await screen.rest()
        assert len(screen.talk.waiting) == 1
        await screen.decide("a")
        assert (root / "a").exists()
        said = [item.get("content") for item in screen.model.calls[-1].input if item.get("role") == "user"]
        assert said == ["One.", "Two."]
    [talk] = await talks(root)
    assert [run.status for run in talk.runs] == ["finished"]


async def test_a_run_that_another_window_went_on_without_says_so(root: Path) -> None:
    async with chat(root, "Hello.", [writes("/a")]) as screen:
        await screen.say("Hi.")
        [talk] = await talks(root)
        await screen.say("Write a.")
        async with chat(root, "Something else.", talk=talk) as other:
            await other.rest()
            await other.say("What else?")
        await screen.decide("a")
        assert not (root / "a").exists()
        assert "ended: superseded" in screen.text()
        assert "cancelled by" not in screen.text()


@pytest.mark.trial
async def test_a_journal_that_fails_after_a_decision_is_said_and_the_decision_stays(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with chat(root, [writes("/a")], "Done.") as screen:
        await screen.say("Write a.")

        async def away(run: str) -> int:
            raise UserError("the journal is away")

        monkeypatch.setattr(screen.talk.assistant.store, "head", away)
        await screen.decide("a")
        assert "stopped: the journal is away" in screen.text()
        assert "Not decided" not in screen.text()
        assert (root / "a").exists()


@pytest.mark.trial
async def test_a_cancelled_run_runs_nothing_and_the_next_message_begins_another(root: Path) -> None:
    async with chat(root, [writes("/a")], "Fine.") as screen:
        await screen.say("Write a.")
        await screen.press("ctrl+x")
        await screen.type("yes")
        await screen.press("enter")
        await screen.rest()
        assert "cancelled by: ada" in screen.text()
        assert not screen.talk.waiting
        await screen.say("Never mind.")
        assert "Fine." in screen.text()
        assert not (root / "a").exists()


@pytest.mark.trial
async def test_a_run_that_another_process_holds_is_waited_for(root: Path) -> None:
    async with chat(root, [writes("/a")]) as screen:
        await screen.say("Write a.")
    [talk] = await talks(root)
    async with chat(root, "Done.", talk=talk) as again:
        store: Any = again.app.assistant.store
        await again.rest()
        claim = await store.claim(talk.last.run, "somebody else", 60_000)
        await again.seen()
        await again.press("a")
        await again.until(lambda: "another process" in again.text())
        assert not (root / "a").exists()
        await store.release(claim)
        await again.rest()
        assert (root / "a").exists()


@pytest.mark.trial
async def test_a_run_is_named_by_the_beginning_of_its_id(root: Path) -> None:
    async with chat(root, "One.") as screen:
        await screen.say("First.")
        store, run = screen.app.assistant.store, screen.talk.run_id
        assert (await talk_of(store, run[:8])).last.run == run
        assert (await talk_of(store, run)).title == "First."
        for wrong in ("", "no such run", "%"):
            with pytest.raises((RunMissing, UserError)):
                await talk_of(store, wrong)


@pytest.mark.trial
async def test_todos_go_along_to_the_next_run_of_the_conversation(root: Path) -> None:
    todos = function_call("write_todos", {"todos": [{"content": "Later", "status": "pending"}]})
    model = ScriptedModel([[todos], "Planned.", "Yes."])
    async with chat(root, model=model, size=(120, 40)) as screen:
        await screen.say("Plan.")
        await screen.say("And?")
        assert "[ ] Later" in screen.text()


@pytest.mark.trial
async def test_a_model_that_is_stopped_says_no_more_until_it_goes_on(root: Path) -> None:
    going = asyncio.Event()

    async def slowly(_request: Any) -> Any:
        await going.wait()
        return "Late."

    async with chat(root, slowly, "At last.") as screen:
        await screen.type("Hello")
        await screen.press("enter")
        await screen.until(lambda: screen.model.calls)
        await screen.press("escape")
        await screen.rest()
        assert "Stopped. Press ctrl+g to continue" in screen.text()
        going.set()
        await screen.press("ctrl+g")
        await screen.rest()
        assert "At last." in screen.text()
        assert "Late." not in screen.text()
