"""Whether a built site holds together: each link and anchor leads somewhere, and nothing is loaded from outside."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# What a browser fetches by itself, by tag; a link that a reader follows is another thing.
LOADS = {"link": "href", "source": "srcset"} | dict.fromkeys(("script", "img", "iframe", "video", "audio"), "src")
OUTSIDE = re.compile(r"^(?:https?:)?//")
# Addresses in scripts that nobody is asked at: names of XML's vocabularies, and whose licence an icon has.
NAMES = ("http://www.w3.org/", "https://fontawesome.com")


class Seen(HTMLParser):
    """Collects what one page links to, what it loads, and what can be linked to in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = {""}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note one element."""
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        loaded = given.get(LOADS.get(tag, ""), "")
        if loaded and given.get("rel") not in ("canonical", "next", "prev", "alternate"):
            self.loads.append(loaded)


def faults(site: Path) -> list[str]:
    """Return what is wrong with a built site."""
    pages = {path: Seen(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    found: list[str] = []
    for path, seen in pages.items():
        name = path.relative_to(site).as_posix()
        found += [f"{name} loads {load} from outside" for load in seen.loads if OUTSIDE.match(load)]
        if name != "404.html":  # it is shown at any address, so that it links from the root
            found += [f"{name}: {fault}" for fault in _broken(path, seen, pages)]
    return found + [f"{path.relative_to(site).as_posix()} may load {load}" for path, load in _from_outside(site)]


def _broken(path: Path, seen: Seen, pages: dict[Path, Seen]) -> Iterator[str]:
    for link in [*seen.links, *seen.loads]:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        target = Path(os.path.normpath(path.parent / unquote(parts.path))) if parts.path else path
        target = target / "index.html" if target.is_dir() else target
        if not target.exists():
            yield f"{link} leads nowhere"
        elif target in pages and unquote(parts.fragment) not in pages[target].anchors:
            yield f"{link}: that page has no such anchor"


def _from_outside(site: Path) -> Iterator[tuple[Path, str]]:
    """Yield what style sheets load from outside, and what addresses scripts know."""
    for path in sorted(site.rglob("*.css")):
        for load in re.findall(r"(?:url\(|@import )[\"']?([^\"')]+)", path.read_text(encoding="utf-8")):
            if OUTSIDE.match(load):
                yield path, load
    for path in sorted(site.rglob("*.js")):
        for load in re.findall(r"https?://[a-z0-9][\w.-]*\.[a-z]+[^\"'` )]*", path.read_text(encoding="utf-8")):
            if not load.startswith(NAMES):
                yield path, load
