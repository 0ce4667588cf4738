"""For tests: scripted models, automatic decisions, crash sweeps, and the shared suite of each seam.

Each name is imported when first used, so that a scripted model needs no pytest. Installed, this is a pytest plugin
too, with the fixtures `scripted_model`, `approve_all` and `journal`.

>>> from keyturn import Agent, Runner
>>> Runner.run_sync(Agent("a", model=ScriptedModel(["hello"])), "hi").final_output
'hello'
"""

from __future__ import annotations

from typing import Any

from ..support.lazy import lazy_names

_HOMES = {
    "Answer": "testing.crash",
    "ChannelSuite": "testing.suites.channels",
    "BackendSuite": "testing.suites.backends",
    "EngineSuite": "testing.suites.engines",
    "InvalidModelStep": "models.scripted.script",
    "JournalSuite": "testing.suites.journals",
    "ModelCall": "models.scripted.model",
    "ModelRequest": "models.base",
    "ModelScriptError": "models.scripted.script",
    "ModelStep": "models.scripted.script",
    "ModelSuite": "testing.suites.models",
    "OutboxSuite": "testing.suites.outboxes",
    "PolicySuite": "testing.suites.policies",
    "ScriptedModel": "models.scripted.model",
    "SessionSuite": "testing.suites.sessions",
    "StreamEvent": "models.reply_events",
    "Told": "audit.report",
    "ToolSuite": "testing.suites.tools",
    "UnconsumedModelSteps": "models.scripted.script",
    "UnexpectedModelCall": "models.scripted.script",
    "approve_all": "testing.decisions",
    "assistant_message": "models.scripted.items",
    "check": "audit.checker",
    "decide": "testing.decisions",
    "drive": "testing.decisions",
    "function_call": "models.scripted.items",
    "heads": "audit.checker",
    "last_user_text": "models.scripted.items",
    "reasoning": "models.scripted.items",
    "refusal": "models.scripted.items",
    "reject_all": "testing.decisions",
    "tool_outputs": "models.scripted.items",
}

__all__ = [*_HOMES]  # pyright: ignore[reportUnsupportedDunderAll]  # the table is the list; the stub spells it out

_public, __dir__ = lazy_names(globals(), _HOMES, root="keyturn")


def __getattr__(name: str) -> Any:
    try:
        return _public(name)
    except ModuleNotFoundError as error:
        if error.name not in ("pytest", "pytest_asyncio"):
            raise
        raise ImportError(f"{name} needs the package {error.name!r}: pip install 'keyturn[testing]'") from error
