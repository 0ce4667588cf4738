"""Read in a database's URL whether a pooler is in between, so that no transaction has the session of the last one.

And say why a database cannot be opened without a part of the password in its URL.
"""

from __future__ import annotations

import re

_WORD = r"(?:[\w.~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*"
_URL = re.compile(rf"postgres(?:ql)?://(?:{_WORD}(?::{_WORD})?@)?[\w.,:\[\]%-]*(?:/{_WORD})?(?:\?[^#@\s]*)?", re.ASCII)


def pooled_url(url: str) -> tuple[str, bool]:
    """Take `pooled=1` off a URL; return whether it was there.

    >>> pooled_url("postgresql://db/keyturn?sslmode=require&pooled=1")
    ('postgresql://db/keyturn?sslmode=require', True)
    """
    base, mark, query = url.partition("?")
    given = query.split("&") if mark else []
    left = [each for each in given if each not in ("pooled=1", "pooled=0")]
    return base + ("?" + "&".join(left) if left else ""), "pooled=1" in given


def why_unopened(url: str, error: Exception) -> str:
    """Return why a database cannot be opened, as the end of a sentence; not what may quote a part of the password.

    >>> why_unopened("postgresql://db/keyturn", OSError("it is down"))
    ': it is down'
    >>> why_unopened("postgresql://ann:pa@ss@db/keyturn", OSError("no host 'ss@db'")).partition(":")[0]
    ', and why is left out, since a part of the password may be in it'
    """
    if _URL.fullmatch(url) or getattr(getattr(error, "orig", error), "sqlstate", None) is not None:
        return f": {error}"
    # What libpq cannot read it quotes, and a password that is not escaped is part of that.
    return (
        ", and why is left out, since a part of the password may be in it: "
        "write postgresql://user:password@host:port/database, and percent-encode what is special in the password"
    )
