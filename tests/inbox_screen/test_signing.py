"""A call that takes a signature is signed in the terminal inbox, by a real ssh-keygen, at a journal and at a server."""

from __future__ import annotations

import json
import subprocess
from base64 import b64encode
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from keyturn import Inbox, MemoryJournal, UserError
from keyturn.inbox.personal import signed_of
from keyturn.inbox.signing_key import signing_key
from keyturn.inbox_screen.signing import SignDialog
from keyturn.proofs.ssh_signing import sign_with_ssh
from tests.inbox_screen.playing_inbox import Desk, desk
from tests.inbox_screen.test_at_a_server import Remote, remote

pytestmark = pytest.mark.usefixtures("undrawn")

#: A screen asks its inbox the same at both places (`tests/server/test_both_seats.py`).
PLACES = ["journal", pytest.param("server", marks=pytest.mark.trial)]


def key_in(folder: Path, name: str, passphrase: str = "") -> Path:
    """A throw-away key of ssh-keygen's."""
    folder.mkdir(mode=0o700, exist_ok=True)
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-C", "ada@laptop", "-f", str(folder / name)]
    subprocess.run(words, check=True)
    return folder / name


@pytest.fixture
def key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Ada's key, in the ~/.ssh of her home."""
    monkeypatch.setenv("HOME", str(tmp_path))
    return key_in(tmp_path / ".ssh", "id_ed25519")


async def enrol(at: Desk, key: Path, person: str = "ada") -> str:
    people = at.app.people
    public = people.read_key("ssh", key.with_suffix(".pub").read_text(encoding="utf-8"))

    async def enrolled() -> None:
        await people.enrol_key(person, public, sign_with_ssh(people.to_sign(person, public), key))
        await people.confirm_key(public.id, by="ada")

    await done(at, enrolled())
    return public.id


async def done(at: Desk, work: Awaitable[Any]) -> Any:
    return await (at.does(work) if isinstance(at, Remote) else work)


@asynccontextmanager
async def sitting(place: str) -> AsyncGenerator[Desk]:
    async with remote("treasury") if place == "server" else desk("treasury") as at:
        yield at


async def state(at: Desk) -> Any:
    return await done(at, at.app.inbox.get(at.screen.list.at))


async def asked(at: Desk, letter: str = "a") -> None:
    await at.seen()
    await at.press(letter)
    await at.until(lambda: isinstance(at.screen.screen, SignDialog))


@pytest.mark.parametrize("place", PLACES)
async def test_a_call_is_signed_with_the_key_that_the_person_enrolled(place: str, key: Path) -> None:
    async with sitting(place) as at:
        enrolled = await enrol(at, key)
        await asked(at)
        row = await state(at)
        await at.says("Sign the decision", "decision: approve", row.digest, "key: ")
        assert row.state == "open"
        await at.press("enter")
        await at.says("Recorded: You approved this call")
        row = await state(at)
        assert (row.state, row.by) == ("approve", "ada")
        log = await done(at, at.app.journal.read(row.run))
        assert enrolled.encode() in b"".join(log)


@pytest.mark.trial
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("letter", ["r", "b"])
async def test_a_rejection_and_a_question_back_are_signed_with_their_words(place: str, letter: str, key: Path) -> None:
    async with sitting(place) as at:
        await enrol(at, key)
        await at.press(letter)
        await at.until(lambda: at.asks)
        await at.type("which invoice?")
        await at.until(lambda: isinstance(at.screen.screen, SignDialog))
        await at.press("enter")
        await at.says("Recorded")
        row = await state(at)
        assert (row.state, row.by) == ({"r": "reject", "b": "asked_back"}[letter], "ada")
        assert b"which invoice?" in b"".join(await done(at, at.app.journal.read(row.run)))


@pytest.mark.trial
@pytest.mark.parametrize("place", PLACES)
async def test_nothing_is_signed_where_the_person_leaves(place: str, key: Path) -> None:
    async with sitting(place) as at:
        await enrol(at, key)
        await asked(at)
        await at.press("escape")
        await at.until(lambda: not at.asks)
        assert (await state(at)).state == "open"


@pytest.mark.trial
@pytest.mark.parametrize("place", PLACES)
async def test_somebody_without_a_key_is_told_the_remedy(place: str, key: Path) -> None:
    async with sitting(place) as at:
        await at.seen()
        await at.press("a")
        await at.says("Not recorded, your signature is required", "enrol-key", "--sign")
        assert (await state(at)).state == "open"
        await enrol(at, key)
        key.with_suffix(".pub").unlink()
        await at.press("a")
        await at.says("--sign KEYFILE")
        assert (await state(at)).state == "open"


@pytest.mark.parametrize("place", PLACES)
async def test_a_key_that_ssh_keygen_cannot_use_records_nothing(place: str, key: Path) -> None:
    async with sitting(place) as at:
        await enrol(at, key)
        key.write_text("not a key", encoding="utf-8")
        await asked(at)
        await at.press("enter")
        await at.says("Not recorded, your signature is required", "could not sign")
        assert (await state(at)).state == "open"


@pytest.mark.parametrize("place", PLACES)
async def test_a_key_of_somebody_else_signs_nothing_for_this_person(
    place: str, key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with sitting(place) as at:
        await enrol(at, key)
        other = key_in(tmp_path / "other", "id_ed25519")

        async def named() -> Path:
            return other

        monkeypatch.setattr(type(at.screen.seat), "key", lambda _seat: named())
        await asked(at)
        await at.press("enter")
        await at.says("Not recorded", "signature is refused")
        assert (await state(at)).state == "open"


@pytest.mark.trial
@pytest.mark.parametrize("place", PLACES)
async def test_what_was_decided_while_the_person_read_is_not_signed_over(place: str, key: Path) -> None:
    async with sitting(place) as at:
        await enrol(at, key)
        await asked(at)
        row = await state(at)
        await done(at, at.app.inbox.cancel(row.run, by="ben"))
        await at.press("enter")
        await at.says("Not recorded")
        assert (await state(at)).state == "void"


@pytest.mark.trial
async def test_a_server_that_wants_other_bytes_signed_gets_no_signature(key: Path) -> None:
    async with remote("treasury") as at:
        await enrol(at, key)
        real = at.line.handle_async_request

        async def lying(request: httpx2.Request) -> httpx2.Response:
            made = await real(request)
            if not request.url.path.endswith("/to_sign"):
                return made
            told = json.loads(await made.aread()) | {"challenge": b64encode(b"x" * 32).decode()}
            return httpx2.Response(made.status_code, json=told)

        at.line.handle_async_request = lying  # pyright: ignore[reportAttributeAccessIssue] # a line that lies
        await at.seen()
        await at.press("a")
        await at.says("Not recorded, your signature is required", "something else signed")
        assert not at.asks
        assert (await state(at)).state == "open"


async def test_the_key_that_signs_is_a_confirmed_one_of_the_person_or_the_one_that_is_named(key: Path) -> None:
    inbox = Inbox(MemoryJournal()).as_person("ada")
    with pytest.raises(UserError, match="no ssh key that is confirmed"):
        await signing_key(inbox)
    assert await signing_key(inbox, str(key)) == key
    assert signed_of("retry", {"note": "n", "output": None}) == ("retry", {"note": "n"})
