"""The demo's voice: two columns in any width, and no text of a tool that acts."""

from __future__ import annotations

from keyturn.cli.demo_voice import DemoVoice
from keyturn.console.screen import Terminal


def spoken(width: int = 60, *, colour: bool = False) -> tuple[DemoVoice, list[str]]:
    shown: list[str] = []
    return DemoVoice(Terminal(show=shown.append, colour=colour, width=width)), shown


def test_lines_stay_inside_the_screen_and_in_their_column() -> None:
    for width in (40, 60, 100, 300):
        voice, shown = spoken(width)
        voice.tell("result", "word " * 60 + "\n\n" + "x" * 200)
        voice.rule("process 1")
        assert all(len(row) <= min(width, 100) for row in shown)
        assert shown[0].startswith("  result    | word")
        assert {row[:14] for row in shown[1:-3]} == {" " * 12 + "| ", " " * 12 + ": ", " " * 12 + "|"}


def test_on_a_narrow_screen_a_text_stands_under_its_word() -> None:
    voice, shown = spoken(20)
    voice.tell("result", "word " * 10 + "\nx")
    assert shown[0] == "  result: word word "
    assert all(row.startswith("  : ") and len(row) <= 20 for row in shown[1:])


def test_what_a_tool_says_is_escaped() -> None:
    voice, shown = spoken()
    voice.tell("result", "\x1b[2Jgone\u202e")
    assert shown == ["  result    | \\u{1b}[2Jgone\\u{202e}"]


def test_colour_is_only_around_our_own_words() -> None:
    voice, shown = spoken(colour=True)
    voice.tell("pending", "rotate_key")
    assert shown == ["  \x1b[33mpending\x1b[0m   | rotate_key"]
