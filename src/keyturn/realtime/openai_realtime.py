"""Re-export OpenAI's realtime models under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from .model import get_api_key as get_api_key
from .openai_session import DEFAULT_MODEL_SETTINGS as DEFAULT_MODEL_SETTINGS
from .openai_session import DEFAULT_REALTIME_MODEL as DEFAULT_REALTIME_MODEL
from .openai_sip import OpenAIRealtimeSIPModel as OpenAIRealtimeSIPModel
from .openai_socket import TransportConfig as TransportConfig
from .openai_websocket import OpenAIRealtimeWebSocketModel as OpenAIRealtimeWebSocketModel
