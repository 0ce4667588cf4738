"""The key ring: who may read its file, how keys are changed, and what is made for one purpose is good for no other."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from keyturn import Agent, Runner, RunState, StateRejected, UserError
from keyturn.cli.main import main
from keyturn.core.codec import Log
from keyturn.core.errors import LogDamaged
from keyturn.core.seal import Chain, Ring, key_id
from keyturn.core.upcasts import VERSION
from keyturn.engine.run.log_cache import log_in
from keyturn.journal.sqlite import SQLiteJournal
from keyturn.models.scripted.model import ScriptedModel
from keyturn.support import keys
from keyturn.support.keys import add_key, ring, secrets_in

ONE, TWO = "the-first-secret-of-all", "another-secret-altogether"


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A state directory without a key."""
    monkeypatch.delenv("KEYTURN_SECRET", raising=False)
    monkeypatch.delenv("KEYTURN_SECRETS_OLD", raising=False)
    monkeypatch.setenv("KEYTURN_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(keys, "_BELIEVED", 0.0)  # the file is changed under a process that has just looked at it
    return tmp_path / "home" / "keyturn"


def agent() -> Agent[None]:
    return Agent("a", model=ScriptedModel(["hello", "hello"]))


def test_the_file_and_its_directories_are_private_whatever_the_umask(home: Path) -> None:
    """L3."""
    before = os.umask(0)
    try:
        ring()
    finally:
        os.umask(before)
    modes = [path.stat().st_mode & 0o777 for path in (home / "key", home, home.parent)]
    assert modes == [0o600, 0o700, 0o700]
    assert [path.name for path in home.iterdir()] == ["key"]


SPOILT: dict[str, Callable[[Path], object]] = {
    "others can write it": lambda home: (home / "key").chmod(0o602),
    "its group can read it": lambda home: (home / "key").chmod(0o640),
    "others can read it": lambda home: (home / "key").chmod(0o604),
    "a link": lambda home: ((home / "key").rename(home / "true"), (home / "key").symlink_to(home / "true")),
    "a link to nothing": lambda home: ((home / "key").unlink(), (home / "key").symlink_to(home / "none")),
    "a directory": lambda home: ((home / "key").unlink(), (home / "key").mkdir()),
    "a pipe": lambda home: ((home / "key").unlink(), os.mkfifo(home / "key", 0o600)),
    "empty": lambda home: (home / "key").write_text(""),
    "too short": lambda home: (home / "key").write_text("half"),
    "an open directory": lambda home: home.chmod(0o777),
    "a directory of a group": lambda home: home.chmod(0o770),
}


@pytest.mark.each
@pytest.mark.parametrize("what", SPOILT)
def test_a_key_that_others_could_have_written_or_read_is_refused(what: str, home: Path) -> None:
    """L3: typed, with the remedy, and never replaced without a word."""
    ring()
    SPOILT[what](home)
    for _ in range(2):
        with pytest.raises(UserError) as caught:
            ring()
        assert str(home) in str(caught.value)


def test_a_directory_that_others_write_in_is_good_with_its_sticky_bit(home: Path) -> None:
    """L3: nobody can take another's file away there."""
    ids = ring().ids
    home.chmod(0o1777)
    assert ring().ids == ids


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can give a file away")
def test_another_users_key_is_refused(home: Path) -> None:
    """L3."""
    ring()
    os.chown(home / "key", 12345, 12345)
    with pytest.raises(UserError, match="another user"):
        ring()


def test_several_secrets_verify_and_the_first_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEYTURN_SECRET", ONE)
    old = ring()
    monkeypatch.setenv("KEYTURN_SECRET", f" {TWO}\n{ONE} ")
    both = ring()
    assert both.ids[1:] == old.ids
    mac = old.mac("state", b"said")
    assert both.fits("state", mac, b"said")
    assert not old.fits("state", both.mac("state", b"said"), b"said")
    for wrong in (mac[:-1], mac + "A", "é" + mac, "", ".", mac.partition(".")[2]):
        assert not both.fits("state", wrong, b"said")


def test_what_is_made_for_one_purpose_is_good_for_no_other() -> None:
    one = Ring([ONE.encode()])
    for purpose in ("state", "line", "row"):
        fits = [other for other in ("state", "line", "row") if one.fits(other, one.mac(purpose, b"x"), b"x")]
        assert fits == [purpose]


async def test_keys_are_changed_without_refusing_what_older_ones_signed(home: Path, tmp_path: Path) -> None:
    """A run whose lines were sealed with both; a state of the old key; and neither for whoever lacks the key."""
    journal = SQLiteJournal(tmp_path / "runs.db")
    first = (await Runner.run(agent(), "hi", journal=journal)).run_id
    text = (await Runner.run(agent(), "hi")).to_state().to_string()
    old = Ring([secrets_in(home / "key")[0].encode()])
    add_key()
    assert ring().ids[1:] == old.ids
    second = (await Runner.run(agent(), "hi", journal=journal)).run_id
    for run in (first, second):
        assert len(await log_in(journal, run)) == 2
    assert (await RunState.from_string(agent(), text)).run_id
    with pytest.raises(LogDamaged, match="a key that this process does not have"):
        Chain(lambda: old, "default", second).open((await journal.read(second))[0])
    await journal.close()


def test_a_process_at_work_takes_in_a_key_that_was_added(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, though it looks at the file now and then only: by the key that it does not know."""
    monkeypatch.setattr(keys, "_BELIEVED", 3600.0)
    known = ring()
    chain = Chain(ring, "default", "run")
    another_process_adds_a_key(home)
    sealed = Chain(lambda: Ring([secrets_in(home / "key")[0].encode()]), "default", "run").seal(b"{}")
    assert ring() is known
    assert chain.copy().open(sealed) == b"{}"
    name = sealed.rpartition(b"\t")[2].partition(b".")[0].decode()
    assert name in known
    assert name not in known.ids
    with pytest.raises(LogDamaged):
        chain.open(sealed.replace(b"{}", b"[]"))


@pytest.mark.parametrize("change", ["rotate", "retire"])
def test_a_change_sweeps_the_secrets_that_a_process_which_died_left_beside_the_file(home: Path, change: str) -> None:
    old = ring().ids[0]
    add_key()
    (home / "key.0123456789abcdef").write_text((home / "key").read_text())
    (home / "key.backup").write_text("of the user's own")
    assert main(["keys", "rotate"] if change == "rotate" else ["keys", "retire", old]) == 0
    assert sorted(each.name for each in home.iterdir()) == ["key", "key.backup"]


def test_a_disk_that_is_full_changes_no_key_and_keeps_no_secret(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = ring().ids

    def full(*_given: object) -> None:
        raise OSError(28, "No space left on device")

    for step in ("fsync", "replace"):
        with monkeypatch.context() as patched:
            patched.setattr(os, step, full)
            assert main(["keys", "rotate"]) == 1
        assert "cannot be changed: No space left on device" in capsys.readouterr().err
        assert ([each.name for each in home.iterdir()], ring().ids) == (["key"], before)


def test_a_key_that_the_environment_gives_beside_the_file_is_retired_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KEYTURN_SECRETS_OLD", ONE)
    assert main(["keys", "retire", key_id(ONE.encode())]) == 1
    assert "comes from KEYTURN_SECRETS_OLD" in capsys.readouterr().err


def test_a_new_key_is_on_the_disk_before_it_seals_a_line(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of its file, too: the line may be kept by another machine."""
    synced: list[int] = []
    forced = os.fsync

    def noted(place: int) -> None:
        synced.append(os.fstat(place).st_ino)
        forced(place)

    monkeypatch.setattr(os, "fsync", noted)
    ring()
    assert synced[-1] == home.stat().st_ino
    synced.clear()
    add_key()
    assert synced[-1] == home.stat().st_ino


def test_a_key_that_this_process_adds_seals_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "_BELIEVED", 3600.0)
    before = ring().ids
    assert add_key() not in before
    assert ring().ids[1:] == before


def test_no_drawn_key_has_an_id_that_a_command_would_read_as_an_option(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = [f"{number:064x}" for number in range(500)]
    taken_for_options = [each for each in drawn if key_id(each.encode()).startswith("-")]
    good = next(each for each in drawn if each not in taken_for_options)
    ring()
    tokens = iter([taken_for_options[0], good])

    def drawn_next(size: int) -> str:
        return next(tokens) if size == 32 else "d" * 16

    monkeypatch.setattr(keys.secrets, "token_hex", drawn_next)
    assert add_key() == key_id(good.encode())


def another_process_adds_a_key(home: Path) -> None:
    """Change the file as `add_key` of another process does, which nobody tells us of."""
    draft = home / "draft"
    draft.write_text("\n".join(["5" * 64, *secrets_in(home / "key")]) + "\n")
    draft.chmod(0o600)
    draft.replace(home / "key")


def test_by_command(
    capsys: pytest.CaptureFixture[str], home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert main(["keys", "list"]) == 0
    [old] = capsys.readouterr().out.splitlines()
    assert main(["keys", "rotate"]) == 0
    new, after = capsys.readouterr().out.splitlines()
    assert new.endswith("seals, signs and verifies")
    assert after.split() == [old.split()[0], "verifies"]
    assert (home / "key").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in home.iterdir()] == ["key"]
    (home / "key").chmod(0o666)
    assert main(["keys", "list"]) == 1
    assert "chmod 600" in capsys.readouterr().err
    monkeypatch.setenv("KEYTURN_SECRET", ONE)
    assert main(["keys", "rotate"]) == 1
    assert "KEYTURN_SECRET" in capsys.readouterr().err
    assert ONE not in capsys.readouterr().err


async def test_a_state_of_another_purpose_or_key_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEYTURN_SECRET", ONE)
    data = (await Runner.run(agent(), "hi")).to_state().to_json()
    monkeypatch.setenv("KEYTURN_SECRET", TWO)
    with pytest.raises(StateRejected, match="another key"):
        await RunState.from_json(agent(), data)
    monkeypatch.setenv("KEYTURN_SECRET", f"{TWO} {ONE}")
    await RunState.from_json(agent(), data)


# ----------------------------------------------------------------------------------------------------- keys are changed


async def saved() -> str:
    """Save a state with the key that signs now."""
    return (await Runner.run(agent(), "hi")).to_state().to_string()


async def loads(text: str) -> bool:
    return bool((await RunState.from_string(agent(), text)).run_id)


async def test_a_state_of_the_old_secret_loads_after_the_rotation_and_not_once_it_is_retired(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KEYTURN_SECRET", ONE)
    old = await saved()
    monkeypatch.setenv("KEYTURN_SECRET", TWO)
    monkeypatch.setenv("KEYTURN_SECRETS_OLD", ONE)
    assert await loads(old)
    new = await saved()
    monkeypatch.delenv("KEYTURN_SECRETS_OLD")
    assert await loads(new), "the newest signs"
    with pytest.raises(StateRejected, match=r"another key, or with one that was retired since.*KEYTURN_SECRETS_OLD"):
        await loads(old)
    monkeypatch.setenv("KEYTURN_SECRET", ONE)
    with pytest.raises(StateRejected):
        await loads(new)


async def test_a_rotated_key_file_and_a_retired_key(
    capsys: pytest.CaptureFixture[str], home: Path, tmp_path: Path
) -> None:
    journal = SQLiteJournal(tmp_path / "runs.db")
    run = (await Runner.run(agent(), "hi", journal=journal)).run_id
    text = await saved()
    secret = secrets_in(home / "key")[0]
    assert main(["keys", "rotate"]) == 0
    old = capsys.readouterr().out.splitlines()[1].split()[0]
    assert await loads(text)
    assert main(["keys", "retire", old]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [f"{old}  retired"]
    assert secret not in (home / "key").read_text()
    with pytest.raises(StateRejected, match=f"signed with key {old}, which was retired") as refused:
        await loads(text)
    assert secret not in str(refused.value)
    with pytest.raises(LogDamaged, match=f"sealed with key {old}, which was retired"):
        Chain(ring, "default", run).open((await journal.read(run))[0])
    assert main(["keys", "rotate"]) == 0
    assert capsys.readouterr().out.splitlines()[2:] == [f"{old}  retired"], "a rotation remembers it"
    await journal.close()


async def test_a_log_that_this_process_has_in_hand_takes_no_line_of_a_key_that_was_retired_since(
    home: Path, tmp_path: Path
) -> None:
    """The key leaked, and is retired while workers are at work on runs that they read before."""
    journal = SQLiteJournal(tmp_path / "runs.db")
    run = (await Runner.run(agent(), "hi", journal=journal)).run_id
    lines, secret = await journal.read(run), secrets_in(home / "key")[0]
    held = Log.opened(lines[:-1], Chain(ring, "default", run))
    leaked = Chain(lambda: Ring([secret.encode()]), "default", run)
    for line in lines[:-1]:
        leaked.open(line)
    forged = leaked.seal(lines[-1].partition(b"\t")[0])
    retired = ring().ids[0]
    add_key()
    assert len(held.copy().extend([forged])) == 1, "rotated, it still verifies"
    keys.retire_key(retired)
    for log in (held, held.copy()):
        with pytest.raises(LogDamaged, match=f"sealed with key {retired}, which was retired"):
            log.extend([forged])
    await journal.close()


async def test_a_retired_key_that_is_put_back_verifies_beside_the_file(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, secret = await saved(), secrets_in(home / "key")[0]
    retired = ring().ids[0]
    add_key()
    keys.retire_key(retired)
    monkeypatch.setenv("KEYTURN_SECRETS_OLD", secret)
    assert await loads(text)
    assert ring().ids[0] != retired
    assert ring().retired == ()


@pytest.mark.each
@pytest.mark.parametrize(
    ("name", "says"), [("newest", "keyturn keys rotate"), ("nobody", "no key of this id"), ("", "no key of this id")]
)
def test_what_cannot_be_retired_is_said(name: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = ring().ids
    assert main(["keys", "retire", before[0] if name == "newest" else name]) == 1
    assert says in capsys.readouterr().err
    assert ring().ids == before


def test_secrets_of_the_environment_are_rotated_where_they_are_set(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEYTURN_SECRET", TWO)
    monkeypatch.setenv("KEYTURN_SECRETS_OLD", ONE)
    assert main(["keys", "list"]) == 0
    old = capsys.readouterr().out.splitlines()[1].split()[0]
    for command in (["rotate"], ["retire", old]):
        assert main(["keys", *command]) == 1
        said = capsys.readouterr().err
        assert "KEYTURN_SECRETS_OLD" in said
        assert ONE not in said
        assert TWO not in said


@pytest.mark.parametrize("file", [True, False])
def test_an_old_secret_that_is_too_short_is_refused_by_its_name(file: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not file:
        monkeypatch.setenv("KEYTURN_SECRET", ONE)
    monkeypatch.setenv("KEYTURN_SECRETS_OLD", f"{TWO} short")
    with pytest.raises(UserError, match="KEYTURN_SECRETS_OLD is too short"):
        ring()


def test_old_secrets_alone_sign_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside no secret there is the key file; an empty secret is a slip and no wish for the file."""
    monkeypatch.setenv("KEYTURN_SECRETS_OLD", ONE)
    assert len(ring().ids) == 2
    assert ring().ids[1:] == Ring([ONE.encode()]).ids
    monkeypatch.setenv("KEYTURN_SECRET", "")
    with pytest.raises(UserError, match="KEYTURN_SECRET is too short"):
        ring()


def test_a_mac_that_names_a_retired_key_is_no_way_to_write_on_somebodys_terminal(home: Path) -> None:
    ring()
    with (home / "key").open("a") as file:
        file.write("retired:abcdef\n")
    assert ring().retired == ("abcdef",)
    with pytest.raises(StateRejected) as refused:
        RunState.from_string_sync(agent(), json.dumps({**BLANK, "mac": "\x1b[2J.x"}))
    assert "\x1b" not in str(refused.value)


BLANK = {"schema_version": VERSION, **dict.fromkeys(("run", "agent", "context", "log", "undelivered"), "")}
