"""The demo's app, as `keyturn worker keyturn.cli.office.app:app` finds it: the same agents on the same journal.

The environment says where: whoever starts the demo's processes sets it.
"""

from __future__ import annotations

import os

from ...application.app import App
from ..demo_player import SCRIPTED, Player
from .agents import agents
from .tools import HOME, home

MODEL = "KEYTURN_DEMO_MODEL"


def journal_url() -> str:
    """Return the URL of the demo's journal."""
    return f"sqlite:///{home() / 'demo.db'}"


def made(*, worker: bool = True) -> App:
    """Make the app on the demo's journal."""
    name = os.environ.get(MODEL, SCRIPTED)
    player = Player(name)
    return App(agents(player.model() if player.is_real else None), journal_url(), worker=worker)


def __getattr__(name: str) -> App:
    if name != "app" or HOME not in os.environ:
        raise AttributeError(name)
    return made()
