"""Read in a database's URL whether a pooler is in between, so that no transaction has the session of the last one."""

from __future__ import annotations


def pooled_url(url: str) -> tuple[str, bool]:
    """Take `pooled=1` off a URL; return whether it was there.

    >>> pooled_url("postgresql://db/keyturn?sslmode=require&pooled=1")
    ('postgresql://db/keyturn?sslmode=require', True)
    """
    base, mark, query = url.partition("?")
    given = query.split("&") if mark else []
    left = [each for each in given if each not in ("pooled=1", "pooled=0")]
    return base + ("?" + "&".join(left) if left else ""), "pooled=1" in given
