"""README.md as the page of the package: what a reader sees where no file of this repository lies beside it.

The build asks for it (`tool.hatch.metadata.hooks` in pyproject.toml). Links and pictures of this repository would lead
nowhere on such a page: a link becomes the words that it stands on, a picture goes, and so does what stands between
`<!-- here only -->` and `<!-- /here only -->`.
"""

from __future__ import annotations

import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

HERE_ONLY = re.compile(r"<!-- here only -->\n.*?<!-- /here only -->\n+", re.DOTALL)
PICTURE = re.compile(r"<picture>.*?</picture>\n+", re.DOTALL)
FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
IMAGE = re.compile(r"!\[[^\]]*\]\((?![a-z]+:)[^)\s]*\)")
LINK = re.compile(r"\[([^\]]+)\]\((?![a-z]+:)[^)\s]*\)")


def package_page(readme: str) -> str:
    """Return the package's page, made of the text of README.md.

    >>> package_page("See the [tutorial](docs/tutorial.md) and [the spec](https://example.org/spec).")
    'See the tutorial and [the spec](https://example.org/spec).'
    """
    text = PICTURE.sub("", HERE_ONLY.sub("", readme))
    parts = FENCED.split(text)
    return "".join(part if part.startswith("```") else LINK.sub(r"\1", IMAGE.sub("", part)) for part in parts)


class PackagePage(MetadataHookInterface):
    """Gives the build the package's page."""

    def update(self, metadata: dict[str, object]) -> None:
        """Set the field `readme`."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": package_page(text)}
