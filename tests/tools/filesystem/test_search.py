"""Searches find what is there, stay in the workspace, and end in time."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyturn import FileProblem, PathRefused, Workspace
from keyturn.tools.filesystem.search import SearchQuery, _literal_lines, _regex_lines  # type: ignore[reportPrivateUsage]  # in this process
from tests.effort import some


@pytest.fixture
def files(tmp_path: Path) -> Workspace:
    root = tmp_path / "root"
    for name, text in {
        "a.py": "import os\nTODO: one\n",
        "src/b.py": "x = 1\r\n# TODO two\r\n",
        "src/c.txt": "todo small\nTODO big TODO twice\n",
        "build/d.py": "TODO ignored\n",
        ".hidden/e.py": "TODO hidden\n",
        ".git/config": "TODO git\n",
        ".gitignore": "/build/\n",
        "naïve/日本.md": "TODO naïve é\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text.encode())
    (root / "blob").write_bytes(b"\0TODO")
    (root / "latin.txt").write_bytes(b"TODO caf\xe9\n")
    (tmp_path / "secret.txt").write_text("TODO secret\n")
    (root / "link").symlink_to(tmp_path)
    (root / "file-link").symlink_to(tmp_path / "secret.txt")
    return Workspace(root)


def found(files: Workspace, pattern: str | None, path: str = ".", **query: object) -> list[str]:
    return files.search(path, SearchQuery(pattern, **query)).lines  # type: ignore[arg-type]  # the fields of a query


ALL = [
    "a.py:2:TODO: one",
    "latin.txt:1:TODO caf\ufffd",
    "naïve/日本.md:1:TODO naïve é",
    "src/b.py:2:# TODO two",
    "src/c.txt:2:TODO big TODO twice",
]


@pytest.mark.parametrize("pattern", ["TODO", "TOD[O]", pytest.param("TO{1}DO", marks=pytest.mark.trial)])
def test_text_is_found_in_order(files: Workspace, pattern: str) -> None:
    """A plain text, and regular expressions with and without a text that must be there, find the same."""
    assert found(files, pattern) == ALL
    assert found(files, pattern, mode="files_with_matches") == [line.split(":")[0] for line in ALL]
    assert found(files, pattern, mode="count") == [line.split(":")[0] + ":1" for line in ALL]
    assert found(files, pattern, glob="*.py") == [ALL[0], ALL[3]]
    assert found(files, pattern, glob="src/*.py") == [ALL[3]]
    assert found(files, pattern, "src", glob="*.txt") == [ALL[4]]
    assert found(files, pattern, "src/b.py") == [ALL[3]]
    assert found(files, pattern, hidden=True) == [".hidden/e.py:1:TODO hidden", *ALL] or set(ALL) < set(
        found(files, pattern, hidden=True)
    )
    assert found(files, pattern, "build/d.py") == ["build/d.py:1:TODO ignored"], "a file that is named is meant"
    assert found(files, pattern, most=2) == ALL[:2]


def test_what_was_passed_by_is_counted(files: Workspace) -> None:
    answer = files.search(".", SearchQuery("TODO"))
    assert answer.passed == {"hidden": 2, "ignored": 1, "binary": 1, "links and special files": 2}
    assert answer.stopped == ""
    assert files.search(".", SearchQuery("TODO", most=2)).stopped == "2 results are shown"


def test_case_is_ignored_where_that_is_asked(files: Workspace) -> None:
    assert found(files, "todo", "src", ignore_case=True) == ["src/b.py:2:# TODO two", "src/c.txt:1:todo small", ALL[4]]


@pytest.mark.parametrize("pattern", ["(?i)todo", "(?i)to(do|da)", "(?i)T[o]do"])
def test_case_is_ignored_where_the_pattern_says_so(files: Workspace, pattern: str) -> None:
    assert found(files, pattern, "src") == ["src/b.py:2:# TODO two", "src/c.txt:1:todo small", ALL[4]]
    assert found(files, pattern, "naïve") == [ALL[2]], "also where a file holds more than ASCII"


def test_letters_that_are_one_another_in_other_case_are_found(files: Workspace) -> None:
    kelvin, long_s = "\u212aelvin", "\u017fun"
    files.write("odd.txt", f"{kelvin} {long_s}\n".encode())
    for pattern in ("(?i)kelvin", "(?i)sun", f"(?i){long_s.upper()}", f"(?i){kelvin}"):
        assert found(files, pattern) == [f"odd.txt:1:{kelvin} {long_s}"]


def test_one_of_several_texts_is_found(files: Workspace) -> None:
    assert found(files, "import|big TODO") == ["a.py:1:import os", ALL[4]]
    assert found(files, "(import|naïve) ?(os|é)") == ["a.py:1:import os", ALL[2]]


def test_lines_end_where_they_end(files: Workspace) -> None:
    assert found(files, "two$") == [ALL[3]]
    assert found(files, "^$") == [], "after the last newline there is no line"


def test_names_are_found(files: Workspace) -> None:
    assert found(files, None, glob="**/*.py") == ["a.py", "src/b.py"]
    assert found(files, None, "src", glob="*") == ["src/b.py", "src/c.txt"]
    assert found(files, None, glob="**/.*") == [".gitignore"]
    assert found(files, None, glob="**/*.{md,txt}") == ["latin.txt", "naïve/日本.md", "src/c.txt"]


@pytest.mark.parametrize("path", ["..", "link", "link/root", "file-link", "/etc", "src/../.."])
def test_a_search_stays_inside(files: Workspace, path: str) -> None:
    for query in (SearchQuery("secret"), SearchQuery("secre[t]"), SearchQuery(None, glob="**")):
        with pytest.raises(PathRefused):
            files.search(path, query)
    assert found(files, "secret") == found(files, "secre[t]") == []


FOR_EVER = [
    "(a+)+$",
    *(pytest.param(each, marks=pytest.mark.trial) for each in ("(a|a)*$", r"(\w+\s?)*$", "(.*a){20}[b]")),
]


@pytest.mark.parametrize("pattern", FOR_EVER)
def test_a_pattern_that_takes_for_ever_is_ended(files: Workspace, pattern: str) -> None:
    files.write("evil.txt", b"a" * 38 + b"!\n")
    with pytest.raises(FileProblem, match=r"longer than 0\.2 s|ended early"):
        files.search("evil.txt", SearchQuery(pattern, seconds=0.2))


def test_a_search_without_an_end_in_sight_stops_and_says_so(files: Workspace) -> None:
    for pattern in ("TODO", "TOD[O]"):
        answer = files.search(".", SearchQuery(pattern, seconds=0))
        assert (answer.lines, answer.stopped) == ([], "the time was up")


@pytest.mark.each
@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(", "regular expression"),
        ("", "1 to 1000"),
        ("x" * 1001, "1 to 1000"),
        ("a**", "regular"),
        ("a\nb", "line break"),
    ],
)
def test_a_wrong_pattern_is_refused(files: Workspace, pattern: str, why: str) -> None:
    with pytest.raises(FileProblem, match=why):
        files.search(".", SearchQuery(pattern))


def test_a_wrong_glob_is_refused(files: Workspace) -> None:
    for query in (SearchQuery(None, glob="../*"), SearchQuery("TODO", glob="/*"), SearchQuery("TOD[O]", glob="")):
        with pytest.raises(FileProblem, match="pattern"):
            files.search(".", query)


def test_a_program_without_an_interpreter_searches_for_text(files: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keyturn.tools.filesystem.search.sys.executable", "")
    assert found(files, "TODO") == ALL
    with pytest.raises(FileProblem, match="interpreter"):
        found(files, "TOD[O]")


def test_a_long_line_is_cut_around_what_was_found(files: Workspace) -> None:
    files.write("long.txt", b"x" * 5000 + b"NEEDLE" + b"y" * 5000)
    for pattern in ("NEEDLE", "NEEDL[E]"):
        [line] = found(files, pattern)
        assert "NEEDLE" in line
        assert len(line) < 400
        assert line.startswith("long.txt:1:...")
        assert line.endswith("...")


@pytest.mark.parametrize("pattern", ["NEEDLE", "NEEDLE.", "(?i)needle", "[N]EEDLE"])
def test_a_long_line_in_any_script_is_cut_where_it_was_found(files: Workspace, pattern: str) -> None:
    files.write("long.txt", "é".encode() * 1000 + b"NEEDLE" + b"y" * 5000)
    [line] = found(files, pattern)
    assert "NEEDLE" in line
    assert len(line) < 400


def test_names_that_are_no_text_are_shown_escaped(files: Workspace) -> None:
    with open(os.fsencode(files.root) + b"/bad\xff\n.txt", "w") as file:
        file.write("NEEDLE\n")
    for pattern in ("NEEDLE", "NEEDL[E]"):
        assert found(files, pattern) == ["bad\\udcff\\n.txt:1:NEEDLE"]


def test_too_large_files_are_passed_by(files: Workspace) -> None:
    assert files.search(".", SearchQuery("TODO", file_bytes=10)).passed["too large"] == 4


def test_very_deep_directories_end_somewhere(files: Workspace) -> None:
    files.write("d/" * 140 + "x.txt", b"NEEDLE")
    answer = files.search(".", SearchQuery("NEEDLE"))
    assert (answer.lines, answer.passed["too deep"]) == ([], 1)


@settings(max_examples=some(60), deadline=None)
@given(st.text(st.sampled_from("ab\n\r "), max_size=60), st.text(st.sampled_from("ab "), min_size=1, max_size=3))
def test_a_text_is_found_where_it_is(tmp_path_factory: pytest.TempPathFactory, text: str, needle: str) -> None:
    """The literal search says what going through the lines one by one says."""
    root = tmp_path_factory.mktemp("any")
    (root / "x").write_bytes(text.encode())
    lines = [f"x:{number}" for number, line in enumerate(re.split("\n", text), 1) if needle in line]
    answer = Workspace(root).search(".", SearchQuery(needle)).lines
    assert [line.rsplit(":", 1)[0] for line in answer] == lines


@settings(max_examples=some(40), deadline=None)
@given(
    st.lists(st.binary(max_size=12) | st.sampled_from([b"ab", b"a\r", b"\xc3", b"\xff", "é".encode()]), max_size=6),
    st.sampled_from(["ab", "a$", "^b", "(a|b)\\w?b", "ab?", "\\xe9", "a.", "ab|b$", "(?i)AB", "\\s$"]),
)
def test_every_way_to_match_finds_the_same_lines(pieces: list[bytes], pattern: str) -> None:
    """With and without what tells beforehand where to look, in text and in what is none."""
    data = b"\n".join(pieces)
    text = data.decode(errors="replace").replace("\r\n", "\n").removesuffix("\n")
    lines = [number for number, line in enumerate(text.split("\n"), 1) if re.search(pattern, line)]
    if SearchQuery(pattern).regex:
        found = _regex_lines(pattern, False)(data)
    else:
        found = _literal_lines(pattern)(data)
    assert [number for number, _ in found] == lines
