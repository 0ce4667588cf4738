"""What becomes of Ben, of the roles finance and ops, after he decided; Ada is the administrator. No test is here."""

from __future__ import annotations

from keyturn.directory.people import People


async def left(people: People) -> None:
    await people.remove("ben", by="ada")


async def left_and_came_back(people: People) -> None:
    await people.remove("ben", by="ada")
    await people.add("ben", roles=["finance", "ops"], by="ada")


async def lost_the_role(people: People) -> None:
    await people.take_role("finance", of="ben", by="ada")
