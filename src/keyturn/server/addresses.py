"""Keep the address at which a person is told, and send it the code by which they show that it is theirs."""

from __future__ import annotations

import asyncio
import logging
import secrets

from limits import RateLimitItemPerHour

from ..application.app import App
from ..channels.base import Channel, Message, Recipient
from ..core.errors import UserError
from ..directory.people import People
from ..render.escape import escape
from .limits import Limits
from .visitor import Visitor

log = logging.getLogger("keyturn.server")

#: How many codes one person has sent: each is a message to an address of their choice.
CODES = RateLimitItemPerHour(10, namespace="person")


async def keep_address(
    app: App, people: People, limits: Limits, visitor: Visitor, person: str, channel: str, address: str
) -> None:
    """Keep an address; where it is not confirmed by that, send it a code.

    The subscription of a browser is not guessed by anybody: its own page brings it, and it needs no code.
    """
    known = app.channels.by_name.get(channel)
    sure = getattr(known, "browser_key", None) is not None and address.startswith("{")
    if address and not (sure or visitor.administers):
        limits.spend(CODES, visitor.id)
    await people.set_address(person, channel, address, by=visitor.login, sure=sure)
    code = await people.address_code(person, channel, address)
    if code and known is not None:
        await _send(known, Recipient(person=person, channel=channel, address=address), code)


async def _send(channel: Channel, to: Recipient, code: str) -> None:
    who = escape(to.person, keep="")
    message = Message(
        id=f"code-{secrets.token_hex(8)}",
        topic="address.code",
        to=to,
        title=f"Keyturn: {code} confirms this address",
        text=f"{who} wants to be told of requests here. If that is you, type the code under My account within a day. "
        "If it is not, do nothing, and give the code to nobody.",
    )
    try:
        async with asyncio.timeout(channel.timeout):
            await channel.send(message)
    except Exception as error:  # a channel raises what it likes, and quotes addresses
        log.warning("the code for an address on %r was not sent: %s", channel.name, type(error).__name__)
        raise UserError(
            "the code could not be sent there, and the address waits: look at it, or have an administrator confirm it"
        ) from None
