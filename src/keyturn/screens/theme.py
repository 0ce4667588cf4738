"""Give the screens their palette."""

from __future__ import annotations

from textual.theme import Theme

THEME = Theme(
    "keyturn",
    primary="#6cb6ff",
    secondary="#dcbdfb",
    accent="#39c5cf",
    warning="#e3b341",
    error="#ff938a",
    success="#6bc46d",
    foreground="#dfe5ec",
    background="#12161c",
    surface="#1a2029",
    panel="#242c37",
    variables={"quiet": "#909dab"},
)
