"""A Celery task that waits for approval does not hold its worker: it is retried, and joins its request by its own id.

A task that the broker delivers twice joins the same request as well, and the call runs once. The broker is in memory
here, and the worker in a thread.

Prints:
pending: refund
refunded 5 for A1
"""

import asyncio
import tempfile
from typing import Any

from celery import Celery  # pyright: ignore[reportMissingTypeStubs]  # it has no types
from celery.contrib.testing import worker  # pyright: ignore[reportMissingTypeStubs]  # nor this

from keyturn import App, ExternalAgent
from keyturn.gating import CallWaiting, Gated


def refunds(celery: Any, gate: Gated) -> Any:
    """Add the task: it asks under its id, and looks again later as long as the decision is pending."""

    @gate(expires="4h")
    def refund(order: str, amount: int) -> str:
        """Refund an order."""
        return f"refunded {amount} for {order}"

    @celery.task(bind=True, max_retries=None, acks_late=True)
    def refund_order(task: Any, order: str, amount: int) -> str:
        with gate.context(run=task.request.id, wait=False):
            try:
                return refund(order, amount)
            except CallWaiting as waiting:
                raise task.retry(countdown=0.1, exc=waiting) from None  # 60 in production

    return refund_order


async def decide(journal: str) -> None:
    """Approve the request: in place of `keyturn inbox`."""
    async with App([ExternalAgent()], journal, worker=False) as app:
        while not (rows := await app.inbox.list()):
            await asyncio.sleep(0.05)
        print(f"pending: {rows[0].tool}")
        await app.inbox.approve(rows[0], by="ada")


def main() -> None:
    celery: Any = Celery("shop", broker="memory://", backend="cache+memory://")
    with tempfile.TemporaryDirectory() as folder:
        journal = f"sqlite:///{folder}/approvals.db"
        gate = Gated(journal)
        refund_order = refunds(celery, gate)
        testing: Any = worker
        with testing.start_worker(celery, perform_ping_check=False, loglevel="ERROR"):
            made = refund_order.delay("A1", 5)
            asyncio.run(decide(journal))
            print(made.get(timeout=60))
        gate.close()


if __name__ == "__main__":
    main()
