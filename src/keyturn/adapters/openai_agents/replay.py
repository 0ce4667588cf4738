"""Replay one agent's part of a state of openai-agents as commands of a run, and the parts nested in it.

A call with a result ran there, and its result is recorded; but one that the provider runs, and whose approval no
question has held yet, is a call that waits with that word on it. A call that was started there and has none is in
doubt. A call that waits asks, whatever its tool says here. A call that nobody got to is left to the gate. What the next
message of the model is made from must all be there, or the state is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from msgspec.structs import replace

from ...core import commands as cm
from ...core import events as ev
from ...core.call_ids import call_id
from ...core.errors import StateRejected, ToolMissing
from ...core.items import Item, input_items, own_copy
from ...core.nested_agent import nested_agent
from ...core.policy import Verdict
from ...core.request import request_of
from ...core.run import Call, Frame
from ...core.states import READY
from ...engine.facts import decisions
from ...engine.facts.live_preview import look
from ...engine.facts.proposals import call_label, called_name, propose
from ...engine.run.frame_settings import Toolset
from ...engine.states.taken_over import NOTE
from ...tools.base import Tool, tool_spec
from .decisions import (
    CallKey,
    TakenOverDecision,
    for_good,
    has_changed,
    nested_states,
    tools_as_saved,
    word_on,
)
from .items import (
    alike,
    all_items,
    calls_in,
    counts_of,
    is_result,
    key_of,
    label_of,
    over,
    reports_of,
    turns_left,
    without_twins,
)
from .saved_state import SavedItem, SavedReply, SavedState
from .takeover import Takeover

_LEFT_OUT = "Left out by the input filter of a handoff, before the run was taken over."
_LOST = "openai-agents started it and did not record a result"
_NOT_APPROVED = "Tool execution was not approved."

How = Literal["done", "filtered", "nested", "waits", "lost", "open"]


class Made(NamedTuple):
    """Holds a call of a reply as it is replayed; `word` is the decision on it that is recorded with it."""

    key: CallKey
    tool: Tool | None
    how: How
    result: SavedItem | None
    word: TakenOverDecision | None
    proposal: ev.Proposal


class FrameReplay:
    """Replays the replies of one agent's run, and of those nested in it."""

    def __init__(self, over: Takeover, saved: SavedState, frame: str) -> None:
        self.over = over
        self.saved = saved
        self.frame_id = frame
        self.live = over.live
        self.run = over.live.run
        self.paused = saved.current_step is not None and saved.current_step.type == "next_step_interruption"
        self.nested, self.tools = nested_states(saved), tools_as_saved(saved)
        self.items = all_items(saved)
        self.visible = [item.raw_item for item in saved.generated_items if item in self.items]
        self.calls = [raw for reply in saved.model_responses for raw in reply.output]
        self.made: list[Item] = []
        self.hidden = False
        self.worded: set[str] = set()

    @property
    def frame(self) -> Frame:
        """Return the frame as it stands."""
        return self.run.frames[self.frame_id]

    async def play(self) -> None:
        """Replay all replies, and check that nothing of the conversation is missing."""
        reports = reports_of(self.saved)
        if reports:
            self.over.do(cm.GuardFrame(self.frame_id, reports))
        added = self._added()
        self._add(added.get(-1, []))
        for number, reply in enumerate(self.saved.model_responses):
            last = self.paused and number == len(self.saved.model_responses) - 1
            await self._reply(number, reply, added.get(number, []), last=last)
            if self.frame.phase == "judge" and not last:
                self.over.do(cm.JudgeFrame(self.frame_id, final=False))
        self._check_agent()
        self._check_all_there()
        for tool in for_good(self.saved) - self.worded:
            self.over.warn(f"what was decided for good of {tool!r} is not taken over: the state holds no call of it")

    # What was said --------------------------------------------------------------------------------------------------

    def _added(self) -> dict[int, list[Item]]:
        """Return messages that were added while the run was on, by the reply that they followed."""
        calls = {label_of(raw): number for number, r in enumerate(self.saved.model_responses) for raw in r.output}
        found: dict[int, list[Item]] = {}
        last = -1
        for item in self.items:
            if item.input_id is not None:
                found.setdefault(last, []).append(item.raw_item)
            else:
                last = calls.get(label_of(item.raw_item), last)
        return found

    def _add(self, items: list[Item]) -> None:
        if items:
            self.made += items
            self.over.do(cm.AddInput(self.frame_id, own_copy(items)))
            if self.frame.guarding:  # the run went on with them there
                self.over.do(cm.GuardFrame(self.frame_id, [], len(self.frame.unseen)))

    def _check_agent(self) -> None:
        name = self.live.graph.agent(self.frame.agent).name
        if name != self.saved.current_agent.name:
            raise StateRejected(
                f"the state continues with agent {self.saved.current_agent.name!r}, and by its handoffs it is "
                f"{name!r}: "
                "pass the agent that began the run, with the handoffs that it had"
            )

    def _check_all_there(self) -> None:
        """Refuse a state whose conversation is not what its replies and results make."""
        made, seen = {key_of(item) for item in self.made}, {key_of(item) for item in self.visible}
        if seen - made:
            raise StateRejected("the state's generated_items hold an item that is of none of its replies")
        if made - seen and not self.hidden:
            raise StateRejected("the state's generated_items lack an item of its replies; use it as it was saved")

    # A reply --------------------------------------------------------------------------------------------------------

    async def _reply(self, number: int, reply: SavedReply, added: list[Item], *, last: bool) -> None:
        path, turn = self.frame.agent, self.frame.turn + 1
        toolset, output = await self.over.toolset(path), without_twins(reply.output)
        made = [
            self._call(raw, place, toolset, number, last=last)
            for place, raw in calls_in(output, toolset, self.saved.context.tool_invocations.__contains__)
        ]
        judged = last and self.live.graph.agent(path).tool_use_behavior != "run_llm_again"
        told = {m.proposal.tool: tool_spec(m.tool, m.key.raw) for m in made if m.tool and m.how in ("waits", "open")}
        usage, items = counts_of(reply.usage), own_copy(output)
        record = cm.RecordReply(
            self.frame_id, items, [m.proposal for m in made], usage, reply.response_id, reply.request_id, told, judged
        )
        self.over.do(record)
        self.made += output
        self._add(added)
        ids = {m.key.label: call_id(self.frame_id, turn, index) for index, m in enumerate(made)}
        for m in sorted(made, key=self._order):
            call = self.run.calls.get(ids[m.key.label])
            if call is not None and m.proposal.refused is None:
                await self._settle(call, m, number)

    def _order(self, made: Made) -> tuple[bool, int]:
        """Results are recorded in the order in which they came, which is a session's; a handoff comes after them."""
        hands_over = made.proposal.last and made.how in ("done", "filtered")
        return hands_over, len(self.items) if made.result is None else self.items.index(made.result)

    def _call(self, raw: Item, place: int, toolset: Toolset, number: int, *, last: bool) -> Made:
        tool = toolset.find(raw)
        label = call_label(raw, toolset) or label_of(raw)
        if raw.get("namespace"):
            raise StateRejected(f"the state holds a call in a tool namespace, {raw.get('name')!r}: there are none here")
        key = CallKey.of(label, self.live.graph.agent(self.frame.agent).name, raw, tool)
        result = self._result(label)
        how, word = self._how(key, result, last=last), word_on(self.saved, key)
        if result is not None and self._is_unsent(tool, result, number):
            how, word = "waits", word or TakenOverDecision("approve")
        at = (called_name(tool, raw), label, place)
        if how in ("waits", "open", "nested") and tool is None:
            raise ToolMissing(key.tool, agent=self.frame.agent)
        if tool is None or how in ("done", "filtered"):
            proposal = over(tool, raw, at)
        else:
            self._check_server(key, tool)
            proposal = propose(self.over.settings, tool, raw, at)
        if how == "nested" and (proposal.refused is not None or nested_agent(tool).agent is None):
            raise StateRejected(f"an agent answered a call of {key.tool!r} there, and here none would")
        if how in ("waits", "open"):
            proposal = proposal if how == "open" else replace(proposal, gate="")
        else:
            word = word if _fits(word, result) and proposal.terms is None else None
            proposal = replace(proposal, gate="allow" if word is None else "")
        return Made(key, tool, how, result, word, proposal)

    def _is_unsent(self, tool: Tool | None, result: SavedItem, number: int) -> bool:
        """Return whether a result approves a call that the provider runs, and no question has held it yet."""
        approves = tool is not None and tool.go_ahead is not None and result.raw_item.get("approve") is True
        return approves and number == len(self.saved.model_responses) - 1

    def _result(self, label: str) -> SavedItem | None:
        """Return the result of a call: the first of that label that no earlier reply has."""
        taken = {id(item) for item in self.made}
        found = (item for item in self.items if is_result(item, label) and id(item.raw_item) not in taken)
        return next(found, None)

    def _how(self, key: CallKey, result: SavedItem | None, *, last: bool) -> How:
        if result is not None:
            return "done"
        came = self.saved.context.tool_invocations.get(key.label)
        begun = came is None or came.executed or came.completed
        if not last:
            if came is None or not begun:
                raise StateRejected(f"the state holds no result of an earlier call of {key.tool!r}")
            return "filtered"
        if key.label in self.nested:
            return "nested"
        if begun:
            return "lost"
        shown = (item for item in self.saved.waiting if item.agent.name == key.agent)
        return "waits" if any(key_of(item.raw_item) == key_of(key.raw) for item in shown) else "open"

    def _check_server(self, key: CallKey, tool: Tool) -> None:
        """Refuse a call of an MCP server's tool if another server, or another tool of it, has that name now."""
        processed = self.saved.last_processed_response
        bound = None if processed is None else processed.mcp_tool_bindings.get(key.label)
        remote: Any = getattr(getattr(tool, "remote", None), "name", None)
        now = None if remote is None else [getattr(tool, "server_name", None), remote]
        if (None if bound is None else bound[:2]) != now:
            raise StateRejected(
                f"the call of {key.tool!r} was of another MCP server or tool; give the servers the names that they had"
            )

    # A call ---------------------------------------------------------------------------------------------------------

    async def _settle(self, call: Call, made: Made, number: int) -> None:
        if made.how == "waits":
            if made.result is not None:
                self.made.append(made.result.raw_item)
            await self._ask(call, made)
        elif made.how != "open":
            self._decide(call, made)
            self._start(call)
            if made.how == "nested":
                assert made.tool is not None
                await self._open(call, made.tool, self.nested[made.key.label])
            elif made.how == "lost":
                self.over.do(cm.LoseCall(call.id, _LOST, again=False))
            else:
                self._finish(call, made, number)

    def _decide(self, call: Call, made: Made) -> None:
        """Record what was decided of a call that ran there, or was rejected, and what was decided with it for good."""
        word = made.word
        if word is None:
            return
        self.worded.add(made.key.tool)
        self.over.do(cm.Screen(call.id, Verdict("ask", by="tool")))
        request, now = request_of(self.run, call), self.over.now
        after = self.calls[1 + next(at for at, raw in enumerate(self.calls) if raw is made.key.raw) :]
        last = not any(alike(raw, made.key.raw) for raw in after)
        always = word.always and last and self.over.for_good(self.frame_id, made.key, word.verdict)
        if word.verdict == "approve":
            said = decisions.approve(request, now, note=NOTE)
        else:
            said = decisions.reject(request, now, message=word.message, always=always, note=NOTE)
        self.over.do(cm.Deliver([said.decision], [] if said.grant is None else [said.grant]))

    def _start(self, call: Call) -> None:
        """Record that a call was started: nobody is asked whether it may, since it was."""
        if call.state == "proposed":
            self.over.do(cm.Screen(call.id, Verdict("allow")))
        if call.state in READY:
            passed = [cm.Screen(call.id, Verdict("allow"), on_decision=True)] if call.recheck else []
            self.over.do(*passed, cm.StartCall(call.id, call.proposal.tool))

    async def _ask(self, call: Call, made: Made) -> None:
        assert made.tool is not None
        preview = await look(made.tool, call) if made.tool.looks else None
        self.over.do(cm.Screen(call.id, Verdict("ask", terms=call.proposal.terms, by="tool"), preview=preview))
        word, shown = made.word, self.tools.get(made.key.label)
        if word is None:
            return
        self.worded.add(made.key.tool)
        if shown is not None and has_changed(shown, made.tool):
            self.over.warn(f"what was decided of {made.key.tool!r} is not taken over: the tool has changed since")
            return
        always = word.always and self.over.for_good(self.frame_id, made.key, word.verdict)
        self.over.words[call.id] = word._replace(always=always)

    async def _open(self, call: Call, tool: Tool, saved: SavedState) -> None:
        """Let a nested agent answer a call, and replay what it did."""
        path = self.live.graph.path(nested_agent(tool).agent, call.agent)
        items, prefix, guarded = self.over.begins(saved)
        self.over.do(cm.OpenFrame(call.id, path, items, turns_left(saved), guarded, prefix))
        await FrameReplay(self.over, saved, call.id).play()

    def _finish(self, call: Call, made: Made, number: int) -> None:
        result = made.result
        if result is None:
            self.hidden = True
            item = _left_out(made)
        else:
            item = result.raw_item
            self.made.append(item)
        hands_over = result.type == "handoff_output_item" if result is not None else made.proposal.last
        if hands_over:
            self._hand_over(call, made, item, number)
            return
        value = None if result is None or isinstance(result.output, str) else own_copy(result.output)
        self.over.do(cm.FinishCall(call.id, own_copy(item), value))

    def _hand_over(self, call: Call, made: Made, item: Item, number: int) -> None:
        """Let the agent go on that a handoff led to, with what it saw of the conversation."""
        agent = nested_agent(made.tool).agent
        led_to = made.result.target_agent if made.result is not None else None
        if agent is None or (led_to is not None and led_to.name != agent.name):
            raise StateRejected(
                f"the handoff {made.key.tool!r} does not lead where it led; give the agent the handoff that it had"
            )
        view = self._view(number)
        self.hidden = self.hidden or view is not None
        path = self.live.graph.path(agent, self.frame.agent)
        self.over.do(cm.HandOff(call.id, own_copy(item), path, view))

    def _view(self, number: int) -> list[list[int] | Item] | None:
        """Return what the next agent saw, where that is not everything: what is left of what came before."""
        later = [raw for reply in self.saved.model_responses[number + 1 :] for raw in reply.output]
        keys, labels = {key_of(raw) for raw in later}, {label_of(raw) for raw in later}
        seen = [item for item in self.visible if key_of(item) not in keys and not _answers(item, labels)]
        if {key_of(item) for item in seen} == {key_of(item) for item in self.made}:
            return None
        return [*own_copy(input_items(self.saved.original_input)), *own_copy(seen)]


def _answers(item: Mapping[str, Any], labels: set[str]) -> bool:
    return bool({item.get("call_id"), item.get("approval_request_id")} & labels)


def _fits(word: TakenOverDecision | None, result: SavedItem | None) -> bool:
    """Return whether a decision is surely of a call that ended: "never again" may have come after it ran."""
    if word is None or word.verdict == "approve" or result is None:
        return word is not None
    said: Any = result.raw_item.get("output", result.raw_item.get("reason"))
    return said in (word.message, _NOT_APPROVED) or result.raw_item.get("approve") is False


def _left_out(made: Made) -> Item:
    if made.tool is not None:
        return made.tool.output(made.key.raw, _LEFT_OUT)
    return {"type": "function_call_output", "call_id": made.key.label, "output": _LEFT_OUT}
