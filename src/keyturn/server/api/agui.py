"""Serve our agents over AG-UI 1.0: a chat starts a run for its user, and an interrupt is a request in the inbox.

What a client says of a conversation is not believed: a run is given the user's last message, and nothing else of it.
An answer to an interrupt is a decision only of an approver who is signed in, by the rules of any decision; of others
it is a request to look again.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, cast

import msgspec

from ...core.digest import digest
from ...core.errors import KeyturnError, NotAllowed, UserError
from ...engine.session.owner import own_session
from ...engine.states.named_start import NamedStart
from ...inbox.personal import Details, Verdict
from ...journal.rows import Query, RequestRow
from ...wire.agui import THREADS, AguiCapabilities, AguiInput, AguiResume, capabilities_of
from ..streams import EventStream
from ..turns import leave_turn
from .agui_events import agui_events
from .paging import IdPath
from .refusing import Refusal
from .routes import ApiContext, Call, Routes, answer, taken

routes = Routes("agui")


class _TextPart(msgspec.Struct, tag_field="type", tag="text"):
    """Holds a text that a user wrote."""

    text: str


@routes.add("GET", "/agui/{agent}/capabilities", scope="run", gives=AguiCapabilities, errors=(404,))
async def get_capabilities(here: ApiContext, agent: IdPath) -> Any:
    """Return what an agent can do over AG-UI."""
    return answer(capabilities_of(_known(here, agent)))


@routes.add(
    "POST", "/agui/{agent}", scope=("run", "decide"), takes=AguiInput, errors=(404, 409), media="text/event-stream"
)
async def run_over_agui(here: ApiContext, agent: IdPath, body: Annotated[AguiInput, taken(AguiInput)]) -> Any:
    """Go on with a thread of an AG-UI client, and stream what happens until the run ends or is pending a decision.

    A token for `run` starts the run of a message. The same last message of the same user is the same run: without
    `resume` it is looked at again. An answer in `resume` is recorded where the token is for `decide`, and its user an
    approver of that request.
    """
    if here.once is not None:
        raise UserError("an AG-UI run is named by its thread and the user's last message: send no idempotency key")
    run = await _run(here, _known(here, agent), body)
    refused = await _resumed(here, run, body.resume or [])
    places = here.request.app.state.places
    places.check(here.visitor.id)
    leave_turn(here.request.scope)

    async def still() -> None:
        await (await here.anew()).visibility.run(run)

    return EventStream(
        agui_events(here, run, body, refused),
        ended=here.live.ended,
        places=places,
        person=here.visitor.id,
        still=still,
        refusals=(Refusal,),
    )


def _known(here: Call, agent: str) -> str:
    if agent not in here.app.agents or here.app.agents[agent].realtime:
        raise Refusal(404, "missing", "there is no such agent")
    return agent


async def _run(here: Call, agent: str, asked: AguiInput) -> str:
    """Return the run of the user's last message, which is started where that was not done."""
    id, text = _last_message(asked)
    thread = digest(here.visitor.id, agent, asked.thread_id)[:32]
    session_id = None if here.app.sessions is None else f"{THREADS}{thread}"
    requester = here.visitor.id
    once = f"agui {thread} {hashlib.sha256(id.encode()).hexdigest()}"
    if not here.visitor.may("run"):
        return await _started(here, NamedStart(once, None).run)
    await own_session(here.app.journal, here.app.about_session(session_id), requester)
    return (await here.app.start(agent, text, session_id=session_id, requester=requester, once=once)).id


async def _started(here: Call, run: str) -> str:
    if not await here.app.journal.head(run):
        raise NotAllowed("this message has no run yet, and starting one requires a token for 'run'")
    return run


def _last_message(asked: AguiInput) -> tuple[str, str]:
    """Return the id and the text of what the user said last."""
    said = next((each for each in reversed(asked.messages) if each.get("role") == "user"), None)
    if said is None or not isinstance(said.get("id"), str):
        raise UserError("messages must have a message of the user, with an id")
    content: Any = said.get("content")
    try:
        parts = [_TextPart(content)] if isinstance(content, str) else msgspec.convert(content, list[_TextPart])
    except msgspec.ValidationError:
        raise UserError("the content of a message is a text, or parts of type text") from None
    return said["id"], "\n".join(part.text for part in parts)


async def _resumed(here: Call, run: str, entries: list[AguiResume]) -> dict[str, str]:
    """Record the answers of an approver; return by request why an answer was not recorded."""
    if not entries:
        return {}
    named = [entry.interrupt_id.split(" ")[0] for entry in entries]
    found = [row for name in named for row in await here.app.journal.requests(Query(id=name))]
    rows = {row.id: row for row in found if row.run == run}
    if len({*named}) != len(named) or any(name not in rows and name != run for name in named):
        raise UserError("resume answers each open interrupt of this thread once, and no other")
    refused: dict[str, str] = {}
    for name, entry in zip(named, entries, strict=True):
        if name in rows and rows[name].state == "open" and entry.status == "resolved":
            try:
                await _decide(here, rows[name], entry)
            except KeyturnError as error:
                refused[name] = str(error)
    return refused


async def _decide(here: Call, row: RequestRow, entry: AguiResume) -> None:
    """Record one answer, on exactly what the client was shown."""
    if not here.visitor.may("decide"):
        raise NotAllowed("this token may not decide")
    here.visibility.must_decide(row.request)
    _, revision, digest = entry.interrupt_id.split(" ") if entry.interrupt_id.count(" ") == 2 else ("", "", "")
    if not (revision.isdecimal() and digest):
        raise UserError("this is not the id of an interrupt")
    payload = cast("dict[str, Any]", entry.payload) if isinstance(entry.payload, dict) else {}
    details: Details = {"digest": digest, "revision": int(revision)}
    verdict: Verdict = "reject"
    if payload.get("approved") is True:
        verdict = "approve"
        if payload.get("editedArgs") is not None:
            verdict, details["edit"] = "edit", payload["editedArgs"]
    elif "answer" in payload:
        verdict, details["output"] = "answer", payload["answer"]
    elif payload.get("approved") is False:
        details["message"] = _reason(payload)
    else:
        raise UserError("the payload has `approved`, true or false, or an `answer`")
    await here.inbox.decide(row.id, verdict, **details)


def _reason(payload: dict[str, Any]) -> str | None:
    reason = payload.get("reason")
    return reason if isinstance(reason, str) and reason else None
