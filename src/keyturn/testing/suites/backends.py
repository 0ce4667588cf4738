"""The shared suite of the backends: what every place for the files of a deep agent promises.

Subclass `BackendSuite`, say how a backend is made, and pytest runs the rest. What only one place can promise (a jail of
the disk, a prefix) is tested beside that place.
"""

from __future__ import annotations

from typing import ClassVar

import pytest

from ...core.errors import UserError
from ...tools.backends.backend import Backend
from ...tools.filesystem.problems import FileChanged, FileMissing, FileProblem, FileTooLarge, PathRefused
from ...tools.filesystem.search import SearchQuery
from ...tools.filesystem.staging import Change

OUTSIDE = ("..", "../x", "a/../../x", "~/x", "/../x", "a/\0b", "a\nb", "x" * 300, "/".join(["d"] * 3000), "\ud800")
NO_FILE = ("", "/", ".", "a/", "a/.", "//")


class BackendSuite:
    """Tests a backend: subclass it in a test module, name the class `Test...`, and implement `make_backend`.

    >>> from keyturn.tools.backends.state import StateBackend
    >>> class TestStateBackend(BackendSuite):
    ...     def make_backend(self):
    ...         return StateBackend()
    >>> hasattr(TestStateBackend, "test_a_new_backend_is_empty")
    True
    """

    #: Whether a run saves the files themselves, and not only where they are.
    saves_files: ClassVar[bool] = False

    def make_backend(self) -> Backend:
        """Make a backend that holds no file."""
        raise NotImplementedError("say how a backend is made")

    def test_a_new_backend_is_empty(self) -> None:
        backend = self.make_backend()
        assert backend.entries("/") == []
        assert dict(backend.names()) == {}
        assert backend.look("/a.txt") is None

    def test_what_is_written_is_read(self) -> None:
        backend = self.make_backend()
        for data in (b"", b"milk", b"milk\n", b"milk\r\neggs\r\n", "größe\n".encode(), b"\xff\x00binary"):
            backend.write("/a/b/file", data)
            assert backend.read("/a/b/file").data == data
        assert dict(backend.names()) == {"a/b/file": 8}

    def test_a_slash_in_front_is_the_root(self) -> None:
        backend = self.make_backend()
        backend.write("/a/x.txt", b"1")
        for path in ("a/x.txt", "/a/x.txt", "//a//x.txt", "./a/./x.txt"):
            assert backend.read(path).path == "a/x.txt"

    @pytest.mark.parametrize("path", OUTSIDE)
    def test_a_path_out_of_it_is_refused(self, path: str) -> None:
        backend = self.make_backend()
        with pytest.raises(PathRefused):
            backend.look(path)
        with pytest.raises(PathRefused):
            backend.write(path, b"x")
        with pytest.raises(PathRefused):
            backend.search(path, SearchQuery("x"))

    @pytest.mark.parametrize("path", NO_FILE)
    def test_a_directory_is_no_file(self, path: str) -> None:
        backend = self.make_backend()
        backend.write("/a/b", b"x")
        with pytest.raises(FileProblem):
            backend.read(path)
        with pytest.raises(FileProblem):
            backend.write(path, b"x")

    def test_a_file_is_no_directory(self) -> None:
        backend = self.make_backend()
        backend.write("/a", b"x")
        with pytest.raises(FileProblem):
            backend.write("/a/b", b"x")
        backend.write("/d/e", b"x")
        with pytest.raises(FileProblem):
            backend.write("/d", b"x")
        assert backend.read("/a").data == b"x"

    def test_entries_are_listed_by_name(self) -> None:
        backend = self.make_backend()
        backend.write("/b.txt", b"22")
        backend.write("/a/c.txt", b"1")
        assert [(entry.name, entry.kind, entry.size) for entry in backend.entries("/")][1] == ("b.txt", "file", 2)
        assert [(entry.name, entry.kind) for entry in backend.entries("/")] == [("a", "directory"), ("b.txt", "file")]
        assert [entry.name for entry in backend.entries("/a")] == ["c.txt"]
        with pytest.raises(FileMissing):
            backend.entries("/nowhere")

    def test_what_is_missing_is_said(self) -> None:
        backend = self.make_backend()
        with pytest.raises(FileMissing):
            backend.read("/a.txt")
        with pytest.raises(FileMissing):
            backend.lines("/a.txt")
        with pytest.raises(FileMissing):
            backend.edited("/a.txt", "a", "b")

    def test_a_part_of_a_file_is_read(self) -> None:
        backend = self.make_backend()
        backend.write("/a.txt", b"one\ntwo\nthree\n")
        assert backend.lines("/a.txt", 1, 1).splitlines()[0].split("\t") == ["     2", "two"]

    def test_a_text_is_edited(self) -> None:
        backend = self.make_backend()
        backend.write("/a.txt", b"one\ntwo\n")
        backend.apply([backend.edited("/a.txt", "two", "2")])
        assert backend.read("/a.txt").text == "one\n2\n"

    def test_a_change_of_what_changed_meanwhile_is_refused(self) -> None:
        backend = self.make_backend()
        backend.write("/a.txt", b"one\n")
        change = backend.edited("/a.txt", "one", "1")
        backend.write("/a.txt", b"one and more\n")
        with pytest.raises(FileChanged):
            backend.apply([change])
        with pytest.raises(FileProblem):
            backend.apply([Change("a.txt", None, b"new")])
        assert backend.read("/a.txt").text == "one and more\n"

    def test_a_huge_file_is_refused(self) -> None:
        backend = self.make_backend()
        with pytest.raises(FileTooLarge):
            backend.write("/a.txt", b"x" * (backend.max_file_bytes + 1))
        assert backend.look("/a.txt") is None

    def test_a_file_is_removed(self) -> None:
        backend = self.make_backend()
        backend.write("/a.txt", b"x")
        backend.delete("/a.txt")
        assert backend.look("/a.txt") is None
        with pytest.raises(FileMissing):
            backend.delete("/a.txt")

    def test_names_are_found(self) -> None:
        backend = self.make_backend()
        for name in ("a.py", "src/b.py", "src/deep/c.py", "d.md"):
            backend.write(name, b"x")
        found = backend.search("/", SearchQuery(None, glob="**/*.py"))
        assert sorted(found.lines) == ["a.py", "src/b.py", "src/deep/c.py"]
        assert backend.search("/src", SearchQuery(None, glob="*.py")).lines == ["src/b.py"]

    def test_texts_are_found(self) -> None:
        backend = self.make_backend()
        backend.write("/a.txt", b"milk\neggs\n")
        backend.write("/b/c.txt", b"oat milk\n")
        assert sorted(backend.search("/", SearchQuery("milk")).lines) == ["a.txt:1:milk", "b/c.txt:1:oat milk"]
        assert backend.search("/", SearchQuery("^e..s$")).lines == ["a.txt:2:eggs"]
        assert backend.search("/b", SearchQuery("milk")).lines == ["b/c.txt:1:oat milk"]
        with pytest.raises(FileMissing):
            backend.search("/nowhere", SearchQuery("milk"))

    def test_a_pattern_cannot_hold_up_the_rest(self) -> None:
        backend = self.make_backend()
        backend.write("/a.txt", b"a" * 40 + b"!\n")
        with pytest.raises(FileProblem, match="took longer"):
            backend.search("/", SearchQuery("(a+)+$", seconds=0.3))

    def test_a_saved_run_comes_back_with_its_files_or_their_place(self) -> None:
        backend = self.make_backend().restored(None)
        backend.write("/a.txt", b"x")
        again = backend.restored(backend.saved())
        assert again.read("/a.txt").data == b"x"
        assert (again is backend) == (not self.saves_files)

    def test_the_files_of_another_place_are_refused(self) -> None:
        with pytest.raises(UserError):
            self.make_backend().restored({"elsewhere": "another place"})

    def test_each_run_has_files_of_its_own_where_they_are_saved(self) -> None:
        declared = self.make_backend()
        one, two = declared.restored(None), declared.restored(None)
        one.write("/a.txt", b"x")
        assert (two.look("/a.txt") is None) == self.saves_files
        assert (declared.look("/a.txt") is None) == self.saves_files

    def test_it_has_a_place_that_people_can_read(self) -> None:
        assert self.make_backend().root.isprintable()
