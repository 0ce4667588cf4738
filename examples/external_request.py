"""A program without Keyturn's agents asks for approval of a call that it runs itself: ask, claim once, report.

Over HTTP this is `POST /v1/asks`, in a client `client.asks`. Arguments are returned byte for byte, a claim names the
digest of what was shown, and exactly one claim succeeds.

Prints:
pending: deploy {"service": "api"}
approved by ada
claimed by the first worker
refused to the second: this call was already claimed, and is run by the first claimant
succeeded: version 81
"""

import asyncio

from keyturn import App, Ask, Conflict, ExternalAgent


async def main() -> None:
    async with App([ExternalAgent()], "memory://") as app:
        ask = Ask(key="deploy-81", tool="deploy", arguments='{"service": "api"}', context={"framework": "our CI"})
        state = await app.asks.ask(ask, account="ci")
        print(f"{state.status}: {state.tool} {state.arguments}")

        while not (rows := await app.inbox.list()):
            await asyncio.sleep(0.01)
        await app.inbox.approve(rows[0], by="ada")  # a person, on a page or in a terminal

        state = await app.asks.wait(state.id, 30, account="ci")
        print(state.status, "by", state.decided_by)
        await app.asks.claim(state.id, state.digest, "worker 1", account="ci")
        print("claimed by the first worker")
        try:
            await app.asks.claim(state.id, state.digest, "worker 2", account="ci")
        except Conflict as error:
            print(f"refused to the second: {error}")
        # run the call here
        state = await app.asks.report(state.id, "worker 1", "succeeded", "version 81", account="ci")
        print(f"{state.status}: {state.result}")


if __name__ == "__main__":
    asyncio.run(main())
