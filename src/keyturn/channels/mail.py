"""E-mail as a channel, by SMTP: a text and a page of HTML that say the same, to one address, with one link.

It opens a connection for each message, in a thread. Mails of a request are one conversation in a reader's mailbox, and
no mail answers one of ours. `mail_pages.py` draws the HTML.
"""

from __future__ import annotations

import smtplib
import ssl
from contextlib import suppress
from email.errors import HeaderParseError
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate
from typing import Literal

from ..core.errors import UserError
from ..core.settable import Sealed
from ..support.daemon_threads import DaemonThreads
from .base import CHANNEL_RULES, Channel, ChannelRefused, Message, channel_name
from .mail_pages import FOOT, page

Security = Literal["starttls", "tls", "none"]

_PORTS: dict[Security, int] = {"starttls": 587, "tls": 465, "none": 25}
_SUBJECT = 200
_LONGEST = 500  # characters of a name and its address, of which mail servers take 254
_STEP = 10.0  # how long one answer of the server may take, in seconds
_PERMANENT = 500


class MailChannel(Channel, Sealed):
    """Sends e-mail from `sender` ("Keyturn <keyturn@example.org>") by the SMTP server `host`.

    The connection is encrypted: by STARTTLS, or from its beginning with `security="tls"`. With "none" it is not, which
    is for a server on the same machine or network, and no `login` (user name and password) is sent over it. `tls` is
    your own TLS context.
    """

    _rules = CHANNEL_RULES

    def __init__(
        self,
        host: str,
        sender: str,
        *,
        port: int | None = None,
        security: Security = "starttls",
        login: tuple[str, str] | None = None,
        to: str = "",
        name: str = "mail",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.name = channel_name(name)
        self.timeout = 45.0
        if security not in _PORTS:
            raise UserError('security= is "starttls", "tls" or "none"')
        if security == "none" and login is not None:
            raise UserError('a password is sent over an encrypted connection only: security="starttls" or "tls"')
        self._host, self._port = host, port or _PORTS[security]
        self._security: Security = security
        self._login, self._to = login, to
        self._tls = tls or ssl.create_default_context()
        self._threads = DaemonThreads(self.at_once * 2)
        try:
            self._sender = _address(sender)
        except ChannelRefused:
            raise UserError('sender= is an address such as "Keyturn <keyturn@example.org>"') from None

    async def send(self, message: Message) -> None:
        to = message.to.address or self._to
        if not to:
            raise ChannelRefused("this recipient has no e-mail address: give one, or the channel to=")
        made = letter(message, self._sender, _address(to))
        await self._threads.run(lambda: self._deliver(made))

    def _deliver(self, made: EmailMessage) -> None:
        server = self._connected()
        try:
            if self._login is not None:
                server.login(*self._login)
            server.send_message(made)
        except smtplib.SMTPRecipientsRefused as error:
            code = max((answer[0] for answer in error.recipients.values()), default=0)
            raise _judged(code, "the recipient") from None
        except smtplib.SMTPDataError as error:
            raise _judged(error.smtp_code, "the message") from None
        finally:
            with suppress(smtplib.SMTPException, OSError):  # what was taken stays taken
                server.quit()
            server.close()

    def _connected(self) -> smtplib.SMTP:
        if self._security == "tls":
            return smtplib.SMTP_SSL(self._host, self._port, timeout=_STEP, context=self._tls)
        server = smtplib.SMTP(self._host, self._port, timeout=_STEP)
        if self._security == "starttls":
            try:
                server.starttls(context=self._tls)
            except BaseException:
                server.close()
                raise
        return server


def letter(message: Message, sender: Address, to: Address) -> EmailMessage:
    """Return a message as a mail: text for every reader, and HTML that says the same.

    >>> from keyturn.channels.base import Recipient
    >>> ada = Recipient(person="ada", channel="mail")
    >>> told = Message(id="m1", topic="request.created", to=ada, title="desk asks to run pay", text="expires: never")
    >>> print(letter(told, _address("kt@example.org"), _address("ada@example.org"))["Subject"])
    desk asks to run pay
    """
    made = EmailMessage(policy=SMTP)
    made["Subject"] = message.title[:_SUBJECT]
    made["From"], made["To"] = sender, to
    made["Date"] = formatdate()
    made["Message-ID"] = f"<{message.id}@{sender.domain}>"
    if message.request:
        made["References"] = f"<request-{message.request}@{sender.domain}>"
    made["Auto-Submitted"] = "auto-generated"
    made["X-Auto-Response-Suppress"] = "All"
    made.set_content("\n".join([message.title, "", *_text(message)]))
    made.add_alternative(page(message), subtype="html")
    return made


def _text(message: Message) -> list[str]:
    return [message.text, "", FOOT] if message.text else [FOOT]


def _address(text: str) -> Address:
    """Return the one address that a text is, or raise `ChannelRefused`."""
    if len(text) > _LONGEST:
        raise ChannelRefused(f"the address has {len(text)} characters, and {_LONGEST} are the most")
    name, bracket, rest = text.rpartition("<")
    spec = rest.removesuffix(">").strip() if bracket else text.strip()
    try:
        if not spec.isascii() or not (name + spec).isprintable():
            raise ValueError
        made = Address(name.strip().strip('"'), addr_spec=spec)
        if not made.username or "." not in made.domain.strip("."):
            raise ValueError
    except (ValueError, IndexError, HeaderParseError):
        raise ChannelRefused("the address is not an e-mail address, such as ada@example.org") from None
    return made


def _judged(code: int, what: str) -> Exception:
    """Return what an answer of the server means: never, or again."""
    if code >= _PERMANENT:
        return ChannelRefused(f"the mail server refused {what} ({code})")
    return RuntimeError(f"the mail server did not take {what} now ({code})")
