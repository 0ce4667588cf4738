"""Finds OpenAI's models by name, for those who want one account for all of them and no other provider.

It only makes models: which of the two APIs, with whose key. Names of other providers are `MultiProvider`'s business.
"""

from __future__ import annotations

from typing import Any

from ...core.settable import Sealed
from ..base import Model, ModelProvider
from .account import OpenAIAccount
from .chat import OpenAIChatCompletionsModel
from .defaults import OPENAI
from .responses import OpenAIResponsesModel


class OpenAIProvider(ModelProvider, Sealed):
    """Gives OpenAI's models, or those of a compatible server, all from one account.

    Which API it is, is said by `use_responses`, else by `set_default_openai_api`.

    >>> OpenAIProvider(api_key="sk-test").get_model("gpt-5.6-luna").model
    'gpt-5.6-luna'
    """

    def __init__(
        self,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        openai_client: Any = None,
        organization: str | None = None,
        project: str | None = None,
        use_responses: bool | None = None,
    ) -> None:
        self._account = OpenAIAccount(
            openai_client, api_key=api_key, base_url=base_url, organization=organization, project=project
        )
        self._use_responses = use_responses

    def get_model(self, model_name: str | None) -> Model:
        """Return the model of that name; None is the default model."""
        responses = OPENAI.api == "responses" if self._use_responses is None else self._use_responses
        return (OpenAIResponsesModel if responses else OpenAIChatCompletionsModel).of(model_name, self._account)

    async def aclose(self) -> None:
        """Close the client that was made here for the models."""
        await self._account.close()
