"""The console at a real terminal: keys as they come, Ctrl-C and Ctrl-D, and what was typed too early."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import pytest

from tests.cli.terminal import at_a_terminal

SCRIPT = """
    import asyncio, os, select, sys
    from keyturn import Agent, FunctionTool, Preview, Runner, Text, ask_user, function_tool
    from keyturn.console import Undecided, decide
    from keyturn.models.scripted.model import ScriptedModel, function_call

    @function_tool(needs_approval=True)
    def pay() -> str:
        print("PAID")
        return "paid"

    @function_tool(needs_approval=True)
    def refund(to: str, amount: int, note: str):
        print("REFUND", repr(to), amount, repr(note))
        return "refunded"

    class Looking(FunctionTool):
        looks = True

        async def preview(self, given):
            if given["amount"] == 5:
                print("LOOKING", flush=True)
                await asyncio.sleep(600)
            return Preview((Text("looked"),))

    if "slow" in sys.argv:
        refund.__class__ = Looking

    if os.environ.get("SHOW_HISTORY"):
        import readline

    async def main():
        asks = function_call("ask_user", {"question": "Which?", "choices": ["this", "that"]})
        call = asks if "question" in sys.argv else function_call("pay")
        if "edit" in sys.argv or "slow" in sys.argv:
            call = function_call("refund", {"to": "ada", "amount": 3, "note": "one\\ntwo\\u202e"})
        agent = Agent("clerk", model=ScriptedModel([[call], "Done."]), tools=[pay, refund, ask_user()])
        result = await Runner.run(agent, "go")
        print("READY", flush=True)
        if "early" in sys.argv:
            select.select([sys.stdin], [], [])
        try:
            result = await Runner.run(agent, decide(result))
            print("FINAL", result.final_output)
        except Undecided as left:
            print("LEFT", len(left.state.get_interruptions()))

    asyncio.run(main())
    if os.environ.get("SHOW_HISTORY"):
        print("HISTORY", readline.get_current_history_length())
