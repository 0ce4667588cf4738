"""What people signed is verified from a store and from an export alike, by whoever has only the public keys.

The attacker of these tests has every key of ours: what they write is sealed and signed as it should be.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Literal

import pytest
from msgspec.structs import replace

from keyturn import Approval, MemoryJournal, Proof
from keyturn.audit.evidence.report import EvidenceFault, VerifyReport
from keyturn.audit.evidence.signing import Signer
from keyturn.audit.service import Audit
from keyturn.core import events as ev
from keyturn.core.codec import decode, encode
from keyturn.core.people import Decider
from keyturn.core.seal import Chain
from keyturn.directory import events as de
from keyturn.directory.people import Login
from keyturn.engine.run.open_run import chain_of
from keyturn.testing import function_call
from tests.directory.test_signed import SIGNED, Desk
from tests.waiting import until, until_status
from trials.signers import SSHSigner

NAME = "@directory"
Change = Callable[[str, int, Any], Any]
From = Literal["store", "export"]


async def worked(journal: Any, terms: Approval = SIGNED, *signers: str) -> Desk:
    """A desk with two runs that people signed for."""
    desk = Desk(journal, terms, *[[function_call("pay", {"amount": 5})], "Done."] * 2)
    async with desk.app:
        await desk.people()
        for _ in range(2):
            request = await desk.waiting()
            for name in signers or ("bob",):
                proof = await desk.signed(name, request, note="seen")
                await desk.app.inbox.approve(request, by=Login(name), proof=proof, note="seen")
            await desk.run.result(10)
    return desk


def sealed(chain: Chain, body: bytes) -> bytes:
    """The next line of a log."""
    line = chain.seal(body)
    chain.kept(line)
    return line


async def rewritten(journal: Any, change: Change) -> MemoryJournal:
    """The store as whoever has its keys would write it: each line read, changed and sealed anew; None is left out."""
    made = MemoryJournal()
    for run in await journal.every_run():
        chain, sealing = chain_of(journal, run), chain_of(made, run)
        lines = list[bytes]()
        for place, line in enumerate(await journal.read(run)):
            body = chain.open(line)
            read: Any = de.read_entry(body) if run == NAME else decode(body)
            changed = change(run, place, read)
            if changed is not None:
                lines.append(sealed(sealing, de.written(changed) if run == NAME else encode(changed)))
        if lines:
            await made.append(run, 0, lines)
    return made


async def verified(journal: Any, folder: Path, how: From, **options: Any) -> VerifyReport:
    """What an auditor finds, at the store or with an export and public keys alone."""
    audit = Audit(journal, key=folder / "key", **options)
    if how == "store":
        return await audit.verify()
    await audit.export(folder / "export")
    (folder / "public").write_text(Signer.existing(folder / "key").public.text)
    return Audit.verify_file(folder / "export", public=folder / "public", **options)


def of_decisions(change: Callable[[str, ev.Decision], ev.Decision]) -> Change:
    """A change of each decision."""

    def changed(run: str, _place: int, read: Any) -> Any:
        if run == NAME:
            return read
        events = [
            replace(event, decision=change(run, event.decision))
            if isinstance(event, ev.CallDecided | ev.VoteCast)
            else event
            for event in read.events
        ]
        return replace(read, events=events)

    return changed


def unchanged(_run: str, _place: int, read: Any) -> Any:
    return read


@pytest.fixture(params=["store", "export"])
def how(request: pytest.FixtureRequest) -> Any:
    return request.param


async def test_what_people_signed_is_verified(own_key: None, store: Any, tmp_path: Path, how: From) -> None:
    desk = await worked(store, Approval(signed=True, quorum=2), "bob", "cyd")
    report = await verified(store, tmp_path, how)
    # Three enrolments, two confirmations that needed a signature, and two decisions of two people.
    assert (report.ok, report.signatures) == (True, 3 + 2 + 4), report
    assert "signatures of people verified" in str(report)
    assert desk.keys["ada"].public.id in str(report)
    root = desk.keys["ada"].public.id
    trusting = await verified(store, tmp_path, how, trusted_keys=[root])
    assert (trusting.ok, trusting.signatures) == (True, 9)
    assert root not in str(trusting)
    wrong = await verified(store, tmp_path, how, trusted_keys=[desk.keys["cyd"].public.id])
    assert not wrong.ok
    assert wrong.faults[0].kind == "key"


async def asked_again(desk: Desk) -> Any:
    """The request of the desk, once it was asked a second time."""
    return next((row for row in await desk.app.inbox.list() if row.revision == 2), None)


async def test_an_edit_a_rejection_and_a_later_asking_are_verified(own_key: None, tmp_path: Path, how: From) -> None:
    terms = Approval(signed=True, expires="1s", on_expiry="ask_again")
    time = [1_000_000]
    store = MemoryJournal(lambda: time[0])
    desk = Desk(store, terms, [function_call("pay", {"amount": 5})], [function_call("pay", {"amount": 6})])
    async with desk.app:
        await desk.people()
        request, edit = await desk.waiting(), {"amount": 2}
        time[0] += 2_000
        request = await until(lambda: asked_again(desk))
        proof = await desk.signed("bob", request, "edit", edit=edit)
        await desk.app.inbox.approve(request, by=Login("bob"), edit=edit, proof=proof)
        await until_status(desk.app, desk.run.id, "waiting")
        [second] = await desk.app.inbox.list()
        proof = await desk.signed("cyd", second, "reject", message="No.")
        await desk.app.inbox.reject(second, by=Login("cyd"), message="No.", proof=proof)
        await desk.run.result(10)
    report = await verified(desk.app.journal, tmp_path, how)
    assert (report.ok, report.signatures) == (True, 3 + 2 + 2), report


async def test_a_forked_run_shows_decisions_of_the_run_before_it(own_key: None, tmp_path: Path, how: From) -> None:
    desk = Desk(
        MemoryJournal(), SIGNED, [function_call("pay", {"amount": 5})], [function_call("pay", {"amount": 6})], "Done."
    )
    async with desk.app:
        await desk.people()
        request = await desk.waiting()
        await desk.app.inbox.approve(request, by=Login("bob"), proof=await desk.signed("bob", request))
        await until_status(desk.app, desk.run.id, "waiting")
        first = await desk.app.fork(desk.run.id)
        await desk.app.fork(first.id)
    report = await verified(desk.app.journal, tmp_path, how)
    assert report.ok, report

    def forged(run: str, made: ev.Decision) -> ev.Decision:
        return made if run == desk.run.id else replace(made, note="of course")

    found = await verified(await rewritten(desk.app.journal, of_decisions(forged)), tmp_path, how)
    assert len(found.faults) == 2
    assert "copy from run" in found.faults[0].what


async def attacks(desk: Desk) -> dict[str, Change]:
    """What somebody with all our keys may write, by what it is."""
    journal: Any = desk.app.journal
    mallory = SSHSigner("ssh-ed25519", 66)
    bob = desk.keys["bob"].public.id
    proofs = dict[str, Proof]()

    def seen(run: str, made: ev.Decision) -> ev.Decision:
        assert made.proof is not None
        proofs[run] = made.proof
        return made

    await rewritten(journal, of_decisions(seen))
    one, two = sorted(proofs)

    def only(run: str, change: Callable[[ev.Decision], ev.Decision]) -> Change:
        return of_decisions(lambda found, made: change(made) if found == run else made)

    def revoked(name: str, place: int, read: Any) -> Any:
        if name == NAME:
            gone = [de.KeyRevoked(bob)] if place == 8 else []
            return replace(read, events=[*read.events, *gone])
        return read

    def cut(name: str, place: int, read: Any) -> Any:
        return None if name == NAME and place >= 8 else read

    def theirs(name: str, _place: int, read: Any) -> Any:
        if name != NAME:
            return read
        key = mallory.public
        swapped = [
            replace(event, key=key.id, public=key.data, proof=None)
            if isinstance(event, de.KeyEnrolled) and event.person == "bob"
            else replace(event, key=key.id)
            if isinstance(event, de.KeyConfirmed) and event.key == bob
            else event
            for event in read.events
        ]
        return replace(read, events=swapped)

    cyd = desk.keys["cyd"].public.id
    random = Proof("ssh", bob, Random(5).randbytes(80))
    assert mallory.public.id != bob
    return {
        "the proof of another request": only(one, lambda made: replace(made, proof=proofs[two])),
        "random bytes": only(one, lambda made: replace(made, proof=random)),
        "no proof": only(one, lambda made: replace(made, proof=None)),
        "another note": only(one, lambda made: replace(made, note="of course")),
        "another verdict": only(one, lambda made: replace(made, verdict="reject")),
        "another digest": only(one, lambda made: replace(made, digest="0" * 64)),
        "other arguments": only(one, lambda made: replace(made, verdict="edit", args='{"amount":500}')),
        "another person": only(one, lambda made: replace(made, decider=Decider("cyd", (), "signed", place=9))),
        "nobody": only(one, lambda made: replace(made, decider=None)),
        "another key": only(one, lambda made: replace(made, proof=replace(proofs[one], key=cyd))),
        "a place that is none": only(
            one, lambda made: replace(made, decider=Decider("bob", (), "signed", place=4_000))
        ),
        "before it was confirmed": only(one, lambda made: replace(made, decider=Decider("bob", (), "signed", place=3))),
        "a key that was revoked": revoked,
        "a directory that was cut": cut,
        "a key that somebody else put in its place": theirs,
    }


async def test_what_was_forged_or_moved_is_named(own_key: None, tmp_path: Path, how: From) -> None:
    desk = await worked(MemoryJournal())
    journal: Any = desk.app.journal
    entries = await desk.app.people.entries()
    honest = await verified(await rewritten(journal, unchanged), tmp_path, how)
    assert (honest.ok, honest.signatures) == (True, 3 + 2 + 2), honest
    assert len(entries) >= 9
    for what, change in (await attacks(desk)).items():
        report = await verified(await rewritten(journal, change), tmp_path, how)
        assert not report.ok, what
        first: EvidenceFault = report.faults[0]
        assert first.kind in ("decision", "key"), what
        assert first.line is not None, what
        assert first.run in await journal.every_run(), what


async def test_a_decision_by_a_key_after_it_was_revoked_is_named_whatever_place_it_says(
    own_key: None, tmp_path: Path, how: From
) -> None:
    desk = await worked(MemoryJournal())
    bob = desk.keys["bob"].public.id
    await desk.app.people.revoke_key(bob, by="ada")
    assert (await verified(desk.app.journal, tmp_path, how)).ok, "what was decided before stays"
    later = 2 * 60_000

    def backdated(run: str, _place: int, read: Any) -> Any:
        return read if run == NAME else replace(read, at=read.at + later)

    found = await verified(await rewritten(desk.app.journal, backdated), tmp_path, how)
    assert [fault.kind for fault in found.faults] == ["decision", "decision"]
    assert "had been revoked by then" in found.faults[0].what


async def test_a_word_that_is_written_with_escapes_is_not_overlooked(own_key: None, tmp_path: Path) -> None:
    desk = await worked(MemoryJournal())
    journal: Any = desk.app.journal
    made = MemoryJournal()
    for run in await journal.every_run():
        chain, sealing = chain_of(journal, run), chain_of(made, run)
        bodies = [chain.open(line) for line in await journal.read(run)]
        if run != NAME:
            hidden = (b'"pr\\u006fof":', b'"strength":"sign\\u0065d"')
            bodies = [
                body.replace(b'"proof":', hidden[0]).replace(b'"strength":"signed"', hidden[1]) for body in bodies
            ]
            bodies = [body.replace(b"seen", b"mine") for body in bodies]
        await made.append(run, 0, [sealed(sealing, body) for body in bodies])
    for how in ("store", "export"):
        found = await verified(made, tmp_path, how)
        assert [fault.kind for fault in found.faults] == ["decision", "decision"], how


async def test_secrets_that_are_withheld_hide_no_good_signature(own_key: None, tmp_path: Path) -> None:
    desk = await worked(MemoryJournal())

    def withheld(run: str, _place: int, read: Any) -> Any:
        if run == NAME:
            return read
        events = [
            replace(event, proposals=[replace(each, secrets=("amount",)) for each in event.proposals])
            if isinstance(event, ev.ReplyRecorded)
            else event
            for event in read.events
        ]
        return replace(read, events=events)

    report = await verified(await rewritten(desk.app.journal, withheld), tmp_path, "export")
    assert report.withheld
    assert (report.ok, report.signatures) == (True, 3 + 2 + 2), report
