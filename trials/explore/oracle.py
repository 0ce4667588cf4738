"""The promises I1 to I8, stated a second time: which events a call may meet, and what lets it run.

It reads the events of a step, and beside them what the cast truly did in it; it asks no code that decides or folds. A
word counts if somebody gave it to this run, about this asking of this call, in time, and is one of those who may.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from msgspec.structs import replace

from keyturn.core import events as ev
from keyturn.core.approval import Approval

from . import chains
from .book import WAITS, Book, Place, Review, Standing, Told, Word, changed, need, stated
from .law import ends_at, enough, glassed, judge, lasts, may, restricts, sure
from .people import FACTS

_AFTER: dict[tuple[str, str], Place] = {
    ("asked", "approve"): "ready", ("asked", "edit"): "ready", ("asked", "reject"): "dead",
    ("asked", "answer"): "dead", ("asked", "expire"): "dead",
    ("doubt", "ran"): "dead", ("doubt", "did_not_run"): "dead", ("doubt", "retry"): "ready",
    ("question", "answer"): "ready", ("question", "reject"): "ready",
}  # fmt: skip
_LETS = {"approve": "people", "edit": "people", "retry": "retry", "answer": "answer", "reject": "answer"}
_NO_START: dict[str, tuple[str, str]] = {
    "new": ("I1", "ran without a verdict"),
    "asked": ("I1", "ran while it still waited for approval"),
    "question": ("I1", "ran before its tool's question was answered"),
    "started": ("I2", "was started twice"),
    "doubt": ("I2", "was started again while it was in doubt"),
    "dead": ("I7", "ran although it was not to run"),
    "done": ("I2", "was started again after it had its result"),
}


class Done(NamedTuple):
    """What truly happened in a step: when, who said what, and what the policy in force said where one was asked."""

    now: int
    word: Word | None = None
    action: str = ""
    terms: Approval | None = None  # those on which it asks
    gives: str = ""  # the verdict of a standing decision that came along
    uses: int | None = None
    until: int | None = None
    where: str = ""
    sampled: bool = False  # what is let run without a person is reviewed, each time
    refused: bool = False  # the provider refused the question that held a call's approval: nothing ran
    review: int = 0  # the how manyth review somebody gave
    withdraws: str = ""  # who withdraws what they said
    rejects: bool = False  # what they mean to withdraw is a rejection


def heard(book: Book, events: list[ev.AnyEvent], done: Done) -> Book:
    """Return what is known after a step; raise `Broken` for a promise that it breaks."""
    for event in events:
        book = _HEARS[type(event)](book, event, done)
    names = [type(event) for event in events]
    need(names.count(ev.GrantUsed) == sum(map(_granted, events)), "I1", "a standing decision was not counted as used")
    for name, told in book.calls.items():
        need(told.due is None, "I6", f"a step of {name} is due, and was not asked for")
    for event in events:
        if isinstance(event, ev.ApprovalWithdrawn):
            stands = book.calls[event.call].place == "ready"
            need(not stands, "I1", f"{event.call} could run still after its approval was taken back")
        if isinstance(event, ev.CallDecided) and event.decision.broke_glass:
            need(ev.ReviewAsked in names, "I8", "the glass was broken, and nobody is asked to review it")
        if _sampled(book, event, done):
            need(ev.ReviewAsked in names, "I8", "a call of the sample was let run, and nobody is asked to review it")
    return book


def _sampled(book: Book, event: ev.AnyEvent, done: Done) -> bool:
    if isinstance(event, ev.GrantUsed):
        held = book.grants.get(event.grant)
        return held is not None and held.sampled and held.verdict == "approve"
    lets = isinstance(event, ev.CallScreened) and event.action == "allow" and book.calls[event.call].let == "unasked"
    return lets and done.sampled


def _granted(event: ev.AnyEvent) -> bool:
    if isinstance(event, ev.CallDecided):
        return event.decision.via == "grant"
    return isinstance(event, ev.CallScreened) and event.by.startswith("grant:") and event.action == "allow"


def _replied(book: Book, event: ev.ReplyRecorded, done: Done) -> Book:
    left = [name for name, told in book.calls.items() if told.place != "done"]
    need(not left, "I6", f"the model went on before {', '.join(left)} had a result")
    need(not book.queued, "I6", "the model was asked before the run had its turn on the session")
    turn = 1 + len({name.partition(".")[0] for name in book.calls})
    for index, made in enumerate(event.proposals):
        place: Place = "ready" if made.gate == "allow" else "new"
        repeats, probes = made.recover == "retry", made.recover == "probe"
        told = Told(place, made.tool, repeats, probes, made.by_provider, let="unasked")
        book = book.put(f"{event.frame}/{turn}.{index}", told)
        if place == "ready":
            never = any(each.verdict == "reject" and each.tool == made.tool for each in book.grants.values())
            need(not never, "I1", "a call was let run at once, though a standing rejection is about its tool")
    return book


def _asked(told: Told, now: int, place: Place, **more: Any) -> Told:
    fresh_start = {"place": place, "asking": told.asking + 1, "asked_at": now, "words": (), "looks": (), "withdrew": ()}
    return changed(told, **{**fresh_start, **more})


def _screened(book: Book, event: ev.CallScreened, done: Done) -> Book:
    told = book.calls[event.call]
    granted = event.by.startswith("grant:")
    if event.action == "deny" and not event.by.endswith(":breaker"):
        book = _trouble(book, event.call, "denied", done.now)
    if told.place == "ready":
        if event.action == "deny":
            need(not told.acted or told.let == "answer", "I2", f"{event.call} was denied as if it had never started")
            return book.put(event.call, changed(told, place="dead"))
        need(done.action != "deny", "I7", f"the policy denied {event.call}, and the denial was recorded as a pass")
        return book.put(event.call, changed(told, judged=True, demand=done.terms))
    need(told.place == "new", "I3", f"{event.call} was judged again while it was {told.place}")
    if event.action == "deny":
        return book.put(event.call, changed(told, place="dead"))
    if event.action == "ask":
        return book.put(event.call, _asked(told, done.now, "asked", terms=event.terms, must_ask=False, met=()))
    let = "granted" if granted else "unasked"
    if not granted:
        need(done.action in ("", "allow"), "I7", f"{event.call} was let run, and the policy said {done.action!r}")
        need(done.action and not told.must_ask, "I1", f"{event.call} was let run, and its tool asks for approval")
        never = any(each.verdict == "reject" and each.tool == told.tool for each in book.grants.values())
        need(not never, "I1", f"{event.call} was let run, and a standing rejection is about it")
    told = changed(told, place="ready", let=let, let_at=done.now, judged=True, terms=event.terms)
    return book.put(event.call, told)


def _trouble(book: Book, call: str, kind: str, now: int) -> Book:
    """Count what did not go well with a call, where such things are counted."""
    if book.troubles is None:
        return book
    owed = book.owed if kind == "denied" else tuple(sorted({*book.owed, call}))
    return replace(book, troubles=(*book.troubles, (call, kind, now)), owed=owed)


def _told_of(book: Book, event: ev.QuotaReturned, done: Done) -> Book:
    return replace(book, owed=tuple(call for call in book.owed if call != event.call))


def _voted(book: Book, event: ev.VoteCast, done: Done) -> Book:
    if event.replaced:
        return book
    made = event.decision
    told = book.calls[made.call]
    need(told.place in ("asked", "doubt"), "I3", f"a vote on {made.call} was recorded, which does not wait")
    word = replace(_word_of(told, made, done), confirms=made.confirms)
    judge(told, word, book.run, made.call, done.now)
    chains.check_voter(told, word, made.call)
    if word.confirms and told.terms is not None and told.terms.then is not None:
        return book.put(made.call, chains.met(told, word, made.call, done.now))
    return book.put(made.call, changed(told, words=_with(told, word)))


def _vote_withdrawn(book: Book, event: ev.VoteWithdrawn, done: Done) -> Book:
    made = event.decision
    told, who = book.calls[made.call], made.by or ""
    need(told.place in ("asked", "doubt"), "I3", f"a vote on {made.call} was withdrawn, which does not wait")
    own = [word for word in told.words if word.who == who]
    back = chains.withdrawn(told, who)
    need(
        (own or back) and done.withdraws == who, "I1", f"a vote of {who} on {made.call} was withdrawn, and not by them"
    )
    ends = ends_at(told)
    over = ends is not None and done.now > ends
    need(not over, "I1", f"a vote on {made.call} was withdrawn after its time was up")
    if back is not None:
        return book.put(made.call, changed(back, words=(), withdrew=(*told.withdrew, who)))
    others = tuple(word for word in told.words if word.who != who)
    left = () if any(word.confirms for word in own) else others
    return book.put(made.call, changed(told, words=left, withdrew=(*told.withdrew, who)))


def _with(told: Told, word: Word) -> tuple[Word, ...]:
    """Return what was said once somebody has said this: their newest word is the one that counts, and it is last."""
    others = [each for each in told.words if each.who != word.who or each.confirms != word.confirms]
    return (*sorted(others, key=lambda each: (each.who, each.confirms)), word)


def _word_of(told: Told, made: ev.Decision, done: Done) -> Word:
    """Return the word that a recorded decision is of: one that somebody gave in this very step."""
    word = done.word
    who = None if made.decider is None else made.decider.id
    args = made.args or ""
    if told.place != "asked" and args == told.args:  # what became of an edited call is no edit
        args = ""
    said = word is not None and (word.who, word.verdict, word.args) == (who, made.verdict, args)
    need(said, "I1", f"a word of {who} on {made.call} is on record, and they gave none")
    assert word is not None
    void = word.replayed and word.who in told.withdrew
    need(not void, "I1", f"a word of {who} on {made.call} counts again, and they had withdrawn it")
    return word


def _decided(book: Book, event: ev.CallDecided, done: Done) -> Book:
    made = event.decision
    told = book.calls[made.call]
    need(told.place in WAITS, "I3", f"{made.call} was decided while it was {told.place}")
    after = _AFTER.get((told.place, made.verdict))
    need(after is not None, "I3", f"{made.call} was decided with {made.verdict!r} while it was {told.place}")
    book, told, at = _BY[made.via](book, told, made, done)
    if made.verdict == "reject" and not made.asks_back:
        book = _trouble(book, made.call, "rejected", done.now)
    if told.place == "question" and told.elsewhere:
        after = "dead"  # its tool is not called again
    if after == "ready":
        told = changed(told, let_at=at, judged=False, demand=None, free=made.via == "person")
        if made.via == "probe":
            told = changed(told, acted=False, truly=False)
        else:
            told = changed(told, let="grant" if made.via == "grant" else _LETS[made.verdict])
    return book.put(made.call, changed(told, place=after, args=made.args or told.args))


def _by_person(book: Book, told: Told, made: ev.Decision, done: Done) -> tuple[Book, Told, int]:
    word = _word_of(told, made, done)
    judge(told, word, book.run, made.call, done.now)
    chains.check_voter(told, word, made.call)
    lets = made.verdict in ("approve", "edit", "retry") and told.place != "question"
    need(made.note or not made.broke_glass, "I8", f"the glass was broken for {made.call}, and no reason is on record")
    count = len({each.who for each in told.words if not each.confirms} | {word.who})
    if lets or (made.verdict == "answer" and told.place == "asked"):
        chains.check_last(told, word, made.call)
    if lets:
        all_said = enough(told, word, told.terms, done.now)
        need(all_said, "I1", f"{made.call} was let run on too few words: of {count} who gave one to this asking")
        steps = told.terms is None or glassed(told.terms, word) or sure(told, told.terms, done.now)
        need(steps, "I1", f"{made.call} was let run, and its requester had not confirmed it")
    if made.verdict == "reject" and told.terms is not None and told.place == "asked":
        against = {each.who for each in (*told.words, word) if each.verdict == "reject"}
        need(len(against) >= told.terms.deny_quorum, "I3", f"{made.call} was rejected by too few")
    words = _with(told, word)
    held = word.undo if lets else told.held
    return book, changed(told, words=words, cleared=words if lets else told.cleared, held=held), word.at


def _by_grant(book: Book, told: Told, made: ev.Decision, done: Done) -> tuple[Book, Told, int]:
    held = book.grants.get(made.grant or "")
    need(held is not None, "I1", f"{made.call} was decided by a standing decision that there is not")
    assert held is not None
    need(held.verdict == made.verdict, "I1", f"{made.call} was decided otherwise than the standing decision says")
    return book, changed(told, cleared=()), done.now


def _by_clock(book: Book, told: Told, made: ev.Decision, done: Done) -> tuple[Book, Told, int]:
    ends = ends_at(told)
    over = ends is not None and done.now > ends
    need(made.verdict == "expire" and over, "I6", f"{made.call} was ended by the clock before its time")
    return book, told, done.now


def _by_probe(book: Book, told: Told, made: ev.Decision, done: Done) -> tuple[Book, Told, int]:
    need(told.place == "doubt" and told.probes, "I2", f"{made.call} was decided by a check that its tool has not")
    stands = told.let or made.verdict != "retry"
    need(stands, "I1", f"{made.call} was let run again by a check, and what had let it run before stands no more")
    return book, told, told.let_at


_BY = {"person": _by_person, "grant": _by_grant, "clock": _by_clock, "probe": _by_probe}


def _asked_again(book: Book, event: ev.CallAskedAgain, done: Done) -> Book:
    told = book.calls[event.call]
    need(told.place in WAITS, "I6", f"{event.call} was asked again while it was {told.place}")
    if event.why == "step":
        told = chains.opened(told, event.terms, event.call)
    elif event.why in ("restored", "forked", "terms"):
        told = chains.from_first(told)
    more = {} if event.terms is None else {"terms": event.terms}
    return book.put(event.call, _asked(told, done.now, told.place, **more))


def _voided(book: Book, event: ev.CallVoided, done: Done) -> Book:
    told = book.calls[event.call]
    need(told.place in ("new", "asked", "ready"), "I2", f"{event.call} was proposed anew while it was {told.place}")
    forgotten = told.place == "ready" and told.acted and told.let != "answer"
    need(not forgotten, "I2", f"{event.call} was proposed anew as if it had never started")
    told = changed(chains.from_first(told), place="new", words=(), cleared=(), looks=(), must_ask=True, free=False)
    return book.put(event.call, told)


def _started(book: Book, event: ev.CallStarted, done: Done) -> Book:
    told = book.calls[event.call]
    need(not book.drill, "I7", f"{event.call} of a drill ran")
    need(not book.over, "I7", f"{event.call} ran when its run was over")
    need(not book.failed, "I7", f"{event.call} ran when its run had failed, and nobody had resumed it")
    if told.place != "ready":
        promise, how = _NO_START[told.place]
        need(False, promise, f"{event.call} {how}")
    held = told.let in ("people", "retry") and done.now < told.let_at + told.held
    need(not held, "I1", f"{event.call} started while its approval could still be undone")
    if told.along:
        beside = [each for name, each in book.calls.items() if _reply_of(name) == _reply_of(event.call)]
        others = [each for each in beside if not (each.along and each.place in ("ready", "started"))]
        early = any(each.place != "done" for each in others)
        need(not early, "I6", f"the approval of {event.call} was sent before the calls beside it had their results")
    need(told.judged, "I7", f"{event.call} ran, and the newest policy was not asked about the decision")
    again = told.acted or (told.truly and not told.repeats)
    need(told.free or not again, "I2", f"{event.call} was started again, and no person had said so")
    if told.let != "unasked":
        need(lasts(told.terms, told.let_at, done.now), "I1", f"{event.call} ran on an approval that had gone stale")
    if told.demand is not None and told.demand != stated(told):
        _meets(told, event.call, done.now)
    acts = not told.repeats
    return book.put(event.call, changed(told, place="started", acted=told.acted or acts, truly=acts, free=False))


def _reply_of(call: str) -> str:
    return call.rpartition(".")[0]


def _meets(told: Told, call: str, now: int) -> None:
    """Check what lets a call run by the terms that the newest policy demanded of it."""
    demand, words = told.demand, told.words or told.cleared
    last = words[-1] if words else None
    assert demand is not None
    if last is None:
        met = told.let == "grant" and not restricts(demand)
    elif told.let == "answer":
        met = may(demand, last.who)
    elif demand.then is not None or told.met:
        met = last.glass or chains.demand_met(told, demand, words, now)
    else:
        met = enough(changed(told, place="asked", words=words[:-1], terms=None), last, demand, now)
    need(met, "I7", f"{call} ran, and what was decided does not meet what the newest policy demands")


def _needs(book: Book, event: ev.CallNeeds, done: Done) -> Book:
    told = book.calls[event.call]
    need(told.place == "started", "I6", f"{event.call} asked its question while it was {told.place}")
    if event.wants == "approval":
        unsure, told = told.doubted and not told.repeats, chains.from_first(told)
        return book.put(event.call, _asked(told, done.now, "asked", acted=unsure, truly=unsure, free=unsure))
    return book.put(event.call, _asked(told, done.now, "question", elsewhere=event.wants == "result"))


def _finished(book: Book, event: ev.CallFinished, done: Done) -> Book:
    told = book.calls[event.call]
    need(told.results == 0, "I2", f"{event.call} has two results")
    fits = told.place in ("started", "dead") or (told.place == "ready" and event.failed)
    need(fits, "I6", f"{event.call} got a result while it was {told.place}")
    forgotten = told.place == "ready" and told.acted and told.let != "answer"
    need(not forgotten, "I2", f"{event.call} got a result as if it had never started")
    if event.failed and told.place == "started":
        book = _trouble(book, event.call, "failed", done.now)
    return book.put(event.call, changed(told, place="done", results=1))


def _lost(book: Book, event: ev.CallLost, done: Done) -> Book:
    told = book.calls[event.call]
    before = told.place == "asked" and told.acted  # an earlier start of it is still unknown
    need(before or told.place in ("started", "ready"), "I2", f"{event.call} was lost while it was {told.place}")
    if event.again and told.along:
        need(done.refused, "I2", f"{event.call} is to start again by itself, and its provider may have run it")
        before = told.doubted  # an earlier question got no reply
        return book.put(event.call, changed(told, place="ready", acted=before, truly=before, free=before))
    if event.again:
        need(told.repeats, "I2", f"{event.call} is to start again by itself, and its tool cannot be repeated")
        return book.put(event.call, changed(told, place="ready"))
    let = told.let if told.place == "started" else ""
    told = chains.from_first(told)
    return book.put(event.call, _asked(told, done.now, "doubt", doubted=True, free=False, let=let))


def _given(book: Book, event: ev.GrantGiven, done: Done) -> Book:
    word = done.word
    by = None if event.grant.decider is None else event.grant.decider.id
    need(word is not None and done.gives and word.who == by, "I1", f"a standing decision of {by} is on record, alone")
    assert word is not None
    told = book.calls[word.call]
    held = Standing(word.who, done.gives, told.tool, told.terms, done.uses, done.until, done.where)
    return book.grant(event.grant.id, replace(held, sampled=done.sampled))


def _used(book: Book, event: ev.GrantUsed, done: Done) -> Book:
    held, told = book.grants.get(event.grant), book.calls[event.call]
    need(held is not None, "I1", f"{event.call} was decided by a standing decision that there is not any more")
    assert held is not None
    need(held.uses is None or held.used < held.uses, "I1", f"a standing decision was used once too often: {event.call}")
    need(held.until is None or done.now < held.until, "I1", f"{event.call} used a standing decision that had expired")
    fits = not held.where or held.where == told.args
    need(fits, "I1", f"{event.call} used a standing decision about other arguments")
    need(held.tool == told.tool, "I1", f"{event.call} used a standing decision about another tool")
    if held.verdict == "approve" and told.terms is not None:
        one = may(told.terms, held.giver) and told.terms.quorum == 1 and not told.terms.confirm
        one = one and told.terms.then is None and not told.met
        need(
            one, "I1", f"{event.call} was let run by a standing decision of {held.giver}, who may not let it run alone"
        )
        need(told.terms.min_look is None, "I1", f"{event.call} takes a look, and a standing decision let it run")
    book = book.put(event.call, changed(told, giver=held.giver))
    return book.grant(event.grant, replace(held, used=held.used + 1))


def _revoked(book: Book, event: ev.GrantRevoked, done: Done) -> Book:
    held = book.grants[event.grant]
    who = None if event.decider is None else event.decider.id
    stranger = held.verdict == "reject" and (who is None or not may(held.terms, who))
    need(not stranger, "I1", f"a standing rejection was revoked by {who}, who may not decide what it is about")
    return book.grant(event.grant, None)


def _looked(book: Book, event: ev.CallLooked, done: Done) -> Book:
    told = book.calls[event.call]
    looks = {**dict(told.looks)}
    looks.setdefault(event.decider.id, done.now)
    return book.put(event.call, changed(told, looks=tuple(sorted(looks.items()))))


def _restored(book: Book, event: ev.RunRestored, done: Done) -> Book:
    for name, told in book.calls.items():
        need(told.place not in ("ready", "started"), "I2", f"after a restore {name} is {told.place}, and may have run")
        if told.place in WAITS:
            asking = told.asking + bool(told.words)
            book = book.put(name, changed(told, words=(), cleared=(), let="", asking=asking))
    for name, held in book.grants.items():
        if held.verdict == "approve":
            book = book.grant(name, None)
    return replace(book, failed=True)


def _review_asked(book: Book, event: ev.ReviewAsked, done: Done) -> Book:
    told, before = book.calls[event.call], book.reviews.get(event.call)
    by = (told.giver,) if told.let in ("grant", "granted") else tuple(word.who for word in told.words[-1:])
    number = 1 if before is None else before.number + 1
    return replace(book, reviews={**book.reviews, event.call: Review(number, by, told.terms)})


def _review_given(book: Book, event: ev.ReviewGiven, done: Done) -> Book:
    asked, who = book.reviews.get(event.call), event.decider.id
    need(asked is not None, "I1", f"{event.call} was reviewed, and nobody was asked to")
    assert asked is not None
    facts, principals = FACTS[who], {FACTS[each].principal for each in asked.deciders}
    need(facts.principal not in principals, "I1", f"{who} reviewed what ran on their own word")
    need(facts.known and not facts.requester, "I1", f"{who} may not review it")
    role = None if asked.terms is None else asked.terms.role
    need(role is None or role in facts.roles, "I1", f"{who}, who may not decide the call, reviewed it")
    need(not asked.given, "I3", f"{event.call} was reviewed twice")
    need(done.review == asked.number, "I4", f"{who}'s review was of an earlier start of {event.call}")
    return replace(book, reviews={**book.reviews, event.call: replace(asked, given=who)})


def _marked(book: Book, event: ev.CallMarked, done: Done) -> Book:
    told, who = book.calls[event.call], event.decider.id
    need(told.place in WAITS and may(told.terms, who), "I1", f"{who} marked a request that they may not decide")
    return book


def _taken_back(book: Book, event: ev.ApprovalWithdrawn, done: Done) -> Book:
    told, who = book.calls[event.call], event.decider.id
    need(not done.rejects, "I1", f"{who} withdrew a rejection, and the approval that came first was taken back")
    own = who == told.giver or who in {word.who for word in (*told.words, *told.cleared)}
    need(own or may(told.terms, who), "I1", f"{who} took back an approval that they may not give")
    return book


def _began(book: Book, event: ev.FrameOpened, done: Done) -> Book:
    need(book.queued and not book.over, "I2", "a run began that was over, or had begun")
    return replace(book, queued=False)


def _frame_closed(book: Book, event: ev.FrameClosed, done: Done) -> Book:
    left = [name for name, told in book.calls.items() if told.place != "done"]
    need(not left, "I6", f"the run ended before {', '.join(left)} had a result")
    return replace(book, over=True)


def _ended(book: Book, event: Any, done: Done) -> Book:
    return replace(book, over=True)


def _failed(book: Book, event: ev.RunFailed, done: Done) -> Book:
    return replace(book, failed=True)


def _resumed(book: Book, event: ev.RunResumed, done: Done) -> Book:
    return replace(book, failed=False)


def _same(book: Book, event: Any, done: Done) -> Book:
    return book


_HEARS: dict[type[Any], Callable[[Book, Any, Done], Book]] = {
    **dict.fromkeys((ev.RunStarted, ev.ExpiryNear), _same),
    ev.ApprovalWithdrawn: _taken_back,
    **dict.fromkeys((ev.ToolsJudged, ev.InputAdded, ev.GuardrailReported), _same),
    ev.RunFailed: _failed, ev.RunResumed: _resumed,
    **dict.fromkeys((ev.RunCancelled, ev.DrillEnded), _ended),
    ev.ReplyRecorded: _replied, ev.CallScreened: _screened, ev.VoteCast: _voted, ev.CallDecided: _decided,
    ev.CallAskedAgain: _asked_again, ev.CallVoided: _voided, ev.CallStarted: _started, ev.CallNeeds: _needs,
    ev.CallFinished: _finished, ev.CallLost: _lost, ev.GrantGiven: _given, ev.GrantUsed: _used,
    ev.GrantRevoked: _revoked, ev.CallLooked: _looked, ev.RunRestored: _restored, ev.ReviewAsked: _review_asked,
    ev.ReviewGiven: _review_given, ev.FrameClosed: _frame_closed, ev.CallMarked: _marked, ev.FrameOpened: _began,
    ev.QuotaReturned: _told_of, ev.VoteWithdrawn: _vote_withdrawn,
}  # fmt: skip
