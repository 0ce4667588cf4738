"""What is read of a command is what shells do with it; what is not understood is said; time is bounded."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keyturn import only_programs
from keyturn.tools.commands.reading import LONGEST, read_command
from keyturn.tools.shell_preview import facts_of
from tests.effort import some
from tests.steps import lines
from tests.table import each

pytestmark = pytest.mark.filterwarnings("ignore::keyturn.UnsafeProgram")  # `a`, `b` and `c` are programs of this file


def words(command: str) -> list[list[str | None]]:
    return [[word.text for word in each.words] for each in read_command(command).commands]


@each(
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
        ('a "b\\"c\\$d"', [["a", 'b"c$d']]),
        ("for a in b 'c d'; do e $a; done; f", [["e", None], ["f"]]),
        ("for a in $(b)\ndo\nc\ndone", [["b"], ["c"]]),
        ("for a in; do b; done", [["b"]]),
        ("time a", [["time"], ["a"]]),
        ("a | time -p -- b", [["a"], ["time"], ["b"]]),
        ("a >&- b", [["a", "b"]]),
        ("a;~/b", [["a"], [None]]),
        ("~/a ~b c~d", [[None, None, "c~d"]]),
        ("a &", [["a"]]),
        ("a =b", [["a", None]]),
    ],
)
def test_a_command_is_read(command: str, expected: list[Any]) -> None:
    assert read_command(command).unclear == ""
    assert words(command) == expected


@each(
    "command",
    [
        *("a 'b", 'a "b', "a `b", "a $(b", "(a", "a )", "a (b)", "a() { b; }", "a=(b)", "((a))", "a $((1))", "a $[1]"),
        *(
            "a ${b:-c}",
            "a ${!b}",
            "a $'b'",
            'a $"b"',
            "for a; do c; done",
            "for a in b # '\ndo c; done #'",
            "for a in b & do c; done",
            "for a in b",
            "for RANDOM in 'a[$(b)]'; do c; done",
            "for ((a=1; a<2; a++)); do c; done",
            "for a\nin b; do c; done",
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
    assert facts_of(reading)["not understood"] == [f"{reading.unclear}; what follows is not all of it"]
    assert not only_programs("a", "b", "c").covers(command)


def test_nothing_is_claimed_beyond_the_place_where_reading_stopped() -> None:
    assert words("a; b $((1)); c") == [["a"]]


@each(
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


HOSTILE = [
    "$(", "`", "'", '"', "(", "{a,", "a ", "a;", "<<a ", "<<a\n", "\\\n", "$(a)", "${a}", "\u202e", "[", "~", "\\", "&",
    "|",
]  # fmt: skip


def test_time_is_bounded_on_hostile_input() -> None:
    """Eight times the text takes about eight times the steps, and some for each character; too long a text: none."""

    def steps(piece: str, size: int) -> int:
        text = (piece * size)[:size]
        return lines(lambda: read_command(text))

    for piece in HOSTILE:
        few, many = steps(piece, LONGEST // 256), steps(piece, LONGEST // 32)
        assert many < 10 * few + 1_000, piece
        assert many < 60 * LONGEST // 32, piece
        assert steps(piece, LONGEST * 50) < 1_000, piece


def test_what_is_too_long_is_not_read() -> None:
    assert "longer" in read_command("a" * (LONGEST + 1)).unclear


@given(st.text(max_size=200))
@settings(max_examples=some(100), deadline=None)
def test_any_text_is_read_or_said_to_be_unclear(command: str) -> None:
    reading = read_command(command)
    assert isinstance(reading.unclear, str)
    assert facts_of(reading)


# ------------------------------------------------------------------ nothing runs that is not shown: found by attacking

_ATTACKS = {
    "two lines that a shell joins to a substitution (CVE-2026-28460)": 'echo "$\\\n(ran)"',
    "the same outside of quotes": "echo $\\\n(ran)",
    "two lines that become a value that runs": "x='$(ran)'; echo \"$\\\n{x@P}\"",
    "the end of a here-document on two lines, which is not quoted then": "cat <<E\\\nOF\n$(ran)\nEOF",
    "a here-document whose text begins within a subshell": "cat <<X | (true\nX\n)\nran\nX",
    "a word of the shell on two lines": "functio\\\nn ls { ran; }; ls",
    "two brackets on two lines": "x='a[$(ran)]'; (\\\n(x))",
    "a setting on two lines": "PA\\\nTH=/nowhere ran",
    "an element of a list before a program": "a[0]=1 ran",
    "an element of a list with spaces in its place": "a[ $(ran) ]=1",
    "an element whose place is computed from a variable": "x='a[$(ran)]'; b[x]=1",
    "a variable that the shell computes with": "RANDOM='a[$(ran)]'",
    "a program right behind a closed descriptor": "true >&-ran",
    "a group that is timed": "time { ran; }",
    "a program called time behind a pipe": "true | time ran",
    "a word of the shell behind a redirection": ">/dev/null } ran",
    "a backslash at the very end": "\\ran\\",
}


@each("command", _ATTACKS.values(), ids=_ATTACKS.keys())
def test_an_attack_is_not_understood_or_names_what_runs(command: str) -> None:
    facts = facts_of(read_command(command))
    said = [*facts["programs"], *facts.get("can change what the rest means", [])]
    assert "not understood" in facts or {"ran", "RANDOM"} & set(said)
    assert not only_programs("echo", "cat", "true", "ls").covers(command)


_PIECES = [
    *("a", "b", "c", " ", "  ", "\n", "\n", "\\\n", ";", "&&", "||", "|", "&", "(", ")", "{ ", "; }", "()", "'", '"')
]
_PIECES += [
    "`",
    "$(",
    "$",
    "${",
    "}",
    "#",
    " #",
    ";;",
    ">",
    "<",
    ">&",
    "&>",
    "<(",
    ">(",
    "=",
    "a=",
    "[",
    "]",
    "~",
    "*",
    "\\",
]
_PIECES += [
    "if ",
    "then ",
    "; fi",
    "while ",
    "do ",
    "for ",
    "x in ",
    "case ",
    "esac",
    "function ",
    "time ",
    "! ",
    "[[ ",
    " ]]",
]
_PIECES += [
    "<<X",
    "<<'X'",
    "<<-X",
    "\nX\n",
    "\nX",
    "X",
    "<<<",
    "2>",
    "|&",
    "$'",
    "-p ",
    "a b",
    "coproc ",
    "X=1 ",
    "-",
    "\t",
]
_TELLING = """
command_not_found_handle() { printf '%s\\0' "$1" >&9; }
a() { printf 'a\\0' >&9; }; b() { printf 'b\\0' >&9; }; c() { printf 'c\\0' >&9; }
exec 9>&1 1>/dev/null 2>&1
ulimit -t 1
PATH=/nowhere
"""


@pytest.mark.skipif(not Path("/bin/bash").exists(), reason="there is no bash here")
@given(commands=st.lists(st.lists(st.sampled_from(_PIECES), min_size=2, max_size=12), min_size=60, max_size=60))
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
def test_what_a_shell_runs_was_shown(commands: list[list[str]], tmp_path_factory: pytest.TempPathFactory) -> None:
    """Lines of every kind, not only those that a list lets through: no program runs that the reader did not name."""
    place = tmp_path_factory.mktemp("place")
    for command in map("".join, commands):
        facts = facts_of(read_command(command))
        if not {"not understood", "programs that the shell computes", "can change what the rest means"} & set(facts):
            assert _ran_in(place, command) <= {*facts["programs"]}, command


def _ran_in(place: Path, command: str) -> set[str]:
    line = ["/bin/bash", "-c", "--", _TELLING + command]
    with subprocess.Popen(
        line,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=place,
        env={"PATH": "/nowhere"},
        start_new_session=True,
    ) as process:
        try:
            told = process.communicate(timeout=5)[0]
        except subprocess.TimeoutExpired:  # a loop without end
            os.killpg(process.pid, signal.SIGKILL)
            told = process.communicate()[0]
    return {name for name in told.decode(errors="replace").split("\0") if name}


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
