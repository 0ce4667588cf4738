"""Make text for pages: whatever a template prints passes here, so that no data acts, hides or looks like our own.

A template prints a plain text: it is escaped as every face escapes, and then for HTML. What was escaped already is
`VisibleHtml`, which only this file makes.
"""

from __future__ import annotations

from typing import Any

from markupsafe import Markup
from markupsafe import escape as html_escape

from ...render.escape import Escaped, escape


class VisibleHtml(Markup):
    """Holds HTML of text that was made visible already."""


def finalize(value: object) -> Any:
    r"""Return what a template prints of a value.

    >>> str(finalize("<b>\u202e"))
    '&lt;b&gt;\\u{202e}'
    """
    if isinstance(value, Markup):
        return value
    if value is None:
        return ""
    if isinstance(value, Escaped):
        return ready(value)
    return shown(value if isinstance(value, str) else str(value))


def shown(text: str) -> VisibleHtml:
    """Return data as HTML in which everything can be seen; only newlines stay as they are."""
    return ready(escape(text))


def ready(text: str) -> VisibleHtml:
    """Return text that was escaped for all faces as HTML."""
    return VisibleHtml(html_escape(text))


def typed(text: str) -> VisibleHtml:
    """Return what stands in a field to be edited: the very characters, since what is typed there is sent back."""
    return VisibleHtml(html_escape(str.__str__(text)))
