"""Verify what people signed: decisions, and what they said of each other's keys.

Nothing is believed but keys: a key is trusted if it is one that this process was told to trust (else the first that was
confirmed), or if a person with a trusted key signed that it is its owner's. So whoever can write every line of the
journal, and has the keys that seal it, still cannot turn a person's key.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from msgspec.structs import replace

from ..core.approval import Approval
from ..core.challenge import decision_challenge, key_challenge
from ..core.digest import same
from ..core.errors import BadJson, UserError
from ..core.gate.combined_terms import escalated_from
from ..core.people import Decider, Proof, ProofRefused, barred, voices
from ..core.records import Decision
from ..core.run import Call, Run, allowed_by, call_digest, request_id
from ..proofs import verify
from ..proofs.base import Checked, PublicKey
from .state import Directory, Key

# What one person can report, and what is said to a call that was started.
_APPROVES = ("approve", "edit")
_ALONE = ("ran", "did_not_run")
_COUNTS = ("approve", "edit", "retry", "answer", "ran", "did_not_run")


def public_of(key: Key) -> PublicKey:
    """Return an enrolled key as its scheme reads it."""
    return PublicKey(key.scheme, key.id, key.public, key.label)


def trusted_keys(directory: Directory, tenant: str, roots: Collection[str] = ()) -> frozenset[str]:
    """Return the ids of the keys that are trusted, of those that were confirmed.

    `roots` are the keys that somebody outside vouches for; without any it is the first that was confirmed.
    """
    confirmed = [key for key in directory.keys.values() if key.confirmed_at is not None]
    confirmed.sort(key=lambda key: key.confirmed_place)
    found = {key.id for key in confirmed if key.id in roots} if roots else {key.id for key in confirmed[:1]}
    for key in confirmed:  # who confirmed a key had theirs confirmed before
        if key.id not in found and _vouched(directory, tenant, key, found):
            found.add(key.id)
    return frozenset(found)


def _vouched(directory: Directory, tenant: str, key: Key, trusted: set[str]) -> bool:
    proof = key.proof
    signer = None if proof is None or proof.key not in trusted else directory.keys.get(proof.key)
    if proof is None or signer is None or signer.person in ("", key.person) or signer.person != key.confirmed_by:
        return False
    if signer.revoked_place is not None and signer.revoked_place < key.confirmed_place:
        return False
    said = key_challenge(tenant, key.person, key.scheme, key.id, key.public.encode())
    try:
        verify(public_of(signer), said, proof)
    except ProofRefused:
        return False
    return True


def check_decision(
    directory: Directory,
    tenant: str,
    asked: tuple[str, int],
    decision: Decision,
    *,
    trusted: Collection[str],
    last_count: int | None = None,
) -> Checked:
    """Verify that its decider's own key signed this very decision, or raise `ProofRefused`.

    `asked` is the request's id and how often it was asked.
    """
    proof, who = decision.proof, decision.decider
    if proof is None or who is None:
        raise ProofRefused("it is not signed")
    key = directory.keys.get(proof.key)
    if key is None or key.person != who.id:
        raise ProofRefused(f"it is not by a key of {who.id!r}")
    if not key.counts or key.id not in trusted:
        raise ProofRefused(f"the key {key.id} is not confirmed, or was revoked")
    try:
        challenge = decision_challenge(tenant, *asked, said(decision))
    except (BadJson, UserError):
        raise ProofRefused("what was decided has no one text") from None
    return verify(public_of(key), challenge, proof, last_count=last_count)


def said(decision: Decision) -> Decision:
    """Return a decision as it was said: what is recorded of one on an edited call names the edit, too."""
    return decision if decision.verdict == "edit" else replace(decision, args=None, basis=None)


def unsigned(
    directory: Directory,
    tenant: str,
    run: Run,
    call: Call,
    *,
    terms: Sequence[Approval],
    roots: Collection[str] = (),
    past: Mapping[int, Directory] | None = None,
) -> str:
    """Return why the word of people on a call does not count where it must be signed; "" where it does.

    `terms` are those that hold now, whatever the log says of others; `past` is the directory at the places by which
    decisions were judged.
    """
    trusted = trusted_keys(directory, tenant, roots)
    made = allowed_by(call)
    signed = list[Decider]()

    def wrong(decision: Decision, due: Sequence[Approval | None], call: Call = call) -> str:
        who = decision.decider
        asked = (request_id(run, call.id), call.revision)
        try:
            check_decision(directory, tenant, asked, decision, trusted=trusted)
            _check_bound(run, call, decision)
        except ProofRefused as refused:
            return str(refused)
        assert who is not None
        if not (past or {}).get(-1 if who.place is None else who.place, directory).vouches(who, decision.at):
            return f"the directory does not say of {who.id!r} what the decision says"
        if None in due:
            return "the terms allow no emergency override"
        return next(filter(None, (barred(each, who, run.requester, decision.proof) for each in due)), "")

    if call.met or any(each.then is not None for each in terms):
        return _chain_unsigned(run, call, terms, wrong)
    for decision in letting(call):
        due = [each.behind_glass() if decision.broke_glass else each.at_step(confirmed=True) for each in terms]
        if why := wrong(decision, due):
            return f"the decision of {decision.by or 'no user in particular'} does not count: {why}"
        assert decision.decider is not None
        signed.append(decision.decider)
    if made is not None and made.verdict in _APPROVES and not made.broke_glass:
        for each in terms:
            if each.in_two_steps and (call.confirmed is None or wrong(call.confirmed, [each.at_step(confirmed=False)])):
                return "the person for whom the run acts did not confirm it with a signature"
    wanted = _needed(call, terms)
    if voices(signed) < wanted:
        return f"it takes the signatures of {wanted}, and {voices(signed)} signed"
    return ""


def _chain_unsigned(run: Run, call: Call, terms: Sequence[Approval], wrong: Callable[..., str]) -> str:
    """Return why an approval chain is not met by signatures; each step is by votes that name it, in their order."""
    made = allowed_by(call)
    last = list(letting(call))
    if made is not None and made.broke_glass:
        glass = [each.behind_glass() for each in terms]
        return next(filter(None, (wrong(decision, glass) for decision in last)), "")
    met = [(replace(call, asks=step.asks, terms=step.terms), list(step.votes)) for step in call.met]

    def is_met(due: Approval, asked: Call, votes: list[Decision]) -> bool:
        on = None if asked.terms is None else asked.terms.alone
        due = on if on is not None and escalated_from(due, on) else due
        if due.needs_proof:
            sure = [vote for vote in votes if not wrong(vote, [due], asked)]
        else:
            sure = [vote for vote in votes if not barred(due, vote.decider, run.requester)]
        return bool(sure) and voices(vote.decider for vote in sure) >= _needed(asked, [due])

    fact = made is not None and made.verdict in _ALONE  # what became of a call is said in whichever step is due
    for each in terms:
        steps = iter([*met, (call, last)])
        found = [any(is_met(due, *step) for step in steps) for due in each.in_turn]
        if not all(found) and not (fact and any(is_met(due, call, last) for due in each.in_turn)):
            return f"step {found.index(False) + 1} of its approval chain is not met by valid signatures"
    return ""


def _check_bound(run: Run, call: Call, decision: Decision) -> None:
    """Refuse a signature on other bytes than those that would run: an approval that came to name an edit, say."""
    if decision.verdict == "approve" and decision.args is not None:
        raise ProofRefused("it was signed for the call as it was shown, and other arguments would run")
    if decision.verdict == "edit":
        if decision.args != call.text:
            raise ProofRefused("other arguments would run than those that were signed")
    elif decision.digest != call_digest(run, call):
        raise ProofRefused("it was signed for another call than the one that would run")


def _needed(call: Call, terms: Sequence[Approval]) -> int:
    made = allowed_by(call)
    if made is None or made.verdict in _ALONE or call.need is not None or made.broke_glass:
        return 1
    return max([1, *(each.quorum for each in terms)])


def letting(call: Call) -> Iterator[Decision]:
    """Yield the decisions that count for a call: the one that settled it, and the votes that said the same."""
    made = allowed_by(call)
    if made is None or made.verdict not in _COUNTS:
        return
    yield made
    edited = made.verdict == "edit"
    for by, vote in call.votes.items():
        alike = not edited or (vote.args, vote.basis) == (made.args, made.basis)
        if by != made.by and alike and vote.verdict == made.verdict and same(vote.output, made.output):
            yield vote


def enrolment_challenge(tenant: str, person: str, key: PublicKey) -> bytes:
    """Return what the owner of a key signs with it, to show that they have it."""
    return key_challenge(tenant, person, key.scheme, key.id, key.data.encode(), "enrol")


def confirmation_challenge(tenant: str, key: Key) -> bytes:
    """Return what somebody signs who confirms that a key is its owner's."""
    return key_challenge(tenant, key.person, key.scheme, key.id, key.public.encode())


def check_enrolment(tenant: str, person: str, key: PublicKey, proof: Proof) -> Checked:
    """Verify that whoever enrols a key has its other half, or raise `ProofRefused`."""
    return verify(key, enrolment_challenge(tenant, person, key), proof)
