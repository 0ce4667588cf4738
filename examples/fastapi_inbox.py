"""An inbox in a FastAPI app: requests as JSON, decisions of people who logged in, and runs that go on by themselves.

It needs `pip install fastapi uvicorn`. Run `python examples/fastapi_inbox.py`, and
send `Authorization: token-of-ann` along.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Header, HTTPException

from keyturn import Agent, App, Approval, Conflict, Decider, Request, function_tool
from keyturn.testing import ScriptedModel, function_call, tool_outputs


@function_tool(approval=Approval(role="finance"))
def pay(to: str, amount: int) -> str:
    """Pay somebody."""
    return f"paid {amount} to {to}"


def reply(request: Any) -> Any:
    return "Paid." if tool_outputs(request) else [function_call("pay", {"to": "ada", "amount": 900})]


clerk = App([Agent[None](name="clerk", model=ScriptedModel(reply), tools=[pay])], "memory://")
TOKENS = {"token-of-ann": "ann", "token-of-bob": "bob"}  # in place of your own login


def person(authorization: Annotated[str, Header()] = "") -> Decider:
    if authorization not in TOKENS:
        raise HTTPException(401)
    return Decider(TOKENS[authorization], roles=("finance",), strength="authenticated")


@asynccontextmanager
async def lifespan(_web: FastAPI) -> AsyncGenerator[None]:
    async with clerk:  # its worker lives as long as the server
        yield


Person = Annotated[Decider, Depends(person)]
web = FastAPI(lifespan=lifespan)


@web.post("/runs")
async def start(text: str, who: Person) -> str:
    return (await clerk.start("clerk", text, requester=who.id)).id


@web.get("/inbox")
async def inbox(who: Person) -> list[Request]:
    return [row.request for row in await clerk.inbox.list()]


@web.post("/inbox/{request_id}/approve")
async def approve(request_id: str, digest: str, who: Person) -> str:
    try:  # the digest says what the person saw
        return (await clerk.inbox.approve(request_id, digest=digest, by=who)).state
    except Conflict as error:
        raise HTTPException(409, str(error)) from error


@web.get("/runs/{run_id}")
async def result(run_id: str, who: Person) -> dict[str, Any]:
    result = await clerk.result(run_id, timeout=30)  # once it is over, or waits
    return {"answer": result.final_output, "waits": len(result.interruptions)}


def main() -> None:
    import uvicorn

    uvicorn.run(web)  # http://127.0.0.1:8000/docs shows and tries each of these


if __name__ == "__main__":
    main()
