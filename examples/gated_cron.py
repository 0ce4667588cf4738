"""A cron job asks in one run and does its work in a later one: a key joins the runs to one request, which runs once.

Each run is a process that ends at once; three of them are played here.

Prints:
01:00 pending
02:00 deleted what is older than 2026-11-01
03:00 deleted what is older than 2026-11-01
the function ran 1 time
"""

import asyncio
import tempfile

from keyturn import App, ExternalAgent
from keyturn.gating import CallWaiting, Gated

DELETED: list[str] = []


def job(hour: str, journal: str) -> None:
    """Run as cron runs it: without waiting, and with nothing kept between the runs but the journal."""
    gate = Gated(journal)

    @gate(key=lambda given: given["before"], expires="24h")
    def delete_old(before: str) -> str:
        """Delete what is older."""
        DELETED.append(before)
        return f"deleted what is older than {before}"

    with gate.context(run="nightly", wait=False):
        try:
            print(hour, delete_old("2026-11-01"))
        except CallWaiting:
            print(hour, "pending")
    gate.close()


async def approve(journal: str) -> None:
    """Approve the request: in place of `keyturn inbox`."""
    async with App([ExternalAgent()], journal) as app:
        while not (rows := await app.inbox.list()):
            await asyncio.sleep(0.05)
        await app.inbox.approve(rows[0], by="ada")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        journal = f"sqlite:///{folder}/approvals.db"
        job("01:00", journal)
        asyncio.run(approve(journal))
        job("02:00", journal)
        job("03:00", journal)
    print(f"the function ran {len(DELETED)} time")


if __name__ == "__main__":
    main()
