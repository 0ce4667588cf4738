"""The shared suite of the channels room: what every way of telling people promises.

A subclass says how its channel is made, who is told, how its receiver is made to fail, and what the receiver read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

import pytest

from ...agents.agent import Agent
from ...channels.base import Channel, ChannelRefused, Message, Recipient
from ...channels.messages import NoticedRequest, message_of
from ...core.preview import REDACTED
from ...engine.runner import Runner
from ...journal.memory import MemoryJournal
from ...journal.rows import Delivery, RequestRow
from ...models.scripted.items import function_call
from ...models.scripted.model import ScriptedModel
from ...tools.function import function_tool
from ...tools.functions.schema import Secret

Mood = Literal["takes", "fails", "refuses", "hangs", "trickles", "floods"]

HOSTILE = (
    "\x1b]0;owned\x07\u202egnp.exe\u200b <!channel> *b* <b>x</b> [a](javascript:alert(1)) @everyone\r\n.\r\nRCPT TO:"
)
#: What no receiver may get as it stands.
RAW = ("\x1b", "\x07", "\u202e", "\u200b", "\r\n.\r\n")
SECRET = "hunter2-of-this-test"


@function_tool(needs_approval=True)
def pay(to: str, password: Annotated[str, Secret]) -> str:
    """Pay somebody."""
    return f"paid {to}"


async def request_to_tell(text: str = "ada", secret: str = "x") -> RequestRow:
    """Return the request of a run that waits, with a secret among its arguments.

    >>> asyncio.run(request_to_tell()).tool
    'pay'
    """
    model = ScriptedModel([[function_call("pay", {"to": text, "password": secret})], "done"])
    journal = MemoryJournal()
    await Runner.run(Agent("desk", model=model, tools=[pay]), "go", journal=journal)
    return (await journal.requests())[0]


def message_for(row: RequestRow, to: Recipient, link: str | None = None) -> Message:
    """Make the message that tells a recipient of a new request."""
    delivery = Delivery(to.channel, to.person, "request.created", row.run, row.id, {"at": row.asked_at}, number=7)
    return message_of([NoticedRequest(delivery, row)], to, "default", link)


class ChannelSuite:
    """Tests a channel; subclass it, and give it `make_channel`, `recipient`, `mood` and `read`.

    >>> ChannelSuite.tells_refusals
    True
    """

    pytestmark = pytest.mark.asyncio

    #: Whether a receiver that refuses for good can be told from one that fails.
    tells_refusals: ClassVar[bool] = True
    #: Whether what would run is part of what the receiver reads.
    shows_text: ClassVar[bool] = True
    #: The ways in which its receiver can fail.
    moods: ClassVar[Sequence[Mood]] = ("fails", "hangs", "trickles", "floods")

    async def make_channel(self) -> Channel:
        """Make the channel, once per test, and its receiver."""
        raise NotImplementedError("say how a channel is made")

    def recipient(self) -> Recipient:
        """Return who is told."""
        raise NotImplementedError("say who is told")

    def mood(self, mood: Mood) -> None:
        """Have the receiver take, or fail, from now on."""
        raise NotImplementedError("say how the receiver fails")

    def read(self) -> list[str]:
        """Return what the receiver took, each message as the text that it holds."""
        raise NotImplementedError("say what was read")

    async def told(self, channel: Channel, text: str = "ada", secret: str = "x") -> Message:
        """Send a message of a request, as a dispatcher does."""
        message = message_for(await request_to_tell(text, secret), self.recipient(), "https://kt.example/{request}")
        async with asyncio.timeout(channel.timeout):
            await channel.send(message)
        return message

    async def test_it_tells(self) -> None:
        channel = await self.make_channel()
        message = await self.told(channel)
        [read] = self.read()
        assert message.title in read
        assert f"https://kt.example/{message.request}" in read

    async def test_a_receiver_that_fails_is_no_refusal_and_is_asked_again(self) -> None:
        for mood in self.moods:
            channel = await self.make_channel()
            channel.timeout = min(channel.timeout, 1.0)
            self.mood(mood)
            before = len(self.read())
            if mood != "floods":
                with pytest.raises(Exception) as raised:  # noqa: PT011  # each library has its own
                    await self.told(channel)
                assert not isinstance(raised.value, ChannelRefused), mood
            else:  # what it answers beyond its status is not read
                await self.told(channel)
            self.mood("takes")
            await self.told(await self.make_channel())
            assert len(self.read()) > before

    async def test_a_refusal_is_one(self) -> None:
        channel = await self.make_channel()
        self.mood("refuses")
        with pytest.raises(Exception) as raised:  # noqa: PT011  # each library has its own
            await self.told(channel)
        assert isinstance(raised.value, ChannelRefused) is self.tells_refusals

    async def test_nothing_else_waits_while_a_receiver_hangs(self) -> None:
        channel = await self.make_channel()
        if "hangs" not in self.moods:
            return
        channel.timeout = 0.5
        self.mood("hangs")
        sending = asyncio.ensure_future(self.told(channel))
        turns = 0
        while not sending.done():
            await asyncio.sleep(0.01)
            turns += 1
        with pytest.raises(Exception):  # noqa: B017, PT011  # whichever says that it took too long
            await sending
        assert turns > 5

    async def test_hostile_text_is_shown_and_does_nothing(self) -> None:
        """F1, F2, F4: nothing that acts, hides or moves others reaches the receiver."""
        channel = await self.make_channel()
        await self.told(channel, HOSTILE)
        for read in self.read():
            assert not any(raw in read for raw in RAW)
            assert not any(ord(char) < 32 and char not in "\n\a" for char in read)
        if self.shows_text:
            assert "\\u{202e}" in self.read()[0]

    async def test_what_is_cut_says_so_and_the_whole_digest_stands(self) -> None:
        channel = await self.make_channel()
        for times, mark in ((5_000, "\\[cut"), (60_000, "\\[not shown here")):
            message = await self.told(channel, "A long story. " * times)
            read = self.read()[-1]
            assert len(read) < 20_000
            if self.shows_text:
                assert mark in read
                assert message.digest in read

    async def test_no_secret_leaves(self) -> None:
        """F7."""
        channel = await self.make_channel()
        await self.told(channel, "ada", SECRET)
        assert SECRET not in str(self.everything())
        if self.shows_text:
            assert REDACTED in self.read()[0]

    def everything(self) -> Any:
        """Return all that reached the receiver, headers included."""
        return self.read()
