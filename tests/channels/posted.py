"""How the suite of channels tests one that posts: to a receiver on loopback, whose every byte is kept."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, ClassVar

import pytest_asyncio

from keyturn.testing.loopback.receiver import ReceiverServer
from keyturn.testing.loopback.wire import HttpReply
from keyturn.testing.suites.channels import ChannelSuite, Mood


class Posted(ChannelSuite):
    """A channel that posts to the receiver."""

    replies: ClassVar[dict[str, HttpReply]] = {}

    @pytest_asyncio.fixture(autouse=True)
    async def receiver(self) -> AsyncGenerator[None]:
        async with ReceiverServer(self.replies) as self.server:
            yield

    def mood(self, mood: Mood) -> None:
        self.server.mood = mood

    def read(self) -> list[str]:
        return [self.text(request.body) for request in self.server.taken]

    def everything(self) -> Any:
        return [(request.headers, request.body, self.read()) for request in self.server.requests]

    def text(self, body: bytes) -> str:
        raise NotImplementedError
