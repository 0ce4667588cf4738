"""A member of each room, made in this one file through the doors that everybody has, and tried by the room's suite.

If one of these needs a change in `src/`, a wall is in the wrong place. The kind of tool has a call of its own on the
wire, which no provider and no file of ours knows: `{"type": "toy_call", "call_id": ..., "word": ...}`.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from keyturn import (
    Agent,
    CallView,
    Conflict,
    InvalidArguments,
    MemorySession,
    Model,
    ModelResponse,
    Preview,
    RunConfig,
    Runner,
    RunState,
    Text,
    Tool,
    Verdict,
)
from keyturn.core.items import Item
from keyturn.journal.base import Claim, Journal, LostRace
from keyturn.models.reply_events import reply_events
from keyturn.testing import JournalSuite, ModelStep, ModelSuite, drive
from keyturn.testing.policies import PolicySuite
from keyturn.testing.tools import ToolSuite
from keyturn.testing.crash import Effects
from keyturn.testing.tool_case import script
from keyturn.tools.base import Prepared

# ------------------------------------------------------------------------------------------------- a kind of tool


class ToyTool(Tool):
    """Says one word, in a call of its own."""

    kind, call_type, name = "toy", "toy_call", "say"

    def __init__(self, effects: Effects, needs_approval: Any = False, description: str = "Says a word.") -> None:
        self.effects, self.needs_approval, self.description = effects, needs_approval, description

    def spec(self) -> dict[str, Any]:
        return {"kind": self.kind, "name": self.name, "description": self.description}

    def prepare(self, item: Mapping[str, Any]) -> Prepared:
        return self.edit({"word": item.get("word")})

    def edit(self, params: Any) -> Prepared:
        match params:
            case {"word": str(word), **rest} if word and not rest:
                return Prepared(json.dumps(params), dict(params))
            case _:
                raise InvalidArguments("The call is invalid: it needs one word.")

    async def invoke(self, context: Any, prepared: Prepared) -> str:
        self.effects.record(context, prepared.params["word"])
        return f"said {prepared.params['word']}"

    def output(self, item: Mapping[str, Any], value: Any) -> Item:
        return {"type": "toy_call_output", "call_id": item["call_id"], "output": str(value)}

    def subject(self, params: Any) -> str:
        return params["word"]

    def preview(self, params: Any) -> Preview:
        return Preview((Text(params["word"], label="word"),))


def toy_call(label: str, word: Any) -> Item:
    return {"type": "toy_call", "call_id": label, "word": word}


class TestToyTool(ToolSuite):
    def make_tool(self, effects: Effects, **settings: Any) -> Any:
        return ToyTool(effects, **settings)

    def call(self, label: str, variant: int = 0) -> Item:
        return toy_call(label, f"w{variant}")

    def edited(self) -> dict[str, Any]:
        return {"word": "w1"}

    def refused(self) -> list[Item]:
        return [toy_call("bad", word) for word in ("", None, 3, ["w0"])]


# ------------------------------------------------------------------------------------------------------- a policy


class ToyPolicy:
    """Says the same of every call, by turns of a word of its own."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def __call__(self, call: CallView, context: Any) -> Verdict | None:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer if self.answer in (None, "perhaps") else Verdict(self.answer, reason=f"of {call.tool}")


class TestToyPolicy(PolicySuite):
    def make_policy(self, answer: Any) -> ToyPolicy:
        return ToyPolicy(answer)
