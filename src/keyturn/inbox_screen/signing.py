"""Sign a word with the person's own ssh key, at the terminal that the screen leaves for as long.

What is signed is made here, of the request that was on the screen and of what the person says of it, by the same
function as `keyturn approve --sign`: neither a journal's row nor a server's word is signed for it.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from textual.app import App, ComposeResult, SuspendNotSupported

from ..core.digest import canonical
from ..core.errors import KeyturnError
from ..core.people import Proof
from ..presenting.shown_request import ShownRequest
from ..proofs.ssh_signing import sign_with_ssh
from ..screens.asking import KeyDialog, sentence
from ..screens.drawing import Row, labelled, ours
from ..screens.rows import Rows
from ..tools.base import plain_preview

T = TypeVar("T")


class SignDialog(KeyDialog[bool]):
    """Shows what is about to be signed, and with which key."""

    ANSWERS: ClassVar[Mapping[str, bool]] = {"enter": True}

    def __init__(self, request: ShownRequest, verdict: str, key: Path) -> None:
        super().__init__()
        self._request = request
        self._verdict = verdict
        self._key = key

    def parts(self) -> ComposeResult:
        """Make the rows that say it."""
        yield sentence("title", "Sign the decision")
        yield Rows(self._rows)
        yield sentence("waits", "Enter sign  Escape cancel")

    def _rows(self, width: int) -> Iterable[Row]:
        asked = self._request.item.request
        yield from labelled("heading", "call", self._request.item.qualified_name or "", width)
        yield from labelled("heading", "decision", self._verdict, width)
        if self._request.edit is not None:
            yield from labelled("heading", "with these arguments", canonical(self._request.arguments), width)
        elif asked.preview != plain_preview(asked.params):  # the digest is of the arguments, whatever was drawn
            yield from labelled("heading", "for these arguments", canonical(asked.params), width)
        if asked.secrets:
            yield from ours("note", "Its secrets are not shown.", width)
        yield from labelled("heading", "digest", asked.digest, width)
        yield from labelled("heading", "key", str(self._key), width)


def sign_off_screen(app: App[Any], challenge: bytes, key: Path) -> Proof:
    """Sign a challenge while the screen is away, so that ssh-keygen can ask for a passphrase or a touch."""

    def signed() -> Proof:
        with _unbroken():
            return sign_with_ssh(challenge, key)

    return _away(app, signed)


def _away(app: App[Any], doing: Callable[[], T]) -> T:
    made: list[T] = []
    failed: list[KeyturnError] = []
    try:
        with app.suspend():  # it comes back only if nothing is raised in here
            try:
                made.append(doing())
            except KeyturnError as error:
                failed.append(error)
                _wait(str(error))
    except SuspendNotSupported:  # nobody has a terminal here
        return doing()
    if failed:
        raise failed[0]
    return made[0]


def _wait(why: str) -> None:
    """Let a person read what ssh-keygen said before the screen is back."""
    if sys.stdin.isatty():
        with contextlib.suppress(EOFError, KeyboardInterrupt):
            input(f"Nothing was signed. {why!a} Press Enter to go back. ")


@contextlib.contextmanager
def _unbroken() -> Generator[None]:
    """Let Ctrl-C end ssh-keygen alone: the inbox stays."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, _heard)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _heard(_signal: int, _frame: object) -> None:
    """Do nothing: ssh-keygen hears Ctrl-C itself."""
