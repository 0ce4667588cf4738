"""Mix drills into the inbox: requests that must not be approved, made from templates, of which nothing ever runs.

Who approves one is told so at once. To whoever decides, a drill looks like any other request: its run has the same
events in the same lines, since its call is proposed as those of models are. When it opens within its period, which
template it is made of and what its run is called follow from the journal's key, so that all processes know it, and
nobody else. Its run exists once, so that one is opened in each period, however many processes there are: each looks for
it under every key that it has.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import msgspec

from ..agents.agent import Agent
from ..agents.context import RunContextWrapper
from ..agents.limits import DEFAULT_MAX_TURNS
from ..agents.settings import RunConfig
from ..core import commands as cm
from ..core import events as ev
from ..core.approval import Approval
from ..core.call_ids import ROOT
from ..core.codec import Log
from ..core.decide import step
from ..core.digest import canonical
from ..core.durations import milliseconds
from ..core.errors import StorageError, UserError
from ..core.immutable import immutable
from ..core.items import Item
from ..core.policy import Verdict
from ..core.preview import Preview
from ..core.seal import Keys
from ..core.settable import Sealed
from ..core.usage import Counts
from ..engine.driving.writer import Writer
from ..engine.facts.live_preview import recorded
from ..engine.facts.proposals import propose
from ..engine.run.about import about_run, secrets_of
from ..engine.run.agents import AgentGraph
from ..engine.run.frame_settings import FrameSettings
from ..engine.run.open_run import clock_ms
from ..journal.base import LostRace, Store
from ..journal.rows import Query
from ..support.keys import ring
from ..support.user_code import answer_of
from ..tools.base import InvalidArguments, Prepared, Tool, plain_preview, shown_preview, tool_spec

log = logging.getLogger("keyturn.drills")

_MOST = 100  # how many periods a drill may wait
_BACKOFF = 30.0
_OVER = ("finished", "cancelled", "erased")


@immutable
class Drill(msgspec.Struct, frozen=True, kw_only=True):
    """Describes a drill: which agent would call which tool with what, and what it was asked for.

    `agent` and `tool` are of the app, and `arguments` fit the tool: so the request looks like one that could be. Write
    an `input` and arguments that somebody who reads them would refuse. `preview`, `risk` and `terms` are the tool's own
    where nothing else is given. `requester` is for whom it seems to run. Where a policy asks for such calls, and not
    the tool, `reason` is the policy's and `by` names its rule, such as "policy:2".

    >>> Drill(agent="desk", tool="pay", arguments={"to": "mallory"}, input="Pay the new supplier").by
    'tool'
    """

    agent: str
    tool: str
    arguments: Mapping[str, Any]
    input: str
    preview: Preview | None = None
    risk: str | None = None
    terms: Approval | None = None
    requester: str | None = None
    reason: str = ""
    by: str = "tool"


class Drills(Sealed):
    """Says which drills are mixed into an app's inbox, and how often.

    One is opened in each period of `every`, at a time of it that nobody can foresee, by a worker of the app; what is
    missed while no worker runs is left out. `at_most` wait at once. Nobody is told of one that nobody answered: it ends
    after `lasts`, by default three periods. `seed` draws other times and templates.

    >>> Drills([Drill(agent="desk", tool="pay", arguments={"to": "mallory"}, input="Pay them")], every="1d").at_most
    3
    """

    def __init__(
        self,
        templates: Sequence[Drill],
        *,
        every: str | float = "1d",
        at_most: int = 3,
        lasts: str | float | None = None,
        seed: str = "",
    ) -> None:
        self.templates = list(templates)
        if not self.templates or not all(isinstance(cast("object", each), Drill) for each in self.templates):
            raise UserError("templates= of Drills is a list of at least one Drill(...)")
        for each in self.templates:
            if not isinstance(cast("object", each.input), str) or not each.input.strip():
                raise UserError("input= of a Drill is what the agent seems to have been asked; say it")
            if each.by != "tool" and not each.by.startswith("policy"):
                raise UserError(f"by= of a Drill is 'tool', or a rule such as 'policy:2', not {each.by!r}")
        given: object = at_most
        if not isinstance(given, int) or isinstance(given, bool) or not 1 <= given <= _MOST:
            raise UserError(f"at_most= is a whole number from 1 to {_MOST}, not {at_most!r}")
        self.every_ms = milliseconds(every)
        self.lasts_ms = 3 * self.every_ms if lasts is None else milliseconds(lasts)
        if self.lasts_ms > _MOST * self.every_ms:
            raise UserError(f"lasts= of Drills is at most {_MOST} times every=")
        if self.every_ms < 1_000:
            raise UserError("every= of Drills is at least a second")
        self.at_most = at_most
        self.seed = seed

    def check(self, agents: Mapping[str, Agent[Any]]) -> None:
        """Refuse templates that no agent of an app could have proposed."""
        for each in self.templates:
            _prepared(each, agents)


class DrillService:
    """Opens the drills of an app beside its worker; one without drills does nothing."""

    def __init__(
        self,
        store: Store,
        agents: Mapping[str, Agent[Any]],
        drills: Drills | None,
        options: Callable[[], Mapping[str, Any]] = dict,
    ) -> None:
        self._store = store
        self._agents = agents
        self._options = options  # those of the app's runs
        self._task: asyncio.Task[None] | None = None
        self.drills = drills

    @property
    def drills(self) -> Drills | None:
        """Return the drills that are opened."""
        return self._drills

    @drills.setter
    def drills(self, drills: Drills | None) -> None:
        if drills is not None and not isinstance(cast("object", drills), Drills):
            raise UserError(f"drills= of an App is Drills([Drill(...), ...]), not {drills!r}")
        if self._task is not None and not self._task.done():
            raise AttributeError("drills of an App cannot be set while they are opened: stop() the app first")
        if drills is not None:
            drills.check(self._agents)
        self._drills = drills

    def start(self) -> None:
        """Begin to open drills, unless that is done already."""
        if self._drills is not None and (self._task is None or self._task.done()):
            self._task = asyncio.ensure_future(self._run(self._drills))

    async def stop(self) -> None:
        """Open no more of them; those that wait go on waiting."""
        task, self._task = self._task, None
        if task is None or task.get_loop() is not asyncio.get_running_loop():
            return
        task.cancel()
        await asyncio.wait({task})

    async def _run(self, drills: Drills) -> None:
        while True:
            try:
                now = await self._store.now()
                await self.open_due()
                wait = (self._next(drills, now) - now) / 1_000
            except StorageError as error:
                log.warning("no drill can be opened now, trying again: %s", error)
                wait = _BACKOFF
            except Exception:
                log.exception("no drill could be opened, trying again")
                wait = _BACKOFF
            await asyncio.sleep(max(wait, 0.01))

    async def open_due(self, now: int | None = None) -> str | None:
        """Open the drill of this period if its time has come, and return its run; None where nothing is to be done.

        `now` is the journal's own time unless another is given, in milliseconds since 1970.
        """
        drills = self._drills
        if drills is None:
            return None
        now = await self._store.now() if now is None else now
        period = now // drills.every_ms
        if now < self._opens(drills, period):
            return None
        for run in self._names(drills, period):
            if await self._store.head(run):
                return None
        run = self._name(drills, period, "run")
        if await self._waiting(drills, period) >= drills.at_most:
            return None
        try:
            await self._open(drills, period, run, now)
        except LostRace:  # another process was faster
            return None
        return run

    async def _waiting(self, drills: Drills, period: int) -> int:
        """Count the drills of earlier periods that still wait."""
        count = 0
        for before in range(max(0, period - drills.lasts_ms // drills.every_ms - 1), period):
            for run in self._names(drills, before):
                found = await self._store.runs(Query(run=run))
                count += bool(found) and found[0].status not in _OVER
        return count

    async def _open(self, drills: Drills, period: int, run: str, now: int) -> None:
        template = drills.templates[self._number(drills, period, "template") % len(drills.templates)]
        agent = _prepared(template, self._agents)[0]
        scope = self._settings(agent)
        limits = None if scope.config.usage_limits is None else scope.config.usage_limits.record()
        said: list[Item | int] = [{"role": "user", "content": template.input}]
        about = about_run({"conversation_id": None}, scope, None)
        about |= secrets_of(AgentGraph(agent).agent_at.values(), template.input)
        salt = self._name(drills, period, "salt")
        begin = cm.Start(
            run, salt, template.input, about, agent.name, said, int(DEFAULT_MAX_TURNS),
            requester=template.requester, drill=now + drills.lasts_ms,
        )  # fmt: skip
        asked = await self._asked(template, scope, f"call_{self._name(drills, period, 'label')[:24]}")
        thought, looked = (self._number(drills, period, what) for what in ("thought", "looked"))
        replied = now - looked % 6 * (len(asked) - 1)
        steps: list[tuple[int, list[cm.RunCommand]]] = [
            (replied - 900 - thought % 4_000, [begin, *([cm.Resume(limits=limits)] if limits else [])]),
            *zip((replied, now), ([each] for each in asked), strict=False),
        ]
        written = Log()
        for at, commands in steps:
            events = [event for command in commands for event in step(written.run, command, max(at, 0))]
            written.append(ev.Step(max(at, 0), events))
        await Writer(written, self._store, clock_ms).write_whole()

    def _settings(self, agent: Agent[Any]) -> FrameSettings:
        """Return what a run of this agent would run under now."""
        given = self._options()
        config, policy_of = RunConfig.of(given.get("run_config")), given.get("policy_of")
        scope = FrameSettings(config, RunContextWrapper(None), inbox=True, witness=True, policy_of=policy_of)
        scope.carry(agent)
        return scope

    async def _asked(self, template: Drill, scope: FrameSettings, label: str) -> list[cm.RunCommand]:
        """Return the reply that calls the tool, and the verdict that asks where a true call has it in its own line."""
        agent, tool, text, prepared = _prepared(template, self._agents)
        raw = {"type": tool.call_type, "call_id": label, "name": template.tool, "arguments": text}
        made = propose(scope, tool, raw, (template.tool, label, 0))
        at_once = template.by == "tool" and made.gate == "ask"
        terms = tool.approval if template.terms is None else template.terms
        preview = await _preview(template, tool, prepared.params)
        made = msgspec.structs.replace(
            made,
            gate="ask" if at_once else "",
            terms=terms if at_once else tool.approval,
            risk=tool.risk if template.risk is None else template.risk,
            preview=preview if at_once else None,
        )
        tools = {made.tool: tool_spec(tool, raw)}
        reply = cm.RecordReply(ROOT, [raw], [made], Counts(requests=1), tools=tools, model=_model_of(agent))
        verdict = Verdict("ask", template.reason, terms=terms, by=template.by)
        return [reply] if at_once else [reply, cm.Screen(f"{ROOT}/1.0", verdict, preview=preview, revision=1)]

    def _next(self, drills: Drills, now: int) -> int:
        """Return when to look again: when the drill of this period is due, else that of the next."""
        period = now // drills.every_ms
        due = self._opens(drills, period)
        return due if now < due else self._opens(drills, period + 1)

    def _opens(self, drills: Drills, period: int) -> int:
        return period * drills.every_ms + self._number(drills, period, "when") % drills.every_ms

    def _number(self, drills: Drills, period: int, what: str) -> int:
        return int(self._name(drills, period, what), 16)

    def _name(self, drills: Drills, period: int, what: str, key: str | None = None) -> str:
        """Draw something for a period, the same in every process that has the journal's key, and in no other."""
        parts = [getattr(self._store, "tenant", "default"), drills.seed, str(drills.every_ms), str(period), what]
        drawn = self._keys().mac("drill", canonical(parts).encode(), key=key)
        return hashlib.sha256(drawn.encode()).hexdigest()[:32]

    def _names(self, drills: Drills, period: int) -> list[str]:
        """Return what the run of a period is called by processes with another newest key, too."""
        return [self._name(drills, period, "run", key) for key in self._keys().ids]

    @property
    def _keys(self) -> Keys:
        return getattr(self._store, "keys", ring)


