"""The mutants of the gate: builds that each break one law, as small as a slip of the hand would be.

Every one must be caught by the battery. A law of the gate without a mutant here is one that nobody knows to be tested.
"""

from __future__ import annotations

from keyturn.core import crossing, decide, evolve, people, request, run, seal, strict
from keyturn.core.errors import StorageError
from keyturn.core.gate import deciding, delivery, expiry, grants, lending, verdicts
from keyturn.core.gate import marks as beside
from keyturn.core.predicates.comparisons import Truth
from keyturn.core.run import call_digest
from keyturn.core.states import MOVES
from keyturn.engine.driving.writer import Writer
from keyturn.engine.effects import before_start, fused_steps, recover, run_tool, screening
from keyturn.engine.run.used_states import UsedStates
from keyturn.engine.states import blob, state, undelivered
from keyturn.engine.views import rows
from keyturn.journal import generation, sealing
from keyturn.journal.memory import MemoryJournal, check_free
from keyturn.journal.sql import Tenant
from keyturn.journal.sql_journal import SQLJournal
from keyturn.journal.writing import Writing
from trials.alteration import Edit, Moves, Mutant, mutant

_DIGEST_FITS = "decision.digest != call_digest(run, call)"
_HELD = "(holder.run, holder.worker, holder.epoch) != (claim.run, claim.worker, claim.epoch)"
_OLD_TOOL = "not is_tool(tool, call.raw, call.proposal.tool)"
_SECOND = {
    ("approved", "reject"): "rejected",
    ("rejected", "approve"): "approved",
    ("approved", "approve"): "approved",
}

