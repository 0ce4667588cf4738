"""How much a server may say and how long it may take: no answer makes memory, work or waiting unbounded."""

from __future__ import annotations

MESSAGE_BYTES = 16 << 20
"""The largest message that is read. What is larger is not, and the connection it came on is closed."""

NOISE_BYTES = 1 << 20
"""How much may be written to a server's output that is no message, before it counts as broken."""

LIST_PAGES = 100
LIST_TOOLS = 1000
LIST_BYTES = 4 << 20
LIST_DEPTH = 40
"""What a listing may come to, all pages together, and how deep a tool in it may be nested: a log must hold it."""

PARKED_CALLS = 64
"""How many calls of one server may stand open and wait for people; the one that waits longest gives way."""

CONNECT_SECONDS = 30.0
STOP_SECONDS = 1.0
"""How long a server's process may take to end by itself, and again after it was told to."""
