"""The people of the demo: two who decide, in two roles, and those for whom the agents work."""

from __future__ import annotations

from pathlib import Path
from typing import LiteralString, NamedTuple

from ...application.app import App


class Seated(NamedTuple):
    """Holds somebody who decides: their id, their roles, the secret of their link, and the file of their token."""

    id: str
    roles: LiteralString
    link: str
    token: Path


async def seat_people(app: App, home: Path) -> list[Seated]:
    """Begin the directory with its people; return those who decide."""
    people = app.people
    await people.start("ada", "Ada Lovelace")
    for role in ("finance", "ops"):
        await people.give_role(role, to="ada", by="ada")
    await people.add("ben", "Ben Bitdiddle", roles=["finance"], by="ada")
    await people.add("cyd", "Cyd Charisse", by="ada")
    await people.add("eve", "Eve Online", by="ada")
    seated = list[Seated]()
    roles: dict[str, LiteralString] = {"ada": "finance and ops, administers it", "ben": "finance"}
    for name, words in roles.items():
        token = home / f"{name}.token"
        token.touch(mode=0o600)
        token.write_text(await people.issue_token(name, ["decide", "read"], by="ada"), encoding="utf-8")
        seated.append(Seated(name, words, await people.make_link(name, by="ada"), token))
    return seated
