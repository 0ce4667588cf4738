"""The command `keyturn completion SHELL` prints a script that completes commands, their words and their options.

The script is made from the parsers, so that it says what they say; it starts nothing of ours while somebody types.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

from .main import COMMANDS, parser_of

SHELLS = ("bash", "zsh", "fish")


class CompletionPlace(NamedTuple):
    """Describes what can be typed after some words: other words, options, and the values of options with choices."""

    words: tuple[str, ...]
    described: dict[str, str]
    options: dict[str, str]
    takes: set[str]
    choices: dict[str, tuple[str, ...]]


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("shell", choices=SHELLS, help="the shell")


def run(arguments: argparse.Namespace) -> int:
    """Print the script."""
    places = list(all_places())
    made = {"bash": _bash, "zsh": _zsh, "fish": _fish}[arguments.shell]
    print("\n".join(made(places)))
    return 0


def all_places() -> Iterator[CompletionPlace]:
    """Yield what can be typed after `keyturn`, after each command, and after each word of one."""
    yield CompletionPlace((), {name: what.partition(":")[0] for name, what in COMMANDS.items()}, {}, set(), {})
    for name in COMMANDS:
        yield from _places((name,), parser_of(name))


def _places(words: tuple[str, ...], parser: argparse.ArgumentParser) -> Iterator[CompletionPlace]:
    made = CompletionPlace(words, {}, {}, set(), {})
    inner: dict[str, argparse.ArgumentParser] = {}
    for action in cast("list[Any]", cast("Any", parser)._actions):
        if action.option_strings:
            _add_option(made, action)
        elif isinstance(action, argparse._SubParsersAction):  # pyright: ignore[reportPrivateUsage] argparse has no other
            told = cast("Any", action)
            inner = dict(told.choices)
            made.described.update({each.dest: each.help or "" for each in told._choices_actions})
        elif action.choices:
            made.described.update({str(choice): "" for choice in action.choices})
    yield made
    for name, each in inner.items():
        yield from _places((*words, name), each)


def _add_option(place: CompletionPlace, action: Any) -> None:
    for option in action.option_strings:
        if not option.startswith("--"):
            continue
        place.options[option] = (action.help or "").replace("%(default)s", str(action.default))
        if action.nargs != 0:
            place.takes.add(option)
        if action.choices:
            place.choices[option] = tuple(map(str, action.choices))


def _bash(places: list[CompletionPlace]) -> Iterator[str]:
    yield "# keyturn completion bash"
    yield "_keyturn() {"
    yield '  local now="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" at="" word'
    yield '  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do'
    yield '    case "$at/$word" in'
    for place in places[1:]:
        yield f'      {_step(place.words)}) at="{_joined(place.words)}" ;;'
    yield "    esac"
    yield "  done"
    yield '  case "$at $before" in'
    for place in places:
        for option, values in place.choices.items():
            yield f"    {_quoted(f'{_joined(place.words)} {option}')}) {_reply(_list(values))}; return ;;"
        free = [option for option in sorted(place.takes) if option not in place.choices]
        if free:
            names = "|".join(_quoted(f"{_joined(place.words)} {option}") for option in free)
            yield f'    {names}) COMPREPLY=($(compgen -f -- "$now")); return ;;'
    yield "  esac"
    yield '  case "$at" in'
    for place in places:
        offered = _list((*place.described, *place.options))
        yield f"    {_quoted(_joined(place.words))}) {_reply(offered)} ;;"
    yield "  esac"
    yield "}"
    yield "complete -o default -F _keyturn keyturn"


def _zsh(places: list[CompletionPlace]) -> Iterator[str]:
    yield "#compdef keyturn"
    yield "_keyturn() {"
    yield '  local at="" word'
    yield "  local -a offered"
    yield '  for word in "${(@)words[2,CURRENT-1]}"; do'
    yield '    case "$at/$word" in'
    for place in places[1:]:
        yield f'      {_step(place.words)}) at="{_joined(place.words)}" ;;'
    yield "    esac"
    yield "  done"
    yield '  case "$at" in'
    for place in places:
        told = {**place.described, **place.options}
        offered = " ".join(_quoted(f"{_escaped(name)}:{_row(what)}") for name, what in told.items())
        yield f"    {_quoted(_joined(place.words))}) offered=({offered}) ;;"
    yield "  esac"
    yield "  _describe keyturn offered || _files"
    yield "}"
    yield "compdef _keyturn keyturn"


def _fish(places: list[CompletionPlace]) -> Iterator[str]:
    yield "# keyturn completion fish"
    yield "complete -c keyturn -f"
    for place in places:
        when = _fish_place(place, places)
        for name, what in place.described.items():
            yield f"complete -c keyturn -n {when} -a {_quoted(name)} -d {_quoted(_row(what))}"
        for option, what in place.options.items():
            values = f" -a {_list(place.choices[option])}" if option in place.choices else ""
            needs = " -r" if option in place.takes else ""
            yield f"complete -c keyturn -n {when} -l {option[2:]}{needs}{values} -d {_quoted(_row(what))}"


def _fish_place(place: CompletionPlace, places: list[CompletionPlace]) -> str:
    """Return the condition under which fish is at a place: its words were typed, and none that leads on."""
    if not place.words:
        return "__fish_use_subcommand"
    seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in place.words)
    deeper = [each.words[-1] for each in places if each.words[:-1] == place.words]
    beyond = f"; and not __fish_seen_subcommand_from {' '.join(deeper)}" if deeper else ""
    return _quoted(seen + beyond)


def _reply(offered: str) -> str:
    return f'COMPREPLY=($(compgen -W {offered} -- "$now"))'


def _step(words: tuple[str, ...]) -> str:
    """Return the pattern of the last word, behind the place that it leads on from."""
    return _quoted(f"{_joined(words[:-1])}/{words[-1]}")


def _joined(words: tuple[str, ...]) -> str:
    return "/".join(words)


def _list(words: tuple[str, ...]) -> str:
    return _quoted(" ".join(words))


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _escaped(text: str) -> str:
    return text.replace(":", "\\:")


def _row(text: str) -> str:
    """Return a description as one short row that no shell reads as more than that."""
    return " ".join(text.split())[:70].replace("\\", "").replace("$", "").replace("`", "")
