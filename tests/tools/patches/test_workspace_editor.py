"""Patches of several files are checked whole, done whole, and leave every byte as it was where they fail."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from keyturn import ApplyPatchOperation, FileProblem, WorkspaceEditor
from keyturn.tools.base import ToolProblem
from keyturn.tools.filesystem.staging import Change
from keyturn.tools.patches.editor import WholePatchEditor
from keyturn.tools.patches.v4a import operations_of
from tests.table import each


@pytest.fixture
def editor(tmp_path: Path) -> WorkspaceEditor:
    (tmp_path / "a.txt").write_bytes(b"one\ntwo\n")
    (tmp_path / "crlf.txt").write_bytes(b"one\r\ntwo\r\nthree")
    (tmp_path / "run.sh").write_bytes(b"#!/bin/sh\necho hi\n")
    (tmp_path / "run.sh").chmod(0o755)
    (tmp_path / "blob").write_bytes(b"\0\1\2")
    return WorkspaceEditor(tmp_path)


def tree(editor: WorkspaceEditor) -> dict[str, tuple[bytes, int]]:
    root = Path(editor.root)
    files = (path for path in root.rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix(): (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) for path in files}


def patch(editor: WorkspaceEditor, body: str) -> str:
    return editor.carry_out(operations_of(f"*** Begin Patch\n{body}*** End Patch"))


def test_it_is_an_editor_of_whole_patches(editor: WorkspaceEditor) -> None:
    assert isinstance(editor, WholePatchEditor)


def test_a_patch_of_several_files_is_done(editor: WorkspaceEditor) -> None:
    said = patch(
        editor,
        "*** Update File: a.txt\n one\n-two\n+2\n"
        "*** Update File: crlf.txt\n-one\n+1\n two\n-three\n+3\n"
        "*** Update File: run.sh\n*** Move to: bin/run.sh\n #!/bin/sh\n-echo hi\n+echo ho\n"
        "*** Add File: new/file.txt\n+fresh\n"
        "*** Delete File: blob\n",
    )
    assert said.split(". ") == [
        "Updated 'a.txt'",
        "Updated 'crlf.txt'",
        "Updated 'run.sh' and moved it to 'bin/run.sh'",
        "Created 'new/file.txt'",
        "Deleted 'blob'.",
    ]
    found = tree(editor)
    assert {name: data for name, (data, _) in found.items()} == {
        "a.txt": b"one\n2\n",
        "crlf.txt": b"1\r\ntwo\r\n3",
        "bin/run.sh": b"#!/bin/sh\necho ho\n",
        "new/file.txt": b"fresh\n",
    }
    assert found["bin/run.sh"][1] == 0o755


def test_one_file_may_be_changed_several_times(editor: WorkspaceEditor) -> None:
    patch(
        editor,
        "*** Update File: a.txt\n-one\n+1\n"
        "*** Update File: a.txt\n-two\n+2\n"
        "*** Update File: a.txt\n*** Move to: b.txt\n-2\n+II\n"
        "*** Add File: a.txt\n+again\n"
        "*** Add File: passing.txt\n+by\n*** Delete File: passing.txt\n"
        "*** Update File: ./blob\n*** Move to: d/blob\n*** Update File: d/blob\n*** Move to: e/blob\n",
    )
    found = {name: data for name, (data, _) in tree(editor).items() if name not in ("crlf.txt", "run.sh")}
    assert found == {"a.txt": b"again\n", "b.txt": b"1\nII\n", "e/blob": b"\0\1\2"}


INVALID = {
    "a hunk that does not fit": "*** Update File: a.txt\n-three\n+3\n",
    "a file that is missing": "*** Update File: none.txt\n-x\n+y\n",
    "a deletion of what is missing": "*** Delete File: none.txt\n",
    "a new file that is there": "*** Add File: a.txt\n+x\n",
    "a new file twice": "*** Add File: x\n+x\n*** Add File: ./x\n+y\n",
    "a move to what is there": "*** Update File: a.txt\n*** Move to: crlf.txt\n",
    "a change of what was deleted": "*** Delete File: a.txt\n*** Update File: a.txt\n-one\n+1\n",
    "binary": "*** Update File: blob\n-x\n+y\n",
    "a way out": "*** Add File: ../x\n+x\n",
    "a move out": "*** Update File: a.txt\n*** Move to: ../x\n",
    "a file as a directory": "*** Add File: a.txt/x\n+x\n",
    "a program of git": "*** Add File: .git/hooks/pre-commit\n+x\n",
}


@each("body", INVALID.values(), ids=INVALID.keys())
@each("first", [True, False], ids=["first", "last"])
def test_an_invalid_patch_leaves_every_byte_as_it_was(editor: WorkspaceEditor, body: str, first: bool) -> None:
    before = tree(editor)
    good = "*** Add File: good/new.txt\n+x\n*** Update File: run.sh\n-echo hi\n+echo ho\n*** Delete File: crlf.txt\n"
    if "crlf" in body:
        good = good.replace("*** Delete File: crlf.txt\n", "")
    with pytest.raises(ToolProblem):
        patch(editor, body + good if first else good + body)
    assert tree(editor) == before
    assert not (Path(editor.root) / "good").exists()


def test_a_patch_that_fails_midway_is_taken_back(editor: WorkspaceEditor, monkeypatch: pytest.MonkeyPatch) -> None:
    """The third file cannot be put in place when the first two are: they are as they were, with their modes."""
    before = tree(editor)
    real, count = __import__("os").rename, 0

    def failing(*args: object, **kwargs: object) -> None:
        nonlocal count
        count += 1
        if count == 2:
            raise OSError(5, "Input/output error")
        real(*args, **kwargs)

    monkeypatch.setattr("keyturn.tools.filesystem.staging.os.rename", failing)
    with pytest.raises(FileProblem, match="EIO"):
        patch(
            editor,
            "*** Add File: d/new.txt\n+x\n*** Delete File: blob\n*** Update File: run.sh\n-echo hi\n+echo ho\n"
            "*** Update File: a.txt\n-one\n+1\n",
        )
    assert tree(editor) == before
    assert sorted(path.name for path in Path(editor.root).iterdir()) == ["a.txt", "blob", "crlf.txt", "run.sh"]


def test_what_could_not_be_taken_back_is_named(editor: WorkspaceEditor, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_args: object, **_kwargs: object) -> None:
        (Path(editor.root) / "d" / "new.txt").write_text("somebody else's by now")
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("keyturn.tools.filesystem.staging.os.rename", failing)
    with pytest.raises(FileProblem, match=r"could not be undone in 'd/new\.txt'"):
        patch(editor, "*** Add File: d/new.txt\n+x\n*** Update File: a.txt\n-one\n+1\n")
    assert (Path(editor.root) / "d" / "new.txt").read_text() == "somebody else's by now"


def test_only_files_that_are_as_they_were_shown_are_changed(editor: WorkspaceEditor) -> None:
    operations = [ApplyPatchOperation("update_file", "a.txt", "-one\n+1\n")]
    basis = {change.path: change.before.digest for change in editor.plan(operations) if change.before}
    (Path(editor.root) / "a.txt").write_text("one\nand a half\ntwo\n")
    before = tree(editor)
    with pytest.raises(FileProblem, match="changed since"):
        editor.carry_out(operations, basis)
    assert tree(editor) == before
    with pytest.raises(FileProblem, match="was not shown"):
        editor.carry_out(operations, {"another.txt": "0"})
    editor.carry_out(operations)
    assert editor.workspace.read("a.txt").text == "1\nand a half\ntwo\n"


def test_a_deletion_with_lines_deletes_only_these(editor: WorkspaceEditor) -> None:
    with pytest.raises(ValueError, match="all of its lines"):
        editor.carry_out([ApplyPatchOperation("delete_file", "a.txt", "@@ -1 +0,0 @@\n-one\n")])
    editor.carry_out([ApplyPatchOperation("delete_file", "a.txt", "@@ -1,2 +0,0 @@\n-one\n-two\n")])
    assert "a.txt" not in tree(editor)


def test_a_plan_says_what_would_be(editor: WorkspaceEditor) -> None:
    before = tree(editor)
    moved, gone = editor.plan([ApplyPatchOperation("update_file", "a.txt", "-one\n+1\n", move_to="b.txt")])[::-1]
    assert isinstance(moved, Change)
    assert (moved.path, moved.before, moved.after, moved.source, moved.original) == (
        "b.txt",
        None,
        b"1\ntwo\n",
        "a.txt",
        b"one\ntwo\n",
    )
    assert (gone.path, gone.after) == ("a.txt", None)
    assert tree(editor) == before


@pytest.mark.parametrize(
    ("diff", "text"), [("+a\n+b\n", "a\nb\n"), ("+a\n+b", "a\nb"), ("+a\r\n", "a\r\n"), ("", ""), ("+\n", "\n")]
)
def test_a_new_file_ends_as_its_diff_does(editor: WorkspaceEditor, diff: str, text: str) -> None:
    editor.create_file(ApplyPatchOperation("create_file", "new.txt", diff))
    assert editor.workspace.read("new.txt").data.decode() == text


def test_a_patch_has_limits(editor: WorkspaceEditor, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="100 are allowed"):
        editor.check([ApplyPatchOperation("create_file", f"f{number}", "+x") for number in range(101)])
    monkeypatch.setattr("keyturn.tools.patches.workspace_editor.MOST_BYTES", 10)
    with pytest.raises(FileProblem, match="more than 10 bytes"):
        patch(editor, "*** Delete File: a.txt\n*** Delete File: crlf.txt\n")
