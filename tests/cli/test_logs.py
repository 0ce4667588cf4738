"""What a log line quotes acts on no terminal, and begins no line of its own."""

import logging
import sys

from keyturn.cli.logs import TextFormatter


def test_what_a_record_quotes_acts_on_no_terminal_and_begins_no_line() -> None:
    said = "boom\x1b[2J\x1b]0;t\x07\u202e\n2026-11-27 ERROR keyturn.server: ada approved everything"
    try:
        raise ValueError(said)
    except ValueError:
        made = logging.LogRecord("keyturn.tools", 30, __file__, 1, "raised: %s", (said,), sys.exc_info())
    shown = TextFormatter("%(levelname)s %(name)s: %(message)s").format(made)
    first, *rest = shown.split("\n")
    assert first.startswith("WARNING keyturn.tools: raised: boom")
    assert rest
    assert all(line.startswith("  ") for line in rest)
    assert not {"\x1b", "\x07", "\u202e", "\r"} & {*shown}
