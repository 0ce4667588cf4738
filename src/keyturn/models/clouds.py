"""Models in the clouds of Microsoft, Amazon and Google, asked through the official clients' own variants.

Which client it is follows from the cloud and the model's name; keys, regions and projects come from the variables that
those clients read. A client that cannot be made is a `UserError` with what to set.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any

from ..core.errors import UserError
from ..core.settable import own_of
from ..support.lazy import is_installed
from .anthropic.model import AnthropicModel
from .base import Model
from .google.model import GoogleModel, gemini_client
from .openai.account import OpenAIAccount, OpenAIModel, new_client
from .openai.chat import OpenAIChatCompletionsModel
from .openai.responses import OpenAIResponsesModel
from .per_loop import certificates


def azure(name: str, _prefix: str) -> Model:
    """Return the model of an Azure deployment, asked by the Responses API."""
    return _of_openai(OpenAIResponsesModel, name, _azure_client, "azure.ai.openai")


def azure_chat(name: str, _prefix: str) -> Model:
    """Return the model of an Azure deployment, asked by Chat Completions."""
    return _of_openai(OpenAIChatCompletionsModel, name, _azure_client, "azure.ai.openai")


def bedrock(name: str, _prefix: str) -> Model:
    """Return a model of Bedrock: Claude by Anthropic's client, every other one by OpenAI's."""
    if "anthropic." not in name and "claude" not in name:
        return _of_openai(OpenAIChatCompletionsModel, name, _bedrock_client, "aws.bedrock")
    return _traced(AnthropicModel.made_by(name, _claude_on_bedrock), "aws.bedrock")


def vertex(name: str, _prefix: str) -> Model:
    """Return a model of Vertex AI: Claude by Anthropic's client, Gemini by Google's."""
    if name.startswith("claude"):
        return _traced(AnthropicModel.made_by(name, _claude_on_vertex), "gcp.vertex_ai")
    return _traced(GoogleModel.made_by(name, _gemini_on_vertex), "gcp.vertex_ai")


def _of_openai(kind: type[OpenAIModel], name: str, make: Callable[[], Any], trace: str) -> Model:
    return _traced(kind.of(name, OpenAIAccount(make=make)), trace)


def _traced(model: Model, name: str) -> Model:
    own_of(model)["provider"] = name
    return model


def _said_by_us(cloud: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Make what a client's constructor misses an error of ours, which names the cloud."""

    def decorate(make: Callable[[], Any]) -> Callable[[], Any]:
        @wraps(make)
        def made() -> Any:
            try:
                return make()
            except UserError:
                raise
            except Exception as error:
                raise UserError(f"{cloud}: {error}") from error

        return made

    return decorate


def _variable(*names: str) -> str | None:
    return next((value for name in names if (value := os.environ.get(name, "").strip())), None)


@_said_by_us("Azure OpenAI")
def _azure_client() -> Any:
    endpoint = _variable("AZURE_OPENAI_ENDPOINT")
    if endpoint is None:
        raise UserError("Azure OpenAI needs the address of a resource: set AZURE_OPENAI_ENDPOINT")
    key = _variable("AZURE_OPENAI_AD_TOKEN", "AZURE_OPENAI_API_KEY")
    if key is None:
        raise UserError("Azure OpenAI needs a key: set AZURE_OPENAI_API_KEY or AZURE_OPENAI_AD_TOKEN")
    if _variable("OPENAI_API_VERSION"):  # the API whose versions are dates
        return new_client("AsyncAzureOpenAI", azure_endpoint=endpoint)
    return new_client(api_key=key, base_url=f"{endpoint.rstrip('/')}/openai/v1/")


@_said_by_us("Amazon Bedrock")
def _bedrock_client() -> Any:
    if _variable("AWS_BEARER_TOKEN_BEDROCK") is None and not is_installed("botocore"):
        raise UserError(
            "Amazon Bedrock needs a key: set AWS_BEARER_TOKEN_BEDROCK and AWS_REGION; for other credentials of AWS, "
            "pip install 'openai[bedrock]'"
        )
    made: Any = import_module("openai.providers").bedrock
    return new_client(provider=made(endpoint="runtime"))


@_said_by_us("Amazon Bedrock")
def _claude_on_bedrock() -> Any:
    if not is_installed("botocore"):
        raise UserError("Claude on Amazon Bedrock needs the package 'boto3': pip install 'anthropic[bedrock]'")
    return _anthropic("AsyncAnthropicBedrock")


@_said_by_us("Vertex AI")
def _claude_on_vertex() -> Any:
    project, region = _vertex_place()
    if project is None:
        raise UserError("Claude on Vertex AI needs a project: set GOOGLE_CLOUD_PROJECT")
    return _anthropic("AsyncAnthropicVertex", project_id=project, region=region)


@_said_by_us("Vertex AI")
def _gemini_on_vertex() -> Any:
    project, region = _vertex_place()
    if project is not None:
        return gemini_client(enterprise=True, project=project, location=region)
    key = _variable("GOOGLE_API_KEY", "GEMINI_API_KEY")
    if key is None:
        raise UserError("Vertex AI needs a project or a key: set GOOGLE_CLOUD_PROJECT or GOOGLE_API_KEY")
    return gemini_client(enterprise=True, api_key=key)


def _vertex_place() -> tuple[str | None, str]:
    project = _variable("ANTHROPIC_VERTEX_PROJECT_ID", "GOOGLE_CLOUD_PROJECT")
    return project, _variable("CLOUD_ML_REGION", "GOOGLE_CLOUD_LOCATION") or "global"


def _anthropic(kind: str, **settings: Any) -> Any:
    package: Any = import_module("anthropic")
    lines = package.DefaultAsyncHttpxClient(verify=certificates())
    return getattr(package, kind)(http_client=lines, **settings)
