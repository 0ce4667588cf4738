"""A person decides at the screen: what runs, what the model is told, and what a letter does not do."""

from __future__ import annotations

from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from textual.events import Key
from textual.widgets import Input, TextArea

from keyturn.screens.quiet import Quiet
from keyturn.testing import function_call
from tests.chat.playing_chat import Chat, chat, told, writes

pytestmark = pytest.mark.usefixtures("undrawn")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    return folder


async def test_a_call_is_shown_and_runs_when_it_is_approved(root: Path) -> None:
    async with chat(root, [writes("/notes.txt", "milk\n")], "It is done.") as screen:
        await screen.say("Write it down.")
        assert "pending: write_file" in screen.text()
        assert "+milk" in screen.text()
        assert "a approve" in screen.text()
        assert not (root / "notes.txt").exists()
        await screen.decide("a")
        assert (root / "notes.txt").read_text() == "milk\n"
        assert "It is done." in screen.text()
        assert "approved by: ada" in screen.text()


@pytest.mark.trial
async def test_a_rejection_has_a_reason_that_the_model_reads(root: Path) -> None:
    async with chat(root, [writes("/notes.txt")], "Then not.") as screen:
        await screen.say("Write it down.")
        await screen.decide("r")
        await screen.type("Not today.")
        await screen.press("enter")
        await screen.rest()
        assert "Not today." in told(screen.model)[0]
        assert "not run: write_file" in screen.text()
        assert "because: Not today." in screen.text()
        assert not (root / "notes.txt").exists()


@pytest.mark.trial
async def test_leaving_the_reason_rejects_nothing(root: Path) -> None:
    async with chat(root, [writes("/notes.txt")], "Then not.") as screen:
        await screen.say("Write it down.")
        await screen.decide("r", "escape")
        assert len(screen.talk.waiting) == 1
        assert len(screen.model.calls) == 1


@pytest.mark.trial
async def test_a_result_is_written_in_the_tools_place(root: Path) -> None:
    async with chat(root, [writes("/notes.txt")], "I see.") as screen:
        await screen.say("Write it down.")
        await screen.decide("w")
        await screen.type("I did it myself.")
        await screen.press("enter")
        await screen.rest()
        assert told(screen.model) == ["I did it myself."]
        assert not (root / "notes.txt").exists()


@pytest.mark.trial
async def test_an_edit_is_checked_shown_and_then_approved(root: Path) -> None:
    async with chat(root, [writes("/notes.txt", "milk\n")], "Done.") as screen:
        await screen.say("Write it down.")
        await screen.decide("e")
        screen.app.screen.query_one("#field-0", TextArea).text = "../escaped.txt"
        await screen.press("ctrl+s")
        assert "Invalid, nothing was changed" in screen.text()
        screen.app.screen.query_one("#field-0", TextArea).text = "/notes.txt"
        screen.app.screen.query_one("#field-1", TextArea).text = "tea\n"
        await screen.press("ctrl+s")
        await screen.rest()
        assert "your change to content" in screen.text()
        assert not (root / "notes.txt").exists()
        await screen.decide("a")
        assert (root / "notes.txt").read_text() == "tea\n"
        assert "with other arguments" in screen.text()


async def granted(screen: Chat, where: str) -> None:
    """Give a grant with this predicate."""
    await screen.decide("g")
    screen.app.screen.query_one("#where", Input).value = where
    screen.app.screen.query_one("#where", Input).focus()
    await screen.press("enter")
    await screen.rest()


@pytest.mark.trial
async def test_a_grant_lets_matching_calls_run_and_no_other(root: Path) -> None:
    (root / "notes").mkdir()
    steps: list[Any] = [[writes("/notes/a")], "One.", [writes("/notes/b")], [writes("/other")], "Two."]
    async with chat(root, *steps) as screen:
        await screen.say("Write one.")
        await granted(screen, '{"path": {"under": "/notes"}}')
        assert (root / "notes" / "a").exists()
        assert "One." in screen.text()
        await screen.say("And more.")  # another run of the same session
        assert (root / "notes" / "b").exists()
        assert "approved by: an earlier grant" in screen.text()
        assert [item.params["path"] for item in screen.talk.waiting] == ["/other"]
        assert not (root / "other").exists()


@pytest.mark.trial
async def test_a_grant_holds_in_its_own_conversation_only(root: Path) -> None:
    async with chat(root, [writes("/a")], "One.", [writes("/a", "y\n")], "Two.") as screen:
        await screen.say("Write one.")
        await granted(screen, "")
        assert (root / "a").exists()
        await screen.press("ctrl+n")
        await screen.rest()
        await screen.say("And here?")
        assert len(screen.talk.waiting) == 1
        assert (root / "a").read_text() == "x\n"


@pytest.mark.trial
async def test_a_predicate_that_does_not_cover_the_call_or_is_none_grants_nothing(root: Path) -> None:
    async with chat(root, [writes("/a")], "One.") as screen:
        await screen.say("Write one.")
        for where in ('{"path": {"under": "/notes"}}', '{"path": {"no_such": 1}}', "[]", "{", '{"nobody": {"eq": 1}}'):
            await granted(screen, where)
            assert "No grant" in screen.text()
            await screen.press("escape")
            assert len(screen.talk.waiting) == 1
        assert not (root / "a").exists()


@pytest.mark.trial
async def test_the_first_proposal_is_exactly_this_call(root: Path) -> None:
    async with chat(root, [writes("/a")], [writes("/a", "other\n")], "Done.") as screen:
        await screen.say("Write one.")
        await screen.decide("g")
        assert "exactly these arguments" in screen.text()
        await screen.press("enter")
        await screen.rest()
        assert (root / "a").read_text() == "x\n"
        assert len(screen.talk.waiting) == 1


