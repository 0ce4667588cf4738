"""Sign the first person in: one link, printed where the server was started, with a QR code if a phone can open it."""

from __future__ import annotations

import getpass
import io

import segno

from ...directory.people import People
from ...support.urls import opens_elsewhere


async def first_link(people: People, person: str, name: str = "") -> str:
    """Begin a directory with its first person, who administers it, and return the secret of their link.

    In a directory that was begun already there is nothing to do for a stranger: "".
    """
    if (await people.directory()).place:
        return ""
    await people.start(person, name)
    return await people.make_link(person, by=person)


async def unused_link(people: People, person: str = "") -> str:
    """Return the secret of a link for the first administrator, until somebody has signed in; "" from then on.

    A link that was printed before, and never used, is remembered by nobody: there is another one.
    """
    directory = await people.directory()
    if not directory.place:
        return await first_link(people, person or getpass.getuser())
    if directory.tokens or directory.keys or any(each.used for each in directory.links.values()):
        return ""
    admin = directory.admins()[0]
    return await people.make_link(admin, by=admin)


def invitation(link: str, of: str = "") -> list[str]:
    """Return the rows that tell somebody of a one-time link, with a QR code where another device can open it.

    >>> invitation("http://localhost:8321/enter#kt_1_2")
    ['One-time sign-in link (valid for 24 hours): http://localhost:8321/enter#kt_1_2']
    """
    whose = f" for {of}" if of else ""
    words = f"One-time sign-in link{whose} (valid for 24 hours): {link}"
    return [*drawn(link).splitlines(), words] if opens_elsewhere(link) else [words]


def drawn(link: str) -> str:
    """Return a link as a QR code for a terminal.

    >>> len(drawn("http://localhost:8321/enter#kt_1_2").splitlines()) > 10
    True
    """
    out = io.StringIO()
    segno.make(link, error="m", micro=False).terminal(out=out, compact=True, border=2)
    return out.getvalue()
