"""Re-export who applies patches under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from . import ApplyPatchEditor as ApplyPatchEditor
from . import ApplyPatchOperation as ApplyPatchOperation
from . import ApplyPatchResult as ApplyPatchResult
from .support.missing import speaks
from .tools.patches.editor import ApplyPatchOperationType as ApplyPatchOperationType

speaks(__name__)
