"""An agent of another framework asks over the Agent Approval Protocol (AAP), with the protocol's own client.

The adapters of `agentapprovalprotocol` do the same for the tools of the OpenAI Agents SDK, Pydantic AI, LangGraph and
others: each has the server's address and a token. Here the server is this process.

Prints:
reject: A reviewer at the AAP (Agent Approval Protocol) provider denied this call. Their note: Denied by ada. Too much.
approve: refunded {'order': 'A1', 'amount': 50}
again: This approved call was already attempted
"""

import asyncio

import httpx
from agentapprovalprotocol import Allow, AsyncClient, AsyncGate, Call, Deny

from keyturn import App, ExternalAgent

REFUND = {"order": "A1", "amount": 50}


async def run(gate: AsyncGate, key: str) -> str:
    verdict = await gate.check(Call(key=key, tool="refund", arguments=REFUND))
    match verdict:
        case Allow():
            result = f"refunded {REFUND}"
            await verdict.report("succeeded", result)
            return result
        case Deny():
            return verdict.reason
        case _:
            return "pending"


async def decide(app: App, word: str) -> None:
    while not (requests := await app.inbox.list()):
        await asyncio.sleep(0.01)
    if word == "reject":
        await app.inbox.reject(requests[0], by="ada", message="Too much.")
    else:
        await app.inbox.approve(requests[0], by="ada")


async def main() -> None:
    async with App([ExternalAgent()], "memory://") as app:
        await app.people.start("ada")
        await app.people.add("desk", kind="machine", by="ada")
        token = await app.people.issue_token("desk", ["ask"], by="ada")
        http = httpx.AsyncClient(transport=httpx.ASGITransport(app=app.asgi()))
        gate = AsyncGate(AsyncClient("http://localhost/aap", token, http=http))
        for word in ("reject", "approve"):
            result, _ = await asyncio.gather(run(gate, f"call-{word}"), decide(app, word))
            print(f"{word}: {result}")
        again = await run(gate, "call-approve")
        print("again:", again.partition(",")[0])


if __name__ == "__main__":
    asyncio.run(main())
