"""Stories that are talked to: a session of theirs over the realtime protocol, from where their run stands to its end.

The model is a server in the same process, which ends with it; what it says follows from what its connection was told.
Whoever decides does it in the session, after leaving it, or at an inbox. When a session was left, its connections are
held against the log: each began with the conversation so far, and each result came to each once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from keyturn import Inbox
from keyturn.core.call_ids import ROOT
from keyturn.core.errors import Conflict, NotPending
from keyturn.engine.run.log_cache import log_in
from keyturn.realtime import OpenAIRealtimeWebSocketModel, RealtimeRunner, RealtimeSession
from keyturn.realtime.conversation import KEPT, on_the_wire, text_of
from keyturn.realtime.items import RealtimeToolCallItem
from keyturn.testing.loopback.realtime import Call, RealtimeLine, RealtimeServer

from .lifecycle import ASK, Story

END = "done"
ROUNDS = 60
# Seconds; nothing of a conversation takes as long, though the machine may be busy with other things.
SILENCE = 24.0
Decide = Callable[[RealtimeSession, Any], Awaitable[bool]]


def speaker() -> OpenAIRealtimeWebSocketModel:
    """Return a model that waits for its server as long as a busy machine takes."""
    return OpenAIRealtimeWebSocketModel(transport_config={"handshake_timeout": SILENCE})


def answers(rounds: Sequence[Any]) -> Callable[[RealtimeLine], Any]:
    """Make the calls of `rounds[n]` once n rounds of results were heard; at the end tell what was heard."""

    def answer(line: RealtimeLine) -> Any:
        known = {name: outputs[-1] for name, outputs in line.outputs.items()}
        made = {item.get("call_id") for item in line.items}
        for step in rounds:
            if any(call["call_id"] not in known for call in step):
                new = [Call(call["name"], call["arguments"], call["call_id"]) for call in step]
                return [call for call in new if call.call_id not in made] or "One moment."
        return f"{END}: " + "; ".join(f"{key}={known[key]}" for key in sorted(known))

    return answer


async def talked(story: Story, runner: RealtimeRunner, store: Any, run: str | None, decide: Decide) -> str:
    """Hold sessions until the run is over, and return its id; `decide` says whether its session goes on."""
    over = False
    async with RealtimeServer(answers(story.rounds)) as server:
        for _ in range(ROUNDS):
            session = await runner.run(model_config={"api_key": "k", "url": server.url}, resume=run)
            async with session:
                run = session.run_id
                if not any(getattr(item, "role", "") == "user" for item in session.history):
                    await session.send_message(ASK[0])
                over = await listened(server, session, decide)
                if not over:
                    await session.close(end=False)
            if over:
                break
        assert run is not None
        broken = await unheard(server, store, run)
    assert over, f"{story.name}: still talking after {ROUNDS} sessions"
    assert not broken, f"{story.name}: {broken}"
    return run


def _stands(server: RealtimeServer, session: RealtimeSession) -> str:
    run = session.opened().run
    calls = {call.proposal.label: call.state for call in run.calls.values()}
    items = [_shape(item) for item in run.frames[ROOT].items if isinstance(item, dict)]
    said = [message["type"] for message in server.line.messages][-5:]
    return f"calls {calls}, items {items}; {len(server.lines)} connections, last told {said}; {server.errors}"


async def listened(server: RealtimeServer, session: RealtimeSession, decide: Decide) -> bool:
    """Listen until the model says the last word, or whoever decides leaves; whether it was the last word."""
    try:
        async with asyncio.timeout(SILENCE):
            return await _heard(server, session, decide)
    except TimeoutError:
        raise AssertionError(f"silence: {_stands(server, session)}") from None


async def _heard(server: RealtimeServer, session: RealtimeSession, decide: Decide) -> bool:
    if _last_word(session).startswith(END):  # it was said before the process was ended
        calls = {item.call_id for item in session.history if isinstance(item, RealtimeToolCallItem)}
        while server.line.outputs.keys() != calls:
            await asyncio.sleep(0.01)
        return True
    async for event in session:
        if event.type == "tool_approval_required" and not await decide(session, event.item):
            return False
        if event.type == "agent_end" and _last_word(session).startswith(END):
            return True
    raise AssertionError("the events ended before the conversation")


def _last_word(session: RealtimeSession) -> str:
    """What was said last, once it was said to its end."""
    last = session.history[-1] if session.history else None
    return "" if last is None or getattr(last, "status", None) == "in_progress" else text_of(last)


async def in_session(story: Story, person: Any, by: str, session: RealtimeSession, item: Any) -> bool:
    """Decide where the conversation is."""
    verdict, words = person.word(story, item)
    decide: Any = getattr(session, f"{verdict}_tool_call")
    await _said(session, item, lambda shown: decide(shown, **words, by=by))
    return True


async def at_inbox(story: Story, person: Any, by: str, inbox: Inbox, session: RealtimeSession, item: Any) -> Any:
    """Decide somewhere else; what was acknowledged, if anything was."""
    verdict, words = person.word(story, item)
    if "rejection_message" in words:
        words = {"message": words["rejection_message"]}
    decide: Any = getattr(inbox, verdict)
    return await _said(session, item, lambda shown: decide(shown.request_id, **words, by=by, digest=shown.digest))


async def _said(session: RealtimeSession, item: Any, say: Callable[[Any], Awaitable[Any]]) -> Any:
    """Say it again where it was refused because something came between, for as long as it waits."""
    for _ in range(ROUNDS):
        for shown in session.pending_approvals:
            if shown.request_id == item.request_id:
                with suppress(Conflict, NotPending):
                    return await say(shown)
                await asyncio.sleep(0.01)
    return None


async def unheard(server: RealtimeServer, store: Any, run: str) -> list[str]:
    """What a connection should have been told and was not, or was told twice."""
    log = await log_in(store, run)
    items: list[Any] = [item for item in log.run.frames[ROOT].items if isinstance(item, dict)]
    whole = [_shape(item) for item in items if on_the_wire(item) is not None]
    broken = [f"the model was refused: {error}" for error in server.errors]
    for line in server.lines:
        sent = [message["item"] for message in line.messages if message["type"] == "conversation.item.create"]
        kept = [_shape(item) for item in sent if item.get("id", "").startswith(KEPT) and item.get("role") != "system"]
        if kept != whole[: len(kept)]:
            broken.append(f"connection {line.number} began with {kept}, and the conversation is {whole}")
        broken += [
            f"connection {line.number} heard of {call} {len(told)} times"
            for call, told in line.outputs.items()
            if len(told) != 1
        ]
    calls = {item["call_id"] for item in items if item.get("type") == "function_call"}
    if log.run.status == "finished" and server.lines and calls != server.line.outputs.keys():
        broken.append(f"the last connection heard of {sorted(server.line.outputs)}, and there were {sorted(calls)}")
    asked = [item for item in items if item.get("role") == "user"]
    if len(asked) != 1:
        broken.append(f"what the user said once stands in the conversation {len(asked)} times")
    return broken


def _shape(item: Any) -> tuple[Any, ...]:
    return item.get("type", "message"), item.get("role"), item.get("call_id"), str(item.get("output", ""))
