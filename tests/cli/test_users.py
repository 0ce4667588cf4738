"""`keyturn init` and `keyturn users`: a directory is begun, changed and told of from the command line."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from keyturn.cli.main import main
from keyturn.core.people import Decider
from keyturn.directory.book import Book
from keyturn.directory.events import PersonAdded
from keyturn.directory.people import People
from keyturn.inbox.personal import InboxOwner, PersonalInbox
from keyturn.journal import opened
from keyturn.support.keys import state_directory


async def written_past_the_rules(place: str, event: PersonAdded) -> None:
    store: Any = opened(place)
    await Book(store).change(Decider("ada"), lambda _now, _at: [event])
    await store.close()


@pytest.fixture
def place(tmp_path: Path, own_key: None, monkeypatch: pytest.MonkeyPatch) -> str:
    """A journal with Ada, who administers it and who sits here."""
    url = f"sqlite:///{tmp_path}/runs.db"
    monkeypatch.setenv("KEYTURN_JOURNAL", url)
    monkeypatch.setenv("KEYTURN_AS", "ada")
    assert main(["init", "ada", "--name", "Ada L."]) == 0
    return url


Said = pytest.CaptureFixture[str]


def said(capsys: Said, *words: str) -> str:
    """What a command printed that went well."""
    capsys.readouterr()
    assert main(["users", *words]) == 0
    return capsys.readouterr().out


def test_init_begins_a_directory_once(
    tmp_path: Path, own_key: None, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    place = f"sqlite:///{tmp_path}/runs.db"
    monkeypatch.setenv("KEYTURN_JOURNAL", place)
    assert main(["init", "ada"]) == 0
    out = capsys.readouterr().out
    assert "ada administers this journal" in out
    token = next(line for line in out.splitlines() if line.startswith("token ")).split()[1]

    async def login() -> str:
        return (await People(opened(place)).login(token, "decide")).person

    assert asyncio.run(login()) == "ada"
    assert main(["init", "eve"]) == 1
    assert "this directory has people already" in capsys.readouterr().err


def test_a_directory_is_changed_and_told_of(place: str, capsys: Said) -> None:
    said(capsys, "add", "bob", "--role", "finance", "--role", "ops", "--name", "Bob")
    said(capsys, "give", "release", "--group", "oncall")
    said(capsys, "join", "oncall", "bob")
    said(capsys, "take", "ops", "bob")
    said(capsys, "address", "bob", "mail", "bob@example.org")
    said(capsys, "delegate", "bob", "ada", "--lasts", "4h", "--why", "holiday", "--role", "finance")
    assert said(capsys, "token", "bob", "--label", "phone", "--scope", "decide").startswith("kt_")
    assert said(capsys, "list") == "ada (Ada L.): admin\nbob (Bob): finance, release\n"
    shown = said(capsys, "show", "bob")
    assert "in group oncall" in shown
    assert "ada decides for bob until" in shown
    assert "phone for decide" in shown
    assert "notified by mail at bob@example.org" in shown
    [_, bob] = json.loads(said(capsys, "list", "--json"))
    assert (bob["roles"], bob["groups"]) == (["finance", "release"], ["oncall"])
    log = said(capsys, "log").splitlines()
    assert len(log) == 9
    assert log[2].split(" ", 4)[4] == (
        "ada PersonAdded person bob, name Bob; RoleGiven role finance, person bob; RoleGiven role ops, person bob"
    )


def test_a_role_that_reads_much_like_another_is_pointed_out(place: str, capsys: Said) -> None:
    said(capsys, "add", "bob", "--role", "finance")
    for words in (["give", "finanse", "ada"], ["add", "cyd", "--role", "Finance"]):
        assert main(["users", *words]) == 0
        out, err = capsys.readouterr()
        assert (out, 'Did you mean "finance"?' in err) == ("done\n", True)
    assert main(["users", "give", "ops", "ada"]) == 0
    assert capsys.readouterr().err == ""


def test_what_is_refused_is_one_line_and_changes_nothing(place: str, capsys: Said) -> None:
    for words in (
        ["remove", "ada"],
        ["remove", "nobody"],
        ["add", "bob", "--as", "eve"],
        ["add", "a\x1b[2J"],
        ["token", "ada", "--scope", "everything"],
        ["end-delegation", "none"],
        ["give", "ops"],
    ):
        capsys.readouterr()
        assert main(["users", *words]) == 1, words
        told = capsys.readouterr()
        assert told.out == ""
        assert len(told.err.splitlines()) == 1, told.err
        assert told.err.startswith("keyturn users: ")
        assert "\x1b" not in told.err
    assert said(capsys, "list") == "ada (Ada L.): admin\n"


def test_hostile_names_stay_on_their_line(place: str, capsys: Said) -> None:
    hostile = "Bob\x1b[2K\nada: admin"
    assert main(["users", "add", "bob", "--name", hostile]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1
    asyncio.run(written_past_the_rules(place, PersonAdded("bob", hostile)))
    assert said(capsys, "list").splitlines()[1] == "bob (Bob\\u{1b}[2K\\nada: admin): no roles"


def test_a_journal_that_is_not_there_is_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said) -> None:
    monkeypatch.delenv("KEYTURN_JOURNAL", raising=False)
    monkeypatch.chdir(tmp_path)
    assert main(["users", "list"]) == 1
    assert "no journal was named" in capsys.readouterr().err
    assert main(["users", "list", "--journal", f"sqlite:///{tmp_path}/none.db"]) == 1
    assert "there is no journal" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_who_is_no_administrator_is_told_how_to_say_who_they_are(
    place: str, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first thing that somebody does after `keyturn init ada` is done as their login name."""
    monkeypatch.setenv("KEYTURN_AS", "root")
    assert main(["users", "add", "bob"]) == 1
    refused = capsys.readouterr().err
    assert "root needs the role 'admin' for this" in refused
    assert "sign in with KEYTURN_TOKEN or --token-file, or name the user with --as" in refused
    assert main(["users", "add", "bob", "--as", "ada"]) == 0


