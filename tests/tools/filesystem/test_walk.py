"""A walk tells every plain file once, in order, follows nothing, and says what it passes by."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyturn.tools.filesystem import walk as walk_module
from keyturn.tools.filesystem.walk import DIRECTORY, Walk, read_plain
from tests.effort import some


@contextmanager
def opened(root: Path) -> Iterator[int]:
    handle = os.open(root, DIRECTORY)
    try:
        yield handle
    finally:
        os.close(handle)


def walked(root: Path, walk: Walk | None = None, names: tuple[str, ...] = ()) -> list[str]:
    with opened(root) as top:
        found = (walk or Walk()).files(top, names)
        return [prefix + name for prefix, _, files in found for name in files]


NAMES = st.sampled_from(["a", "b", "A", "a b", "é", "z.txt", "\udcff"])


@settings(max_examples=some(40), deadline=None)
@given(st.sets(st.lists(NAMES, min_size=1, max_size=4).map(tuple), max_size=8))
def test_every_file_is_told_once(tmp_path_factory: pytest.TempPathFactory, paths: set[tuple[str, ...]]) -> None:
    root = tmp_path_factory.mktemp("walk")
    for parts in paths:
        place = root.joinpath(*parts)
        if not place.exists() and not any(above.is_file() for above in place.parents):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.touch()
    known = sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
    told = walked(root)
    assert sorted(told) == known
    assert told == walked(root), "in the same order each time"


def test_a_directory_comes_before_those_in_it(tmp_path: Path) -> None:
    for path in ("b/x", "a/y", "a/b/z", "c", "a.txt"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    assert walked(tmp_path) == ["a.txt", "c", "a/y", "a/b/z", "b/x"]
    assert walked(tmp_path, names=("a",)) == ["a/y", "a/b/z"]


def test_nothing_is_followed_and_all_is_counted(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "f").touch()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "loop").symlink_to(".")
    (tmp_path / "file-link").symlink_to("real/f")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").touch()
    walk = Walk()
    assert walked(tmp_path, walk) == ["real/f"]
    assert walk.passed == {"links and special files": 4, "hidden": 1}
    assert walked(tmp_path, Walk(hidden=True)) == ["real/f"], "what git keeps is never searched"
    with pytest.raises(OSError, match=r"Not a directory|symbolic"):
        walked(tmp_path, names=("link",))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_cannot_be_read_is_counted(tmp_path: Path) -> None:
    (tmp_path / "shut").mkdir(mode=0)
    walk = Walk()
    assert walked(tmp_path, walk) == []
    assert walk.passed == {"unreadable": 1}
    (tmp_path / "shut").chmod(0o700)


def test_a_directory_that_goes_away_is_counted(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").touch()
    (tmp_path / "f").touch()
    walk = Walk()
    with opened(tmp_path) as top:
        found = walk.files(top)
        assert next(found)[2] == ["f"]
        os.rename(tmp_path / "a", tmp_path / "c")
        assert [prefix for prefix, _, _ in found] == ["b/"]
    assert walk.passed == {"unreadable": 1}


def test_no_handle_stays_open_when_somebody_stops_in_the_middle(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*"abcdef")
    deep.mkdir(parents=True)
    (deep / "f").touch()
    before = len(os.listdir("/dev/fd"))
    with opened(tmp_path) as top:
        found = Walk().files(top)
        next(found)
        assert len(os.listdir("/dev/fd")) > before + 5
        found.close()
    assert len(os.listdir("/dev/fd")) == before


def test_it_stops_when_the_time_is_up(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").touch()
    walk = Walk(end=time.monotonic() - 1)
    assert walked(tmp_path, walk) == []
    assert walk.stopped == "the time was up"


def test_it_goes_only_so_deep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk_module, "DEEPEST", 2)
    deep = tmp_path.joinpath(*"abcd")
    deep.mkdir(parents=True)
    for place in (deep, deep.parent, deep.parent.parent):
        (place / "f").touch()
    walk = Walk()
    assert walked(tmp_path, walk) == ["a/b/f"]
    assert walk.passed == {"too deep": 1}


def test_a_file_is_read_whole_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"12345")
    (tmp_path / "empty").touch()
    (tmp_path / "link").symlink_to("f")
    os.mkfifo(tmp_path / "pipe")
    with opened(tmp_path) as here:
        assert read_plain(here, "f", 5) == b"12345"
        assert read_plain(here, "f", 4) == "too large"
        assert read_plain(here, "empty", 0) == b""
        assert [read_plain(here, name, 99) for name in ("link", "pipe", ".", "none")] == [
            "unreadable",
            "unreadable",
            "unreadable",
            "missing",
        ]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux has such files")
def test_a_file_that_says_that_it_is_empty_is_read() -> None:
    with opened(Path("/proc", str(os.getpid()))) as here:
        assert b"Name:" in read_plain(here, "status", 1 << 20)  # type: ignore[operator]  # it is bytes
        assert read_plain(here, "status", 10) == "too large"