BROKEN: list[Mutant] = [
    mutant(
        "digest not compared at the decision",
        "I4 a decision is for exactly the bytes that were shown",
        Edit(deciding.check_decision, _DIGEST_FITS, "False"),
    ),
    mutant(
        "digest not compared at the start",
        "I1 what runs is what was approved",
        Edit(decide._start_call, "not bound_as_decided(run, call)", "False"),
    ),
    mutant(
        "tool not compared at the start",
        "I4 a tool that changed asks again",
        Edit(before_start.before_start, _OLD_TOOL, "False"),
        Edit(run_tool._last_looks, _OLD_TOOL, "False"),
        Edit(run_tool._invoke, _OLD_TOOL, "False"),
    ),
    mutant(
        "digest without the run",
        "I4 a decision of another run is none of this one",
        Edit(call_digest, "bound_words(named, call.id,", "bound_words('', '',"),
        Edit(state.RunState._pending, "(shown.run, shown.digest) != (run_id, digest)", "shown.digest != digest"),
    ),
    mutant(
        "digest without the arguments",
        "I4 a decision is bound to the arguments",
        Edit(call_digest, "canonical_of(text),", "'{}',"),
    ),
    mutant(
        "start not recorded before the effect",
        "I2 intent before effect",
        Edit(
            Writer._append_there,
            "if self.hold is None:\n"
            "                await journal.append(log.run.id, len(log), [line], self.claim, rows)\n"
            "            else:\n"
            "                await self.hold.append(log.run, len(log), line, rows)",
            "late = self.__dict__.pop('late', [])\n"
            "            if any(isinstance(event, ev.CallStarted) for event in events):\n"
            "                self.late = [*late, line]\n"
            "            elif self.claim is None and self.hold is not None:\n"
            "                await self.hold.append(log.run, len(log), line, rows)\n"
            "            else:\n"
            "                at = len(log) - len(late)\n"
            "                await journal.append(log.run.id, at, [*late, line], self.claim, rows)",
        ),
    ),
    mutant(
        "claim not looked at in an append",
        "I2 only the holder moves a run (memory)",
        Edit(MemoryJournal.append, "self._log(run) if claim is None else self._held(run, claim)", "self._log(run)"),
    ),
    mutant(
        "claim not looked at in an append of SQL",
        "I2 only the holder moves a run (SQL)",
        Edit(Tenant.append, "if claim is None else self._held(db, run, claim)", ""),
    ),
    mutant(
        "epoch ignored",
        "I2 a claim that was taken over is over (memory)",
        Edit(MemoryJournal._held, _HELD, "(holder.run, holder.worker) != (claim.run, claim.worker)"),
    ),
    mutant(
        "epoch ignored in SQL",
        "I2 a claim that was taken over is over (SQL)",
        Edit(
            Tenant._held,
            "(claim.run, claim.worker, claim.epoch) != (run, at.holder, at.epoch)",
            "claim.worker != at.holder",
        ),
    ),
    mutant(
        "a run is held by two",
        "I2 one worker at a time",
        Edit(check_free, "log.held(now)", "False"),
    ),
    mutant(
        "single use not enforced",
        "I2 a state is resumed once",
        Edit(UsedStates.take, "position < self._positions.get(key, -1)", "False"),
    ),
    mutant(
        "second decision wins",
        "I3 the first decision stands",
        Edit(deciding.check_decision, "call is None or call.state not in WAITING", "call is None"),
        Edit(deciding.check_decision, "OPENING[call.state]", "OPENING.get(call.state, OPENING['asked'])"),
        Moves(MOVES, _SECOND),
    ),
    mutant(
        "two words in one delivery",
        "I3 one delivery decides a call once",
        Edit(
            delivery._delivered,
            "if not same_decision(first.setdefault(decision.call, decision), decision):",
            "if False:",
        ),
    ),
    mutant(
        "expired approval accepted",
        "I1 a decision in time",
        Edit(deciding.check_decision, 'call.state == "asked" and ran_out(run, call)', "False"),
    ),
    mutant(
        "stale approval executed",
        "I1 an approval is executed in its time",
        Edit(expiry.stale, "at is not None and", "False and"),
    ),
    mutant(
        "edit not validated",
        "I4 what a person writes is validated as the model's words are",
        Edit(
            undelivered.edited,
            "as_typed(item.tool, unredacted(edit, item.params, true)).text",
            "msgspec.json.encode(edit).decode()",
        ),
    ),
    mutant(
        "grant use not counted",
        "I1 a standing decision is used as often as it says",
        Edit(verdicts.screened, "        yield ev.GrantUsed(grant.id, call.id)\n", ""),
    ),
    mutant(
        "grant covers every tool",
        "I1 a standing decision covers one tool of one agent",
        Edit(lending.is_about, "(made.tool == grant.tool or", "(True or"),
    ),
    mutant(
        "grant ignores its predicate",
        "I1 a standing decision covers the arguments that it names",
        Edit(grants.covers, "means(grant.where, call.params)", "True"),
    ),
    mutant(
        "one of two is enough",
        "I1 a quorum",
        Edit(delivery._decided, "< needed(terms, decision.verdict)", "< 1"),
    ),
    mutant(
        "in doubt, run again",
        "I2 what has effects is not started again by itself",
        Edit(decide._lose_call, 'c.again and call.proposal.recover == "retry"', "c.again"),
    ),
    mutant(
        "a probe that cannot tell says no",
        "I2 a doubt that nobody can settle stays",
        Edit(recover._said, "    if answer is None:\n        return None\n", ""),
        Edit(recover._said, "answer is not False", "bool(answer)"),
    ),
    mutant(
        "result recorded twice",
        "I2 one result for each call",
        Edit(decide._finish_call, "yield ev.CallFinished(", "for _ in range(2): yield ev.CallFinished("),
        Edit(evolve._call_finished, "call = run.calls[event.call]", "call = run.calls.pop(event.call, None)"),
        Edit(
            evolve._call_finished,
            "call.item = event.item",
            "if call is None: return\n    run.calls[call.id] = call\n    call.item = event.item",
        ),
        Moves(MOVES, {("finished", "finish"): "finished"}),
    ),
    mutant(
        "a rejected call runs",
        "I7 a rejection is one",
        Moves(MOVES, {("asked", "reject"): "approved"}),
    ),
    mutant(
        "a denial lets pass",
        "I7 what a policy denies does not run",
        Edit(
            verdicts.screened,
            "action = verdict.action\n",
            "action = verdict.action.replace('deny', 'allow')\n",
        ),
    ),
    mutant(
        "a policy that raises allows",
        "I7 what cannot be asked does not run",
        Edit(screening._asked_of, 'Verdict("ask", f"the policy raised {class_name(error)}", by=_UNTOLD)', "ALLOW"),
    ),
    mutant(
        "a tripwire stops nothing",
        "I7 no tool before the guardrails have reported",
        Edit(decide._start_call, "frame.guarding or frame.tripped is not None", "False"),
    ),
    mutant(
        "a request without its row",
        "I6 what waits can be found",
        Edit(rows.opened_by, "for event in events if isinstance(event, _OPENING)", "for event in events if not event"),
    ),
    mutant(
        "a request stays open",
        "I6 what was decided waits no more",
        Edit(rows._closed, "call = _named(event)", "call = None"),
    ),
    mutant(
        "policy not asked about the decision",
        "I7 a policy that was tightened counts",
        Edit(evolve._call_decided, 'decision.verdict in RUNS or call.state == "needs"', "False"),
    ),
    mutant(
        "a full disk is no reason",
        "I7 what could not be recorded is not done",
        Edit(
            Writer._append_there,
            "        except LostRace:",
            "        except StorageError:\n"
            "            self._appending = None\n"
            "            self._appended(made, line)\n"
            "            return\n"
            "        except LostRace:",
            {"StorageError": StorageError},
        ),
    ),
    mutant(
        "lost race ignored",
        "I5 what was acknowledged stays",
        Edit(
            MemoryJournal.append,
            'raise LostRace(f"expected {expected} lines, the log has {len(log.lines)}")',
            "del log.lines[expected:]",
        ),
    ),
    mutant(
        "rows without their transaction",
        "I8 a row and its line, or neither",
        Edit(Writing.do, "*lines, changes, self._lease", "*lines, None, self._lease"),
        Edit(
            SQLJournal.append,
            "await self._writer.ask(append, writing.done, run=(self.tenant, run))",
            "await self._writer.ask(append, writing.done)\n"
            "    if changes is not None:\n"
            "        await self._writer.ask(lambda db: self._mine._change(db, changes, self.keys()))",
        ),
    ),
    mutant(
        "rows of a lost race",
        "I8 a row and its line, or neither (memory)",
        Edit(
            MemoryJournal.append,
            "        if expected != len(log.lines):",
            "        if changes is not None:\n"
            "            self._mine.rows.apply(changes)\n"
            "        if expected != len(log.lines):",
        ),
    ),
    mutant(
        "chain not linked",
        "I8 each line stands on all before it",
        Edit(
            seal.Chain._covered,
            "return self._origin + digest + self.last",
            "return self._origin + digest",
        ),
    ),
    mutant(
        "a key may occur twice",
        "I4 one text has one value",
        Edit(strict._object, "len(made) != len(pairs)", "False"),
    ),
    mutant(
        "a state without its MAC",
        "I4 a saved state is believed only if it is ours",
        Edit(blob.unpack, 'not (allow_unsigned and data.get("mac") is None)', "False"),
    ),
    mutant(
        "a role is ignored",
        "I1 who may decide: a role",
        Edit(people._named, "terms.role is not None and terms.role in who.roles", "terms.role is not None"),
    ),
    mutant(
        "users are ignored",
        "I1 who may decide: people by their ids",
        Edit(people._named, "who.is_named(terms.users)", "bool(terms.users)"),
    ),
    mutant(
        "the requester decides",
        "I1 who may decide: nobody for themselves",
        Edit(people._not_among, "terms.not_requester and (who.requester or", "False and (who.requester or"),
    ),
    mutant(
        "a name is enough",
        "I1 who may decide: people who are known",
        Edit(people.barred, 'who is None or who.strength == "claimed"', "who is None"),
    ),
    mutant(
        "one person is two",
        "I1 a quorum is of people and not of votes",
        Edit(delivery._decided, "voices(words.values())", "(len(votes) + 1)"),
    ),
    mutant(
        "a forged via",
        "I1 nobody decides in the name of what is no person",
        Edit(
            deciding._check_decider,
            "if decision.via in NO_PERSON:",
            "if decision.via in NO_PERSON:\n        return\n    if False:",
        ),
        Edit(deciding._check_decider, "decision.grant is not None or", "False and"),
    ),
    mutant(
        "a probe speaks for every tool",
        "I1 nobody decides in the name of what is no person",
        Edit(deciding._check_decider, 'call.state == "in_doubt" and call.proposal.recover == "probe"', "True"),
    ),
    mutant(
        "a grant covers what its giver could not decide",
        "I1 a standing decision is worth what its giver's word is worth",
        Edit(grants.covers, "all(barred(", "False and all(barred("),
    ),
    mutant(
        "anybody confirms",
        "I1 who may decide: the person for whom the run acts confirms",
        Edit(
            people._unconfirming, "who.requester or (requester and who.id == requester and not who.acting_for)", "True"
        ),
    ),
    mutant(
        "others need no confirmation",
        "I1 others decide after the requester confirmed",
        Edit(delivery._decided, "not confirmed(run, call) and", "False and"),
    ),
    mutant(
        "anybody breaks the glass",
        "I1 the glass is broken by whom the terms name",
        Edit(
            deciding._check_decider,
            "why = barred(terms, decision.decider, run.requester, decision.proof)",
            'why = "" if decision.broke_glass else barred(terms, decision.decider, run.requester, decision.proof)',
        ),
    ),
    mutant(
        "an approval is taken back and stands",
        "I1 what was taken back asks anew",
        Edit(beside._approval_withdrawn, "yield from void(", "yield from () and void("),
    ),
    mutant(
        "anybody takes an approval back",
        "I1 who may take an approval back",
        Edit(beside._approval_withdrawn, "if why:", "if False:"),
    ),
    mutant(
        "a grant in place of a quorum",
        "I1 a standing decision is of one person",
        Edit(grants.covers, "if needed(each, grant.verdict) == 1", ""),
    ),
    mutant(
        "a text says who logged in",
        "I1 nobody has logged in to a state",
        Edit(undelivered._claimed, "None if by is None else Decider(by.id)", "by"),
    ),
    mutant(
        "the asking not compared",
        "I4 a word on one asking is none on the next",
        Edit(call_digest, "basis, call.asks", "basis, 0"),
    ),
    mutant(
        "expiry by the decision's own time",
        "I1 the time that counts is that of the delivery",
        Edit(deciding.check_decision, "ran_out(run, call)", "decision.at > (call.expires_at or decision.at)"),
    ),
    mutant(
        "an edit is unbound",
        "I4 what runs is what the editor wrote",
        Edit(deciding.bound_as_decided, "decision.runs == edit_digest(run, call, call.text, decision.basis)", "True"),
    ),
    mutant(
        "a start does not wait for the policy",
        "I7 every decision is looked at by the newest policy",
        Edit(decide._start_call, "if call.recheck:", "if False:"),
    ),
    mutant(
        "the policy is not asked of a decision",
        "I7 every decision is looked at by the newest policy",
        Edit(screening.screen, "call.recheck and not scope.policies", "call.recheck"),
        Edit(before_start.before_start, "if undecided and", "if False and"),
    ),
    mutant(
        "the policy is not asked where a start goes along",
        "I7 every decision is looked at by the newest policy",
        Edit(fused_steps._passed, "(await drive.enter(call.frame)).policies", "False"),
        Edit(before_start.before_start, "elif not drive.judged_by(call, scope.judges):", "elif False:"),
    ),
    mutant(
        "cannot tell is a no",
        "I7 what nobody can tell is not taken for a no",
        Edit(vars(Truth)["possible"].fget, "self is not Truth.NO", "self is Truth.YES"),
    ),
    mutant(
        "a chain is not verified",
        "I4 a line is believed once it is verified",
        Edit(seal.Chain.open, "if not self._fits(hashlib.sha256(body).digest(), seal):", "if False:"),
    ),
    mutant(
        "a row's seal is not verified",
        "I4 what is shown is what was written",
        Edit(sealing.verified, "keys.fits(_ROW, seal, _covered(tenant, kind, tuple(values)))", "seal"),
    ),
    mutant(
        "secrets are hidden by the live tool",
        "I4 what is secret is a fact of the call",
        Edit(request.request_of, 'redact(_in_order(parse(text or "{}"), tool), made.secrets)', "call.params"),
    ),
    mutant(
        "a state's MAC leaves out what was said",
        "I4 a saved state is believed only if it is ours",
        Edit(blob._framed, "in _FRAMED", "in _FRAMED[:-1]"),
    ),
    mutant(
        "a restored store is not noticed",
        "I2 what a copy lets run may have run",
        Edit(generation.noticed, "if row >= furthest:", "if True:"),
    ),
    mutant(
        "what a copy lets run is run",
        "I2 what a copy lets run may have run",
        Edit(crossing.restored, '*run.groups["run"].values(), ', ""),
    ),
    mutant(
        "an edit passes by the tool's terms",
        "I1 where the policy says nothing the tool does",
        Edit(before_start.asked_otherwise, "own is not None and", "False and"),
    ),
    mutant(
        "what was started is denied",
        "I2 what may have happened is not forgotten",
        Edit(verdicts.unknown, 'call.acted and call.state != "supplied"', "False"),
    ),
    mutant(
        "a probe renews an approval",
        "I1 what lets a call run does so for as long as it says",
        Edit(
            run.allowed_by, 'call.cleared if decision is not None and decision.via == "probe" else decision', "decision"
        ),
    ),
    mutant(
        "a probe speaks after a restore",
        "I2 what a copy lets run may have run",
        Edit(crossing.was_restored, "call.revoked = True", "pass"),
        Edit(evolve._call_lost, 'call.revoked or call.state != "started"', "call.revoked"),
    ),
    mutant(
        "a word survives the copy it was said to",
        "I3 what was said to a copy is said anew",
        Edit(crossing._asked_anew, 'in run.groups["wait"]]', "in []]"),
    ),
]
