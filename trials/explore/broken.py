"""Mutants of the core that the walk must catch, each in the cast where it shows, with the shortest trace.

Those of `trials/broken.py` that touch what a cast walks are here by name; the others are of rules that only an order of
several words shows.
"""

from __future__ import annotations

from typing import NamedTuple

from keyturn.core import crossing, decide, drills, effects, evolve, moves, people, queueing, quota, run
from keyturn.core.gate import deciding, delivery, expiry, grants, lending, noting, reviews, verdicts, words
from trials.alteration import Edit, Mutant, mutant
from trials.broken import BROKEN
from trials.broken_people import OF_PEOPLE

_REQUESTER = "if terms.not_requester and (who.requester or is_one_of(requester, who.id, who.acting_for)):"
_REVIEWER = "if who.requester or is_one_of(requester, who.id, who.acting_for):"
_OWN = " if vote.digest == decision.digest"
_ANEW = 'yield from _asked_anew(run, "forked")'
_NO_RUN = 'raise Conflict("nothing of this run is ever executed")'


class Shows(NamedTuple):
    """A mutant, and the cast in which it shows."""

    cast: str
    mutant: Mutant


_KNOWN = {each.name: each for each in (*BROKEN, *OF_PEOPLE)}
_BY_NAME = {
    "digest not compared at the decision": "quorum",
    "second decision wins": "quorum",
    "expired approval accepted": "quorum",
    "expiry by the decision's own time": "quorum",
    "stale approval executed": "quorum",
    "one of two is enough": "quorum",
    "who acts for somebody is another": "quorum",
    "what has begun is taken back": "quorum",
    "a rejected call runs": "quorum",
    "a start does not wait for the policy": "quorum",
    "grant use not counted": "grant",
    "in doubt, run again": "several",
    "result recorded twice": "quorum",
    "a probe renews an approval": "doubt",
    "a denial lets pass": "policy",
    "policy not asked about the decision": "policy",
    "what was started is denied": "policy",
    "what a copy lets run is run": "restore",
    "a probe speaks after a restore": "restore",
    "a word survives the copy it was said to": "restore",
    "digest without the run": "fork",
    "two words in one delivery": "denial",
    "grant covers every tool": "denial",
    "grant ignores its predicate": "grant",
    "a role is ignored": "quorum",
    "users are ignored": "expiry",
    "the requester decides": "quorum",
    "a name is enough": "quorum",
    "one person is two": "quorum",
    "a forged via": "denial",
    "a probe speaks for every tool": "denial",
    "a grant covers what its giver could not decide": "reviews",
    "anybody confirms": "confirm",
    "others need no confirmation": "steps",
    "anybody breaks the glass": "steps",
    "an approval is taken back and stands": "grant",
    "anybody takes an approval back": "denial",
    "a grant in place of a quorum": "policy",
    "the asking not compared": "quorum",
    "what is open crosses into a fork": "fork_steps",
    "never again ends at a fork": "fork",
    "one denies for two": "denial",
    "anybody marks": "denial",
    "a withdrawn vote counts again": "votes",
    "a withdrawn vote stands": "votes",
    "an approval that can be undone runs at once": "votes",
    "anybody withdraws a vote": "votes",
    "a vote is withdrawn when its time is up": "votes",
    "a rejection that is withdrawn undoes an approval": "votes",
    "the glass is broken without a word": "steps",
}


def _new(cast: str, name: str, law: str, *edits: Edit) -> Shows:
    return Shows(cast, mutant(name, law, *edits))


