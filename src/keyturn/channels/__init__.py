"""Telling people that something waits: one file is one way to do so, `base.py` is the seam.

base        a channel, a message, a recipient with their wishes
plan        what an app says about telling people
dispatcher  the outbox's one worker, under a lease
addressing  from notices to deliveries
lane        the deliveries of one channel
messages    what a message says
"""

from __future__ import annotations

#: The channels that come with Keyturn, by what they are called in `keyturn.channels`.
CHANNELS = {
    "apprise": "keyturn.channels.apprise:AppriseChannel",
    "slack": "keyturn.channels.slack:SlackChannel",
    "terminal": "keyturn.channels.terminal:TerminalChannel",
    "webhook": "keyturn.channels.webhook:WebhookChannel",
    "webpush": "keyturn.channels.webpush:WebPushChannel",
}
