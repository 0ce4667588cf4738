"""A journal on a network file system is warned of, and refused where that is asked for."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from keyturn import UnsafeStore
from keyturn.cli.main import main
from keyturn.journal import file_system
from keyturn.journal.file_system import NETWORK, kind_in, network_kind
from keyturn.journal.sqlite import SQLiteJournal
from tests.table import each

TABLE = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
23 22 0:20 / /proc rw shared:2 - proc proc rw
30 22 0:50 / /srv rw shared:3 master:1 - nfs4 box:/srv rw,vers=4.2
31 30 8:2 / /srv/local rw - xfs /dev/sdb1 rw
32 22 0:51 / /mnt/with\\040space rw - cifs //box/share rw
33 22 0:52 / /data rw - ext4 /dev/sdc1 rw
34 33 0:53 / /data rw - fuse.sshfs ann@box: rw
35 22 0:54 / /run rw - tmpfs tmpfs rw
a line that is none
36 22
"""


@each(
    ("path", "kind"),
    [
        ("/home/ann/runs.db", "ext4"),
        ("/srv/runs.db", "nfs4"),
        ("/srv", "nfs4"),
        ("/srvx/runs.db", "ext4"),
        ("/srv/local/runs.db", "xfs"),
        ("/mnt/with space/runs.db", "cifs"),
        ("/data/runs.db", "fuse.sshfs"),
        ("/run/runs.db", "tmpfs"),
    ],
)
def test_the_deepest_mount_that_was_made_last_holds_a_path(path: str, kind: str) -> None:
    assert kind_in(TABLE, path) == kind


def test_without_a_table_nothing_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kind_in("", "/runs.db") is None
    monkeypatch.setattr(file_system, "MOUNTS", tmp_path / "none")
    assert network_kind(tmp_path / "runs.db") is None


def test_the_file_systems_of_one_machine_are_none_of_a_network() -> None:
    local = "ext2 ext3 ext4 xfs btrfs zfs bcachefs f2fs overlay aufs tmpfs ramfs squashfs apfs ntfs3 fuseblk vfat exfat"
    assert not NETWORK & set(local.split())


def on_nfs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = folder / "mountinfo"
    table.write_text(f"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n40 22 0:4 / {folder} rw - nfs4 box:/srv rw\n")
    monkeypatch.setattr(file_system, "MOUNTS", table)


def test_a_journal_on_a_network_is_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SQLiteJournal(tmp_path / "here.db")
    on_nfs(tmp_path, monkeypatch)
    with pytest.warns(UnsafeStore, match="nfs4") as told:
        SQLiteJournal(tmp_path / "runs.db")
    assert [warning.filename for warning in told] == [__file__], "it names the line that opened it"


def test_a_link_does_not_hide_where_it_leads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    far, near = tmp_path / "far", tmp_path / "near"
    far.mkdir()
    near.symlink_to(far)
    on_nfs(far, monkeypatch)
    assert (network_kind(near / "runs.db"), network_kind(tmp_path / "runs.db")) == ("nfs4", None)


def test_the_strict_refuse_it_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_nfs(tmp_path, monkeypatch)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnsafeStore)
        with pytest.raises(UnsafeStore, match="nfs4"):
            SQLiteJournal(tmp_path / "runs.db")
    assert not (tmp_path / "runs.db").exists()


def test_the_checker_refuses_it_when_it_is_strict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    SQLiteJournal(tmp_path / "runs.db")
    assert main(["check", url, "--strict"]) == 0
    on_nfs(tmp_path, monkeypatch)
    with pytest.warns(UnsafeStore):
        assert main(["check", url]) == 0
    capsys.readouterr()
    assert main(["check", url, "--strict"]) == 2
    assert "nfs4" in capsys.readouterr().err
