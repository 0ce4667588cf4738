"""Build the site: `python docs/site/make_site.py`, or `make site`. The pages go to build/pages, the site to build/site.

It fails where the site's builder warns, where a link or an anchor leads nowhere, and where anything would be loaded
from outside.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import check
import pages
import reference

HERE = Path(__file__).resolve().parent
BUILD = pages.ROOT / "build"
# The theme's own scripts would fetch parts that no page here uses; without an address they have nobody to ask.
ELSEWHERE = re.compile(r"https://(?:unpkg\.com|cdn\.jsdelivr\.net|api\.github\.com)/")
ROW = re.compile(r'= "([^"]+\.md)" },$')


def write(into: Path) -> None:
    """Write all that the site is built from."""
    shutil.rmtree(into / "pages", ignore_errors=True)
    made = pages.pages() | {f"reference/{name}": text for name, text in reference.pages().items()}
    for name, text in made.items():
        file = into / "pages" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    (into / "pages" / "img").mkdir()
    for picture in sorted((pages.ROOT / "docs" / "img").glob("*.[sp][vn]g")):
        shutil.copy(picture, into / "pages" / "img")
    for file in ("site.css", "favicon.svg"):
        shutil.copy(HERE / file, into / "pages")
    (into / "zensical.toml").write_text(settings(set(made)), encoding="utf-8")


def settings(there: set[str]) -> str:
    """Return the site's settings without the rows of pages that are not there."""
    rows = (HERE / "zensical.toml").read_text(encoding="utf-8").split("\n")
    return "\n".join(row for row in rows if (page := ROW.search(row)) is None or page[1] in there)


def build(into: Path) -> list[str]:
    """Build the site below a folder; return what is wrong with it."""
    write(into)
    shutil.rmtree(into / "site", ignore_errors=True)
    done = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict", "--clean"],
        cwd=into,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        return [done.stdout + done.stderr]
    for script in sorted((into / "site").rglob("*.js")):
        text = script.read_text(encoding="utf-8")
        script.write_text(ELSEWHERE.sub("./", text), encoding="utf-8")
    return check.faults(into / "site")


def main() -> int:
    """Build the site where it belongs; return the exit code."""
    found = build(Path(sys.argv[1]) if len(sys.argv) > 1 else BUILD)
    print("\n".join(found), file=sys.stderr) if found else print("build/site/index.html")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
