"""Verify what Slack sends back, and read from it who clicked on what.

Nothing is decided here. A click names the asking that was shown; the inbox decides it for the person whom your
directory has under that Slack user, or refuses.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

import msgspec
from msgspec.structs import replace

from ..core.errors import KeyturnError, UserError
from ..core.immutable import immutable
from ..core.settable import Sealed

#: How the ids of our buttons begin.
ACTION = "keyturn."
#: How old a request of Slack's may be, in seconds, and how large.
WINDOW, LARGEST = 300, 262_144
_REMEMBERED = 50_000


class SlackRefused(KeyturnError):
    """Raised for a request that is not Slack's, is too old or was sent before: answer 401, and say no more.

    >>> issubclass(SlackRefused, KeyturnError)
    True
    """


@immutable
class SlackClick(msgspec.Struct, frozen=True):
    """Says that a user of a Slack workspace clicked a button: `verdict` on an asking, "open" for the link.

    `at` is when Slack signed it, in seconds since 1970.

    >>> SlackClick("approve", "5e1f", 1, "U1", "T1").request
    '5e1f'
    """

    verdict: str
    request: str
    revision: int
    user: str
    team: str
    response_url: str = ""
    at: int = 0


class SlackReplies(Sealed):
    """Verifies Slack's requests with the app's signing secret, and takes each once.

    >>> SlackReplies("8f742231b10e8888abcd99yyyzzz85a5").verify(b"", {})
    Traceback (most recent call last):
    ...
    keyturn.channels.slack_replies.SlackRefused: this is no request of Slack's: it has no signature
    """

    def __init__(self, signing_secret: str) -> None:
        if not signing_secret or not signing_secret.strip():
            raise UserError("signing_secret= is the signing secret of a Slack app")
        self._secret = signing_secret.encode()
        self._seen = OrderedDict[str, float]()

    def verify(self, body: bytes, headers: Mapping[str, str], *, now: float | None = None) -> list[SlackClick]:
        """Return the clicks of an interaction, given its raw body and headers, or raise `SlackRefused`."""
        at = time.time() if now is None else now
        signature, signed_at = self._checked(body, headers, at)
        clicks = clicks_in(body)
        self._once(signature, at)
        return [replace(click, at=signed_at) for click in clicks]

    def _checked(self, body: bytes, headers: Mapping[str, str], now: float) -> tuple[str, int]:
        """Return the signature of a request, and when it was signed."""
        given = {name.lower(): value for name, value in headers.items()}
        stamp, signature = given.get("x-slack-request-timestamp", ""), given.get("x-slack-signature", "")
        if not stamp or not signature:
            raise SlackRefused("this is no request of Slack's: it has no signature")
        if len(body) > LARGEST or not (stamp.isascii() and stamp.isdigit() and len(stamp) < 16):
            raise SlackRefused("this is no request of Slack's: it is too large, or its time is none")
        if abs(now - int(stamp)) > WINDOW:
            raise SlackRefused("this request of Slack's is too old, or this machine's clock is wrong")
        made = "v0=" + hmac.new(self._secret, f"v0:{stamp}:".encode() + body, hashlib.sha256).hexdigest()
        if not hmac.compare_digest(made.encode(), signature.encode("utf-8", "replace")):
            raise SlackRefused("this is no request of Slack's: its signature does not fit")
        return made, int(stamp)

    def _once(self, signature: str, now: float) -> None:
        """Take a request once within the time in which it is valid."""
        while self._seen and (len(self._seen) > _REMEMBERED or next(iter(self._seen.values())) < now - 2 * WINDOW):
            self._seen.popitem(last=False)
        if signature in self._seen:
            raise SlackRefused("this request of Slack's was taken before")
        self._seen[signature] = now


def clicks_in(body: bytes) -> list[SlackClick]:
    """Read the clicks of a request that was verified."""
    try:
        payload: Any = json.loads(parse_qs(body.decode(), strict_parsing=True, max_num_fields=8)["payload"][0])
        if payload.get("type") != "block_actions":
            return []
        who = (str(payload["user"]["id"]), str((payload.get("team") or payload["user"])["id"]))
        found = [_click(action, who, str(payload.get("response_url", ""))) for action in payload["actions"]]
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        raise SlackRefused("this request of Slack's is no interaction that is understood") from None
    return [click for click in found if click is not None]


def _click(action: Mapping[str, Any], who: tuple[str, str], response_url: str) -> SlackClick | None:
    """Read one action; None for one of somebody else's buttons."""
    name = str(action["action_id"])
    if not name.startswith(ACTION):
        return None
    request, _, revision = str(action.get("value", "")).rpartition(".")
    verdict = name.removeprefix(ACTION)
    if verdict not in ("open", "approve", "reject") or (verdict != "open" and not (request and revision.isdecimal())):
        raise ValueError("a button that is none of ours")
    return SlackClick(verdict, request, int(revision or 0), *who, response_url)
