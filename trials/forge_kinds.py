"""What somebody writes into a store who may write there and has no key: events that never were, and other rows.

They know the format, the salt of every run and all that was ever sealed. They make seals of a key of their own, take
those that are there, or write none.
"""

from __future__ import annotations

import random
from typing import Any

import msgspec
from msgspec.structs import replace

from keyturn.core import events as ev
from keyturn.core.codec import Log, encode
from keyturn.core.people import Decider
from keyturn.core.run import call_digest
from keyturn.core.seal import Chain, Ring, body_of
from keyturn.journal import statements as say
from keyturn.journal.rows import GrantRow, RequestRow, RunRow
from keyturn.journal.sealing import seal_row

from .rot_kinds import Alteration, Victim

THEIRS = Ring([b"a key of somebody else's own making"])
MALLORY = Decider("mallory", roles=("ops",), strength="signed")
FORGED: dict[str, Alteration] = {}


def forged(name: str) -> Any:
    """Put a forgery among those of a store."""

    def add(alteration: Alteration) -> Alteration:
        FORGED[name] = alteration
        return alteration

    return add


def _sealed(dice: random.Random, run: str, before: list[bytes], bodies: list[bytes]) -> list[bytes]:
    """Lines of these bodies after those that are there, sealed as well as somebody without the key can."""
    way = dice.choice(("another key", "a seal that is there", "the last one's", "none", "the right key's name"))
    seals = [line.partition(b"\t")[2] for line in before] or [b""]
    if way == "another key":
        chain = Chain(lambda: THEIRS, "default", run, seals[-1], len(before))
        lines = list[bytes]()
        for body in bodies:
            lines.append(chain.seal(body))
            chain.kept(lines[-1])
        return lines
    if way == "none":
        return bodies
    if way == "the right key's name":
        name = seals[-1].partition(b".")[0]
        mac = THEIRS.mac("line", b"".join(bodies)).partition(".")[2].encode()
        return [body + b"\t" + name + b"." + mac for body in bodies]
    return [body + b"\t" + (dice.choice(seals) if way == "a seal that is there" else seals[-1]) for body in bodies]


def _log(victim: Victim, run: str) -> tuple[Log, list[bytes]]:
    lines = victim.lines(run)
    return Log.read([body_of(line) for line in lines]), lines


def _invented(log: Log, dice: random.Random) -> list[ev.AnyEvent]:
    """Events that would let something run, if anybody believed them."""
    run = log.run
    calls = list(run.calls.values())
    if not calls:
        return [ev.RunFailed("X")]
    call = dice.choice(calls)
    shown = call_digest(run, call)
    word = ev.Decision(call.id, dice.choice(("approve", "retry", "reject")), shown, run.now, decider=MALLORY)
    grant = ev.GrantTerms("f" * 32, call.agent, call.proposal.tool, decider=MALLORY)
    return dice.choice(
        (
            [ev.CallDecided(word)],
            [ev.CallDecided(replace(word, verdict="edit", args='{"n":999}'))],
            [ev.CallDecided(word), ev.CallScreened(call.id, "allow"), ev.CallStarted(call.id)],
            [ev.VoteCast(replace(word, decider=Decider("bob", roles=("ops",), strength="authenticated")))],
            [ev.CallScreened(call.id, "allow", by="policy")],
            [ev.GrantGiven(grant)],
            [ev.CallVoided(call.id, replace(call.proposal, gate="allow", args='{"n":999}'), "")],
            [ev.CallLost(call.id, "", again=True)],
            [ev.RunResumed(unlimited=True)],
            [ev.ReplyRecorded("r", [_raw()], [ev.Proposal("function", "free", "x", 0, tool=call.proposal.tool)])],
        )
    )


def _raw() -> dict[str, Any]:
    return {"type": "function_call", "call_id": "x", "name": "pay", "arguments": '{"n":999}'}


@forged("lines: events that never were, at the end")
def _appended(victim: Victim, dice: random.Random) -> str:
    run = dice.choice(victim.runs)
    log, lines = _log(victim, run)
    events = _invented(log, dice)
    made = _sealed(dice, run, lines, [encode(ev.Step(log.run.now, events))])
    for place, line in enumerate(made, len(lines)):
        victim.insert(run, place, line)
    victim.head(run, len(lines) + len(made))
    victim.execute("UPDATE runs SET due = 0 WHERE tenant = 'default' AND run = ?", run)
    return f"{type(events[0]).__name__} in {run[:6]}"


