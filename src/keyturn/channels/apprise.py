"""Apprise as a channel: mail, ntfy, Teams, Telegram and a hundred more, by the URL that Apprise knows them under.

What it can send is a title and a text, so it says that a request is pending, and no more: without `details`
nothing of what would run leaves by it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ..core.errors import UserError
from ..core.settable import Sealed
from ..support.daemon_threads import DaemonThreads
from .base import CHANNEL_RULES, Channel, ChannelRefused, Message, channel_name

try:
    import apprise
except ImportError as error:
    raise ImportError("the package apprise is needed for these services: pip install 'keyturn[apprise]'") from error

_library: Any = apprise  # its types are partly unknown

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*", re.IGNORECASE)
# What some services read as a call to all of their readers.
_MENTIONS = re.compile(r"@(?=everyone|here|channel|all\b)|(?<=<)(?=[@!#])", re.IGNORECASE)
# What some services draw as a link under other words: "<https://a|b>" and "[b](https://a)".
_LINKS = re.compile(r"(?<=<)(?=[a-z][a-z0-9+.-]*:)|(?<=\])(?=\()", re.IGNORECASE)


class AppriseChannel(Channel, Sealed):
    """Sends by one of `services`, named by the recipient's address; the first one is for those without an address.

    `services` are Apprise's URLs by names of yours: they hold passwords and name servers, so you configure them. A
    recipient may give a URL of their own only for the `schemes` that you list, such as "tgram".
    """

    _rules = CHANNEL_RULES

    def __init__(
        self,
        services: Mapping[str, str],
        *,
        schemes: Iterable[str] = (),
        details: bool = False,
        name: str = "apprise",
    ) -> None:
        self.name = channel_name(name)
        self.timeout = 30.0
        self._details = details
        self._threads = DaemonThreads(self.at_once * 2)
        self._schemes = frozenset(scheme.lower() for scheme in schemes)
        self._services = dict(services)
        for known, url in self._services.items():
            if not self._opened(url):
                raise UserError(f"services= has a URL that Apprise does not understand, under {known!r}")

    async def send(self, message: Message) -> None:
        url = self._url(message.to.address)
        short = [f"digest {message.digest}" if message.digest else "", message.link]
        lines = message.text.split("\n") if self._details else short
        title = _tame(message.title)
        body = _tame("\n".join(line for line in lines if line)) or title

        def notify() -> bool:
            service = self._opened(url)
            if not service:
                raise ChannelRefused("Apprise does not understand this address")
            told = service.notify(body=body, title=title, body_format=_library.NotifyFormat.TEXT)
            return bool(told)

        if not await self._threads.run(notify):
            raise RuntimeError("the service did not take the message; Apprise logs why")

    def _url(self, address: str) -> str:
        if not address and self._services:
            return next(iter(self._services.values()))
        if address in self._services:
            return self._services[address]
        scheme, mark, _ = address.partition("://")
        if mark and _SCHEME.fullmatch(scheme) and scheme.lower() in self._schemes and address.isprintable():
            return address
        raise ChannelRefused("this address is none of the services, nor of a kind that people may give themselves")

    def _opened(self, url: str) -> Any:
        """Return Apprise with one service, which follows nobody elsewhere and keeps nothing on the disk."""
        asset = _library.AppriseAsset(
            async_mode=False,
            interpret_escapes=False,
            interpret_emojis=False,
            allow_templates=False,
            http_redirects=0,
            storage_mode=_library.PersistentStoreMode.MEMORY,
            plugin_paths=[],
            service_timeout=25,
            app_id="keyturn",
        )
        made = _library.Apprise(asset=asset)
        return made if made.add(url) and len(made) == 1 else None


def _tame(text: str) -> str:
    """Return text that notifies no group and hides no link: the sign that would is shown as what it is.

    >>> _tame("@everyone, ask ada@example.com")
    '\\\\u{40}everyone, ask ada@example.com'
    """
    return _LINKS.sub(" ", _MENTIONS.sub(lambda found: "\\u{40}" if found[0] else " ", text))
