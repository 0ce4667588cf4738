"""Notification channels: each file is one way to notify approvers, `base.py` is the seam.

base        a channel, a message, a recipient with their wishes
plan        the channels and recipients of an app
dispatcher  the outbox's one worker, under a lease
addressing  from notices to deliveries
lane        the deliveries of one channel, with retry, backoff and dead letters
messages    the text of a notification
incidents   what PagerDuty and Opsgenie have in common
mail_pages  the HTML of an e-mail

Each name is imported when first used, so that a channel's package is needed only by whoever uses that channel.
"""

from __future__ import annotations

from ..support.lazy import lazy_names

_HOMES = {
    "AppriseChannel": "apprise",
    "Attempts": "plan",
    "Channel": "base",
    "ChannelBusy": "base",
    "ChannelPlan": "plan",
    "ChannelRefused": "base",
    "MailChannel": "mail",
    "Message": "base",
    "OpsgenieChannel": "opsgenie",
    "PagerDutyChannel": "pagerduty",
    "QuietHours": "base",
    "Recipient": "base",
    "SlackChannel": "slack",
    "SlackClick": "slack_replies",
    "SlackRefused": "slack_replies",
    "SlackReplies": "slack_replies",
    "TeamsChannel": "teams",
    "TerminalChannel": "terminal",
    "WebPushChannel": "webpush",
    "WebhookChannel": "webhook",
}

__all__ = [*_HOMES]  # pyright: ignore[reportUnsupportedDunderAll]  # the table is the list; the stub spells it out

__getattr__, __dir__ = lazy_names(globals(), _HOMES)
