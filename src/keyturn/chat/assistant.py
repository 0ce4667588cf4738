"""Make the assistant: a deep agent on a folder, with commands where a sandbox can be made, and one tool for questions.

Every change of a file and every command asks the person, whatever the model says.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, LiteralString, NamedTuple

from ..agents.agent import Agent
from ..deep import Backend, FilesystemBackend, SandboxBackend, create_deep_agent
from ..tools.ask_user import ask_user
from ..tools.processes.bubblewrap import SandboxUnavailable
from .archive import AGENT

INSTRUCTIONS: LiteralString = (
    "You are an assistant in a terminal, working in the folder of the user. Answer in plain text, "
    "without Markdown, and briefly. Look before you act. Ask with ask_user when only the person can know."
)
_ASKING = {"write_file": True, "edit_file": True}


class Workplace(NamedTuple):
    """Says where the assistant works, and why it runs no commands there if it does not."""

    backend: Backend
    no_commands: str = ""


async def place_of(root: Path) -> Workplace:
    """Return the files below a folder, with commands in a sandbox if one can be made here."""
    sandbox = SandboxBackend(root)
    try:
        await sandbox.shell.check()
    except SandboxUnavailable as error:
        return Workplace(FilesystemBackend(root), str(error))
    return Workplace(sandbox)


def assistant_agent(model: object, backend: Backend) -> Agent[Any]:
    """Make the agent, the same in every process that goes on with its runs."""
    rules = _ASKING if backend.shell is None else {**_ASKING, "execute": True}
    deep = create_deep_agent(
        model, INSTRUCTIONS, tools=[ask_user()], interrupt_on=rules, backend=backend, name=AGENT, max_depth=1
    )
    return deep.core_agent()
