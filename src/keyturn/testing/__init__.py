"""For tests: models that say what they are told, people who always decide, and the shared suite of each seam.

Each name is imported when first used, so that a scripted model needs no pytest. Installed, this is a pytest plugin
too, with the fixtures `scripted_model`, `approve_all` and `journal`.

>>> from keyturn import Agent, Runner
>>> Runner.run_sync(Agent("a", model=ScriptedModel(["hello"])), "hi").final_output
'hello'
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "Answer": "testing.crash",
    "InvalidModelStep": "models.script",
    "JournalSuite": "testing.journals",
    "ModelScriptError": "models.script",
    "ModelStep": "models.script",
    "ModelSuite": "testing.models",
    "PolicySuite": "testing.policies",
    "ScriptedModel": "models.scripted",
    "SessionSuite": "testing.sessions",
    "StreamEvent": "models.reply_events",
    "Told": "audit.report",
    "ToolSuite": "testing.tools",
    "UnconsumedModelSteps": "models.script",
    "UnexpectedModelCall": "models.script",
    "approve_all": "testing.decisions",
    "assistant_message": "models.scripted_items",
    "check": "audit.checker",
    "decide": "testing.decisions",
    "drive": "testing.decisions",
    "function_call": "models.scripted_items",
    "heads": "audit.checker",
    "last_user_text": "models.scripted_items",
    "reasoning": "models.scripted_items",
    "refusal": "models.scripted_items",
    "reject_all": "testing.decisions",
    "tool_outputs": "models.scripted_items",
}

__all__ = [*_HOMES]  # pyright: ignore[reportUnsupportedDunderAll]  # the table is the list; the stub spells it out


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"keyturn.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