"""


def on_a_terminal(*typed: tuple[bytes, bytes], how: str = "", **environ: str) -> str:
    return at_a_terminal(["-c", textwrap.dedent(SCRIPT), how], *typed, environ=environ)[0]


def test_a_terminal_decides() -> None:
    shown = on_a_terminal((b"decide > ", b"a\r"))
    assert "PAID" in shown
    assert "FINAL Done." in shown


@pytest.mark.parametrize("leave", [b"\x03", b"\x04"])
def test_ctrl_c_and_ctrl_d_leave_at_once_even_inside_a_running_loop(leave: bytes) -> None:
    shown = on_a_terminal((b"decide > ", leave))
    assert "LEFT 1" in shown
    assert "PAID" not in shown


def test_what_was_typed_before_the_question_decides_nothing() -> None:
    shown = on_a_terminal((b"READY", b"a\ra\ra\r"), (b"decide > ", b"r\r"), (b"reason", b"\r"), how="early")
    assert "PAID" not in shown
    assert "Rejected." in shown


def test_a_terminal_answers_a_question() -> None:
    shown = on_a_terminal((b"decide > ", b"w\r"), (b"or its number > ", b"2\r"), how="question")
    assert "needs an answer for: ask_user" in shown
    assert "Answered." in shown
    assert "FINAL Done." in shown


@pytest.mark.parametrize("leave", [b"\x03", b"\x04", b"\r"])
def test_nothing_typed_at_a_terminal_answers_nothing(leave: bytes) -> None:
    after = [(b"decide > ", b"q\r")] if leave == b"\r" else []
    shown = on_a_terminal((b"decide > ", b"w\r"), (b"or its number > ", leave), *after, how="question")
    assert "LEFT 1" in shown
    assert "FINAL" not in shown


@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_the_line_begins_with_the_present_value(term: str) -> None:
    pytest.importorskip("readline")
    shown = on_a_terminal(
        (b"decide > ", b"e\r"), (b"no change > ", b"amount\r"), (b"no change > 3", b"5\r"),
        (b"decide > ", b"e\r"), (b"no change > ", b"to\r"), (b"no change > ada", b"\x7f\x7f\x7feve\r"),
        (b"decide > ", b"a\r"), how="edit", TERM=term,
    )  # fmt: skip
    assert "REFUND 'eve' 35" in shown


def test_the_next_question_begins_with_nothing() -> None:
    shown = on_a_terminal(
        (b"decide > ", b"e\r"), (b"no change > ", b"amount\r"), (b"no change > 3", b"\r"), (b"no change > ", b"\r"),
        (b"decide > ", b"\r"), (b"decide > ", b"q\r"), how="edit",
    )  # fmt: skip
    assert "Nothing was changed." in shown
    assert "LEFT 1" in shown


@pytest.mark.parametrize("leave", [b"\x03", b"\x04"])
def test_to_leave_over_a_value_changes_nothing(leave: bytes) -> None:
    keys = leave if leave == b"\x03" else b"\x7f\x04"  # Ctrl-D ends an empty line
    shown = on_a_terminal((b"decide > ", b"e\r"), (b"no change > ", b"amount\r"), (b"no change > 3", keys), how="edit")
    assert "LEFT 1" in shown
    assert "REFUND" not in shown


def test_a_long_or_odd_text_is_changed_in_an_editor(tmp_path: Path) -> None:
    """What is hidden stands escaped in the editor, and comes back as it was; the screen never gets it."""
    script = tmp_path / "editor.py"
    does = "p = pathlib.Path(sys.argv[1])\np.write_text(p.read_text().replace('two', '2'))"
    script.write_text(f"import sys, pathlib\n{does}")
    shown = on_a_terminal(
        (b"decide > ", b"e\r"), (b"no change > ", b"note\r"), (b"decide > ", b"a\r"),
        how="edit", EDITOR=f"{sys.executable} {script}",
    )  # fmt: skip
    assert r"REFUND 'ada' 3 'one\n2\u202e'" in shown
    assert "\u202e" not in shown


def test_what_was_typed_stays_in_no_history() -> None:
    """A program in which readline is loaded may write its history to a file when it ends."""
    pytest.importorskip("readline")
    shown = on_a_terminal(
        (b"decide > ", b"e\r"), (b"no change > ", b"note=hunter2\r"),
        (b"decide > ", b"e\r"), (b"no change > ", b"note\r"), (b"no change > hunter2", b"\x7f3\r"),
        (b"decide > ", b"a\r"), how="edit", SHOW_HISTORY="1",
    )  # fmt: skip
    assert "REFUND 'ada' 3 'hunter3'" in shown
    assert "HISTORY 0" in shown


def test_ctrl_c_ends_an_editor_that_hangs_and_nothing_else(tmp_path: Path) -> None:
    script = tmp_path / "editor.py"
    script.write_text("import time\nprint('EDITING', flush=True)\ntime.sleep(60)")
    shown = on_a_terminal(
        (b"decide > ", b"e\r"), (b"no change > ", b"note\r"), (b"EDITING", b"\x03"), (b"no change > ", b"\r"),
        (b"decide > ", b"a\r"), how="edit", EDITOR=f"{sys.executable} {script}",
    )  # fmt: skip
    assert "Nothing was changed." in shown
    assert "REFUND 'ada' 3" in shown


def test_ctrl_c_leaves_a_preview_that_hangs() -> None:
    shown = on_a_terminal(
        (b"decide > ", b"e\r"), (b"no change > ", b"amount=5\r"), (b"LOOKING", b"\x03"), how="slow"
    )  # fmt: skip
    assert "LEFT 1" in shown
    assert "Traceback" not in shown, "the first Ctrl-C was for us"


def test_bytes_that_are_no_text_are_asked_for_again_and_lose_nothing() -> None:
    shown = on_a_terminal((b"decide > ", b"\xff\xfe\r"), (b"decide > ", b"a\r"), PYTHONIOENCODING="utf-8:strict")
    assert "PAID" in shown
