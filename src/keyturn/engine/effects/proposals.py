"""Read a model's reply into proposals: which calls it made, of which tools, and what exactly would run.

The provider's call id is a label. The same label with the same content is one call; with other content it is
misbehaviour, found before anything is recorded. Arguments that a tool refuses never reach the gate.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Container, Mapping
from typing import Any

import msgspec

from ...core.errors import ModelBehaviorError
from ...core.events import Proposal
from ...core.items import Item, own_copy, wrong_in
from ...core.run import Call, Frame
from ...models.base import ModelResponse
from ...support.turns import AT_A_TIME
from ...tools.base import Tool, tool_spec
from ...tools.known_digests import known_as, older_digests
from ..driving.drive import Drive
from ..facts.proposals import call_label, called_name, propose, refused_as
from ..run.frame_settings import FrameSettings, Toolset

# What may differ between two tellings of one call: its own ids, and what a provider keeps on the item for itself.
_EPHEMERAL = ("id", "status", "provider_data")


_HANDED_OVER = (
    "Not sent, and not executed: the same reply hands the conversation over to another agent. Make the request alone."
)


class ReplyReading:
    """Reads one reply: its items, the calls among them, and the specs of tools that may ask."""

    def __init__(self, drive: Drive, frame: Frame, toolset: Toolset) -> None:
        self.output: list[Item] = []
        self.proposals: list[Proposal] = []
        self.tools: dict[str, Any] = {}
        self.frame = frame
        self._drive, self._toolset = drive, toolset
        self._scope = drive.scope(frame.id)
        self._seen: dict[str, Item] = {}

    async def read(self, response: ModelResponse) -> ReplyReading:
        """Read the reply's items in order; one of many calls lets others work meanwhile."""
        items = [_own(raw) for raw in response.output]
        settled = _settled(items, self._toolset, self._seen)
        for raw, own in zip(response.output, items, strict=True):
            label = None if settled and _label(own) in settled else call_label(own, self._toolset)
            if label is not None and label in self._seen:
                _check_same(self._seen[label], own)
                continue
            self.output.append(own)
            if label is not None:
                self._seen[label] = own
                self._check_room()
                self._call(raw, label)
                if len(self._seen) % AT_A_TIME == 0:
                    await asyncio.sleep(0)
        if self.frame.barrier and any(made.last and made.refused is None for made in self.proposals):
            self.proposals = [self._not_sent(made) if made.by_provider else made for made in self.proposals]
        return self

    def other_names(self) -> dict[int, set[str]]:
        """Return the digests with older keys of tools that the run does not know yet, by the place of the proposal."""
        found: dict[int, set[str]] = {}
        for place, made in enumerate(self.proposals):
            raw = self.output[made.item]
            tool = self._toolset.find(raw)
            if tool is not None and made.gate != "allow" and made.tool in self.tools:
                others = {each for each in older_digests(tool, raw) if each != made.tool}
                found |= {place: others} if others else {}
        return found

    def rename(self, place: int, known: str) -> None:
        """Let a call be of the tool under the digest by which others know it."""
        made = self.proposals[place]
        self.tools[known] = self.tools[made.tool]
        self.proposals[place] = msgspec.structs.replace(made, tool=known)
        if all(other.tool != made.tool for other in self.proposals):
            del self.tools[made.tool]

    def _not_sent(self, made: Proposal) -> Proposal:
        """Refuse a call that the provider would run by the next question, since another agent asks that."""
        raw = self.output[made.item]
        tool = self._toolset.find(raw)
        assert tool is not None
        return refused_as(tool, raw, (made.name, made.label, made.item), _HANDED_OVER)

    def _check_room(self) -> None:
        """Refuse a reply with more calls than one may have: reading them all would hold up every other run."""
        most = self._scope.config.max_calls_per_reply
        if len(self._seen) > most:
            raise ModelBehaviorError(
                f"the model made more than {most} calls in one reply; nothing of it was used: resume to ask it again, "
                "or set RunConfig(max_calls_per_reply=...)"
            )

    def _call(self, raw: Item, label: str) -> None:
        tool = self._toolset.find(raw)
        place = (called_name(tool, raw), label, len(self.output) - 1)
        if tool is None:
            self.proposals.append(_unknown(self._scope, self._toolset, raw, place))
            return
        if tool.after_siblings and any(other.last for other in self.proposals):
            proposal = refused_as(tool, raw, place, "Multiple handoffs detected, ignoring this one.")
        else:
            proposal = propose(self._scope, tool, raw, place)
        known = known_as(tool, raw, proposal.tool, self._drive.run.tools)
        if proposal.tool != known:  # it is the one on which people decided: keys are rotated meanwhile
            proposal = msgspec.structs.replace(proposal, tool=known)
        if proposal.gate != "allow" and proposal.tool not in self._drive.run.tools and proposal.tool not in self.tools:
            self.tools[proposal.tool] = tool_spec(tool, raw)
        self.proposals.append(proposal)


