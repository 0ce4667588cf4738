"""Each loop has a client of its own, which is closed with it."""

from __future__ import annotations

import asyncio

from keyturn.models.per_loop import ClientPerLoop, certificates


class Client:
    """Knows in which loop it was closed."""

    def __init__(self) -> None:
        self.closed_in: asyncio.AbstractEventLoop | None = None
        self.made_in = asyncio.get_running_loop()

    async def aclose(self) -> None:
        await asyncio.sleep(0)
        self.closed_in = asyncio.get_running_loop()


def test_a_loop_that_ends_closes_its_client() -> None:
    clients = ClientPerLoop(Client, Client.aclose)

    async def ask() -> Client:
        first = await clients.client()
        assert await clients.client() is first
        return first

    one, other = asyncio.run(ask()), asyncio.run(ask())
    assert one is not other
    assert (one.closed_in, other.closed_in) == (one.made_in, other.made_in)


async def test_a_client_can_be_closed_before_and_another_is_made() -> None:
    clients = ClientPerLoop(Client, Client.aclose)
    await clients.close()  # there is none
    first = await clients.client()
    await clients.close()
    assert first.closed_in is asyncio.get_running_loop()
    second = await clients.client()
    assert second is not first
    await clients.close()
    assert second.closed_in is not None


def test_certificates_are_read_once() -> None:
    assert certificates() is certificates()
