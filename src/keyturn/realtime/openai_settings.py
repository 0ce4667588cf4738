"""Follow which settings a connection has in force: a server confirms each `session.update` in order, or refuses it.

What the model says before its server has confirmed the settings of an agent, it says with those of the agent before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class SentSettings:
    """Keeps the updates of settings that a server has not answered yet.

    >>> sent = SentSettings()
    >>> sent.stamped({"type": "session.update", "session": {}}, agents=True)["event_id"]
    'keyturn_settings_1'
    >>> sent.confirmed(); sent.pending
    False
    """

    def __init__(self) -> None:
        # By the id of the event: whether the update is of another agent, or of what all agents share.
        self._open: dict[str, bool] = {}
        self._count = 0
        # Whether the server confirms settings at all, and whether it refused those of the agent at work.
        self._confirms = self._refused = False

    @property
    def pending(self) -> bool:
        """Return whether the settings of the last agent are not in force yet."""
        return self._confirms and (self._refused or any(self._open.values()))

    def stamped(self, message: Mapping[str, Any], *, agents: bool) -> dict[str, Any]:
        """Return an update with an id by which an error names it; it is noted as sent."""
        self._count += 1
        given: Any = message.get("event_id")
        name = given if isinstance(given, str) and given else f"keyturn_settings_{self._count}"
        self._open[name] = agents
        return {**message, "event_id": name}

    def confirmed(self) -> None:
        """Note that the server has applied the first update that it had not answered."""
        self._confirms = True
        if self._open and self._open.pop(next(iter(self._open))):
            self._refused = False

    def failed(self, name: object) -> None:
        """Note an error about the event of this id; the settings of before stay in force where it was an update."""
        if isinstance(name, str) and self._open.pop(name, False):
            self._refused = True
