"""Unified diffs, as the tools that people use write them, and what is refused of them."""

from __future__ import annotations

import difflib
import re
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyturn import ApplyPatchOperation, InvalidPatch, Workspace, WorkspaceEditor
from keyturn.tools.patches.unified_diff import is_unified, operations_of
from tests.effort import some
from tests.needs import missing
from tests.table import each

SEVERAL = """\
From 1234 Mon Sep 17 00:00:00 2001
Subject: [PATCH] Several files
---
 a.txt | 2 +-

diff --git a/a.txt b/a.txt
index 1..2 100644
--- a/a.txt
+++ b/a.txt
@@ -1,2 +1,2 @@ def f():
 one
-two
+2
diff --git a/new.txt b/new.txt
new file mode 100644
index 0..1
--- /dev/null
+++ b/new.txt
@@ -0,0 +1,2 @@
+x
+y
diff --git a/old.txt b/old.txt
deleted file mode 100644
--- a/old.txt
+++ /dev/null
@@ -1 +0,0 @@
-gone
diff --git a/was b/is
similarity index 100%
rename from was
rename to is
diff --git a/empty b/empty
new file mode 100644
index 0..0
--
2.43.0
"""


def test_a_diff_of_git_is_read() -> None:
    assert is_unified(SEVERAL)
    assert operations_of(SEVERAL) == [
        ApplyPatchOperation("update_file", "a.txt", "@@ -1,2 +1,2 @@ def f():\n one\n-two\n+2\n"),
        ApplyPatchOperation("create_file", "new.txt", "+x\n+y\n"),
        ApplyPatchOperation("delete_file", "old.txt", "@@ -1 +0,0 @@\n-gone\n"),
        ApplyPatchOperation("update_file", "was", "", move_to="is"),
        ApplyPatchOperation("create_file", "empty", ""),
    ]


def test_what_looks_like_a_head_inside_a_hunk_is_a_line() -> None:
    diff = "--- x\t2026-01-01 00:00:00\n+++ x\t2026-01-02\n@@ -1,2 +1,2 @@\n--- a/y\n-two\n+++ b/y\n+2\n"
    [one] = operations_of(diff)
    assert (one.path, one.diff) == ("x", diff.partition("\n+++ x\t2026-01-02\n")[2])


def test_a_name_may_be_quoted() -> None:
    assert (
        operations_of('--- "a/na\\303\\257ve \\"x\\".txt"\n+++ "b/na\\303\\257ve \\"x\\".txt"\n@@ -1 +1 @@\n-a\n+b\n')[
            0
        ].path
        == 'naïve "x".txt'
    )


def test_a_new_file_may_end_without_a_newline() -> None:
    [one] = operations_of("--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n\\ No newline at end of file\n")
    assert one.diff == "+a"


ONE = "--- a/x\n+++ b/x\n"
WRONG = {
    "nothing": ("", "names no file"),
    "no hunks": (ONE, "changes nothing"),
    "no head": ("@@ -1 +1 @@\n-a\n+b\n", "without '--- '"),
    "half a head": ("+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", "without '--- '"),
    "too few lines": (ONE + "@@ -1,3 +1,3 @@\n a\n-b\n+c\n", "numbers of lines"),
    "too many lines": (ONE + "@@ -1 +1 @@\n-a\n+b\n c\n", "numbers of lines"),
    "too many of one side": (ONE + "@@ -1 +1,2 @@\n-a\n-b\n+c\n", "numbers of lines"),
    "no ranges": (ONE + "@@ here @@\n-a\n+b\n", "is not '@@"),
    "a mode": ("diff --git a/x b/x\nold mode 100644\nnew mode 100755\n", "mode"),
    "a program": ("diff --git a/x b/x\nnew file mode 100755\n", "100755"),
    "a link": (
        "diff --git a/x b/x\nnew file mode 120000\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+/etc/passwd\n",
        "120000",
    ),
    "binary": ("diff --git a/x b/x\nGIT binary patch\nliteral 3\n", "binary"),
    "binary files": ("diff --git a/x b/x\nBinary files a/x and b/x differ\n", "Binary"),
    "a copy": ("diff --git a/x b/y\ncopy from x\ncopy to y\n", "copy"),
    "nothing on both sides": ("--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b\n", "names no file"),
    "a new file with old lines": ("--- /dev/null\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", "not all of its lines"),
    "a name alone": ("diff --git a/x b/x\nindex 1..2\n", "without saying what becomes of it"),
    "a name that is quoted wrong": ('--- "a/\\q"\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n', "quoted"),
    "a name that is no text": ('--- "a/\\377"\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n', "UTF-8"),
}