def _own(raw: Item) -> Item:
    """Return an item of a reply as a plain dict of the run's own, or raise where it is none that can be recorded."""
    try:
        own = own_copy(raw)
    except RecursionError:
        own = raw  # refused below, as what is nested too deep
    if wrong := wrong_in(own) or _of_others(own):
        raise ModelBehaviorError(f"an item of the model's reply {wrong}; nothing of it was used")
    return own


def _of_others(raw: Mapping[str, Any]) -> str | None:
    """Return why an item is not the model's to make: recorded, it would be sent on as what people decided or wrote."""
    kind = raw.get("type", "message")
    if kind.endswith("_approval_response"):
        return "is an approval, which people give"
    if kind == "message" and raw.get("role", "assistant") != "assistant":
        return "is a message that is not its own"
    return None


def _settled(output: list[Any], toolset: Toolset, seen: Container[str]) -> set[str]:
    """Return the ids of calls whose results stand in the same reply, since the provider ran them.

    What runs here has its result from here: a model that tells of one would have its own words kept as ours.
    """
    results = [raw for raw in output if str(raw.get("type")).endswith("_output") and _label(raw)]
    if not results:
        return set()
    settled = {raw["call_id"] for raw in results}
    calls = [raw for raw in output if _label(raw) in settled and raw.get("type", "").endswith("_call")]
    alone = settled - {raw["call_id"] for raw in calls}
    kinds = {kind for (kind, _name), tool in toolset.by_key.items() if not tool.hosted}
    ours = any((tool := toolset.find(raw)) and not tool.hosted for raw in calls)
    ours = ours or any(label in seen for label in alone)
    if ours or any(raw["call_id"] in alone and raw["type"].removesuffix("_output") in kinds for raw in results):
        raise ModelBehaviorError("the model gave the result of a call that runs here; nothing of its reply was used")
    return settled


def _label(raw: Mapping[str, Any]) -> str | None:
    label = raw.get("call_id")
    return label if isinstance(label, str) else None


def _check_same(*told: Mapping[str, Any]) -> None:
    first, again = [{key: value for key, value in raw.items() if key not in _EPHEMERAL} for raw in told]
    if first != again:
        raise ModelBehaviorError("the model gave two different calls one call id; nothing of its reply was used")


def _unknown(scope: FrameSettings, toolset: Toolset, raw: Mapping[str, Any], place: tuple[str, str, int]) -> Proposal:
    """Refuse a call of no tool; it may hold what is a secret of the tool that was meant."""
    name, label, index = place
    if scope.config.tool_not_found_behavior == "raise_error" or raw.get("type") != "function_call":
        raise ModelBehaviorError(
            f"the model called {name!r}, which agent {toolset.agent!r} does not have; nothing of its reply was used: "
            'resume to ask it again, or set RunConfig(tool_not_found_behavior="return_error_to_model")'
        )
    text = f"There is no tool named {json.dumps(name)}."
    refused = {"type": "function_call_output", "call_id": label, "output": text}
    secrets = {each for tool in toolset.by_key.values() for each in tool.secrets}
    return Proposal("unknown", name, label, index, refused=refused, secrets=tuple(sorted(secrets)))


def revised(scope: FrameSettings, tool: Tool, call: Call) -> Proposal:
    """Propose the same call again for a tool that changed; what a person had edited stays edited."""
    place = (call.proposal.name, call.proposal.label, call.proposal.item)
    edited = call.text if call.edited else None
    made = propose(scope, tool, call.raw, place, edited)
    if made.refused is None and edited is not None:
        made = msgspec.structs.replace(made, args=made.args or edited, edited=True)
    if tool.looks:  # whoever is asked next must be shown the world as it is then
        made = msgspec.structs.replace(made, gate="", preview=None)
    return made
