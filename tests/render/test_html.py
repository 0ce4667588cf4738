"""In a page or a mail: data is text, whatever it holds, and only text."""

import doctest
import itertools
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyturn.core.preview import Block, Command, Diff, Json, Preview, Text
from keyturn.render import html
from keyturn.render.escape import unescape
from keyturn.render.html import render
from tests.effort import part
from tests.render.texts import chunks, everywhere, notables, unseen

# What a page or a chat could run, load or take for its own, had it not been escaped.
ACTS = [
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<svg/onload=alert(1)>", "<iframe src=//e.example>",
    "<a href='javascript:alert(1)'>x</a>", "javascript:alert(1)", "<style>*{display:none}</style>", "<!--", "-->",
    "<base href=//e.example>", "<meta http-equiv=refresh content=0>", "<link rel=stylesheet href=//e.example>",
    "<form action=//e.example><input type=submit>", "<math><mi//xlink:href='data:x'>", "<![CDATA[x]]>", "<?php ?>",
    "</bdi></pre><button>approve</button>", "</pre>", "</title>", "</textarea>", "\" onmouseover=\"alert(1)",
    "' autofocus onfocus='alert(1)", "&lt;b&gt;", "&#60;b&#62;", "&amp;lt;", "&nbsp", "&", "<", ">", "\"", "'", "`",
    "```\nforged\n```", "~~~", "![b](https://e.example/p.png)", "[x](javascript:alert(1))", "<https://e.example>",
    "```mermaid\ngraph TD\n```", "# heading", "| a | b |", "***", "{{7*7}}", "${7*7}", "{% raw %}", "<%= 1 %>",
    "@everyone", "<@U123>", "<!channel>", "\x00<b>", "\ufeff<b>", "+ADw-b+AD4-", "\u2028<b>", "<b\x0c>", "\u202e<b>",
]  # fmt: skip
AROUND = [
    "{}", "a {} b", "{}\n", "\n{}", '"{}"', "'{}'", "é{}", "<{}", "{}>", "&{};", "\\{}", "{0}{0}", "<!--{}", "]]>{}",
    "<b>{}</b>", "`{}`", "x={}", "//{}", "\t{}", "\r{}",
]  # fmt: skip
CORPUS = [frame.replace("{0}", "{}").replace("{}", act) for frame, act in itertools.product(AROUND, ACTS)]


class Page(HTMLParser):
    """What a browser would make of it: every tag, every attribute, and each row's text."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[tuple[str, tuple[tuple[str, str | None], ...]]] = set()
        self.other: list[str] = []
        self.rows: list[tuple[str, str]] = []
        self.quoted: list[bool] = []
        self._style = ""
        self._quoted = False
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add((tag, tuple(attrs)))
        self._style = (attrs[0][1] or "") if tag == "bdi" else ""
        self._quoted = self._quoted or tag == "blockquote"
        if tag == "bdi":
            self.rows.append((self._style, ""))
            self.quoted.append(self._quoted)

    def handle_endtag(self, tag: str) -> None:
        self._style = ""
        self._quoted = self._quoted and tag != "blockquote"

    def handle_data(self, data: str) -> None:
        if self._style:
            self.rows[-1] = (self.rows[-1][0], self.rows[-1][1] + data)
        elif data.strip():
            self.other.append(data)

    def handle_comment(self, data: str) -> None:
        self.other.append(data)

    handle_decl = handle_pi = unknown_decl = handle_comment


STYLES = ["heading", "note", "text", "command", "json", "context", "removed", "added", "unchanged"]
BOXES = [("div", "block"), ("pre", "ours"), ("blockquote", "theirs"), ("pre", "data")]
ALLOWED = {(tag, (("class", name),)) for tag, name in [*BOXES, *(("bdi", style) for style in STYLES)]}


def content(block: Block, style: str) -> str:
    return "\n".join(text for kind, text in Page(render(Preview((block,)))).rows if kind == style)


def test_examples() -> None:
    assert doctest.testmod(html).failed == 0


def test_notable_code_points_in_every_field() -> None:
    for chunk in notables():
        shown = render(everywhere(chunk))
        assert not unseen(shown)
        assert shown.encode()


@pytest.mark.sweep
def test_every_code_point_is_safe_and_can_be_read_back() -> None:
    for chunk in chunks():
        shown = render(Preview((Text(chunk),)))
        assert not unseen(shown)
        assert unescape("\n".join(text for style, text in Page(shown).rows if style == "text")) == chunk


def test_every_kind_of_block_can_be_read_back() -> None:
    for chunk in notables():
        assert unescape(content(Json(chunk), "json")[1:-1]) == chunk
        added = content(Diff("", chunk), "added")
        assert unescape("\n".join(row[1:] for row in added.split("\n"))) == chunk


def test_the_corpus_is_as_large_as_promised() -> None:
    assert len(set(CORPUS)) >= 1000


def test_markdown_and_html_payloads_are_text() -> None:
    for payload in part(CORPUS[1:]):
        page = Page(render(everywhere(payload)))
        assert page.tags <= ALLOWED
        assert not page.other
        assert unescape(content(Command(payload), "command")) == payload


@given(st.text(alphabet="<>&\"'`=/!-ab;#x3 \n\\\u202e"))
def test_no_text_makes_a_tag_or_an_attribute(text: str) -> None:
    page = Page(render(everywhere(text)))
    assert page.tags <= ALLOWED
    assert not page.other
    assert unescape(content(Text(text), "text")) == text


def test_nothing_in_the_output_can_load_or_run() -> None:
    shown = render(everywhere("<a href=javascript:x>"))
    assert not any(word in shown for word in ("<a", "<img", "href=j\"", "src=\"", "style=", "<script"))  # fmt: skip


def test_faces_agree() -> None:
    from keyturn.render.terminal import render as plain

    preview = everywhere("one\ntwo \x1b[0m <b>")
    rows = [text for _, text in Page(render(preview)).rows]
    drawn = [part for row in plain(preview).split("\n") if row for part in _parts(row)]
    assert rows == drawn


def _parts(row: str) -> list[str]:
    """A row of the terminal as a page has it: a heading and what it names stand apart."""
    return [row[2:]] if row.startswith("| ") else row.split(": ", 1) if not row.startswith("note: ") else [row]


def test_data_stands_in_quotations_and_our_words_do_not() -> None:
    """M5: without a style sheet nothing but a quotation tells a row of data from a heading of ours."""
    for text in ("command\nin: /srv\nls", "note: nothing changes", "Approved.", " ", ""):
        hostile, plain = Page(render(everywhere(text))), Page(render(everywhere("x")))
        ours = [row for row, quoted in zip(hostile.rows, hostile.quoted, strict=True) if not quoted]
        heads = [row for row, quoted in zip(plain.rows, plain.quoted, strict=True) if not quoted]
        assert {row for row in ours if row[0] == "heading"} <= set(heads), text
        assert not any(text.strip() and text in row for _, row in ours if row not in [head for _, head in heads])


def test_a_limit_cuts_with_a_mark() -> None:
    assert "\\[cut: 5 of 11 characters, sha256 of all " in render(everywhere("secret plan"), limit=6)
