"""The backends that come with keyturn, each under the shared suite, and what only one of them can promise."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from keyturn import UserError
from keyturn.deep import CompositeBackend, FilesystemBackend, SandboxBackend, StateBackend
from keyturn.testing import BackendSuite
from keyturn.tools.backends.state import MOST_BYTES
from keyturn.tools.filesystem.problems import FileTooLarge, PathRefused
from keyturn.tools.filesystem.search import Found, SearchQuery


class TestStateBackend(BackendSuite):
    saves_files = True

    def make_backend(self) -> Any:
        return StateBackend()


class TestFilesystemBackend(BackendSuite):
    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def make_backend(self) -> Any:
        return FilesystemBackend(self.folder)


class TestCompositeBackend(BackendSuite):
    saves_files = True

    def make_backend(self) -> Any:
        return CompositeBackend(StateBackend(), {"/a": StateBackend()})

    def test_a_new_backend_is_empty(self) -> None:
        assert dict(self.make_backend().names()) == {}

    def test_a_file_is_no_directory(self) -> None:
        backend = self.make_backend()
        with pytest.raises(PathRefused):
            backend.write("/a", b"x")

    def test_entries_are_listed_by_name(self) -> None:
        backend = self.make_backend()
        backend.write("/b.txt", b"22")
        backend.write("/a/c.txt", b"1")
        assert [(entry.name, entry.kind) for entry in backend.entries("/")] == [("a", "directory"), ("b.txt", "file")]


def test_the_lines_and_times_of_a_file_in_memory() -> None:
    times = iter(["t1", "t2", "t3"])
    backend = StateBackend(now=lambda: next(times))
    backend.write("/backup.sh", b"#!/bin/sh\ntar\n")
    backend.write("/backup.sh", b"#!/bin/sh\ntar -czf\n")
    assert backend.files == {
        "/backup.sh": {"content": ["#!/bin/sh", "tar -czf", ""], "created_at": "t1", "modified_at": "t2"}
    }


def test_files_in_memory_have_a_limit_in_all() -> None:
    backend = StateBackend()
    backend.files["/big"] = {"content": ["x" * MOST_BYTES], "created_at": "", "modified_at": ""}
    with pytest.raises(FileTooLarge):
        backend.write("/more", b"x")


@pytest.mark.parametrize("wrong", [{"/a": 5}, {"/a": {"content": "x"}}, {"/a": {}}])
def test_files_that_are_none_are_refused(wrong: Any) -> None:
    with pytest.raises(UserError, match=r"files\['/a'\] must be a text"):
        StateBackend(wrong)
    with pytest.raises(PathRefused):
        StateBackend({"/../a": "x"})
    with pytest.raises(PathRefused):
        StateBackend({"/a": "x", "/a/b": "y"})


def test_a_link_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "in" / "dir").symlink_to(tmp_path)
    backend = FilesystemBackend(tmp_path / "in")
    for path in ("/link", "/dir/secret"):
        with pytest.raises(PathRefused):
            backend.read(path)
        with pytest.raises(PathRefused):
            backend.write(path, b"x")
    assert backend.search("/", SearchQuery("secret")).lines == []
    assert (tmp_path / "secret").read_text() == "secret"


def test_a_link_that_is_put_in_place_meanwhile_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "secret").write_text("old\n")
    (tmp_path / "in" / "a").write_text("old\n")
    backend = FilesystemBackend(tmp_path / "in")
    change = backend.edited("/a", "old", "new")
    os.unlink(tmp_path / "in" / "a")
    (tmp_path / "in" / "a").symlink_to(tmp_path / "secret")
    with pytest.raises(PathRefused):
        backend.apply([change])
    assert (tmp_path / "secret").read_text() == "old\n"


def test_the_folders_own_path_is_its_root(tmp_path: Path) -> None:
    backend = FilesystemBackend(tmp_path)
    backend.write("/a.txt", b"x")
    assert backend.read(f"{tmp_path}/a.txt").path == "a.txt"
    assert [entry.name for entry in backend.entries(str(tmp_path))] == ["a.txt"]


def test_what_is_protected_is_not_changed(tmp_path: Path) -> None:
    composite = CompositeBackend(StateBackend(), {"/repo": FilesystemBackend(tmp_path)})
    with pytest.raises(PathRefused):
        composite.write("/repo/.git/hooks/post-commit", b"x")


def test_a_prefix_leads_to_its_backend(tmp_path: Path) -> None:
    composite = CompositeBackend(StateBackend({"/a.txt": "milk"}), {"/disk/": FilesystemBackend(tmp_path)})
    composite.write("/disk/b.txt", b"oat milk\n")
    composite.write("/c.txt", b"eggs\n")
    assert (tmp_path / "b.txt").read_text() == "oat milk\n"
    assert sorted(composite.search("/", SearchQuery("milk")).lines) == ["a.txt:1:milk", "disk/b.txt:1:oat milk"]
    assert composite.search("/", SearchQuery(None, glob="disk/*")).lines == ["disk/b.txt"]
    assert sorted(composite.names()) == ["a.txt", "c.txt", "disk/b.txt"]
    assert str(tmp_path) in composite.root


@pytest.mark.parametrize("prefix", ["", "/", "/..", "."])
def test_a_prefix_that_is_none_is_refused(prefix: str) -> None:
    with pytest.raises((UserError, PathRefused)):
        CompositeBackend(StateBackend(), {prefix: StateBackend()})


def test_a_prefix_hides_what_the_default_has_there() -> None:
    composite = CompositeBackend(StateBackend({"/m/a.txt": "old milk"}), {"/m": StateBackend({"/a.txt": "milk"})})
    assert composite.read("/m/a.txt").text == "milk"
    assert composite.search("/", SearchQuery("milk")).lines == ["m/a.txt:1:milk"]
    assert dict(composite.names()) == {"m/a.txt": 4}


def test_a_sandbox_has_a_shell(tmp_path: Path) -> None:
    assert SandboxBackend(tmp_path, timeout=9).shell.about()["seconds"] == 9
    assert FilesystemBackend(tmp_path).shell is None


def test_one_folder_under_two_prefixes_does_not_wait_for_itself(tmp_path: Path) -> None:
    backend = CompositeBackend(FilesystemBackend(tmp_path), {"/again/": FilesystemBackend(tmp_path)})
    backend.write("/again/a", b"1")
    assert backend.read("/a").data == b"1"


def test_two_made_of_the_same_places_do_not_wait_for_each_other(tmp_path: Path) -> None:
    """Each locked its own default first, and then waited for the other's."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    one, two = FilesystemBackend(tmp_path / "one"), FilesystemBackend(tmp_path / "two")
    crossed = [CompositeBackend(one, {"/b/": two}), CompositeBackend(two, {"/b/": one})]

    def writes(number: int) -> None:
        for count in range(50):
            crossed[number].write(f"/{number}-{count}", b"1")

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(writes, range(2)))
    assert [len(list((tmp_path / name).iterdir())) for name in ("one", "two")] == [50, 50]


