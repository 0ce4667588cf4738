"""Slack as a channel: a pending request as a message, with buttons that carry only which request they are of.

A click comes back to your server as a signed request; `slack_replies.py` verifies it and says who clicked on what. What
that person may decide is the inbox's affair.
"""

from __future__ import annotations

from typing import Any, cast

from ..core.errors import UserError
from ..core.settable import Sealed
from ..render.verdicts import takes_two
from ..support.daemon_threads import DaemonThreads
from .base import CHANNEL_RULES, Channel, ChannelBusy, ChannelRefused, Message, channel_name
from .slack_replies import ACTION

try:
    from slack_sdk import WebClient
    from slack_sdk.errors import SlackApiError
except ImportError as error:
    raise ImportError("the package slack-sdk is needed for Slack: pip install 'keyturn[slack]'") from error

# What of a verdict can be said by a click: no words are needed for it, and nothing is changed.
_CLICKS = {"approve": ("Approve", "primary"), "reject": ("Reject", "danger")}
_SECTION, _HEADER = 2_900, 148
# What Slack asks before it sends a click that approves a call of high risk.
_MEANT = {
    "confirm": {
        "title": {"type": "plain_text", "text": "High risk"},
        "text": {"type": "plain_text", "text": "Approve this call, exactly as the message shows it?"},
        "confirm": {"type": "plain_text", "text": "Approve"},
        "deny": {"type": "plain_text", "text": "Cancel"},
        "style": "danger",
    }
}
_PASSING = (
    *("internal_error", "fatal_error", "service_unavailable", "request_timeout", "team_added_to_org"),
    *("rollup_error", "message_limit_exceeded"),
)
_SERVER = 500


class SlackChannel(Channel, Sealed):
    """Posts to the channel or person (`C...`, `U...`) that is the recipient's address, else to `to`.

    `token` is the app's bot token, with the scope `chat:write`. `buttons` adds buttons to approve and to reject;
    without them there is the link, if the plan has one. A message that does not show the whole call, at a glance, has
    no button to approve. `base_url` is another server's: for tests.
    """

    _rules = CHANNEL_RULES

    def __init__(
        self,
        token: str,
        to: str = "",
        *,
        name: str = "slack",
        buttons: bool = False,
        base_url: str | None = None,
    ) -> None:
        if not token or not token.isprintable() or not token.isascii() or " " in token:
            raise UserError("token= is the bot token of a Slack app, such as xoxb-...")
        self.name = channel_name(name)
        self.timeout = 15.0
        self._to, self._buttons = to, buttons
        self._threads = DaemonThreads(self.at_once * 2)
        where = {} if base_url is None else {"base_url": base_url}
        self._client: Any = cast("Any", WebClient)(token=token, timeout=10, retry_handlers=[], **where)

    async def send(self, message: Message) -> None:
        address = message.to.address or self._to
        if not address:
            raise ChannelRefused("this recipient has no address in Slack: give one, or the channel to=")
        said = {
            "channel": address,
            "text": escaped(message.title),
            "blocks": blocks(message, buttons=self._buttons),
            "unfurl_links": False,
            "unfurl_media": False,
            "parse": "none",
            "link_names": False,
        }
        try:
            await self._threads.run(lambda: self._client.chat_postMessage(**said))
        except SlackApiError as error:
            raise _judged(cast("Any", error).response) from None


def blocks(message: Message, *, buttons: bool = False) -> list[dict[str, Any]]:
    """Return a message as blocks of plain text, which Slack reads no marks in.

    >>> from keyturn.channels.base import Recipient
    >>> ada = Recipient(person="ada", channel="slack")
    >>> blocks(Message(id="m1", topic="request.created", to=ada, title="desk asks"))[0]["text"]["text"]
    'desk asks'
    """
    made: list[dict[str, Any]] = [{"type": "header", "text": _plain(message.title, _HEADER)}]
    if message.text:
        made.append({"type": "section", "text": _plain(message.text, _SECTION)})
    elements = list[dict[str, Any]]()
    if message.link:
        elements.append(_button("Open", f"{ACTION}open") | {"url": message.link})
    for verdict, (label, style) in _CLICKS.items():
        cut = len(message.title) > _HEADER or len(message.text) > _SECTION
        hidden = verdict == "approve" and (not message.whole or cut)
        if buttons and message.request and verdict in message.verdicts and not hidden:
            value = f"{message.request}.{message.revision}"
            asked = _MEANT if verdict == "approve" and takes_two(str(message.facts.get("risk", ""))) else {}
            elements.append(_button(label, ACTION + verdict) | {"value": value, "style": style} | asked)
    return [*made, {"type": "actions", "elements": elements}] if elements else made


def escaped(text: str) -> str:
    """Return text in which Slack's mark-up finds no mention, link or command.

    >>> escaped("<!channel> & <https://evil.example|here>")
    '&lt;!channel&gt; &amp; &lt;https://evil.example|here&gt;'
    """
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _plain(text: str, most: int) -> dict[str, Any]:
    """Return a text object that is shown as it is; longer than `most` it is cut with a mark."""
    mark = "\\[cut]"
    shown = text if len(text) <= most else text[: most - len(mark)] + mark
    return {"type": "plain_text", "text": shown, "emoji": False}


def _button(label: str, action: str) -> dict[str, Any]:
    return {"type": "button", "text": _plain(label, _HEADER), "action_id": action}


def _judged(response: object) -> Exception:
    """Return what Slack's refusal means: later, never, or again."""
    status, data = int(getattr(response, "status_code", 0) or 0), getattr(response, "data", None)
    known = cast("dict[str, Any]", data) if isinstance(data, dict) else dict[str, Any]()
    error = str(known.get("error", ""))[:60]
    if status == 429 or error in ("ratelimited", "rate_limited"):
        after = {str(name).lower(): value for name, value in dict(getattr(response, "headers", {}) or {}).items()}
        seconds = str(after.get("retry-after", "30"))
        return ChannelBusy("Slack asks to wait", seconds=float(seconds) if seconds.isdigit() else 30.0)
    if status >= _SERVER or error in _PASSING or not known:
        return RuntimeError(f"Slack failed: {status} {error}")
    return ChannelRefused(f"Slack refused the message: {error}")
