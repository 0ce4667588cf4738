"""Give the screens their palette, and what bars and dialogs look like."""

from __future__ import annotations

from typing import Any, LiteralString

from textual.app import App
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

DIALOGS: LiteralString = """
* {
  scrollbar-color: $panel-lighten-2; scrollbar-color-hover: $primary; scrollbar-color-active: $primary;
  scrollbar-background: $background; scrollbar-background-hover: $background; scrollbar-background-active: $background;
}

Dialog { align: center middle; background: $background 60%; }
.dialog {
  scrollbar-gutter: stable;
  width: 90%; max-width: 100; height: auto; max-height: 90%; border: round $primary; padding: 0 1;
  background: $surface;
}
.dialog Rows { margin: 0; }
.dialog Input { margin: 0; border: none; height: 1; padding: 0 1; background: $panel; }
.dialog Input:focus { border: none; background: $panel-lighten-2; }
.dialog OptionList { height: auto; max-height: 10; border: none; background: $surface; padding: 0; }
.dialog TextArea { border: round $panel-lighten-2; background: $surface; }
.dialog TextArea:focus { border: round $primary; }
"""


def wear(app: App[Any]) -> None:
    """Give a screen that is being made the palette: later, all of its CSS would be parsed and applied once more."""
    app.register_theme(THEME)
    app.set_reactive(App.theme, THEME.name)
    app.stylesheet.set_variables(app.get_css_variables())