@pytest.mark.each
@pytest.mark.parametrize(
    ("glob", "found"),
    [
        ("*/*.md", ["memories/user.md", "src/a.md"]),
        ("m*/**", ["memories/team/t.md", "memories/user.md"]),
        ("{memories,src}/*.md", ["memories/user.md", "src/a.md"]),
        ("memories/**", ["memories/team/t.md", "memories/user.md"]),
        ("**/team/*", ["memories/team/t.md"]),
        ("**/t.md", ["memories/team/t.md"]),
        ("*.md", []),
        ("memories", []),
    ],
)
def test_a_pattern_means_the_same_below_a_prefix(glob: str, found: list[str]) -> None:
    """What was there was told not to be."""
    routes = {
        "/memories/": StateBackend({"/user.md": "tea", "/team/hidden.md": "tea"}),
        "/memories/team": StateBackend({"/t.md": "tea"}),
    }
    backend = CompositeBackend(StateBackend({"/src/a.md": "tea"}), routes)
    assert sorted(backend.search(".", SearchQuery(None, glob=glob)).lines) == found
    if "/" in glob:
        assert sorted(backend.search(".", SearchQuery("tea", glob=glob, mode="files_with_matches")).lines) == found


def test_a_pattern_that_means_many_things_below_a_prefix_has_the_time_of_one_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = list[float]()

    def slow(_self: object, _path: str, query: SearchQuery) -> Found:
        asked.append(query.seconds)
        clock[0] += 4.0
        return Found()

    clock = [0.0]
    monkeypatch.setattr("keyturn.tools.backends.composite.time.monotonic", lambda: clock[0])
    monkeypatch.setattr(StateBackend, "search", slow)
    backend = CompositeBackend(StateBackend(), {"/a/a/a": StateBackend()})
    found = backend.search(".", SearchQuery(None, glob="**/a/" * 100 + "x", seconds=10.0))
    assert (asked, found.stopped) == ([10.0, 6.0, 2.0], "the time was up")
