"""A preview as HTML that is safe wherever text may stand: a page, a mail.

Tags, attributes and classes are constants of this file; data is text only, and first through the escaping
that every face shares. There is no link, no image and no style: nothing here can load or run anything.
"""

from __future__ import annotations

from html import escape as html_escape

from ..core.preview import Preview
from .layout import Line, preview_lines


def render(preview: Preview, *, limit: int | None = None) -> str:
    """The preview as one `pre` per block with a `bdi` per row, its class the row's style.

    >>> from keyturn.core.preview import Command
    >>> print(render(Preview((Command("echo <b>"),))))
    <pre class="block"><bdi class="heading">command</bdi>
    <bdi class="command">echo &lt;b&gt;</bdi></pre>
    """
    return "\n".join(map(_block, preview_lines(preview, limit)))


def _block(lines: list[Line]) -> str:
    rows = "\n".join(map(_row, lines))
    return f'<pre class="block">{rows}</pre>'


def _row(line: Line) -> str:
    # bdi: letters that run from right to left move nothing outside their own row.
    return f'<bdi class="{line.style}">{html_escape(line.text)}</bdi>'
