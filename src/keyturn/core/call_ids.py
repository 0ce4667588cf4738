"""Make and read the name of a call: where in a run it stands.

The root frame is "r", call 0 of its first turn is "r/1.0", and the frame that a call opens bears that call's name.
"""

from __future__ import annotations

ROOT = "r"


def call_id(frame: str, turn: int, index: int) -> str:
    """Return the id of a call: its frame, the turn of the frame, its place in that reply.

    >>> call_id(ROOT, 1, 0)
    'r/1.0'
    """
    return f"{frame}/{turn}.{index}"


def frame_of(call: str) -> str:
    """Return the id of the frame in which a call was made.

    >>> frame_of("r/1.0/2.3")
    'r/1.0'
    """
    return call.rpartition("/")[0]


def place_of(call: str) -> list[tuple[int, ...]]:
    """Return a sort key for calls: turn and index at each depth, so that the tenth comes after the ninth.

    >>> place_of("r/1.10/2.3")
    [(1, 10), (2, 3)]
    """
    return [tuple(map(int, part.split("."))) for part in call.split("/")[1:]]


def is_below(call: str, frame: str) -> bool:
    """Return whether a call or frame is inside a frame, at any depth.

    >>> is_below("r/1.0/2.3", "r/1.0"), is_below("r/1.0", "r/1.0")
    (True, False)
    """
    return call.startswith(frame + "/")
