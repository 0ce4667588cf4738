"""Say how the screen is laid out and coloured, in Textual's CSS, and with which palette."""

from __future__ import annotations

from typing import LiteralString

from ..screens.theme import DIALOGS

CSS: LiteralString = (
    """
Screen { layout: vertical; }
#top { height: 1; padding: 0 1; background: $panel; }
#middle { height: 1fr; }
#talk { width: 1fr; height: 1fr; padding: 0 1; scrollbar-size-vertical: 1; scrollbar-gutter: stable; }
#talk .entry { margin: 0; }
#talk .words { margin: 1 0; }
#live { margin: 1 0 0 0; }
#side { width: 34; height: 1fr; padding: 0 1; border-left: solid $panel; scrollbar-size-vertical: 1; display: none; }
Screen.-wide #side { display: block; }
Screen.-wide.-flipped #side { display: none; }
Screen.-flipped #side { display: block; }
Screen.-narrow.-flipped #side { width: 1fr; border-left: none; }
Screen.-narrow.-flipped #talk { display: none; }

#request { height: auto; border: round $warning; padding: 0 1; }
#request:focus-within { border: round $success; }
#asked { height: auto; scrollbar-size-vertical: 1; }
#asked-notice { height: auto; }
#asked-keys { height: auto; margin: 0; }
Screen.-tall #asked-keys { margin: 1 0 0 0; }

#state { height: auto; max-height: 3; padding: 0 1; }
#prompt {
  height: auto; min-height: 3; max-height: 8; border: round $panel-lighten-2; padding: 0 1; background: $background;
}
#prompt:focus { border: round $primary; }

"""
    + DIALOGS
)
