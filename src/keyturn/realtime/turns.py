"""Find the turn of the model in which something was made, and so the agent whose tools and guardrails are for it.

A turn is one response. It belongs to the agent whose settings the connection had when it began, whichever agent has
taken over since. It is found by the provider's id where the model names its responses, and else it is the one that is
under way. Words outside of a turn may be late ones of the last turn: the guardrails of both agents look at them.
"""

from __future__ import annotations

from dataclasses import dataclass

from .delivery import ConnectionDelivery

# So many turns are found by their names.
_NAMED = 64


@dataclass(eq=False, slots=True)
class Turn:
    """Holds one turn: its agent, by path, and the agent of the turn before where it may be of that one."""

    agent: str
    connection: ConnectionDelivery
    response: str = ""
    before: str | None = None
    begun: bool = False
    ended: bool = False
    #: Whether a guardrail has stopped it.
    stopped: bool = False

    @property
    def agents(self) -> tuple[str, ...]:
        """Return the paths of the agents whose guardrails look at what is said in it."""
        return (self.agent,) if self.before in (None, self.agent) else (self.agent, self.before)


class Turns:
    """Follows the turns of a session's model, and the turn of each message that is not recorded yet."""

    def __init__(self) -> None:
        #: The turn of each message that was told of since it was recorded last, in their order.
        self.of_item: dict[str, Turn] = {}
        self._current: Turn | None = None
        self._last: Turn | None = None
        self._named: dict[str, Turn] = {}

    def begin(
        self, response: str | None, connection: ConnectionDelivery, *, pending: bool = False
    ) -> tuple[Turn, bool]:
        """Begin a turn, and return it with whether it is new: one that is told twice is one.

        `pending` says that the settings which the connection was sent last were not in force when it began.
        """
        agent = connection.previous if pending else connection.agent
        turn = self._open(response, connection) or Turn(agent, connection, response or "")
        new, turn.begun = not turn.begun, True
        self._current = self._last = turn
        self._name(turn)
        return turn, new

    def end(self, response: str | None, connection: ConnectionDelivery) -> Turn:
        """End a turn, the one under way unless `response` names another, and return it."""
        named = self._named.get(response or "")
        turn = named or self.find(None, connection) or self._outside(connection)
        if named is None or named is self._current:
            self._current = None
        if not turn.begun:  # its name may be used again
            self._named.pop(turn.response, None)
        turn.ended = True
        return turn

    def find(self, response: str | None, connection: ConnectionDelivery) -> Turn | None:
        """Return the turn that this names, else the one under way on this connection; None outside of a turn."""
        if named := self._named.get(response or ""):
            return named
        return self._current if self._current is not None and self._current.connection is connection else None

    def of(self, item_id: str, response: str, connection: ConnectionDelivery) -> Turn:
        """Return the turn of a message: that in which it was first told of."""
        turn = self.of_item.get(item_id)
        if turn is None:
            turn = self.find(response, connection) or self._outside(connection, response)
            self.of_item[item_id] = turn
        return turn

    def take_whole(self) -> list[tuple[str, Turn]]:
        """Take the messages of all turns but the one under way."""
        whole = [(item_id, turn) for item_id, turn in self.of_item.items() if turn is not self._current]
        for item_id, _turn in whole:
            del self.of_item[item_id]
        return whole

    def _open(self, response: str | None, connection: ConnectionDelivery) -> Turn | None:
        turn = self._named.get(response or "")
        return None if turn is None or turn.ended or turn.connection is not connection else turn

    def _outside(self, connection: ConnectionDelivery, response: str = "") -> Turn:
        last = self._last
        before = last.agent if last is not None and last.connection is connection else None
        turn = Turn(connection.agent, connection, response, before)
        self._name(turn)
        return turn

    def _name(self, turn: Turn) -> None:
        if turn.response:
            self._named.pop(turn.response, None)
            self._named[turn.response] = turn
            if len(self._named) > _NAMED:
                del self._named[next(iter(self._named))]
