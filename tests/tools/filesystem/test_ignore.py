"""The rules of .gitignore files, as git reads them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from keyturn.tools.filesystem.ignore import Rules
from keyturn.tools.filesystem.walk import Walk
from tests.needs import missing

RULES = "\n".join(
    [
        *(
            "# a comment",
            "*.log",
            "!keep.log",
            "build/",
            "/top",
            "docs/*.txt",
            "a/**/z",
            "**/deep",
            "inner/**",
            "name\\ ",
        ),
        *("\\#odd", "\\!odd", "*.[oa]", "trailing   ", "st\\*r", "[!a-y]1", "", "crlf\r"),
    ]
)
PATHS = [
    *("x.log", "d/x.log", "keep.log", "d/keep.log", "build/x", "d/build/x", "d/e/build", "top", "d/top", "docs/a.txt"),
    *(
        "docs/d/a.txt",
        "d/docs/a.txt",
        "a/z",
        "a/b/z",
        "a/b/c/z",
        "b/z",
        "deep/x",
        "d/deep",
        "inner/x",
        "inner/d/x",
        "name ",
    ),
    *(
        "name",
        "#odd",
        "!odd",
        "odd",
        "x.o",
        "x.a",
        "x.c",
        "trailing",
        "plain/file.py",
        "st*r",
        "star",
        "a1",
        "z1",
        "crlf",
    ),
]


def walked(root: Path) -> set[str]:
    top = os.open(root, os.O_RDONLY)
    try:
        return {prefix + name for prefix, _, names in Walk(hidden=True).files(top) for name in names}
    finally:
        os.close(top)


@pytest.mark.skipif(shutil.which("git") is None, reason=missing("git"))
def test_what_git_ignores_is_passed_by(tmp_path: Path) -> None:
    for path in PATHS:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("x")
    (tmp_path / ".gitignore").write_text(RULES)
    (tmp_path / "d" / ".gitignore").write_text("!x.log\n/e\n")
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    command = ["git", "-c", "core.quotePath=false", "ls-files", "-oz", "--exclude-per-directory=.gitignore"]
    known = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True).stdout.decode().split("\0")[:-1]
    assert walked(tmp_path) == set(known)


def test_ignore_files_are_heard_last(tmp_path: Path) -> None:
    for name in ("a.log", "b.log", "c.txt"):
        (tmp_path / name).write_text("x")
    (tmp_path / ".gitignore").write_text("*.log\n")
    (tmp_path / ".ignore").write_text("!b.log\nc.txt\n")
    assert walked(tmp_path) == {".gitignore", ".ignore", "b.log"}


def test_no_rule_takes_for_ever() -> None:
    rules = Rules("*a" * 100 + "b\n" + "**/a/" * 100 + "b\n" + "x\n" * 100_000)
    assert rules.ignores("a" * 250, False) is None
    assert rules.ignores("a/" * 500 + "c", False) is None
    assert rules.ignores("d/x", False) is True
