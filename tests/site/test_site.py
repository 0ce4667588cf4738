"""The site: it has every page and every public name, each link leads somewhere, and a browser asks nobody else.

It is built once for the trials among these tests, as `make site` builds it, of the pages of this repository; the others
read what it is built of. That links of those pages lead to a heading, `tests/test_docs.py` tries.
"""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from playwright._impl._driver import compute_driver_executable

import keyturn
from keyturn import testing
from keyturn.cli.main import COMMANDS
from tests.table import each

pytestmark = pytest.mark.timeout(400)  # the whole site is built, which takes long where a machine is busy

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "docs" / "site"


def beside(name: str) -> Any:
    """A module of docs/site, which is no package: its files are run from there."""
    sys.path.insert(0, str(HERE))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(HERE))


pages, reference, check, make_site = map(beside, ("pages", "reference", "check", "make_site"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a built site that has no fault."""
    into: Path = tmp_path_factory.mktemp("build")
    faults = make_site.build(into)
    assert not faults, "\n".join(faults)
    return into / "site"


@cache
def references() -> dict[str, str]:
    """The pages of the reference, as the site's builder reads them."""
    return reference.pages()


def anchors(page: str) -> set[str]:
    return set(re.findall(r"^#+ .*\{ #(\S+) \}$", references()[page], re.MULTILINE))


def test_every_public_name_has_its_place_in_the_reference() -> None:
    names = {*keyturn.__all__} - {"__version__"}
    for page in (*reference.PAGES, reference.TESTING):
        expected = set(reference.names_of(page))
        assert expected <= anchors(f"{page.file}.md"), page.title
        names -= set() if page is reference.TESTING else expected
    assert not names
    assert {*testing.__all__} == set(reference.names_of(reference.TESTING))


@pytest.mark.trial
def test_every_heading_of_the_reference_has_its_anchor(site: Path) -> None:
    for page in references():
        there = re.findall(r'<h[1-6] id="([^"]+)"', (site / "reference" / page).with_suffix(".html").read_text("utf-8"))
        assert anchors(page) <= set(there), page


def test_a_name_of_no_page_says_where_to_put_it() -> None:
    with pytest.raises(LookupError, match="add it to PAGES"):
        reference.page_of("realtime.agent")


def test_the_reference_says_of_each_name_what_its_docstring_says() -> None:
    made = "\n".join(references().values())
    for name in keyturn.__all__:
        thing = getattr(keyturn, name)
        if isinstance(thing, type) and thing.__doc__:
            assert thing.__doc__.strip().partition("\n")[0] in made, name


def test_every_command_is_in_the_reference() -> None:
    assert set(COMMANDS) <= anchors("commands.md")


def rows() -> set[str]:
    return set(re.findall(r'= "([^"]+\.md)" }|^ +"([^"]+\.md)"', (HERE / "zensical.toml").read_text(), re.MULTILINE))


def test_every_page_has_a_row_in_the_navigation() -> None:
    there = {one or other for one, other in rows()}
    made = {*pages.pages(), *(f"reference/{name}" for name in references())}
    inner = {name for name in made if name.startswith("decisions/") and name != "decisions/index.md"}
    missing = sorted(made - inner - there)
    assert not missing, f"no row in `nav` of docs/site/zensical.toml leads to {missing}"
    unmade = sorted(there - made)
    assert not unmade, f"these rows have no page: {unmade}"


@pytest.mark.trial
def test_it_can_be_searched(site: Path) -> None:
    index = (site / "search.json").read_text(encoding="utf-8")
    assert all(word in index for word in ("as_tool", "MaxTurnsExceeded", "tutorial.html", "keyturn worker"))


# What people search for in the trade's words, and the page that must be among the first three results.
SEARCHES = {
    "human-in-the-loop": "approvals",
    "HITL": "approvals",
    "approval": "approvals",
    "timeout": "approvals",
    "SLA": "approvals",
    "RBAC": "people",
    "service account": "people",
    "SSO": "login",
    "SAML": "login",
    "SCIM": "login",
    "OIDC": "login",
    "webhook retry": "channels",
    "dead letter": "channels",
    "escalation": "channels",
    "on-call": "channels",
    "notification": "channels",
    "e-mail": "channels",
    "multi-tenant": "server",
    "idempotency": "server",
    "rate limit": "policies",
    "quota": "policies",
    "undo": "web",
    "audit log": "audit",
    "Prometheus": "deployment",
    "metrics": "deployment",
    "health check": "deployment",
    "Docker": "deployment",
    "Kubernetes": "deployment",
    "systemd": "deployment",
    "nginx": "deployment",
    "reverse proxy": "deployment",
    "high availability": "deployment",
    "backup": "deployment",
    "GDPR": "deployment",
    "erasure": "deployment",
    "voice agent": "realtime",
}


@each(("words", "page"), SEARCHES.items())
def test_the_page_of_a_subject_has_the_words_of_the_trade(words: str, page: str) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8").lower()
    assert all(word.lower().rstrip("s") in text for word in words.split())


@pytest.fixture(scope="module")
def found(site: Path) -> dict[str, list[str]]:
    """The results of each search, best first, as the site's own search worker ranks them."""
    node, _ = compute_driver_executable()
    command = [node, str(Path(__file__).with_name("search.cjs")), str(site), *SEARCHES]
    results: dict[str, list[str]] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return results


@pytest.mark.trial
@each(("words", "page"), SEARCHES.items())
def test_a_search_in_the_words_of_the_trade_finds_the_right_page(
    words: str, page: str, found: dict[str, list[str]]
) -> None:
    assert f"{page}.html" in [result.partition("#")[0] for result in found[words][:3]], found[words][:3]


@pytest.mark.trial
def test_no_script_knows_an_address_outside(site: Path) -> None:
    scripts = [*site.rglob("*.js")]
    assert scripts
    assert not [path.name for path in scripts if make_site.ELSEWHERE.search(path.read_text(encoding="utf-8"))]


@pytest.mark.trial
def test_what_is_no_page_is_words_and_every_other_link_leads_there(site: Path) -> None:
    home = (site / "index.html").read_text(encoding="utf-8")
    assert 'href="tutorial.html"' in home
    assert 'href="LICENSE"' not in home
    assert "img/idea-light.svg#only-light" in home


PAGE = '<html><body><h1 id="top">x</h1>{}</body></html>'


@each(
    ("inner", "fault"),
    [
        ('<a href="other.html">x</a>', "a.html: other.html leads nowhere"),
        ('<a href="b.html#nothing">x</a>', "a.html: b.html#nothing: that page has no such anchor"),
        ('<a href="#nothing">x</a>', "a.html: #nothing: that page has no such anchor"),
        ('<script src="https://cdn.example/x.js"></script>', "a.html loads https://cdn.example/x.js from outside"),
        ('<link rel="stylesheet" href="//cdn.example/x.css">', "a.html loads //cdn.example/x.css from outside"),
        ('<img src="img/gone.svg">', "a.html: img/gone.svg leads nowhere"),
        ('<a href="b.html#top">x</a> <a href="https://example.org/">y</a> <a href="mailto:a@b">z</a>', None),
    ],
)
def test_the_check_finds_what_is_wrong(inner: str, fault: str | None, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(PAGE.format(inner), encoding="utf-8")
    (tmp_path / "b.html").write_text(PAGE.format(""), encoding="utf-8")
    assert check.faults(tmp_path) == ([] if fault is None else [fault])


@each(
    ("file", "text"),
    [("a.css", '@import "https://fonts.example/x.css"'), ("a.css", "a { background: url(https://cdn.example/x.png) }"),
     ("a.js", 'load("https://cdn.example/x.js")')],
)  # fmt: skip
def test_the_check_reads_styles_and_scripts(file: str, text: str, tmp_path: Path) -> None:
    (tmp_path / file).write_text(text, encoding="utf-8")
    [fault] = check.faults(tmp_path)
    assert "may load https://" in fault
    (tmp_path / file).unlink()


@each(
    ("text", "expected"),
    [
        ("[a](approvals.md#one)", "[a](approvals.md#one)"),
        ("[a](../CONTRIBUTING.md)", "[a](contributing.md)"),
        ("[a](decisions)", "[a](decisions/index.md)"),
        ("[a](../examples)", "[a](examples.md)"),
        ("[a](../LICENSE)", "a"),
        ("[a](https://example.org)", "[a](https://example.org)"),
        ("```\n[a](../LICENSE)\n```", "```\n[a](../LICENSE)\n```"),
    ],
)
def test_a_link_leads_to_the_page_of_the_site(text: str, expected: str) -> None:
    known = pages.sources() | {"docs/decisions": "decisions/index.md", "examples": "examples.md"}
    assert pages.page(text, "docs/tutorial.md", known) == expected


def test_a_diagram_is_a_table_of_all_its_moves() -> None:
    made = pages.pages()["states.md"]
    assert "mermaid" not in made
    assert "approve: `approved`" in made
