"""How people come in: logins that begin with a proof and end, and passwords of which only a hash is kept."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from msgspec.structs import replace

from keyturn import MemoryJournal, NotAllowed, UserError
from keyturn.audit.checker import check
from keyturn.audit.evidence.signing import Signer
from keyturn.audit.evidence.verify import verify_file
from keyturn.audit.evidence.write import FileWriter
from keyturn.cli.main import main
from keyturn.core.people import Decider
from keyturn.directory.book import Book
from keyturn.directory.decide import MOST_SESSIONS
from keyturn.directory.events import KeyEnrolled, shown
from keyturn.directory.login import id_in
from keyturn.directory.people import Login, People
from trials.signers import SSHSigner

HASH = "$argon2id$v=19$m=65536,t=3,p=4$c29tZXNhbHRzb21lc2FsdA$" + "a" * 43
HOUR = 3_600_000


@pytest.fixture
def journal(own_key: None, monkeypatch: pytest.MonkeyPatch) -> MemoryJournal:
    return MemoryJournal()


@pytest.fixture
async def people(journal: MemoryJournal) -> People:
    people = People(journal)
    await people.start("ada")
    await people.add("bob", by="ada")
    await people.add("robot", by="ada", kind="machine")
    return people


class Clock:
    """The time of a journal, put forward by hand."""

    def __init__(self, journal: MemoryJournal, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead = 0
        now = journal.now

        async def later() -> int:
            return await now() + self.ahead

        monkeypatch.setattr(journal, "now", later)
        claim = journal.claim

        async def claimed(*words: Any) -> Any:
            made = await claim(*words)
            return replace(made, at=made.at + self.ahead)

        monkeypatch.setattr(journal, "claim", claimed)


async def test_a_login_is_a_token_that_ends_and_says_by_what_it_was_proven(people: People) -> None:
    text = await people.begin_session("bob", "password", lasts="1h", label="a phone")
    login = await people.login(text)
    assert login == Login("bob", ("decide", "read", "people"), id_in(text))
    [session] = await people.sessions("bob")
    assert (session.session, session.label) == ("password", "a phone")
    assert session.expires_at is not None
    await people.revoke_token(session.id, by=login)
    assert await people.sessions("bob") == []
    with pytest.raises(NotAllowed):
        await people.login(text)


async def test_a_proof_that_is_good_once_begins_one_login(people: People) -> None:
    token = await people.begin_session("bob", "passkey", lasts="1h", once="5e1f")
    with pytest.raises(NotAllowed, match="used already"):
        await people.begin_session("bob", "passkey", lasts="1h", once="5e1f")
    await people.revoke_token(token, by="bob")
    with pytest.raises(NotAllowed, match="used already"):
        await people.begin_session("bob", "passkey", lasts="1h", once="5e1f")


@pytest.mark.parametrize("who", ["robot", "nobody"])
async def test_nobody_but_people_logs_in(people: People, who: str) -> None:
    with pytest.raises(NotAllowed):
        await people.begin_session(who, "password", lasts="1h")


async def test_somebody_who_left_has_no_login_and_no_password(people: People) -> None:
    text = await people.begin_session("bob", "password", lasts="1h")
    await people.set_password("bob", HASH, by="bob")
    await people.remove("bob", by="ada")
    assert await people.password_of("bob") == ""
    with pytest.raises(NotAllowed):
        await people.login(text)
    await people.add("bob", by="ada")
    assert await people.password_of("bob") == ""


async def test_logins_that_are_out_of_time_are_not_kept_for_ever(
    people: People, journal: MemoryJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(journal, monkeypatch)
    for _ in range(30):
        await people.begin_session("bob", "password", lasts="1h")
        clock.ahead += 2 * HOUR
    directory = await people.directory()
    assert len(directory.tokens) == 1
    assert (await people.entries())[-1].events[-1].__class__.__name__ == "TokenIssued"
    assert (await check(journal)).ok


async def test_of_too_many_logins_the_oldest_ends(people: People, journal: MemoryJournal) -> None:
    tokens = [await people.begin_session("bob", "password", lasts="1h") for _ in range(MOST_SESSIONS + 2)]
    assert len(await people.sessions("bob")) == MOST_SESSIONS
    for lost in tokens[:2]:
        with pytest.raises(NotAllowed):
            await people.login(lost)
    assert (await people.login(tokens[2])).person == "bob"
    assert (await check(journal)).ok


async def test_a_password_is_chosen_by_its_person_and_taken_away_by_an_administrator(people: People) -> None:
    with pytest.raises(NotAllowed, match="chosen by its person"):
        await people.set_password("bob", HASH, by="ada")
    await people.set_password("bob", HASH, by="bob")
    assert await people.password_of("bob") == HASH
    with pytest.raises(NotAllowed):
        await people.set_password("ada", "", by="bob")
    await people.set_password("bob", "", by="ada")
    assert await people.password_of("bob") == ""
    with pytest.raises(UserError, match="service account"):
        await people.set_password("robot", HASH, by="robot")


@pytest.mark.parametrize("wrong", ["correct horse", "$argon2i$v=19$m=1,t=1,p=1$aaaaaaaa$" + "a" * 20, HASH + "\n", "x"])
async def test_nothing_but_a_hash_is_kept_of_a_password(people: People, wrong: str) -> None:
    with pytest.raises(UserError):
        await people.set_password("bob", wrong, by="bob")


async def test_a_new_password_ends_the_logins_of_before(people: People, journal: MemoryJournal) -> None:
    old, kept = [await people.begin_session("bob", "password", lasts="1h") for _ in range(2)]
    other = await people.begin_session("ada", "password", lasts="1h")
    api = await people.issue_token("bob", by="bob")
    await people.set_password("bob", HASH, by="bob", keeps=id_in(kept))
    with pytest.raises(NotAllowed):
        await people.login(old)
    for good in (kept, other, api):
        await people.login(good)
    assert (await check(journal)).ok


async def test_a_key_that_is_revoked_while_it_signs_in_begins_no_login(people: People) -> None:
    key = SSHSigner("ssh-ed25519")
    await people.enrol_key("bob", key.public, key.sign(people.to_sign("bob", key.public)))
    await people.begin_session("bob", "passkey", lasts="1h", counted=(key.public.id, 0))
    await people.revoke_key(key.public.id, by="bob")
    with pytest.raises(NotAllowed, match="revoked"):
        await people.begin_session("bob", "passkey", lasts="1h", counted=(key.public.id, 0))


async def test_with_a_passkey_the_logins_by_passkeys_end_but_for_the_one_that_revokes_it(
    people: People, journal: MemoryJournal
) -> None:
    enrolled = [KeyEnrolled(name, "bob", "passkey", "text") for name in ("phone", "laptop")]
    await Book(journal).change(Decider("bob"), lambda _directory, _at: enrolled)
    for person, proof in (("bob", "passkey"), ("bob", "password"), ("ada", "passkey")):
        await people.begin_session(person, proof, lasts="1h")
    own = await people.login(await people.begin_session("bob", "passkey", lasts="1h"))
    await people.revoke_key("phone", by=own)
    assert [each.session for each in await people.sessions("bob")] == ["passkey", "password"]
    await people.revoke_key("laptop", by="ada")
    assert [each.session for each in await people.sessions("bob")] == ["password"]
    assert len(await people.sessions("ada")) == 1
    assert (await check(journal)).ok


async def test_after_a_restore_no_password_of_before_counts(people: People, journal: MemoryJournal) -> None:
    await people.set_password("bob", HASH, by="bob")
    await Book(journal).restored("a copy")
    assert await people.password_of("bob") == ""


async def test_no_export_and_no_listing_shows_the_hash_of_a_password(
    people: People, journal: MemoryJournal, tmp_path: Any
) -> None:
    key = SSHSigner("ssh-ed25519", 0)
    line = people.read_key("ssh", key.line)
    await people.enrol_key("ada", line, key.sign(people.to_sign("ada", line)))
    await people.set_password("bob", HASH, by="bob")
    await people.confirm_key(line.id, by="ada")
    signer = Signer.of(tmp_path / "audit-key", 5)
    for secret in (False, True):
        out = io.BytesIO()
        await FileWriter(journal, signer, out, "export", secret=secret).write()
        assert b"PersonAdded" in out.getvalue()
        assert b"argon2id" not in out.getvalue()
        out.seek(0)
        report = verify_file(out, signer.public)
        assert report.ok, report.faults
        assert report.withheld == 1
    assert all("argon2id" not in json.dumps(shown(entry)) for entry in await people.entries())
    assert "argon2id" not in repr(await people.directory())


def test_the_command_line_shows_no_hash(own_key: None, tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    import asyncio

    from keyturn.journal import open_journal

    url = f"sqlite:///{tmp_path}/runs.db"

    async def made() -> None:
        store: Any = open_journal(url)
        people = People(store)
        await people.start("ada")
        await people.set_password("ada", HASH, by="ada")
        await store.close()

    asyncio.run(made())
    for words in (["users", "log"], ["users", "log", "--json"], ["users", "show", "ada", "--json"]):
        assert main([*words, "--journal", url]) == 0
        told = capsys.readouterr().out
        assert "argon2id" not in told
    assert main(["users", "log", "--journal", url]) == 0
    assert "PasswordSet" in capsys.readouterr().out
