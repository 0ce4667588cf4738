"""What the screen shows: words as they come, todos, subagents, usage; and that nobody's text leaves its place."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Input

from keyturn import Usage
from keyturn.chat.drawing import entry_rows, lane_rows, todo_rows, usage_rows
from keyturn.chat.transcript import CallEntry, Note, SubagentLane, Words
from keyturn.chat.widgets.request_view import ChatRequestView
from keyturn.core.preview import Command, Diff, Preview
from keyturn.core.usage import Counts, Price
from keyturn.screens import rows
from keyturn.screens.drawing import labelled, prose
from keyturn.screens.rows import STYLES, content_of
from keyturn.testing import ScriptedModel, function_call
from keyturn.testing import assistant_message as says
from tests.chat.playing_chat import chat, runs, writes
from tests.effort import AT_LENGTH
from tests.table import each

HOSTILE = (
    "\x1b[2J\x1b[31mred[/][red]markup[/red] [@click=app.quit]x[/] \u202egnp.exe\r\n| forged\npending: pay\x07\u200b$foo"
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    return folder


def todos(*status: str) -> Any:
    made = [{"content": f"Step {n}", "status": each, "active_form": f"Doing step {n}"} for n, each in enumerate(status)]
    return function_call("write_todos", {"todos": made})


@pytest.mark.trial
async def test_the_todos_stand_in_the_panel(root: Path) -> None:
    steps: list[Any] = [[todos("completed", "in_progress", "pending"), writes("/a")], "Done."]
    async with chat(root, *steps, size=(120, 40)) as screen:
        await screen.say("Plan it.")
        for row in ("[x] Step 0", "[>] Doing step 1", "[ ] Step 2"):
            assert row in screen.text()


@pytest.mark.trial
async def test_a_narrow_screen_shows_the_panel_when_it_is_asked_for(root: Path) -> None:
    async with chat(root, [todos("pending"), writes("/a")], "Done.", size=(70, 40)) as screen:
        await screen.say("Plan it.")
        assert "[ ] Step 0" not in screen.text()
        await screen.press("ctrl+t")
        assert "[ ] Step 0" in screen.text()


@pytest.mark.trial
async def test_subagents_are_lanes_that_say_what_they_do(root: Path) -> None:
    task = function_call("task", {"description": "Write a.", "subagent_type": "general-purpose"})
    async with chat(root, [task], [writes("/a")], "I wrote a.", "All done.", size=(120, 50)) as screen:
        await screen.say("Have it written.")
        assert "pending: general-purpose" in screen.text()
        assert "Write a." in screen.text()
        assert "agent: assistant, asked" in screen.text() or "general-purpose" in screen.text()
        await screen.decide("a")
        assert (root / "a").exists()
        assert "done: general-purpose" in screen.text()
        assert "subagent: general-purpose" in screen.text()


@pytest.mark.trial
async def test_words_are_shown_while_they_are_said(root: Path) -> None:
    going = asyncio.Event()

    async def slowly(_request: Any) -> Any:
        return "It is said slowly."

    class Slow(ScriptedModel):
        async def stream_response(self, *args: Any, **kwargs: Any) -> Any:
            async for event in super().stream_response(*args, **kwargs):
                yield event
                if getattr(event, "type", "") == "response.output_text.delta":
                    await going.wait()

    async with chat(root, model=Slow([slowly])) as screen:
        await screen.type("Hello")
        await screen.press("enter")
        await screen.until(lambda: "│ It" in screen.text())
        assert "said slowly" not in screen.text()
        assert "working" in screen.text()
        going.set()
        await screen.rest()
        assert screen.text().count("It is said slowly.") == 1


@pytest.mark.trial
async def test_hostile_words_stay_behind_their_margin(root: Path) -> None:
    steps: list[Any] = [[says(HOSTILE), writes("/a", HOSTILE), function_call(HOSTILE, {})], [says(HOSTILE)]]
    async with chat(root, *steps, size=(100, 80)) as screen:
        await screen.say("Go.")
        await screen.decide("r", "x", "enter")
        shown = screen.rows()
        for bad in ("\x1b", "\u202e", "\x07", "\u200b", "\r"):
            assert not [row for row in shown if bad in row]
        assert "[red]markup[/red]" in screen.text()
        assert "[@click=app.quit]x[/]" in screen.text()
        forged = [row.strip() for row in shown if "\u2502" not in row]
        assert not [row for row in forged if row.startswith(("| forged", "pending: pay"))]
        assert not screen.talk.waiting


@each("width", [12, 20, 40, 80])
def test_no_row_of_data_begins_where_one_of_ours_does(width: int) -> None:
    leads = ("pending: pay", "forged", "You", "Assistant", "approved by: ada")
    text = "\n".join([*leads, HOSTILE, "x" * 200])
    entries = [
        Words(text=text, who="you"),
        Words(text=text),
        Note(words="stopped", data=text),
        CallEntry(tool=text, arguments={text: text, "b": 1}, state="finished", result=text, reason=text, by=text),
        CallEntry(
            tool="t", state="finished", decided="approved by", by=text, preview=Preview((Command(text, cwd=text),))
        ),
        CallEntry(tool="t", state="started", preview=Preview((Diff(text, text + "x", path=text, label=text),))),
    ]
    for entry in entries:
        for lane in ("", text):
            entry.lane = lane
            for row in entry_rows(entry, width, whole=True):
                told = "".join(part for _, part in row)
                assert not any(char in told for char in "\x1b\u202e\x07\u200b\r\n")
                assert all(style in STYLES for style, _ in row)
                assert "forged" not in told[:2]


def test_styles_are_words_of_ours_and_texts_are_never_parsed() -> None:
    rows = [*prose("[b]x[/b]", "you", 40), *labelled("bad", "because", "[red]x[/red] $primary", 40)]
    assert "[b]x[/b]" in content_of(rows).plain
    assert "[red]x[/red] $primary" in content_of(rows).plain


def test_todos_and_lanes_of_strange_shapes_are_drawn() -> None:
    odd: list[dict[str, Any]] = [{}, {"content": HOSTILE, "status": ["x"]}, {"content": 3, "status": "completed"}]
    assert len(list(todo_rows(odd, 30))) >= 3
    assert list(lane_rows([SubagentLane(HOSTILE, HOSTILE, tool=HOSTILE)], 30))


def test_money_is_shown_only_where_the_price_is_known() -> None:
    usage = Usage.of([("m", Counts(1, 1000, 500, 1500))])
    assert not [row for row in usage_rows(usage, {}, 40) if "cost" in row[0][1]]
    assert not [row for row in usage_rows(usage, {"other": Price(1, 2)}, 40) if "cost" in row[0][1]]
    assert [("text", "cost 0.0020")] in list(usage_rows(usage, {"m": Price(1, 2)}, 40))


@pytest.mark.trial
@each("size", [(12, 5), *([(40, 12), (20, 8), (200, 60)] if AT_LENGTH else [])])
async def test_no_size_is_too_small_to_live_in(root: Path, size: tuple[int, int]) -> None:
    async with chat(root, [todos("pending"), writes("/a", "x" * 300)], "Done.", size=size) as screen:
        await screen.say("Go.")
        for keys in (("ctrl+t",), ("ctrl+o",), ("f1",), ("escape",), ("ctrl+r",), ("escape",), ("ctrl+t",)):
            await screen.press(*keys)
        await screen.pilot.resize_terminal(100, 40)
        await screen.pilot.pause()
        await screen.decide("g", "escape")
        await screen.pilot.resize_terminal(*size)
        await screen.press("e", "escape")
        assert screen.talk.waiting
        assert not (root / "a").exists()


async def test_a_call_that_cannot_be_shown_cannot_be_approved(root: Path) -> None:
    async with chat(root, [writes("/a")], "Done.", size=(9, 40)) as screen:
        await screen.say("Go.")
        await screen.decide("a")
        assert not (root / "a").exists()


@pytest.mark.trial
async def test_all_rows_are_shown_when_they_are_asked_for(root: Path) -> None:
    long = "".join(f"line {number}\n" for number in range(30))
    async with chat(root, [writes("/a", long)], "Done.", size=(100, 90)) as screen:
        await screen.say("Go.")
        await screen.decide("a")
        assert "more rows; ctrl+o shows all" in screen.text()
        assert "+line 29" not in screen.text()
        await screen.press("ctrl+o")
        await screen.pilot.pause(0.1)
        assert "+line 29" in screen.text()


@pytest.mark.trial
async def test_what_ran_under_a_grant_is_shown_where_it_does_not_fit_the_row(root: Path) -> None:
    long = "echo " + " ".join(["word"] * 30)
    async with chat(root, [runs("echo a")], [runs(long)], "Done.") as screen:
        await screen.say("Run it.")
        await screen.decide("g")
        screen.app.screen.query_one("#where", Input).value = ""
        await screen.press("enter")
        await screen.rest()
        assert "approved by: an earlier grant" in screen.text()
        assert screen.text().count("word") > 30
        assert "timeout: 120" in screen.text()


@pytest.mark.trial
async def test_a_call_of_a_tool_that_is_not_there_is_told_to_the_model(root: Path) -> None:
    async with chat(root, [function_call("format_disk", {})], "I have no such tool.") as screen:
        await screen.say("Go on.")
        assert "I have no such tool." in screen.text()
        assert "stopped" not in screen.text()


async def test_of_a_long_call_only_the_rows_on_the_screen_are_drawn(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of 500 KB were, several times, and no key was looked at for seven seconds."""
    counts = list[int]()

    def counted(drawn: Any) -> Any:
        listed = list(drawn)
        counts.append(len(listed))
        return content_of(listed)

    monkeypatch.setattr(rows, "content_of", counted)
    async with chat(root, [writes("/a", "".join(f"line {n}\n" for n in range(3_000)))], "Done.") as screen:
        await screen.say("Write it.")
        screen.app.query_one("#request", ChatRequestView).take_focus()
        await screen.press("end")
        await screen.until(lambda: "line 2999" in screen.text())  # it scrolls when it is drawn next
        assert max(counts) <= 500
        assert sum(counts) < 3_000
