"""A path of the OpenAI Agents SDK: the version. It defines nothing."""

from __future__ import annotations

from . import __version__ as __version__
from ._missing import speaks

speaks(__name__)
