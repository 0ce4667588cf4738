"""Any function waits for approval: it runs once it was approved, with the arguments that were approved.

The gate keeps its requests in a journal; `Gated("https://your-server", token=...)` asks a server instead. The approver
is elsewhere: here in another thread, where they edit the first call.

Prints:
refunded 5 for A1
the call of 'refund' was rejected by ada: Ask Ann first.
"""

import asyncio
import tempfile
import threading

from keyturn import App, ExternalAgent
from keyturn.gating import CallDenied, Gated


async def decide(journal: str) -> None:
    """Approve the first request with another amount, and reject the second one: in place of `keyturn inbox`."""
    async with App([ExternalAgent()], journal, worker=False) as app:
        for number in range(2):
            while not (rows := await app.inbox.list()):
                await asyncio.sleep(0.05)
            if number == 0:
                await app.inbox.approve(rows[0], by="ada", edit={"order": "A1", "amount": 5})
            else:
                await app.inbox.reject(rows[0], by="ada", message="Ask Ann first.")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        journal = f"sqlite:///{folder}/approvals.db"
        gate = Gated(journal)

        @gate(expires="1h")
        def refund(order: str, amount: int) -> str:
            """Refund an order."""
            return f"refunded {amount} for {order}"

        approver = threading.Thread(target=lambda: asyncio.run(decide(journal)))
        approver.start()
        print(refund("A1", 50))
        try:
            refund("A2", amount=70)
        except CallDenied as denied:
            print(denied)
        approver.join()
        gate.close()


if __name__ == "__main__":
    main()
