"""Use a Keyturn server from a program: start runs, follow them, and decide, with the words and errors of an `App`."""

from __future__ import annotations

from .blocking import Client as Client
from .client import AsyncClient as AsyncClient
from .sending import ServerError as ServerError
