"""Who is measured. A subject is one file here with a class `Driver`, and one row below.

A driver is made with a `Script`; it says how its library does each step, and the workloads put the steps together:

- `await start()` begins a run and returns its handle: finished, or paused with calls that wait;
- `pending(handle)` counts the calls that wait;
- `save(handle)` gives the paused run as text (or bytes), `await load(text)` makes a handle of it again;
- `await approve(handle)` approves every call that waits and resumes: the next handle;
- `shelf(path)` has the runs kept in that file from now on, and gives what takes `keep(text)`, `found()` and `close()`;
  absent if it has no journal of its own;
- `await stream()` runs streamed and returns the text deltas that reached the consumer; absent if it has no such thing;
- `await over_wire(api, url)` does the same with a model of its own behind a server. `APIS` are the wire formats that it
  speaks here, `SDK` says whether by the provider's SDK; absent if it speaks none.

Nothing is imported here, so that a missing peer costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple


class Subject(NamedTuple):
    """One library under measurement. `imports` is what its user writes at the top of a file."""

    name: str
    module: str
    package: str
    imports: str
    peer: bool = True
    deep: bool = False  # makes deep agents, and is measured by those rows alone, in an environment of its own

    def driver(self) -> Any:
        """Its `Driver` class; imports the library."""
        return import_module(f"benchmarks.subjects.{self.module}").Driver

    def version(self) -> str:
        """The release that is installed, or nothing for a tree that is not installed."""
        try:
            return version(self.package)
        except PackageNotFoundError:
            return ""


SUBJECTS = {
    subject.name: subject
    for subject in (
        Subject("keyturn", "keyturn", "keyturn", "from keyturn import Agent, Runner, RunState, function_tool", False),
        Subject("floor", "floor", "msgspec", "import asyncio, msgspec", False),
        Subject(
            "openai-agents",
            "openai_agents",
            "openai-agents",
            "from agents import Agent, Runner, RunState, function_tool",
        ),
        Subject(
            "pydantic-ai",
            "pydantic_ai",
            "pydantic-ai-slim",
            "from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ModelMessagesTypeAdapter",
        ),
        Subject(
            "langgraph",
            "langgraph_agent",
            "langgraph",
            "from langchain.agents import create_agent\n"
            "from langchain.agents.middleware import HumanInTheLoopMiddleware\n"
            "from langgraph.checkpoint.memory import InMemorySaver\n"
            "from langgraph.types import Command",
        ),
        Subject(
            "langgraph-raw",
            "langgraph_raw",
            "langgraph",
            "from langgraph.graph import StateGraph\n"
            "from langgraph.checkpoint.memory import InMemorySaver\n"
            "from langgraph.types import Command, interrupt",
        ),
        Subject(
            "pydantic-deep",
            "pydantic_deep_agent",
            "pydantic-deep",
            "from pydantic_deep import DeepAgentDeps, create_deep_agent",
            deep=True,
        ),
        Subject("deepagents", "deepagents_agent", "deepagents", "from deepagents import create_deep_agent", deep=True),
    )
}
