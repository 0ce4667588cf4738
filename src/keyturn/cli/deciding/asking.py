"""Ask the person at the terminal: a question with two answers, or for a line."""

from __future__ import annotations

from typing import LiteralString

from ...console.screen import Terminal


def said_yes(screen: Terminal, question: LiteralString) -> bool:
    """Ask a question until it is answered with y or n; the end of the input is a no.

    >>> said_yes(Terminal(ask=lambda prompt: "y"), "Approve it? y or n")
    True
    """
    while True:
        try:
            typed = screen.read(question).lower()
        except EOFError:
            return False
        if typed in ("y", "yes", "n", "no"):
            return typed.startswith("y")


def line_of(screen: Terminal, words: LiteralString) -> str:
    """Ask for a line; the end of the input is an empty one.

    >>> line_of(Terminal(ask=lambda prompt: " too much "), "Reason")
    'too much'
    """
    try:
        return screen.read(words).strip()
    except EOFError:
        return ""
