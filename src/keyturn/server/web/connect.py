"""The page that connects others: a token for a service account, the lines of each door, and a test request.

A test request is one of the visitor's own: asked, decided in the inbox, claimed and reported as any external call is.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import NamedTuple

from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from ...asks.agent import ExternalAgent
from ...asks.ask import Ask, AskState
from ...core.approval import Approval
from ...core.errors import KeyturnError, RunMissing
from ..address import origin_of
from ..errors import Refused, refused
from .form import PageForm, ReaderPage, administers, change, form_of
from .pages import PageContext, page
from .people import LASTS

router = APIRouter(include_in_schema=False)

_TOOL = "test_request"
_SAYS = "A test request from the page Connect. Nothing runs, whatever you decide."


class ConnectLines(NamedTuple):
    """Holds one way to connect: what it is for, and the lines to copy, with places for the server and the token."""

    name: str
    what: str
    lines: str


DOORS = (
    ConnectLines(
        "Claude Code, Codex CLI, Gemini CLI",
        "Shell commands and file changes wait for approval. The agent is claude-code, codex or gemini; in Codex, trust "
        "the hook once with /hooks.",
        "(umask 077; echo '{token}' > keyturn.token)\n"
        "keyturn hook install claude-code --server {server} --token-file keyturn.token",
    ),
    ConnectLines(
        "Coding agents in an editor (ACP): Zed, JetBrains",
        "What the agent asks permission for waits for approval. Put the proxy before the agent's command, in the "
        "settings of the editor.",
        '"command": "keyturn", "args": ["acp", "--", "gemini", "--acp"],\n'
        '"env": {{"KEYTURN_SERVER": "{server}", "KEYTURN_TOKEN": "{token}"}}',
    ),
    ConnectLines(
        "MCP servers",
        "Put the gate before the command of the server, in the configuration of any MCP client.",
        '"command": "keyturn", "args": ["gate", "--", "npx", "some-server"],\n'
        '"env": {{"KEYTURN_SERVER": "{server}", "KEYTURN_TOKEN": "{token}"}}',
    ),
    ConnectLines(
        "Python functions",
        "Each call of a function with the decorator @gate requests approval, waits, and runs once.",
        'from keyturn.gating import Gated\ngate = Gated("{server}", token="{token}")',
    ),
    ConnectLines(
        "LangGraph, LangChain",
        "The interrupts of a graph are requests, and the decisions resume its threads, each once.",
        'from keyturn.langgraph import Mirror\nawait Mirror(graph, "{server}", token="{token}").serve()',
    ),
    ConnectLines(
        "OpenAI Agents SDK, Pydantic AI, LangGraph, ADK, CrewAI, Claude Agent SDK",
        "Every tool call of the agent waits for approval, by the Agent Approval Protocol: pip install "
        "agentapprovalprotocol. The lines are for the OpenAI Agents SDK; the manual has those of the others.",
        "from agentapprovalprotocol.openai_agents import Approvals\n"
        'Approvals("{server}/aap", "{token}").protect(agent)',
    ),
    ConnectLines(
        "HTTP",
        "Request approval. Once it is given, claim the call (/v1/asks/ID/claim), run it, report (.../outcome).",
        "curl {server}/v1/asks --oauth2-bearer {token} "
        """--json '{{"key": "deploy-81", "tool": "deploy", "arguments": "{{}}"}}'""",
    ),
)


@router.get("/connect")
async def connect_page(request: HttpRequest, at: ReaderPage) -> Response:
    """Show how agents, scripts and services are connected, and how the visitor's test request stands."""
    return await _drawn(request, at, None)


@router.post("/connect")
async def issue(request: HttpRequest, at: ReaderPage) -> Response:
    """Issue a token that may ask to a service account, added where it is missing: it is on this answer alone."""
    account = ""
    try:
        administers(at)
        form = await form_of(request, at)
        people, account = at.app.people, form.text("account")
        if (await people.directory()).person(account) is None:
            await people.add(account, kind="machine", by=at.visitor.login)
        expires = form.text("expires") or None
        token = await people.issue_token(account, ["ask"], by=at.visitor.login, label="connect", expires=expires)
    except KeyturnError as error:
        return await _drawn(request, at, refused(error), account=account)
    return await _drawn(request, at, None, token=token)


@router.post("/connect/test")
async def test(request: HttpRequest, at: ReaderPage) -> Response:
    """Send a test request, or claim and report, or withdraw, the one that was sent."""

    async def make(form: PageForm) -> str:
        administers(at)
        sent = await _test(at, form.text("test"))
        id = await _send(at) if sent is None else await _move(at, sent, form.text("do"))
        return f"/connect?test={id}#test"

    return await change(request, at, make, lambda said: _drawn(request, at, said))


async def _send(at: PageContext) -> str:
    """Send a test request, and return its id once it is pending."""
    key = f"test-{secrets.token_hex(8)}"
    ask = Ask(key=key, tool=_TOOL, description=_SAYS, terms=Approval(expires="1h"), context={"page": "Connect"})
    agent = next(iter(_agents(at)), None)
    state = await at.app.asks.ask(ask, account=at.visitor.id, requester=at.visitor.id, agent=agent)
    with suppress(TimeoutError):  # the page says that no worker took it up
        await at.app.wait(state.id, 5)
    return state.id


async def _move(at: PageContext, test: AskState, what: str) -> str:
    """Claim and report a test request, or withdraw it."""
    asks, account = at.app.asks, at.visitor.id
    match what:
        case "claim":
            await asks.claim(test.id, test.digest, "connect", account=account)
            await asks.report(test.id, "connect", "succeeded", "Nothing ran.", account=account)
        case "withdraw":
            await asks.withdraw(test.id, account=account, why="The test is over.")
        case _:
            return await _send(at)
    return test.id


def _agents(at: PageContext) -> list[str]:
    """Return the names of the app's agents that answer external callers."""
    return [name for name, agent in at.app.agents.items() if isinstance(agent, ExternalAgent)]


async def _drawn(
    request: HttpRequest, at: PageContext, refusal: Refused | None, *, token: str = "", account: str = ""
) -> Response:
    words = {"server": f"{origin_of(request, secure=at.settings.secure)}{at.root}", "token": token or "TOKEN"}
    return page(
        at,
        "connect.html",
        200 if refusal is None else refusal.status,
        refusal=refusal,
        token=token,
        account=account,
        doors=[door._replace(lines=door.lines.format(**words)) for door in DOORS],
        lasts=LASTS,
        answers=bool(_agents(at)),
        test=await _test(at, request.query_params.get("test", "")),
    )


async def _test(at: PageContext, id: str) -> AskState | None:
    """Return how the visitor's test request of this id stands, if it is one."""
    try:
        state = await at.app.asks.get(id, account=at.visitor.id) if id else None
    except RunMissing:
        return None
    return state if state is not None and state.tool == _TOOL else None
