"""The V4A notation: what a diff means, what is forgiven, and what is refused."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from keyturn import ApplyPatchOperation, InvalidPatch, UserError, apply_diff
from keyturn.render.diff import DiffRow, script
from keyturn.tools.patches.v4a import operations_of
from tests.effort import some
from tests.table import each

FITS: dict[str, tuple[str, str, str]] = {
    "a line": ("a\nb\nc\n", " a\n-b\n+B\n c", "a\nB\nc\n"),
    "a head without words": ("a\nb\nc\n", "@@\n a\n-b\n+B\n c\n", "a\nB\nc\n"),
    "an anchor": ("x\ndef f\nb\ndef g\nb\n", "@@ def g\n-b\n+B\n", "x\ndef f\nb\ndef g\nB\n"),
    "an anchor of other spaces": ("x\n  def g\nb\n", "@@ def g\n-b\n+B\n", "x\n  def g\nB\n"),
    "an anchor below an anchor": (
        "class A\n def f\n  b\nclass B\n def f\n  b\n",
        "@@ class B\n@@ def f\n-  b\n+  B\n",
        "class A\n def f\n  b\nclass B\n def f\n  B\n",
    ),
    "an anchor that was passed": ("def g\n a\n b\n", "@@ def g\n- a\n+ A\n@@ def g\n- b\n+ B\n", "def g\n A\n B\n"),
    "an anchor that is nowhere, and one place": ("x\nb\n", "@@ nowhere\n-b\n+B\n", "x\nB\n"),
    "the first of several places": ("b\nx\nb\nx\n", "@@\n-b\n+B\n", "B\nx\nb\nx\n"),
    "two hunks": ("a\nb\nc\nd\ne\n", "@@\n-a\n+A\n@@\n-e\n+E\n", "A\nb\nc\nd\nE\n"),
    "a line at the end": ("a\nb\n", " b\n+c\n", "a\nb\nc\n"),
    "no newline at the end stays": ("a\nb", " a\n-b\n+B\n", "a\nB"),
    "no newline at the end, one more line": ("a\nb", " b\n+c\n", "a\nb\nc"),
    "the end of the file": ("b\na\nb\n", "@@\n b\n+c\n*** End of File\n", "b\na\nb\nc\n"),
    "only new lines at the end": ("a\nb\n", "@@\n+c\n*** End of File\n", "a\nb\nc\n"),
    "an end that is elsewhere": ("b\na\nz\n", "@@\n b\n+c\n*** End of File\n", "b\nc\na\nz\n"),
    "only new lines": ("a\nb\n", "+c\n", "c\na\nb\n"),
    "only new lines below an anchor": ("a\nb\n", "@@ a\n+c\n", "a\nc\nb\n"),
    "only lines that go": ("a\nb\nc\n", " a\n-b\n c\n", "a\nc\n"),
    "all lines go": ("a\n", "-a\n", ""),
    "from nothing": ("", "+a\n", "a\n"),
    "nothing to do": ("a\n", "", "a\n"),
    "spaces at the ends": ("a  \nb\n", " a\n-b\n+B\n", "a  \nB\n"),
    "spaces at the starts": ("   a\nb\n", " a\n-b\n+B\n", "   a\nB\n"),
    "spaces of a line that goes": ("a\nb  \n", " a\n-b\n+B\n", "a\nB\n"),
    "the exact place before a similar one": ("b \nb\n", "-b\n+B\n", "b \nB\n"),
    "an empty line whose space was lost": ("a\n\nb\n", " a\n\n-b\n+B\n", "a\n\nB\n"),
    "CRLF stays": ("a\r\nb\r\n", " a\n-b\n+B\n+C\n", "a\r\nB\r\nC\r\n"),
    "CRLF in both": ("a\r\nb\r\n", " a\r\n-b\r\n+B\r\n", "a\r\nB\r\n"),
    "CRLF in the diff only": ("a\nb\n", " a\r\n-b\r\n+B\r\n", "a\nB\n"),
    "CRLF and no newline at the end": ("a\r\nb", "-b\n+B\n+C\n", "a\r\nB\r\nC"),
    "lines that were not named keep their newlines": ("a\r\nb\nc\r\n", " a\n-b\n+B\n c\n", "a\r\nB\r\nc\r\n"),
    "a byte order mark": ("\ufeffa\nb\n", "-a\n+A\n", "\ufeffA\nb\n"),
    "other line separators are characters": ("a\u2028b\x0cc\nd\n", " a\u2028b\x0cc\n-d\n+D\n", "a\u2028b\x0cc\nD\n"),
    "lines that look like the envelope's": ("*** End Patch\nb\n", "-*** End Patch\n+B\n b\n", "B\nb\n"),
    "lines that look like heads": ("@@ x\n-- a\n", " @@ x\n--- a\n+++ b\n", "@@ x\n++ b\n"),
    "the end of an envelope": ("a\nb\n", " a\n-b\n+B\n*** End Patch\n", "a\nB\n"),
    "the ranges of a unified diff": ("a\nb\n", "@@ -1,2 +1,2 @@\n a\n-b\n+B\n", "a\nB\n"),
    "the range tells places apart": ("b\nx\nb\nx\nb\n", "@@ -3 +3 @@\n-b\n+B\n", "b\nx\nB\nx\nb\n"),
    "a range that is a little wrong": ("b\nx\ny\nz\nb\n", "@@ -4 +4 @@\n-b\n+B\n", "b\nx\ny\nz\nB\n"),
    "ranges shift with what came before": (
        "b\nx\nb\nx\nb\n",
        "@@ -1,1 +1,3 @@\n-b\n+1\n+2\n+3\n@@ -3,1 +5,1 @@\n-b\n+B\n",
        "1\n2\n3\nx\nB\nx\nb\n",
    ),
    "only new lines after a line": ("a\nb\nc\n", "@@ -2,0 +3 @@\n+x\n", "a\nb\nx\nc\n"),
    "only new lines after the first": ("a\nb\n", "@@ -1,0 +2 @@\n+x\n", "a\nx\nb\n"),
    "only new lines before the first": ("a\nb\n", "@@ -0,0 +1 @@\n+x\n", "x\na\nb\n"),
    "names above a unified diff": ("a\n", "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", "b\n"),
    "a newline at the end goes": ("a\nb\n", "@@ -2 +2 @@\n-b\n+b\n\\ No newline at end of file\n", "a\nb"),
    "a newline at the end comes": ("a\nb", "@@ -2 +2 @@\n-b\n\\ No newline at end of file\n+b\n", "a\nb\n"),
    "no newline on both sides": (
        "b\nb",
        "-b\n\\ No newline at end of file\n+c\n\\ No newline at end of file\n",
        "b\nc",
    ),
}


@each("case", FITS.values(), ids=FITS.keys())
def test_a_diff_means(case: tuple[str, str, str]) -> None:
    before, diff, after = case
    assert apply_diff(before, diff) == after


WRONG: dict[str, tuple[str, str, str]] = {
    "lines that are not there": ("a\n", " z\n-b\n+c\n", "'z' is nowhere in the file"),
    "the wrong order": (
        "a\nb\nc\n",
        "@@\n-c\n+C\n@@\n-a\n+A\n",
        "Hunk 2 does not fit: the file has no place after line 3",
    ),
    "overlapping hunks": ("a\nb\nc\n", "@@\n a\n-b\n+B\n@@\n b\n-c\n+C\n", "Hunk 2"),
    "a line of no kind": ("a\nb\n", " a\nfoo\n-b\n", "Line 2 of the diff begins with 'f'"),
    "an envelope": ("a\n", "*** Begin Patch\n*** Update File: x\n-a\n*** End Patch\n", "begins with '*'"),
    "a move": ("a\n", "*** Move to: x\n-a\n", "begins with '*'"),
    "more after the end": ("a\n", "-a\n*** End Patch\n-b\n", "follows"),
    "a head and nothing": ("a\n", "@@ a\n", "Hunk 1 is empty"),
    "a head without a space": ("a\n", "@@a\n-a\n", "a space and a line"),
    "an end and nothing": ("a\n", "*** End of File\n", "empty"),
    "a lost anchor and several places": ("b\nb\n", "@@ nowhere\n-b\n+B\n", "several places"),
    "a lost anchor and nothing else": ("a\nb\n", "@@ nowhere\n+x\n", "where the new lines go"),
    "no newline after nothing": ("a\n", "@@\n\\ No newline at end of file\n", "no newline"),
    "more hunks than are allowed": ("a\n", "@@\n-a\n" * 1001, "1001 hunks"),
}


@each("case", WRONG.values(), ids=WRONG.keys())
def test_a_diff_is_refused(case: tuple[str, str, str]) -> None:
    before, diff, why = case
    with pytest.raises(InvalidPatch, match=re.escape(why)):
        apply_diff(before, diff)
    with pytest.raises(ValueError, match=re.escape(why)):
        apply_diff(before, diff)


def test_a_new_file_is_its_lines() -> None:
    made = ("+a\n+b\n", "+a\n+b", "+a\n+\n+b\n", "+a\n+b\n+", "", "+", "+a\r\n+b\r\n", "+++ x\n")
    texts = ["a\nb", "a\nb", "a\n\nb", "a\nb\n", "", "", "a\r\nb", "++ x"]
    assert [apply_diff("ignored", diff, mode="create") for diff in made] == texts


@pytest.mark.each
@pytest.mark.parametrize("diff", ["a\n", "+a\n-b\n", "+a\n\n+b\n", " a\n", "+a\n*** End of File\n"])
def test_a_new_file_has_nothing_else(diff: str) -> None:
    with pytest.raises(InvalidPatch, match="new file"):
        apply_diff("", diff, "create")


def test_there_are_two_modes() -> None:
    with pytest.raises(UserError, match="mode"):
        apply_diff("a", "-a", "delete")  # type: ignore[arg-type]  # what a caller without a type checker writes


@pytest.mark.parametrize("text", ["a\n" * 60_000, "ab" * 60_000, "\n" * 60_000])
def test_no_diff_takes_for_ever(text: str) -> None:
    """Bounded by the time limit of a test; each of these would take many minutes line by line."""
    rows = "".join(f" {line}\n" for line in text.split("\n")[:30_000]) + "-not there\n"
    with pytest.raises(InvalidPatch):
        apply_diff(text, f"@@\n{rows}")
    with pytest.raises(InvalidPatch):
        apply_diff(text, "@@ nowhere\n-nothing\n" * 500)


# ------------------------------------------------------------------------------------------------------ the envelope


def test_blank_lines_at_the_end_of_a_patch_are_read_once() -> None:
    """A model that wrote a megabyte of them stopped its server for half an hour, before anybody was asked."""
    patch = "*** Begin Patch\n*** Update File: a\n@@\n-b\n+c\n" + "\n" * 300_000 + "*** End Patch"
    [operation] = operations_of(patch)
    assert operation.diff == "@@\n-b\n+c\n"


def test_an_envelope_holds_several_files() -> None:
    patch = (
        "*** Begin Patch\n*** Update File: a.py\n*** Move to: b.py\n@@ def f\n-x\n+y\n*** End of File\n\n"
        "*** Add File: new dir/c.txt\n+one\n+\n+two\n*** Delete File: old.txt\n"
        "*** Update File: d\n*** Move to: e\n*** End Patch\n"
    )
    assert operations_of(patch) == [
        ApplyPatchOperation("update_file", "a.py", "@@ def f\n-x\n+y\n*** End of File\n", move_to="b.py"),
        ApplyPatchOperation("create_file", "new dir/c.txt", "+one\n+\n+two\n"),
        ApplyPatchOperation("delete_file", "old.txt"),
        ApplyPatchOperation("update_file", "d", "", move_to="e"),
    ]


@each(
    ("patch", "why"),
    [
        ("", "no envelope"),
        ("*** Begin Patch\n*** Update File: a\n-x\n", "cut off"),
        ("*** Update File: a\n-x\n*** End Patch", "no envelope"),
        ("*** Begin Patch\n*** End Patch", "names no file"),
        ("*** Begin Patch\n-x\n*** End Patch", "Line 2"),
        ("*** Begin Patch\n*** Update File: a\n*** End Patch", "no change"),
        ("*** Begin Patch\n*** Delete File: a\n-x\n*** End Patch", "without any"),
    ],
)
def test_an_envelope_that_is_not_whole_is_refused(patch: str, why: str) -> None:
    with pytest.raises(InvalidPatch, match=re.escape(why)):
        operations_of(patch)


# ------------------------------------------------------------------------------------------------------- the property

LINES = st.lists(
    st.sampled_from(["", "a", "b", "  a", "a ", "-", "+x", "@@", "*** End Patch", "\\ y", "é", "}"]), max_size=12
)
NEWLINES = st.sampled_from(["\n", "\r\n"])


@st.composite
def texts(draw: st.DrawFn) -> tuple[str, str]:
    newline = draw(NEWLINES)
    pair = [newline.join(draw(LINES)) for _ in range(2)]
    ended = draw(st.booleans())
    return pair[0] + newline * ended, pair[1] + newline * ended


def v4a(before: str, after: str) -> str:
    """One hunk of all lines, as V4A has them: the last line has no newline to be told of."""
    rows = list(script(before, after)) or [DiffRow(" ", before)]
    lines = [row.sign + row.text.removesuffix("\n") for row in rows]
    return "@@\n" + "".join(f"{line}\n" for line in lines)


@settings(max_examples=some(300), deadline=None)
@given(texts())
def test_a_diff_of_two_texts_makes_one_of_the_other(pair: tuple[str, str]) -> None:
    before, after = pair
    # V4A cannot say that the last newline comes or goes; unified diffs can.
    assume(before and after and before.endswith("\n") == after.endswith("\n"))
    assert apply_diff(before, v4a(before, after)) == after


@settings(max_examples=some(300), deadline=None)
@given(st.text(max_size=60), st.text(st.sampled_from(" +-@*\\\n\rab"), max_size=60))
def test_any_text_is_a_diff_or_is_refused(before: str, diff: str) -> None:
    with suppress(InvalidPatch):
        assert isinstance(apply_diff(before, diff), str)
