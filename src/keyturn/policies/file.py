"""Reload a policy from its file when that changes; one that is wrong is refused, and the one before holds."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

from ..core.errors import UserError
from ..core.policy import CallView, Share, Verdict
from ..core.settable import Sealed, own_of
from .rules import Policy
from .toml_lines import text_of

logger = logging.getLogger("keyturn")
EVERY = 1.0


class PolicyFile(Sealed):
    """Decides by an operator's file, which it reads again at most once a second.

    A file that is wrong when it is first read is refused. One that becomes wrong, or goes away, is logged once and told
    by `error`; until it is mended the rules that were read before hold. Keep it where no tool can write.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "policy.toml"
    >>> _ = path.write_text('default = "ask"')
    >>> policy = PolicyFile(path)
    >>> _ = path.write_text('default = "alow"')
    >>> policy.look()
    >>> policy(CallView("pay", "function", "desk", {}, digest="5e1f", call_id="c1"), None).action
    'ask'
    >>> print(policy.error.partition(": ")[2])
    the policy: default is 'allow', 'ask' or 'deny', not 'alow'
    """

    def __init__(self, path: str | PathLike[str], *, clock: Callable[[], float] = time.monotonic) -> None:
        self.path = Path(path)
        self._clock = clock
        self._lock = threading.Lock()
        self._check: Callable[[Policy], None] | None = None
        self._read: str | None = text_of(self.path)[0]
        self._policy = Policy.of_text(self._read or "", str(self.path))
        self._looked = clock()
        self.error: str | None = None

    def check_with(self, check: Callable[[Policy], None]) -> None:
        """Check the rules that hold now, and those of each later version of the file; `check` raises `UserError`."""
        with self._lock:
            if self._read is not None and self.error is None:
                Policy.of_text(self._read, str(self.path), check)
            else:
                check(self._policy)
            self._check = check

    @property
    def policy(self) -> Policy:
        """Return the policy that holds now."""
        if self._clock() - self._looked >= EVERY:
            self.look()
        return self._policy

    @property
    def rules_now(self) -> tuple[Policy]:
        """Return what tells whether the same rules hold as when a call was judged."""
        return (self.policy,)

    def look(self) -> None:
        """Look at the file at once, and take it over if it changed and is right."""
        with self._lock:
            self._looked = self._clock()
            before, self._read = self._read, None
            try:
                self._read = text = text_of(self.path)[0]
                if text == before:  # compared itself: another text may have its time and its size
                    return
                made = Policy.of_text(text, str(self.path), self._check)
            except UserError as error:
                self._refused(error)
                return
            self._policy = made
            own_of(self)["error"] = None
            logger.info("the policy file %s was read again", self.path)

    def _refused(self, error: UserError) -> None:
        """Keep the rules as they are, and log an error that is not logged yet."""
        if str(error) != self.error:
            logger.error("%s; the previous policy stays in effect", error)
        own_of(self)["error"] = str(error)

    def __call__(self, call: CallView, context: object = None) -> Verdict | None:
        return self._policy(call, context)

    # What the engine asks first, of the same rules that then judge the call -------------------------------------------

    @property
    def counts(self) -> bool:
        """Return whether a rule has a limit; the file is looked at here, which is asked once before each call."""
        return self.policy.counts

    @property
    def shadow(self) -> bool:
        """Return whether the file says nothing, and is only recorded."""
        return self._policy.shadow

    @property
    def in_shadow(self) -> Callable[[CallView, Any], Verdict | None]:
        """Return what a policy in shadow mode would say."""
        return self._policy.in_shadow

    @property
    def needs_people(self) -> bool:
        """Return whether a rule's terms need an inbox with authenticated people."""
        return self._policy.needs_people

    @property
    def counts_for_several_runs(self) -> bool:
        """Return whether a rule has a limit that several runs share."""
        return self._policy.counts_for_several_runs

    def shares(self, call: CallView) -> list[Share]:
        """Return what a call takes of limits that several runs share."""
        return self._policy.shares(call)
