"""What `make package` builds is what users get: it installs beside nothing of this repository, and works there.

The wheel is installed into a new environment that holds the packages of `dependencies`, what those ask for, and nothing
else: they are links to those of the environment that the tests run in, so no index is asked.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.message import Message
from email.parser import Parser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from keyturn._version import __version__
from tests.table import each

pytestmark = pytest.mark.timeout(400)  # an environment is made, which takes long where a machine is busy

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LINK = re.compile(r"\]\(([^)\s]+)\)|(?:src|srcset|href)=\"([^\"]+)\"")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """Run a program that knows nothing of this repository; return what it printed."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV", "KEYTURN"))
    }
    done = subprocess.run(
        [*map(str, command)],
        cwd=cwd,
        env={**kept, **environment},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build(source: Path, into: Path, *targets: str) -> None:
    options = [option for target in targets for option in ("-t", target)]
    run(sys.executable, "-m", "hatchling", "build", "-d", into, *options, cwd=source)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sdist of this tree."""
    into = tmp_path_factory.mktemp("dist")
    build(ROOT, into, "sdist", "wheel")
    return into


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    [found] = built.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as files:
        [name] = [name for name in files.namelist() if name.endswith(".dist-info/METADATA")]
        return Parser().parsestr(files.read(name).decode())


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a new environment with the wheel, what it depends on, and nothing else."""
    home = tmp_path_factory.mktemp("user") / "env"
    run(sys.executable, "-m", "venv", home, cwd=home.parent)
    interpreter = home / "bin" / "python"
    site = Path(run(interpreter, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=home).strip())
    for name in needed(PROJECT["dependencies"]):
        link(name, site)
    pip = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index")
    run(interpreter, *pip, wheel, cwd=home)  # without an index it finds all it needs, or fails
    run(interpreter, "-m", "pip", "uninstall", "--quiet", "--yes", "pip", "setuptools", cwd=home)
    return interpreter


def needed(requirements: list[str]) -> set[str]:
    """The packages that requirements ask for, and what those ask for."""
    found: set[str] = set()
    waiting = [Requirement(one) for one in requirements]
    while waiting:
        one = waiting.pop()
        if one.name in found or (one.marker is not None and not one.marker.evaluate({"extra": ""})):
            continue
        found.add(one.name)
        waiting += [Requirement(inner) for inner in importlib.metadata.requires(one.name) or []]
    return found


def link(name: str, site: Path) -> None:
    distribution = importlib.metadata.distribution(name)
    home = Path(str(distribution.locate_file("")))
    for top in {file.parts[0] for file in distribution.files or [] if file.parts[0] not in ("..", "__pycache__")}:
        (site / top).symlink_to(home / top)


@pytest.mark.trial
def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as files:
        names = set(files.namelist())
    inner = {name for name in names if not name.startswith(f"keyturn-{__version__}.dist-info/")}
    package = ROOT / "src" / "keyturn"
    sources = {
        f"keyturn/{path.relative_to(package).as_posix()}"
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert inner == sources
    assert "keyturn/py.typed" in inner
    assert f"keyturn-{__version__}.dist-info/licenses/LICENSE" in names


@pytest.mark.trial
def test_the_sdist_makes_the_same_wheel(built: Path, wheel: Path, tmp_path: Path) -> None:
    [sdist] = built.glob("*.tar.gz")
    with tarfile.open(sdist) as files:
        safely: Any = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # which came with Python 3.11.4
        files.extractall(tmp_path, **safely)
    [source] = tmp_path.iterdir()
    build(source, tmp_path / "again", "wheel")
    [again] = (tmp_path / "again").glob("*.whl")
    assert again.read_bytes() == wheel.read_bytes()


def test_the_version_stands_in_one_place(metadata: Message) -> None:
    assert metadata["Version"] == __version__
    said = [
        path.relative_to(ROOT).as_posix()
        for place in ("src", "docs")
        for path in sorted((ROOT / place).rglob("*"))
        if path.suffix in (".py", ".md", ".toml") and __version__ in path.read_text(encoding="utf-8")
    ]
    assert said == ["src/keyturn/_version.py"]
    assert __version__ not in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_the_classifiers_are_known_and_true(metadata: Message) -> None:
    from trove_classifiers import classifiers

    given = metadata.get_all("Classifier") or []
    assert not [one for one in given if one not in classifiers]
    assert not [one for one in given if one.startswith("License ::")], "the license is an SPDX expression"
    assert metadata["License-Expression"] == "MIT"
    least = min(int(one.rpartition(".")[2]) for one in given if re.search(r":: 3\.\d+$", one))
    assert metadata["Requires-Python"] == f">=3.{least}"
    assert not metadata.get_all("Project-URL"), "there is none yet that would be true"


def test_the_page_of_the_package_stands_alone(metadata: Message) -> None:
    """Where it is read, no file of this repository lies beside it; what Python's index renders it with accepts it."""
    from readme_renderer.markdown import render

    assert metadata["Description-Content-Type"] == "text/markdown"
    page = str(metadata.get_payload())
    targets = [one or other for one, other in LINK.findall(FENCE.sub("", page))]
    assert not [target for target in targets if not target.startswith(("https://", "#"))]
    words = page.replace("\n", " ")
    assert words.index("pip install keyturn") < words.index("from keyturn import"), "how to get it comes first"
    assert "make test" not in page
    assert "<!--" not in page
    rendered = render(page)
    assert rendered is not None
    assert "pip install keyturn" in re.sub(r"<[^>]+>", "", rendered), "its words stand in pieces of their own colours"


IMPORTS = """
import json, sys
import keyturn
front = sorted({name.partition(".")[0] for name in sys.modules})
missing = []
for name in keyturn.__all__:
    try:
        getattr(keyturn, name)
    except ImportError as error:
        missing.append(f"{name}: {error}")
print(json.dumps({"front": front, "missing": missing, "version": keyturn.__version__, "where": keyturn.__file__}))
"""


@pytest.mark.trial
def test_every_public_name_is_there_without_any_extra(python: Path, tmp_path: Path) -> None:
    seen = json.loads(run(python, "-c", IMPORTS, cwd=tmp_path))
    assert str(python.parents[1]) in seen["where"]
    assert (seen["missing"], seen["version"]) == ([], __version__)
    ours = {"pydantic", "msgspec", "apsw", "docstring_parser", "pytest"}
    assert not ours & set(seen["front"]), "`import keyturn` names what is public and loads nothing"


@pytest.mark.trial
def test_the_command_is_installed(python: Path, tmp_path: Path) -> None:
    assert run(python.with_name("keyturn"), "--version", cwd=tmp_path) == f"keyturn {__version__}\n"
    listed = run(python.with_name("keyturn"), cwd=tmp_path)
    assert "keyturn COMMAND" in listed


def programs(page: str) -> list[tuple[str, str]]:
    """The Python programs of a page, each with what it says is printed."""
    return [
        (text, printed)
        for (language, text), (kind, printed) in pairwise(FENCE.findall(page))
        if (language, kind) == ("python", "text")
    ]


@pytest.mark.trial
def test_the_first_program_of_the_readme_runs(python: Path, metadata: Message, tmp_path: Path) -> None:
    program, printed = programs(str(metadata.get_payload()))[0]
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "first.py").write_text(program, encoding="utf-8")
    assert run(python, "first.py", cwd=tmp_path, HOME=str(home), XDG_STATE_HOME=str(home)) == printed


JOURNAL = """
from keyturn import Agent, Runner
from keyturn.testing import ScriptedModel
result = Runner.run_sync(Agent("a", model=ScriptedModel(["hello"])), "hi", journal="sqlite:///runs.db")
print(result.final_output)
"""


@pytest.mark.trial
def test_a_journal_in_a_file_needs_no_extra(python: Path, tmp_path: Path) -> None:
    assert run(python, "-c", JOURNAL, cwd=tmp_path, KEYTURN_SECRET="a-secret-of-this-test") == "hello\n"
    assert (tmp_path / "runs.db").exists()


OWN_SUITE = """
from keyturn import MemoryJournal
from keyturn.testing import JournalSuite

class TestOwnJournal(JournalSuite):
    async def make_journal(self):
        return MemoryJournal(self.clock)

def test_the_fixtures_are_there(scripted_model, approve_all, journal):
    assert isinstance(journal, MemoryJournal)
"""


@pytest.mark.trial
def test_the_suites_run_with_what_their_extra_installs(python: Path, tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    packages.mkdir()
    for name in needed(PROJECT["optional-dependencies"]["testing"]) - needed(PROJECT["dependencies"]):
        link(name, packages)
    (tmp_path / "test_own.py").write_text(OWN_SUITE, encoding="utf-8")
    said = run(
        python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_own.py", cwd=tmp_path, PYTHONPATH=str(packages)
    )
    assert re.search(r"(?m)^\d\d passed in", said), said


@each(
    ("text", "expected"),
    [("[a](docs/a.md) b", "a b"), ("[a](https://x.org)", "[a](https://x.org)"), ("[a](#here)", "a"),
     ("x\n<!-- here only -->\ny\n<!-- /here only -->\n\nz", "x\nz"), ("```\n[a](b)\n```", "```\n[a](b)\n```"),
     ("![a](docs/a.png) ![b](https://x.org/b.png)", " ![b](https://x.org/b.png)"),
     ("<picture>\n<img src='a'>\n</picture>\n\nz", "z")],
)  # fmt: skip
def test_what_leads_nowhere_is_words(text: str, expected: str) -> None:
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("package_page", ROOT / "docs" / "site" / "package_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.package_page(text) == expected
