"""Choose the model that plays the demo: the one asked for, else a real one whose key is set, else the scripted one.

What was chosen is said, and what does not work is an error that says what to do: nothing takes another's place in
silence. What the scripted one says in the demo stands with each agent (`office/agents.py`).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, NamedTuple, TypedDict, Unpack

from ..core.errors import UserError
from ..models import default_provider
from ..models.base import ModelRequest
from ..models.faults import is_passing, status_of
from ..models.openai.defaults import OPENAI
from ..models.providers import PROVIDERS as NAMED
from ..models.routing import DEFAULT_VARIABLE, chosen_by_environment, split_name
from ..models.scripted.model import ScriptedModel, assistant_message
from ..models.scripted.script import Responder
from ..render.escape import escape
from ..support.lazy import is_installed
from .printing import command

SCRIPTED = "scripted"


class Playing(TypedDict, total=False):
    """Holds in which command a model plays, and what the scripted one says there."""

    program: str
    script: Responder


class DemoProvider(NamedTuple):
    """Describes a provider: its name, the variable of its key, its package, its default model, and its address."""

    name: str
    key: str
    package: str
    model: str
    address: str = ""


# In the order in which their keys are looked for.
PROVIDERS: dict[str, DemoProvider] = {
    "openai": DemoProvider("OpenAI", "OPENAI_API_KEY", "openai", ""),
    "anthropic": DemoProvider("Anthropic", "ANTHROPIC_API_KEY", "anthropic", "claude-sonnet-5"),
    "google": DemoProvider("Google", "GOOGLE_API_KEY", "google.genai", "gemini-3-flash"),
}


def _ready(_request: ModelRequest) -> list[Any]:
    return [assistant_message("Ready.")]


@dataclass(frozen=True)
class Player:
    """Names a model, or the scripted one, and why it was chosen; `program` is the command that it plays in."""

    name: str
    why: str = ""
    program: str = "demo"
    script: Responder = _ready

    @classmethod
    def chosen(cls, model: str | None = None, *, scripted: bool = False, **options: Unpack[Playing]) -> Player:
        """Choose the player by these flags and the keys in the environment.

        >>> Player.chosen(scripted=True).name
        'scripted'
        >>> Player.chosen("anthropic:claude-sonnet-5").provider.name
        'Anthropic'
        """
        if scripted or model == SCRIPTED:
            return cls(SCRIPTED, **options)
        if model is not None:
            return cls(model, "--model names it", **options)
        if named := chosen_by_environment():
            return cls(named, f"{DEFAULT_VARIABLE} names it; --model names another, --scripted needs none", **options)
        for prefix, provider in PROVIDERS.items():
            if os.environ.get(provider.key, "").strip():
                name = provider.model or OPENAI.model_name()
                why = f"{provider.key} is set; --model names another, --scripted needs none"
                return cls(f"{prefix}:{name}", why, **options)
        return cls(SCRIPTED, "no provider's key is set", **options)

    @property
    def is_real(self) -> bool:
        """Return whether a provider is asked, so that nobody knows what will happen."""
        return self.name != SCRIPTED

    @property
    def provider(self) -> DemoProvider:
        """Return the provider that is asked; a bare name is OpenAI's."""
        prefix = split_name(self.name)[0] or "openai"
        if row := NAMED.get(prefix):
            return DemoProvider(row.title, row.key, "openai" if row.address else "", "", row.base_url())
        prefix = prefix.partition("-")[0]
        return PROVIDERS.get(prefix) or DemoProvider(prefix, "", "", "")

    def sentence(self) -> str:
        """Describe which model plays, for people."""
        if not self.is_real:
            because = f", because {self.why}" if self.why else ""
            return f"scripted{because}: it answers from the conversation alone, without a key or network"
        because = f" ({self.why})" if self.why else ""
        return f"{self.name}, asked over the network{because}; its replies are not known in advance"

    def model(self) -> Any:
        """Return the model, or raise `UserError` that says what is missing."""
        if not self.is_real:
            return ScriptedModel(self.script)
        package = self.provider.package
        if package and not is_installed(package):
            extra = package.partition(".")[0]
            raise UserError(
                f"{self.name} needs the package {package!r}, which is not installed: pip install 'keyturn[{extra}]', "
                f"{self._without()}"
            )
        row = NAMED.get(split_name(self.name)[0] or "")
        if row is not None and row.address:
            row.key_in_use()
        return default_provider().get_model(self.name)

    def trouble(self, error: Exception) -> str | None:
        """Describe a provider's error, None where it is none, without what it says of a key."""
        status, who = status_of(error), self.provider
        if status in (401, 403) or (status == 400 and "api key" in str(error).lower()):
            return f"{who.name} did not accept the key in {who.key} ({status}): set another one, {self._without()}"
        if status == 404:
            return f"{who.name} knows no model {self.name!r} (404): name another one with --model, {self._without()}"
        if status == 429:
            return f"{who.name} is rate limited (429), or the account has no credit: try later, {self._without()}"
        if status is None and not is_passing(error):
            return None
        said = escape(" ".join(str(error).split())[:200], keep="")
        where = f" at {who.address}" if who.address else ""
        return f"{who.name} did not answer{where} ({type(error).__name__}: {said}): try again, {self._without()}"

    def _without(self) -> str:
        return f"or run without a provider: {command()} {self.program} --scripted"
