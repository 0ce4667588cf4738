"""Render a preview as HTML that is safe wherever text may stand: a page, a mail.

Tags, attributes and classes are constants of this file; data is text only, and first through the escaping
that every face shares. There is no link, no image and no style: nothing here can load or run anything. Data
stands in quotations and our words outside of them, so that a page or a mail that knows no style, or wraps
rows, shows which is which.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape as html_escape
from itertools import groupby

from ..core.preview import Preview
from .layout import LayoutLine, preview_lines


def render(preview: Preview, *, limit: int | None = None) -> str:
    """Draw the preview with one `div` per block and one `bdi` per row, its class the row's style.

    >>> from keyturn.core.preview import Command
    >>> print(render(Preview((Command("echo <b>"),))))
    <div class="block"><pre class="ours"><bdi class="heading">command</bdi></pre>
    <blockquote class="theirs"><pre class="data"><bdi class="command">echo &lt;b&gt;</bdi></pre></blockquote></div>
    """
    return "\n".join(map(_block, preview_lines(preview, limit)))


def _block(lines: list[LayoutLine]) -> str:
    parts = groupby((row for line in lines for row in _rows(line)), lambda row: row[0])
    drawn = [_part(ours, "\n".join(row for _, row in rows)) for ours, rows in parts]
    whole = "\n".join(drawn)
    return f'<div class="block">{whole}</div>'


def _part(ours: bool, rows: str) -> str:
    if ours:
        return f'<pre class="ours">{rows}</pre>'
    return f'<blockquote class="theirs"><pre class="data">{rows}</pre></blockquote>'


def _rows(line: LayoutLine) -> Iterator[tuple[bool, str]]:
    """Yield a line's rows, and of each whether it is ours; a heading and what it names are two."""
    if line.lead:
        yield True, _row(line, line.lead)
    if line.text or not line.lead:
        yield False, _row(line, line.text)


def _row(line: LayoutLine, text: str) -> str:
    # bdi: letters that run from right to left move nothing outside their own row.
    return f'<bdi class="{line.style}">{html_escape(text)}</bdi>'
