"""The page of the command line says of each command whether it takes `--server`, and its parser agrees."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from keyturn.cli.main import COMMANDS, parser_of

PAGE = Path(__file__).resolve().parents[2] / "docs" / "command-line.md"


def told() -> dict[str, tuple[bool, str]]:
    """What the table says of each command: whether it takes `--server`, and why not."""
    text = PAGE.read_text(encoding="utf-8").partition("\n## At a server\n")[2].partition("\n## ")[0]
    found = dict[str, tuple[bool, str]]()
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `"):
            for name in re.findall(r"`([^`]+)`", cells[0]):
                assert name not in found, f"{name} stands twice"
                found[name] = (cells[1] == "yes", cells[2])
    return found


def parsers() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Each command, and each word of one whose words differ."""
    for name in COMMANDS:
        parser = parser_of(name)
        parts = {f"{name} {word}": one for word, one in words_of(parser).items()}
        alike = len({takes(one) for one in parts.values()}) == 1
        yield from [(name, next(iter(parts.values())) if parts else parser)] if alike or not parts else parts.items()


def words_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def takes(parser: argparse.ArgumentParser) -> bool:
    return any("--server" in action.option_strings for action in parser._actions)


def test_the_table_says_which_commands_take_a_server() -> None:
    table = told()
    assert {name: takes(parser) for name, parser in parsers()} == {name: yes for name, (yes, _) in table.items()}


def test_whatever_takes_none_says_why() -> None:
    assert all(bool(why) != yes for yes, why in told().values())


def test_whatever_takes_a_server_takes_a_token() -> None:
    for name, parser in parsers():
        options = {option for action in parser._actions for option in action.option_strings}
        assert not takes(parser) or "--token-file" in options, name
