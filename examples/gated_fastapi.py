"""A web application never waits for approval within a request: it answers 202, and runs the call once it is approved.

A client that looks too early is answered 409. Any process that has the function can resume the call by its id, and
whoever comes second gets the recorded result.

Prints:
202 pending
409 pending
200 refunded 5 for A1
200 refunded 5 for A1
"""

import asyncio
import tempfile

from fastapi import FastAPI, HTTPException
from fastapi.testclient import TestClient

from keyturn import App, ExternalAgent
from keyturn.gating import CallWaiting, Gated, GatedCallError


def shop(gate: Gated) -> FastAPI:
    app = FastAPI()

    @gate(expires="4h")
    def refund(order: str, amount: int) -> str:
        """Refund an order."""
        return f"refunded {amount} for {order}"

    @app.post("/refunds", status_code=202)
    def ask(order: str, amount: int) -> dict[str, str]:
        return {"id": refund.ask(order, amount).id, "detail": "pending"}

    @app.post("/refunds/{id}")
    def resume(id: str) -> dict[str, str]:
        with gate.context(wait=False):
            try:
                return {"detail": refund.resume(id)}
            except CallWaiting:
                raise HTTPException(409, "pending") from None
            except GatedCallError as error:  # it was rejected, or its time is up
                raise HTTPException(403, str(error)) from None

    return app


async def approve(journal: str) -> None:
    """Approve the request: in place of `keyturn inbox`."""
    async with App([ExternalAgent()], journal, worker=False) as app:
        while not (rows := await app.inbox.list()):
            await asyncio.sleep(0.05)
        await app.inbox.approve(rows[0], by="ada")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        gate = Gated(f"sqlite:///{folder}/approvals.db")
        client = TestClient(shop(gate))
        asked = client.post("/refunds", params={"order": "A1", "amount": 5})
        print(asked.status_code, asked.json()["detail"])
        for number in range(3):
            if number == 1:
                asyncio.run(approve(f"sqlite:///{folder}/approvals.db"))
            made = client.post(f"/refunds/{asked.json()['id']}")
            print(made.status_code, made.json()["detail"])
        gate.close()


if __name__ == "__main__":
    main()
