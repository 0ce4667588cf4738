"""Re-export how a model is asked again under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from . import ModelRetryAdvice as ModelRetryAdvice
from . import ModelRetryBackoffSettings as ModelRetryBackoffSettings
from . import ModelRetryNormalizedError as ModelRetryNormalizedError
from . import ModelRetrySettings as ModelRetrySettings
from . import RetryDecision as RetryDecision
from . import RetryPolicy as RetryPolicy
from . import RetryPolicyContext as RetryPolicyContext
from . import retry_policies as retry_policies
from .support.missing import speaks

speaks(__name__)
