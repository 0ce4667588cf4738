"""Say how the inbox is laid out, in Textual's CSS; what dialogs look like is the same on every screen."""

from __future__ import annotations

from typing import LiteralString

from ..screens.theme import DIALOGS

CSS: LiteralString = (
    """
Screen { layout: vertical; }
#top { height: 1; padding: 0 1; background: $panel; }
#fresh { height: 1; padding: 0 1; }
#middle { height: 1fr; }
#left { width: 44; height: 1fr; border-right: solid $panel; }
#list { height: 1fr; scrollbar-size-vertical: 1; }
#list:focus { background: $surface; }
#empty { height: auto; padding: 1; display: none; }
#search { display: none; height: 1; border: none; padding: 0 1; background: $panel; }
#search:focus { border: none; background: $panel-lighten-2; }
#right { width: 1fr; height: 1fr; padding: 0 1; }
#head { height: auto; margin: 0 0 1 0; }
#asked { height: 1fr; min-height: 3; scrollbar-size-vertical: 1; }
#asked:focus { background: $surface; }
#asked-known { margin: 1 0 0 0; }
#asked-notice { height: auto; }
#asked-keys { height: auto; margin: 1 0 0 0; }
Screen.-short #asked-keys { margin: 0; }
Screen.-short #head { margin: 0; }
Screen.-narrow #left { width: 1fr; border-right: none; }
Screen.-narrow #right { display: none; }
Screen.-narrow.-opened #left { display: none; }
Screen.-narrow.-opened #right { display: block; }
"""
    + DIALOGS
)