@pytest.mark.trial
async def test_nothing_runs_before_its_last_row_was_on_the_screen(root: Path) -> None:
    long = "".join(f"line {number}\n" for number in range(200))
    async with chat(root, [writes("/a", long)], "Done.", size=(80, 24)) as screen:
        await screen.say("Write one.")
        for letter in ("a", "g"):
            await screen.press(letter)
            assert "not all rows are shown yet" in screen.text()
        assert not (root / "a").exists()
        assert len(screen.app.screen_stack) == 1
        await screen.decide("a")
        assert (root / "a").read_text() == long


@pytest.mark.trial
async def test_what_was_being_typed_when_a_call_came_up_is_no_answer(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Quiet, "grace", 60.0)
    async with chat(root, [writes("/a")], "Done.") as screen:
        await screen.say("Write one.")
        await screen.press("a", "a", "a")
        assert len(screen.talk.waiting) == 1
        assert "press the key again" in screen.text()
        assert not (root / "a").exists()


async def test_a_sentence_that_is_typed_as_a_call_comes_up_is_no_answer(root: Path) -> None:
    """Any key begins the wait anew, and not only one that is a letter of the call."""
    async with chat(root, [writes("/a")], "Done.") as screen:
        await screen.say("Write one.")
        await screen.seen()
        view: Any = screen.app.query_one("#request")
        view._quiet.grace = 0.6
        view._quiet.drawn(came := monotonic())
        for place, letter in enumerate("Hm, so a", 1):
            pressed = Key(letter, letter)
            pressed.time = came + place * 0.1
            screen.app.post_message(pressed)
        await screen.rest()
        assert "press the key again" in screen.text()
        assert len(screen.talk.waiting) == 1
        assert not (root / "a").exists()


async def test_a_key_from_before_a_call_was_drawn_is_no_answer_to_it(root: Path) -> None:
    """A long call takes a while to draw: what was pressed meanwhile is found in the queue once it is there."""
    async with chat(root, [writes("/a")], "Done.") as screen:
        await screen.say("Write one.")
        await screen.seen()
        view: Any = screen.app.query_one("#request")
        view._quiet.drawn(monotonic() - 10)
        pressed = Key("a", "a")
        pressed.time = monotonic() - 20
        screen.app.post_message(pressed)
        await screen.rest()
        assert "press the key again" in screen.text()
        assert len(screen.talk.waiting) == 1


async def test_two_letters_at_once_open_one_dialog(root: Path) -> None:
    """The second one comes before the dialog of the first is there: what is typed then goes to one alone."""
    async with chat(root, [writes("/a")], "Done.") as screen:
        await screen.say("Write one.")
        await screen.seen()
        for letter in ("r", "g"):
            screen.app.post_message(Key(letter, letter))
        await screen.until(lambda: screen.asks)
        assert [type(each).__name__ for each in screen.app.screen_stack[1:]] == ["LineDialog"]
        await screen.press("n", "o", "enter")
        await screen.rest()
        assert "not run: write_file" in screen.text()
        assert not (root / "a").exists()


@pytest.mark.trial
async def test_who_is_typing_keeps_the_prompt(root: Path) -> None:
    async with chat(root, [writes("/a")], "Done.") as screen:
        await screen.type("Write")
        screen.app._do(screen.talk.say("Write one."))
        await screen.rest()
        await screen.type(" a")
        assert screen.app.query_one("#prompt", TextArea).text == "Write a"
        assert len(screen.talk.waiting) == 1


@pytest.mark.trial
async def test_several_calls_are_decided_one_by_one(root: Path) -> None:
    async with chat(root, [writes("/a"), writes("/b")], "Done.") as screen:
        await screen.say("Write two.")
        assert "Call 1 of 2" in screen.text()
        await screen.press("right")
        assert "Call 2 of 2" in screen.text()
        await screen.decide("a")
        assert [item.params["path"] for item in screen.talk.waiting] == ["/a"]
        assert (root / "b").exists()
        assert not (root / "a").exists()
        await screen.decide("r", "enter")
        assert "Done." in screen.text()
        assert not (root / "a").exists()


@pytest.mark.trial
async def test_a_question_is_answered_by_its_number(root: Path) -> None:
    asked = function_call("ask_user", {"question": "Which colour?", "choices": ["Blue", "Red"]})
    async with chat(root, [asked], "Red it is.") as screen:
        await screen.say("Paint it.")
        assert "Which colour?" in screen.text()
        assert "choice: 2  Red" in screen.text()
        await screen.decide("w", "2", "enter")
        assert told(screen.model) == ["Red"]
        assert "Red it is." in screen.text()


@pytest.mark.trial
async def test_a_word_of_the_gate_against_a_decision_is_shown(root: Path) -> None:
    async with chat(root, [writes("/a")], "Done.") as screen:
        await screen.say("Write one.")
        [item] = screen.talk.waiting
        await screen.app.conversation._inbox.reject(item, by="bob")  # somebody else was first
        await screen.decide("a")
        assert not (root / "a").exists()


@pytest.mark.trial
async def test_the_letters_are_explained(root: Path) -> None:
    async with chat(root, [writes("/a")], "Done.") as screen:
        await screen.say("Write one.")
        await screen.decide("question_mark")
        assert "approve exactly this call" in screen.text()
        await screen.press("escape")
        await screen.press("f1")
        assert "ctrl+x" in screen.text()
