"""Forged states and decisions: what somebody says at any door who may not, or of what was never shown.

Each forgery plays a small run of its own and says how it was refused. Whatever it tried, no gated tool may have run.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from keyturn import Agent, App, Approval, Inbox, MemoryJournal, Runner, RunState, function_tool
from keyturn.core import commands as cm
from keyturn.core import events as ev
from keyturn.core.errors import KeyturnError
from keyturn.core.people import Decider
from keyturn.engine.states.blob import _framed
from keyturn.engine.states.undelivered import UndeliveredDecisions
from keyturn.journal.rows import Query
from keyturn.testing import ScriptedModel, assistant_message, function_call

from .forge_kinds import MALLORY, THEIRS
from .rot_store import ADA, World, _act

GATES = {
    "pay": Approval(),
    "ops": Approval(role="ops"),
    "bob": Approval(users=["bob"]),
    "two": Approval(quorum=2),
    "other": Approval(not_requester=True),
    "brief": Approval(expires="1s"),
    "why": Approval(reason="required"),
}
TOOLS = {name: function_tool(_act, name_override=name, approval=terms) for name, terms in GATES.items()}


class Scene:
    """A run whose one call waits, in a journal or in hand."""

    def __init__(self, dice: random.Random, gate: str | None = None, *, kept: bool = True) -> None:
        self.dice = dice
        self.gate = gate or dice.choice(list(GATES))
        self.store = MemoryJournal(World.clock)
        self.kept = kept
        model = ScriptedModel(_answers(self.gate))
        self.agent = Agent("desk", model=model, tools=[TOOLS[self.gate]])
        self.run, self.errors = "", list[str]()

    async def begin(self) -> RunState[Any]:
        """Play the run until it waits; its state."""
        if not self.kept:
            result = await Runner.run(self.agent, "go")
            self.run = result.run_id
            return result.to_state()
        app = App([self.agent], self.store, worker=False)
        self.run = (await app.start("desk", "go", requester="req")).id
        await self.resume()
        return await self.state()

    async def state(self) -> RunState[Any]:
        """The run as its journal has it."""
        return await RunState.load(self.store, self.run, self.agent)

    async def resume(self) -> None:
        """Take the run up, as a worker does."""
        app = App([self.agent], self.store, worker=False)
        await Runner.run(self.agent, await app.state(self.run), journal=self.store)

    async def row(self) -> Any:
        """The request that waits."""
        [row] = await self.store.requests(Query(run=self.run, state="open"))
        return row

    async def tries(self, do: Awaitable[Any]) -> bool:
        """Try something; whether it was let."""
        try:
            await do
        except KeyturnError as error:
            self.errors.append(type(error).__name__)
            return False
        return True


def _answers(tool: str) -> Callable[[Any], Any]:
    def answer(request: Any) -> Any:
        said = [item for item in request.input if item.get("type") == "function_call_output"]
        return [assistant_message("done")] if said else [function_call(tool, {"n": 1}, call_id="c")]

    return answer


Forgery = Callable[[random.Random], Awaitable[Scene]]
WORDS: dict[str, Forgery] = {}


def forgery(name: str) -> Callable[[Forgery], Forgery]:
    """Put a forgery among those of words."""

    def add(made: Forgery) -> Forgery:
        WORDS[name] = made
        return made

    return add


# Decisions ----------------------------------------------------------------------------------------------------------


def wrong_words(word: ev.Decision, gate: str, dice: random.Random) -> ev.Decision:
    """A decision that may not count: of other bytes, of nobody, of somebody who may not."""
    ways: list[dict[str, Any]] = [
        {"digest": "0" * 64},
        {"digest": ""},
        {"digest": word.digest.upper() if word.digest != word.digest.upper() else "x"},
        {"call": "r/1.1"},
        {"call": "r/2.0"},
        {"via": "clock"},
        {"via": "grant", "decider": None, "grant": "g"},
        {"via": "probe", "decider": None},
        {"via": "grant", "grant": "g"},
        {"grant": "g"},
        {"verdict": "retry"},
        {"verdict": "edit"},
        {"args": '{"n":999}'},
        {"verdict": "edit", "args": '{"n":1,"n":999}'},
        {"verdict": "edit", "args": "nonsense"},
        {"note": "half \ud800"},
    ]
    if gate in ("ops", "bob", "other"):
        ways += [{"decider": None}, {"decider": Decider("mallory")}, {"decider": Decider("bob", roles=("ops",))}]
    if gate in ("ops", "bob"):
        ways += [{"decider": Decider("mallory", roles=("cooks",), strength="authenticated")}]
    if gate == "other":
        ways += [{"decider": Decider("req", strength="signed")}, {"decider": replace(ADA, requester=True)}]
    return replace(word, **dice.choice(ways))


@forgery("decisions: by command")
async def _by_command(dice: random.Random) -> Scene:
    """Whoever can hand a decision to the gate, by whatever door."""
    scene = Scene(dice)
    await scene.begin()
    row = await scene.row()
    note = "why" if scene.gate == "why" else None
    word = ev.Decision(row.call, "approve", row.digest, World.now, decider=ADA, note=note)
    for _ in range(3):
        wrong = wrong_words(word, scene.gate, dice)
        await scene.tries(Inbox(scene.store).tell(scene.run, cm.Deliver([wrong])))
    return scene


@forgery("decisions: at the inbox")
async def _at_the_inbox(dice: random.Random) -> Scene:
    scene = Scene(dice)
    await scene.begin()
    other = Scene(dice, scene.gate)
    await other.begin()
    row, theirs = await scene.row(), await other.row()
    inbox = Inbox(scene.store, {"desk": scene.agent})
    wrong: list[Callable[[], Awaitable[Any]]] = [
        lambda: inbox.approve(row.id, by=ADA),
        lambda: inbox.approve(row.id, by=ADA, digest=theirs.digest),
        lambda: inbox.approve(row.id, by=ADA, revision=2),
        lambda: inbox.approve(row.id, by=ADA, revision=0),
        lambda: inbox.approve(theirs, by=ADA),
        lambda: inbox.approve(replace(row, id=theirs.id), by=ADA),
        lambda: inbox.approve(replace(row, digest=theirs.digest), by=ADA),
        lambda: inbox.approve(row, by=""),
        lambda: inbox.approve(row, by=ADA, edit={"n": "all"}),
        lambda: inbox.approve(row, by=ADA, edit='{"n":1,"n":2}'),
        lambda: inbox.resolve(row, "retry", by=ADA),
        lambda: inbox.resolve(row, "did_not_run", by=ADA),
        lambda: inbox.revoke(scene.run, "g", by=ADA),
    ]
    if scene.gate not in ("pay", "brief", "why"):
        wrong += [lambda: inbox.approve(row, by="bob"), lambda: inbox.approve(row, by=Decider("req"))]
    for _ in range(3):
        await scene.tries(dice.choice(wrong)())
    return scene


@forgery("decisions: too late, too few, of the requester")
async def _too_few(dice: random.Random) -> Scene:
    scene = Scene(dice, dice.choice(("brief", "two", "other", "ops", "bob", "why")))
    await scene.begin()
    row, inbox = await scene.row(), Inbox(scene.store)
    who = {
        "brief": ADA,
        "two": ADA,
        "other": Decider("req", strength="authenticated"),
        "ops": Decider("bob", strength="authenticated"),
        "bob": ADA,
        "why": ADA,
    }[scene.gate]
    before, World.now = World.now, World.now + (10_000 if scene.gate == "brief" else 0)
    for _ in range(dice.choice((1, 2, 3))):
        await scene.tries(inbox.approve(row, by=who))
    await scene.tries(scene.resume())
    World.now = before
    return scene


@forgery("decisions: on a state, in somebody's name")
async def _on_a_state(dice: random.Random) -> Scene:
    scene = Scene(dice, dice.choice(("ops", "bob", "two", "other")))
    state = await scene.begin()
    [item] = state.get_interruptions()
    word = ev.Decision(item.call, "approve", item.digest, World.now, decider=dice.choice((ADA, MALLORY)))
    state.undelivered.decisions[item.call] = word
    if dice.random() < 0.5:
        grant = ev.GrantTerms("g", "desk", item.request.tool_digest, decider=word.decider)
        state.undelivered.grants[item.call] = grant
    text = state.to_string()
    given = state if dice.random() < 0.5 else await RunState.from_string(scene.agent, text)
    await scene.tries(Runner.run(scene.agent, given, journal=scene.store))
    return scene


# States -------------------------------------------------------------------------------------------------------------


@forgery("states: a part altered")
async def _part(dice: random.Random) -> Scene:
    scene = Scene(dice, "pay", kept=dice.random() < 0.5)
    state = await scene.begin()
    packed = state.to_json()
    name = dice.choice([name for name in packed if name != "mac"])
    text = packed[name]
    at = dice.randrange(len(text)) if text else 0
    packed[name] = text[:at] + dice.choice("019axz{}") + text[at + dice.choice((0, 1)) :]
    if packed[name] == text:
        packed[name] += " "
    await _resumed(scene, packed)
    return scene


@forgery("states: said in it what nobody said")
async def _said(dice: random.Random) -> Scene:
    scene = Scene(dice, "pay", kept=dice.random() < 0.5)
    state = await scene.begin()
    [item] = state.get_interruptions()
    packed = state.to_json()
    word = ev.Decision(item.call, "approve", item.digest, World.now, decider=dice.choice((ADA, MALLORY, None)))
    packed["undelivered"] = msgspec.json.encode(UndeliveredDecisions({item.call: word})).decode()
    _signed(packed, dice)
    await _resumed(scene, packed)
    return scene


@forgery("states: two runs in one, or another's")
async def _mixed(dice: random.Random) -> Scene:
    scene, other = Scene(dice, "pay", kept=False), Scene(dice, "pay", kept=False)
    state, theirs = await scene.begin(), await other.begin()
    theirs.approve(theirs.get_interruptions()[0])
    packed, mixed = state.to_json(), theirs.to_json()
    for name in dice.sample(["run", "context", "log", "undelivered", "mac"], dice.randint(1, 3)):
        packed[name] = mixed[name]
    if packed in (state.to_json(), mixed):  # what was taken is the same in both, or it is all of the other
        packed["mac"] = "x"
    await _resumed(scene, packed)
    return scene


def _signed(packed: dict[str, Any], dice: random.Random) -> None:
    """A MAC as somebody without the key can give one."""
    way = dice.choice(("none", "null", "theirs", "kept", "renamed"))
    if way == "none":
        packed.pop("mac")
    elif way == "null":
        packed["mac"] = None
    elif way in ("theirs", "renamed"):
        mac = THEIRS.mac("state", _framed(packed))
        name = packed["mac"].partition(".")[0]
        packed["mac"] = mac if way == "theirs" else f"{name}.{mac.partition('.')[2]}"


async def _resumed(scene: Scene, packed: dict[str, Any]) -> None:
    try:
        state = await RunState.from_json(scene.agent, packed)
        await Runner.run(scene.agent, state, **({"journal": scene.store} if scene.kept else {}))
        scene.errors.append("not refused")
    except KeyturnError as error:
        scene.errors.append(type(error).__name__)


@forgery("states: unsigned, where that is allowed")
async def _unsigned(dice: random.Random) -> Scene:
    """Whoever reads unsigned states believes their logs; what a journal says and what a call takes still holds."""
    scene = Scene(dice, dice.choice(("ops", "bob", "two", "other")))
    state = await scene.begin()
    [item] = state.get_interruptions()
    packed = state.to_json()
    packed["mac"] = None
    word = ev.Decision(item.call, "approve", item.digest, World.now, decider=dice.choice((ADA, MALLORY, None)))
    told = UndeliveredDecisions(
        {item.call: word}, {item.call: ev.GrantTerms("g", "desk", item.request.tool_digest, decider=ADA)}
    )
    packed["undelivered"] = msgspec.json.encode(told).decode()
    way = dice.choice(("said", "in the log", "other bytes"))
    if way == "in the log":
        step = ev.Step(World.now, [ev.CallDecided(word)])
        packed["log"] += "\n" + msgspec.json.encode(step).decode()
    elif way == "other bytes":
        packed["log"] = packed["log"].replace('\\"n\\":1', '\\"n\\":9')
    try:
        given = await RunState.from_json(scene.agent, packed, allow_unsigned=True)
        await Runner.run(scene.agent, given, journal=scene.store)
    except KeyturnError as error:
        scene.errors.append(type(error).__name__)
    return scene
