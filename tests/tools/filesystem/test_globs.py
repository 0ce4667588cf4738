"""Glob patterns, name by name, in bounded time."""

from __future__ import annotations

import pytest

from keyturn.tools.filesystem.globs import BadGlob, Glob, below
from tests.table import each


@each(
    ("pattern", "fits", "fails"),
    [
        ("*.py", ["a.py", ".py"], ["a.pyc", "d/a.py"]),
        ("**/*.py", ["a.py", "d/a.py", "d/e/a.py"], ["a.txt", "a.py/b"]),
        ("src/**", ["src/a", "src/a/b"], ["other/a"]),
        ("src/**/test_?.py", ["src/test_a.py", "src/x/y/test_b.py"], ["src/test_ab.py", "test_a.py"]),
        ("a/**/b/**/c", ["a/b/c", "a/x/b/y/z/c", "a/b/b/c"], ["a/c", "b/c"]),
        ("*.{py,pyi}", ["a.py", "a.pyi"], ["a.p", "a.{py,pyi}"]),
        ("{a,b/{c,d}}/x", ["a/x", "b/c/x", "b/d/x"], ["b/x"]),
        ("{a}", ["{a}"], ["a"]),
        ("[a-c]?", ["ax", "c1"], ["d1", "a"]),
        ("[!a]x", ["bx"], ["ax"]),
        ("./a/./b", ["a/b"], ["a"]),
        ("a\\*b", ["a*b"], ["axb"]),
        ("naïve 日本*", ["naïve 日本語"], ["naive"]),
        ("[", ["["], ["a"]),
    ],
)
def test_a_pattern_fits(pattern: str, fits: list[str], fails: list[str]) -> None:
    glob = Glob(pattern)
    assert [path for path in fits if not glob.matches(path)] == []
    assert [path for path in fails if glob.matches(path)] == []


@each("pattern", ["", "/etc/*", "../*", "a/../b", "x" * 1001, "a\0b", "{a,b}" * 7])
def test_a_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(BadGlob):
        Glob(pattern)


def test_no_pattern_takes_for_ever() -> None:
    assert not Glob("*a" * 100 + "b").matches("a" * 250)
    assert not Glob("**/a/" * 100 + "b").matches("a/" * 500 + "c")
    assert not Glob("a*" * 100 + "?" * 50 + "b").matches("a" * 255)
    # Of three directories it made a list of four million patterns, and one search of each.
    assert below("**/" * 200 + "x", ["a"] * 3) == ["**/x"]
    assert len(below("**/a/" * 100 + "x", ["a"] * 3)) == 4
