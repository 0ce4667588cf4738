"""Draw a message as a page of HTML for mail readers: what would run, what is known of it, and one link to the inbox.

Mail readers run no scripts and keep few styles, so that each element has its own. All that comes from a message is
escaped, and no text of a message is ever a link.
"""

from __future__ import annotations

from html import escape

from .base import Message

FOOT = "Decide in the inbox: a reply to this mail is not read."
_FONT = "font-family:system-ui,-apple-system,'Segoe UI',Roboto,sans-serif"
_MONO = "font-family:ui-monospace,Menlo,Consolas,monospace"
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark"><meta name="format-detection" content="telephone=no,date=no,address=no">
<title>{title}</title></head>
<body style="margin:0;padding:24px 12px;{font};font-size:15px;line-height:1.5">
<div style="max-width:640px;margin:0 auto">
<h1 style="font-size:20px;line-height:1.3;margin:0 0 16px;overflow-wrap:anywhere">{title}</h1>
{parts}
<p style="font-size:12px;opacity:.7;margin:24px 0 0;overflow-wrap:anywhere">{foot}</p>
</div></body></html>
"""
_BUTTON = (
    '<p style="margin:20px 0"><a href="{link}" style="display:inline-block;padding:10px 18px;border-radius:6px;'
    'background:#1f2937;color:#ffffff;text-decoration:none;font-weight:600">Open request</a></p>'
)
_CELL = "padding:2px 16px 2px 0;vertical-align:top"
_WRAPPED = "overflow-wrap:anywhere;white-space:pre-wrap"


def page(message: Message) -> str:
    """Return the HTML of a message.

    >>> from keyturn.channels.base import Recipient
    >>> ada = Recipient(person="ada", channel="mail")
    >>> "&lt;b&gt;" in page(Message(id="m1", topic="request.created", to=ada, title="<b>"))
    True
    """
    parts = [_about(message.about), _rows(message)]
    parts += [_BUTTON.format(link=escape(message.link))] if message.link else []
    foot = [FOOT]
    foot += [f"Request {escape(message.request)}"] if message.request else []
    foot += [f"Digest {escape(message.digest)}"] if message.digest else []
    title = escape(message.title)
    return _PAGE.format(title=title, parts="\n".join(filter(None, parts)), foot="<br>".join(foot), font=_FONT)


def _about(about: tuple[tuple[str, str], ...]) -> str:
    if not about:
        return ""
    rows = "".join(
        f'<tr><td style="{_CELL};opacity:.7">{escape(label)}</td>'
        f'<td style="{_CELL};{_WRAPPED}{_weight(label, value)}">{escape(value)}</td></tr>'
        for label, value in about
    )
    return f'<table role="presentation" style="border-collapse:collapse;margin:0 0 16px">{rows}</table>'


def _weight(label: str, value: str) -> str:
    return ";font-weight:700;color:#dc2626" if (label, value) == ("risk", "high") else ""


def _rows(message: Message) -> str:
    """Return what would run; of a message about several requests, or none, its text."""
    text = "\n".join(message.rows) if message.request else message.text
    if not text:
        return ""
    style = f"{_MONO};font-size:13px;line-height:1.45;white-space:pre-wrap;overflow-wrap:anywhere"
    frame = "margin:0;padding:12px 14px;border:1px solid #9ca3af;border-radius:6px"
    return f'<pre style="{style};{frame}">{escape(text)}</pre>'