@forged("lines: one altered, and all after it sealed anew")
def _altered(victim: Victim, dice: random.Random) -> str:
    run = dice.choice(victim.runs)
    _, lines = _log(victim, run)
    place = dice.randrange(len(lines))
    bodies = [body_of(line) for line in lines[place:]]
    told = msgspec.json.encode(_strengthened(msgspec.json.decode(bodies[0]), dice))
    made = _sealed(dice, run, lines[:place], [told, *bodies[1:]])
    for at, line in enumerate(made, place):
        victim.put(run, at, line)
    return f"line {place} of {run[:6]}"


def _strengthened(value: Any, dice: random.Random) -> Any:
    """The same line with other values in it that would suit somebody."""
    wanted = {
        "verdict": "approve",
        "gate": "allow",
        "strength": "signed",
        "roles": ["ops"],
        "uses": 1_000,
        "where": None,
        "quorum": 1,
        "action": "allow",
        "args": '{"n":999}',
        "arguments": '{"n":999}',
        "expires": "1000h",
        "role": None,
        "requester": None,
        "recover": "retry",
    }
    if isinstance(value, dict):
        return {name: wanted[name] if name in wanted else _strengthened(part, dice) for name, part in value.items()}
    return [_strengthened(part, dice) for part in value] if isinstance(value, list) else value


@forged("lines: a whole log with a key of their own")
def _whole(victim: Victim, dice: random.Random) -> str:
    run = dice.choice(victim.runs)
    log, lines = _log(victim, run)
    bodies = [body_of(line) for line in lines]
    if dice.random() < 0.7:
        bodies.append(encode(ev.Step(log.run.now, _invented(log, dice))))
    made = _sealed(dice, run, [], bodies)
    victim.drop(run, 0)
    for place, line in enumerate(made):
        victim.insert(run, place, line)
    victim.head(run, len(made))
    return f"{len(made)} lines of {run[:6]}"


@forged("lines: an unknown version, field or event")
def _unknown(victim: Victim, dice: random.Random) -> str:
    run = dice.choice(victim.runs)
    _, lines = _log(victim, run)
    place = dice.randrange(len(lines))
    told: dict[str, Any] = msgspec.json.decode(body_of(lines[place]))
    told |= dice.choice(({"v": 1}, {"v": 99}, {"extra": True}, {"events": [{"e": "AllAllowed"}]}))
    made = _sealed(dice, run, lines[:place], [msgspec.json.encode(told)])
    victim.put(run, place, made[0])
    return f"line {place} of {run[:6]}"


def _rows(table: str, kind: Any, columns: str, wanted: dict[str, Any]) -> Alteration:
    names = columns.split(", ")
    fields = kind.__struct_fields__

    def alter(victim: Victim, dice: random.Random) -> str:
        key = {"requests": "id", "grants": "id", "runs": "run"}[table]
        found = victim.execute(f"SELECT {columns}, seal FROM {table} WHERE tenant = 'default' ORDER BY {key}")
        *values, seal = dice.choice(found)
        at = dict(zip(names, values, strict=True))
        victim.touched.add(at["run"])
        mine = at | {name: wanted[name] for name in dice.sample(list(wanted), dice.randint(1, len(wanted)))}
        row = kind(**dict(zip(fields, mine.values(), strict=False)))
        seals = [seal_row(THEIRS, "default", row), dice.choice(found)[-1], seal, "", "x.y", seal[:7] + "A" * 32]
        sets = ", ".join(f"{name} = ?" for name in [*names, "seal"])
        where = f"tenant = 'default' AND {key} = ?"
        victim.execute(f"UPDATE {table} SET {sets} WHERE {where}", *mine.values(), dice.choice(seals), at[key])
        return f"{table} {at[key][:6]}"

    return alter


FORGED["rows: a request"] = _rows(
    "requests",
    RequestRow,
    say.REQUEST_COLUMNS,
    {
        "body": '{"params":{"n":1},"revision":1,"verdicts":["approve"]}',
        "state": "open",
        "tool": "free",
        "digest": "0" * 64,
        "expires_at": None,
    },
)
FORGED["rows: a grant"] = _rows(
    "grants",
    GrantRow,
    say.GRANT_COLUMNS,
    {"body": '{"id":"g","agent":"grants","tool":"t"}', "uses": 0, "revoked": 0, "tool": "wire"},
)
FORGED["rows: a run"] = _rows(
    "runs", RunRow, say.RUN_COLUMNS, {"status": "finished", "agent": "pays", "waiting": 0, "turns": 99}
)
