"""Let the first person in: one link, printed where the server was started."""

from __future__ import annotations

import io

import segno

from ...directory.people import People


async def first_link(people: People, person: str, name: str = "") -> str:
    """Begin a directory with its first person, who administers it, and return the secret of their link.

    In a directory that was begun already there is nothing to do for a stranger: "".
    """
    if (await people.directory()).place:
        return ""
    await people.start(person, name)
    return await people.make_link(person, by=person)


def drawn(link: str) -> str:
    """Return a link as a QR code for a terminal.

    >>> len(drawn("http://localhost:8321/enter#kt_1_2").splitlines()) > 10
    True
    """
    out = io.StringIO()
    segno.make(link, error="m", micro=False).terminal(out=out, compact=True, border=2)
    return out.getvalue()
