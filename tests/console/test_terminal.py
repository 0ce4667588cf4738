"""The console at a real terminal: keys as they come, Ctrl-C and Ctrl-D, and what was typed too early."""

from __future__ import annotations

import textwrap

import pytest

from tests.cli.terminal import at_a_terminal

SCRIPT = """
    import asyncio, select, sys
    from keyturn import Agent, Runner, ask_user, function_tool
    from keyturn.console import Undecided, decide
    from keyturn.models.scripted.model import ScriptedModel, function_call

    @function_tool(needs_approval=True)
    def pay() -> str:
        print("PAID")
        return "paid"

    async def main():
        asks = function_call("ask_user", {"question": "Which?", "choices": ["this", "that"]})
        call = asks if "question" in sys.argv else function_call("pay")
        agent = Agent("clerk", model=ScriptedModel([[call], "Done."]), tools=[pay, ask_user()])
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
"""


def on_a_terminal(*typed: tuple[bytes, bytes], how: str = "") -> str:
    return at_a_terminal(["-c", textwrap.dedent(SCRIPT), how], *typed)[0]


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
    shown = on_a_terminal((b"READY", b"a\ra\ra\r"), (b"decide > ", b"r\r"), (b"why?", b"\r"), how="early")
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