SHOWN: list[Shows] = [
    *(Shows(cast, _KNOWN[name]) for name, cast in _BY_NAME.items()),
    _new("quorum", "the requester's vote counts", "I1", Edit(people._not_among, _REQUESTER, "if False:")),
    _new("quorum", "a role is not asked for", "I1", Edit(people._not_among, "and not _named(terms, who)", "and False")),
    _new("quorum", "a vote that went stale counts", "I1",
         Edit(deciding.agreeing, " if limit is None or run.now <= vote.at + limit", "")),
    _new("quorum", "an asking is not part of the digest", "I4",
         Edit(run.call_digest, "basis, call.asks)", "basis, 0)")),
    _new("quorum", "a vote for other arguments counts", "I4",
         Edit(deciding.agreeing, "return alike and same(vote.output, decision.output)", "return True")),
    _new("quorum", "a refusal changes the run", "I8",
         Edit(deciding.check_decision, "_check_decider(run, call, decision)",
              "call.warned = True; _check_decider(run, call, decision)")),
    _new("expiry", "a vote outlives its asking", "I4", Edit(evolve._call_asked_again, "call.votes = {}", "pass"),
         Edit(deciding.agreeing, _OWN, "")),
    _new("fork", "a fork carries votes along", "I1", Edit(crossing.fork, _ANEW, "pass"),
         Edit(deciding.agreeing, _OWN, "")),
    _new("fork_steps", "a fork carries looks and confirmations along", "I1", Edit(crossing.fork, _ANEW, "pass")),
    _new("grant", "a grant is used once too often", "I1",
         Edit(grants.covers, "grant_uses.get(grant.id, 0) >= grant.uses", "grant_uses.get(grant.id, 0) > grant.uses")),
    _new("grant", "a grant that expired is used", "I1", Edit(grants.covers, "if spent or over:", "if spent:")),
    _new("grant", "a grant that was revoked is used", "I1",
         Edit(lending.revoked, "run.grants.pop(event.grant, None)", "pass")),
    _new("grant", "a grant of the requester lets run", "I1",
         Edit(people._not_among, _REQUESTER, "if False:")),
    _new("policy", "a standing rejection is passed over", "I1",
         Edit(verdicts.screened, 'if grant.verdict == "reject":', "if False:")),
    _new("policy", "fewer than the newest policy asks for are enough", "I7",
         Edit(deciding._meets, "return known and reasoned", "return True or known and reasoned")),
    _new("steps", "a look of any length is enough", "I1", Edit(deciding.unlooked, "if left <= 0:", "if True:")),
    _new("steps", "a look outlives its asking", "I1", Edit(noting.unmarked, "call.looks = {}", "pass")),
    _new("steps", "a confirmation outlives its asking", "I1",
         Edit(noting.unmarked, "call.claim = call.confirmed = None", "call.claim = None")),
    _new("steps", "others decide what was not confirmed", "I1",
         Edit(run.terms_now, "confirmed=confirmed(run, call)", "confirmed=True"),
         Edit(delivery._decided, "in_two_steps(call) and not confirmed(run, call) and", "False and")),
    _new("steps", "broken glass is reviewed by nobody", "I8",
         Edit(reviews.glass_broken, "if decision.broke_glass:", "if False:")),
    _new("steps", "who decided reviews it", "I1",
         Edit(reviews.kept_from_review, "who.is_any_of(deciders)", "False")),
    _new("steps", "a review of an earlier start counts", "I4",
         Edit(reviews.give_review, "if c.digest != review_digest(run, review):", "if False:")),
    _new("reviews", "a sample is reviewed by nobody", "I8", Edit(reviews.sampled, "if share and", "if False and")),
    _new("reviews", "who is stood in for reviews it", "I1",
         Edit(reviews._named, "for name in (who.id, who.acting_for)", "for name in (who.id,)")),
    _new("reviews", "the requester reviews", "I1",
         Edit(reviews.kept_from_review, _REVIEWER, "if False:")),
    _new("reviews", "a name alone reviews", "I1",
         Edit(reviews.kept_from_review, 'if who.strength == "claimed":', "if False:")),
    _new("reviews", "whoever may not decide it reviews it", "I1",
         Edit(reviews.kept_from_review, "if terms.role is None and not users:", "if True:")),
    _new("reviews", "a call is reviewed twice", "I3", Edit(reviews.give_review, "if said is None:", "if True:"),
         Edit(reviews.give_review, "if said is not None and", "if False and")),
    _new("breaker", "a question back is a rejection", "I8",
         Edit(evolve._call_decided, '"reject" and not decision.asks_back:', '"reject":')),
    _new("breaker", "what a breaker denies keeps it open", "I8",
         Edit(evolve._call_screened, " and BY_BREAKER not in event.by", "")),
    _new("breaker", "a failure is not counted", "I8",
         Edit(evolve._call_finished, 'if event.failed and call.state == "started":', "if False:")),
    _new("breaker", "a shared count is told of nothing", "I6", Edit(quota.tell_of, "if told:", "if False:")),
    _new("breaker", "a shared count is told again and again", "I6",
         Edit(quota.returned, "run.owed.pop(owed_as(event.call, event.of), None)", "pass")),
    _new("chain", "a chain ends with its first step", "I1",
         Edit(delivery._decided, "terms.then is not None and not alone", "False and not alone")),
    _new("chain", "one person meets two steps of a chain", "I1",
         Edit(words.voted_earlier, "if met and any(", "if {} and any(")),
    _new("chain", "an emergency approval of a chain never goes stale", "I1",
         Edit(expiry.stale_at, "call.terms.lasts_ms", "call.terms.execute_by_ms")),
    _new("chain", "a step stays met whose vote is withdrawn", "I1",
         Edit(noting.vote_withdrawn, "call.met = call.met[: step_of(call, made.by)]", "pass")),
    _new("chain", "a chain in doubt keeps the steps that were met", "I1",
         Edit(evolve._call_lost, "from_first_step(call)", "pass")),
    _new("chain_policy", "a grant covers a chain", "I1",
         Edit(grants._takes_more, "terms.in_two_steps or terms.then is not None or", "terms.in_two_steps or")),
    _new("chain_policy", "the steps of a chain are met in any order", "I7",
         Edit(deciding.meets, "steps = iter([*call.met, _last_step(run, call, decision)])",
              "steps = [*call.met, _last_step(run, call, decision)]")),
    _new("queue", "a queued run begins twice", "I2", Edit(queueing.begin, "if not run.queued:", "if False:")),
    _new("queue", "a cancelled run has its turn", "I2", Edit(queueing.begin, "open_run(run)", "pass")),
    _new("hosted", "an approval is sent beside what has no result", "I6",
         Edit(effects.comes_next, "if call.proposal.by_provider:", "if False:")),
    _new("hosted", "a refused question starts any call again", "I2",
         Edit(decide._lose_call, "c.unsent and call.proposal.by_provider", "c.unsent")),
    _new("hosted", "a lost reply sends the approval again", "I2",
         Edit(decide._lose_call, "unsent = c.unsent and", "unsent = ")),
    _new("hosted", "a refusal clears what an earlier question may have done", "I2",
         Edit(evolve._call_lost, "call.acted = call.doubted if", "call.acted = False if")),
    _new("several", "the model goes on before a call has its result", "I6",
         Edit(moves._settled, "if frame.open == 0:", "if frame.open <= 1:")),
    _new("drill", "a drill is decided like any run", "I7",
         Edit(drills.decider, "if isinstance(command, cm.Deliver):", "if False:"),
         Edit(drills.decider, _NO_RUN, "return usual")),
    _new("question", "a doubt that asks again cannot change its tool", "I7",
         Edit(decide._void_call, "if shown.acted:", "if shown.acted and {}['asked', 'lose']:")),
]  # fmt: skip
