"""What waits is listed, shown and decided from the command line: plain, as JSON, with hostile text; by exit codes."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys

import pytest

from tests.cli.conftest import Here, Wait, fresh
from tests.cli.terminal import at_a_terminal


def test_a_request_is_listed_shown_approved_and_followed_to_its_end(here: Here, wait_for: Wait) -> None:
    asked = wait_for("pay")
    assert here("requests").out.startswith(f'{asked["id"][:8]} pay to: "ann", amount: 500 of "desk", requested ')
    assert [row["id"] for row in here("requests", "--json").data] == [asked["id"]]
    shown = here("show", asked["id"][:6]).out
    assert '  | to: "ann"\n' in shown
    assert f"  digest: {asked['digest']}\n" in shown
    assert f"keyturn approve {asked['id'][:8]} --digest {asked['digest'][:16]}\n" in shown
    done = here("approve", asked["id"][:8], "--digest", asked["digest"][:16], "--note", "invoice 7")
    then = "It starts as soon as a worker takes up the run. Until then you can undo it: keyturn withdraw"
    said = f'approved: pay of "desk", request {asked["id"][:8]}, by "ada" (claimed). {then} {asked["id"][:8]}\n'
    assert done == (0, said, "")
    assert here("requests").out == "no pending requests\n"
    [row] = here("requests", "--all", "--json").data
    assert (row["state"], row["by"]) == ("approve", "ada")
    assert 'approved by "ada"' in here("requests", "--all").out
    told = here("tail", asked["run"][:8], "--json").out.splitlines()
    assert [json.loads(line)["event"] for line in told][-1] == "CallDecided"
    assert 'is approved by "ada", note "invoice 7"' in told[-1].replace('\\"', '"')


def test_what_was_shown_must_be_named(here: Here, wait_for: Wait) -> None:
    asked = wait_for("pay")
    name = asked["id"]
    for words in ([], ["--digest", asked["digest"][:8]], ["--digest", "0" * 64], ["--revision", "2"]):
        refused = here("approve", name, *words)
        assert (refused.code, refused.out) == (1, ""), words
        assert len(refused.err.splitlines()) == 1
        assert refused.err.startswith("keyturn approve: ")
    assert "keyturn show" in here("approve", name).err
    assert here("show", name, "--json").data["state"] == "open"
    assert here("reject", name, "--revision", "1", "--message", "no").code == 0
    late = here("approve", name, "--revision", "1")
    assert late.code == 1
    assert "already decided: reject by ada" in late.err


def test_an_id_is_named_by_its_beginning(here: Here, wait_for: Wait) -> None:
    asked = wait_for("pay")
    assert "at least 6 characters" in here("show", asked["id"][:5]).err
    assert here("show", "zzzzzz").code == 1
    assert here("show", "0" * 32).code == 1
    assert here("tail", "0" * 32).code == 1
    assert here("cancel", "zzzzzz").code == 1
    assert here("revoke", "zzzzzz").code == 1


def test_hostile_words_stay_in_their_block(here: Here, wait_for: Wait) -> None:
    asked = wait_for("hostile")
    for command in (["requests"], ["show", asked["id"]], ["tail", asked["run"]]):
        plain, data = here(*command).out, here(*command, "--json").out
        for out in (plain, data):
            assert not any(mark in out for mark in ("\x1b", "\x9b", "\u202e")), command
            assert not any(row.startswith("keyturn approve") for row in out.splitlines())
    assert here("send", asked["run"], "x\x1b[2J").code == 0
    assert "\x1b" not in here("tail", asked["run"]).out
    why = here("cancel", asked["run"], "--why", "bad\x1b[2J", "--as", "e\x1bve")
    assert why.code == 0
    assert 'cancelled by "e\\u{1b}ve": bad\\u{1b}[2J' in here("tail", asked["run"]).out
    assert here("tail", asked["run"], "--follow").code == 1


def test_an_edit_is_checked_by_its_tool_and_shown_before(
    here: Here, wait_for: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = wait_for("pay")
    named = (asked["id"], "--digest", asked["digest"])
    app = ("--app", f"{here.name}:app")
    assert "--app module:app" in here("edit", *named, "--set", "amount=5", "--yes").err
    for words, why in (
        (["--set", "amount=5"], "--yes"),
        (["--set", "amount=many", "--yes"], "do not fit 'pay'"),
        (["--set", "amount", "--yes"], "name=value"),
        (["--set", "amount=500", "--yes"], "changes nothing"),
        (["--args", "[1]", "--yes"], "JSON object"),
        (["--args", '{"to": "ann"}', "--yes"], "do not fit 'pay'"),
        (["--yes"], "EDITOR"),
    ):
        fresh(here)
        refused = here("edit", *named, *app, *words)
        assert (refused.code, refused.out) == (1, ""), refused
        assert why in refused.err
    fresh(here)
    script = here.folder / "editor.py"
    script.write_text("import sys; p = sys.argv[1]; t = open(p).read(); open(p, 'w').write(t.replace('500', '50'))")
    monkeypatch.setenv("EDITOR", f"{sys.executable} {script}")
    done = here("edit", *named, *app, "--yes")
    assert done.code == 0, done
    assert "  | -amount: 500\n  | +amount: 50\n" in done.out
    assert f'approved with your edit: pay of "desk", request {asked["id"][:8]}, by "ada" (claimed). It st' in done.out
    assert 'other arguments {"to": "ann", "amount": 50}' in here("tail", asked["run"]).out


def test_a_secret_is_shown_to_nobody_and_kept_by_an_edit(here: Here, wait_for: Wait) -> None:
    asked = wait_for("login")
    app = ("--app", f"{here.name}:app")
    fresh(here)
    done = here("edit", asked["id"], "--revision", "1", "--set", "user=bob", "--yes", *app)
    assert done.code == 0, done
    for command in (["requests", "--all"], ["show", asked["id"]], ["tail", asked["run"]]):
        for words in (command, [*command, "--json"]):
            assert "hunter2" not in here(*words).out
    assert "hunter2" not in done.out


def test_a_name_proves_nothing_and_a_token_does(here: Here, wait_for: Wait, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = wait_for("wire")
    assert here("users", "add", "bob", "--role", "finance").code == 0
    assert here("users", "give", "finance", "ada").code == 0
    named = ("--digest", asked["digest"])
    refused = here("approve", asked["id"], *named, "--as", "bob")
    assert refused.code == 1
    assert "KEYTURN_TOKEN" in refused.err
    token = here("users", "token", "bob", "--json").data["secret"]
    file = here.folder / "token"
    file.write_text(f"{token}\n")
    first = here("approve", asked["id"], *named, "--token-file", str(file), "--json")
    assert (first.code, first.data["state"], first.data["votes"]) == (0, "open", [{"by": "bob", "verdict": "approve"}])
    assert "--as names 'ada'" in here("approve", asked["id"], *named, "--token-file", str(file), "--as", "ada").err
    assert here("approve", asked["id"], *named, "--token-file", str(here.folder / "none")).code == 1
    reading = here("users", "token", "ada", "--scope", "read", "--json").data["secret"]
    monkeypatch.setenv("KEYTURN_TOKEN", reading)
    assert "has not the scope 'decide'" in here("approve", asked["id"], *named).err
    monkeypatch.setenv("KEYTURN_TOKEN", "kt_000000000000_00")
    assert here("approve", asked["id"], *named).code == 1
    assert "KEYTURN_TOKEN" in here("show", asked["id"]).err
    monkeypatch.delenv("KEYTURN_TOKEN")
    assert here("show", asked["id"], "--json").data["state"] == "open"


def test_grants_are_given_listed_and_revoked(here: Here, wait_for: Wait) -> None:
    asked = wait_for("pay")
    named = (asked["id"], "--revision", "1")
    for words in (["--where", "{"], ["--where", '{"amount": {"most": 3}}'], ["--uses", "0"], ["--expires", "soon"]):
        refused = here("grant", *named, *words)
        assert (refused.code, len(refused.err.splitlines())) == (1, 1), refused
    given = here("grant", *named, "--where", '{"amount": {"le": 500}}', "--uses", "3", "--scope", "agent", "--json")
    assert given.code == 0, given
    [grant] = given.data["grants"]
    listed = here("grants").out
    assert f'grant {grant} approve pay of "desk" for arguments where amount is at most 500: used 0 of 3' in listed
    assert [row["id"] for row in here("grants", "--json").data] == [grant]
    assert here("revoke", grant[:8]).code == 0
    assert here("grants").out == "no grants\n"
    assert here("grants", "--all").out.rstrip().endswith("revoked")


def test_a_run_is_started_for_a_worker_and_forked(here: Here, wait_for: Wait) -> None:
    fresh(here)
    started = here("run", f"{here.name}:app", "desk", "pay", "--json")
    assert (started.code, started.data["status"]) == (0, "running")
    assert here("requests").out == "no pending requests\n"  # no process moves it
    asked = wait_for("pay")
    forked = here("fork", asked["run"][:8], "--app", f"{here.name}:app", "--json")
    assert forked.code == 0, forked
    assert forked.data["forked_from"] == asked["run"]
    fresh(here)
    assert (
        "cannot" in (refused := here("fork", asked["run"], "--at", "77", "--app", f"{here.name}:app")).err
        or refused.err
    )
    assert refused.code == 1
    fresh(here)
    assert here("run", f"{here.name}:app", "nobody", "pay").code == 1
    assert here("run", "no_such_module:app", "desk", "pay").code == 1


def test_completing_runs_says_how_it_ended(here: Here, wait_for: Wait) -> None:
    asked = wait_for("pay")
    assert here("approve", asked["id"], "--revision", "1").code == 0
    run = asyncio.run(_finished(here, asked["run"]))
    assert run == "finished"
    followed = here("tail", asked["run"], "--follow")
    assert followed.code == 0
    assert followed.out.rstrip().endswith('the run ends: "Over: paid 500 to ann"')


async def _finished(here: Here, run: str) -> str:
    from importlib import import_module

    fresh(here)
    sys.path.insert(0, str(here.folder))
    app = import_module(here.name).app
    async with app:
        row = await app.wait(run, 20)
    await app.journal.close()
    return row.status


def test_at_a_terminal_it_is_shown_and_asked(here: Here, wait_for: Wait) -> None:
    asked = wait_for("pay")
    environ = {"KEYTURN_SECRET": os.environ["KEYTURN_SECRET"], "KEYTURN_AS": "ada"}
    command = ["-P", "-m", "keyturn.cli.main"]
    shown, code = at_a_terminal(
        [*command, "approve", asked["id"][:8]], (b"y or n >", b"x\n"), (b"y or n >", b"n\n"), environ=environ
    )
    assert code == 3
    assert '| to: "ann"' in shown
    assert "nothing was decided" in shown
    _, code = at_a_terminal([*command, "approve", asked["id"][:8]], (b"y or n >", b"\x04"), environ=environ)
    assert code == 3
    assert here("show", asked["id"], "--json").data["state"] == "open"
    words = [(b"empty: none >", b"too much\n"), (b"y or n >", b"n\n")]
    shown, code = at_a_terminal([*command, "reject", asked["id"]], *words, environ=environ | {"TZ": "Europe/Berlin"})
    assert (code, "Rejecting ends the request for everyone. It cannot be undone." in shown) == (3, True)
    assert re.search(r"requested: \d{4}-\d\d-\d\d \d\d:\d\d:\d\d CES?T \(\d\d:\d\d UTC\)", shown)
    edit = ["edit", asked["id"], "--app", f"{here.name}:app", "--set", "amount=5"]
    shown, code = at_a_terminal([*command, *edit], (b"y or n >", b"y\n"), environ=environ)
    assert code == 0, shown
    assert "+amount: 5" in shown
    assert here("show", asked["id"], "--json").data["state"] == "edit"
