"""The providers that the name of a model may begin with: who answers where, with which key, and what its API lacks.

One row is one provider. What makes its models is named as text and imported on first use. Most rows are servers with
the Chat Completions API: `Lacks` says where they fall short of it. Nothing here imports a provider's package.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

from ..core.errors import UserError


@dataclass(frozen=True)
class Lacks:
    """Says where a server falls short of the Chat Completions API.

    What only tunes a reply is left out, and what is checked here anyway is asked for in words. The rest is an error
    before the request.
    """

    #: Strict schemas of tools are not sent: arguments are checked here all the same.
    strict: bool = False
    #: No tool can be forced (an error), or not by its name: then that tool alone is offered and one is required.
    forced: Literal["", "named", "all"] = ""
    #: The output type is asked for in words: always, beside tools, or beside tools and in streams.
    schema: Literal["", "always", "tools", "tools and streams"] = ""
    #: Streams report usage without being asked, and `stream_options` is refused.
    stream_usage: bool = False
    #: Thoughts and refusals are given and not taken back.
    thoughts: bool = False
    #: Settings that are refused: they are left out, with a warning the first time.
    settings: tuple[str, ...] = ()
    #: What an id of a call must match; other ids are hashed to nine letters and digits.
    call_ids: str = ""


@dataclass(frozen=True)
class NamedProvider:
    """Describes a provider: its name, what makes its models, its address, and the variables of key and address."""

    title: str
    key: str
    address: str
    address_variable: str
    lacks: Lacks = Lacks()
    #: Whether it answers without a key, as servers on one's own machine do.
    keyless: bool = False
    #: What traces call it.
    trace: str = ""
    made_by: str = "keyturn.models.openai.compatible:CompatibleModel"

    def base_url(self) -> str:
        """Return the address: that of the environment, else the provider's own."""
        return os.environ.get(self.address_variable, "").strip() or self.address

    def key_in_use(self) -> str:
        """Return the key, or raise `UserError` that says which variable to set; a local server takes any text.

        >>> PROVIDERS["ollama"].key_in_use()
        'none'
        """
        key = os.environ.get(self.key, "").strip()
        if not key and not self.keyless:
            raise UserError(f"{self.title} needs a key: set {self.key}")
        return key or "none"


_MISTRAL = Lacks(
    strict=True,
    stream_usage=True,
    thoughts=True,
    settings=("store", "verbosity", "metadata", "prompt_cache_retention", "top_logprobs"),
    call_ids="[A-Za-z0-9]{9}",
)
_CLOUDS = "keyturn.models.clouds"

#: What each prefix means. A new server with the Chat Completions API is one row.
PROVIDERS: dict[str, NamedProvider] = {
    "ollama": NamedProvider(
        "Ollama", "OLLAMA_API_KEY", "http://localhost:11434/v1", "OLLAMA_BASE_URL",
        Lacks(strict=True, forced="all", settings=("parallel_tool_calls",)), keyless=True, trace="ollama",
    ),
    "llama.cpp": NamedProvider(
        "llama.cpp", "LLAMA_API_KEY", "http://localhost:8080/v1", "LLAMA_CPP_BASE_URL",
        Lacks(strict=True, forced="named"), keyless=True, trace="llama.cpp",
    ),
    "vllm": NamedProvider(
        "vLLM", "VLLM_API_KEY", "http://localhost:8000/v1", "VLLM_BASE_URL", keyless=True, trace="vllm"
    ),
    "lmstudio": NamedProvider(
        "LM Studio", "LM_API_TOKEN", "http://localhost:1234/v1", "LMSTUDIO_BASE_URL",
        Lacks(strict=True, forced="named"), keyless=True, trace="lmstudio",
    ),
    "openrouter": NamedProvider(
        "OpenRouter", "OPENROUTER_API_KEY", "https://openrouter.ai/api/v1", "OPENROUTER_BASE_URL", trace="openrouter"
    ),
    "groq": NamedProvider(
        "Groq", "GROQ_API_KEY", "https://api.groq.com/openai/v1", "GROQ_OPENAI_BASE_URL",
        Lacks(schema="tools and streams", settings=("top_logprobs",)), trace="groq",
    ),
    "mistral": NamedProvider(
        "Mistral", "MISTRAL_API_KEY", "https://api.mistral.ai/v1", "MISTRAL_BASE_URL", _MISTRAL, trace="mistral_ai"
    ),
    "deepseek": NamedProvider(
        "DeepSeek", "DEEPSEEK_API_KEY", "https://api.deepseek.com", "DEEPSEEK_BASE_URL",
        Lacks(strict=True, schema="always"), trace="deepseek",
    ),
    "xai": NamedProvider("xAI", "XAI_API_KEY", "https://api.x.ai/v1", "XAI_BASE_URL", trace="x_ai"),
    "together": NamedProvider(
        "Together AI", "TOGETHER_API_KEY", "https://api.together.xyz/v1", "TOGETHER_BASE_URL", trace="together"
    ),
    "fireworks": NamedProvider(
        "Fireworks AI", "FIREWORKS_API_KEY", "https://api.fireworks.ai/inference/v1", "FIREWORKS_BASE_URL",
        Lacks(schema="tools"), trace="fireworks",
    ),
    "azure": NamedProvider(
        "Azure OpenAI", "AZURE_OPENAI_API_KEY", "", "AZURE_OPENAI_ENDPOINT", made_by=f"{_CLOUDS}:azure"
    ),
    "azure-chat": NamedProvider(
        "Azure OpenAI", "AZURE_OPENAI_API_KEY", "", "AZURE_OPENAI_ENDPOINT", made_by=f"{_CLOUDS}:azure_chat"
    ),
    "bedrock": NamedProvider(
        "Amazon Bedrock", "AWS_BEARER_TOKEN_BEDROCK", "", "AWS_REGION", keyless=True, made_by=f"{_CLOUDS}:bedrock"
    ),
    "vertex": NamedProvider(
        "Vertex AI", "GOOGLE_CLOUD_PROJECT", "", "GOOGLE_CLOUD_LOCATION", keyless=True, made_by=f"{_CLOUDS}:vertex"
    ),
    "litellm": NamedProvider(
        "LiteLLM", "", "", "", keyless=True, made_by="keyturn.models.litellm:litellm_model"
    ),
}  # fmt: skip