def test_a_person_is_told_of_nothing_for_a_while(place: str, capsys: Said) -> None:
    said(capsys, "mute", "ada", "2h")
    assert "muted_until" in said(capsys, "settings", "ada")
    said(capsys, "mute", "ada")
    assert "no settings" in said(capsys, "settings", "ada")
    assert main(["users", "mute", "ada", "soon"]) == 1


def test_a_link_is_a_url_and_a_code_that_a_phone_can_open(
    place: str, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KEYTURN_SERVER", raising=False)
    plain = said(capsys, "link", "ADA")
    assert re.search(r"for ada \(valid for 24 hours\): http://localhost:8321/enter#kt_\w+\n", plain)
    assert "pass one that they reach: --url" in plain
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert "█" not in said(capsys, "link", "ada"), "no phone opens localhost"
    for address in ("http://127.0.0.1:8321", "http://0.0.0.0:8321", "http://[::1]:8321"):
        assert "█" not in said(capsys, "link", "ada", "--url", address)
    shown = said(capsys, "link", "ada", "--url", "https://inbox.example/desk/")
    assert "█" in shown
    assert ": https://inbox.example/desk/enter#kt_" in shown
    made = json.loads(said(capsys, "link", "ada", "--json", "--url", "https://inbox.example"))
    assert made["url"] == f"https://inbox.example/enter#{made['secret']}"
    for wrong in ("inbox.example", "ftp://inbox.example", "https://x#y", "https://x\x1b[2J"):
        assert main(["users", "link", "ada", "--url", wrong]) == 1


@pytest.mark.trial
def test_users_are_found_in_any_case_and_by_display_name(place: str, capsys: Said) -> None:
    said(capsys, "add", "Bob Ray", "--role", "ops")
    assert said(capsys, "list").splitlines()[1] == "bob-ray (Bob Ray): ops"
    assert said(capsys, "give", "finance", "BOB-RAY") == "the user bob-ray\ndone\n"
    said(capsys, "join", "oncall", "bob ray", "--as", "Ada L.")
    assert "in group oncall" in said(capsys, "show", "Bob Ray")
    assert main(["users", "add", "Bob-Ray"]) == 1
    assert "reads like 'bob-ray'" in capsys.readouterr().err


def test_after_init_the_next_command_needs_no_export(
    tmp_path: Path, own_key: None, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    for name in ("KEYTURN_JOURNAL", "KEYTURN_AS", "KEYTURN_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "desk" / "deep").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "desk")
    assert main(["init", "Ada Lovelace", "--journal", "sqlite:///runs.db"]) == 0
    assert "sign in as ada-lovelace" in capsys.readouterr().out
    said(capsys, "add", "bob", "--role", "finance")
    monkeypatch.chdir(tmp_path / "desk" / "deep")
    assert "bob: finance" in said(capsys, "list")
    entries = json.loads(said(capsys, "log", "--json"))
    assert entries[-1]["by"]["id"] == "ada-lovelace"
    kept = state_directory() / "journals.json"
    assert kept.stat().st_mode & 0o077 == 0
    monkeypatch.setenv("KEYTURN_AS", "eve")
    assert main(["users", "add", "cyd"]) == 1, "another name is not signed in by the token"
    monkeypatch.delenv("KEYTURN_AS")
    assert main(["users", "add", "cyd", "--as", "eve"]) == 1
    monkeypatch.chdir(tmp_path)
    assert main(["users", "list"]) == 1, "another directory has nothing to do with it"
    monkeypatch.chdir(tmp_path / "desk")
    kept.chmod(0o644)
    assert main(["users", "list"]) == 1, "others could have written it"
    kept.chmod(0o600)
    kept.write_text("{")
    assert main(["users", "list"]) == 1
    monkeypatch.setenv("KEYTURN_TOKEN", "kt_1_2")
    assert main(["users", "list", "--journal", "sqlite:///runs.db"]) == 0
    assert main(["users", "add", "dan", "--journal", "sqlite:///runs.db"]) == 1
    assert "it was read from KEYTURN_TOKEN: issue another with keyturn users token" in capsys.readouterr().err


def test_the_token_of_init_signs_its_user_in_at_the_terminal_inbox(
    tmp_path: Path, own_key: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("KEYTURN_JOURNAL", "KEYTURN_AS", "KEYTURN_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    assert main(["init", "ada", "--journal", "sqlite:///runs.db"]) == 0
    seated: list[InboxOwner] = []

    async def opened_screen(inbox: PersonalInbox, _keyfile: str) -> int:
        seated.append(await inbox.who())
        return 0

    monkeypatch.setattr("keyturn.cli.inbox._open", opened_screen)
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    assert main(["inbox"]) == main(["inbox", "--as", "ada"]) == 0
    assert seated == [InboxOwner("ada", verified=True), InboxOwner("ada", verified=False)]


def test_a_token_can_be_redirected_to_a_file_and_a_file_that_holds_more_is_refused(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    said(capsys, "add", "laptop", "--machine")
    assert main(["users", "token", "laptop", "--scope", "ask"]) == 0
    printed = capsys.readouterr()
    assert re.fullmatch(r"kt_\w+\n", printed.out)
    assert printed.err == "Copy it now. It will not be shown again.\n"
    file = tmp_path / "laptop.token"
    install = ["hook", "install", "claude-code", "--server", "https://keyturn.example", "--token-file", str(file)]
    file.write_text(printed.out + printed.err)
    assert main(install) == 2
    assert capsys.readouterr().err.endswith(" holds more than a token: it must be one line, kt_...\n")
    file.write_text(printed.out)
    assert main(install) == 0
