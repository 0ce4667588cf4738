"""The mutants of what came with several people: quorum, marks, lists, shared limits, the directory, proofs, the outbox.

As in `broken.py`, each breaks one law and must be caught by the battery.
"""

from __future__ import annotations

from keyturn.channels.lane import Lane
from keyturn.core import crossing, decide, people, quota
from keyturn.core.challenge import decision_text
from keyturn.core.gate import deciding, delivery, noting, words
from keyturn.core.gate import marks as beside
from keyturn.core.states import MOVES
from keyturn.directory import decide as directory_decide
from keyturn.directory import fold, state
from keyturn.directory.people import People
from keyturn.engine.effects import before_start
from keyturn.engine.effects.quotas import Quotas
from keyturn.inbox.desk import Inbox
from keyturn.inbox.request_store import RequestStore
from trials.alteration import Edit, Moves, Mutant, mutant

_SHOWN = "shown.digest not in (None, waiting.digest) or shown.revision not in (None, waiting.revision)"
_LET_IN = "if found is None or not good or not set(scopes) <= set(found.scopes):"

OF_PEOPLE: list[Mutant] = [
    mutant(
        "who acts for somebody is another",
        "I1 a quorum is of principals",
        Edit(people.voices, "looks_as(who.principal)", "looks_as(who.id)"),
    ),
    mutant(
        "ids that read alike are two",
        "I1 a quorum is of principals",
        Edit(people.voices, "(looks_as(who.id), looks_as(who.principal))", "(who.id, who.principal)"),
    ),
    mutant(
        "what is open crosses into a fork",
        "I1 nothing open crosses into another run",
        Edit(crossing.fork, 'yield from _asked_anew(run, "forked")', "pass"),
    ),
    mutant(
        "never again ends at a fork",
        "I1 a rejection for good holds in a fork",
        Edit(crossing._approvals_end, 'run.grants[grant].verdict == "approve"', "True"),
    ),
    mutant(
        "an approved agent begins in each fork",
        "I2 what was let run is not copied",
        Edit(crossing._unasked, "call.decision is None", "True"),
    ),
    mutant(
        "who confirmed is who decides",
        "I1 a quorum is of principals",
        Edit(words.voted_earlier, "if in_two_steps(call) and", "if False and in_two_steps(call) and"),
    ),
    mutant(
        "one person approves two steps",
        "I1 each step of a chain is approved by people of its own",
        Edit(words.voted_earlier, "if met and any(", "if False and any("),
    ),
    mutant(
        "the first step of a chain decides",
        "I1 a call of a chain runs when each of its steps is approved",
        Edit(delivery._decided, "if terms is not None and terms.then is not None", "if False and terms.then"),
    ),
    mutant(
        "one delivery approves two steps",
        "I1 a vote is of the step that its voter was shown",
        Edit(delivery._delivered, "if call.met and decision.digest", "if False and decision.digest"),
    ),
    mutant(
        "one denies for two",
        "I3 a rejection takes as many as its terms say",
        Edit(words.needed, "return terms.deny_quorum if", "return 1 if"),
    ),
    mutant(
        "what has begun is taken back",
        "I2 a started call cannot be withdrawn",
        Edit(beside.withdraw, "call is None or call.state not in READY", "call is None"),
        Moves(MOVES, {("started", "void"): "proposed"}),
    ),
    mutant(
        "a withdrawn vote counts again",
        "I1 a vote that was withdrawn is cast anew or not at all",
        Edit(deciding.check_not_withdrawn, "if not (own[-1] if own else 0) <=", "if False and not 0 <="),
    ),
    mutant(
        "a withdrawn vote stands",
        "I1 a vote that was withdrawn is no vote",
        Edit(noting.vote_withdrawn, "if by != made.by", ""),
    ),
    mutant(
        "anybody withdraws a vote",
        "I1 a vote is withdrawn by its voter",
        Edit(beside.own_vote, "vote.by == who.id", "True"),
    ),
    mutant(
        "an approval that can be undone runs at once",
        "I1 a call starts no sooner than its approval says",
        Edit(decide._start_call, "if call.decision is not None and run.now < (undo_until(call) or 0):", "if False:"),
    ),
    mutant(
        "a vote is withdrawn when its time is up",
        "I1 the time that counts is that of the delivery",
        Edit(beside._vote_withdrawn, 'call.state == "asked" and ran_out(run, call)', "False"),
    ),
    mutant(
        "a rejection that is withdrawn undoes an approval",
        "I1 an approval is withdrawn by who means it",
        Edit(beside._approval_withdrawn, 'c.vote == "reject" and', "False and"),
    ),
    mutant(
        "anybody marks",
        "I1 who may mark a request",
        Edit(beside.mark, "if why:", "if False:"),
    ),
    mutant(
        "the glass is broken without a word",
        "I8 broken glass has a reason on record",
        Edit(words.check_words, ' and decision.verdict == "approve" and says_something(decision.note)', ""),
    ),
    mutant(
        "a list is decided as it is now",
        "I4 what is decided is what was shown",
        Edit(RequestStore.waiting, _SHOWN, "False"),
        Edit(RequestStore.waiting, "shown.digest is None and call.renewed", "False"),
    ),
    mutant(
        "alike whatever the arguments",
        "I4 a batch is of one shape",
        Edit(Inbox.alike_page, "(row.tool, row.shape) == (waiting.tool, waiting.shape)", "True"),
        Edit(Inbox.alike_page, "shape=waiting.shape, tool=query.tool", "tool=query.tool"),
    ),
    mutant(
        "a limit is not held to",
        "I1 a limit that runs share",
        Edit(quota.take, "others + Fraction(c.beside) + amount > Fraction(c.most)", "False"),
    ),
    mutant(
        "a call is counted twice",
        "I1 a limit that runs share",
        Edit(quota.take, "known is not None and known.epoch >= c.epoch", "False"),
        Edit(quota.taken, "made.amount - (0 if before is None else before.amount)", "made.amount"),
    ),
    mutant(
        "a closed count goes on",
        "I1 a limit that runs share",
        Edit(quota.take, "if run.closed:", "if False:"),
    ),
    mutant(
        "what others spent is not read",
        "I1 a limit that runs share",
        Edit(vars(Quotas)["spent"].fget, "wanted.spent for", "wanted.spent * 0 for"),
        Edit(quota.take, "others + Fraction(c.beside) + amount > Fraction(c.most)", "False"),
    ),
    mutant(
        "a role is never taken away",
        "I1 a role counts while somebody has it",
        Edit(fold._role_taken, "d.people[e.person].roles - {e.role}", "d.people[e.person].roles"),
    ),
    mutant(
        "a revoked token lets in",
        "I7 a token counts until it is revoked",
        Edit(directory_decide.let_in, _LET_IN, "if False:"),
        Edit(People.admitted, "decide.present(directory, login.person).kind", "directory.people[login.person].kind"),
    ),
    mutant(
        "a delegation has no end",
        "I1 a delegation has an end",
        Edit(state.Delegation.holds, "self.ended_at is None and now < self.until", "True"),
    ),
    mutant(
        "a machine decides",
        "I1 no machine decides",
        Edit(People.admitted, '.kind == "machine"', '.kind == "nothing"'),
    ),
    mutant(
        "signatures are not looked at before a start",
        "I1 what a person signed is verified by who starts it",
        Edit(before_start.takes_proof, "any(each.takes_proof for each in terms)", "False"),
    ),
    mutant(
        "a worker takes any signature",
        "I1 what a person signed is verified by who starts it",
        Edit(before_start.unsigned, "if why:", 'why = ""\n    if why:'),
    ),
    mutant(
        "a signature fits every request",
        "I4 a signature is for one decision",
        Edit(decision_text, '{"tenant": tenant, "request": request, "revision": revision}', '{"tenant": tenant}'),
        Edit(decision_text, "for name in SAID}", 'for name in SAID if name != "digest"}'),
    ),
    mutant(
        "a notice is struck out before it is told",
        "I6 a notice is told at least once",
        Edit(Lane.deliver, "Dispatch(changed=[begun])", "Dispatch(gone=[row.number])"),
    ),
]
