"""The mark of how far a file came: where it is lost, spoilt or cannot be kept, less is noticed and nothing fails."""

from __future__ import annotations

import errno
import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from keyturn.core.errors import StoreRestored
from keyturn.journal import marks as module

from .restoring import Payer, Place, go_on, waits

pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def file(tmp_path: Path) -> Place:
    return Place(f"sqlite:///{tmp_path}/runs.db")


@pytest.fixture
def marks(home: Path) -> Path:
    return home / "keyturn" / "stores"


async def paid_and_brought_back(file: Place, payer: Payer) -> str:
    """The run of a call that the copy says may run, and that ran after it was made."""
    journal = file.opened()
    run = await waits(journal, payer, approved=True)
    await journal.close()
    file.back_up()
    journal = file.opened()
    await go_on(journal, run, payer)
    await journal.close()
    file.bring_back()
    return run


async def noticed(file: Place) -> bool:
    journal = file.opened()
    found = await journal.restored()
    await journal.close()
    return found is not None


async def test_a_mark_that_is_there_notices(file: Place) -> None:
    run = await paid_and_brought_back(file, payer := Payer())
    journal = file.opened()
    with pytest.raises(StoreRestored):
        await go_on(journal, run, payer)
    await journal.close()


def full(*_: Any) -> int:
    raise OSError(errno.ENOSPC, "no space left on device")


async def test_where_the_disk_of_the_marks_is_full_all_goes_on_and_it_is_said_once(
    file: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What came after it was full is not noticed by another process: nothing outside of the store remembers it."""
    payer, journal = Payer(), file.opened()
    run = await waits(journal, payer, approved=True)
    await journal.close()
    file.back_up()
    journal = file.opened()
    monkeypatch.setattr(os, "pwrite", full)
    with caplog.at_level(logging.WARNING, "keyturn.journal"):
        assert (await go_on(journal, run, payer)).final_output == "done"
    assert [record.message[:34] for record in caplog.records] == ["the mark of the store cannot be wr"]
    file.bring_back()
    with pytest.raises(StoreRestored):  # this process knows how far it had come
        await go_on(journal, run, payer)
    await journal.close()
    monkeypatch.undo()


async def test_where_no_mark_was_ever_kept_nothing_is_noticed_and_nothing_fails(
    file: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "pwrite", full)
    await paid_and_brought_back(file, Payer())
    assert not await noticed(file)


async def test_a_half_written_mark_is_no_mark(file: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    true = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda place, content, at: true(place, content[:11], at))
    payer, journal = Payer(), file.opened()
    await waits(journal, payer)
    await journal.close()
    monkeypatch.setattr(os, "pwrite", true)
    for _ in range(3):
        assert not await noticed(file)


SPOILT: dict[str, Callable[[Path], Any]] = {
    "garbage": lambda mark: mark.write_bytes(b"\xff" * 20),
    "a number alone": lambda mark: mark.write_bytes(b"\xff" * 8),
    "empty": lambda mark: mark.write_bytes(b""),
    "other JSON": lambda mark: mark.write_bytes(b"\xff" * 8 + b"[1]\n"),
    "deleted": lambda mark: mark.unlink(),
    "a link": lambda mark: (mark.unlink(), mark.symlink_to("/dev/null")),
    "a directory": lambda mark: (mark.unlink(), mark.mkdir()),
}


@pytest.mark.parametrize("how", SPOILT)
async def test_a_mark_that_was_spoilt_stops_nobody(file: Place, marks: Path, how: str) -> None:
    """An honest store is never taken for a copy, however often it is opened, also by who had it open."""
    payer, journal = Payer(), file.opened()
    await waits(journal, payer)
    [mark] = marks.iterdir()
    SPOILT[how](mark)
    await journal.release(await journal.claim(await waits(journal, payer), "w", 60_000))
    await journal.close()
    for _ in range(3):
        assert not await noticed(file)
        SPOILT[how](mark) if mark.is_file() and not mark.is_symlink() else None
    for _ in range(2):
        assert not await noticed(file)


@pytest.mark.parametrize("how", SPOILT)
async def test_a_mark_that_was_spoilt_after_the_copy_notices_nothing_more(file: Place, marks: Path, how: str) -> None:
    await paid_and_brought_back(file, Payer())
    [mark] = marks.iterdir()
    SPOILT[how](mark)
    assert not await noticed(file)


async def test_a_process_that_has_the_store_open_notices_without_its_mark(file: Place, marks: Path) -> None:
    payer, journal = Payer(), file.opened()
    run = await waits(journal, payer, approved=True)
    await journal.close()
    file.back_up()
    journal = file.opened()
    await go_on(journal, run, payer)
    shutil.rmtree(marks)
    file.bring_back()
    with pytest.raises(StoreRestored):
        await go_on(journal, run, payer)
    await journal.close()


async def test_a_state_directory_that_cannot_be_used_notices_nothing_and_fails_nothing(
    file: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEYTURN_SECRET", "a-secret-that-is-in-no-file-at-all")
    (tmp_path / "occupied").write_text("")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for home in (tmp_path / "occupied", tmp_path / "loop", tmp_path / ("x" * 300)):
        monkeypatch.setenv("KEYTURN_HOME", str(home))
        await paid_and_brought_back(file, Payer())
        assert not await noticed(file)


def test_old_marks_of_files_that_are_gone_are_deleted_and_not_looked_for_each_time(
    marks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where most of very many stores still exist, to open one more reads the marks of no others."""
    monkeypatch.setattr(module, "_MOST", 6)
    monkeypatch.setattr(module, "_BETWEEN", 5)
    forget, looks = module._forget, list[str]()
    monkeypatch.setattr(module, "_forget", lambda path: (looks.append(path.name), forget(path)))
    for number in range(20):
        place = tmp_path / f"{number}.db"
        place.touch()
        assert module.mark_of(f"store{number}", str(place)) is not None
        os.utime(next(marks.glob(f"store{number}-*")), (number, number))
        if number == 1:
            place.unlink()
    left = {path.name.partition("-")[0] for path in marks.iterdir()}
    assert left == {f"store{number}" for number in range(20)} - {"store1"}
    assert len(looks) == 4 + 4 + 9  # of 10, of the 10 that there were again, and of 15