def _prepared(each: Drill, agents: Mapping[str, Agent[Any]]) -> tuple[Agent[Any], Tool, str, Prepared]:
    """Return the agent and the tool of a template, and what would run, checked as the model's own call is."""
    agent = agents.get(each.agent)
    if agent is None:
        raise UserError(f"a Drill is of an agent of the app; there is none named {each.agent!r}")
    tool = next((tool for tool in agent.tools if isinstance(tool, Tool) and tool.name == each.tool), None)
    if tool is None or tool.call_field != "name" or tool.call_type != "function_call":
        raise UserError(f"a Drill is of a function tool of its agent; {each.agent!r} has none named {each.tool!r}")
    if each.by == "tool" and not tool.needs_approval and tool.approval is None:
        raise UserError(f"{each.tool!r} never asks by itself: say in by= which rule of the policy asks for it")
    terms = tool.approval if each.terms is None else each.terms
    if terms is not None and terms.confirm and each.requester is None:
        raise UserError(f"the terms of the Drill of {each.tool!r} let its requester confirm it: say requester=")
    canonical(cast("Any", dict(each.arguments)))  # it refuses what no JSON is
    text = json.dumps(dict(each.arguments), ensure_ascii=False, separators=(",", ":"))  # in the order of the template
    try:
        return (
            agent,
            tool,
            text,
            tool.prepare({"type": tool.call_type, "call_id": "c", "name": each.tool, "arguments": text}),
        )
    except InvalidArguments as error:
        raise UserError(f"the arguments of the Drill of {each.tool!r} do not fit the tool: {error}") from None


async def _preview(each: Drill, tool: Tool, params: object) -> Preview | None:
    """Return what people are shown, as it is made for a call of the model; None where that is the arguments."""
    if each.preview is not None:
        return recorded(each.preview)
    made = await answer_of(tool.preview, params)
    if not isinstance(made, Preview):
        return None
    made = shown_preview(tool, made, params, tool.secrets)
    return None if made == plain_preview(params, tool.secrets) and not tool.looks else recorded(made)


def _model_of(agent: Agent[Any]) -> str:
    """Return the name under which an agent's model answers."""
    model: object = agent.model
    name: object = model if isinstance(model, str) else getattr(model, "model", "")
    return name.rsplit(":", 1)[-1] if isinstance(name, str) else ""