@each(("diff", "why"), WRONG.values(), ids=WRONG.keys())
def test_a_diff_is_refused(diff: str, why: str) -> None:
    with pytest.raises(InvalidPatch, match=re.escape(why)):
        operations_of(diff)


CONTENT = st.lists(
    st.sampled_from(["", "a", "b", "  a", "-- x", "++ y", "@@ -1 +1 @@", "\\ z", "é", "}"]), max_size=14
).flatmap(lambda lines: st.sampled_from(["\n".join(lines), "\n".join([*lines, ""]), "\r\n".join([*lines, ""])]))


def unified(name: str, before: str, after: str) -> str:
    """What `diff -u` writes, with the line about missing newlines that difflib leaves out."""
    old, new = (re.findall(r"[^\n]*\n|[^\n]+", text) for text in (before, after))
    ends = ("/dev/null" if not before else f"a/{name}", "/dev/null" if not after else f"b/{name}")
    lines = list(difflib.unified_diff(old, new, *ends, n=2))
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


@settings(max_examples=some(200), deadline=None)
@given(st.lists(st.tuples(CONTENT, CONTENT), min_size=1, max_size=3))
def test_a_diff_of_any_files_makes_the_ones_of_the_others(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]]
) -> None:
    files = Workspace(tmp_path_factory.mktemp("any"))
    patch = ""
    for number, (before, after) in enumerate(pairs):
        if before:
            files.write(f"f{number}.txt", before.encode())
        patch += unified(f"f{number}.txt", before, after)
    if patch:
        WorkspaceEditor(files).carry_out(operations_of(patch))
    for number, (before, after) in enumerate(pairs):
        there = files.look(f"f{number}.txt")
        assert (there.data.decode() if there else "") == after, (before, patch)
    shutil.rmtree(files.root)


@settings(max_examples=some(200), deadline=None)
@given(st.text(st.sampled_from('-+ @,1ab/\n\\"d'), max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(InvalidPatch):
        assert operations_of(f"--- a/x\n+++ b/x\n{text}")


@pytest.mark.skipif(shutil.which("git") is None, reason=missing("git"))
def test_what_git_writes_of_a_tree_makes_the_tree(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    texts = {"keep.txt": "same\n" * 30, "naïve name.txt": "x\n", "d/e.txt": "1\n2\n3\n4\n5\n6\n7\n8\n9\n"}
    for root in (before, after):
        for name, text in {
            **texts,
            "moved.txt": "long enough\nto be seen\nas moved\n" * 5,
            "gone": "no newline",
        }.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
    (after / "naïve name.txt").write_text("x\ny\n")
    (after / "d" / "e.txt").write_text("0\n1\n2\n3\n4\n5\n6\n7\n8\n9")
    (after / "moved.txt").rename(after / "d" / "there.txt")
    (after / "gone").unlink()
    (after / "new").write_text("fresh\r\n")
    command = ["git", "diff", "--no-index", "--find-renames", "--src-prefix=a/", "--dst-prefix=b/", "before", "after"]
    made = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).stdout.decode()
    patch = made.replace("a/before/", "a/").replace("b/after/", "b/").replace("before/", "").replace("after/", "")
    WorkspaceEditor(before).carry_out(operations_of(patch))
    both = [
        {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
        for root in (before, after)
    ]
    assert both[0] == both[1]
