"""A workspace does what it does whole, keeps what it was not asked to change, and says what it will not do."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from keyturn import FileProblem, Workspace
from keyturn.support.keys import ring
from keyturn.tools.filesystem.problems import EditRefused, FileChanged, FileTooLarge, NotText, PathRefused
from keyturn.tools.filesystem.search import SearchQuery
from keyturn.tools.filesystem.staging import Change


@pytest.fixture
def files(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path, max_file_bytes=1000)


def tree(root: str | Path) -> dict[str, bytes]:
    """Every file below a directory, also what should not be there."""
    return {str(path.relative_to(root)): path.read_bytes() for path in Path(root).rglob("*") if path.is_file()}


def test_a_file_is_written_read_and_deleted(files: Workspace) -> None:
    files.write("a/b/c.txt", b"one")
    assert files.read("a/b/c.txt").data == b"one"
    files.write("a/b/c.txt", b"")
    assert files.read("./a//b/c.txt").data == b""
    files.delete("a/b/c.txt")
    assert tree(files.root) == {}
    assert files.look("a/b/c.txt") is None


def test_the_keys_are_not_read_listed_found_or_changed_where_they_lie_below_the_root(
    files: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KEYTURN_SECRET", raising=False)
    monkeypatch.setenv("KEYTURN_HOME", files.root)
    ring()
    key = Path(files.root, "keyturn", "key")
    before, text = tree(files.root), key.read_text()[:8]
    acts: list[Callable[[], object]] = [
        lambda: files.read("keyturn/key"),
        lambda: files.look("keyturn/key"),
        lambda: files.entries("keyturn"),
        lambda: files.write("keyturn/key", b"mine" * 16),
        lambda: files.write("keyturn/new/key", b"mine"),
        lambda: files.delete("keyturn/key"),
        lambda: files.search("keyturn/key", SearchQuery(text)),
        lambda: Workspace(key.parent).read("key"),
    ]
    for act in acts:
        with pytest.raises(PathRefused, match="it leads into Keyturn's state directory, with its keys"):
            act()
    with pytest.raises(PathRefused):
        files.search("keyturn", SearchQuery(text))
    for query in (SearchQuery(text), SearchQuery(f"{text}.*"), SearchQuery(None, glob="**/key")):
        found = files.search(".", replace(query, hidden=True, ignoring=False))
        assert (found.lines, found.passed) == ([], {"Keyturn's state directory": 1})
    assert tree(files.root) == before


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o444, 0o640])
def test_a_mode_is_kept(files: Workspace, mode: int) -> None:
    path = Path(files.root, "tool.sh")
    path.write_bytes(b"old")
    path.chmod(mode)
    files.write("tool.sh", b"new")
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert path.read_bytes() == b"new"


def test_a_new_file_has_the_mode_that_this_process_gives(files: Workspace) -> None:
    before = os.umask(0o027)
    try:
        files.write("new.txt", b"")
    finally:
        os.umask(before)
    assert stat.S_IMODE(Path(files.root, "new.txt").stat().st_mode) == 0o640


def test_nobody_becomes_somebody_else(files: Workspace) -> None:
    """Set-user-id does not pass to content that a model wrote."""
    path = Path(files.root, "tool")
    path.write_bytes(b"old")
    path.chmod(0o4755)
    files.write("tool", b"new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o755


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_an_owner_is_kept(files: Workspace) -> None:
    path = Path(files.root, "theirs")
    path.write_bytes(b"old")
    os.chown(path, 12345, 54321)
    files.write("theirs", b"new")
    assert (path.stat().st_uid, path.stat().st_gid) == (12345, 54321)


def test_a_hard_link_elsewhere_keeps_its_content(files: Workspace, tmp_path: Path) -> None:
    other = tmp_path.parent / f"{tmp_path.name}-other"
    other.write_bytes(b"shared")
    os.link(other, tmp_path / "linked")
    files.write("linked", b"mine")
    assert other.read_bytes() == b"shared"
    other.unlink()


def test_a_huge_file_is_neither_read_nor_written(files: Workspace) -> None:
    Path(files.root, "huge").write_bytes(b"x" * 1001)
    for operation in (
        lambda: files.read("huge"),
        lambda: files.delete("huge"),
        lambda: files.edited("huge", "x", "y"),
        lambda: files.write("huge", b"small"),
        lambda: files.write("new", b"x" * 1001),
    ):
        with pytest.raises(FileTooLarge, match="1000"):
            operation()
    assert tree(files.root) == {"huge": b"x" * 1001}
    files.write("new", b"x" * 1000)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux has such files")
def test_a_file_that_seems_empty_is_read_with_the_same_limit() -> None:
    with pytest.raises(FileTooLarge):
        Workspace("/proc/self", max_file_bytes=10).read("status")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x7fELF\0\1", "binary"),
        (b"text\xff", "UTF-8"),
        ("text".encode("utf-16"), "UTF-16"),
        ("é".encode("latin-1"), "UTF-8"),
        (b"text" * 3 + b"\0", "binary"),
    ],
)
def test_what_is_no_text_is_refused_kindly(files: Workspace, data: bytes, why: str) -> None:
    files.write("thing", data)
    for operation in (
        lambda: files.read("thing").text,
        lambda: files.edited("thing", "t", "T"),
        lambda: files.lines("thing"),
    ):
        with pytest.raises(NotText, match=why):
            operation()
    assert files.read("thing").data == data


def test_all_changes_are_made_or_none(files: Workspace) -> None:
    files.write("a", b"a")
    files.write("b", b"b")
    before = tree(files.root)
    seen = files.read("a"), files.read("b")
    files.write("b", b"somebody else's")
    with pytest.raises(FileChanged, match="'b' was changed"):
        files.apply([Change("a", seen[0], b"A"), Change("new/c", None, b"C"), Change("b", seen[1], b"B")])
    assert tree(files.root) == {**before, "b": b"somebody else's"}
    assert sorted(os.listdir(files.root)) == ["a", "b"], "nor are there directories that nobody asked for"


@pytest.mark.parametrize("last", ["gone", "appeared", "link", "directory", "too large"])
def test_what_was_done_is_undone(files: Workspace, last: str) -> None:
    """Whatever stops the last change, those before it are taken back: a file changed, one made, one deleted."""
    files.write("a", b"a")
    Path(files.root, "a").chmod(0o751)
    files.write("old", b"old")
    known = files.look("z")
    match last:
        case "gone":
            files.write("z", b"z")
            known = files.read("z")
            files.delete("z")
        case "appeared":
            files.write("z", b"theirs")
        case "link":
            Path(files.root, "z").symlink_to("a")
        case "directory":
            Path(files.root, "z").mkdir()
        case _:
            pass
    before = tree(files.root)
    after = b"Z" * (1001 if last == "too large" else 1)
    changes = [
        Change("a", files.read("a"), b"A"),
        Change("x/y/new", None, b"new"),
        Change("old", files.read("old"), None),
        Change("z", known, after),
    ]
    with pytest.raises(FileProblem):
        files.apply(changes)
    assert tree(files.root) == before
    assert stat.S_IMODE(Path(files.root, "a").stat().st_mode) == 0o751
    assert not Path(files.root, "x").exists()


def test_a_change_to_what_is_there_already_touches_nothing(files: Workspace) -> None:
    files.write("a", b"same")
    known = os.stat(f"{files.root}/a")
    files.write("a", b"same")
    assert os.stat(f"{files.root}/a").st_ino == known.st_ino


def test_a_full_disk_leaves_everything_as_it_was(files: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    files.write("a", b"a")

    def full(_handle: int, _data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("keyturn.tools.filesystem.staging.os.write", full)
    with pytest.raises(FileProblem, match="disk is full"):
        files.apply([Change("a", files.read("a"), b"A"), Change("d/b", None, b"B")])
    monkeypatch.undo()
    assert tree(files.root) == {"a": b"a"}
    assert os.listdir(files.root) == ["a"]


def test_a_directory_that_may_not_be_written_says_so(files: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def denied(path: str, flags: int, *args: int, **kwargs: int) -> int:
        if flags & os.O_CREAT:
            raise PermissionError(13, "denied")
        return real(path, flags, *args, **kwargs)

    monkeypatch.setattr("keyturn.tools.filesystem.staging.os.open", denied)
    with pytest.raises(FileProblem, match="permission was denied"):
        files.write("a", b"a")


def test_a_file_system_without_hard_links_will_do(files: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_args: object, **_kwargs: object) -> None:
        raise PermissionError(1, "no links here")

    monkeypatch.setattr("keyturn.tools.filesystem.staging.os.link", none)
    files.write("a", b"a")
    assert tree(files.root) == {"a": b"a"}


def test_entries_say_what_is_there(files: Workspace) -> None:
    files.write("b.txt", b"12345")
    files.write("a/x", b"")
    Path(files.root, "link").symlink_to("a")
    assert [tuple(entry) for entry in files.entries()] == [
        ("a", "directory", 0),
        ("b.txt", "file", 5),
        ("link", "link", 0),
    ]


def test_changes_of_one_root_come_one_after_another(files: Workspace) -> None:
    """Each reads, adds its line and writes; none is lost, though all do it at once through workspaces of their own."""
    files.write("log", b"")

    def add(name: str) -> None:
        mine = Workspace(files.root)
        for turn in range(20):
            with mine.alone():
                before = mine.read("log")
                mine.apply([Change("log", before, before.data + f"{name}{turn}\n".encode())])

    threads = [threading.Thread(target=add, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = files.read("log").text.split() if files.look("log") else []
    assert sorted(lines) == sorted(f"{name}{turn}" for name in "abcd" for turn in range(20))


def test_nobody_waits_for_ever_for_the_others(files: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keyturn.tools.filesystem.workspace._PATIENCE", 0.05)
    with files.alone(), pytest.raises(FileProblem, match="busy"):
        Workspace(files.root).write("a", b"")
    assert tree(files.root) == {}


@pytest.mark.parametrize(
    ("text", "old", "new", "every", "after"),
    [
        ("a b a", "b", "B", False, "a B a"),
        ("a b a", "a", "A", True, "A b A"),
        ("one\r\ntwo\r\n", "one\ntwo", "1\n2", False, "1\r\n2\r\n"),
        ("one\r\ntwo\r\n", "two", "2", False, "one\r\n2\r\n"),
        ("no newline at the end", "end", "start", False, "no newline at the start"),
        ("\ufeffone", "one", "1", False, "\ufeff1"),
        ("naïve 🗝️", "🗝️", "key", False, "naïve key"),
        ("gone", "gone", "", False, ""),
    ],
)
def test_a_text_is_replaced(files: Workspace, text: str, old: str, new: str, every: bool, after: str) -> None:
    files.write("a.txt", text.encode())
    change = files.edited("a.txt", old, new, every)
    files.apply([change])
    assert files.read("a.txt").data == after.encode()


@pytest.mark.parametrize(
    ("text", "old", "new", "why"),
    [
        ("one\ntwo", "three", "3", "not in the file"),
        ("one\n  two", "one two", "3", "only its spaces"),
        ("a\nb\na\n", "a", "A", "lines 1, 3"),
        ("aaa", "aa", "b", "several places"),
        ("a", "", "b", "empty"),
        ("a", "a", "a", "the same"),
    ],
)
def test_what_is_not_clear_is_not_replaced(files: Workspace, text: str, old: str, new: str, why: str) -> None:
    files.write("a.txt", text.encode())
    with pytest.raises(EditRefused, match=why):
        files.edited("a.txt", old, new)
