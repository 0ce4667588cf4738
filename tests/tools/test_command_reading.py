"""What is read of a command is what shells do with it; what is not understood is said; time is bounded."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keyturn import only_programs
from keyturn.tools.command_reading import LONGEST, read_command
from keyturn.tools.shell_preview import facts_of


def words(command: str) -> list[list[str | None]]:
    return [[word.text for word in each.words] for each in read_command(command).commands]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("a b c", [["a", "b", "c"]]),
        ("a 'b c' \"d e\"", [["a", "b c", "d e"]]),
        ("a b\\ c", [["a", "b c"]]),
        ("a''b", [["ab"]]),
        ("a b; c|d&&e||f\ng", [["a", "b"], ["c"], ["d"], ["e"], ["f"], ["g"]]),
        ("a $x", [["a", None]]),
        ("a *", [["a", None]]),
        ("a {b,c}", [["a", None]]),
        ("a {}", [["a", "{}"]]),
        ("[ -f a ]", [["[", "-f", "a", "]"]]),
        ("a#b #c", [["a#b"]]),
        ("a=1 b c=2", [["b", "c=2"]]),
        ("a=1", [[]]),
        ("a >b c", [["a", "c"]]),
        ("a 2>b", [["a"]]),
        ("a <<< b", [["a"]]),
        ("a2>b", [["a2"]]),
        ("a <<X b\nhi\nX\nc", [["a", "b"], ["c"]]),
        ("a <<-X\n\thi\n\tX\nc", [["a"], ["c"]]),
        ("a `b c`", [["b", "c"], ["a", None]]),
        ('a "$(b "$(c)")"', [["c"], ["b", None], ["a", None]]),
        ("a <(b)", [["b"], ["a", None]]),
        ("(a; b) | c", [["a"], ["b"], ["c"]]),
        ("if a; then b; else c; fi", [["a"], ["b"], ["c"]]),
        ("while a; do b; done", [["a"], ["b"]]),
        ("! a", [["a"]]),
        ("{ a; }", [["a"]]),
        ("a \\\nb", [["a", "b"]]),
        ('a "b\\"c\\$d\\\ne"', [["a", 'b"c$de']]),
        ("~/a ~b c~d", [[None, None, "c~d"]]),
        ("a &", [["a"]]),
        ("a =b", [["a", None]]),
    ],
)
def test_a_command_is_read(command: str, expected: list[Any]) -> None:
    assert read_command(command).unclear == ""
    assert words(command) == expected


@pytest.mark.parametrize(
    "command",
    [
        *("a 'b", 'a "b', "a `b", "a $(b", "(a", "a )", "a (b)", "a() { b; }", "a=(b)", "((a))", "a $((1))", "a $[1]"),
        *(
            "a ${b:-c}",
            "a ${!b}",
            "a $'b'",
            'a $"b"',
            "for a in b; do c; done",
            "case a in b) c;; esac",
            "select a; do b",
        ),
        *(
            "function a { b; }",
            "[[ a ]]",
            "coproc a",
            "a <<X",
            "a <<X\nb",
            "a <<X\n$(b)\nX",
            "a <<$(b)\nc",
            "a >",
            "a > ;",
        ),
        *("a `b \\`c\\``", "a ;; b", "a $(b <<X)\nX", "$(" * 9 + "a" + ")" * 9, "a > > b"),
    ],
)
def test_what_is_not_understood_is_said(command: str) -> None:
    reading = read_command(command)
    assert "character" in reading.unclear
    assert facts_of(reading)["not understood"] == reading.unclear
    assert not only_programs("a", "b", "c").covers(command)


def test_nothing_is_claimed_beyond_the_place_where_reading_stopped() -> None:
    assert words("a; b $((1)); c") == [["a"]]


@pytest.mark.parametrize(
    ("command", "what", "texts"),
    [
        ("a > b 2>&1", "redirections", ["> b", "2>& 1"]),
        ("a | b |& c", "joined by", ["|", "|&"]),
        ("a $(b)", "substitutions", ["$(b)"]),
        ("a & b", "in the background", ["a"]),
        ("a <<X\nb\nX", "here-documents", ["1 line up to X"]),
        ("A=1 B='c d' e", "environment", ["A=1", "B='c d'"]),
        ("a $b ${c} $1", "variables", ["$b", "${c}", "$1"]),
        ("a *.b", "patterns", ["*.b"]),
        ("a # b", "comments", ["# b"]),
        ("xargs a | python3", "can run other programs", ["xargs", "python3"]),
        ("eval a", "can change what the rest means", ["eval"]),
        ("$a b", "programs that the shell computes", ["$a"]),
        ("a\u202e", "hidden characters", ["U+202E RIGHT-TO-LEFT OVERRIDE"]),
        ("\u0430", "letters outside of ASCII", ["\u0430 U+0430 CYRILLIC SMALL LETTER A"]),
    ],
)
def test_what_is_more_than_words_is_told(command: str, what: str, texts: list[str]) -> None:
    assert facts_of(read_command(command))[what] == texts


@pytest.mark.parametrize(
    "piece",
    [
        "$(",
        "`",
        "'",
        '"',
        "(",
        "{a,",
        "a ",
        "a;",
        "<<a ",
        "<<a\n",
        "\\\n",
        "$(a)",
        "${a}",
        "\u202e",
        "[",
        "~",
        "\\",
        "&",
        "|",
    ],
)
def test_time_is_bounded_on_hostile_input(piece: str) -> None:
    started = time.process_time()
    read_command((piece * LONGEST)[:LONGEST])
    read_command((piece * LONGEST)[: LONGEST * 50])
    assert time.process_time() - started < 5


def test_what_is_too_long_is_not_read() -> None:
    assert "longer" in read_command("a" * (LONGEST + 1)).unclear


@given(st.text(max_size=200))
@settings(max_examples=300, deadline=None)
def test_any_text_is_read_or_said_to_be_unclear(command: str) -> None:
    reading = read_command(command)
    assert isinstance(reading.unclear, str)
    assert facts_of(reading)


# ---------------------------------------------------------------------- what is covered is what real shells run

_TOKENS = st.sampled_from(
    [*"abcabc  \t;|\n'\"\\$`*#=~{},()<>&!/[]?%^:1\r", *"abc    ''\"\";|", "x y", "-x", "\u00e9", "$(", "$a", "&&", "  "]
)
_PRELUDE = """
said() { line="<$#"; for each; do line="$line|$each"; done; printf '%s>\\n' "$line" >&3; }
a() { said a "$@"; }; b() { said b "$@"; }; c() { said c "$@"; }
PATH=/nowhere
"""


@pytest.mark.parametrize("shell", [["/bin/sh"], ["/bin/bash", "--norc", "--noprofile"]], ids=["sh", "bash"])
@given(commands=st.lists(st.lists(_TOKENS, min_size=1, max_size=9).map("".join), min_size=100, max_size=100))
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
def test_what_is_covered_is_what_a_shell_runs(shell: list[str], commands: list[str]) -> None:
    """The programs `a`, `b` and `c` say their arguments: no covered command runs anything, or with anything, else."""
    if not Path(shell[0]).exists():
        pytest.skip(f"there is no {shell[0]} here")
    rule = only_programs("a", "b", "c")
    # A program behind || does not run, since the one before it does not fail.
    covered = [command for command in commands if rule.covers(command) and "||" not in command]
    assert all(_ran(shell, command) == _expected(command) for command in covered[:25])


def _expected(command: str) -> list[str]:
    return sorted("|".join([f"<{len(each)}", *map(str, each)]) + ">" for each in words(command))


def _ran(shell: list[str], command: str) -> list[str]:
    line = f"exec 3>&1 1>/dev/null 2>&1\n{_PRELUDE}\n{command}\n"
    ran = subprocess.run([*shell, "-c", line], capture_output=True, stdin=subprocess.DEVNULL, check=False, timeout=20)
    return sorted(ran.stdout.decode().splitlines())
