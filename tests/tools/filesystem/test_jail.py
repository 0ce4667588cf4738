"""No path leads out of a workspace, whatever it looks like and whatever somebody does to the disk meanwhile."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from keyturn import PathRefused, UserError, Workspace
from keyturn.tools.filesystem.jail import parts_of
from keyturn.tools.filesystem.problems import FileMissing, FileProblem
from keyturn.tools.filesystem.staging import Change
from tests.table import each

SECRET = "the secret outside"


@pytest.fixture
def files(tmp_path: Path) -> Workspace:
    (tmp_path / "secret.txt").write_text(SECRET)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text(SECRET)
    root = tmp_path / "root"
    (root / "src").mkdir(parents=True)
    (root / "src" / "app.py").write_text("app")
    return Workspace(root)


def operations(files: Workspace, path: str) -> dict[str, Callable[[], Any]]:
    return {
        "read": lambda: files.read(path),
        "look": lambda: files.look(path),
        "lines": lambda: files.lines(path),
        "edited": lambda: files.edited(path, "e", "E"),
        "write": lambda: files.write(path, b"pwned"),
        "delete": lambda: files.delete(path),
        "entries": lambda: files.entries(f"{path}/."),
    }


def refuses_everything(files: Workspace, path: str) -> None:
    for name, operation in operations(files, path).items():
        try:
            made = operation()
        except PathRefused as refused:
            said = str(refused)
        else:
            raise AssertionError(f"{name} of {path!r} gave {made!r}")
        assert files.root not in said, "where the workspace is, is nobody's business"
    assert not [name for name in os.listdir(f"{files.root}/..") if name not in ("root", "secret.txt", "outside")]


LEXICAL = {
    "parent": "../secret.txt",
    "parent in the middle": "src/../../secret.txt",
    "parent that would stay inside": "src/../src/app.py",
    "only parent": "..",
    "parent at the end": "src/..",
    "absolute": "/etc/passwd",
    "absolute twice": "//etc/passwd",
    "home": "~/secret.txt",
    "home of somebody": "~",
    "NUL": "src/app.py\0.txt",
    "newline": "src/app.py\nsrc/other.py",
    "escape": "\x1b[2Jsrc",
    "delete character": "a\x7fb",
    "C1 control": "a\x9bb",
    "half a character": "a\udc80b",
    "long name": "a" * 256,
    "long name in bytes": "é" * 128,
    "long path": "/".join(["a" * 200] * 21),
    "proc": "/proc/self/root/etc/passwd",
}


@each("path", LEXICAL.values(), ids=LEXICAL.keys())
def test_a_path_that_looks_wrong_is_refused_before_the_disk_is_asked(files: Workspace, path: str) -> None:
    with pytest.raises(PathRefused, match="refused"):
        parts_of(path)
    refuses_everything(files, path)


@pytest.mark.parametrize("path", ["", ".", "./", "src/", "src/app.py/", "src/."])
def test_a_directory_is_no_file(files: Workspace, path: str) -> None:
    for name, operation in operations(files, path).items():
        if name != "entries":
            with pytest.raises(FileProblem):
                operation()
    assert (Path(files.root) / "src" / "app.py").read_text() == "app"


def make_link(to: Path, at: Path) -> None:
    at.symlink_to(to, target_is_directory=to.is_dir())


def links(files: Workspace) -> dict[str, str]:
    root = Path(files.root)
    outside = root.parent / "outside"
    make_link(outside / "secret.txt", root / "file-link")
    make_link(outside, root / "directory-link")
    make_link(Path("../outside/secret.txt"), root / "relative-link")
    make_link(root / "src" / "app.py", root / "inside-link")
    make_link(root / "file-link", root / "chain")
    make_link(root / "loop", root / "loop")
    make_link(root / "nowhere", root / "dangling")
    make_link(Path("/proc/self/root"), root / "proc-link")
    make_link(outside, root / "src" / "deep")
    return {
        "link to a file outside": "file-link",
        "link to a directory outside": "directory-link/secret.txt",
        "relative link": "relative-link",
        "link that stays inside": "inside-link",
        "link to a link": "chain",
        "link to itself": "loop",
        "below a link to itself": "loop/x",
        "link to nothing": "dangling",
        "link into proc": "proc-link/etc/passwd",
        "link further down": "src/deep/secret.txt",
        "new file through a link": "directory-link/new.txt",
        "new directory through a link": "directory-link/new/new.txt",
    }


def test_no_link_is_followed(files: Workspace) -> None:
    for path in links(files).values():
        refuses_everything(files, path)
    assert (Path(files.root).parent / "outside" / "secret.txt").read_text() == SECRET
    assert os.listdir(f"{files.root}/../outside") == ["secret.txt"]


def test_what_is_no_plain_file_is_refused_and_nobody_waits(files: Workspace) -> None:
    root = Path(files.root)
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        os.chdir(root)  # the name of a socket must be short
        try:
            server.bind("socket")
        finally:
            os.chdir(here)
    names = ["pipe", "socket"]
    if os.geteuid() == 0:
        os.mknod(root / "device", 0o600 | 0o020000, os.makedev(1, 5))
        names.append("device")
    for name in names:
        with pytest.raises(PathRefused):
            files.read(name)
        with pytest.raises(PathRefused):
            files.write(name, b"x")
        with pytest.raises(PathRefused):
            files.delete(name)
    kinds = {entry.name: entry.kind for entry in files.entries()}
    assert {kinds[name] for name in names} == {"other"}


def test_a_file_is_no_directory(files: Workspace) -> None:
    for operation in (
        lambda: files.read("src/app.py/x"),
        lambda: files.write("src/app.py/x", b""),
        lambda: files.entries("src/app.py"),
    ):
        with pytest.raises(PathRefused, match="not a directory"):
            operation()


@pytest.mark.parametrize("name", [".git", ".GIT", ".Git", ".git.", ".g\u200cit", "\uff0egit"])
def test_what_git_runs_is_not_changed(files: Workspace, name: str) -> None:
    """Some file systems take these names for one and the same."""
    for path in (f"{name}/hooks/pre-commit", name, f"src/{name}/config"):
        with pytest.raises(PathRefused):
            files.write(path, b"#!/bin/sh\n")
        with pytest.raises(PathRefused):
            files.changeable(path)
    (Path(files.root) / ".git").mkdir(exist_ok=True)
    (Path(files.root) / ".git" / "HEAD").write_text("ref")
    assert files.read(".git/HEAD").text == "ref", "reading it is no harm"


def test_a_root_that_is_a_link_is_the_users_word(files: Workspace, tmp_path: Path) -> None:
    make_link(Path(files.root), tmp_path / "alias")
    again = Workspace(tmp_path / "alias")
    assert again.read("src/app.py").text == "app"
    assert again.root == files.root


def test_a_root_that_was_swapped_for_a_link_is_refused(files: Workspace, tmp_path: Path) -> None:
    os.rename(files.root, tmp_path / "moved")
    make_link(tmp_path / "outside", Path(files.root))
    with pytest.raises(FileProblem):
        files.read("secret.txt")


@pytest.mark.parametrize("name", ["missing", "a-file"])
def test_a_root_must_be_a_directory(tmp_path: Path, name: str) -> None:
    (tmp_path / "a-file").write_text("")
    with pytest.raises(UserError, match="directory that exists"):
        Workspace(tmp_path / name)


def test_names_of_all_scripts_and_spaces_are_names(files: Workspace) -> None:
    for name in ("naïve café.txt", "日本語/ファイル.md", "-rf", " leading", "a*b?[c]", "back\\slash", "...", "emoji 🗝️"):
        files.write(name, name.encode())
        assert files.read(name).text == name


def test_a_directory_swapped_for_a_link_meanwhile_leads_nowhere(files: Workspace, tmp_path: Path) -> None:
    """Somebody swaps a directory for a link to another one, as fast as they can, while it is read and written."""
    root, outside = Path(files.root), tmp_path / "outside"
    (root / "swap").mkdir()
    (root / "swap" / "secret.txt").write_text("inside")
    make_link(outside, root / "link")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            os.rename(root / "swap", root / "aside")
            os.rename(root / "link", root / "swap")
            os.rename(root / "swap", root / "link")
            os.rename(root / "aside", root / "swap")

    thread = threading.Thread(target=swap)
    thread.start()
    turn = read = stolen = 0
    try:
        while turn < 3000 or not read:  # on a busy machine who swaps may have nearly all the time
            turn += 1
            try:
                known = files.read("swap/secret.txt")
                inside = known.text.startswith("inside")
                read += inside
                stolen += not inside
                if turn % 3 == 0:
                    files.apply([Change(known.path, known, f"inside {turn}".encode())])
            except FileProblem:
                continue
    finally:
        stop.set()
        thread.join()
    assert (outside / "secret.txt").read_text() == SECRET
    assert os.listdir(outside) == ["secret.txt"], "nothing was written there, not even for a moment"
    assert not stolen, "what was read was never what is outside"


def test_a_file_swapped_for_a_link_meanwhile_leads_nowhere(files: Workspace, tmp_path: Path) -> None:
    root, outside = Path(files.root), tmp_path / "outside"
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            for make in (lambda at: at.symlink_to(outside / "secret.txt"), lambda at: at.write_text("inside")):
                make(root / "next")
                os.rename(root / "next", root / "target")

    (root / "target").write_text("inside")
    thread = threading.Thread(target=swap)
    thread.start()
    seen: set[str] = set()
    try:
        for turn in range(3000):
            try:
                seen.add(files.read("target").text)
                if turn % 10 == 0:
                    files.write("target", b"inside")
            except FileProblem:
                seen.add("refused")
    finally:
        stop.set()
        thread.join()
    assert seen <= {"inside", "", "refused"}
    assert (outside / "secret.txt").read_text() == SECRET


def test_what_is_missing_is_missing(files: Workspace) -> None:
    assert files.look("no/such/file") is None
    for operation in (
        lambda: files.read("none"),
        lambda: files.delete("none"),
        lambda: files.entries("none"),
        lambda: files.lines("none"),
    ):
        with pytest.raises(FileMissing, match="none"):
            operation()
