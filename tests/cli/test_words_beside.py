"""What people say beside a decision, of several requests at once, and in an emergency, from the command line."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Here, Wait
from tests.cli.terminal import at_a_terminal, unfolded


def test_a_request_is_taken_by_one_and_let_go(here: Here, wait_for: Wait) -> None:
    asked = wait_for("pay")
    name = asked["id"][:8]
    taken = here("claim", name, "--lasts", "1h")
    assert taken.code == 0, taken
    assert taken.out.startswith(f'pay of "desk", request {name}: claimed by "ada" until ')
    assert ', claimed by "ada"' in here("requests").out
    assert here("requests", "--unclaimed").out == "no pending requests\n"
    assert "claimed by: ada until" in here("show", name).out
    assert 'claimed by "bob" instead of "ada"' in here("claim", name, "--as", "bob").out
    late = here("release", name)
    assert (late.code, late.out) == (1, "")
    assert "bob claimed it" in late.err
    assert here("release", name, "--as", "bob", "--json").data["claim"] is None
    assert "claimed by" not in here("requests").out
    assert here("claim", name, "--lasts", "soon").code == 1
    assert here("claim", name, "--lasts", "90d").code == 1


def test_a_request_is_put_off_for_one_person_alone(here: Here, wait_for: Wait) -> None:
    name = wait_for("pay")["id"][:8]
    with pytest.raises(SystemExit) as refused:
        here("snooze", name)
    assert refused.value.code == 2
    assert 'snoozed for "ada" only until' in here("snooze", name, "--lasts", "2h").out
    assert here("requests", "--mine").out == "no pending requests\n"
    assert name in here("requests", "--mine", "--as", "bob").out
    assert name in here("requests").out
    assert "snoozed by: ada until" in here("show", name).out
    assert here("unsnooze", name).code == 0
    assert name in here("requests", "--mine").out


def test_an_approval_is_taken_back_before_it_runs(here: Here, wait_for: Wait) -> None:
    asked = wait_for("pay")
    name = asked["id"][:8]
    early = here("withdraw", name)
    assert early.code == 1
    assert "you have no vote on this request" in early.err
    assert here("approve", name, "--digest", asked["digest"]).code == 0
    done = here("withdraw", name, "--note", "the wrong Ann")
    assert done.code == 0, done
    assert '"ada" withdrew the approval, and it is pending again, with another digest: ' in done.out
    again = here("show", name, "--json").data
    assert (again["state"], again["digest"] == asked["digest"]) == ("open", False)
    assert here("approve", name, "--digest", asked["digest"]).code == 1
    assert here("reject", name, "--digest", again["digest"]).code == 0
    assert "withdrew the approval" in here("tail", asked["run"]).out


def test_a_vote_is_withdrawn_while_others_are_needed(here: Here, wait_for: Wait) -> None:
    asked = wait_for("wire")
    name = asked["id"][:8]
    assert here("users", "add", "bob", "--role", "finance").code == 0
    file = here.folder / "token"
    file.write_text(here("users", "token", "bob", "--json").data["secret"])
    bob = ("--token-file", str(file))
    assert here("approve", name, "--digest", asked["digest"], *bob).code == 0
    done = here("withdraw", name, "--note", "the wrong Ann", *bob)
    assert done.code == 0, done
    assert '"bob" withdrew a vote; the request is pending. 2 approvals from role "finance" are needed.' in done.out
    assert "a vote on" in here("tail", asked["run"]).out


def test_an_approval_is_taken_back_by_the_id_of_its_run(here: Here, wait_for: Wait) -> None:
    asked = wait_for("pay")
    assert here("withdraw", asked["id"], "--run", "0" * 32).code == 1
    assert here("approve", asked["id"], "--digest", asked["digest"]).code == 0
    done = here("withdraw", asked["id"], "--run", asked["run"], "--note", "the wrong Ann")
    assert done.code == 0, done
    assert "it is pending again, with another digest: " in done.out
    assert here("show", asked["id"], "--json").data["state"] == "open"


def test_the_agent_is_asked_back(here: Here, wait_for: Wait) -> None:
    asked = wait_for("pay")
    named = (asked["id"], "--digest", asked["digest"])
    assert here("ask", asked["id"], " ", "--digest", asked["digest"]).code == 1
    done = here("ask", asked["id"], "Which Ann?\x1b[2J", "--digest", asked["digest"], "--note", "two of them")
    then = "The call does not run. The agent reads your question, and can request approval again."
    assert done == (0, f'asked: pay of "desk", request {asked["id"][:8]}, by "ada" (claimed). {then}\n', "")
    assert "\x1b" not in here("tail", asked["run"]).out
    assert here("approve", *named).code == 1


def test_requests_of_one_shape_are_decided_together_after_they_were_seen(here: Here, wait_for: Wait) -> None:
    first, second, other = wait_for("pay"), wait_for("pay"), wait_for("hostile")
    name = first["id"][:8]
    blind = here("approve", name, "--alike")
    assert blind.code == 1
    assert f"keyturn show {name} --alike" in blind.err
    assert f"identical: 1 other pending request of the same call: {second['id'][:8]}" in here("show", name).out
    shown = here("show", second["id"], "--alike")
    batch = here("show", name, "--alike", "--json").data["batch"]
    assert shown.out.count('| to: "ann"') == 1
    assert f"keyturn approve {name} --alike --digest {batch[:16]}\n" in shown.out
    assert "2 requests of this shape" in shown.out
    third = wait_for("pay")
    joined = here("approve", name, "--alike", "--digest", batch[:16])
    assert (joined.code, joined.out) == (1, "")
    assert "was decided or added" in joined.err
    batch = here("show", name, "--alike", "--json").data["batch"]
    for words in (["--sign"], ["--break-glass"], ["--revision", "1"]):
        assert "leave out" in here("approve", name, "--alike", *words).err
    assert "leave out" in here("reject", name, "--alike", "--always", "--digest", batch).err
    assert "12 characters" in here("approve", name, "--alike", "--digest", batch[:8]).err
    done = here("approve", name, "--alike", "--digest", batch, "--note", "all three", "--json")
    assert done.code == 0, done
    assert {row["request"] for row in done.data} == {each["id"] for each in (first, second, third)}
    assert all(row["ok"] and row["state"] == "approve" for row in done.data)
    assert [row["id"] for row in here("requests", "--json").data] == [other["id"]]
    assert "no identical request" in here("approve", name, "--alike", "--digest", batch).err


def test_a_batch_tells_what_became_of_each(here: Here, wait_for: Wait) -> None:
    wires = [wait_for("wire") for _ in range(2)]
    here("users", "add", "bob", "--role", "finance")
    batch = here("show", wires[0]["id"], "--alike", "--json").data["batch"]
    refused = here("approve", wires[0]["id"], "--alike", "--digest", batch)
    assert refused.code == 1
    assert refused.out.count("refused: request ") == 2
    assert refused.out.endswith("0 recorded, 2 refused\n")
    file = here.folder / "token"
    file.write_text(here("users", "token", "bob", "--json").data["secret"])
    voted = here("approve", wires[0]["id"], "--alike", "--digest", batch, "--token-file", str(file))
    assert voted.code == 0, voted
    assert voted.out.count("1 of 2 approvals") == 2
    batch = here("show", wires[0]["id"], "--alike", "--json").data["batch"]
    words = ("--alike", "--digest", batch, "--message", "no more wires", "--token-file", str(file))
    rejected = here("reject", wires[0]["id"], *words)
    assert rejected.out.endswith("2 recorded\n"), rejected


def test_the_glass_is_broken_by_who_may_with_a_note(here: Here, wait_for: Wait) -> None:
    asked = wait_for("stop")
    named = (asked["id"], "--digest", asked["digest"])
    assert 'role "oncall" may approve alone in an emergency (--break-glass)' in " ".join(
        here("show", asked["id"]).out.split()
    )
    here("users", "add", "eve", "--role", "oncall")
    file = here.folder / "token"
    file.write_text(here("users", "token", "eve", "--json").data["secret"])
    who = ("--token-file", str(file))
    assert here("approve", *named, *who).code == 1
    assert "note" in here("approve", *named, *who, "--break-glass").err
    done = here("approve", *named, *who, "--break-glass", "--note", "the belt is on fire")
    assert done.code == 0, done
    assert here("requests", "--all", "--json").data[0]["state"] == "approve"


@pytest.mark.trial
def test_a_batch_is_shown_and_asked_at_a_terminal(here: Here, wait_for: Wait, monkeypatch: pytest.MonkeyPatch) -> None:
    first, _second = wait_for("pay"), wait_for("pay")
    command = ["-P", "-m", "keyturn.cli.main", "approve", first["id"][:8], "--alike"]
    shown, code = at_a_terminal(command, (b"y or n >", b"n\n"))
    assert (code, len(here("requests", "--json").data)) == (3, 2)
    assert '| to: "ann"' in shown
    shown, code = at_a_terminal(command, (b"y or n >", b"y\n"))
    assert code == 0, shown
    assert here("requests").out == "no pending requests\n"


@pytest.mark.trial
def test_settings_are_changed_and_listed(here: Here) -> None:
    assert here("users", "set", "record_reads", "true").out == "record_reads: true\n"
    assert here("users", "set", "record_reads", "yes").code == 1
    assert here("users", "set", "record_reads", "true", "--person", "ada").code == 1
    told = here("users", "set", "town", "Ber\x1blin", "--person", "ada").out
    assert told.startswith('town of ada: "Ber\\u{1b}lin"\n') or "\x1b" not in told
    assert "Keyturn does not use it; the settings that Keyturn uses are record_reads" in told
    assert here("users", "settings").out == "record_reads: true\n"
    assert here("users", "settings", "ada", "--json").data == {"town": "Ber\x1blin"}
    assert here("users", "set", "record_reads").out == "record_reads: reset\n"
    assert here("users", "settings").out == "no settings\n"


def test_check_and_audit_name_the_journal_as_all_others_do(here: Here, wait_for: Wait) -> None:
    wait_for("pay")
    url = "sqlite:///keyturn.db"
    for words in (["check"], ["audit", "verify"], ["audit", "search"]):
        bare = here(*words)
        for named in ([url], ["--journal", url]):
            assert here(*words, *named)[:2] == bare[:2], words
        twice = here(*words, url, "--journal", "sqlite:///other.db")
        assert twice.code == 2
        assert "two journals" in twice.err
    assert here("check", "--json").data["ok"] is True
    assert here("audit", "checkpoint", "--out", "a.checkpoint").code == 0
    assert here("audit", "verify", "--heads", "a.checkpoint").code == 0
    assert here("audit", "export", "--out", "a.jsonl").code == 0
    assert here("audit", "verify", "a.jsonl").code == 0
    assert "omit one" in here("audit", "verify", "a.jsonl", "--journal", url).err


def test_who_reads_is_on_record_where_the_directory_says_so(here: Here, wait_for: Wait) -> None:
    asked = wait_for("hostile")
    assert here("audit", "reads").out == "no reads are recorded: turn it on with keyturn users set record_reads true\n"
    here("users", "set", "record_reads", "true")
    here("show", asked["id"], "--as", "bob\x1b[2J")
    here("requests")
    here("tail", asked["run"])
    here("audit", "search", "--tool", "pay")
    told = here("audit", "reads").out.splitlines()
    assert [line.split(" UTC ", 1)[1] for line in told] == [
        f'request by "bob\\u{{1b}}[2J" (claimed): {asked["id"][:8]}',
        f'list by "ada" (claimed): {asked["id"][:8]}',
        f'log "{asked["run"]}" by "ada" (claimed)',
        'search "tool pay" by "ada" (claimed)',
    ]
    assert len(here("audit", "reads", "--person", "ada", "--json").out.splitlines()) == 3
    assert here("check").code == 0
    here("audit", "export", "--out", "e", "--secrets")
    assert 'secrets by "ada" (claimed)' in here("audit", "reads").out


def test_show_names_who_can_still_approve_and_how_to_take_a_vote_back(here: Here, wait_for: Wait) -> None:
    for name in ("bob", "cyd"):
        assert here("users", "add", name, "--role", "finance").code == 0
    assert here("users", "give", "finance", "ada").code == 0
    token = here("users", "token", "ada", "--scope", "decide", "--scope", "read").out.split()[0]
    (here.folder / "ada.token").write_text(token)
    asked = wait_for("wire")
    name = asked["id"][:8]
    signed_in = ("--token-file", str(here.folder / "ada.token"))
    shown = unfolded(here("show", name).out)
    assert 'approvals: 2 approvals from role "finance" are needed: any 2 of you, bob, cyd.' in shown
    assert here("approve", name, "--digest", asked["digest"], *signed_in).code == 0
    shown = unfolded(here("show", name, *signed_in).out)
    assert 'approvals: One more approval from role "finance" is needed: bob or cyd.' in shown
    assert f"your vote: You approved (1 of 2). To undo: keyturn withdraw {name}" in shown
    assert "decide with" not in shown


def test_an_answer_that_is_not_on_the_command_line_is_refused_where_none_can_be_typed(
    here: Here, wait_for: Wait
) -> None:
    asked = wait_for("pay")
    refused = here("answer", asked["id"][:8], "--digest", asked["digest"])
    assert (refused.code, "the answer is missing: keyturn answer" in refused.err) == (1, True)


@pytest.mark.trial
def test_an_answer_is_typed_at_a_terminal(here: Here, wait_for: Wait) -> None:
    asked = wait_for("pay")
    command = ["-m", "keyturn", "answer", asked["id"][:8]]
    shown, code = at_a_terminal(command, (b"Your answer", b"paid in cash\n"), (b"y or n >", b"y\n"))
    assert code == 0, shown
    assert here("requests").out == "no pending requests\n"
